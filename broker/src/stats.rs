//! What was sent and consumed, by topic and group, over a minute, an hour and a day
//! (`BrokerStatsManager.java`).
//!
//! Counting on the send and pull paths is one table look-up per request, not per message. The
//! number of keys is bounded: beyond it requests count in the broker's totals only.
//! `names.rs` has the names under which tools ask for them.

mod names;
mod table;
mod timers;
mod totals;
mod window;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

pub(crate) use timers::Timers;
pub(crate) use totals::{Mornings, Reading};
pub(crate) use window::{Figures, Measure, Span};

use crate::{clock, offsets, produced::Produced};

use table::Table;
use totals::Totals;
use window::{Amount, Meter};

/// Messages of these groups are read by tools and by the broker itself, not consumed: they are
/// kept out of the broker's totals, where operators bill and plan by them.
const TOOL_GROUPS: [&str; 3] = ["TOOLS_CONSUMER", "FILTERSRV_CONSUMER", "SELF_TEST_C_GROUP"];

/// The tables of counters.
#[derive(Debug)]
pub(crate) struct Stats {
    cluster: String,
    /// Sends, by topic.
    topic_put: Table,
    /// Pulls and pops, by topic and group.
    group_get: Table,
    /// Acknowledgements of popped messages, by topic and group.
    acknowledged: Table,
    /// Check points of pops, by topic and group.
    checked: Table,
    /// Messages that consumers gave back, by topic and group.
    sent_back: Table,
    /// Those that went to the dead letters, by topic and group.
    dead: Table,
    broker_put: Meter,
    broker_get: Meter,
    broker_ack: Meter,
    broker_check: Meter,
    /// What was looked up of what users produced.
    pub(crate) produced: Produced,
    /// Timers that came and went.
    pub(crate) timers: Timers,
    totals: Totals,
}

/// Figures of one statistic over its three spans.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct View {
    /// Over the last minute.
    pub(crate) minute: Figures,
    /// Over the last hour.
    pub(crate) hour: Figures,
    /// Over the last day.
    pub(crate) day: Figures,
}

/// A topic, and the queue of it that a request named.
pub(crate) type OfQueue<'a> = (&'a str, i32);

impl Stats {
    /// Empty tables. `cluster` is the key of the statistics of the whole broker.
    pub(crate) fn new(cluster: &str) -> Self {
        let now = now_millis();
        Self {
            cluster: cluster.to_owned(),
            topic_put: Table::default(),
            group_get: Table::default(),
            acknowledged: Table::default(),
            checked: Table::default(),
            sent_back: Table::default(),
            dead: Table::default(),
            broker_put: Meter::new(now),
            broker_get: Meter::new(now),
            broker_ack: Meter::new(now),
            broker_check: Meter::new(now),
            produced: Produced::default(),
            timers: Timers::new(now),
            totals: Totals::new(now),
        }
    }

    /// Counts a send of messages to a queue that was stored `elapsed` after it came in.
    pub(crate) fn sent(
        &self,
        (topic, queue): OfQueue<'_>,
        (messages, bytes): (u64, u64),
        elapsed: Duration,
    ) {
        let amount = Amount { messages, bytes, millis: millis(elapsed) };
        self.topic_put.add_of_queue(topic, queue, amount);
        self.broker_put.add(amount);
        self.totals.stored(messages, bytes, elapsed);
    }

    /// Counts a send that was not stored.
    pub(crate) fn send_failed(&self) {
        self.totals.store_failed();
    }

    /// Counts a pull or a pop, received at an instant, that gave messages of a queue to a group. A
    /// pop of any queue names -1.
    pub(crate) fn pulled(
        &self,
        group: &str,
        (topic, queue): OfQueue<'_>,
        (messages, bytes): (u64, u64),
        received: Instant,
    ) {
        let elapsed = received.elapsed();
        let amount = Amount { messages, bytes, millis: millis(elapsed) };
        self.group_get.add_of_queue(&offsets::key(group, topic), queue, amount);
        self.totals.found(elapsed);
        if !TOOL_GROUPS.contains(&group) {
            self.broker_get.add(amount);
            self.totals.transferred(messages, bytes);
        }
    }

    /// Counts a pull that found no message.
    pub(crate) fn pulled_nothing(&self) {
        self.totals.missed();
    }

    /// Counts messages of `topic` that a consumer of `group` has popped and is done with.
    pub(crate) fn acknowledged(&self, group: &str, topic: &str, messages: u64) {
        let amount = Amount { messages, ..Amount::default() };
        self.acknowledged.add(&offsets::key(group, topic), amount);
        self.broker_ack.add(amount);
    }

    /// Counts a check point: messages of `topic` stay with a consumer of `group` for a time.
    pub(crate) fn checked(&self, group: &str, topic: &str) {
        self.checked.add(&offsets::key(group, topic), ONE);
        self.broker_check.add(ONE);
    }

    /// Counts a message of `topic` that a consumer of `group` sent back.
    pub(crate) fn sent_back(&self, group: &str, topic: &str) {
        self.sent_back.add(&offsets::key(group, topic), ONE);
    }

    /// Counts a message of `topic` that goes to the dead letters of `group`.
    pub(crate) fn died(&self, group: &str, topic: &str) {
        self.dead.add(&offsets::key(group, topic), ONE);
    }

    /// The figures that code 315 shows under a name and key of Java; `None` where nothing was ever
    /// counted under them.
    pub(crate) fn view(&self, name: &str, key: &str) -> Option<View> {
        let named = names::find(name)?;
        let meter = match named.of {
            names::Of::Key(table) => table(self).get(key)?,
            names::Of::Queue(table, split) => {
                let (key, queue) = split(key)?;
                table(self).of_queue(&key, queue)?
            }
            names::Of::Broker(meter) => {
                let meter = meter(self);
                let counted = key == self.cluster && meter.messages() > 0;
                return counted.then(|| view(meter, named.measure));
            }
            names::Of::Nothing => return None,
        };
        Some(view(&meter, named.measure))
    }

