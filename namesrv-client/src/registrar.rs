//! A broker stays registered.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::{NameServers, RegisterBroker, RegisterOutcome};

/// Time for one registration (`registerBrokerTimeoutMills`).
pub const REGISTER_TIMEOUT: Duration = Duration::from_secs(24);

/// Bounds of the period (`BrokerController.java`).
const SHORTEST: Duration = Duration::from_secs(10);
const LONGEST: Duration = Duration::from_secs(60);

/// What the broker has to say now; `None` when it has no role to register yet.
pub type Source = Arc<dyn Fn() -> Option<RegisterBroker> + Send + Sync>;

/// Told what the name servers answered.
pub type Listener = Arc<dyn Fn(&[RegisterOutcome]) + Send + Sync>;

/// Registers a broker at start, when it is told to, and every period.
pub struct Registrar {
    servers: NameServers,
    source: Source,
    listener: Listener,
    now: Arc<Notify>,
    stop: CancellationToken,
    _stop_on_drop: DropGuard,
}

impl Registrar {
    /// Starts to register; the first time at once. The period is kept between 10 s and 60 s, as
    /// in Java (`registerNameServerPeriod`, 30 s).
    pub fn start(
        servers: NameServers,
        period: Duration,
        source: Source,
        listener: Listener,
    ) -> Self {
        let stop = CancellationToken::new();
        let now = Arc::new(Notify::new());
        let _stop_on_drop = stop.clone().drop_guard();
        tokio::spawn(keep(
            servers.clone(),
            period.clamp(SHORTEST, LONGEST),
            (Arc::clone(&source), Arc::clone(&listener)),
            (Arc::clone(&now), stop.clone()),
        ));
        Self { servers, source, listener, now, stop, _stop_on_drop }
    }

    /// Has the broker registered soon; several of these before it happens are one.
    pub fn trigger(&self) {
        self.now.notify_one();
    }

    /// Registers now and waits for the answers of all name servers.
    pub async fn register_now(&self) -> Vec<RegisterOutcome> {
        register(&self.servers, &self.source, &self.listener).await
    }

    /// Ends the registration and takes the broker away from all name servers.
    pub async fn stop(&self) {
        self.stop.cancel();
        let Some(broker) = (self.source)() else { return };
        for (address, result) in self.servers.unregister(&broker, crate::DEFAULT_TIMEOUT).await {
            if let Err(error) = result {
                tracing::warn!(address, %error, "not unregistered");
            }
        }
    }
}

impl fmt::Debug for Registrar {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Registrar").field("servers", &self.servers).finish_non_exhaustive()
    }
}

async fn keep(
    servers: NameServers,
    period: Duration,
    (source, listener): (Source, Listener),
    (now, stop): (Arc<Notify>, CancellationToken),
) {
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = register(&servers, &source, &listener) => {}
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = now.notified() => {}
            () = tokio::time::sleep(period) => {}
        }
    }
}

async fn register(
    servers: &NameServers,
    source: &Source,
    listener: &Listener,
) -> Vec<RegisterOutcome> {
    let Some(broker) = source() else { return Vec::new() };
    let outcomes = servers.register(&broker, REGISTER_TIMEOUT).await;
    for outcome in &outcomes {
        if let Err(error) = &outcome.result {
            tracing::warn!(%error, "not registered");
        }
    }
    listener(&outcomes);
    outcomes
}
