//! Registration at the name servers (`BrokerController.registerBrokerAll`).
//!
//! Each name server gets whole registrations, one at a time, so that an older table never
//! overtakes a newer one, and each at its own pace: one that is away holds up neither a topic's
//! creation nor what the others are to know of a change of role. What one has missed it is told
//! again every second until it answers.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use namesrv_client::{NameServers, RegisterAnswer, RegisterBroker, RegisterOutcome};
use protocol::body::{RegisterBrokerBody, TopicRouteData};
use remoting::Client;
use segment::Throttle;
use tokio::{sync::watch, task::JoinSet};

use crate::{
    broker::Broker,
    role::{self, MASTER_ID, Place, Role},
};

/// How long a change of topics, or a start, waits for the name servers.
pub(crate) const PATIENCE: Duration = Duration::from_secs(3);
/// How long an unregistration may take.
const UNREGISTER_TIMEOUT: Duration = Duration::from_secs(3);
/// Time after which a name server that has missed something is told again.
const RETRY: Duration = Duration::from_secs(1);
/// How long an answer is still waited for once what was told is no longer true.
const OVERTAKEN: Duration = Duration::from_secs(1);

/// What is registered where.
#[derive(Debug)]
pub(crate) struct Registration {
    client: Arc<Client>,
    servers: Mutex<Vec<Arc<NameServer>>>,
    /// Where this node stands; nowhere before its first role and after it has left.
    place: watch::Sender<Option<Place>>,
    /// Its id while it does not lead.
    slave_id: i64,
    left: AtomicBool,
}

/// One name server.
#[derive(Debug)]
struct NameServer {
    address: String,
    calls: NameServers,
    /// Held while it is spoken to.
    turn: tokio::sync::Mutex<()>,
    /// What it has got last; `None` where that is not known.
    told: Mutex<Option<Told>>,
    /// Whether it was told anything since it was last left.
    tried: AtomicBool,
    /// Whether the last registration that ended succeeded.
    knows: AtomicBool,
    warned: Throttle,
}

/// What a name server was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Told {
    place: Place,
    /// `DataVersion.stateVersion`.
    state: i64,
    /// Version of the table of topics.
    topics: i64,
}

/// What is news to a name server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum News {
    /// Another place than it knows.
    Place,
    /// That, or an older table of topics than this.
    Topics(i64),
    /// Anything: it is a sign of life, too.
    All,
}

impl News {
    fn is_there(self, told: Option<Told>, now: Told) -> bool {
        let Some(told) = told else { return true };
        let moved = (told.place, told.state) != (now.place, now.state);
        match self {
            Self::Place => moved,
            Self::Topics(wanted) => moved || told.topics < wanted,
            Self::All => true,
        }
    }
}

impl NameServer {
    fn told(&self) -> Option<Told> {
        *self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, told: Option<Told>) {
        *self.told.lock().unwrap_or_else(PoisonError::into_inner) = told;
    }
}

impl Registration {
    /// Nothing is registered yet. `slave_id` is the broker's id while it does not lead.
    pub(crate) fn new(client: Client, slave_id: i64) -> Self {
        Self {
            client: Arc::new(client),
            servers: Mutex::default(),
            place: watch::Sender::new(None),
            slave_id,
            left: AtomicBool::new(false),
        }
    }

    /// Notes where a node with this role stands; name servers are told by
    /// [`Broker::stay_registered`].
    pub(crate) fn publish(&self, role: &Role) {
        if self.left.load(Ordering::Acquire) {
            return;
        }
        self.place.send_if_modified(|present| {
            let next = role::place(role, self.slave_id, *present);
            std::mem::replace(present, next) != next
        });
    }

    /// The broker id under which this node is to be found: that of its role, also before name
    /// servers know it.
    pub(crate) fn broker_id(&self) -> i64 {
        self.place.borrow().map_or(self.slave_id, |place| place.id)
    }

    /// The addresses of all name servers, if there are some and none knows this broker.
    pub(crate) fn missing_everywhere(&self) -> Option<String> {
        let servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        let known = servers.iter().any(|server| server.knows.load(Ordering::Acquire));
        if known || servers.is_empty() {
            return None;
        }
        let addresses: Vec<&str> = servers.iter().map(|server| server.address.as_str()).collect();
        Some(addresses.join(";"))
    }

