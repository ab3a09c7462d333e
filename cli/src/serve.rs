//! Running a broker with its page: from the first bind to the last byte of a clean stop.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, RwLock},
    time::Duration,
};

use anyhow::{Context, bail};
use broker::{Broker, BrokerOptions, RunningBroker, StartError, config::BrokerConfig};

use crate::{
    args::{HttpListen, PageArgs},
    data_lock::DataLock,
    figures::Figures,
    listen,
    logging::LogLevel,
    page::{Page, Probe},
    stop::StopSignals,
};

/// A broker that serves, with its page.
#[derive(Debug)]
pub(crate) struct Server {
    probe: Arc<BrokerProbe>,
    page: Option<Page>,
    address: SocketAddr,
    directory: PathBuf,
    durability: &'static str,
    config: Arc<BrokerConfig>,
    _lock: DataLock,
}

/// The page, bound before anything is opened.
#[derive(Debug)]
pub(crate) struct PageListener(Option<tokio::net::TcpListener>);

impl PageListener {
    /// Binds where the flag says, or on loopback five above the broker's port.
    pub(crate) async fn bind(args: &PageArgs, broker_port: u16) -> anyhow::Result<Self> {
        let address = match args.http_listen {
            Some(HttpListen::Off) => return Ok(Self(None)),
            Some(HttpListen::At(address)) => address,
            // A broker on a free port has its page on one as well.
            None if broker_port == 0 => SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            None => SocketAddr::from((Ipv4Addr::LOCALHOST, broker_port.saturating_add(5))),
        };
        Ok(Self(Some(listen::bind(address, "--http-listen ADDR (or `off`)").await?)))
    }
}

impl Server {
    /// Starts the broker on data that is locked and serves the page. `flag` is what changes the
    /// broker's address, for errors.
    pub(crate) async fn start(
        config: BrokerConfig,
        lock: DataLock,
        page: (PageListener, LogLevel),
        flag: &'static str,
    ) -> anyhow::Result<Self> {
        let (page, level) = page;
        let options = BrokerOptions { config, namesrv: None, listen: None, data_dir: None };
        let running = Broker::start(options).await.map_err(|error| match error {
            StartError::Listen { address, cause } => listen::refused(address, flag, cause),
            other => other.into(),
        })?;
        let (address, config) = (running.address(), running.config());
        let (directory, durability) = (running.directory().to_owned(), running.durability());
        let probe = Arc::new(BrokerProbe {
            running: RwLock::new(Some(Arc::new(running))),
            failure: Mutex::default(),
        });
        let page = match page.0 {
            Some(listener) => {
                let probe = Arc::clone(&probe) as Arc<dyn Probe>;
                Some(
                    Page::serve(listener, probe, level)
                        .context("the HTTP page cannot be served")?,
                )
            }
            None => None,
        };
        Ok(Self { probe, page, address, directory, durability, config, _lock: lock })
    }

    /// Address of the broker's main port.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Address of the page.
    pub(crate) fn page_address(&self) -> Option<SocketAddr> {
        self.page.as_ref().map(Page::address)
    }

