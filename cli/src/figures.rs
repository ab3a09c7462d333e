//! The Prometheus form of what a running broker tells about itself.
//!
//! Names are those of Apache RocketMQ 5 where it has the same figure
//! (`BrokerMetricsConstant.java`, `DefaultStoreMetricsConstant.java`).

use broker::Figures;
use prometheus_client::{
    encoding::text::encode,
    metrics::{counter::ConstCounter, gauge::ConstGauge},
    registry::Registry,
};

/// Name without prefix, help text, value.
type Row = (&'static str, &'static str, fn(&Figures) -> u64);

const COUNTERS: &[Row] = &[
    ("messages_in", "Messages stored since the start", |f| f.messages_in),
    ("messages_out", "Messages handed to consumers since the start", |f| f.messages_out),
    ("throughput_in", "Bytes of messages stored since the start", |f| f.bytes_in),
    ("sends_failed", "Sends that were not stored, since the start", |f| f.sends_failed),
    ("throughput_out", "Bytes of messages handed to consumers since the start", |f| f.bytes_out),
];

const GAUGES: &[Row] = &[
    ("pending_appends", "Appends that wait for their commit", |f| f.pending_appends),
    ("producer_connections", "Connections of producers, once for each group", |f| f.producers),
    ("consumer_connections", "Connections of consumers, once for each group", |f| f.consumers),
    ("producer_groups", "Producer groups that are online", |f| f.producer_groups),
    ("consumer_groups", "Consumer groups that are online", |f| f.consumer_groups),
    ("topic_number", "Topics", |f| f.topics),
    ("held_pulls", "Pulls that wait for messages", |f| f.held_pulls),
    (
        "storage_dispatch_behind_bytes",
        "Bytes of the committed log that are not yet in the queues",
        |f| f.dispatch_behind,
    ),
    (
        "store_writable",
        "1 where there is room on the disk for sends, 0 where they are refused for want of it",
        |f| f.store_writable,
    ),
    ("storage_commit_position_bytes", "End of the committed log", |f| f.commit_position),
    ("storage_min_position_bytes", "Oldest kept entry of the log", |f| f.min_position),
];

/// The OpenMetrics text.
pub(crate) fn open_metrics(figures: &Figures) -> String {
    let labels = [("cluster", &figures.cluster), ("node_id", &figures.broker)];
    let mut registry = Registry::with_prefix_and_labels(
        "rocketmq",
        labels.into_iter().map(|(name, value)| (name.into(), value.clone().into())),
    );
    for (name, help, value) in COUNTERS {
        registry.register(*name, *help, ConstCounter::new(value(figures)));
    }
    for (name, help, value) in GAUGES {
        registry.register(*name, *help, ConstGauge::new(as_gauge(value(figures))));
    }
    let role = [("role".into(), figures.role.into())];
    registry.sub_registry_with_labels(role.into_iter()).register(
        "broker_role",
        "1 for the role the broker has now",
        ConstGauge::new(1i64),
    );
    let durability = [("mode".into(), figures.durability.into())];
    registry.register(
        "put_latency_99_seconds",
        "99th percentile of the time from request to commit over the last minute",
        ConstGauge::new(figures.put_latency_99 / 1000.0),
    );
    registry.register(
        "storage_disk_used_ratio",
        "Used share of the fullest file system that holds data",
        ConstGauge::new(figures.disk_used),
    );
    registry.sub_registry_with_labels(durability.into_iter()).register(
        "durability",
        "1 for when a message counts as kept: sync (fsynced) or async (in the page cache)",
        ConstGauge::new(1i64),
    );
    let mut text = String::new();
    match encode(&mut text, &registry) {
        Ok(()) => text,
        // Writing to a String does not fail; an empty page would still say that it did.
        Err(error) => format!("# {error}\n"),
    }
}

fn as_gauge(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_has_a_line_with_its_labels() {
        let figures = Figures {
            cluster: "DefaultCluster".to_owned(),
            broker: "broker-a".to_owned(),
            role: "master",
            durability: "sync",
            messages_in: 3,
            commit_position: 1024,
            ..Figures::default()
        };
        let text = open_metrics(&figures);
        for line in [
            "rocketmq_messages_in_total{cluster=\"DefaultCluster\",node_id=\"broker-a\"} 3",
            "rocketmq_storage_commit_position_bytes{cluster=\"DefaultCluster\",node_id=\"broker-a\"} 1024",
            "role=\"master\"} 1",
            "mode=\"sync\"} 1",
            "# EOF",
        ] {
            assert!(text.contains(line), "{line} is missing in\n{text}");
        }
        for (name, ..) in COUNTERS.iter().chain(GAUGES) {
            assert!(text.contains(&format!("# HELP rocketmq_{name} ")), "{name}\n{text}");
        }
    }
}