    /// The name servers of a list; what is known of those that stay is kept.
    fn servers(&self, list: &str) -> Vec<Arc<NameServer>> {
        let mut servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        let next = NameServers::split(list)
            .into_iter()
            .map(|address| {
                let known = servers.iter().find(|server| server.address == address);
                known.cloned().unwrap_or_else(|| {
                    Arc::new(NameServer {
                        calls: NameServers::new(vec![address.clone()], Arc::clone(&self.client)),
                        address,
                        turn: tokio::sync::Mutex::new(()),
                        told: Mutex::new(None),
                        tried: AtomicBool::new(false),
                        knows: AtomicBool::new(false),
                        warned: Throttle::new(),
                    })
                })
            })
            .collect();
        *servers = next;
        servers.clone()
    }

    /// Where a topic is, as the first name server of a list tells that answers: nowhere is an answer,
    /// too.
    pub(crate) async fn route(&self, list: &str, topic: &str) -> Option<Option<TopicRouteData>> {
        for server in self.servers(list) {
            match server.calls.route(topic).await {
                Ok(route) => return Some(route),
                Err(error) => {
                    let name_server = &server.address;
                    tracing::debug!(name_server, topic, %error, "no route");
                }
            }
        }
        None
    }

    /// Ends once this node stands elsewhere and the name server has had some time to answer.
    async fn overtaken(&self, place: Place) {
        let mut places = self.place.subscribe();
        if places.wait_for(|now| *now != Some(place)).await.is_ok() {
            tokio::time::sleep(OVERTAKEN).await;
        }
    }
}

