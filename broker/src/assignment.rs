//! Which queues of a topic each member of a group consumes (`QueryAssignmentProcessor.java`).
//!
//! Pure: sorted queues and members go in. `None` where nothing can be said: the client then keeps
//! what it has, while an empty list would make it give everything up.

use std::collections::BTreeSet;

use protocol::body::MessageQueue;

/// How queues are divided among members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Strategy {
    /// Neighbouring queues for each member.
    Averagely,
    /// The queues in turn.
    AveragelyByCircle,
}

impl Strategy {
    /// The strategy of a name that clients give (`AllocateMessageQueueStrategy.getName`). The others
    /// of Java's client divide by what only a client knows.
    pub(crate) fn named(name: &str) -> Option<Self> {
        match name {
            "AVG" => Some(Self::Averagely),
            "AVG_BY_CIRCLE" => Some(Self::AveragelyByCircle),
            _ => None,
        }
    }

    /// The queues of member `nth` of `members`.
    fn share(self, queues: &[MessageQueue], nth: usize, members: usize) -> Vec<MessageQueue> {
        match self {
            Self::Averagely => {
                // The first members take one more where the numbers do not divide.
                let (each, more) = (queues.len() / members, queues.len() % members);
                let from = nth * each + nth.min(more);
                let count = each + usize::from(nth < more);
                queues.iter().skip(from).take(count).cloned().collect()
            }
            Self::AveragelyByCircle => queues.iter().skip(nth).step_by(members).cloned().collect(),
        }
    }
}

/// One question: who asks, and among whom and what is shared. Both lists are sorted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Question<'a> {
    /// The strategy.
    pub(crate) strategy: Strategy,
    /// The member that asks.
    pub(crate) member: &'a str,
    /// All members.
    pub(crate) members: &'a [String],
    /// All queues.
    pub(crate) queues: &'a [MessageQueue],
}

impl Question<'_> {
    /// Queues that the member alone pulls.
    pub(crate) fn pulled(self) -> Option<BTreeSet<MessageQueue>> {
        let nth = self.place()?;
        Some(nth.map_or_else(BTreeSet::new, |nth| self.share(nth).into_iter().collect()))
    }

    /// Queues that the member pops: its own, and those of `others` members behind it. All queues of
    /// a broker are one with the number -1, where the members share all.
    pub(crate) fn popped(self, others: i32) -> Option<BTreeSet<MessageQueue>> {
        let all_others = self.members.len().saturating_sub(1);
        let others = usize::try_from(others).unwrap_or(0);
        if others == 0 || others >= all_others {
            let whole = |queue: &MessageQueue| {
                MessageQueue::new(queue.topic.as_str(), queue.broker_name.as_str(), -1)
            };
            return Some(self.queues.iter().map(whole).collect());
        }
        let Some(nth) = self.place()? else { return Some(BTreeSet::new()) };
        if self.members.len() > self.queues.len() {
            // Nobody goes without: several have the same queue.
            return Some(self.queues.get(nth % self.queues.len()).cloned().into_iter().collect());
        }
        let sharers = (nth..=nth + others).map(|nth| nth % self.members.len());
        Some(sharers.flat_map(|nth| self.share(nth)).collect())
    }

    fn share(self, nth: usize) -> Vec<MessageQueue> {
        self.strategy.share(self.queues, nth, self.members.len())
    }

    /// The member's place; `None` within where it is not (yet) among the members. Where there is
    /// nothing to divide, Java's strategies fail.
    fn place(self) -> Option<Option<usize>> {
        let sound = !self.member.is_empty() && !self.members.is_empty() && !self.queues.is_empty();
        sound.then(|| self.members.iter().position(|member| member == self.member))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queues(count: i32) -> Vec<MessageQueue> {
        (0..count).map(|id| MessageQueue::new("T", "b", id)).collect()
    }

    fn members(count: usize) -> Vec<String> {
        (0..count).map(|nth| format!("c{nth}")).collect()
    }

    /// Queues of each member, as text.
    fn table(
        (strategy, count, of): (Strategy, i32, usize),
        ask: impl Fn(Question<'_>) -> Option<BTreeSet<MessageQueue>>,
    ) -> String {
        let (queues, members) = (queues(count), members(of));
        let rows = members.iter().map(|member| {
            let question = Question { strategy, member, members: &members, queues: &queues };
            let ids = ask(question).expect("something").into_iter();
            Vec::from_iter(ids.map(|queue| queue.queue_id.to_string())).join(" ")
        });
        Vec::from_iter(rows).join(" | ")
    }

    #[test]
    fn pulled_queues_are_those_of_the_java_client() {
        let pulled = |strategy, queues, members| {
            table((strategy, queues, members), |question: Question<'_>| question.pulled())
        };
        assert_eq!(pulled(Strategy::Averagely, 8, 3), "0 1 2 | 3 4 5 | 6 7");
        assert_eq!(pulled(Strategy::Averagely, 4, 2), "0 1 | 2 3");
        assert_eq!(pulled(Strategy::Averagely, 2, 4), "0 | 1 |  | ");
        assert_eq!(pulled(Strategy::AveragelyByCircle, 8, 3), "0 3 6 | 1 4 7 | 2 5");
        assert_eq!(pulled(Strategy::AveragelyByCircle, 2, 3), "0 | 1 | ");
    }

    #[test]
    fn popped_queues_are_shared_with_the_members_behind() {
        let popped = |queues, members, others| {
            table((Strategy::Averagely, queues, members), |question| question.popped(others))
        };
        assert_eq!(popped(4, 4, 1), "0 1 | 1 2 | 2 3 | 0 3");
        assert_eq!(popped(8, 4, 2), "0 1 2 3 4 5 | 2 3 4 5 6 7 | 0 1 4 5 6 7 | 0 1 2 3 6 7");
        assert_eq!(popped(2, 5, 1), "0 | 1 | 0 | 1 | 0", "more members than queues");
        for everything in [-1, 0, 2, 3, i32::MAX] {
            assert_eq!(popped(4, 3, everything), "-1 | -1 | -1", "shared with {everything}");
        }
        assert_eq!(popped(4, 1, 8), "-1");
    }

    #[test]
    fn one_queue_of_each_broker_stands_for_all() {
        let queues: Vec<_> = ["a", "a", "b"].map(|name| MessageQueue::new("T", name, 0)).into();
        let members = members(2);
        let strategy = Strategy::Averagely;
        let question = Question { strategy, member: "c0", members: &members, queues: &queues };
        let brokers = ["a", "b"].map(|name| MessageQueue::new("T", name, -1));
        assert_eq!(question.popped(0), Some(BTreeSet::from(brokers)));
    }

    #[test]
    fn a_stranger_has_no_queue_and_nothing_to_divide_is_no_answer() {
        let (queues, members) = (queues(4), members(4));
        let strategy = Strategy::Averagely;
        let question = |member, members, queues| Question { strategy, member, members, queues };
        let stranger = question("x", &members, &queues);
        assert_eq!((stranger.pulled(), stranger.popped(1)), (Some([].into()), Some([].into())));
        assert_eq!(question("c0", &members, &[]).pulled(), None);
        assert_eq!(question("c0", &members, &[]).popped(1), None);
        assert_eq!(question("c0", &[], &queues).pulled(), None);
        assert_eq!(question("", &members, &queues).pulled(), None);
        assert_eq!((Strategy::named("AVG"), Strategy::named("CONFIG")), (Some(strategy), None));
    }
}
