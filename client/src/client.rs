//! One client: its connections, routes and heartbeats.

use std::{
    collections::BTreeSet,
    sync::{Arc, Weak},
    time::Duration,
};

use namesrv_client::NameServers;
use protocol::{body::HeartbeatData, code::request, header::UnregisterClientRequest};
use remoting::TlsClient;

use crate::{
    error::{RequestError, RouteError},
    members::Members,
    request::Request,
    route_cache::RouteCache,
    routes::{MASTER, Route},
    unique_id,
};

/// How a client behaves.
#[derive(Debug, Clone)]
pub struct ClientOptions {
    /// Name servers, `host:port;host:port`.
    pub namesrv: String,
    /// What tells this client from others of this process; `None` makes one up.
    pub instance: Option<String>,
    /// Age at which a route is asked for again. Java: 30 s.
    pub route_age: Duration,
    /// Time between heartbeats. Java: 30 s; brokers forget a client after 120 s.
    pub heartbeat: Duration,
    /// TLS to name servers and brokers; without it connections are plain. Java: `tls.enable`.
    pub tls: Option<Arc<TlsClient>>,
}

impl ClientOptions {
    /// Java's times.
    pub fn new(namesrv: impl Into<String>) -> Self {
        Self {
            namesrv: namesrv.into(),
            instance: None,
            route_age: Duration::from_secs(30),
            heartbeat: Duration::from_secs(30),
            tls: None,
        }
    }
}

/// Connections, routes and heartbeats, shared by the producers and consumers made from it.
#[derive(Debug)]
pub struct Client {
    id: String,
    connections: Arc<remoting::Client>,
    routes: RouteCache,
    pub(crate) members: Arc<Members>,
}

impl Client {
    /// A client; nothing is connected yet. It must be made in a tokio runtime.
    ///
    /// # Errors
    /// [`RouteError::NoNamesrv`].
    pub fn new(options: ClientOptions) -> Result<Arc<Self>, RouteError> {
        let servers = NameServers::split(&options.namesrv);
        if servers.is_empty() {
            return Err(RouteError::NoNamesrv);
        }
        let instance = options.instance.unwrap_or_else(|| {
            // Java: process id and nanoseconds (`UtilAll.getPid`, `System.nanoTime`).
            let id = unique_id::next();
            format!("{}#{}", std::process::id(), id.get(12..).unwrap_or(&id))
        });
        let members = Arc::new(Members::default());
        let connections = Arc::new(remoting::Client::new(remoting::ClientOptions {
            handler: Some(Arc::clone(&members) as Arc<dyn remoting::Handler>),
            tls: options.tls,
            ..remoting::ClientOptions::default()
        }));
        let servers = NameServers::new(servers, Arc::clone(&connections));
        let client = Arc::new(Self {
            id: format!("{}@{instance}", unique_id::local_address()),
            connections,
            routes: RouteCache::new(servers, options.route_age),
            members,
        });
        tokio::spawn(beat(Arc::downgrade(&client), options.heartbeat));
        Ok(client)
    }

    /// The id by which brokers know it: `address@instance`.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The route of a topic.
    ///
    /// # Errors
    /// See [`RouteError`].
    pub async fn route(&self, topic: &str) -> Result<Route, RouteError> {
        match self.routes.route(topic).await {
            Ok(Some(data)) => Ok(Route { topic: topic.to_owned(), data }),
            Ok(None) => Err(RouteError::Unknown {
                topic: topic.to_owned(),
                namesrv: self.servers().addresses().join(";"),
            }),
            Err(cause) => Err(RouteError::NameServer { topic: topic.to_owned(), cause }),
        }
    }

    /// The name servers.
    pub(crate) fn servers(&self) -> &NameServers {
        self.routes.servers()
    }

    /// Has the route of a topic asked for again at its next use.
    pub(crate) fn doubt_route(&self, topic: &str) {
        self.routes.doubt(topic);
    }

    /// Tells the brokers of all known routes who is here. Producers are of interest to masters
    /// only, consumers to every broker.
    ///
    /// # Errors
    /// That of the last broker, if none took it.
    pub(crate) async fn heartbeat(&self) -> Result<(), RequestError> {
        let Some(data) = self.members.heartbeat(&self.id) else {
            return Ok(());
        };
        let mut failed = None;
        let mut taken = false;
        for address in self.brokers(data.consumer_data_set.is_empty()) {
            match self.heartbeat_to(&address, &data).await {
                Ok(()) => taken = true,
                Err(error) => {
                    tracing::debug!(%error, "heartbeat failed");
                    failed = Some(error);
                }
            }
        }
        match failed {
            Some(error) if !taken => Err(error),
            _ => Ok(()),
        }
    }

    /// Addresses of brokers in the known routes: of masters, or of all.
    fn brokers(&self, masters_only: bool) -> Vec<String> {
        let routes = self.routes.known();
        let addresses: BTreeSet<&String> = routes
            .iter()
            .flat_map(|route| &route.broker_datas)
            .flat_map(|broker| &broker.broker_addrs)
            .filter(|(id, _)| !masters_only || **id == MASTER)
            .map(|(_, address)| address)
            .collect();
        addresses.into_iter().cloned().collect()
    }

    async fn heartbeat_to(&self, address: &str, data: &HeartbeatData) -> Result<(), RequestError> {
        self.request("heartbeat", address, request::HEART_BEAT).body(data.encode()).send().await?;
        Ok(())
    }

    /// Tells all brokers that a producer or consumer group is left.
    pub(crate) async fn unregister(&self, producer: Option<&str>, consumer: Option<&str>) {
        let header = UnregisterClientRequest {
            client_id: self.id.clone(),
            producer_group: producer.map(ToOwned::to_owned),
            consumer_group: consumer.map(ToOwned::to_owned),
        };
        for address in self.brokers(false) {
            let request = self.request("unregistration", &address, request::UNREGISTER_CLIENT);
            if let Err(error) = request.header(&header).send().await {
                // The broker notices by the closed connection or the missing heartbeat.
                tracing::debug!(%error, "group was not unregistered");
            }
        }
    }

    /// Closes all connections. Producers and consumers should be stopped before.
    pub fn close(&self) {
        self.connections.close();
    }

    pub(crate) fn request<'a>(
        &'a self,
        operation: &'static str,
        address: &'a str,
        code: i32,
    ) -> Request<'a> {
        Request::new(&self.connections, operation, address, code)
    }
}

/// Sends heartbeats until the client is gone.
async fn beat(client: Weak<Client>, period: Duration) {
    loop {
        tokio::time::sleep(period).await;
        let Some(client) = client.upgrade() else {
            return;
        };
        if let Err(error) = client.heartbeat().await {
            tracing::warn!(%error, "no broker took the heartbeat");
        }
    }
}
