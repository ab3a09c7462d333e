//! The number that stands for a message's tag in consume queues and subscriptions.

/// Java's `String.hashCode` of the tags text, widened to 64 bits; 0 for no tags
/// (`MessageExtBrokerInner.tagsString2tagsCode`).
pub fn tags_code(tags: &str) -> i64 {
    let hash = tags
        .encode_utf16()
        .fold(0i32, |hash, unit| hash.wrapping_mul(31).wrapping_add(unit.into()));
    hash.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_javas() {
        assert_eq!(tags_code(""), 0);
        assert_eq!(tags_code("TagA"), 2_598_919);
        // "polygenelubricants" is known to hash to the smallest int.
        assert_eq!(tags_code("polygenelubricants"), i64::from(i32::MIN));
        // Outside the basic plane a character counts as its two surrogates.
        assert_eq!(tags_code("\u{1F600}"), 0xD83D * 31 + 0xDE00);
    }
}
