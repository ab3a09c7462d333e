//! The HTTP page of a server: /livez, /readyz, /metrics and /log.

mod bounded;

use std::{fmt, net::SocketAddr, sync::Arc};

use axum::{
    Router,
    extract::{Query, State},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use broker::Figures;
use serde::Deserialize;
use tokio::{net::TcpListener, sync::watch, task::JoinHandle};

use self::bounded::BoundedListener;
use crate::{figures, logging::LogLevel};

/// What a server tells the page.
pub(crate) trait Probe: Send + Sync + 'static {
    /// Why the process should be restarted, if it should.
    fn dead(&self) -> Option<String>;

    /// Why clients should not use it yet, if they should not.
    fn unready(&self) -> Option<String>;

    /// The figures of now.
    fn figures(&self) -> Figures;
}

/// A page that listens.
#[derive(Debug)]
pub(crate) struct Page {
    address: SocketAddr,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

/// What the handlers share.
#[derive(Clone)]
struct Shared {
    probe: Arc<dyn Probe>,
    level: LogLevel,
}

impl fmt::Debug for Shared {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Shared").field("level", &self.level).finish_non_exhaustive()
    }
}

impl Page {
    /// Serves the page on a listener.
    pub(crate) fn serve(
        listener: TcpListener,
        probe: Arc<dyn Probe>,
        level: LogLevel,
    ) -> std::io::Result<Self> {
        let address = listener.local_addr()?;
        let (stop, mut stopped) = watch::channel(false);
        let router = router(Shared { probe, level });
        let listener = BoundedListener::new(listener);
        let task = tokio::spawn(async move {
            let until = async move {
                // An error means that the sender is gone, which is a stop as well.
                if stopped.wait_for(|stop| *stop).await.is_err() {
                    tracing::debug!("the owner of the HTTP page is gone");
                }
            };
            if let Err(error) = axum::serve(listener, router).with_graceful_shutdown(until).await {
                tracing::error!(%error, "the HTTP page failed");
            }
        });
        Ok(Self { address, stop, task })
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops at once; an open request is cut off.
    pub(crate) fn stop(self) {
        self.stop.send_replace(true);
        self.task.abort();
    }
}

fn router(shared: Shared) -> Router {
    Router::new()
        .route("/", get(index))
        .route("/livez", get(livez))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        // PUT only: a web page in a browser of this machine can send a POST to any loopback
        // address, but not a PUT.
        .route("/log", get(log_level).put(set_log_level))
        .with_state(shared)
}

async fn index() -> &'static str {
    "/livez    200 while the process works\n\
     /readyz   200 while clients can send\n\
     /metrics  figures for Prometheus\n\
     /log      the log level; PUT /log?level=debug changes it\n"
}

async fn livez(State(shared): State<Shared>) -> Response {
    verdict(shared.probe.dead())
}

async fn readyz(State(shared): State<Shared>) -> Response {
    verdict(shared.probe.dead().or_else(|| shared.probe.unready()))
}

fn verdict(reason: Option<String>) -> Response {
    match reason {
        None => "ok\n".into_response(),
        Some(reason) => (StatusCode::SERVICE_UNAVAILABLE, format!("{reason}\n")).into_response(),
    }
}

async fn metrics(State(shared): State<Shared>) -> Response {
    let form = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, form)], figures::open_metrics(&shared.probe.figures())).into_response()
}

async fn log_level(State(shared): State<Shared>) -> Response {
    match shared.level.current() {
        Some(level) => format!("{level}\n").into_response(),
        None => (StatusCode::SERVICE_UNAVAILABLE, "logging is gone\n").into_response(),
    }
}

/// Bytes of a level or of rules by module.
const LONGEST_LEVEL: usize = 1000;

/// Query of PUT /log.
#[derive(Debug, Deserialize)]
struct Level {
    level: String,
}

async fn set_log_level(State(shared): State<Shared>, Query(wanted): Query<Level>) -> Response {
    if wanted.level.len() > LONGEST_LEVEL {
        return (StatusCode::BAD_REQUEST, "rules of more than 1000 bytes are not taken\n")
            .into_response();
    }
    match shared.level.set(&wanted.level) {
        Ok(()) => {
            tracing::info!(level = wanted.level, "log level changed");
            log_level(State(shared)).await
        }
        Err(error) => (StatusCode::BAD_REQUEST, format!("{error}\n")).into_response(),
    }
}

#[cfg(test)]
mod tests;