    /// Messages of `topic` stored per second over the last minute.
    pub(crate) fn put_tps(&self, topic: &str) -> f64 {
        tps(self.topic_put.get(topic))
    }

    /// Messages of `topic` given to `group` per second over the last minute.
    pub(crate) fn get_tps(&self, group: &str, topic: &str) -> f64 {
        tps(self.group_get.get(&offsets::key(group, topic)))
    }

    /// The totals of the whole broker.
    pub(crate) fn totals(&self) -> Reading {
        self.totals.read(now_millis())
    }

    /// Takes the samples that are due; to be called every second.
    pub(crate) fn tick(&self) {
        let now = now_millis();
        self.totals.tick(now);
        self.timers.sample(now);
        for meter in [&self.broker_put, &self.broker_get, &self.broker_ack, &self.broker_check] {
            meter.sample(now);
        }
        self.topic_put.sample(now);
        self.tables_of_groups().iter().for_each(|table| table.sample(now));
    }

    /// Drops the counters of a deleted topic.
    pub(crate) fn forget_topic(&self, topic: &str) {
        self.topic_put.retain(|key| key != topic);
        for table in self.tables_of_groups() {
            table.retain(|key| key.rsplit_once('@').is_none_or(|(before, _)| before != topic));
        }
    }

    /// Drops the counters of a deleted group.
    pub(crate) fn forget_group(&self, group: &str) {
        for table in self.tables_of_groups() {
            table.retain(|key| key.rsplit_once('@').is_none_or(|(_, after)| after != group));
        }
    }

    /// The tables whose keys are topic and group.
    fn tables_of_groups(&self) -> [&Table; 5] {
        [&self.group_get, &self.acknowledged, &self.checked, &self.sent_back, &self.dead]
    }
}

/// One message, of whose size nothing is counted.
const ONE: Amount = Amount { messages: 1, bytes: 0, millis: 0 };

fn millis(elapsed: Duration) -> u64 {
    u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX)
}

fn view(meter: &Meter, measure: Measure) -> View {
    let now = now_millis();
    View {
        minute: meter.figures(Span::Minute, measure, now),
        hour: meter.figures(Span::Hour, measure, now),
        day: meter.figures(Span::Day, measure, now),
    }
}

fn tps(meter: Option<Arc<Meter>>) -> f64 {
    meter.map_or(0.0, |meter| meter.figures(Span::Minute, Measure::Messages, now_millis()).tps)
}

fn now_millis() -> u64 {
    u64::try_from(clock::now_millis()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statistic_exists_once_something_was_counted() {
        let stats = Stats::new("DefaultCluster");
        assert_eq!(stats.view("TOPIC_PUT_NUMS", "T"), None);
        assert_eq!(stats.view("BROKER_PUT_NUMS", "DefaultCluster"), None);
        stats.sent(("T", 0), (3, 30), Duration::from_millis(1));
        let put = stats.view("TOPIC_PUT_NUMS", "T").unwrap();
        assert_eq!((put.minute.sum, put.hour.sum, put.day.sum), (3, 3, 3));
        assert_eq!(stats.view("TOPIC_PUT_SIZE", "T").unwrap().minute.sum, 30);
        assert_eq!(stats.view("BROKER_PUT_NUMS", "DefaultCluster").unwrap().day.sum, 3);
        assert_eq!(stats.view("BROKER_PUT_NUMS", "other"), None);
        assert_eq!(stats.view("NO_SUCH", "T"), None);
        assert!(stats.put_tps("T") > 0.0);
    }

    #[test]
    fn tools_do_not_count_as_consumption() {
        let stats = Stats::new("C");
        stats.pulled("TOOLS_CONSUMER", ("T", 0), (5, 50), Instant::now());
        assert_eq!(stats.totals().transferred, 0);
        stats.pulled("G", ("T", 0), (12, 120), Instant::now());
        stats.pulled_nothing();
        assert_eq!(stats.totals().transferred, 12);
        assert_eq!(stats.view("BROKER_GET_NUMS", "C").unwrap().minute.sum, 12);
        assert_eq!(stats.view("GROUP_GET_NUMS", "T@G").unwrap().minute.sum, 12);
        assert_eq!(stats.view("GROUP_GET_SIZE", "T@G").unwrap().minute.sum, 120);
    }

    #[test]
    fn deleted_names_are_forgotten_and_keys_are_bounded() {
        let stats = Stats::new("C");
        stats.pulled("G", ("T", 0), (1, 1), Instant::now());
        stats.sent_back("G", "T");
        stats.sent_back("H", "T");
        stats.forget_group("G");
        assert_eq!(stats.view("SNDBCK_PUT_NUMS", "T@G"), None);
        assert!(stats.view("SNDBCK_PUT_NUMS", "T@H").is_some());
        stats.forget_topic("T");
        assert_eq!(stats.view("SNDBCK_PUT_NUMS", "T@H"), None);
        for number in 0..table::MAX_KEYS + 10 {
            stats.sent((&format!("T{number}"), 0), (1, 1), Duration::ZERO);
        }
        assert_eq!(stats.totals().put_messages, table::MAX_KEYS as u64 + 10);
        let last = format!("T{}", table::MAX_KEYS + 9);
        assert_eq!(stats.view("TOPIC_PUT_NUMS", &last), None, "beyond the bound");
    }
}
