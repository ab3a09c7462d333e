//! The extension fields of a header: ordered pairs of texts.

use std::borrow::Cow;

/// Name and value pairs of one header, in the order in which they were written.
///
/// A header has a dozen fields, so that a scan is faster than hashing. Decoders append without
/// looking for duplicates, which keeps the work linear in the bytes received; of a repeated name
/// the last value counts, as with fastjson.
#[derive(Debug, Clone, Default)]
pub struct ExtFields {
    entries: Vec<(Cow<'static, str>, String)>,
}

impl ExtFields {
    /// No fields.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a field, in place of an earlier value of that name.
    pub fn insert(&mut self, name: impl Into<Cow<'static, str>>, value: impl Into<String>) {
        let name = name.into();
        let value = value.into();
        match self.entries.iter_mut().rfind(|entry| entry.0 == name) {
            Some(entry) => entry.1 = value,
            None => self.entries.push((name, value)),
        }
    }

    /// Appends without a search: for decoders.
    pub(crate) fn push(&mut self, name: Cow<'static, str>, value: String) {
        self.entries.push((name, value));
    }

    /// Takes a field out and gives its value.
    pub fn remove(&mut self, name: &str) -> Option<String> {
        let value = self.get(name).map(str::to_owned)?;
        self.entries.retain(|entry| entry.0 != name);
        Some(value)
    }

    /// The value of a field.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.entries.iter().rfind(|entry| entry.0 == name).map(|entry| entry.1.as_str())
    }

    /// All pairs in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.entries.iter().map(|(name, value)| (name.as_ref(), value.as_str()))
    }

    /// Number of pairs.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no pair.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

/// Equal when the same names have the same values, in whatever order.
impl PartialEq for ExtFields {
    fn eq(&self, other: &Self) -> bool {
        fn sorted(fields: &ExtFields) -> Vec<(&str, &str)> {
            let mut pairs: Vec<_> = fields.iter().collect();
            // Stable: of equal names the last stays last, and it is the one that counts.
            pairs.sort_by_key(|pair| pair.0);
            pairs.reverse();
            pairs.dedup_by_key(|pair| pair.0);
            pairs
        }
        sorted(self) == sorted(other)
    }
}

impl Eq for ExtFields {}

impl<N: Into<Cow<'static, str>>, V: Into<String>> FromIterator<(N, V)> for ExtFields {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(pairs: I) -> Self {
        Self {
            entries: pairs.into_iter().map(|(name, value)| (name.into(), value.into())).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn insert_replaces_and_keeps_the_place() {
        let mut fields: ExtFields = [("a", "1"), ("b", "2")].into_iter().collect();
        fields.insert("a", "3");
        assert_eq!(fields.iter().collect::<Vec<_>>(), [("a", "3"), ("b", "2")]);
        assert_eq!(fields.remove("a").as_deref(), Some("3"));
        assert_eq!(fields.get("a"), None);
    }

    #[test]
    fn of_a_repeated_name_the_last_value_counts() {
        let fields: ExtFields = [("a", "1"), ("b", "2"), ("a", "3")].into_iter().collect();
        assert_eq!(fields.get("a"), Some("3"));
        let other: ExtFields = [("b", "2"), ("a", "3")].into_iter().collect();
        assert_eq!(fields, other);
    }
}
