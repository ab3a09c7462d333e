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

use dledger::Transport;
use protocol::message::id::UniqueIds;
use remoting::{Client, ClientOptions};
use segment::{RealVfs, Vfs};
use store::{
    PullLimits, Store, StoreOptions,
    append_log::AppendLog,
    journal::{Folder, Tables},
    retention::RetentionPolicy,
};

use super::{StartError, bind_ip, identity, members};
use crate::{
    audit::AuditLog,
    broker::{Advertised, Broker},
    clock,
    cold_data::ColdData,
    compat::{JavaMaster, JavaSlaves},
    config::{BrokerConfig, FlushDiskType, Settings},
    consumers::{Consumers, Unannounced},
    delay,
    disk::Disk,
    dledger_log::DledgerLog,
    filter::Filters,
    forward::{Forwarder, Incoming, Members},
    group::Group,
    groups::Groups,
    hold::Hold,
    journal::Journal,
    lanes::Lanes,
    locks::QueueLocks,
    native_front::Places,
    network::{self, tls_to_name_servers},
    offsets::Offsets,
    operator::Operator,
    pending::{Completions, InFlight, Pending},
    pop::Pop,
    producers::Producers,
    registration::Registration,
    requests::RequestCounters,
    role::{Role, RoleEvent, slave_id},
    stats::Stats,
    switch::Switch,
    timer,
    topic_queues::TopicQueues,
    topics::Topics,
    transaction::Transactions,
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

/// What follows from the journal's tables.
fn tables_of(tables: &Tables, config: &BrokerConfig) -> (Topics, Groups, Offsets, delay::Progress) {
    let (topics, groups) = (Topics::new(tables, config), Groups::new(tables));
    (topics, groups, Offsets::new(tables), delay::Progress::new(tables))
}

fn open_blocking(
    config: BrokerConfig,
    runtime: tokio::runtime::Handle,
) -> Result<(Arc<Broker>, Opened), StartError> {
    let peers = members::check(&config)?;
    let grouped = peers.iter().count() > 1;
    let advertised = Arc::new(Advertised::new(advertised_address(&config)?));
    let stats = Arc::new(Stats::new(&config.broker_cluster_name));
    let in_flight = Arc::new(InFlight::default());
    let vfs: Arc<dyn Vfs> = Arc::new(RealVfs);
    let root = PathBuf::from(&config.store_path_root_dir);
    let log_options = log_options(&config);
    let disk = Arc::new(Disk::new(Arc::clone(&vfs), log_options.directory.clone(), root));
    disk.make_room_for_start().map_err(data)?;
    identity::check(&vfs, &config).map_err(StartError::Data)?;
    let completions = Arc::new(Completions {
        stats: Arc::clone(&stats),
        advertised: Arc::clone(&advertised),
        in_flight: Arc::clone(&in_flight),
        disk: Arc::clone(&disk),
        grouped,
    });
    let log = open_log(&config, &vfs, &log_options, completions)?;
    let group = grouped.then(|| group_of(&config, &log_options, peers, &log));
    let loaded = folder(&config, &vfs).load().map_err(data)?;
    // After the tables: where one cannot be read, the store stays as the last stop left it.
    let options = StoreOptions { native_below: log.front_end(), ..store_options(&config, vfs) };
    let store = Store::open(options, Arc::clone(&log) as Arc<dyn AppendLog<Pending>>);
    let store = store.map_err(data)?;
    let journal = Journal::recover(loaded, &store, &config).map_err(data)?;
    let (topics, groups, offsets, delay_progress) =
        journal.with_tables(|tables| tables_of(tables, &config));
    let broker = Broker {
        store: Arc::new(store),
        lanes: Lanes::new(&config),
        requests: RequestCounters::new(),
        audit: AuditLog::default(),
        topics,
        groups,
        offsets,
        consumers: Consumers::default(),
        unannounced: Unannounced::default(),
        producers: Producers::default(),
        topic_queues: TopicQueues::default(),
        locks: QueueLocks::default(),
        stats,
        filters: Filters::default(),
        hold: Hold::new(config.max_held_pulls as usize),
        pop: Pop::default(),
        journal,
        delay_progress,
        delay_wake: delay::Wake::default(),
        timer_wake: delay::Wake::default(),
        timers_shown: timer::Shown::default(),
        transactions: Transactions::default(),
        registration: registration(&config)?,
        unique_ids: unique_ids(&advertised),
        runtime,
        started_millis: clock::now_millis(),
        advertised,
        next_queue: AtomicU32::new(0),
        in_flight,
        stopping: AtomicBool::new(false),
        cold_data: ColdData::default(),
        clean_now: tokio::sync::Notify::new(),
        disk,
        role: RwLock::new(Role::Candidate),
        group,
        switch: Switch::new(),
        forwarder: Forwarder::new(other_members(&log_options)),
        java_master: JavaMaster::new(),
        java_slaves: JavaSlaves::new(),
        settings: Arc::new(Settings::new(config)),
    };
    Ok((Arc::new(broker), Opened { log }))
}

/// The files of the tables.
fn folder(config: &BrokerConfig, vfs: &Arc<dyn Vfs>) -> Folder {
    Folder::new(vfs, &Path::new(&config.store_path_root_dir).join("config"))
}

fn group_of(
    config: &BrokerConfig,
    options: &dledger::Options,
    peers: dledger::Peers,
    log: &Arc<DledgerLog<Pending>>,
) -> Arc<Group> {
    Arc::new(Group::new(
        options.clone(),
        peers,
        config.broker_cluster_name.clone(),
        Arc::clone(log),
    ))
}

/// The log, behind what a plain Java broker left.
fn open_log(
    config: &BrokerConfig,
    vfs: &Arc<dyn Vfs>,
    options: &dledger::Options,
    completions: Arc<Completions>,
) -> Result<Arc<DledgerLog<Pending>>, StartError> {
    let front = Places::of(config, &options.directory).front(vfs).map_err(data)?;
    DledgerLog::open_behind(front, options, completions).map(Arc::new).map_err(data)
}

fn unique_ids(advertised: &Advertised) -> UniqueIds {
    let pid = u16::try_from(std::process::id() & 0xFFFF).unwrap_or_default();
    let salt = u32::try_from(clock::now_millis() & 0xFFFF_FFFF).unwrap_or_default();
    UniqueIds::new(advertised.get().ip(), pid, salt)
}

fn registration(config: &BrokerConfig) -> Result<Registration, StartError> {
    let options = ClientOptions { tls: tls_to_name_servers(config)?, ..ClientOptions::default() };
    Ok(Registration::new(Client::new(options), slave_id(&config.dleger_self_id)))
}

impl Opened {
    /// Starts the log of a group of one, and waits until this node leads and all that earlier terms
    /// left can be read by queue: a consumer that asked before would be told that its offset is
    /// beyond the end.
    pub(super) async fn lead(
        &self,
        broker: &Arc<Broker>,
        limit: Duration,
    ) -> Result<(), StartError> {
        self.derive_front(broker).await?;
        self.start_log(broker, None)?;
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
        broker.role_changed(&RoleEvent::Elected { term: now.term });
        take_over(broker).await;
        broker.role_changed(&RoleEvent::Opened { term: now.term });
        broker.register().await;
        Ok(())
    }

    /// Takes part in a group of several. What is known to be committed is brought into the queues
    /// first: a node that leads before would hold up its writers while it reads all of it.
    pub(super) async fn join(&self, broker: &Arc<Broker>, group: &Group) -> Result<(), StartError> {
        catch_up(broker, broker.store.max_physical()).await;
        self.derive_front(broker).await?;
        let bind = Some(bind_ip(&broker.config())?).filter(|ip| !ip.is_unspecified());
        let transport = group.listen(bind, broker.client_address()).map_err(data)?;
        transport.serve_forwards(Arc::new(Incoming(Arc::downgrade(broker))));
        transport.serve_clients(Arc::new(Operator {
            broker: Arc::downgrade(broker),
            log: Arc::clone(&self.log),
            self_id: group.self_id().to_owned(),
            members: group.peers().map(|peer| peer.address.clone()).collect(),
        }));
        self.start_log(broker, Some(transport))
    }

    /// What a native log in front holds is not among the entries that an election folds: it must be
    /// in the queues before.
    async fn derive_front(&self, broker: &Broker) -> Result<(), StartError> {
        let end = self.log.front_end();
        catch_up(broker, end).await;
        match broker.store.dispatched() {
            reached if reached < end => Err(StartError::Data(format!(
                "the consume queues of the old log in commitlog/ could be made up to position {reached} of {end} only"
            ))),
            _ => Ok(()),
        }
    }

    fn start_log(
        &self,
        broker: &Arc<Broker>,
        transport: Option<Arc<dyn Transport>>,
    ) -> Result<(), StartError> {
        let source = broker.store.tail_source();
        let take_tails = Box::new(move |min| source.tails(min));
        let owner = Arc::downgrade(broker);
        let needed_from =
            Box::new(move || owner.upgrade().map_or(0, |broker| broker.journal_needed_from()));
        self.log.start((take_tails, needed_from), broker.store_host(), transport).map_err(data)
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
        let closed = self.log.shutdown();
        if let Some(group) = &broker.group {
            group.stop();
        }
        closed
    }
}

/// What is to be done between the commit of a term's opening entry and the announcement of the
/// master. May be cut off at any point, when another leads.
///
/// The queues reach the end of what earlier terms left: a consumer that asked before would be told
/// that its offset is beyond the end, and go back.
pub(super) async fn take_over(broker: &Arc<Broker>) {
    catch_up(broker, broker.store.max_physical()).await;
    broker.last_look_at_java().await;
}

/// Waits until the queues hold all that lies before log position `end`, as long as they move on: where
/// they cannot be written for a while, a group shall not wait for them.
async fn catch_up(broker: &Broker, end: u64) {
    let (mut told, mut moved) = (Instant::now(), Instant::now());
    let mut reached = broker.store.dispatched();
    while reached < end {
        tokio::time::sleep(Duration::from_millis(2)).await;
        let now = broker.store.dispatched();
        if now > reached {
            (reached, moved) = (now, Instant::now());
        }
        let behind = broker.store.dispatch_behind_bytes();
        if moved.elapsed() > STUCK {
            tracing::warn!(behind_bytes = behind, "queues do not move on; going on without them");
            return;
        }
        if told.elapsed() > Duration::from_secs(1) {
            told = Instant::now();
            tracing::info!(behind_bytes = behind, "queues are being brought up to date");
        }
    }
}

fn data(error: impl std::fmt::Display) -> StartError {
    StartError::Data(error.to_string())
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

/// What it takes to pass requests on, in a group of several.
fn other_members(options: &dledger::Options) -> Option<Members> {
    let peers = dledger::Peers::parse(&options.peers).ok()?;
    (peers.iter().count() > 1).then(|| Members {
        group: options.group.clone(),
        self_id: options.self_id.clone(),
        peers,
    })
}

pub(crate) fn log_options(config: &BrokerConfig) -> dledger::Options {
    let root = Path::new(&config.store_path_root_dir);
    dledger::Options {
        group: config.dleger_group.clone(),
        self_id: config.dleger_self_id.clone(),
        peers: members::listed(config),
        preferred: members::preferred_ids(config).map(str::to_owned).collect(),
        // Requests of clients wait while the lead changes hands.
        advises: true,
        count_java_acks: config.count_java_acks,
        file_size: config.mapped_file_size_commit_log,
        durability: match config.flush_disk_type {
            FlushDiskType::Sync => dledger::Durability::Sync,
            FlushDiskType::Async => dledger::Durability::Async,
        },
        hot_ring_bytes: usize::try_from(ring_bytes(config)).unwrap_or(usize::MAX),
        pending_bytes: network::within_memory(config.pending_append_bytes, PENDING_PART),
        append_timeout: Duration::from_millis(config.append_timeout_millis),
        ..dledger::Options::one_node(root.join(format!("dledger-{}", config.dleger_self_id)))
    }
}

/// Bytes of the newest messages in memory.
fn ring_bytes(config: &BrokerConfig) -> u64 {
    network::within_memory(config.hot_ring_bytes, RING_PART)
}

/// Part of the memory that waiting messages may take.
const PENDING_PART: u64 = 8;
/// Part of the memory that the newest messages may take.
const RING_PART: u64 = 16;

pub(crate) fn store_options(config: &BrokerConfig, vfs: Arc<dyn Vfs>) -> StoreOptions {
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
        recent_log_bytes: ring_bytes(config).saturating_mul(2),
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

/// How long queues may stand still before nobody waits for them.
const STUCK: Duration = Duration::from_secs(10);
/// The percentage that the store's default stands for (`accessMessageInMemoryMaxRatio`).
const JAVA_IN_MEMORY_RATIO: u64 = 40;
