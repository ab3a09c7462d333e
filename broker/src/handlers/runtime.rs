//! The state of the broker as text: codes 28 and 907
//! (`AdminBrokerProcessor.prepareRuntimeInfo`, `StoreStatsService.getRuntimeInfo`).
//!
//! Names and texts are Java's to the blank: dashboards split and parse them.

use std::{collections::BTreeMap, sync::Arc};

use protocol::{
    body::{HaClientRuntimeInfo, HaRuntimeInfo, KvTable},
    name, version,
};
use segment::Space;

use crate::{
    broker::Broker,
    call::{Call, Rejection, Reply},
    clock::now_millis,
    lanes::{Lane, Queued},
    stats::Reading,
};

/// Texts by name.
type Texts = BTreeMap<String, String>;

/// Code 28.
pub(crate) fn info(broker: &Arc<Broker>, call: &mut Call) -> Result<Reply, Rejection> {
    Reply::body(call, KvTable { table: table(broker) }.encode())
}

/// Code 907. There is no replication of Java's kind: followers of the group are no HA clients.
pub(crate) fn ha_status(broker: &Arc<Broker>, call: &mut Call) -> Result<Reply, Rejection> {
    let body = HaRuntimeInfo {
        master: broker.role().is_master(),
        master_commit_log_max_offset: broker.store.max_physical().cast_signed(),
        in_sync_slave_nums: 0,
        ha_connection_info: Vec::new(),
        ha_client_runtime_info: Some(HaClientRuntimeInfo::default()),
    };
    Reply::body(call, body.encode())
}

/// All of runtime info.
pub(crate) fn table(broker: &Arc<Broker>) -> Texts {
    let mut texts = Texts::new();
    let totals = broker.stats.totals();
    process(broker, &mut texts);
    traffic(&totals, &mut texts);
    days(broker, &totals, &mut texts);
    log(broker, &mut texts);
    disk(broker, &mut texts);
    lanes(broker, &mut texts);
    delay(broker, &mut texts);
    timers(broker, &mut texts);
    absent(&mut texts);
    texts
}

fn put(texts: &mut Texts, name: &str, value: impl ToString) {
    texts.insert(name.to_owned(), value.to_string());
}

fn process(broker: &Arc<Broker>, texts: &mut Texts) {
    let now = now_millis();
    put(texts, "bootTimestamp", broker.started_millis);
    put(texts, "runtime", uptime(u64::try_from(now - broker.started_millis).unwrap_or(0)));
    put(texts, "brokerActive", broker.role().is_master());
    put(texts, "brokerVersionDesc", version::description(version::CURRENT));
    put(texts, "startAcceptSendRequestTimeStamp", 0);
}

fn traffic(totals: &Reading, texts: &mut Texts) {
    put(texts, "putMessageEntireTimeMax", totals.put_longest);
    put(texts, "putMessageTimesTotal", totals.put_messages);
    put(texts, "putMessageFailedTimes", totals.put_failed);
    put(texts, "putMessageSizeTotal", totals.put_bytes);
    put(texts, "putMessageDistributeTime", &totals.put_distribution);
    let messages = totals.put_messages.max(1);
    put(texts, "putMessageAverageSize", decimal(totals.put_bytes as f64 / messages as f64));
    put(texts, "getMessageEntireTimeMax", totals.get_longest);
    put(texts, "putTps", rates(totals.put_tps));
    put(texts, "getFoundTps", rates(totals.found_tps));
    put(texts, "getMissTps", rates(totals.missed_tps));
    let pulls = [0, 1, 2].map(|span| totals.found_tps[span] + totals.missed_tps[span]);
    put(texts, "getTotalTps", rates(pulls));
    put(texts, "getTransferredTps", rates(totals.transferred_tps));
    put(texts, "putLatency99", format!("{:.2}", totals.put_latency_99));
    put(texts, "putLatency999", format!("{:.2}", totals.put_latency_999));
}

/// From what tools tell how much came and went today and yesterday.
fn days(broker: &Broker, totals: &Reading, texts: &mut Texts) {
    let mornings = broker.produced_by_morning(u64::try_from(now_millis()).unwrap_or(0));
    put(texts, "msgPutTotalYesterdayMorning", mornings.yesterday);
    put(texts, "msgPutTotalTodayMorning", mornings.today);
    put(texts, "msgPutTotalTodayNow", broker.produced());
    put(texts, "msgGetTotalYesterdayMorning", totals.get_mornings.yesterday);
    put(texts, "msgGetTotalTodayMorning", totals.get_mornings.today);
    put(texts, "msgGetTotalTodayNow", totals.transferred);
}

fn log(broker: &Arc<Broker>, texts: &mut Texts) {
    let store = &broker.store;
    put(texts, "commitLogMinOffset", store.min_physical());
    put(texts, "commitLogMaxOffset", store.max_physical());
    put(texts, "dispatchBehindBytes", store.dispatch_behind_bytes());
    put(texts, "dispatchMaxBuffer", 0);
    // mqadmin shows the time since then in hours: what is empty has an age of 0, not of 55 years.
    let earliest = store.earliest_store_time().map_or_else(now_millis, u64::cast_signed);
    put(texts, "earliestMessageTimeStamp", earliest);
    // Appends wait in a queue here, and hold no lock on the page cache.
    put(texts, "pageCacheLockTimeMills", 0);
}

