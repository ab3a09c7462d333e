//! What clients that are online make the broker keep, in bytes: one bound for all of them together,
//! as each of them alone stays within its own bounds and there may be thousands.

use protocol::body::SubscriptionData;

use crate::{consumers::Member, quota::Quota};

/// The most that consumers, or producers, may make the broker keep. Ten thousand clients with ten
/// groups each take half of it.
const MOST: usize = 64 << 20;

/// There is no room for what a client wants to be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "clients that are online and their subscriptions take {} MiB, no more is kept: stop some or \
     shorten their names and expressions",
    .0 >> 20
)]
pub(crate) struct Exhausted(usize);

/// Bytes that are kept, and how many may be.
#[derive(Debug)]
pub(crate) struct Keeping(Quota);

impl Default for Keeping {
    fn default() -> Self {
        Self::new(MOST)
    }
}

impl Keeping {
    pub(crate) const fn new(most: usize) -> Self {
        Self(Quota::new(most))
    }

    /// Keeps `next` bytes in the place of `former`.
    pub(crate) fn replace(&self, former: usize, next: usize) -> Result<(), Exhausted> {
        if next <= former {
            self.release(former - next);
        } else if !self.0.take(next - former) {
            return Err(Exhausted(self.0.most()));
        }
        Ok(())
    }

    /// So many bytes are kept no more.
    pub(crate) fn release(&self, bytes: usize) {
        self.0.give_back(bytes);
    }

    /// Bytes that are kept.
    #[cfg(test)]
    pub(crate) fn kept(&self) -> usize {
        self.0.taken()
    }
}

/// What a membership in a group takes, with the entries of the tables.
pub(crate) fn membership<C>(group: &str, member: &Member<C>) -> usize {
    let texts = 2 * group.len() + 2 * member.client_id.len() + member.address.len();
    2 * ENTRY + size_of::<Member<C>>() + texts
}

/// What a subscription takes.
pub(crate) fn subscription(data: &SubscriptionData) -> usize {
    let tags: usize = data.tags_set.iter().map(|tag| tag.len() + ENTRY).sum();
    let texts = 2 * data.topic.len() + data.sub_string.len() + data.expression_type.len();
    ENTRY + size_of::<SubscriptionData>() + texts + tags + data.code_set.len() * CODE
}

/// What tables take for an entry beside its value, about.
const ENTRY: usize = 64;
/// What a set takes for a hash of a tag, about.
const CODE: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_the_bound_is_refused_and_what_goes_makes_room() {
        let keeping = Keeping::new(100);
        keeping.replace(0, 60).unwrap();
        assert_eq!(keeping.replace(0, 41), Err(Exhausted(100)));
        keeping.replace(60, 50).unwrap();
        keeping.replace(0, 50).unwrap();
        assert_eq!(keeping.kept(), 100);
        keeping.release(100);
        assert_eq!(keeping.kept(), 0);
        assert_eq!(keeping.replace(0, usize::MAX), Err(Exhausted(100)));
    }

    #[test]
    fn texts_count() {
        let long = SubscriptionData { sub_string: "x".repeat(1 << 20), ..Default::default() };
        assert!(subscription(&long) > 1 << 20);
    }
}
