//! Filters by tag (`FilterAPI.java`, `DefaultMessageFilter.java`).

use std::{collections::HashSet, fmt};

use protocol::{body::SubscriptionData, message::tags::tags_code};

/// Which tags a pull lets through. The broker compares hashes, the client compares texts.
pub(super) struct TagFilter(Box<dyn Fn(i64) -> bool + Send + Sync>);

impl TagFilter {
    /// Every message.
    pub(super) fn all() -> Self {
        Self(Box::new(|_| true))
    }

    /// The tags of `a || b`; `*` and nothing mean all.
    pub(super) fn of_text(text: &str) -> Self {
        if is_all(text) {
            return Self::all();
        }
        let tags = text.split("||").map(str::trim).filter(|tag| !tag.is_empty());
        Self::of_codes(tags.map(tags_code).collect())
    }

    /// What a heartbeat subscribed.
    pub(super) fn of_subscription(subscription: &SubscriptionData) -> Self {
        if subscription.class_filter_mode || is_all(&subscription.sub_string) {
            return Self::all();
        }
        if subscription.code_set.is_empty() {
            return Self::of_text(&subscription.sub_string);
        }
        Self::of_codes(subscription.code_set.iter().map(|code| i64::from(*code)).collect())
    }

    /// Whether a message with this tag hash passes.
    pub(super) fn lets_through(&self, code: i64) -> bool {
        (self.0)(code)
    }

    /// The form that the store takes.
    pub(super) fn as_dyn(&self) -> &(dyn Fn(i64) -> bool + Send + Sync) {
        &*self.0
    }

    fn of_codes(codes: HashSet<i64>) -> Self {
        match (codes.len(), codes.iter().next().copied()) {
            (1, Some(only)) => Self(Box::new(move |code| code == only)),
            _ => Self(Box::new(move |code| codes.contains(&code))),
        }
    }
}

impl fmt::Debug for TagFilter {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("TagFilter")
    }
}

fn is_all(text: &str) -> bool {
    text.trim().is_empty() || text.trim() == "*"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_compared_by_hash() {
        let filter = TagFilter::of_text(" TagA || TagB ");
        assert!(filter.lets_through(tags_code("TagA")));
        assert!(filter.lets_through(tags_code("TagB")));
        assert!(!filter.lets_through(tags_code("TagC")));
        assert!(!filter.lets_through(0), "a message without tags");
        assert!(TagFilter::of_text("*").lets_through(0));
        assert!(TagFilter::of_text("").lets_through(7));
    }
}
