//! The known key that is spelt most like an unknown one.

use super::{KEYS, KNOWN, REFUSALS};

/// Keys further away than this are no typing error.
const FURTHEST: usize = 4;

/// The nearest known key, where one is near.
pub(super) fn known_key(unknown: &str) -> Option<&'static str> {
    let bound = FURTHEST.min(unknown.len() / 2);
    names()
        .map(|name| (distance(unknown, name), name))
        .filter(|(distance, _)| *distance <= bound)
        .min()
        .map(|(_, name)| name)
}

/// Every name that the tables hold.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    KEYS.iter()
        .map(|key| key.name)
        .chain(KNOWN.iter().map(|key| key.name))
        .chain(REFUSALS.iter().map(|key| key.name))
}

/// Insertions, deletions and replacements that make one name of the other; a letter in the other
/// case costs nothing but decides between equals.
fn distance(left: &str, right: &str) -> usize {
    let (left, right) = (left.to_ascii_lowercase(), right.to_ascii_lowercase());
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, l) in left.chars().enumerate() {
        let mut diagonal = i;
        let mut before = i + 1;
        for (r, cell) in right.iter().zip(row.iter_mut().skip(1)) {
            let replaced = diagonal + usize::from(l != *r);
            diagonal = *cell;
            before = replaced.min(before + 1).min(*cell + 1);
            *cell = before;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typing_error_names_the_key_that_was_meant() {
        assert_eq!(known_key("brokerIp1"), Some("brokerIP1"));
        assert_eq!(known_key("namesrvaddr"), Some("namesrvAddr"));
        assert_eq!(known_key("dLegerPeer"), Some("dLegerPeers"));
        assert_eq!(known_key("foo"), None);
    }

    #[test]
    fn distance_counts_edits() {
        assert_eq!(distance("abc", "abc"), 0);
        assert_eq!(distance("abc", "abxc"), 1);
        assert_eq!(distance("", "abc"), 3);
    }
}
