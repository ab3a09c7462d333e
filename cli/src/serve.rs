//! Running a broker with its page: from the first bind to the last byte of a clean stop.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, bail};
use broker::{Broker, BrokerOptions, Figures, RunningBroker, StartError, config::BrokerConfig};

use crate::{
    args::{HttpListen, PageArgs},
    data_lock::DataLock,
    listen,
    logging::LogLevel,
    page::{Page, Probe},
    stop::StopSignals,
};

/// A broker that serves, with its page.
#[derive(Debug)]
pub(crate) struct Server {
    running: RunningBroker,
    probe: Arc<BrokerProbe>,
    page: Option<Page>,
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
        let probe = Arc::new(BrokerProbe {
            broker: running.shared(),
            stopping: AtomicBool::new(false),
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
        Ok(Self { running, probe, page, _lock: lock })
    }

    /// The broker.
    pub(crate) fn broker(&self) -> &RunningBroker {
        &self.running
    }

    /// Address of the page.
    pub(crate) fn page_address(&self) -> Option<SocketAddr> {
        self.page.as_ref().map(Page::address)
    }

    /// Writes the addresses to the file that the flag names.
    pub(crate) fn write_ready_file(
        &self,
        args: &PageArgs,
        namesrv: Option<SocketAddr>,
    ) -> anyhow::Result<()> {
        let Some(path) = &args.ready_file else { return Ok(()) };
        let mut lines = vec![("broker", self.running.address().to_string())];
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
        let reason = loop {
            tokio::select! {
                name = signals.received() => break Ok(name),
                failure = self.running.failed() => break Err(anyhow::anyhow!("the log failed: {failure}")),
                () = self.ready(), if announce.is_some() => {
                    let announced = announce.take().map_or(Ok(()), |announce| announce(&self));
                    if let Err(error) = announced {
                        break Err(error);
                    }
                }
            }
        };
        self.probe.stopping.store(true, Ordering::Release);
        match &reason {
            Ok(name) => tracing::info!(signal = name, "stopping"),
            Err(error) => {
                tracing::error!("{error:#}; stopping");
                let mut known = self.probe.failure.lock().unwrap_or_else(PoisonError::into_inner);
                *known = Some(format!("{error:#}"));
            }
        }
        let stopped = self.stop(signals).await;
        // A log that failed cannot close in order either: what failed first is told.
        reason?;
        stopped
    }

    /// Stops within a bounded time; a second signal ends it at once.
    async fn stop(self, mut signals: StopSignals) -> anyhow::Result<()> {
        let stopped = tokio::select! {
            stopped = tokio::time::timeout(DRAIN, self.running.shutdown()) => stopped,
            name = signals.received() => bail!("{name} came again; the next start recovers the log"),
        };
        if let Some(page) = self.page {
            page.stop();
        }
        let Ok(closed) = stopped else {
            bail!(
                "the broker did not stop within {} s; the next start recovers the log",
                DRAIN.as_secs()
            );
        };
        Ok(closed?)
    }
}

/// The broker as its page sees it, also while it stops.
#[derive(Debug)]
struct BrokerProbe {
    broker: Arc<Broker>,
    stopping: AtomicBool,
    failure: Mutex<Option<String>>,
}

impl Probe for BrokerProbe {
    fn dead(&self) -> Option<String> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn unready(&self) -> Option<String> {
        if self.stopping.load(Ordering::Acquire) {
            return Some("the broker is stopping".to_owned());
        }
        self.broker.unready()
    }

    fn figures(&self) -> Figures {
        self.broker.figures()
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