impl Broker {
    /// Tells the name servers of the table as it is now, and waits until they know it, for a
    /// bounded time; what takes longer goes on in the background.
    pub(crate) async fn register(self: &Arc<Self>) {
        let version = self.topics.version().counter;
        let mut tasks = self.tell_all(News::Topics(version));
        let all = async { while tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(PATIENCE, all).await.is_err() {
            tracing::warn!("a name server has not answered a registration yet");
            tasks.detach_all();
        }
    }

    /// Tells every name server of each change of this node's place at once, and everything again
    /// from time to time, until it is dropped.
    pub(crate) async fn stay_registered(self: Arc<Self>) {
        let every = Duration::from_millis(self.config().register_name_server_period);
        let mut places = self.registration.place.subscribe();
        places.mark_changed();
        let mut due = tokio::time::Instant::now() + every;
        loop {
            let news = tokio::select! {
                changed = places.changed() => match changed {
                    Ok(()) => News::Place,
                    Err(_gone) => return,
                },
                () = tokio::time::sleep_until(due) => {
                    due = tokio::time::Instant::now() + every;
                    News::All
                }
                () = tokio::time::sleep(RETRY) => {
                    if !self.is_behind() {
                        continue;
                    }
                    News::Place
                }
            };
            self.tell_all(news).detach_all();
        }
    }

    /// Whether a name server does not know where this node stands.
    fn is_behind(&self) -> bool {
        let Some(now) = self.to_tell() else { return false };
        let servers = self.registration.servers(&self.config().namesrv_addr);
        servers.iter().any(|server| News::Place.is_there(server.told(), now))
    }

    fn tell_all(self: &Arc<Self>, news: News) -> JoinSet<()> {
        let mut tasks = JoinSet::new();
        for server in self.registration.servers(&self.config().namesrv_addr) {
            let broker = Arc::clone(self);
            tasks.spawn(async move { broker.tell(&server, news).await });
        }
        tasks
    }

    /// What is to be told now; nothing before this node has a place.
    fn to_tell(&self) -> Option<Told> {
        let place = (*self.registration.place.borrow())?;
        // One that was made a group of its own outranks those that it left.
        let ours = match &self.group {
            Some(group) => group.is_all_ours(),
            None => place.term > dledger::FORCED_TERMS,
        };
        // Java members know no terms here: the state version of a group with one stays 0.
        let state = if ours { i64::try_from(place.term).unwrap_or(i64::MAX) } else { 0 };
        Some(Told { place, state, topics: self.topics.version().counter })
    }

    async fn tell(self: &Arc<Self>, server: &NameServer, news: News) {
        let _turn = match server.turn.try_lock() {
            Ok(turn) => turn,
            // Somebody tells it already; what it misses is seen within a second.
            Err(_) if news == News::Place => return,
            Err(_) => server.turn.lock().await,
        };
        // More may have changed meanwhile: told is what holds now.
        while let Some(now) = self.to_tell().filter(|now| news.is_there(server.told(), *now)) {
            let moved = server.told().is_none_or(|told| told.place.id != now.place.id);
            self.register_at(server, now).await;
            if moved && self.group.is_some() && server.told().is_some() {
                self.leave_former_ids(server, now).await;
            }
            let moved = self.to_tell().is_some_and(|later| later.place != now.place);
            if !moved {
                break;
            }
        }
    }

    async fn register_at(self: &Arc<Self>, server: &NameServer, now: Told) {
        let said = self.registrant(&now, true);
        let topics = said.body.topic_config_serialize_wrapper.data_version.counter;
        let first = server.told().is_none_or(|told| told.place != now.place);
        let timeout = Duration::from_millis(self.config().register_broker_timeout_mills);
        server.note(None);
        server.tried.store(true, Ordering::Release);
        let outcomes = tokio::select! {
            outcomes = server.calls.register(&said, timeout) => outcomes,
            () = self.registration.overtaken(now.place) => Vec::new(),
        };
        for RegisterOutcome { result, .. } in outcomes {
            match result {
                Ok(answer) => {
                    server.note(Some(Told { topics, ..now }));
                    server.knows.store(true, Ordering::Release);
                    if server.warned.over() || first {
                        let (id, state) = (now.place.id, now.state);
                        tracing::info!(name_server = server.address, id, state, "registered");
                    }
                    self.learn(now.place, answer);
                }
                Err(error) => {
                    server.knows.store(false, Ordering::Release);
                    if let Some(held_back) = server.warned.tell(Instant::now()) {
                        let name_server = &server.address;
                        tracing::warn!(name_server, %error, held_back, "not registered");
                    }
                }
            }
        }
    }

    /// One address is under one id only, which name servers before 4.5 do not see to: there clients
    /// would take a slave for the master. They also forget the address with the id that is taken
    /// away, so that it is told again.
    async fn leave_former_ids(self: &Arc<Self>, server: &NameServer, now: Told) {
        let Ok(info) = server.calls.cluster_info().await else { return };
        let said = self.registrant(&now, false);
        let Some(group) = info.broker_addr_table.get(&said.broker_name) else { return };
        let former: Vec<i64> = group
            .broker_addrs
            .iter()
            .filter(|(id, address)| **id != now.place.id && **address == said.broker_addr)
            .map(|(id, _)| *id)
            .collect();
        for id in &former {
            let place = Place { id: *id, ..now.place };
            let said = self.registrant(&Told { place, ..now }, false);
            for (name_server, result) in server.calls.unregister(&said, UNREGISTER_TIMEOUT).await {
                tracing::info!(name_server, id, ?result, "left a former id");
            }
        }
        if !former.is_empty() {
            self.register_at(server, now).await;
        }
    }

    /// Where the master of this group serves clients, as the first name server says that knows another
    /// one than this node.
    pub(crate) async fn ask_for_master(&self) -> Option<String> {
        let (name, own) = (self.config().broker_name.clone(), self.client_address());
        for server in self.registration.servers(&self.config().namesrv_addr) {
            let Ok(info) = server.calls.cluster_info().await else { continue };
            let group = info.broker_addr_table.get(&name);
            let master = group.and_then(|group| group.broker_addrs.get(&MASTER_ID));
            if let Some(master) = master.filter(|master| **master != own) {
                return Some(master.clone());
            }
        }
        None
    }

    /// Takes what a name server tells: slaves who the master is, a master which topics are ordered
    /// (`TopicConfigManager.updateOrderTopicConfig`).
    fn learn(self: &Arc<Self>, place: Place, answer: RegisterAnswer) {
        if place.id == MASTER_ID {
            self.mark_ordered(answer.order_topics);
        } else if let (Some(group), Some(master)) = (&self.group, answer.master_addr) {
            group.note_master(master);
        }
    }

    fn mark_ordered(self: &Arc<Self>, ordered: Option<BTreeMap<String, String>>) {
        let differs = |ordered: &BTreeMap<_, _>| self.topics.differ_in_order(ordered);
        let Some(ordered) = ordered.filter(|ordered| self.is_master() && differs(ordered)) else {
            return;
        };
        let broker = Arc::clone(self);
        self.runtime.spawn(async move {
            let plan = || Ok((broker.topics.mark_ordered(&ordered), ()));
            if let Err(rejection) = broker.change_by(plan).await {
                tracing::error!(reason = rejection.remark, "ordered topics were not marked");
            }
        });
    }

    /// Takes this broker out of all routes for good.
    pub(crate) async fn unregister(self: &Arc<Self>) {
        self.registration.left.store(true, Ordering::Release);
        let Some(place) = self.registration.place.send_replace(None) else { return };
        let mut tasks = JoinSet::new();
        for server in self.registration.servers(&self.config().namesrv_addr) {
            let broker = Arc::clone(self);
            tasks.spawn(async move { broker.unregister_at(&server, place).await });
        }
        while tasks.join_next().await.is_some() {}
    }

    async fn unregister_at(&self, server: &NameServer, place: Place) {
        let _turn = server.turn.lock().await;
        if !server.tried.swap(false, Ordering::AcqRel) {
            return;
        }
        server.note(None);
        let said = self.registrant(&Told { place, state: 0, topics: 0 }, false);
        for (address, result) in server.calls.unregister(&said, UNREGISTER_TIMEOUT).await {
            match result {
                Ok(()) => tracing::info!(name_server = address, "unregistered"),
                Err(error) => tracing::warn!(name_server = address, %error, "not unregistered"),
            }
        }
    }

    /// What this broker says of itself.
    fn registrant(&self, now: &Told, with_topics: bool) -> RegisterBroker {
        let config = self.config();
        let mut body = RegisterBrokerBody::default();
        if with_topics {
            body.topic_config_serialize_wrapper = self.topics.wrapper().with_empty_mappings();
            body.topic_config_serialize_wrapper.data_version.state_version = now.state;
        }
        RegisterBroker {
            cluster_name: config.broker_cluster_name.clone(),
            broker_name: config.broker_name.clone(),
            broker_addr: self.client_address(),
            broker_id: now.place.id,
            ha_server_addr: config.ha_server_address(),
            enable_acting_master: Some(false),
            heartbeat_timeout: None,
            zone_name: None,
            body,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MASTER: Place = Place { id: 0, term: 3 };
    const SLAVE: Place = Place { id: 2, term: 4 };

    fn told(place: Place, topics: i64) -> Told {
        Told { place, state: 0, topics }
    }

    #[test]
    fn a_name_server_is_told_what_it_does_not_know() {
        let knows = Some(told(MASTER, 7));
        assert!(News::Place.is_there(None, told(MASTER, 7)));
        assert!(!News::Place.is_there(knows, told(MASTER, 8)), "topics are told with the next one");
        assert!(News::Place.is_there(knows, told(SLAVE, 7)));
        assert!(News::Place.is_there(knows, Told { state: 3, ..told(MASTER, 7) }));
        assert!(!News::Topics(7).is_there(knows, told(MASTER, 7)));
        assert!(News::Topics(8).is_there(knows, told(MASTER, 8)));
        assert!(News::Topics(7).is_there(knows, told(SLAVE, 7)));
        assert!(News::All.is_there(knows, told(MASTER, 7)));
    }

    #[test]
    fn a_node_that_has_left_takes_no_place_again() {
        let registration = Registration::new(Client::new(remoting::ClientOptions::default()), 2);
        assert_eq!(registration.broker_id(), 2);
        registration.publish(&Role::Candidate);
        assert_eq!(*registration.place.borrow(), None);
        registration.publish(&Role::Master { term: 3 });
        assert_eq!((*registration.place.borrow(), registration.broker_id()), (Some(MASTER), 0));
        registration.left.store(true, Ordering::Release);
        registration.publish(&Role::Slave { leader: "n0".to_owned(), term: 4 });
        assert_eq!(*registration.place.borrow(), Some(MASTER));
    }
}
