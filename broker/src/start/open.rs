//! Opening log, store and tables, in the order that they need each other.

use std::{
    net::{SocketAddr, ToSocketAddrs},
    path::{Path, PathBuf},
    sync::{
        Arc, RwLock,
        atomic::{AtomicBool, AtomicU32},
    },
    time::{Duration, Instant},
};

use protocol::message::id::UniqueIds;
use remoting::{Client, ClientOptions};
use segment::{RealVfs, Vfs};
use store::{
    PullLimits, Store, StoreOptions, append_log::AppendLog, config_file::ConfigFile,
    retention::RetentionPolicy,
};

use super::StartError;
use crate::{
    broker::{Advertised, Broker},
    clock,
    config::{BrokerConfig, FlushDiskType, Settings},
    consumers::Consumers,
    delay,
    dledger_log::DledgerLog,
    groups::Groups,
    hold::Hold,
    lanes::Lanes,
    locks::QueueLocks,
    offsets::Offsets,
    pending::{Completions, InFlight, Pending},
    producers::Producers,
    registration::Registration,
    requests::RequestCounters,
    role::{Role, RoleEvent},
    stats::Stats,
    topics::Topics,
};

/// What stays open beside the broker's shared state.
#[derive(Debug)]
pub(super) struct Opened {
    log: Arc<DledgerLog<Pending>>,
}

/// Opens everything.
pub(super) async fn open(config: BrokerConfig) -> Result<(Arc<Broker>, Opened), StartError> {
    let runtime = tokio::runtime::Handle::current();
    let opening = tokio::task::spawn_blocking(move || open_blocking(config, runtime));
    opening.await.map_err(|panicked| StartError::Data(panicked.to_string()))?
}

fn open_blocking(
    config: BrokerConfig,
    runtime: tokio::runtime::Handle,
) -> Result<(Arc<Broker>, Opened), StartError> {
    let advertised = Arc::new(Advertised::new(advertised_address(&config)?));
    let stats = Arc::new(Stats::new(&config.broker_cluster_name));
    let in_flight = Arc::new(InFlight::default());
    let completions = Arc::new(Completions {
        stats: Arc::clone(&stats),
        advertised: Arc::clone(&advertised),
        in_flight: Arc::clone(&in_flight),
    });
    let log = Arc::new(DledgerLog::open(&log_options(&config), completions).map_err(data)?);
    let vfs: Arc<dyn Vfs> = Arc::new(RealVfs);
    let options = store_options(&config, Arc::clone(&vfs));
    let store = Store::open(options, Arc::clone(&log) as Arc<dyn AppendLog<Pending>>);
    let store = store.map_err(data)?;
    let file = |name: &str| ConfigFile::new(Arc::clone(&vfs), config_path(&config, name));
    let topics = Topics::open(file("topics.json"), &config).map_err(data)?;
    let delay_progress = delay::Progress::open(file("delayOffset.json")).map_err(data)?;
    let ip = advertised.get().ip();
    let pid = u16::try_from(std::process::id() & 0xFFFF).unwrap_or_default();
    let salt = u32::try_from(clock::now_millis() & 0xFFFF_FFFF).unwrap_or_default();
    let broker = Broker {
        store: Arc::new(store),
        lanes: Lanes::new(&config),
        requests: RequestCounters::new(),
        topics,
        groups: Groups::open(file("subscriptionGroup.json")).map_err(data)?,
        offsets: Offsets::open(file("consumerOffset.json")).map_err(data)?,
        consumers: Consumers::default(),
        producers: Producers::default(),
        locks: QueueLocks::default(),
        stats,
        hold: Hold::new(config.max_held_pulls as usize),
        delay_progress,
        delay_wake: delay::Wake::default(),
        registration: Registration::new(Client::new(ClientOptions::default())),
        unique_ids: UniqueIds::new(ip, pid, salt),
        runtime,
        started_millis: clock::now_millis(),
        advertised,
        next_queue: AtomicU32::new(0),
        in_flight,
        stopping: AtomicBool::new(false),
        clean_now: tokio::sync::Notify::new(),
        disk_is_full: AtomicBool::new(false),
        role: RwLock::new(Role::Candidate),
        settings: Arc::new(Settings::new(config)),
    };
    Ok((Arc::new(broker), Opened { log }))
}

impl Opened {
    /// Starts the log, and waits until this node leads and all that earlier terms left can be read
    /// by queue: a consumer that asked before would be told that its offset is beyond the end.
    pub(super) async fn lead(
        &self,
        broker: &Arc<Broker>,
        limit: Duration,
    ) -> Result<(), StartError> {
        self.log.start(broker.store.tails(), broker.store_host()).map_err(data)?;
        let mut status = self.log.status();
        let elected = tokio::time::timeout(limit, async {
            status.wait_for(|status| status.opened || status.failure.is_some()).await.is_ok()
        });
        if !elected.await.unwrap_or(false) {
            return Err(StartError::NotElected(limit));
        }
        let now = status.borrow().clone();
        if let Some(reason) = now.failure {
            return Err(StartError::Data(reason));
        }
        broker.role_changed(RoleEvent::Elected { term: now.term }).await;
        self.catch_up(broker).await;
        broker.role_changed(RoleEvent::Opened { term: now.term }).await;
        Ok(())
    }

