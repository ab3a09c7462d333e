//! What a broker does by itself from time to time.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::{task::JoinSet, time::MissedTickBehavior};

use crate::{broker::Broker, handlers::pull, housekeeping};

/// Starts the tasks; they end when the set is shut down.
pub(super) fn start(broker: &Arc<Broker>) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    let config = broker.config();
    let every = Duration::from_millis(config.register_name_server_period);
    let it = Arc::clone(broker);
    tasks.spawn(async move {
        let mut period = interval(every);
        loop {
            period.tick().await;
            it.keep_registered().await;
        }
    });
    let it = Arc::clone(broker);
    tasks.spawn(async move {
        loop {
            it.hold.wait_for_expiry().await;
            pull::resume(&it, it.hold.expired(Instant::now()));
        }
    });
    let it = Arc::clone(broker);
    tasks.spawn(housekeeping::run(it));
    tasks
}

/// Writes the tables that are written from time to time.
pub(super) fn write_tables(broker: &Arc<Broker>) {
    if let Err(error) = housekeeping::flush(broker) {
        tracing::error!(%error, "consumer offsets or groups could not be written");
    }
}

fn interval(period: Duration) -> tokio::time::Interval {
    let mut interval = tokio::time::interval(period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}
