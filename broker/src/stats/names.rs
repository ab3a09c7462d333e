//! The names and keys under which tools ask for statistics (`Stats.java`, `BrokerStatsManager.java`).

use crate::offsets;

use super::{
    Measure::{self, Bytes, Messages, Millis},
    Meter, Stats, Table,
};

/// One name of Java's.
#[derive(Debug)]
pub(super) struct Name {
    name: &'static str,
    /// What it shows of a meter.
    pub(super) measure: Measure,
    /// Where that meter is.
    pub(super) of: Of,
}

/// Where the meter of a key is.
#[derive(Debug)]
pub(super) enum Of {
    /// In a table, by the key itself.
    Key(fn(&Stats) -> &Table),
    /// Under a key of a table that has queues; the second function finds key and queue in what the tool
    /// sent.
    Queue(fn(&Stats) -> &Table, fn(&str) -> Option<(String, i32)>),
    /// The broker has one. Its key is the name of the cluster.
    Broker(fn(&Stats) -> &Meter),
    /// Nowhere: an open Java broker never counts it. Its tools take the error for 0.
    Nothing,
}

const fn named(name: &'static str, measure: Measure, of: Of) -> Name {
    Name { name, measure, of }
}

/// All names.
static NAMES: [Name; 25] = [
    named("TOPIC_PUT_NUMS", Messages, Of::Key(|stats| &stats.topic_put)),
    named("TOPIC_PUT_SIZE", Bytes, Of::Key(|stats| &stats.topic_put)),
    named("TOPIC_PUT_LATENCY", Millis, Of::Queue(|stats| &stats.topic_put, queue_first)),
    named("QUEUE_PUT_NUMS", Messages, Of::Queue(|stats| &stats.topic_put, queue_last)),
    named("QUEUE_PUT_SIZE", Bytes, Of::Queue(|stats| &stats.topic_put, queue_last)),
    named("GROUP_GET_NUMS", Messages, Of::Key(|stats| &stats.group_get)),
    named("GROUP_GET_SIZE", Bytes, Of::Key(|stats| &stats.group_get)),
    named("GROUP_GET_LATENCY", Millis, Of::Queue(|stats| &stats.group_get, queue_first)),
    named("QUEUE_GET_NUMS", Messages, Of::Queue(|stats| &stats.group_get, queue_between)),
    named("QUEUE_GET_SIZE", Bytes, Of::Queue(|stats| &stats.group_get, queue_between)),
    named("GROUP_ACK_NUMS", Messages, Of::Key(|stats| &stats.acknowledged)),
    named("GROUP_CK_NUMS", Messages, Of::Key(|stats| &stats.checked)),
    named("SNDBCK_PUT_NUMS", Messages, Of::Key(|stats| &stats.sent_back)),
    named("DLQ_PUT_NUMS", Messages, Of::Key(|stats| &stats.dead)),
    named("BROKER_PUT_NUMS", Messages, Of::Broker(|stats| &stats.broker_put)),
    named("BROKER_GET_NUMS", Messages, Of::Broker(|stats| &stats.broker_get)),
    named("BROKER_ACK_NUMS", Messages, Of::Broker(|stats| &stats.broker_ack)),
    named("BROKER_CK_NUMS", Messages, Of::Broker(|stats| &stats.broker_check)),
    named("COMMERCIAL_SEND_TIMES", Messages, Of::Nothing),
    named("COMMERCIAL_SEND_SIZE", Bytes, Of::Nothing),
    named("COMMERCIAL_SNDBCK_TIMES", Messages, Of::Nothing),
    named("COMMERCIAL_RCV_TIMES", Messages, Of::Nothing),
    named("COMMERCIAL_RCV_SIZE", Bytes, Of::Nothing),
    named("COMMERCIAL_RCV_EPOLLS", Messages, Of::Nothing),
    named("COMMERCIAL_PERM_FAILURES", Messages, Of::Nothing),
];

/// The line of a name.
pub(super) fn find(name: &str) -> Option<&'static Name> {
    NAMES.iter().find(|named| named.name == name)
}

/// `queue@rest`.
fn queue_first(key: &str) -> Option<(String, i32)> {
    let (queue, rest) = key.split_once('@')?;
    Some((rest.to_owned(), queue.parse().ok()?))
}

/// `topic@queue`.
fn queue_last(key: &str) -> Option<(String, i32)> {
    let (topic, queue) = key.rsplit_once('@')?;
    Some((topic.to_owned(), real_queue(queue)?))
}

/// `topic@queue@group`.
fn queue_between(key: &str) -> Option<(String, i32)> {
    let (topic, rest) = key.split_once('@')?;
    let (queue, group) = rest.split_once('@')?;
    Some((offsets::key(group, topic), real_queue(queue)?))
}

