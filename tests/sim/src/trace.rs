//! What a run did, as a number that two runs of one seed share, and as text when asked for.

use std::fmt::{self, Write};

/// Lines of a run.
#[derive(Debug)]
pub struct Trace {
    hash: u64,
    lines: u64,
    detailed: bool,
    text: Option<Vec<String>>,
}

/// How much of a run is traced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// The order of happenings, cheap enough for every run.
    Hash,
    /// Also the content of each message.
    Full,
    /// All of it, kept as text.
    Text,
}

impl Trace {
    /// An empty trace.
    #[must_use]
    pub fn new(detail: Detail) -> Self {
        Self {
            hash: 0xcbf2_9ce4_8422_2325,
            lines: 0,
            detailed: detail != Detail::Hash,
            text: (detail == Detail::Text).then(Vec::new),
        }
    }

    /// A happening at `now`: a short number for its kind and who took part.
    pub fn mark(&mut self, now: u64, kind: u64, part: u64) {
        self.lines += 1;
        for number in [now, kind, part] {
            self.hash = (self.hash.rotate_left(5) ^ number).wrapping_mul(0x517c_c1b7_2722_0a95);
        }
    }

    /// A line; `line` is formatted only where details are asked for.
    pub fn line(&mut self, now: u64, line: fmt::Arguments<'_>) {
        if !self.detailed {
            return;
        }
        let mut hasher = Hasher(self.hash);
        if hasher.write_fmt(line).is_ok() {
            self.hash = hasher.0;
        }
        if let Some(text) = &mut self.text {
            text.push(format!("{now:>7} {line}"));
        }
    }

    /// The number of this run.
    #[must_use]
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// Happenings so far.
    #[must_use]
    pub fn happenings(&self) -> u64 {
        self.lines
    }

    /// The lines, where text was asked for.
    #[must_use]
    pub fn text(&self) -> &[String] {
        self.text.as_deref().unwrap_or_default()
    }
}

struct Hasher(u64);

impl Write for Hasher {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_depends_on_each_happening_and_its_order() {
        let run = |marks: &[(u64, u64)]| {
            let mut trace = Trace::new(Detail::Full);
            for (kind, part) in marks {
                trace.mark(1, *kind, *part);
                trace.line(1, format_args!("{kind}"));
            }
            trace.hash()
        };
        assert_eq!(run(&[(1, 2), (3, 4)]), run(&[(1, 2), (3, 4)]));
        assert_ne!(run(&[(1, 2), (3, 4)]), run(&[(3, 4), (1, 2)]));
    }

    #[test]
    fn text_is_kept_only_where_it_is_asked_for() {
        let mut trace = Trace::new(Detail::Text);
        trace.line(12, format_args!("n0 leads"));
        assert_eq!(trace.text(), ["     12 n0 leads"]);
        let mut trace = Trace::new(Detail::Full);
        trace.line(12, format_args!("n0 leads"));
        assert_eq!(trace.text(), Vec::<String>::new());
    }
}
