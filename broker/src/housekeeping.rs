//! Regular work on the table of clients and on the files of the other tables.

use std::{
    io,
    sync::Arc,
    time::{Duration, Instant},
};

use segment::Throttle;
use tokio::time::{MissedTickBehavior, interval};

use crate::{broker::Broker, handlers::pull::broadcast};

/// How often clients are looked at (`ClientHousekeepingService`).
const EXPIRY: Duration = Duration::from_secs(10);
/// How often the least offsets of broadcasting groups are kept (`BroadcastOffsetManager`).
const LEAST_OFFSETS: Duration = Duration::from_secs(5);

/// Does the regular work until it is dropped. What changed after its last round is written by
/// [`flush`], which a stop calls.
pub(crate) async fn run(broker: Arc<Broker>) {
    let flush_every = Duration::from_millis(broker.config().flush_consumer_offset_interval);
    let warned = Throttle::new();
    let mut seconds = interval(Duration::from_secs(1));
    let mut expiries = interval(EXPIRY);
    let mut flushes = interval(flush_every);
    let mut broadcasts = interval(LEAST_OFFSETS);
    for timer in [&mut seconds, &mut expiries, &mut flushes, &mut broadcasts] {
        timer.set_missed_tick_behavior(MissedTickBehavior::Delay);
    }
    loop {
        tokio::select! {
            _ = seconds.tick() => broker.stats.tick(),
            _ = expiries.tick() => broker.expire_clients(Instant::now()),
            _ = broadcasts.tick() => broadcast::keep_least(&broker),
            _ = flushes.tick() => flush_apart(&broker, &warned).await,
        }
    }
}

/// Writes Java's files of the tables where they changed. It waits for the disk.
///
/// # Errors
/// A file cannot be written; the next call tries again.
pub(crate) fn flush(broker: &Broker) -> io::Result<()> {
    broker.journal.project(broker.store.dispatched())
}

async fn flush_apart(broker: &Arc<Broker>, warned: &Throttle) {
    let writing = Arc::clone(broker);
    match tokio::task::spawn_blocking(move || flush(&writing)).await {
        Ok(Ok(())) => drop(warned.over()),
        Ok(Err(error)) => {
            if let Some(held_back) = warned.tell(Instant::now()) {
                tracing::error!(
                    %error, held_back,
                    "files of config/ could not be written, they are tried again until they can"
                );
            }
        }
        Err(error) => tracing::error!(%error, "writing of the files of config/ ended early"),
    }
}
