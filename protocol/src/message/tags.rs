//! The number that stands for a message's tag in consume queues and subscriptions.

/// Java's `String.hashCode` of the tags text, widened to 64 bits; 0 for no tags
/// (`MessageExtBrokerInner.tagsString2tagsCode`).
pub fn tags_code(tags: &str) -> i64 {
    hash_code([tags]).into()
}

/// Java's `String.hashCode` of texts that stand one behind the other.
pub fn hash_code<'a>(parts: impl IntoIterator<Item = &'a str>) -> i32 {
    let units = parts.into_iter().flat_map(str::encode_utf16);
    units.fold(0, |hash: i32, unit| hash.wrapping_mul(31).wrapping_add(unit.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_javas() {
        assert_eq!(tags_code(""), 0);
        assert_eq!(tags_code("TagA"), 2_598_919);
        assert_eq!(hash_code(["T", "", "ag", "A"]), 2_598_919);
        // "polygenelubricants" is known to hash to the smallest int.
        assert_eq!(tags_code("polygenelubricants"), i64::from(i32::MIN));
        // Outside the basic plane a character counts as its two surrogates.
        assert_eq!(tags_code("\u{1F600}"), 0xD83D * 31 + 0xDE00);
    }
}
