//! Filters by tag (`FilterAPI.java`, `DefaultMessageFilter.java`) and by an expression
//! (`ExpressionMessageFilter.java`).

use std::{collections::HashSet, fmt, sync::Arc};

use protocol::{body::SubscriptionData, message::tags::tags_code};

use store::ContentFilter;

use crate::filter::Compiled;

/// Which messages a pull lets through.
#[derive(Debug)]
pub(in crate::handlers) enum PullFilter {
    /// By their tags.
    Tags(TagFilter),
    /// By their properties.
    Expression(Expression),
}

impl PullFilter {
    /// What an expression lets through.
    pub(in crate::handlers) fn of_expression(compiled: Arc<Compiled>) -> Self {
        let cheap = compiled.is_cheap();
        let test = Box::new(move |record: &[u8]| compiled.passes_record(record));
        Self::Expression(Expression { cheap, any: TagFilter::all(), test })
    }

    /// Whether it may be asked where nothing may take long.
    pub(in crate::handlers) fn is_cheap(&self) -> bool {
        match self {
            Self::Tags(_) => true,
            Self::Expression(expression) => expression.cheap,
        }
    }

    /// Whether the message itself has to be looked at.
    pub(in crate::handlers) fn looks_inside(&self) -> bool {
        matches!(self, Self::Expression(_))
    }

    /// The tags that it lets through.
    pub(in crate::handlers) fn tags(&self) -> &TagFilter {
        match self {
            Self::Tags(tags) => tags,
            Self::Expression(expression) => &expression.any,
        }
    }

    /// What it asks of a record whose tags pass, in the form that the store takes.
    pub(in crate::handlers) fn content(&self) -> Option<&ContentFilter<'_>> {
        match self {
            Self::Tags(_) => None,
            Self::Expression(expression) => Some(&*expression.test),
        }
    }
}

/// Asks of a record whether its message passes, on whatever thread reads it.
type Test = dyn Fn(&[u8]) -> bool + Send + Sync;

/// An expression as a filter.
pub(in crate::handlers) struct Expression {
    cheap: bool,
    any: TagFilter,
    test: Box<Test>,
}

impl fmt::Debug for Expression {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Expression")
    }
}

/// Which tags a pull lets through. The broker compares hashes, the client compares texts.
pub(in crate::handlers) struct TagFilter(Box<dyn Fn(i64) -> bool + Send + Sync>);

impl TagFilter {
    /// Every message.
    pub(in crate::handlers) fn all() -> Self {
        Self(Box::new(|_| true))
    }

    /// The tags of `a || b`; `*` and nothing mean all.
    pub(in crate::handlers) fn of_text(text: &str) -> Self {
        if is_all(text) {
            return Self::all();
        }
        let tags = text.split("||").map(str::trim).filter(|tag| !tag.is_empty());
        Self::of_codes(tags.map(tags_code).collect())
    }

    /// What a heartbeat subscribed.
    pub(in crate::handlers) fn of_subscription(subscription: &SubscriptionData) -> Self {
        if subscription.class_filter_mode || is_all(&subscription.sub_string) {
            return Self::all();
        }
        if subscription.code_set.is_empty() {
            return Self::of_text(&subscription.sub_string);
        }
        Self::of_codes(subscription.code_set.iter().map(|code| i64::from(*code)).collect())
    }

    /// Whether a message with this tag hash passes.
    pub(in crate::handlers) fn lets_through(&self, code: i64) -> bool {
        (self.0)(code)
    }

    /// The form that the store takes.
    pub(in crate::handlers) fn as_dyn(&self) -> &(dyn Fn(i64) -> bool + Send + Sync) {
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

    /// A megabyte of tags: were they compared one by one, this would take hours.
    #[test]
    fn s_19_many_tags_cost_no_more_for_each_message_than_a_few() {
        let tag = |number: u32| format!("t{number}");
        let text: Vec<String> = (0..130_000).map(tag).collect();
        let filter = TagFilter::of_text(&text.join("||"));
        assert!(text.iter().all(|tag| filter.lets_through(tags_code(tag))));
        assert!(!filter.lets_through(tags_code("TagA")));
        let separators = TagFilter::of_text(&"|".repeat(1 << 20));
        assert!(!separators.lets_through(tags_code("TagA")));
    }
}
