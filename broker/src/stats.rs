//! What was sent and consumed, by topic and group, over a minute, an hour and a day
//! (`BrokerStatsManager.java`).
//!
//! Counting on the send and pull paths is one table look-up per request, not per message. The
//! number of keys is bounded: beyond it requests count in the broker's totals only.

mod totals;
mod window;

use std::{sync::Arc, time::Duration};

use dashmap::DashMap;
use protocol::name;

pub(crate) use totals::Reading;
pub(crate) use window::{Figures, Measure, Span};

use crate::clock;

use totals::Totals;
use window::Meter;

/// The most keys of each table.
const MAX_KEYS: usize = 20_000;

/// Messages of these groups are read by tools and by the broker itself, not consumed: they are
/// kept out of the broker's totals, where operators bill and plan by them.
const TOOL_GROUPS: [&str; 3] = ["TOOLS_CONSUMER", "FILTERSRV_CONSUMER", "SELF_TEST_C_GROUP"];

/// The tables of counters.
#[derive(Debug)]
pub(crate) struct Stats {
    cluster: String,
    /// The topic of this name belongs to the broker, as that of the cluster does.
    broker: String,
    topic_put: Table,
    group_get: Table,
    sent_back: Table,
    broker_put: Meter,
    broker_get: Meter,
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

impl Stats {
    /// Empty tables. `cluster` is the key of the statistics of the whole broker.
    pub(crate) fn new(cluster: &str, broker: &str) -> Self {
        let now = now_millis();
        Self {
            cluster: cluster.to_owned(),
            broker: broker.to_owned(),
            topic_put: Table::default(),
            group_get: Table::default(),
            sent_back: Table::default(),
            broker_put: Meter::new(now),
            broker_get: Meter::new(now),
            totals: Totals::new(now),
        }
    }

    /// Counts a send of `messages` to a topic that was stored `elapsed` after it came in.
    pub(crate) fn sent(&self, topic: &str, messages: u64, bytes: u64, elapsed: Duration) {
        self.topic_put.add(topic, messages, bytes);
        self.broker_put.add(messages, bytes);
        self.totals.stored(messages, bytes, elapsed);
        // Java keeps system topics out of the counts of days (`BrokerStats.java`).
        if !name::is_system_topic(topic) && topic != self.cluster && topic != self.broker {
            self.totals.stored_by_users(messages);
        }
    }

    /// Counts a send that was not stored.
    pub(crate) fn send_failed(&self) {
        self.totals.store_failed();
    }

    /// Counts a pull that gave `messages` of a topic to a group.
    pub(crate) fn pulled(
        &self,
        group: &str,
        topic: &str,
        (messages, bytes): (u64, u64),
        elapsed: Duration,
    ) {
        self.group_get.add(&format!("{topic}@{group}"), messages, bytes);
        self.totals.found(elapsed);
        if !TOOL_GROUPS.contains(&group) {
            self.broker_get.add(messages, bytes);
            self.totals.transferred(messages, bytes);
        }
    }

    /// Counts a pull that found no message.
    pub(crate) fn pulled_nothing(&self) {
        self.totals.missed();
    }

    /// Counts a message of `topic` that a consumer of `group` sent back.
    pub(crate) fn sent_back(&self, group: &str, topic: &str) {
        self.sent_back.add(&format!("{topic}@{group}"), 1, 0);
    }

    /// The figures that code 315 shows under a name and key of Java; `None` where nothing was ever
    /// counted under them.
    pub(crate) fn view(&self, name: &str, key: &str) -> Option<View> {
        let (table, measure) = match name {
            "TOPIC_PUT_NUMS" => (&self.topic_put, Measure::Messages),
            "TOPIC_PUT_SIZE" => (&self.topic_put, Measure::Bytes),
            "GROUP_GET_NUMS" => (&self.group_get, Measure::Messages),
            "GROUP_GET_SIZE" => (&self.group_get, Measure::Bytes),
            "SNDBCK_PUT_NUMS" => (&self.sent_back, Measure::Messages),
            "BROKER_PUT_NUMS" => return self.view_of_broker(&self.broker_put, key),
            "BROKER_GET_NUMS" => return self.view_of_broker(&self.broker_get, key),
            _ => return None,
        };
        table.get(key).map(|meter| view(&meter, measure))
    }

    /// Messages of `topic` stored per second over the last minute.
    pub(crate) fn put_tps(&self, topic: &str) -> f64 {
        tps(self.topic_put.get(topic))
    }

    /// Messages of `topic` given to `group` per second over the last minute.
    pub(crate) fn get_tps(&self, group: &str, topic: &str) -> f64 {
        tps(self.group_get.get(&format!("{topic}@{group}")))
    }

    /// The totals of the whole broker.
    pub(crate) fn totals(&self) -> Reading {
        self.totals.read(now_millis())
    }

    /// Takes the samples that are due; to be called every second.
    pub(crate) fn tick(&self) {
        let now = now_millis();
        self.totals.tick(now);
        self.broker_put.sample(now);
        self.broker_get.sample(now);
        for table in [&self.topic_put, &self.group_get, &self.sent_back] {
            table.sample(now);
        }
    }

