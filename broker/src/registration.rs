//! Registration at the name servers (`BrokerOuterAPI.registerBrokerAll`).
//!
//! Each name server gets whole registrations, one at a time, so that an older table never
//! overtakes a newer one. A caller waits until the table that it has changed is known everywhere,
//! or for a bounded time: a name server that is away must not hold up a topic's creation.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use protocol::{
    Command,
    body::{RegisterBrokerBody, TopicConfigSerializeWrapper, register_body_crc32},
    code::{request, response},
    header::{RegisterBrokerRequest, UnRegisterBrokerRequest},
};
use remoting::{CallError, Client};
use tokio::task::JoinSet;

use crate::{broker::Broker, config::BrokerConfig};

/// How long a change of topics waits for the name servers.
const PATIENCE: Duration = Duration::from_secs(3);
/// How long an unregistration may take.
const UNREGISTER_TIMEOUT: Duration = Duration::from_secs(3);
/// The master's id in routes (`MixAll.MASTER_ID`).
const MASTER_ID: i64 = 0;

/// What is registered where.
#[derive(Debug)]
pub(crate) struct Registration {
    client: Client,
    servers: Mutex<Vec<Arc<NameServer>>>,
}

/// One name server.
#[derive(Debug)]
struct NameServer {
    address: String,
    /// Version of the table that it has got last; held during a registration.
    registered: tokio::sync::Mutex<Option<i64>>,
    /// Whether the last registration that ended succeeded.
    knows: AtomicBool,
}

/// Why a name server did not take a registration.
#[derive(Debug, thiserror::Error)]
enum RegisterError {
    #[error(transparent)]
    Call(#[from] CallError),
    #[error("it answers code {code}: {remark}")]
    Refused { code: i32, remark: String },
}

impl Registration {
    /// Nothing is registered yet.
    pub(crate) fn new(client: Client) -> Self {
        Self { client, servers: Mutex::default() }
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

    /// The name servers as configured now; what is known of those that stay is kept.
    fn servers(&self, config: &BrokerConfig) -> Vec<Arc<NameServer>> {
        let mut servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        let addresses =
            config.namesrv_addr.split([';', ',']).map(str::trim).filter(|text| !text.is_empty());
        let next = addresses
            .map(|address| {
                let known = servers.iter().find(|server| server.address == address);
                known.cloned().unwrap_or_else(|| {
                    Arc::new(NameServer {
                        address: address.to_owned(),
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

    /// Tells the name servers that this broker is alive.
    pub(crate) async fn keep_registered(self: &Arc<Self>) {
        let timeout = Duration::from_millis(self.config().register_broker_timeout_mills);
        self.register_everywhere(None, timeout).await;
    }

    async fn register_everywhere(self: &Arc<Self>, version: Option<i64>, patience: Duration) {
        if !self.role().is_master() {
            return;
        }
        let mut tasks = JoinSet::new();
        for server in self.registration.servers(&self.config()) {
            let broker = Arc::clone(self);
            tasks.spawn(async move { broker.register_at(&server, version).await });
        }
        let all = async { while tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(patience, all).await.is_err() {
            tracing::warn!("a name server has not answered a registration yet");
            tasks.detach_all();
        }
    }

    async fn register_at(&self, server: &NameServer, wanted: Option<i64>) {
        let mut registered = server.registered.lock().await;
        if wanted.is_some_and(|wanted| registered.is_some_and(|known| known >= wanted)) {
            return;
        }
        let wrapper = self.topics.wrapper();
        let version = wrapper.data_version.counter;
        let first = registered.is_none();
        match self.send_registration(&server.address, registered_body(wrapper)).await {
            Ok(()) => {
                *registered = Some(version);
                server.knows.store(true, Ordering::Release);
                if first {
                    tracing::info!(name_server = server.address, "registered");
                }
            }
            Err(error) => {
                *registered = None;
                server.knows.store(false, Ordering::Release);
                tracing::warn!(name_server = server.address, %error, "registration failed");
            }
        }
    }

    async fn send_registration(
        &self,
        address: &str,
        body: RegisterBrokerBody,
    ) -> Result<(), RegisterError> {
        let config = self.config();
        let body = body.encode();
        let header = RegisterBrokerRequest {
            broker_name: config.broker_name.clone(),
            broker_addr: self.client_address(),
            cluster_name: config.broker_cluster_name.clone(),
            ha_server_addr: format!("{}:{}", config.broker_ip2.0, config.ha_listen_port),
            broker_id: MASTER_ID,
            enable_acting_master: Some(false),
            compressed: false,
            body_crc32: register_body_crc32(&body),
            ..RegisterBrokerRequest::default()
        };
        let timeout = Duration::from_millis(config.register_broker_timeout_mills);
        let command = Command::request_with(request::REGISTER_BROKER, &header).with_body(body);
        let answer = self.registration.client.call(address, command, timeout).await?;
        if answer.code == response::SUCCESS {
            Ok(())
        } else {
            let remark = answer.remark.unwrap_or_default();
            Err(RegisterError::Refused { code: answer.code, remark })
        }
    }

    /// Takes this broker out of all routes.
    pub(crate) async fn unregister(self: &Arc<Self>) {
        let mut tasks = JoinSet::new();
        for server in self.registration.servers(&self.config()) {
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
        let config = self.config();
        let header = UnRegisterBrokerRequest {
            broker_name: config.broker_name.clone(),
            broker_addr: self.client_address(),
            cluster_name: config.broker_cluster_name.clone(),
            broker_id: MASTER_ID,
        };
        let command = Command::request_with(request::UNREGISTER_BROKER, &header);
        let call = self.registration.client.call(&server.address, command, UNREGISTER_TIMEOUT);
        match call.await {
            Ok(answer) if answer.code == response::SUCCESS => {
                tracing::info!(name_server = server.address, "unregistered");
            }
            Ok(answer) => {
                tracing::warn!(
                    name_server = server.address,
                    code = answer.code,
                    "not unregistered"
                );
            }
            Err(error) => {
                tracing::warn!(name_server = server.address, %error, "not unregistered");
            }
        }
    }
}

fn registered_body(topics: TopicConfigSerializeWrapper) -> RegisterBrokerBody {
    RegisterBrokerBody {
        topic_config_serialize_wrapper: topics.with_empty_mappings(),
        ..RegisterBrokerBody::default()
    }
}
