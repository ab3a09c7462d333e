//! What a broker does by itself from time to time.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use dledger::Status;
use store::retention::Moment;
use tokio::{sync::watch, task::JoinSet, time::MissedTickBehavior};

use super::open::take_over;
use crate::{
    broker::Broker,
    clock,
    compat::java_master,
    config::BrokerConfig,
    dledger_log::DledgerLog,
    group::Group,
    handlers::{pop, pull},
    housekeeping, journal,
    pending::Pending,
    role::RoleEvent,
};

/// Starts the tasks; they end when the set is shut down.
pub(super) fn start(broker: &Arc<Broker>, log: &Arc<DledgerLog<Pending>>) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    let config = broker.config();
    tasks.spawn(Arc::clone(broker).stay_registered());
    tasks.spawn(follow_role(Arc::clone(broker), log.status()));
    if let Some(group) = broker.group() {
        tasks.spawn(java_master::follow(Arc::clone(broker)));
        tasks.spawn(tell_durability(Arc::clone(&group)));
        tasks.spawn(tell_leaderless(group));
        tasks.spawn(Arc::clone(broker).follow_advice(Arc::clone(log)));
    }
    let every = Duration::from_millis(config.clean_resource_interval);
    let disk_of = Arc::clone(log);
    let (it, log) = (Arc::clone(broker), Arc::clone(log));
    tasks.spawn(async move {
        let mut period = interval(every);
        loop {
            let at_any_hour = tokio::select! {
                _ = period.tick() => false,
                () = it.disk.filled.notified() => false,
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
    tasks.spawn(pop::expire(Arc::clone(broker)));
    tasks.spawn(watch_disk(Arc::clone(broker), disk_of));
    let it = Arc::clone(broker);
    tasks.spawn(housekeeping::run(it));
    tasks.spawn(journal::run(Arc::clone(broker)));
    tasks
}

/// Writes the tables that are written from time to time.
pub(super) fn write_tables(broker: &Arc<Broker>) {
    if let Err(error) = housekeeping::flush(broker) {
        tracing::error!(%error, "files of config/ could not be written");
    }
}

/// Takes over what the log says about its node.
async fn follow_role(broker: Arc<Broker>, mut status: watch::Receiver<Status>) {
    loop {
        let now = status.borrow_and_update().clone();
        let term = now.term;
        if now.role != dledger::Role::Leader {
            broker.role_changed(&RoleEvent::Following { term, leader: now.leader });
        } else {
            broker.role_changed(&RoleEvent::Elected { term });
        }
        if now.role == dledger::Role::Leader && now.opened {
            // Another may lead before this node has taken over.
            let changed = tokio::select! {
                biased;
                changed = status.changed() => Some(changed),
                () = take_over(&broker) => None,
            };
            match changed {
                None => broker.role_changed(&RoleEvent::Opened { term }),
                Some(Ok(())) => continue,
                Some(Err(_)) => return,
            }
        }
        if status.changed().await.is_err() {
            return;
        }
    }
}

/// Warns while nobody leads, with the reason: at first after some seconds.
async fn tell_leaderless(group: Arc<Group>) {
    let warned = segment::Throttle::new();
    let mut period = interval(LOOK_AT_MEMBERS);
    let mut since = Instant::now();
    loop {
        period.tick().await;
        if group.leader().is_some() {
            since = Instant::now();
            if warned.over() {
                tracing::info!("the group has a leader again");
            }
        } else if since.elapsed() > LEADERLESS && warned.tell(Instant::now()).is_some() {
            let (seconds, why) = (since.elapsed().as_secs(), group.why_no_leader());
            tracing::warn!(seconds, why, "no leader is known");
        }
    }
}

/// Says what an acknowledged message means in a group, at its start and on every change: that depends
/// on who leads and on what the members say of themselves.
async fn tell_durability(group: Arc<Group>) {
    let mut told = String::new();
    let mut period = interval(LOOK_AT_MEMBERS);
    loop {
        period.tick().await;
        let now = group.durability();
        if now != told {
            tracing::info!(durability = now, "effective durability");
            told = now;
        }
    }
}

/// Looks at the room of the disk time and again, apart from the deletion of files: that may be slow,
/// and sends must be refused before the last byte is written. A log of several hands the lead over.
async fn watch_disk(broker: Arc<Broker>, log: Arc<DledgerLog<Pending>>) {
    let mut period = interval(LOOK_AT_DISK);
    let mut had_room = true;
    loop {
        period.tick().await;
        if broker.group().is_some() && had_room && is_above(&broker).await {
            had_room = false;
            log.note_room(false);
            // Sends wait by then where another member takes the lead; else they are refused.
            tokio::time::sleep(HEAD_START).await;
        }
        let it = Arc::clone(&broker);
        if tokio::task::spawn_blocking(move || look_at_disk(&it)).await.is_err() {
            tracing::error!("a look at the disk ended by a panic");
        }
        let has_room = broker.disk.has_room();
        if has_room != had_room {
            log.note_room(has_room);
            had_room = has_room;
        }
    }
}

async fn is_above(broker: &Arc<Broker>) -> bool {
    let it = Arc::clone(broker);
    let look = move || it.disk.is_above(it.config().disk_space_warning_level_ratio);
    tokio::task::spawn_blocking(look).await.unwrap_or(false)
}

pub(super) fn look_at_disk(broker: &Broker) {
    let config = broker.config();
    broker.disk.look(config.disk_space_warning_level_ratio, config.disk_space_clean_forcibly_ratio);
}

/// One turn of retention: trims the log of what has expired, in the hours of `deleteWhen`, while the
/// disk fills or, where an administrator asks, at once; and of the oldest files, one by one, as long
/// as the disk is so full that they go before their time.
fn clean(broker: &Broker, log: &DledgerLog<Pending>, at_any_hour: bool) {
    let mut deleted = false;
    for _ in 0..FILES_OF_A_TURN {
        if !clean_once(broker, log, at_any_hour) {
            break;
        }
        deleted = true;
    }
    broker.disk.set_room_aside();
    if deleted {
        broker.disk.unstuck();
        look_at_disk(broker);
        return;
    }
    let config = broker.config();
    let percent = broker.disk.fullest().map_or(0.0, |fullest| fullest.used() * 100.0);
    if percent >= f64::from(config.disk_space_clean_forcibly_ratio) {
        broker.disk.make_room_for_deletion();
        broker.disk.tell_stuck(percent, &why_stuck(&config));
    }
}

fn why_stuck(config: &BrokerConfig) -> String {
    let kept = if config.clean_file_forcibly_enable {
        String::new()
    } else {
        format!(
            ", and messages are kept for {} h whatever the room is (fileReservedTime, cleanFileForciblyEnable=false)",
            config.file_reserved_time
        )
    };
    format!(
        "the last file always stays ({} MiB, mappedFileSizeCommitLog){kept}",
        config.mapped_file_size_commit_log >> 20
    )
}

/// Whether something was deleted.
fn clean_once(broker: &Broker, log: &DledgerLog<Pending>, at_any_hour: bool) -> bool {
    let now_ms = u64::try_from(clock::now_millis()).unwrap_or(0);
    let used_ratio = broker.disk.measure().map_or(0.0, |fullest| fullest.used());
    let hours = if at_any_hour { 0..24 } else { clock::local_hour()..clock::local_hour() + 1 };
    let expired = |local_hour| broker.store.clean(Moment { now_ms, local_hour, used_ratio });
    let Some(before) = hours.into_iter().find_map(expired) else { return false };
    let before = before.min(broker.journal_needed_from());
    let min = broker.store.min_physical();
    match log.trim(before) {
        Ok(first) if first > min => {
            broker.store.cut_to_log();
            tracing::info!(before, first, used_ratio, "old files of the log were deleted");
            true
        }
        Ok(_) => false,
        Err(error) => {
            tracing::error!(%error, before, "old files of the log were not deleted");
            false
        }
    }
}

/// Time between two looks at what members say of themselves.
const LOOK_AT_MEMBERS: Duration = Duration::from_secs(1);
/// Time without a leader that is worth a warning: several elections.
const LEADERLESS: Duration = Duration::from_secs(5);
/// How long before it refuses sends a master tells its log that it has no room for them.
const HEAD_START: Duration = Duration::from_millis(100);
/// Time between two looks at the room of the disk.
const LOOK_AT_DISK: Duration = Duration::from_millis(500);
/// Files that one turn deletes before their time (Java: `deleteFileBatchMax`).
const FILES_OF_A_TURN: usize = 10;

fn interval(period: Duration) -> tokio::time::Interval {
    let mut interval = tokio::time::interval(period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}