    /// Drops the counters of a deleted topic.
    pub(crate) fn forget_topic(&self, topic: &str) {
        self.topic_put.meters.remove(topic);
        let of_topic = |key: &str| key.rsplit_once('@').is_some_and(|(before, _)| before == topic);
        self.group_get.meters.retain(|key, _| !of_topic(key));
        self.sent_back.meters.retain(|key, _| !of_topic(key));
    }

    /// Drops the counters of a deleted group.
    pub(crate) fn forget_group(&self, group: &str) {
        let of_group = |key: &str| key.rsplit_once('@').is_some_and(|(_, after)| after == group);
        self.group_get.meters.retain(|key, _| !of_group(key));
        self.sent_back.meters.retain(|key, _| !of_group(key));
    }

    fn view_of_broker(&self, meter: &Meter, key: &str) -> Option<View> {
        let counted = key == self.cluster && meter.messages() > 0;
        counted.then(|| view(meter, Measure::Messages))
    }
}

/// Meters by key, bounded in number.
#[derive(Debug, Default)]
struct Table {
    meters: DashMap<String, Arc<Meter>>,
}

impl Table {
    fn add(&self, key: &str, messages: u64, bytes: u64) {
        if let Some(meter) = self.meters.get(key) {
            meter.add(messages, bytes);
            return;
        }
        if self.meters.len() < MAX_KEYS {
            let fresh = || Arc::new(Meter::new(now_millis()));
            self.meters.entry(key.to_owned()).or_insert_with(fresh).add(messages, bytes);
        }
    }

    fn get(&self, key: &str) -> Option<Arc<Meter>> {
        self.meters.get(key).map(|meter| Arc::clone(&meter))
    }

    fn sample(&self, now: u64) {
        for meter in &self.meters {
            meter.sample(now);
        }
    }
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
        let stats = Stats::new("DefaultCluster", "b");
        assert_eq!(stats.view("TOPIC_PUT_NUMS", "T"), None);
        assert_eq!(stats.view("BROKER_PUT_NUMS", "DefaultCluster"), None);
        stats.sent("T", 3, 30, Duration::from_millis(1));
        let put = stats.view("TOPIC_PUT_NUMS", "T").unwrap();
        assert_eq!((put.minute.sum, put.hour.sum, put.day.sum), (3, 3, 3));
        assert_eq!(stats.view("TOPIC_PUT_SIZE", "T").unwrap().minute.sum, 30);
        assert_eq!(stats.view("BROKER_PUT_NUMS", "DefaultCluster").unwrap().day.sum, 3);
        assert_eq!(stats.view("BROKER_PUT_NUMS", "other"), None);
        assert_eq!(stats.view("NO_SUCH", "T"), None);
        assert!(stats.put_tps("T") > 0.0);
    }

    #[test]
    fn topics_of_the_system_are_not_in_the_counts_of_days() {
        let stats = Stats::new("C", "b");
        for topic in ["RMQ_SYS_TRACE_TOPIC", "C", "b", "T"] {
            stats.sent(topic, 2, 20, Duration::ZERO);
        }
        assert_eq!((stats.totals().put_messages, stats.totals().put_by_users), (8, 2));
    }

    #[test]
    fn tools_do_not_count_as_consumption() {
        let stats = Stats::new("C", "b");
        stats.pulled("TOOLS_CONSUMER", "T", (5, 50), Duration::ZERO);
        assert_eq!(stats.totals().transferred, 0);
        stats.pulled("G", "T", (12, 120), Duration::ZERO);
        stats.pulled_nothing();
        assert_eq!(stats.totals().transferred, 12);
        assert_eq!(stats.view("BROKER_GET_NUMS", "C").unwrap().minute.sum, 12);
        assert_eq!(stats.view("GROUP_GET_NUMS", "T@G").unwrap().minute.sum, 12);
        assert_eq!(stats.view("GROUP_GET_SIZE", "T@G").unwrap().minute.sum, 120);
    }

    #[test]
    fn deleted_names_are_forgotten_and_keys_are_bounded() {
        let stats = Stats::new("C", "b");
        stats.pulled("G", "T", (1, 1), Duration::ZERO);
        stats.sent_back("G", "T");
        stats.sent_back("H", "T");
        stats.forget_group("G");
        assert_eq!(stats.view("SNDBCK_PUT_NUMS", "T@G"), None);
        assert!(stats.view("SNDBCK_PUT_NUMS", "T@H").is_some());
        stats.forget_topic("T");
        assert_eq!(stats.view("SNDBCK_PUT_NUMS", "T@H"), None);
        for number in 0..MAX_KEYS + 10 {
            stats.sent(&format!("T{number}"), 1, 1, Duration::ZERO);
        }
        assert!(stats.topic_put.meters.len() <= MAX_KEYS);
        assert_eq!(stats.totals().put_messages, MAX_KEYS as u64 + 10);
    }
}