fn disk(broker: &Arc<Broker>, texts: &mut Texts) {
    let config = broker.config();
    let root = config.store_path_root_dir.as_str();
    let space = broker.disk.measure().map_or(Space { total: 0, free: 0 }, |found| found.space);
    // 0 where the room is unknown: dashboards take -1 for a full disk.
    let ratio = decimal(space.used_ratio().clamp(0.0, 1.0));
    put(texts, "commitLogDiskRatio", &ratio);
    put(texts, &format!("commitLogDiskRatio_{root}"), &ratio);
    put(texts, "consumeQueueDiskRatio", &ratio);
    let capacity = format!("Total : {}, Free : {}.", readable(space.total), readable(space.free));
    put(texts, "commitLogDirCapacity", capacity);
}

fn lanes(broker: &Arc<Broker>, texts: &mut Texts) {
    let lane = |texts: &mut Texts, name: &str, queued: Queued| {
        put(texts, &format!("{name}ThreadPoolQueueSize"), queued.number);
        put(texts, &format!("{name}ThreadPoolQueueCapacity"), queued.bound);
        let longest = queued.longest.as_millis();
        put(texts, &format!("{name}ThreadPoolQueueHeadWaitTimeMills"), longest);
    };
    lane(texts, "send", broker.lanes.waiting(Lane::Inline));
    lane(texts, "pull", broker.lanes.waiting(Lane::Pull));
    lane(texts, "litePull", broker.lanes.waiting(Lane::Pull));
    lane(texts, "query", broker.lanes.waiting(Lane::Query));
    // Those of messages that were popped in order wait with pulls; the others go to the log at once.
    lane(texts, "ack", broker.lanes.waiting(Lane::Pull));
    let ends = broker.lanes.waiting(Lane::Query);
    put(texts, "EndTransactionQueueSize", ends.number);
    put(texts, "EndTransactionThreadPoolQueueCapacity", ends.bound);
}

/// How timers come, wait and go. A node that is not the master delivers none, and has nothing before
/// it.
fn timers(broker: &Arc<Broker>, texts: &mut Texts) {
    let now = u64::try_from(now_millis()).unwrap_or(0);
    let end = broker.store.max_offset(name::TIMER_TOPIC, 0);
    let backlog = broker.timers_shown.backlog(end, now);
    let (found, delivered) = broker.stats.timers.rates();
    put(texts, "timerReadBehind", backlog.late);
    put(texts, "timerOffsetBehind", backlog.unseen);
    put(texts, "timerCongestNum", backlog.waiting);
    put(texts, "timerEnqueueTps", decimal(found));
    put(texts, "timerDequeueTps", decimal(delivered));
}

/// For each delay level how far its queue is delivered, and where it ends.
fn delay(broker: &Arc<Broker>, texts: &mut Texts) {
    for (level, delivered) in broker.delay_progress.offsets() {
        let Some(queue) = level.checked_sub(1) else { continue };
        let end = broker.store.max_offset(crate::topics::SCHEDULE_TOPIC, queue);
        put(texts, &format!("scheduleMessageOffset_{level}"), format!("{delivered},{end}"));
    }
}

/// What Java shows of parts that do not exist here, at rest.
fn absent(texts: &mut Texts) {
    put(texts, "remainTransientStoreBufferNumbs", i32::MAX);
    put(texts, "remainHowManyDataToCommit", readable(0));
    put(texts, "remainHowManyDataToFlush", readable(0));
}

/// Three rates as Java joins them.
fn rates(rates: [f64; 3]) -> String {
    rates.map(decimal).join(" ")
}

/// A number with at least one digit behind the point, as Java prints doubles.
fn decimal(number: f64) -> String {
    format!("{number:?}")
}

/// `DefaultMessageStore.getRunningTime`.
fn uptime(millis: u64) -> String {
    let seconds = millis / 1_000;
    format!(
        "[ {} days, {} hours, {} minutes, {} seconds ]",
        seconds / 86_400,
        seconds / 3_600 % 24,
        seconds / 60 % 60,
        seconds % 60
    )
}

/// `MixAll.humanReadableByteCount` with binary units.
fn readable(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1_024 {
        return format!("{bytes} B");
    }
    let power = ((63 - bytes.leading_zeros()) / 10).min(6) as usize;
    let scaled = bytes as f64 / 1_024_f64.powi(power as i32);
    format!("{scaled:.1} {}", UNITS[power - 1])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_as_java_writes_them() {
        assert_eq!(readable(0), "0 B");
        assert_eq!(readable(1_023), "1023 B");
        assert_eq!(readable(1_024), "1.0 KiB");
        assert_eq!(readable(252 << 30), "252.0 GiB");
        assert_eq!(readable(1_536 << 20), "1.5 GiB");
        assert_eq!(readable(u64::MAX), "16.0 EiB");
        assert_eq!(uptime(224_999), "[ 0 days, 0 hours, 3 minutes, 44 seconds ]");
        assert_eq!(rates([0.0, 49.5, 1.0 / 3.0]), "0.0 49.5 0.3333333333333333");
        assert_eq!(decimal(1e21), "1e21");
    }
}
