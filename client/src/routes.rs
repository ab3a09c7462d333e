//! Where the queues of topics lie.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use protocol::{
    body::{BrokerData, MessageQueue, TopicRouteData},
    code::{request, response},
    header::GetRouteInfoRequest,
    message::sys_flag::perm,
};

use crate::{error::RouteError, namesrv::NameServers, request::Request};

/// Brokers and queues of one topic.
#[derive(Debug, Clone)]
pub struct Route {
    /// The topic that was asked for.
    pub topic: String,
    /// What the name server answered.
    pub data: TopicRouteData,
}

impl Route {
    /// The queues that take messages: those of brokers whose master is known and that may be
    /// written, by broker name.
    pub fn writable(&self) -> Vec<MessageQueue> {
        self.queues(|queue| {
            let writable =
                queue.perm & perm::WRITE != 0 && self.master_address(&queue.broker_name).is_some();
            if writable { queue.write_queue_nums } else { 0 }
        })
    }

    /// The queues that give messages, by broker name.
    pub fn readable(&self) -> Vec<MessageQueue> {
        self.queues(|queue| if queue.perm & perm::READ != 0 { queue.read_queue_nums } else { 0 })
    }

    /// Address of the broker with id 0 of this name.
    pub fn master_address(&self, broker: &str) -> Option<&str> {
        self.broker(broker)?.broker_addrs.get(&MASTER).map(String::as_str)
    }

    /// Address of the broker with this id, or of the master, or of any of this name.
    pub fn address(&self, broker: &str, preferred_id: i64) -> Option<&str> {
        let addresses = &self.broker(broker)?.broker_addrs;
        addresses
            .get(&preferred_id)
            .or_else(|| addresses.get(&MASTER))
            .or_else(|| addresses.values().next())
            .map(String::as_str)
    }

    /// Addresses of all masters.
    pub fn masters(&self) -> impl Iterator<Item = &str> {
        self.data
            .broker_datas
            .iter()
            .filter_map(|b| b.broker_addrs.get(&MASTER))
            .map(String::as_str)
    }

    fn broker(&self, name: &str) -> Option<&BrokerData> {
        self.data.broker_datas.iter().find(|broker| broker.broker_name == name)
    }

    fn queues(&self, count: impl Fn(&protocol::body::QueueData) -> i32) -> Vec<MessageQueue> {
        let mut datas: Vec<_> = self.data.queue_datas.iter().collect();
        datas.sort_by(|a, b| a.broker_name.cmp(&b.broker_name));
        datas
            .into_iter()
            .flat_map(|data| {
                // A name server's number is not trusted with memory.
                (0..count(data).min(QUEUES_MAX)).map(|queue_id| MessageQueue {
                    topic: self.topic.clone(),
                    broker_name: data.broker_name.clone(),
                    queue_id,
                })
            })
            .collect()
    }
}

/// The routes of a client, asked for again when they are older than the bound.
#[derive(Debug)]
pub(crate) struct Routes {
    known: Mutex<HashMap<String, Known>>,
    /// Held while a name server is asked, so that many senders ask once.
    asking: tokio::sync::Mutex<()>,
    age_max: Duration,
}

#[derive(Debug, Clone)]
struct Known {
    route: Arc<Route>,
    asked: Instant,
}

impl Routes {
    /// Nothing known yet.
    pub(crate) fn new(age_max: Duration) -> Self {
        Self { known: Mutex::default(), asking: tokio::sync::Mutex::default(), age_max }
    }

    /// The route of a topic, from memory if it is young enough. When no name server answers, an
    /// old one is better than none.
    pub(crate) async fn get(
        &self,
        connections: &remoting::Client,
        servers: &NameServers,
        topic: &str,
    ) -> Result<Arc<Route>, RouteError> {
        if let Some(known) = self.known(topic, true) {
            return Ok(known);
        }
        let _guard = self.asking.lock().await;
        if let Some(known) = self.known(topic, true) {
            return Ok(known);
        }
        match ask(connections, servers, topic).await {
            Ok(route) => Ok(self.remember(route)),
            Err(error @ RouteError::Request { .. }) => match self.known(topic, false) {
                Some(old) => {
                    tracing::warn!(topic, %error, "an old route is used");
                    Ok(old)
                }
                None => Err(error),
            },
            Err(error) => {
                self.forget(topic);
                Err(error)
            }
        }
    }

    /// Has the route of a topic asked for again at its next use.
    pub(crate) fn doubt(&self, topic: &str) {
        if let Some(known) = self.lock().get_mut(topic)
            && let Some(old) = Instant::now().checked_sub(self.age_max)
        {
            known.asked = old;
        }
    }

    /// Addresses of brokers in the known routes: of masters, or of all.
    pub(crate) fn brokers(&self, masters_only: bool) -> Vec<String> {
        let mut addresses: Vec<String> = self
            .lock()
            .values()
            .flat_map(|known| known.route.data.broker_datas.iter())
            .flat_map(|broker| broker.broker_addrs.iter())
            .filter(|(id, _)| !masters_only || **id == MASTER)
            .map(|(_, address)| address.clone())
            .collect();
        addresses.sort();
        addresses.dedup();
        addresses
    }

    fn known(&self, topic: &str, young: bool) -> Option<Arc<Route>> {
        let known = self.lock().get(topic).cloned()?;
        (!young || known.asked.elapsed() < self.age_max).then_some(known.route)
    }

    fn remember(&self, route: Route) -> Arc<Route> {
        let route = Arc::new(route);
        let mut known = self.lock();
        if known.len() >= TOPICS_MAX
            && !known.contains_key(&route.topic)
            && let Some(oldest) =
                known.iter().min_by_key(|(_, known)| known.asked).map(|(topic, _)| topic.clone())
        {
            known.remove(&oldest);
        }
        let entry = Known { route: Arc::clone(&route), asked: Instant::now() };
        known.insert(route.topic.clone(), entry);
        route
    }

    fn forget(&self, topic: &str) {
        self.lock().remove(topic);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn ask(
    connections: &remoting::Client,
    servers: &NameServers,
    topic: &str,
) -> Result<Route, RouteError> {
    let header =
        GetRouteInfoRequest { topic: topic.to_owned(), accept_standard_json_only: Some(true) };
    let answer = servers
        .ask(|address| {
            Request::new(connections, "route look-up", address, request::GET_ROUTEINFO_BY_TOPIC)
                .header(&header)
        })
        .await
        .and_then(|answer| answer.read(|command| Ok(TopicRouteData::decode(&command.body)?)));
    match answer {
        Ok(data) => Ok(Route { topic: topic.to_owned(), data }),
        Err(error) if error.code() == Some(response::TOPIC_NOT_EXIST) => Err(RouteError::Unknown {
            topic: topic.to_owned(),
            namesrv: servers.addresses().join(";"),
        }),
        Err(source) => Err(RouteError::Request { topic: topic.to_owned(), source }),
    }
}

/// Broker id of a master (`MixAll.MASTER_ID`).
const MASTER: i64 = 0;
/// Topics whose routes are remembered.
const TOPICS_MAX: usize = 4096;
/// Queues of one topic on one broker that are used.
const QUEUES_MAX: i32 = 65_536;