    async fn catch_up(&self, broker: &Broker) {
        let end = broker.store.max_physical();
        let mut told = Instant::now();
        while broker.store.dispatched() < end {
            if told.elapsed() > Duration::from_secs(1) {
                told = Instant::now();
                let behind = broker.store.dispatch_behind_bytes();
                tracing::info!(behind_bytes = behind, "queues are being brought up to date");
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// The log, for what trims it.
    pub(super) fn log(&self) -> &Arc<DledgerLog<Pending>> {
        &self.log
    }

    /// Waits until the log fails; gives the reason.
    pub(super) async fn failed(&self) -> String {
        let mut status = self.log.status();
        let failure = status.wait_for(|status| status.failure.is_some()).await;
        match failure.map(|status| status.failure.clone()) {
            Ok(Some(reason)) => reason,
            Ok(None) | Err(_) => "the log has stopped".to_owned(),
        }
    }

    /// Closes store and log; gives the reason why the log did not close in order.
    pub(super) fn close(self, broker: &Broker) -> Result<(), String> {
        broker.store.shutdown();
        self.log.shutdown()
    }
}

fn data(error: impl std::fmt::Display) -> StartError {
    StartError::Data(error.to_string())
}

fn config_path(config: &BrokerConfig, name: &str) -> PathBuf {
    Path::new(&config.store_path_root_dir).join("config").join(name)
}

/// Ids hold an address, so that a name is resolved once.
fn advertised_address(config: &BrokerConfig) -> Result<SocketAddr, StartError> {
    let host = config.broker_ip1.0.as_str();
    let resolved = (host, config.listen_port).to_socket_addrs().map(|mut found| found.next());
    match resolved {
        Ok(Some(address)) => Ok(address),
        Ok(None) => Err(StartError::Config(format!("brokerIP1={host} has no address"))),
        Err(error) => Err(StartError::Config(format!(
            "brokerIP1={host} cannot be resolved: {error}; write an address that clients reach"
        ))),
    }
}

fn log_options(config: &BrokerConfig) -> dledger::Options {
    let own = format!("{}-{}:{DLEDGER_PORT}", config.dleger_self_id, config.broker_ip1.0);
    let peers = if config.dleger_peers.trim().is_empty() { &own } else { &config.dleger_peers };
    let root = Path::new(&config.store_path_root_dir);
    dledger::Options {
        group: config.dleger_group.clone(),
        self_id: config.dleger_self_id.clone(),
        peers: peers.clone(),
        file_size: config.mapped_file_size_commit_log,
        durability: match config.flush_disk_type {
            FlushDiskType::Sync => dledger::Durability::Sync,
            FlushDiskType::Async => dledger::Durability::Async,
        },
        hot_ring_bytes: usize::try_from(config.hot_ring_bytes).unwrap_or(usize::MAX),
        pending_bytes: config.pending_append_bytes,
        append_timeout: Duration::from_millis(config.append_timeout_millis),
        ..dledger::Options::one_node(root.join(format!("dledger-{}", config.dleger_self_id)))
    }
}

fn store_options(config: &BrokerConfig, vfs: Arc<dyn Vfs>) -> StoreOptions {
    let defaults = StoreOptions::new(&config.store_path_root_dir);
    let ratio = u64::from(config.access_message_in_memory_max_ratio);
    StoreOptions {
        vfs,
        consume_queue_file_size: config.mapped_file_size_consume_queue,
        index_slots: config.max_hash_slot_num,
        index_entries: config.max_index_num,
        index_enabled: config.message_index_enable,
        delay_levels: config.message_delay_level.levels().clone(),
        log_file_size: config.mapped_file_size_commit_log,
        in_memory_bytes: defaults.in_memory_bytes / JAVA_IN_MEMORY_RATIO * ratio,
        recent_log_bytes: config.hot_ring_bytes.saturating_mul(2),
        limits: PullLimits {
            memory_messages: config.max_transfer_count_on_message_in_memory as usize,
            memory_bytes: config.max_transfer_bytes_on_message_in_memory as usize,
            disk_messages: config.max_transfer_count_on_message_in_disk as usize,
            disk_bytes: config.max_transfer_bytes_on_message_in_disk as usize,
            ..PullLimits::default()
        },
        retention: RetentionPolicy {
            reserved: Duration::from_secs(u64::from(config.file_reserved_time) * 3600),
            delete_hours: config.delete_when.hours().to_vec(),
            max_used_percent: percent(config.disk_max_used_space_ratio),
            force_used_percent: percent(config.disk_space_clean_forcibly_ratio),
            force_enabled: config.clean_file_forcibly_enable,
        },
        ..defaults
    }
}

fn percent(ratio: u32) -> u8 {
    u8::try_from(ratio).unwrap_or(100)
}

/// Port of a member whose `dLegerPeers` is not set; a group of one does not listen there.
const DLEDGER_PORT: u16 = 40_911;
/// The percentage that the store's default stands for (`accessMessageInMemoryMaxRatio`).
const JAVA_IN_MEMORY_RATIO: u64 = 40;
