//! What a broker does by itself from time to time.

use std::{
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use dledger::Status;
use store::retention::Moment;
use tokio::{sync::watch, task::JoinSet, time::MissedTickBehavior};

use crate::{
    broker::Broker, clock, dledger_log::DledgerLog, handlers::pull, housekeeping, pending::Pending,
    role::RoleEvent,
};

/// Starts the tasks; they end when the set is shut down.
pub(super) fn start(broker: &Arc<Broker>, log: &Arc<DledgerLog<Pending>>) -> JoinSet<()> {
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
    tasks.spawn(follow_role(Arc::clone(broker), log.status()));
    let every = Duration::from_millis(config.clean_resource_interval);
    let (it, log) = (Arc::clone(broker), Arc::clone(log));
    tasks.spawn(async move {
        let mut period = interval(every);
        loop {
            let at_any_hour = tokio::select! {
                _ = period.tick() => false,
                () = it.clean_now.notified() => true,
            };
            let (broker, log) = (Arc::clone(&it), Arc::clone(&log));
            let cleaning = tokio::task::spawn_blocking(move || clean(&broker, &log, at_any_hour));
            if cleaning.await.is_err() {
                tracing::error!("cleaning ended by a panic");
            }
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

/// Takes over what the log says about its node.
async fn follow_role(broker: Arc<Broker>, mut status: watch::Receiver<Status>) {
    while status.changed().await.is_ok() {
        let now = status.borrow_and_update().clone();
        let event = match (now.role, now.opened) {
            (dledger::Role::Leader, true) => RoleEvent::Opened { term: now.term },
            (dledger::Role::Leader, false) => RoleEvent::Elected { term: now.term },
            _ => RoleEvent::Following { leader: now.leader },
        };
        broker.role_changed(event).await;
    }
}

/// One step of retention: trims the log of what has expired, in the hours of `deleteWhen` or, where
/// an administrator asks, at once; and looks at the room that is left.
fn clean(broker: &Broker, log: &DledgerLog<Pending>, at_any_hour: bool) {
    match broker.store.space() {
        Ok(space) => {
            let limit = f64::from(broker.config().disk_space_warning_level_ratio) / 100.0;
            let full = space.used_ratio() >= limit;
            if full != broker.disk_is_full.swap(full, Ordering::Relaxed) {
                tracing::warn!(full, used = space.used_ratio(), "the disk");
            }
        }
        Err(error) => tracing::error!(%error, "room of the disk is not known"),
    }
    let now_ms = u64::try_from(clock::now_millis()).unwrap_or(0);
    let hours = if at_any_hour { 0..24 } else { clock::local_hour()..clock::local_hour() + 1 };
    let expired = |local_hour| broker.store.clean(Moment { now_ms, local_hour });
    let Some(before) = hours.into_iter().find_map(expired) else { return };
    match log.trim(before) {
        Ok(first) => {
            broker.store.cut_to_log();
            tracing::info!(before, first, "expired files of the log were deleted");
        }
        Err(error) => tracing::error!(%error, before, "expired files of the log were not deleted"),
    }
}

fn interval(period: Duration) -> tokio::time::Interval {
    let mut interval = tokio::time::interval(period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}