    /// Folder of the data.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// What an acknowledged message means, for people.
    pub(crate) fn durability(&self) -> &'static str {
        self.durability
    }

    /// The effective configuration.
    pub(crate) fn config(&self) -> &BrokerConfig {
        &self.config
    }

    /// Writes the addresses to the file that the flag names.
    pub(crate) fn write_ready_file(
        &self,
        args: &PageArgs,
        namesrv: Option<SocketAddr>,
    ) -> anyhow::Result<()> {
        let Some(path) = &args.ready_file else { return Ok(()) };
        let mut lines = vec![("broker", self.address.to_string())];
        lines.extend(self.page_address().map(|address| ("http", address.to_string())));
        lines.extend(namesrv.map(|address| ("namesrv", address.to_string())));
        listen::write_ready_file(path, &lines)
    }

    /// Waits until clients can use the broker.
    async fn ready(&self) {
        while self.probe.unready().is_some() {
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Calls `announce` once clients can use the broker, and goes on until a signal comes or the
    /// broker fails; then stops it.
    pub(crate) async fn run(
        self,
        mut signals: StopSignals,
        announce: impl FnOnce(&Self) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let mut announce = Some(announce);
        let Some(running) = self.probe.running() else { bail!("the broker was stopped before") };
        let reason = loop {
            tokio::select! {
                name = signals.received() => break Ok(name),
                failure = running.failed() => break Err(anyhow::anyhow!("the log failed: {failure}")),
                () = self.ready(), if announce.is_some() => {
                    let announced = announce.take().map_or(Ok(()), |announce| announce(&self));
                    if let Err(error) = announced {
                        break Err(error);
                    }
                }
            }
        };
        drop(running);
        match &reason {
            Ok(name) => tracing::info!(signal = name, "stopping"),
            Err(error) => {
                tracing::error!("{error:#}; stopping");
                self.probe.set_failure(format!("{error:#}"));
            }
        }
        self.stop(signals).await?;
        reason.map(|_name| ())
    }

    /// Stops within a bounded time; a second signal ends it at once.
    async fn stop(self, mut signals: StopSignals) -> anyhow::Result<()> {
        let Some(running) = self.probe.take() else { bail!("the broker is still in use") };
        let stopped = tokio::select! {
            stopped = tokio::time::timeout(DRAIN, running.shutdown()) => stopped.is_ok(),
            name = signals.received() => bail!("{name} came again; the next start recovers the log"),
        };
        if let Some(page) = self.page {
            page.stop();
        }
        if !stopped {
            bail!(
                "the broker did not stop within {} s; the next start recovers the log",
                DRAIN.as_secs()
            );
        }
        Ok(())
    }
}

/// The broker as its page sees it. It is taken out when it stops.
#[derive(Debug)]
struct BrokerProbe {
    running: RwLock<Option<Arc<RunningBroker>>>,
    failure: Mutex<Option<String>>,
}

impl BrokerProbe {
    fn running(&self) -> Option<Arc<RunningBroker>> {
        self.running.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The broker alone. Pages look at it under the lock, so that none holds it any more.
    fn take(&self) -> Option<RunningBroker> {
        let running = self.running.write().unwrap_or_else(PoisonError::into_inner).take();
        running.and_then(Arc::into_inner)
    }

    fn set_failure(&self, reason: String) {
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(reason);
    }
}

impl Probe for BrokerProbe {
    fn dead(&self) -> Option<String> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn unready(&self) -> Option<String> {
        match &*self.running.read().unwrap_or_else(PoisonError::into_inner) {
            Some(running) => running.unready(),
            None => Some("the broker is stopping".to_owned()),
        }
    }

    fn figures(&self) -> Figures {
        match &*self.running.read().unwrap_or_else(PoisonError::into_inner) {
            Some(running) => {
                let config = running.config();
                Figures {
                    cluster: config.broker_cluster_name.clone(),
                    broker: config.broker_name.clone(),
                    now: running.figures(),
                }
            }
            None => Figures::default(),
        }
    }
}

/// An address that a client of this machine can connect to: loopback for the wildcard.
pub(crate) fn reachable(address: SocketAddr) -> SocketAddr {
    match address.ip() {
        ip if ip.is_unspecified() => {
            let loopback = if ip.is_ipv4() {
                IpAddr::V4(Ipv4Addr::LOCALHOST)
            } else {
                IpAddr::V6(std::net::Ipv6Addr::LOCALHOST)
            };
            SocketAddr::new(loopback, address.port())
        }
        _ => address,
    }
}

/// How often readiness is looked at.
const LOOK: Duration = Duration::from_millis(10);
/// Time that a clean stop may take.
const DRAIN: Duration = Duration::from_secs(30);
