//! What a running broker tells about itself, and its Prometheus form.
//!
//! Names are those of Apache RocketMQ 5 where it has the same figure
//! (`BrokerMetricsConstant.java`, `DefaultStoreMetricsConstant.java`).

use prometheus_client::{
    encoding::text::encode,
    metrics::{counter::ConstCounter, gauge::ConstGauge},
    registry::Registry,
};

/// Figures of one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Figures {
    /// Name of the cluster.
    pub(crate) cluster: String,
    /// Name of the broker.
    pub(crate) broker: String,
    /// Role: `master`, `slave` or what comes between.
    pub(crate) role: String,
    /// When a message counts as kept: `sync` or `async`.
    pub(crate) durability: String,
    /// Messages stored since the start.
    pub(crate) messages_in: u64,
    /// Messages handed to consumers since the start.
    pub(crate) messages_out: u64,
    /// Bytes of messages stored since the start.
    pub(crate) bytes_in: u64,
    /// Bytes of messages handed to consumers since the start.
    pub(crate) bytes_out: u64,
    /// Bytes of messages that wait for their commit.
    pub(crate) pending_bytes: u64,
    /// Open connections.
    pub(crate) connections: u64,
    /// Bytes of the log that are committed and not yet in the queues.
    pub(crate) dispatch_behind: u64,
    /// Position of the end of the committed log in bytes.
    pub(crate) commit_position: u64,
    /// Position of the oldest kept entry in bytes.
    pub(crate) min_position: u64,
}

/// Name without prefix, help text, value.
type Row = (&'static str, &'static str, fn(&Figures) -> u64);

const COUNTERS: &[Row] = &[
    ("messages_in", "Messages stored since the start", |f| f.messages_in),
    ("messages_out", "Messages handed to consumers since the start", |f| f.messages_out),
    ("throughput_in", "Bytes of messages stored since the start", |f| f.bytes_in),
    ("throughput_out", "Bytes of messages handed to consumers since the start", |f| f.bytes_out),
];

const GAUGES: &[Row] = &[
    ("append_pending_bytes", "Bytes of messages that wait for their commit", |f| f.pending_bytes),
    ("connections", "Open connections", |f| f.connections),
    (
        "storage_dispatch_behind_bytes",
        "Bytes of the committed log that are not yet in the queues",
        |f| f.dispatch_behind,
    ),
    ("storage_commit_position_bytes", "End of the committed log", |f| f.commit_position),
    ("storage_min_position_bytes", "Oldest kept entry of the log", |f| f.min_position),
];

impl Figures {
    /// The OpenMetrics text.
    pub(crate) fn to_open_metrics(&self) -> String {
        let labels = [("cluster", &self.cluster), ("node_id", &self.broker)];
        let mut registry = Registry::with_prefix_and_labels(
            "rocketmq",
            labels.into_iter().map(|(name, value)| (name.into(), value.clone().into())),
        );
        for (name, help, value) in COUNTERS {
            registry.register(*name, *help, ConstCounter::new(value(self)));
        }
        for (name, help, value) in GAUGES {
            registry.register(*name, *help, ConstGauge::new(as_gauge(value(self))));
        }
        let role = [("role".into(), self.role.clone().into())];
        registry.sub_registry_with_labels(role.into_iter()).register(
            "broker_role",
            "1 for the role the broker has now",
            ConstGauge::new(1i64),
        );
        let durability = [("mode".into(), self.durability.clone().into())];
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
            role: "master".to_owned(),
            durability: "sync".to_owned(),
            messages_in: 3,
            commit_position: 1024,
            ..Figures::default()
        };
        let text = figures.to_open_metrics();
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
