//! What a running broker tells about itself, for probes and metrics.

use crate::{broker::Broker, config::FlushDiskType, role::Role};

/// Figures of one moment. Counters are since the start.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Figures {
    /// Name of the cluster.
    pub cluster: String,
    /// Name of the broker.
    pub broker: String,
    /// `master`, `slave`, `candidate` or `taking-over`.
    pub role: &'static str,
    /// When a message counts as kept: `sync` (fsynced) or `async` (in the page cache).
    pub durability: &'static str,
    /// Messages stored.
    pub messages_in: u64,
    /// Bytes of their bodies.
    pub bytes_in: u64,
    /// Sends that were not stored.
    pub sends_failed: u64,
    /// Messages handed to consumers; tools are not counted.
    pub messages_out: u64,
    /// Bytes of those messages.
    pub bytes_out: u64,
    /// Appends that wait for their commit.
    pub pending_appends: u64,
    /// 99th percentile of the time from request to commit over the last minute, in milliseconds.
    pub put_latency_99: f64,
    /// Producer groups that are online.
    pub producer_groups: u64,
    /// Connections of producers, one for each group that it is in.
    pub producers: u64,
    /// Consumer groups that are online.
    pub consumer_groups: u64,
    /// Connections of consumers, one for each group that it is in.
    pub consumers: u64,
    /// Pulls that wait for messages.
    pub held_pulls: u64,
    /// Topics.
    pub topics: u64,
    /// Bytes of the committed log that are not yet in the queues.
    pub dispatch_behind: u64,
    /// Used share of the fullest file system that holds data, from 0 to 1; 0 where unknown.
    pub disk_used: f64,
    /// 1 where there is room for sends, 0 where they are refused for want of it.
    pub store_writable: u64,
    /// End of the committed log in bytes.
    pub commit_position: u64,
    /// Oldest kept entry in bytes.
    pub min_position: u64,
}

impl Broker {
    /// The figures of now.
    #[must_use]
    pub fn figures(&self) -> Figures {
        let config = self.config();
        let totals = self.stats.totals();
        let (producer_groups, producers) = self.producers.counts();
        let (consumer_groups, consumers) = self.consumers.counts();
        Figures {
            cluster: config.broker_cluster_name.clone(),
            broker: config.broker_name.clone(),
            role: match self.role() {
                Role::Master { .. } => "master",
                Role::Slave { .. } => "slave",
                Role::Candidate => "candidate",
                Role::TakingOver { .. } => "taking-over",
            },
            durability: match config.flush_disk_type {
                FlushDiskType::Sync => "sync",
                FlushDiskType::Async => "async",
            },
            messages_in: totals.put_messages,
            bytes_in: totals.put_bytes,
            sends_failed: totals.put_failed,
            messages_out: totals.transferred,
            bytes_out: totals.transferred_bytes,
            pending_appends: self.in_flight.count(),
            put_latency_99: totals.put_latency_99,
            producer_groups: producer_groups as u64,
            producers: producers as u64,
            consumer_groups: consumer_groups as u64,
            consumers: consumers as u64,
            held_pulls: self.hold.len() as u64,
            topics: self.topics.len() as u64,
            dispatch_behind: self.store.dispatch_behind_bytes(),
            disk_used: self.disk.fullest().map_or(0.0, |fullest| fullest.used()),
            store_writable: u64::from(self.disk.refusal().is_none()),
            commit_position: self.store.max_physical(),
            min_position: self.store.min_physical(),
        }
    }

    /// Why this broker does not do its part yet; `None` when it does. It must be the master, or
    /// follow one, and, where name servers are configured, be known to one of them.
    #[must_use]
    pub fn unready(&self) -> Option<String> {
        let follows = matches!(self.role(), Role::Slave { .. });
        if let Err(rejection) = self.require_master()
            && !follows
        {
            return Some(rejection.remark);
        }
        self.registration
            .missing_everywhere()
            .map(|servers| format!("this broker is not registered at any name server of {servers}"))
    }
}
