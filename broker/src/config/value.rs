//! How the value of a key is read from and written as text.

use remoting::{ClientAuth, Secret, TlsMode};

/// A type that a key can have.
pub(crate) trait Value: Sized {
    /// What may be written, for people.
    const ALLOWED: &'static str;

    /// Reads a trimmed text; `None` where it is not allowed.
    fn read(text: &str) -> Option<Self>;

    /// The text that [`Value::read`] takes back.
    fn write(&self) -> String;

    /// The value as a number, for the range of a key.
    fn number(&self) -> Option<i128> {
        None
    }
}

impl Value for String {
    const ALLOWED: &'static str = "text";

    fn read(text: &str) -> Option<Self> {
        Some(text.to_owned())
    }

    fn write(&self) -> String {
        self.clone()
    }
}

/// Java's `parseBoolean` takes every typing error for false; here only the two words are taken.
impl Value for bool {
    const ALLOWED: &'static str = "true or false";

    fn read(text: &str) -> Option<Self> {
        if text.eq_ignore_ascii_case("true") {
            Some(true)
        } else if text.eq_ignore_ascii_case("false") {
            Some(false)
        } else {
            None
        }
    }

    fn write(&self) -> String {
        self.to_string()
    }
}

macro_rules! whole_numbers {
    ($($type:ty),*) => {$(
        impl Value for $type {
            const ALLOWED: &'static str = "a whole number";

            fn read(text: &str) -> Option<Self> {
                text.parse().ok()
            }

            fn write(&self) -> String {
                self.to_string()
            }

            fn number(&self) -> Option<i128> {
                Some(i128::from(*self))
            }
        }
    )*};
}

whole_numbers!(u16, u32, u64, i32, i64);

/// `flushDiskType`: what makes a message acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlushDiskType {
    /// Fsynced on a majority of the group. The default here; Java's is the other one.
    Sync,
    /// In the page cache of a majority of the group.
    Async,
}

impl Value for FlushDiskType {
    const ALLOWED: &'static str = "SYNC_FLUSH or ASYNC_FLUSH";

    fn read(text: &str) -> Option<Self> {
        match text {
            "SYNC_FLUSH" => Some(Self::Sync),
            "ASYNC_FLUSH" => Some(Self::Async),
            _ => None,
        }
    }

    fn write(&self) -> String {
        match self {
            Self::Sync => "SYNC_FLUSH".to_owned(),
            Self::Async => "ASYNC_FLUSH".to_owned(),
        }
    }
}

/// How a group consumes a topic (`MessageRequestMode.java`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestMode {
    /// Each queue is pulled by one consumer.
    Pull,
    /// Queues are shared: the broker remembers what it has given to whom.
    Pop,
}

impl RequestMode {
    /// Java's name of it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Pull => "PULL",
            Self::Pop => "POP",
        }
    }
}

impl Value for RequestMode {
    const ALLOWED: &'static str = "PULL or POP";

    fn read(text: &str) -> Option<Self> {
        [Self::Pull, Self::Pop].into_iter().find(|mode| mode.name() == text)
    }

    fn write(&self) -> String {
        self.name().to_owned()
    }
}

/// `messageDelayLevel`: the delays of levels 1, 2 and so on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DelayLevels {
    text: String,
    levels: store::delay_level::DelayLevels,
}

impl DelayLevels {
    /// The highest level.
    #[must_use]
    pub fn highest(&self) -> u32 {
        self.levels.count()
    }

    /// The delay of a level from 1 on, in milliseconds; a level above the highest counts as it.
    #[must_use]
    pub fn delay_millis(&self, level: u32) -> u64 {
        i32::try_from(level).ok().and_then(|level| self.levels.delay_ms(level)).unwrap_or(0)
    }

    /// The table as the store takes it.
    #[must_use]
    pub fn levels(&self) -> &store::delay_level::DelayLevels {
        &self.levels
    }
}

/// Java's 18 levels.
impl Default for DelayLevels {
    fn default() -> Self {
        Self {
            text: store::delay_level::DEFAULT_LEVELS.to_owned(),
            levels: store::delay_level::DelayLevels::default(),
        }
    }
}

impl Value for DelayLevels {
    const ALLOWED: &'static str = "delays like 1s 5m 2h 1d, separated by blanks";

    fn read(text: &str) -> Option<Self> {
        text.parse().ok().map(|levels| Self { text: text.to_owned(), levels })
    }

    fn write(&self) -> String {
        self.text.clone()
    }
}

/// `deleteWhen`: hours of the day.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hours(Vec<u8>);

impl Hours {
    /// Java's default.
    pub(crate) fn of(hour: u8) -> Self {
        Self(vec![hour])
    }

    /// The hours, 0 to 23.
    #[must_use]
    pub fn hours(&self) -> &[u8] {
        &self.0
    }
}

impl Value for Hours {
    const ALLOWED: &'static str = "hours from 00 to 23, separated by ';'";

    fn read(text: &str) -> Option<Self> {
        let hours = text.split(';').map(str::trim).filter(|hour| !hour.is_empty());
        let hours = hours
            .map(|hour| hour.parse().ok().filter(|hour: &u8| *hour < 24))
            .collect::<Option<Vec<_>>>()?;
        (!hours.is_empty()).then_some(Self(hours))
    }

    fn write(&self) -> String {
        let texts: Vec<String> = self.0.iter().map(|hour| format!("{hour:02}")).collect();
        texts.join(";")
    }
}

/// An address that clients connect to: a host without blanks, comment or port.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Host(pub String);

impl Value for Host {
    const ALLOWED: &'static str =
        "a host name or address without blanks, port or comment (empty: detected)";

    fn read(text: &str) -> Option<Self> {
        let plain = !text.contains(|c: char| c.is_whitespace() || c == '#' || c == ';');
        plain.then(|| Self(text.to_owned()))
    }

    fn write(&self) -> String {
        self.0.clone()
    }
}

impl Value for TlsMode {
    const ALLOWED: &'static str = Self::ALLOWED;

    fn read(text: &str) -> Option<Self> {
        text.parse().ok()
    }

    fn write(&self) -> String {
        self.to_string()
    }
}

impl Value for ClientAuth {
    const ALLOWED: &'static str = Self::ALLOWED;

    fn read(text: &str) -> Option<Self> {
        text.parse().ok()
    }

    fn write(&self) -> String {
        self.to_string()
    }
}

/// It is written as stars, so that no dump of the configuration tells it.
impl Value for Secret {
    const ALLOWED: &'static str = "text";

    fn read(text: &str) -> Option<Self> {
        Some(Self::from(text))
    }

    fn write(&self) -> String {
        if self.is_empty() { String::new() } else { Self::STARS.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_read_as_java_reads_them() {
        let levels = DelayLevels::default();
        assert_eq!(levels.highest(), 18);
        assert_eq!(levels.delay_millis(1), 1_000);
        assert_eq!(levels.delay_millis(18), 7_200_000);
        assert_eq!(levels.delay_millis(99), 7_200_000, "a larger level counts as the highest");
        assert_eq!(DelayLevels::read("1s 5x"), None);
        assert_eq!(DelayLevels::read(""), None);
    }

    #[test]
    fn a_boolean_is_one_of_two_words() {
        assert_eq!(bool::read("TRUE"), Some(true));
        assert_eq!(bool::read("yes"), None);
    }

    #[test]
    fn an_address_has_no_comment() {
        assert_eq!(Host::read("192.0.2.1 #comment"), None);
        assert_eq!(Host::read("192.0.2.1"), Some(Host("192.0.2.1".into())));
    }
}
