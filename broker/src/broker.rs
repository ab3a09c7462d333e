//! The broker's shared state: what handlers and background tasks work on.

use std::{
    net::SocketAddr,
    sync::{
        Arc, OnceLock, PoisonError, RwLock,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Instant,
};

use protocol::{
    code::response,
    message::{id::UniqueIds, record::MessageRecord},
    name,
};
use remoting::Connection;
use store::{
    Arrival, ArrivalListener, JournalRecord, Store,
    append_log::{Batch, RefusalCause, Refused},
    journal::Change,
};
use tokio::sync::{Notify, oneshot};

use crate::{
    audit::AuditLog,
    call::Rejection,
    cold_data::ColdData,
    compat::{self, JavaMaster, JavaSlaves, Wanted},
    config::{BrokerConfig, Settings},
    consumers::{Consumers, Unannounced},
    delay,
    disk::Disk,
    drafts,
    filter::Filters,
    forward::Forwarder,
    group::Group,
    groups::Groups,
    handlers::{
        pop,
        pull::{self, Pull},
    },
    hold::Hold,
    journal::Journal,
    lanes::Lanes,
    locks::QueueLocks,
    offsets::Offsets,
    pending::{self, InFlight, Outcome, Pending},
    pop::Pop,
    producers::Producers,
    registration::Registration,
    requests::RequestCounters,
    role::{self, Role, RoleEffect, RoleEvent},
    stats::Stats,
    switch::Switch,
    timer,
    topic_queues::TopicQueues,
    topics::{SCHEDULE_TOPIC, Topic, Topics, TopicsError},
    transaction::Transactions,
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
    /// Changes that others depend on, for the log.
    pub(crate) audit: AuditLog,
    /// Topics.
    pub(crate) topics: Topics,
    /// Groups and how they may consume.
    pub(crate) groups: Groups,
    /// How far each group has consumed.
    pub(crate) offsets: Offsets,
    /// Consumers that are online.
    pub(crate) consumers: Consumers<Arc<Connection>>,
    /// Who pulled since this node was started, as long as not all members of groups are known.
    pub(crate) unannounced: Unannounced,
    /// Where queues of topics are that consumers share.
    pub(crate) topic_queues: TopicQueues,
    /// Producers that are online.
    pub(crate) producers: Producers<Arc<Connection>>,
    /// Leases on queues of ordered consumers.
    pub(crate) locks: QueueLocks,
    /// What was sent and consumed.
    pub(crate) stats: Arc<Stats>,
    /// Expressions that consumers filter by.
    pub(crate) filters: Filters,
    /// Pulls that wait for messages.
    pub(crate) hold: Hold<Pull>,
    /// Pop consumption.
    pub(crate) pop: Pop,
    /// What fails over beside messages: the tables above and below follow from it.
    pub(crate) journal: Journal,
    /// How far delayed messages are delivered.
    pub(crate) delay_progress: delay::Progress,
    /// Wakes the delivery of delayed messages.
    pub(crate) delay_wake: delay::Wake,
    /// Wakes the delivery of timers.
    pub(crate) timer_wake: delay::Wake,
    /// What Java's slaves are told of timers.
    pub(crate) timers_shown: timer::Shown,
    /// Transactions that wait for their end.
    pub(crate) transactions: Transactions,
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
    /// What operators have set for reads of cold data.
    pub(crate) cold_data: ColdData,
    /// Room on the disk.
    pub(crate) disk: Arc<Disk>,
    pub(crate) next_queue: AtomicU32,
    pub(crate) role: RwLock<Role>,
    /// The group of several brokers that this one is in.
    pub(crate) group: Option<Arc<Group>>,
    /// What a change of the master asks of requests.
    pub(crate) switch: Switch,
    /// Passes requests on to the leader.
    pub(crate) forwarder: Forwarder,
    /// What is known of Java masters, which this node follows.
    pub(crate) java_master: JavaMaster,
    /// What is known of Java slaves, which follow this node.
    pub(crate) java_slaves: JavaSlaves,
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
        self.with_role(Role::clone)
    }

    /// What `look` gives of the role now.
    pub(crate) fn with_role<T>(&self, look: impl FnOnce(&Role) -> T) -> T {
        look(&self.role.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether this node is the master now.
    pub(crate) fn is_master(&self) -> bool {
        self.with_role(Role::is_master)
    }

    /// The group of several brokers that this one is a member of.
    #[must_use]
    pub fn group(&self) -> Option<Arc<Group>> {
        self.group.clone()
    }

    /// Takes what the log says about its node, and does what that asks for. Name servers are told
    /// in the background: one that is away must not hold up the next change.
    pub(crate) fn role_changed(self: &Arc<Self>, event: &RoleEvent) {
        if matches!(event, RoleEvent::Opened { .. }) && !self.is_master() {
            self.forget_unapplied();
        }
        let (role, effects) = {
            let mut present = self.role.write().unwrap_or_else(PoisonError::into_inner);
            let (next, effects) = role::change(&present, event);
            if next != *present {
                tracing::info!(role = ?next, "role");
            }
            let took_over = next.is_master() && !present.is_master();
            let changed = next != *present;
            *present = next;
            if changed {
                self.switch.role_changed();
            }
            if took_over && self.forwarder.has_members() {
                self.locks.took_over(Instant::now());
            }
            (present.clone(), effects)
        };
        for effect in effects {
            match effect {
                RoleEffect::StartDelivery => {
                    let missing = self.topics.missing_system(&self.config());
                    missing.into_iter().for_each(|change| self.journal.soon(change));
                    self.offsets.broadcast.took_over(Instant::now());
                    self.delay_wake.wake();
                    self.timer_wake.wake();
                    self.transactions.wake.wake();
                    self.pop.wake.wake();
                }
                RoleEffect::StopDelivery => {
                    self.delay_wake.wake();
                    self.timer_wake.wake();
                }
                RoleEffect::DropLeases => {
                    self.locks.forget();
                    self.offsets.broadcast.forget();
                    self.transactions.forget();
                    self.forget_unapplied();
                    pull::resume(self, self.hold.drain(None));
                    pop::let_go(self, None);
                }
                // A planned switch leaves id 0 in the routes until the new master has taken it.
                RoleEffect::Publish if self.switch.is_handing() => {}
                RoleEffect::Publish => self.registration.publish(&role),
            }
        }
    }

    /// The topic of that name, made where there is none: committed and registered when this
    /// returns.
    pub(crate) async fn ensure_topic(
        self: &Arc<Self>,
        topic: Topic,
    ) -> Result<Arc<Topic>, Rejection> {
        if let Some(present) = self.topics.get(&topic.topic_name) {
            return Ok(present);
        }
        let (name, queues) = (topic.topic_name.clone(), topic.write_queue_nums);
        let bound =
            if self.is_of_group(&topic) { usize::MAX } else { self.config().max_topics as usize };
        let plan = || {
            let change = self.topics.make(topic, bound)?;
            let made = change.is_some();
            Ok((change.into_iter().collect(), made))
        };
        if self.change_by(plan).await? {
            tracing::info!(topic = name, queues, "topic was made");
            self.register().await;
        }
        self.topics.get(&name).ok_or_else(|| {
            let remark = format!("topic {name} was deleted while it was made; try again");
            Rejection::new(response::SERVICE_NOT_AVAILABLE, remark)
        })
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

    /// Changes a topic, as an administrator would: committed and registered when this returns.
    pub(crate) fn change_topic_blocking(self: &Arc<Self>, topic: Topic) -> Result<(), Rejection> {
        self.change_blocking(|| Ok((self.topics.put(topic).into_iter().collect(), ())))?;
        self.runtime.block_on(self.register());
        Ok(())
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

    /// The topics of groups in a heartbeat, made where they are missing: committed and registered
    /// once for all, for a heartbeat may name thousands of groups.
    pub(crate) async fn ensure_topics(
        self: &Arc<Self>,
        topics: Vec<Topic>,
    ) -> Result<(), Rejection> {
        let plan = || {
            let changes = self.topics.make_all(topics);
            let made = changes.len();
            Ok((changes, made))
        };
        let made = self.change_by(plan).await?;
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

    /// Forgets topics with their queues, offsets and counters; pulls that wait for them are answered.
    /// For handlers that may block.
    pub(crate) fn delete_topics_blocking(&self, topics: Vec<String>) -> Result<(), Rejection> {
        let changes = topics.into_iter().map(Change::DeleteTopic).collect();
        self.change_blocking(|| Ok((changes, ())))
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
        self.require_disk()?;
        self.submit_records(records)
    }

    /// As [`Broker::submit_inside`], whatever the room on the disk is.
    pub(crate) fn submit_records(
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
        if compat::limits(self.group.as_deref(), Wanted::Records(&batch.lengths)).is_err() {
            let length = batch.lengths.iter().copied().max().unwrap_or(0).into();
            let cause = RefusalCause::TooLarge { length, limit: drafts::LONGEST_SENT as u64 };
            return Err(Refused { batch, cause });
        }
        self.in_flight.begin();
        self.store.submit(batch).inspect_err(|_| self.in_flight.end(1))
    }

    /// Refuses a send while the disk is nearly full: what is written to the last byte cannot be
    /// cleaned up any more.
    pub(crate) fn require_disk(&self) -> Result<(), Rejection> {
        match self.disk.refusal() {
            None => Ok(()),
            Some(remark) => Err(Rejection::new(response::SERVICE_NOT_AVAILABLE, remark)),
        }
    }

    /// A connection has ended: whatever hangs on it goes.
    pub(crate) fn connection_closed(&self, connection: &Arc<Connection>) {
        drop(self.hold.closed(connection.id()));
        pop::closed(self, connection.id());
        self.java_slaves.closed(connection.id());
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
        pop::arrived(&broker, arrivals);
        if arrivals.iter().any(|arrival| *arrival.topic == *SCHEDULE_TOPIC) {
            broker.delay_wake.wake();
        }
        if arrivals.iter().any(|arrival| *arrival.topic == *name::TIMER_TOPIC) {
            broker.timer_wake.wake();
        }
    }

    fn journal(&self, record: &JournalRecord<'_>) -> bool {
        // Without a broker the store is about to stop, and a start goes on here.
        self.0.upgrade().is_some_and(|broker| broker.apply_journal(record))
    }
}

impl From<TopicsError> for Rejection {
    fn from(error: TopicsError) -> Self {
        Self::new(response::SYSTEM_ERROR, error.to_string())
    }
}
