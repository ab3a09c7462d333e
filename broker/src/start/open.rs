//! Opening log, store and tables, in the order that they need each other.

use std::{
    net::{SocketAddr, ToSocketAddrs},
    path::{Path, PathBuf},
    sync::{Arc, RwLock, atomic::AtomicU32},
    time::Duration,
};

use protocol::message::id::UniqueIds;
use remoting::{Client, ClientOptions};
use segment::{RealVfs, Vfs};
use store::{
    Store, StoreOptions, append_log::AppendLog, config_file::ConfigFile, memory_log::MemoryLog,
};

use super::StartError;
use crate::{
    broker::{Advertised, Broker},
    clock,
    config::{BrokerConfig, Settings},
    consumers::Consumers,
    delay,
    groups::Groups,
    hold::Hold,
    lanes::Lanes,
    locks::QueueLocks,
    offsets::Offsets,
    pending::{Completions, Pending},
    producers::Producers,
    registration::Registration,
    requests::RequestCounters,
    role::{Role, RoleEvent},
    stats::Stats,
    topics::Topics,
};

/// What stays open beside the broker's shared state.
#[derive(Debug)]
pub(super) struct Opened {}

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
    let completions =
        Arc::new(Completions { stats: Arc::clone(&stats), advertised: Arc::clone(&advertised) });
    let log: Arc<dyn AppendLog<Pending>> = Arc::new(MemoryLog::new(completions));
    let store = Store::open(store_options(&config), log).map_err(data)?;
    let vfs: Arc<dyn Vfs> = Arc::new(RealVfs);
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
        role: RwLock::new(Role::Candidate),
        settings: Arc::new(Settings::new(config)),
    };
    Ok((Arc::new(broker), Opened {}))
}

impl Opened {
    /// Waits until this node leads and the broker knows it.
    pub(super) async fn wait_until_master(
        &self,
        broker: &Arc<Broker>,
        _limit: Duration,
    ) -> Result<(), StartError> {
        broker.role_changed(RoleEvent::Elected { term: 1 }).await;
        broker.role_changed(RoleEvent::Opened { term: 1 }).await;
        Ok(())
    }

    /// Waits until the log fails; gives the reason.
    pub(super) async fn failed(&self) -> String {
        std::future::pending().await
    }

    /// Closes store and log.
    pub(super) fn close(self, broker: &Broker) {
        broker.store.shutdown();
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

fn store_options(config: &BrokerConfig) -> StoreOptions {
    StoreOptions {
        consume_queue_file_size: config.mapped_file_size_consume_queue,
        index_slots: config.max_hash_slot_num,
        index_entries: config.max_index_num,
        index_enabled: config.message_index_enable,
        delay_levels: config.message_delay_level.levels().clone(),
        log_file_size: config.mapped_file_size_commit_log,
        ..StoreOptions::new(&config.store_path_root_dir)
    }
}
