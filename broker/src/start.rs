//! Starting and stopping a broker.

mod open;
mod tasks;

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering},
    thread::JoinHandle,
    time::Duration,
};

use remoting::{Limits, Server, ServerOptions};
use tokio::task::JoinSet;

use crate::{
    broker::{Arrivals, Broker},
    config::{BrokerConfig, FlushDiskType},
    delay,
    dispatcher::{Dispatcher, Port},
    handlers::pull,
};

/// How a broker is started.
#[derive(Debug, Clone)]
pub struct BrokerOptions {
    /// The configuration; unset keys are filled from the host.
    pub config: BrokerConfig,
    /// Name servers, in place of `namesrvAddr`.
    pub namesrv: Option<String>,
    /// Address of the main listener, in place of `bindAddress` and `listenPort`.
    pub listen: Option<SocketAddr>,
    /// Folder of all data, in place of `storePathRootDir`.
    pub data_dir: Option<PathBuf>,
}

/// Why a broker did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The configuration asks for what does not exist, or cannot be.
    #[error("{0}")]
    Config(String),
    /// The data could not be opened.
    #[error("{0}")]
    Data(String),
    /// An address could not be listened on.
    #[error(
        "cannot listen on {address}: {cause}; is another broker running there? (listenPort, bindAddress)"
    )]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Text of the system.
        cause: std::io::Error,
    },
    /// The node was not elected in time.
    #[error("this node was not elected within {0:?}; look at dLegerPeers and the log")]
    NotElected(Duration),
}

/// The log could not be closed in order: on a full or failing disk, say.
#[derive(Debug, thiserror::Error)]
#[error("the log did not stop in order; the next start recovers it: {0}")]
pub struct StopError(String);

/// A broker that serves.
#[derive(Debug)]
pub struct RunningBroker {
    broker: Arc<Broker>,
    opened: open::Opened,
    main: Server,
    fast: Server,
    delivery: JoinHandle<()>,
    tasks: JoinSet<()>,
    directory: PathBuf,
}

/// How long a stop waits for sends that are under way.
const DRAIN_LIMIT: Duration = Duration::from_secs(5);
/// How long a start waits for the election of a group of one.
const ELECTION_LIMIT: Duration = Duration::from_secs(30);

impl Broker {
    /// Opens log and store, takes the lead, listens, and registers at the name servers.
    ///
    /// # Errors
    /// See [`StartError`]; nothing stays open then.
    pub async fn start(options: BrokerOptions) -> Result<RunningBroker, StartError> {
        let listen = options.listen;
        let config = completed(options)?;
        let directory = PathBuf::from(&config.store_path_root_dir);
        let address = match listen {
            Some(address) => address,
            None => SocketAddr::new(bind_ip(&config)?, config.listen_port),
        };
        let (broker, opened) = open::open(config).await?;
        let server_options = server_options(&broker.config());
        let main = listen_on(&broker, address, Port::Main, server_options.clone())?;
        broker.advertised.bind(main.local_addr().port());
        let fast_address = SocketAddr::new(address.ip(), address.port().saturating_sub(2));
        let fast = listen_on(&broker, fast_address, Port::Fast, server_options)?;
        broker.store.start_dispatch(Arc::new(Arrivals(Arc::downgrade(&broker))));
        if let Err(error) = opened.lead(&broker, ELECTION_LIMIT).await {
            let closing = tokio::task::spawn_blocking(move || opened.close(&broker));
            if closing.await.is_err() {
                tracing::error!("closing the store ended by a panic");
            }
            return Err(error);
        }
        let delivery = delay::start(Arc::clone(&broker)).map_err(|error| {
            StartError::Data(format!("no thread for delayed messages: {error}"))
        })?;
        let tasks = tasks::start(&broker, opened.log());
        tracing::info!(address = %main.local_addr(), fast = %fast.local_addr(), "serving");
        Ok(RunningBroker { broker, opened, main, fast, delivery, tasks, directory })
    }
}

