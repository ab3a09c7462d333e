//! Messages with a priority, as Java has them since 5.4 (`SendMessageProcessor.java`,
//! `PopMessageProcessor.java`): the priority of a message is the number of its queue, and pops of a
//! topic of that kind look at its queues in the order of priority.

use protocol::{
    body::SubscriptionGroupConfig,
    message::properties::{Properties, key},
};

use crate::{config::BrokerConfig, topics::Topic, transaction};

/// The attribute of a topic that says what kind of messages it holds, and its value here.
const KIND: (&str, &str) = ("message.type", "PRIORITY");

/// The attribute of a group that says how many of a hundred of its pops go by priority.
pub(crate) const FACTOR: &str = "priority.factor";

/// The most that [`FACTOR`] may be, which is what a group has that does not say it.
const ALWAYS: u32 = 100;

/// Properties of messages of other kinds, which win over a priority (`TopicMessageType.java`).
const OTHER_KINDS: [&str; 5] = [
    key::DELAY,
    key::TIMER_DELIVER_MS,
    key::TIMER_DELAY_SEC,
    key::TIMER_DELAY_MS,
    key::SHARDING_KEY,
];

/// The queue of a message that asks for a priority, of the `queues` of its topic. A message of
/// another kind forgets that it does.
pub(crate) fn take_queue(properties: &mut Properties, queues: i32) -> Option<i32> {
    let text = properties.get(key::PRIORITY)?;
    let priority: i32 = text.parse().ok().filter(|priority| *priority >= 0)?;
    let other = transaction::is_half(properties, false)
        || OTHER_KINDS.iter().any(|name| properties.contains(name));
    if other {
        properties.remove(key::PRIORITY);
        return None;
    }
    (queues > 0).then(|| priority.min(queues - 1))
}

/// Whether a group may have this value of [`FACTOR`]: Java's text where not.
pub(crate) fn check_factor(text: &str) -> Result<(), String> {
    factor_of(text).map(drop).ok_or_else(|| format!("value is not in range(0, {ALWAYS})"))
}

fn factor_of(text: &str) -> Option<u32> {
    text.parse().ok().filter(|factor| *factor <= ALWAYS)
}

/// In which order one pop looks at queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Order {
    by_priority: bool,
    /// The queue with the largest number is the most urgent one.
    ascending: bool,
    dice: u32,
    /// Whether messages that come again are looked at before the others.
    pub(crate) retries_first: bool,
}

impl Order {
    /// That of a pop which threw `dice`, from 0 to 99. One that keeps the order of a queue goes by no
    /// priority.
    pub(crate) fn of(
        topic: Option<&Topic>,
        group: Option<&SubscriptionGroupConfig>,
        config: &BrokerConfig,
        (dice, keeps_order): (u32, bool),
    ) -> Self {
        let has_kind =
            topic.and_then(|topic| topic.attributes.get(KIND.0)).is_some_and(|kind| kind == KIND.1);
        let said = group.and_then(|group| group.attributes.get(FACTOR));
        let factor = said.and_then(|text| factor_of(text)).unwrap_or(ALWAYS);
        let by_priority = has_kind && !keeps_order && dice < factor;
        let share = match by_priority {
            true => config.pop_from_retry_probability_for_priority,
            false => config.pop_from_retry_probability,
        };
        Self {
            by_priority,
            ascending: config.priority_order_asc,
            dice,
            retries_first: dice < share,
        }
    }

    /// The queues of a topic, each once: by priority, or another one first each time.
    pub(crate) fn queues(self, count: u32) -> impl Iterator<Item = u32> {
        (0..count).map(move |nth| match (self.by_priority, self.ascending) {
            (true, true) => count - 1 - nth,
            (true, false) => nth,
            (false, _) => self.dice.wrapping_add(nth) % count,
        })
    }
}

#[cfg(test)]
mod tests {
    use protocol::message::properties;

    use super::*;

    fn topic(kind: &str) -> Topic {
        let attributes = [(KIND.0.to_owned(), kind.to_owned())].into_iter().collect();
        Topic { attributes, ..Topic::default() }
    }

