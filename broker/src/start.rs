//! Starting and stopping a broker.

mod cut_off;
pub(crate) mod identity;
mod members;
pub(crate) mod open;
mod tasks;

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering},
    thread::JoinHandle,
    time::Duration,
};

use remoting::{Server, ServerOptions};
use tokio::task::JoinSet;

use crate::{
    broker::{Arrivals, Broker},
    config::{BrokerConfig, FlushDiskType},
    delay,
    dispatcher::{Dispatcher, Port},
    handlers::{pop, pull},
    network::Listeners,
    timer, transaction,
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
    main: Arc<Server>,
    fast: Arc<Server>,
    threads: [JoinHandle<()>; 4],
    tasks: JoinSet<()>,
    directory: PathBuf,
}

/// How long a stop waits for sends that are under way.
const DRAIN_LIMIT: Duration = Duration::from_secs(5);
/// How long a start waits for the election of a group of one.
const ELECTION_LIMIT: Duration = Duration::from_secs(30);

impl Broker {
    /// Opens log and store and listens. A group of one takes the lead and registers at the name
    /// servers before this returns; a member of a group of several takes part in elections, and
    /// follows or leads as they go.
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
        let listeners = Listeners::of(&config)?;
        let (broker, opened) = open::open(config).await?;
        let (main, fast) = match bind_both(&broker, address, listeners) {
            Ok(servers) => servers,
            Err(error) => return Err(close_after(error, opened, broker).await),
        };
        tasks::look_at_disk(&broker);
        broker.store.start_dispatch(Arc::new(Arrivals(Arc::downgrade(&broker))));
        // A member of a group of several serves before it knows who leads: the others may start
        // later, and until then it says so to all who ask.
        let started = match broker.group() {
            None => opened.lead(&broker, ELECTION_LIMIT).await,
            Some(group) => opened.join(&broker, &group).await,
        };
        if let Err(error) = started {
            return Err(close_after(error, opened, broker).await);
        }
        let threads = start_threads(&broker)?;
        let (main, fast) = (Arc::new(main), Arc::new(fast));
        let mut tasks = tasks::start(&broker, opened.log());
        let servers = vec![Arc::clone(&main), Arc::clone(&fast)];
        tasks.spawn(cut_off::close_clients_when_cut_off(Arc::clone(&broker), servers));
        tracing::info!(address = %main.local_addr(), fast = %fast.local_addr(), "serving");
        Ok(RunningBroker { broker, opened, main, fast, threads, tasks, directory })
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
    pub fn durability(&self) -> String {
        if let Some(group) = self.broker.group() {
            return group.durability();
        }
        let text = match self.broker.config().flush_disk_type {
            FlushDiskType::Sync => "an acknowledged message is fsynced (group of one node)",
            FlushDiskType::Async => {
                "an acknowledged message is in the page cache (group of one node): a power failure loses what was not written back"
            }
        };
        text.to_owned()
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
        tokio::select! {
            reason = self.opened.failed() => reason,
            reason = self.broker.journal.failed() => reason,
        }
    }

    /// Hands the lead over where it has it, and goes on for a moment passing requests on to the new
    /// master; unregisters, takes no more sends, lets those that are under way end, answers what
    /// waits, stops listening, writes the tables and closes the store.
    ///
    /// # Errors
    /// See [`StopError`]; the next start recovers.
    pub async fn shutdown(mut self) -> Result<(), StopError> {
        // What clients committed here and nobody waits for goes along with the lead.
        self.broker.flush_at_stop().await;
        self.give_up_the_lead().await;
        self.broker.unregister().await;
        self.tasks.shutdown().await;
        self.broker.stopping.store(true, Ordering::Release);
        if !self.broker.in_flight.drained(DRAIN_LIMIT).await {
            tracing::warn!("sends were still under way; their producers will send again");
        }
        if !self.broker.forwarder.drained(DRAIN_LIMIT).await {
            tracing::warn!("requests were still on their way to the master");
        }
        self.broker.flush_at_stop().await;
        pull::resume(&self.broker, self.broker.hold.drain(None));
        pop::let_go(&self.broker, None);
        tokio::join!(self.main.shutdown(), self.fast.shutdown());
        self.broker.forwarder.close();
        self.broker.delay_wake.stop();
        self.broker.timer_wake.stop();
        self.broker.transactions.wake.stop();
        self.broker.pop.wake.stop();
        let (broker, threads, opened) = (self.broker, self.threads, self.opened);
        let closed = tokio::task::spawn_blocking(move || {
            for thread in threads {
                let name = thread.thread().name().unwrap_or_default().to_owned();
                if thread.join().is_err() {
                    tracing::error!(name, "a thread ended by a panic");
                }
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

impl RunningBroker {
    /// The planned switch of a group of several; a group of one has nobody to hand over to.
    async fn give_up_the_lead(&self) {
        if !self.broker.forwarder.has_members() {
            return;
        }
        if self.broker.role().is_master() {
            // Why it failed is in the log; the others elect a leader once this node is gone.
            drop(self.broker.hand_over(self.opened.log(), None).await);
        }
        let (main, fast) = (&self.main, &self.fast);
        let has_clients = || !main.connections().is_empty() || !fast.connections().is_empty();
        self.broker.forward_for_a_moment(has_clients).await;
        self.broker.switch.leave();
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
    members::check(&config)?;
    if !config.enable_dleger_commit_log {
        tracing::info!(
            group = config.dleger_group,
            "enableDLegerCommitLog is not set: the commit log is a DLedger log of one node"
        );
    }
    Ok(config)
}

/// The threads that look after delayed messages, timers, transactions and popped messages.
fn start_threads(broker: &Arc<Broker>) -> Result<[JoinHandle<()>; 4], StartError> {
    let failed = |error| StartError::Data(format!("the system gives no thread: {error}"));
    let delivery = delay::start(Arc::clone(broker)).map_err(failed)?;
    let timers = timer::start(Arc::clone(broker)).map_err(failed)?;
    let checks = transaction::start(Arc::clone(broker)).map_err(failed)?;
    let revival = crate::pop::start(Arc::clone(broker)).map_err(failed)?;
    Ok([delivery, timers, checks, revival])
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

/// Closes what was opened before `error`, so that the next start finds it in order.
async fn close_after(error: StartError, opened: open::Opened, broker: Arc<Broker>) -> StartError {
    match tokio::task::spawn_blocking(move || opened.close(&broker)).await {
        Ok(Ok(())) => {}
        Ok(Err(reason)) => tracing::error!(reason, "the log did not close in order"),
        Err(_panic) => tracing::error!("closing the store ended by a panic"),
    }
    error
}

fn bind_both(
    broker: &Arc<Broker>,
    address: SocketAddr,
    listeners: Listeners,
) -> Result<(Server, Server), StartError> {
    let main = listen_on(broker, address, Port::Main, listeners.main)?;
    broker.advertised.bind(main.local_addr().port());
    let fast_address = SocketAddr::new(address.ip(), address.port().saturating_sub(2));
    let fast = listen_on(broker, fast_address, Port::Fast, listeners.fast)?;
    Ok((main, fast))
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