impl RunningBroker {
    /// The address of the main listener.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.main.local_addr()
    }

    /// The address of the fast listener, which serves all but pulls.
    #[must_use]
    pub fn fast_address(&self) -> SocketAddr {
        self.fast.local_addr()
    }

    /// The folder of all data.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The effective configuration.
    #[must_use]
    pub fn config(&self) -> Arc<BrokerConfig> {
        self.broker.config()
    }

    /// What an acknowledged message means, for people.
    #[must_use]
    pub fn durability(&self) -> &'static str {
        match self.broker.config().flush_disk_type {
            FlushDiskType::Sync => "an acknowledged message is fsynced (group of one node)",
            FlushDiskType::Async => {
                "an acknowledged message is in the page cache (group of one node): a power failure loses what was not written back"
            }
        }
    }

    /// Whether it leads and takes writes.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.broker.role().is_master()
    }

    /// The broker's shared state, for probes that outlive this handle; see [`Broker::figures`].
    #[must_use]
    pub fn shared(&self) -> Arc<Broker> {
        Arc::clone(&self.broker)
    }

    /// Requests by code.
    #[must_use]
    pub fn requests(&self) -> Vec<crate::RequestFigures> {
        self.broker.requests.figures()
    }

    /// Requests that reached no handler: of unknown or declined codes, refused by the role, or for
    /// a full lane.
    #[must_use]
    pub fn requests_unserved(&self) -> u64 {
        self.broker.requests.unserved()
    }

    /// Waits until the log fails; gives the reason. The process should end then: after a failed
    /// flush the system may report success for data that is lost.
    pub async fn failed(&self) -> String {
        self.opened.failed().await
    }

    /// Unregisters, takes no more sends, lets those that are under way end, answers what waits,
    /// stops listening, writes the tables and closes the store.
    ///
    /// # Errors
    /// See [`StopError`]; the next start recovers.
    pub async fn shutdown(mut self) -> Result<(), StopError> {
        self.broker.unregister().await;
        self.tasks.shutdown().await;
        self.broker.stopping.store(true, Ordering::Release);
        if !self.broker.in_flight.drained(DRAIN_LIMIT).await {
            tracing::warn!("sends were still under way; their producers will send again");
        }
        pull::resume(&self.broker, self.broker.hold.drain(None));
        tokio::join!(self.main.shutdown(), self.fast.shutdown());
        self.broker.delay_wake.stop();
        let (broker, delivery, opened) = (self.broker, self.delivery, self.opened);
        let closed = tokio::task::spawn_blocking(move || {
            if delivery.join().is_err() {
                tracing::error!("the delivery of delayed messages ended by a panic");
            }
            tasks::write_tables(&broker);
            opened.close(&broker)
        });
        let closed = closed.await.unwrap_or_else(|panic| Err(panic.to_string()));
        closed.map_err(StopError)?;
        tracing::info!("stopped");
        Ok(())
    }
}

/// The configuration with overrides and defaults of the host, checked.
fn completed(options: BrokerOptions) -> Result<BrokerConfig, StartError> {
    let mut config = options.config;
    if let Some(namesrv) = options.namesrv {
        config.namesrv_addr = namesrv;
    }
    if let Some(directory) = options.data_dir {
        config.store_path_root_dir = directory.display().to_string();
    }
    config.complete();
    check(&config)?;
    Ok(config)
}

fn check(config: &BrokerConfig) -> Result<(), StartError> {
    let peers = config.dleger_peers.split(';').filter(|peer| !peer.trim().is_empty()).count();
    if peers > 1 {
        return Err(StartError::Config(format!(
            "dLegerPeers={} names {peers} members: replication does not exist yet; name this node alone, or leave the key out",
            config.dleger_peers
        )));
    }
    if !config.enable_dleger_commit_log {
        tracing::info!(
            group = config.dleger_group,
            "enableDLegerCommitLog is not set: the commit log is a DLedger log of one node"
        );
    }
    Ok(())
}

fn bind_ip(config: &BrokerConfig) -> Result<IpAddr, StartError> {
    let text = config.bind_address.0.as_str();
    if text.is_empty() {
        return Ok(Ipv4Addr::UNSPECIFIED.into());
    }
    text.parse().map_err(|error| {
        StartError::Config(format!("bindAddress={text}: {error}; write an IP address"))
    })
}

fn server_options(config: &BrokerConfig) -> ServerOptions {
    ServerOptions {
        limits: Limits {
            idle: Duration::from_secs(config.server_channel_max_idle_time_seconds),
            ..Limits::default()
        },
        max_connections: config.max_connections as usize,
        backlog: config.server_socket_backlog,
        ..ServerOptions::default()
    }
}

fn listen_on(
    broker: &Arc<Broker>,
    address: SocketAddr,
    port: Port,
    options: ServerOptions,
) -> Result<Server, StartError> {
    let dispatcher = Arc::new(Dispatcher::new(Arc::clone(broker), port));
    Server::bind(address, options, dispatcher)
        .map_err(|cause| StartError::Listen { address, cause })
}
