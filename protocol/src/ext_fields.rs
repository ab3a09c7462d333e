//! The extension fields of a header: ordered pairs of texts.

use std::ops::Range;

/// Name and value pairs of one header, in the order in which they were written.
///
/// A header has a dozen short fields: a scan is faster than hashing, and one text with all names
/// and values in it is read with two allocations instead of two for each field. Decoders append
/// without looking for duplicates, which keeps the work linear in the bytes received; of a
/// repeated name the last value counts, as with fastjson.
#[derive(Debug, Clone, Default)]
pub struct ExtFields {
    /// Names and values; what was replaced stays in it unused.
    text: String,
    entries: Vec<Entry>,
}

/// Where a pair is in the text.
#[derive(Debug, Clone)]
struct Entry {
    name: Range<usize>,
    value: Range<usize>,
}

/// Room for the texts of an answer, which grows no more then.
const USUAL_BYTES: usize = 256;

/// Room for the pairs of an answer.
const USUAL_PAIRS: usize = 8;

impl ExtFields {
    /// No fields.
    pub fn new() -> Self {
        Self::default()
    }

    /// No fields yet, with room for texts of that many bytes in all.
    pub(crate) fn with_capacity(bytes: usize) -> Self {
        Self { text: String::with_capacity(bytes), entries: Vec::with_capacity(16) }
    }

    /// Bytes of memory that the fields take, room that is not used included.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.text.capacity() + self.entries.capacity() * size_of::<Entry>()
    }

    /// Sets a field, in place of an earlier value of that name.
    pub fn insert(&mut self, name: impl AsRef<str>, value: impl AsRef<str>) {
        self.insert_with(name.as_ref(), |text| text.push_str(value.as_ref()));
    }

    /// As [`ExtFields::insert`], with a value that is written where it is kept. `write` only
    /// appends.
    pub(crate) fn insert_with(&mut self, name: &str, write: impl FnOnce(&mut String)) {
        if self.entries.capacity() == 0 {
            self.text.reserve(USUAL_BYTES);
            self.entries.reserve(USUAL_PAIRS);
        }
        let known = self.entries.iter().rposition(|entry| self.is(&entry.name, name));
        let name = if known.is_some() { 0..0 } else { self.store(name) };
        let start = self.text.len();
        write(&mut self.text);
        let value = start..self.text.len();
        match known.and_then(|at| self.entries.get_mut(at)) {
            Some(entry) => entry.value = value,
            None => self.entries.push(Entry { name, value }),
        }
    }

    /// Appends without a search: for decoders.
    pub(crate) fn push(&mut self, name: &str, value: &str) {
        let entry = Entry { name: self.store(name), value: self.store(value) };
        self.entries.push(entry);
    }

    fn store(&mut self, text: &str) -> Range<usize> {
        let start = self.text.len();
        self.text.push_str(text);
        start..self.text.len()
    }

    /// Whether the text of a range is this one. Bytes are compared: nothing is cut out of the text,
    /// so that no boundary of a letter has to be looked for; and the first byte alone tells most
    /// names apart, many of which are one letter long.
    fn is(&self, range: &Range<usize>, wanted: &str) -> bool {
        let (text, wanted) = (self.text.as_bytes(), wanted.as_bytes());
        range.len() == wanted.len()
            && text.get(range.start) == wanted.first()
            && text.get(range.clone()) == Some(wanted)
    }

    fn part(&self, range: &Range<usize>) -> &str {
        self.text.get(range.clone()).unwrap_or_default()
    }

    /// Takes a field out; tells whether it was there.
    pub fn remove(&mut self, name: &str) -> bool {
        let before = self.entries.len();
        let text = &self.text;
        self.entries.retain(|entry| text.get(entry.name.clone()) != Some(name));
        self.entries.len() < before
    }

    /// The value of a field.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.entries
            .iter()
            .rfind(|entry| self.is(&entry.name, name))
            .map(|entry| self.part(&entry.value))
    }

    /// All pairs in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.entries.iter().map(|entry| (self.part(&entry.name), self.part(&entry.value)))
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

impl<N: AsRef<str>, V: AsRef<str>> FromIterator<(N, V)> for ExtFields {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(pairs: I) -> Self {
        let mut fields = Self::default();
        for (name, value) in pairs {
            fields.push(name.as_ref(), value.as_ref());
        }
        fields
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
        assert!(fields.remove("a") && !fields.remove("a"));
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