    fn group(factor: &str) -> SubscriptionGroupConfig {
        let attributes = [(FACTOR.to_owned(), factor.to_owned())].into_iter().collect();
        SubscriptionGroupConfig { attributes, ..SubscriptionGroupConfig::default() }
    }

    #[test]
    fn a_priority_is_the_number_of_a_queue() {
        for (text, queue, stays) in [
            ("_SYS_MSG_PRIORITY_\u{1}2", Some(2), true),
            ("_SYS_MSG_PRIORITY_\u{1}0", Some(0), true),
            ("_SYS_MSG_PRIORITY_\u{1}9", Some(3), true),
            ("_SYS_MSG_PRIORITY_\u{1}-1", None, true),
            ("_SYS_MSG_PRIORITY_\u{1}high", None, true),
            ("KEYS\u{1}k", None, false),
            ("_SYS_MSG_PRIORITY_\u{1}2\u{2}DELAY\u{1}3", None, false),
            ("_SYS_MSG_PRIORITY_\u{1}2\u{2}TIMER_DELAY_MS\u{1}3", None, false),
            ("_SYS_MSG_PRIORITY_\u{1}2\u{2}__SHARDINGKEY\u{1}3", None, false),
            ("_SYS_MSG_PRIORITY_\u{1}2\u{2}TRAN_MSG\u{1}true", None, false),
        ] {
            let mut properties = properties::decode(text);
            assert_eq!(take_queue(&mut properties, 4), queue, "{text:?}");
            assert_eq!(properties.contains(key::PRIORITY), stays, "{text:?}");
        }
        let mut properties = properties::decode("_SYS_MSG_PRIORITY_\u{1}2");
        assert_eq!(take_queue(&mut properties, 0), None, "no queue can be written");
    }

    #[test]
    fn pops_of_a_topic_with_priorities_go_by_them_as_often_as_the_group_says() {
        let config = BrokerConfig::default();
        let order = |kind: &str, factor: &str, dice| {
            let (topic, group) = (topic(kind), group(factor));
            Order::of(Some(&topic), Some(&group), &config, (dice, false))
        };
        let queues = |order: Order| order.queues(4).collect::<Vec<_>>();
        assert_eq!(queues(order("PRIORITY", "100", 1)), [3, 2, 1, 0]);
        assert_eq!(queues(order("PRIORITY", "none", 99)), [3, 2, 1, 0], "as if it said nothing");
        assert_eq!(queues(order("NORMAL", "100", 1)), [1, 2, 3, 0]);
        assert_eq!(queues(order("PRIORITY", "50", 49)), [3, 2, 1, 0]);
        assert_eq!(queues(order("PRIORITY", "50", 50)), [2, 3, 0, 1]);
        assert_eq!(queues(order("PRIORITY", "0", 2)), [2, 3, 0, 1]);
        let falling = BrokerConfig { priority_order_asc: false, ..BrokerConfig::default() };
        let order = Order::of(Some(&topic("PRIORITY")), None, &falling, (1, false));
        assert_eq!(queues(order), [0, 1, 2, 3]);
        let ordered = Order::of(Some(&topic("PRIORITY")), None, &config, (1, true));
        assert_eq!(queues(ordered), [1, 2, 3, 0], "a queue is kept in order");
    }

    #[test]
    fn what_comes_again_is_least_urgent_by_priority() {
        let config = BrokerConfig::default();
        let of = |kind: &str, dice| {
            Order::of(Some(&topic(kind)), None, &config, (dice, false)).retries_first
        };
        assert!(of("NORMAL", 19) && !of("NORMAL", 20));
        assert!(!of("PRIORITY", 0));
        let most = BrokerConfig { pop_from_retry_probability_for_priority: 100, ..config };
        assert!(Order::of(Some(&topic("PRIORITY")), None, &most, (99, false)).retries_first);
    }

    #[test]
    fn a_factor_is_a_share_of_a_hundred() {
        for text in ["0", "50", "100"] {
            assert_eq!(check_factor(text), Ok(()));
        }
        for text in ["101", "-1", "", "much"] {
            assert!(check_factor(text).is_err(), "{text}");
        }
    }
}
