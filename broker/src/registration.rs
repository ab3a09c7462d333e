//! Registration at the name servers (`BrokerController.registerBrokerAll`).
//!
//! Each name server gets whole registrations, one at a time, so that an older table never
//! overtakes a newer one. A caller waits until the table that it has changed is known everywhere,
//! or for a bounded time: a name server that is away must not hold up a topic's creation.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use namesrv_client::{NameServers, RegisterBroker};
use protocol::body::RegisterBrokerBody;
use remoting::Client;
use tokio::task::JoinSet;

use crate::broker::Broker;

/// How long a change of topics waits for the name servers.
const PATIENCE: Duration = Duration::from_secs(3);
/// How long an unregistration may take.
const UNREGISTER_TIMEOUT: Duration = Duration::from_secs(3);
/// The master's id in routes (`MixAll.MASTER_ID`).
const MASTER_ID: i64 = 0;

/// What is registered where.
#[derive(Debug)]
pub(crate) struct Registration {
    client: Arc<Client>,
    servers: Mutex<Vec<Arc<NameServer>>>,
}

/// One name server.
#[derive(Debug)]
struct NameServer {
    address: String,
    calls: NameServers,
    /// Version of the table that it has got last; held during a registration.
    registered: tokio::sync::Mutex<Option<i64>>,
    /// Whether the last registration that ended succeeded.
    knows: AtomicBool,
}

impl Registration {
    /// Nothing is registered yet.
    pub(crate) fn new(client: Client) -> Self {
        Self { client: Arc::new(client), servers: Mutex::default() }
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
                        registered: tokio::sync::Mutex::new(None),
                        knows: AtomicBool::new(false),
                    })
                })
            })
            .collect();
        *servers = next;
        servers.clone()
    }
}

impl Broker {
    /// Tells the name servers of the table as it is now, and waits until they know it, for a
    /// bounded time; what takes longer goes on in the background.
    pub(crate) async fn register(self: &Arc<Self>) {
        let version = self.topics.version().counter;
        self.register_everywhere(Some(version), PATIENCE).await;
    }

    /// Tells the name servers everything again, whatever they know.
    pub(crate) async fn keep_registered(self: &Arc<Self>) {
        let timeout = Duration::from_millis(self.config().register_broker_timeout_mills);
        self.register_everywhere(None, timeout).await;
    }

    async fn register_everywhere(self: &Arc<Self>, version: Option<i64>, patience: Duration) {
        if !self.role().is_master() {
            return;
        }
        let mut tasks = JoinSet::new();
        for server in self.registration.servers(&self.config().namesrv_addr) {
            let broker = Arc::clone(self);
            tasks.spawn(async move { broker.register_at(&server, version).await });
        }
        let all = async { while tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(patience, all).await.is_err() {
            tracing::warn!("a name server has not answered a registration yet");
            tasks.detach_all();
        }
    }

    async fn register_at(self: &Arc<Self>, server: &NameServer, wanted: Option<i64>) {
        let mut registered = server.registered.lock().await;
        if wanted.is_some_and(|wanted| registered.is_some_and(|known| known >= wanted)) {
            return;
        }
        let broker = self.registrant(true);
        let version = broker.body.topic_config_serialize_wrapper.data_version.counter;
        let first = registered.is_none();
        let timeout = Duration::from_millis(self.config().register_broker_timeout_mills);
        *registered = None;
        for outcome in server.calls.register(&broker, timeout).await {
            match outcome.result {
                Ok(answer) => {
                    *registered = Some(version);
                    server.knows.store(true, Ordering::Release);
                    if first {
                        tracing::info!(name_server = server.address, "registered");
                    }
                    self.mark_ordered(answer.order_topics);
                }
                Err(error) => {
                    server.knows.store(false, Ordering::Release);
                    tracing::warn!(name_server = server.address, %error, "not registered");
                }
            }
        }
    }

    /// The name servers keep which topics are ordered (`TopicConfigManager.updateOrderTopicConfig`).
    fn mark_ordered(self: &Arc<Self>, ordered: Option<BTreeMap<String, String>>) {
        let Some(ordered) = ordered.filter(|ordered| self.topics.differ_in_order(ordered)) else {
            return;
        };
        let broker = Arc::clone(self);
        self.runtime.spawn_blocking(move || {
            if let Err(error) = broker.topics.mark_ordered(&ordered) {
                tracing::error!(%error, "ordered topics were not marked");
            }
        });
    }

    /// Takes this broker out of all routes.
    pub(crate) async fn unregister(self: &Arc<Self>) {
        let mut tasks = JoinSet::new();
        for server in self.registration.servers(&self.config().namesrv_addr) {
            let broker = Arc::clone(self);
            tasks.spawn(async move { broker.unregister_at(&server).await });
        }
        while tasks.join_next().await.is_some() {}
    }

    async fn unregister_at(&self, server: &NameServer) {
        let mut registered = server.registered.lock().await;
        if registered.take().is_none() {
            return;
        }
        for (address, result) in
            server.calls.unregister(&self.registrant(false), UNREGISTER_TIMEOUT).await
        {
            match result {
                Ok(()) => tracing::info!(name_server = address, "unregistered"),
                Err(error) => tracing::warn!(name_server = address, %error, "not unregistered"),
            }
        }
    }

    /// What this broker says of itself.
    fn registrant(&self, with_topics: bool) -> RegisterBroker {
        let config = self.config();
        let mut body = RegisterBrokerBody::default();
        if with_topics {
            body.topic_config_serialize_wrapper = self.topics.wrapper().with_empty_mappings();
        }
        RegisterBroker {
            cluster_name: config.broker_cluster_name.clone(),
            broker_name: config.broker_name.clone(),
            broker_addr: self.client_address(),
            broker_id: MASTER_ID,
            ha_server_addr: format!("{}:{}", config.broker_ip2.0, config.ha_listen_port),
            enable_acting_master: Some(false),
            heartbeat_timeout: None,
            zone_name: None,
            body,
        }
    }
}
