//! The broker's shared state: what handlers and background tasks work on.

use std::{
    net::SocketAddr,
    sync::{
        Arc, OnceLock, PoisonError, RwLock,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
};

use protocol::{
    code::response,
    message::{id::UniqueIds, record::MessageRecord},
    name,
};
use remoting::Connection;
use store::{
    Arrival, ArrivalListener, Store,
    append_log::{Batch, Refused},
};
use tokio::sync::{Notify, oneshot};

use crate::{
    call::Rejection,
    config::{BrokerConfig, Settings},
    consumers::Consumers,
    delay, drafts,
    groups::Groups,
    handlers::pull::{self, Pull},
    hold::Hold,
    lanes::Lanes,
    locks::QueueLocks,
    offsets::Offsets,
    pending::{self, InFlight, Outcome, Pending},
    producers::Producers,
    registration::Registration,
    requests::RequestCounters,
    role::{self, Role, RoleEffect, RoleEvent},
    stats::Stats,
    topics::{SCHEDULE_TOPIC, Topic, Topics, TopicsError},
};

/// One broker. Everything is shared; each table locks by itself.
#[derive(Debug)]
pub struct Broker {
    /// Configuration, hot keys included.
    pub(crate) settings: Arc<Settings>,
    /// Messages, and everything derived from them.
    pub(crate) store: Arc<Store<Pending>>,
    /// Where blocking work runs.
    pub(crate) lanes: Lanes,
    /// Requests by code.
    pub(crate) requests: RequestCounters,
    /// Topics.
    pub(crate) topics: Topics,
    /// Groups and how they may consume.
    pub(crate) groups: Groups,
    /// How far each group has consumed.
    pub(crate) offsets: Offsets,
    /// Consumers that are online.
    pub(crate) consumers: Consumers<Arc<Connection>>,
    /// Producers that are online.
    pub(crate) producers: Producers<Arc<Connection>>,
    /// Leases on queues of ordered consumers.
    pub(crate) locks: QueueLocks,
    /// What was sent and consumed.
    pub(crate) stats: Arc<Stats>,
    /// Pulls that wait for messages.
    pub(crate) hold: Hold<Pull>,
    /// How far delayed messages are delivered.
    pub(crate) delay_progress: delay::Progress,
    /// Wakes the delivery of delayed messages.
    pub(crate) delay_wake: delay::Wake,
    /// What the name servers know.
    pub(crate) registration: Registration,
    /// Makes unique keys for messages without one.
    pub(crate) unique_ids: UniqueIds,
    /// Runs tasks that a thread of the store or of the log starts.
    pub(crate) runtime: tokio::runtime::Handle,
    /// When this broker was started, in milliseconds since 1970.
    pub(crate) started_millis: i64,
    /// The address that message ids carry.
    pub(crate) advertised: Arc<Advertised>,
    /// Appends that the log has taken and not completed.
    pub(crate) in_flight: Arc<InFlight>,
    /// Whether a stop has begun.
    pub(crate) stopping: AtomicBool,
    /// Asks for expired files to be deleted whatever the hour.
    pub(crate) clean_now: Notify,
    /// Whether the disk is so full that sends are refused (`diskSpaceWarningLevelRatio`).
    pub(crate) disk_is_full: AtomicBool,
    pub(crate) next_queue: AtomicU32,
    pub(crate) role: RwLock<Role>,
}

/// The address that clients connect to. Its port is known once the listener is bound.
#[derive(Debug)]
pub(crate) struct Advertised {
    configured: SocketAddr,
    bound: OnceLock<SocketAddr>,
}

impl Advertised {
    /// As configured.
    pub(crate) fn new(configured: SocketAddr) -> Self {
        Self { configured, bound: OnceLock::new() }
    }

    /// The port that the listener has got. Only the first call counts.
    pub(crate) fn bind(&self, port: u16) {
        let address = SocketAddr::new(self.configured.ip(), port);
        if self.bound.set(address).is_err() {
            tracing::error!(%address, "the listener was bound twice");
        }
    }

    /// The address now.
    pub(crate) fn get(&self) -> SocketAddr {
        self.bound.get().copied().unwrap_or(self.configured)
    }
}

impl Broker {
    /// What holds now.
    pub(crate) fn config(&self) -> Arc<BrokerConfig> {
        self.settings.current()
    }

    /// The address that message ids carry.
    pub(crate) fn store_host(&self) -> SocketAddr {
        self.advertised.get()
    }

    /// The address that clients connect to, as configured and registered.
    pub(crate) fn client_address(&self) -> String {
        let (host, port) = (self.config().broker_ip1.0.clone(), self.store_host().port());
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
    }

    /// The role now.
    pub(crate) fn role(&self) -> Role {
        self.role.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Refuses where this node is not the master, in a way that makes clients try again.
    pub(crate) fn require_master(&self) -> Result<(), Rejection> {
        let role = self.role.read().unwrap_or_else(PoisonError::into_inner);
        let why = match &*role {
            Role::Master { .. } if self.stopping.load(Ordering::Acquire) => {
                "it is stopping; ask the one that takes over".to_owned()
            }
            Role::Master { .. } => return Ok(()),
            Role::Slave { leader } => format!("its leader is {leader}; ask there"),
            Role::TakingOver { term } => {
                format!("it is taking over in term {term}; ask again in a moment")
            }
            Role::Candidate => "it knows no leader yet; ask again in a moment".to_owned(),
        };
        Err(Rejection::new(
            response::SERVICE_NOT_AVAILABLE,
            format!("this broker is not the master: {why}"),
        ))
    }

    /// Takes what the log says about its node, and does what that asks for.
    pub(crate) async fn role_changed(self: &Arc<Self>, event: RoleEvent) {
        let effects = {
            let mut present = self.role.write().unwrap_or_else(PoisonError::into_inner);
            let (next, effects) = role::change(&present, &event);
            if next != *present {
                tracing::info!(role = ?next, "role");
            }
            *present = next;
            effects
        };
        for effect in effects {
            match effect {
                RoleEffect::StartDelivery | RoleEffect::StopDelivery => self.delay_wake.wake(),
                RoleEffect::DropLeases => {
                    // Leases hold for as long as their clients renew them here; nobody can.
                    pull::resume(self, self.hold.drain(None));
                }
                RoleEffect::RegisterAsMaster => self.register().await,
                RoleEffect::Unregister => self.unregister().await,
            }
        }
    }

    /// The topic of that name, made where there is none: on disk and registered when this returns.
    pub(crate) async fn ensure_topic(
        self: &Arc<Self>,
        topic: Topic,
    ) -> Result<Arc<Topic>, Rejection> {
        if let Some(present) = self.topics.get(&topic.topic_name) {
            return Ok(present);
        }
        let broker = Arc::clone(self);
        let made = tokio::task::spawn_blocking(move || broker.make_topic(topic)).await;
        let (topic, made) = made.map_err(|_panicked| {
            Rejection::new(response::SYSTEM_ERROR, "the topic could not be made; see the log")
        })??;
        if made {
            self.register().await;
        }
        Ok(topic)
    }

    /// As [`Broker::ensure_topic`], for handlers that may block.
    pub(crate) fn ensure_topic_blocking(
        self: &Arc<Self>,
        topic: Topic,
    ) -> Result<Arc<Topic>, Rejection> {
        if let Some(present) = self.topics.get(&topic.topic_name) {
            return Ok(present);
        }
        self.runtime.block_on(self.ensure_topic(topic))
    }

    /// As [`Broker::ensure_topic`], without waiting for it: for topics that only the broker itself
    /// writes to.
    pub(crate) fn ensure_topic_soon(self: &Arc<Self>, topic: Topic) {
        if self.topics.get(&topic.topic_name).is_some() {
            return;
        }
        let broker = Arc::clone(self);
        self.runtime.spawn(async move {
            let name = topic.topic_name.clone();
            if let Err(rejection) = broker.ensure_topic(topic).await {
                tracing::error!(topic = name, reason = rejection.remark, "topic was not made");
            }
        });
    }

    /// The topics of groups in a heartbeat, made where they are missing: written and registered
    /// once for all, for a heartbeat may name thousands of groups.
    pub(crate) async fn ensure_topics(
        self: &Arc<Self>,
        topics: Vec<Topic>,
    ) -> Result<(), Rejection> {
        let broker = Arc::clone(self);
        let made = tokio::task::spawn_blocking(move || broker.topics.make_all(topics)).await;
        let made = made.map_err(|_panicked| {
            Rejection::new(response::SYSTEM_ERROR, "the topics could not be made; see the log")
        })??;
        if made > 0 {
            tracing::info!(count = made, "topics of groups were made");
            self.register().await;
        }
        Ok(())
    }

    /// Whether a topic follows from a group: the number of groups has its own bound. The name alone
    /// proves nothing, for anybody may send to it.
    fn is_of_group(&self, topic: &Topic) -> bool {
        let name = &topic.topic_name;
        let group =
            name::group_of_retry_topic(name).or_else(|| name.strip_prefix(name::DLQ_PREFIX));
        group.is_some_and(|group| self.groups.find(group).is_some())
    }

    fn make_topic(&self, topic: Topic) -> Result<(Arc<Topic>, bool), Rejection> {
        let bound =
            if self.is_of_group(&topic) { usize::MAX } else { self.config().max_topics as usize };
        let (topic, made) = self.topics.get_or_make(topic, bound)?;
        if made {
            tracing::info!(
                topic = topic.topic_name,
                queues = topic.write_queue_nums,
                "topic was made"
            );
        }
        Ok((topic, made))
    }

    /// Forgets a topic with its queues, offsets and counters. Pulls that wait for it are answered.
    pub(crate) fn delete_topic(self: &Arc<Self>, topic: &str) -> Result<(), Rejection> {
        self.topics.remove(topic)?;
        self.offsets.forget_topic(topic);
        self.stats.forget_topic(topic);
        if let Err(error) = self.store.delete_topic(topic) {
            tracing::error!(topic, %error, "queues of a deleted topic were not removed");
        }
        pull::resume(self, self.hold.drain(Some(topic)));
        Ok(())
    }

    /// One of a topic's queues, each in its turn; `None` where it has none.
    pub(crate) fn any_queue(&self, queues: i32) -> Option<i32> {
        let queues = u32::try_from(queues).ok().filter(|queues| *queues > 0)?;
        let turn = self.next_queue.fetch_add(1, Ordering::Relaxed);
        i32::try_from(turn % queues).ok()
    }

    /// Hands messages of this broker's own to the log; the receiver tells what became of them.
    pub(crate) fn submit_inside(
        &self,
        records: &[MessageRecord],
    ) -> Result<oneshot::Receiver<Outcome>, Rejection> {
        let (tell, outcome) = oneshot::channel();
        let batch = drafts::batch(records, Pending::Inside(tell))
            .map_err(|error| Rejection::new(response::MESSAGE_ILLEGAL, error.to_string()))?;
        self.submit(batch)
            .map_err(|refused| pending::refused(&refused.cause, self.config().max_message_size))?;
        Ok(outcome)
    }

    /// Hands a batch to the log.
    pub(crate) fn submit(&self, batch: Batch<Pending>) -> Result<(), Refused<Pending>> {
        self.in_flight.begin();
        self.store.submit(batch).inspect_err(|_| self.in_flight.end(1))
    }

    /// Refuses a send while the disk is nearly full: what is written to the last byte cannot be
    /// cleaned up any more.
    pub(crate) fn require_disk(&self) -> Result<(), Rejection> {
        if !self.disk_is_full.load(Ordering::Relaxed) {
            return Ok(());
        }
        let ratio = self.config().disk_space_warning_level_ratio;
        Err(Rejection::new(
            response::SERVICE_NOT_AVAILABLE,
            format!(
                "service not available now: the broker's disk is more than {ratio}% full (diskSpaceWarningLevelRatio); free some room or send to another broker"
            ),
        ))
    }

    /// A connection has ended: whatever hangs on it goes.
    pub(crate) fn connection_closed(&self, connection: &Arc<Connection>) {
        drop(self.hold.closed(connection.id()));
        self.client_gone(connection);
    }
}

/// Tells the broker what its queues have got.
#[derive(Debug)]
pub(crate) struct Arrivals(pub(crate) std::sync::Weak<Broker>);

impl ArrivalListener for Arrivals {
    fn arrived(&self, arrivals: &[Arrival]) {
        let Some(broker) = self.0.upgrade() else { return };
        let mut woken = Vec::new();
        for arrival in arrivals {
            woken.extend(broker.hold.arrived(
                &arrival.topic,
                arrival.queue_id,
                arrival.offset,
                arrival.tags_code,
            ));
        }
        pull::resume(&broker, woken);
        if arrivals.iter().any(|arrival| *arrival.topic == *SCHEDULE_TOPIC) {
            broker.delay_wake.wake();
        }
    }
}

impl From<TopicsError> for Rejection {
    fn from(error: TopicsError) -> Self {
        Self::new(response::SYSTEM_ERROR, error.to_string())
    }
}
