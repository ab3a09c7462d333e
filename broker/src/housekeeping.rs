//! Regular work on the tables of clients, offsets and groups.

use std::{
    io,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::time::{MissedTickBehavior, interval};

use crate::broker::Broker;

/// How often clients are looked at (`ClientHousekeepingService`).
const EXPIRY: Duration = Duration::from_secs(10);

/// Does the regular work until it is dropped. What changed after its last round is written by
/// [`flush`], which a stop calls.
pub(crate) async fn run(broker: Arc<Broker>) {
    let flush_every = Duration::from_millis(broker.config().flush_consumer_offset_interval);
    let mut seconds = interval(Duration::from_secs(1));
    let mut expiries = interval(EXPIRY);
    let mut flushes = interval(flush_every);
    for timer in [&mut seconds, &mut expiries, &mut flushes] {
        timer.set_missed_tick_behavior(MissedTickBehavior::Delay);
    }
    loop {
        tokio::select! {
            _ = seconds.tick() => broker.stats.tick(),
            _ = expiries.tick() => broker.expire_clients(Instant::now()),
            _ = flushes.tick() => flush_apart(&broker).await,
        }
    }
}

/// Writes the tables of offsets and groups where they changed. It waits for the disk.
///
/// # Errors
/// A table cannot be written; the other one is written all the same.
pub(crate) fn flush(broker: &Broker) -> io::Result<()> {
    let offsets = broker.offsets.flush();
    broker.groups.flush().and(offsets)
}

async fn flush_apart(broker: &Arc<Broker>) {
    let writing = Arc::clone(broker);
    match tokio::task::spawn_blocking(move || flush(&writing)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            tracing::error!(%error, "consumer offsets or groups could not be written, they are tried again");
        }
        Err(error) => tracing::error!(%error, "writing of consumer offsets and groups ended early"),
    }
}