/// A queue that messages lie in: pops of any queue count under none.
fn real_queue(text: &str) -> Option<i32> {
    text.parse().ok().filter(|queue: &i32| *queue >= 0)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    /// Every name of the protocol with a key, and the sum that it shows of what was counted here.
    #[test]
    fn every_name_shows_what_was_counted_under_its_key() {
        let stats = Stats::new("C");
        stats.sent(("T", 3), (2, 20), Duration::from_millis(7));
        stats.sent(("T", 0), (1, 10), Duration::from_millis(1));
        stats.pulled("G", ("T", 3), (4, 40), Instant::now());
        stats.pulled("G", ("T", -1), (5, 50), Instant::now());
        stats.acknowledged("G", "T", 6);
        stats.checked("G", "T");
        stats.sent_back("G", "T");
        stats.died("G", "T");
        let expected: [(&str, &str, Option<u64>); 25] = [
            ("TOPIC_PUT_NUMS", "T", Some(3)),
            ("TOPIC_PUT_SIZE", "T", Some(30)),
            ("TOPIC_PUT_LATENCY", "3@T", Some(7)),
            ("QUEUE_PUT_NUMS", "T@3", Some(2)),
            ("QUEUE_PUT_SIZE", "T@0", Some(10)),
            ("GROUP_GET_NUMS", "T@G", Some(9)),
            ("GROUP_GET_SIZE", "T@G", Some(90)),
            ("GROUP_GET_LATENCY", "3@T@G", Some(0)),
            ("QUEUE_GET_NUMS", "T@3@G", Some(4)),
            ("QUEUE_GET_SIZE", "T@3@G", Some(40)),
            ("GROUP_ACK_NUMS", "T@G", Some(6)),
            ("GROUP_CK_NUMS", "T@G", Some(1)),
            ("SNDBCK_PUT_NUMS", "T@G", Some(1)),
            ("DLQ_PUT_NUMS", "T@G", Some(1)),
            ("BROKER_PUT_NUMS", "C", Some(3)),
            ("BROKER_GET_NUMS", "C", Some(9)),
            ("BROKER_ACK_NUMS", "C", Some(6)),
            ("BROKER_CK_NUMS", "C", Some(1)),
            ("COMMERCIAL_SEND_TIMES", "o@T@P@SEND_SUCCESS", None),
            ("COMMERCIAL_SEND_SIZE", "o@T@P@SEND_SUCCESS", None),
            ("COMMERCIAL_SNDBCK_TIMES", "o@T@G@SEND_BACK", None),
            ("COMMERCIAL_RCV_TIMES", "o@T@G@RCV_SUCCESS", None),
            ("COMMERCIAL_RCV_SIZE", "o@T@G@RCV_SUCCESS", None),
            ("COMMERCIAL_RCV_EPOLLS", "o@T@G@RCV_EPOLLS", None),
            ("COMMERCIAL_PERM_FAILURES", "o@T@G@PERM_FAILURE", None),
        ];
        assert_eq!(expected.map(|(name, ..)| name), NAMES.each_ref().map(|named| named.name));
        for (name, key, sum) in expected {
            let shown = stats.view(name, key);
            assert_eq!(shown.map(|view| view.day.sum), sum, "{name} {key}");
            assert_eq!(stats.view(name, "other@9@x"), None, "{name}");
        }
        let took = stats.view("TOPIC_PUT_LATENCY", "3@T").expect("it was counted");
        assert!((took.minute.average - 7.0).abs() < f64::EPSILON, "{took:?}");
    }

    #[test]
    fn keys_that_name_no_queue_show_nothing() {
        let stats = Stats::new("C");
        stats.sent(("T", 3), (2, 20), Duration::ZERO);
        stats.pulled("G", ("T", -1), (5, 50), Instant::now());
        assert!(stats.view("GROUP_GET_LATENCY", "-1@T@G").is_some(), "as Java counts a pop");
        for (name, key) in [
            ("QUEUE_GET_NUMS", "T@-1@G"),
            ("QUEUE_PUT_NUMS", "T"),
            ("QUEUE_PUT_NUMS", "T@x"),
            ("QUEUE_PUT_NUMS", "T@4"),
            ("TOPIC_PUT_LATENCY", "T"),
            ("TOPIC_PUT_LATENCY", "T@3"),
            ("GROUP_GET_LATENCY", "T@G"),
            ("BROKER_PUT_NUMS", "other"),
            ("NO_SUCH", "T"),
        ] {
            assert_eq!(stats.view(name, key), None, "{name} {key}");
        }
    }
}
