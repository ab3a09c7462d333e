//! Pops: codes 200050 to 200056 and 200151 (`PopMessageProcessor.java`, `AckMessageProcessor.java`,
//! `ChangeInvisibleTimeProcessor.java`, `NotificationProcessor.java`).

mod ack;
mod change;
mod check;
mod collect;
mod notify;
mod ordered;
mod peek;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use protocol::{
    Command,
    code::response,
    header::{PopMessageRequest, PopMessageResponse},
};
use remoting::Responder;
use store::{Arrival, append_log::AppendFailure};

use crate::{
    broker::Broker,
    call::{Call, Rejection, Reply},
    clock::now_millis,
    handlers::pull::{concatenated, filter::PullFilter, signed},
    lanes::Lane,
    pending,
    pop::{
        names::{Form, retry_topic},
        order::Queue,
        point::MAX_MESSAGES,
        polls::{ANY, Bounds, Place, Polls},
    },
    reply,
};

pub(crate) use ack::{ack, acks};
pub(crate) use change::change;
pub(crate) use notify::{Watch, notify, polling_info};
pub(crate) use peek::peek;

use collect::{Harvest, Reads};

/// A client is never kept waiting for longer than this, whatever it asks for.
const LONGEST_WAIT: Duration = Duration::from_secs(600);
/// How long before the client gives up it is answered (`PopRequest.isTimeout`).
const BEFORE_TIMEOUT: i64 = 50;
/// How late a request may come, by the client's own clock (`isTimeoutTooMuch`).
const TOO_LATE: i64 = 500;

/// A pop that passed all checks.
#[derive(Debug)]
pub(crate) struct Take {
    request: PopMessageRequest,
    filter: PullFilter,
    received: Instant,
    /// Until when it waits; `None` where it does not.
    until: Option<Instant>,
    /// Whether it waited already.
    waited: bool,
    responder: Responder,
}

/// 200056: Java moves check points that it keeps in RocksDB to its log (`transferPopToFsStore` of
/// `AdminBrokerProcessor.java`). Here they are in the log from the beginning.
pub(crate) fn rollback(_broker: &Arc<Broker>, call: &mut Call) -> Result<Reply, Rejection> {
    tracing::info!(peer = %call.client, "check points of pops are in the log already");
    Reply::done(call)
}

/// 200050: gives messages for a time; waits for them where the client asks for that.
pub(crate) fn pop(broker: &Arc<Broker>, call: &mut Call) -> Result<Reply, Rejection> {
    let request: PopMessageRequest = call.header()?;
    let now = now_millis();
    let born = if request.born_time == 0 { now } else { request.born_time };
    let over = born.saturating_add(request.poll_time);
    let host = &broker.config().broker_ip1.0;
    if now.saturating_sub(over) > TOO_LATE {
        let remark = format!("the broker[{host}] pop message is timeout too much");
        let answer = reply::answer(response::POLLING_TIMEOUT)
            .with_header(&PopMessageResponse::default())
            .with_remark(remark);
        return Ok(Reply::Now(answer));
    }
    check::check_broker(broker, "pop")?;
    if usize::try_from(request.max_msg_nums).is_ok_and(|number| number > MAX_MESSAGES) {
        let remark = format!("the broker[{host}] pop message's num is greater than {MAX_MESSAGES}");
        return Err(Rejection::new(response::INVALID_PARAMETER, remark));
    }
    let asked = check::Asked {
        group: &request.consumer_group,
        topic: &request.topic,
        queue: request.queue_id,
    };
    check::check(broker, call, asked)?;
    check_room(broker)?;
    let take = Take {
        filter: check::filter(&request)?,
        until: until(request.poll_time, (now, over), call.received),
        request,
        received: call.received,
        waited: false,
        responder: call.take_responder()?,
    };
    take.evaluate(broker);
    Ok(Reply::Later)
}

/// Messages have come: one request of each group that waits for them goes on.
pub(crate) fn arrived(broker: &Arc<Broker>, arrivals: &[Arrival]) {
    let (mut takes, mut watches) = (Vec::new(), Vec::new());
    for Arrival { topic, queue_id, tags_code, .. } in arrivals {
        takes.extend(broker.pop.polls.arrived(topic, *queue_id, *tags_code));
        watches.extend(broker.pop.watches.arrived(topic, *queue_id, *tags_code));
    }
    resume(broker, takes);
    notify::resume(broker, watches);
}

/// Goes on with requests whose time is over.
pub(crate) async fn expire(broker: Arc<Broker>) {
    let pop = &broker.pop;
    loop {
        tokio::select! {
            () = pop.polls.wait_for_expiry() => resume(&broker, pop.polls.expired(Instant::now())),
            () = pop.watches.wait_for_expiry() => {
                notify::resume(&broker, pop.watches.expired(Instant::now()));
            }
        }
    }
}

/// Queues of ordered pops have become free: those that wait for them go on.
pub(crate) fn freed(broker: &Arc<Broker>, queues: &[Queue]) {
    for Queue { topic, group, queue } in queues {
        for queue in [ANY, *queue] {
            resume(broker, broker.pop.polls.wake(topic, group, queue).into_iter().collect());
            let watch = broker.pop.watches.wake(topic, group, queue);
            notify::resume(broker, watch.into_iter().collect());
        }
    }
}

/// A connection has ended, and what waited for it.
pub(crate) fn closed(broker: &Broker, connection_id: u64) {
    drop(broker.pop.polls.closed(connection_id));
    drop(broker.pop.watches.closed(connection_id));
}

/// Answers requests that wait for a topic, or all: there will be no message for them here.
pub(crate) fn let_go(broker: &Broker, topic: Option<&str>) {
    let pop = &broker.pop;
    let (takes, watches) = match topic {
        Some(topic) => (pop.polls.drain_topic(topic), pop.watches.drain_topic(topic)),
        None => (pop.polls.drain_all(), pop.watches.drain_all()),
    };
    takes.into_iter().for_each(|take| take.answer_nothing(response::POLLING_TIMEOUT, 0));
    notify::let_go(watches);
}

/// Looks again for messages for pops that were taken out of those that wait.
fn resume(broker: &Arc<Broker>, takes: Vec<Take>) {
    if takes.is_empty() {
        return;
    }
    let handle = broker.runtime.clone();
    let broker = Arc::clone(broker);
    handle.spawn(async move {
        takes.into_iter().for_each(|take| take.evaluate(&broker));
    });
}

/// What is with clients is in memory, and has a bound.
fn check_room(broker: &Broker) -> Result<(), Rejection> {
    let (open, most) = (
        broker.pop.open.load(std::sync::atomic::Ordering::Relaxed),
        broker.config().max_open_check_points as usize,
    );
    if open < most {
        return Ok(());
    }
    let remark = format!(
        "[OVERLOAD]system busy, start flow control for a while: {open} pops wait to be acknowledged (maxOpenCheckPoints); acknowledge them, or ask for shorter invisible times"
    );
    Err(Rejection::new(response::SYSTEM_BUSY, remark))
}

/// Until when a pop waits.
fn until(poll_time: i64, (now, over): (i64, i64), received: Instant) -> Option<Instant> {
    let left = over.saturating_sub(now).saturating_sub(BEFORE_TIMEOUT);
    let left = u64::try_from(left).ok().filter(|_| poll_time > 0)?;
    Some(received + Duration::from_millis(left).min(LONGEST_WAIT))
}

impl Take {
    /// Takes what is in memory here, or from disk on the pull lane.
    fn evaluate(self, broker: &Arc<Broker>) {
        if self.waited && !broker.is_master() {
            return self.answer_nothing(response::POLLING_TIMEOUT, 0);
        }
        let ends = self.ends(broker);
        let (group, topic) = (&self.request.consumer_group, &self.request.topic);
        if self.filter.is_cheap()
            && let Some(held) = broker.pop.try_lock(group, topic)
        {
            let harvest = collect::collect(broker, &self, Reads::Memory);
            if !harvest.needs_disk || !harvest.bodies.is_empty() {
                return self.finish(broker, harvest, (held, ends));
            }
        }
        match broker.lanes.place(Lane::Pull) {
            Ok(place) => {
                let broker = Arc::clone(broker);
                place.run(move || self.evaluate_from_disk(&broker, ends));
            }
            Err(rejection) => self.responder.send(reply::refusal(&rejection)),
        }
    }

    fn evaluate_from_disk(self, broker: &Arc<Broker>, ends: u64) {
        let (group, topic) = (&self.request.consumer_group, &self.request.topic);
        let Some(held) = broker.pop.lock(group, topic) else { return };
        let harvest = collect::collect(broker, &self, Reads::Disk);
        self.finish(broker, harvest, (held, ends));
    }

    /// Gives what was found, once that is committed, or waits.
    fn finish<H>(self, broker: &Arc<Broker>, mut harvest: Harvest, (held, ends): (H, u64)) {
        if harvest.bodies.is_empty() {
            drop(held);
            // There may be more behind what the filter does not let through.
            if harvest.passed_over && harvest.rest > 0 {
                return resume(broker, vec![self]);
            }
            return self.wait(broker, (ends, harvest.rest));
        }
        let submitted = harvest.submit(broker, &self.request.consumer_group);
        drop(held);
        match submitted {
            Ok(committed) => {
                let broker = Arc::clone(broker);
                broker.runtime.clone().spawn(async move {
                    let outcome = committed.await;
                    self.settle(&broker, harvest, outcome);
                });
            }
            // The one that takes over is asked next.
            Err(rejection) if self.waited && !broker.is_master() => {
                tracing::debug!(remark = rejection.remark, "a pop that waited is let go");
                self.answer_nothing(response::POLLING_TIMEOUT, 0);
            }
            Err(rejection) => self.responder.send(reply::refusal(&rejection)),
        }
    }

    fn settle(
        self,
        broker: &Arc<Broker>,
        mut harvest: Harvest,
        outcome: Result<pending::Outcome, tokio::sync::oneshot::error::RecvError>,
    ) {
        if matches!(&outcome, Ok(Err(failure)) if is_lost(failure)) {
            harvest.take_back(broker, &self.request.consumer_group);
        }
        match pending::settled(
            outcome,
            "the log has stopped; pop again from the broker that takes over",
        ) {
            Ok(_) => self.answer(broker, harvest),
            Err(rejection) => self.responder.send(reply::refusal(&rejection)),
        }
    }

    fn answer(self, broker: &Arc<Broker>, harvest: Harvest) {
        let PopMessageRequest { consumer_group, topic, queue_id, .. } = &self.request;
        let figures = (harvest.bodies.len() as u64, harvest.bytes as u64);
        broker.stats.pulled(consumer_group, (topic, *queue_id), figures, self.received);
        if harvest.rest > 0 {
            resume(
                broker,
                broker
                    .pop
                    .polls
                    .wake(topic, consumer_group, (*queue_id).max(ANY))
                    .into_iter()
                    .collect(),
            );
        }
        let ordered = self.is_ordered();
        let header = PopMessageResponse {
            pop_time: harvest.pop_time,
            invisible_time: self.request.invisible_time,
            revive_qid: harvest.revive_queue,
            rest_num: signed(harvest.rest),
            start_offset_info: Some(harvest.infos.starts),
            msg_offset_info: Some(harvest.infos.offsets),
            order_count_info: ordered.then_some(harvest.infos.counts),
        };
        let answer = reply::answer(response::SUCCESS).with_header(&header).with_remark("FOUND");
        self.responder.send(answer.with_body(concatenated(harvest.bodies, harvest.bytes)));
    }

    /// Waits for a message, where the client still does.
    fn wait(mut self, broker: &Arc<Broker>, (ends, rest): (u64, u64)) {
        let until = self.until.filter(|until| Instant::now() < *until);
        let Some(until) = until else {
            broker.stats.pulled_nothing();
            return self.answer_nothing(response::POLLING_TIMEOUT, rest);
        };
        self.waited = true;
        let (topic, group) = (self.request.topic.clone(), self.request.consumer_group.clone());
        let names = (topic.clone(), retries(&topic, &group));
        let queue = self.request.queue_id.max(ANY);
        let place = Place { topic, retries: names.1.to_vec(), group, queue };
        match broker.pop.polls.hold(place, until, bounds(broker), self) {
            Err(take) => take.answer_nothing(response::POLLING_FULL, rest),
            // A message may have come between the look and the hold; its arrival found nobody.
            Ok(id) if ends_of(broker, &names.0, &names.1) != ends => {
                resume(broker, broker.pop.polls.take(id).into_iter().collect());
            }
            Ok(_) => {}
        }
    }

    fn answer_nothing(self, code: i32, rest: u64) {
        self.responder.send(nothing(code, self.request.invisible_time, rest));
    }

    fn ends(&self, broker: &Broker) -> u64 {
        let PopMessageRequest { topic, consumer_group, .. } = &self.request;
        ends_of(broker, topic, &retries(topic, consumer_group))
    }

    fn is_ordered(&self) -> bool {
        self.request.order == Some(true)
    }
}

/// The topics to which messages of a topic come again for a group.
fn retries(topic: &str, group: &str) -> [String; 2] {
    [Form::V1, Form::V2].map(|form| retry_topic(topic, group, form))
}

/// A number that moves with every message that comes to a topic or its retry topics, and whenever a
/// queue may have become free.
fn ends_of(broker: &Broker, topic: &str, retries: &[String; 2]) -> u64 {
    let names = retries.iter().map(String::as_str).chain([topic]);
    let ends = names.map(|name| {
        let found = broker.topics.get(name);
        let queues = found.map_or(0, |topic| u32::try_from(topic.read_queue_nums).unwrap_or(0));
        (0..queues).map(|queue| broker.store.max_offset(name, queue)).sum::<u64>()
    });
    ends.sum::<u64>().wrapping_add(broker.pop.orders.changes())
}

/// Whether nothing is kept of what was appended.
fn is_lost(failure: &AppendFailure) -> bool {
    !matches!(failure, AppendFailure::TimedOut { .. } | AppendFailure::Unconfirmed(_))
}

fn bounds(broker: &Broker) -> Bounds {
    let config = broker.config();
    Bounds { all: config.max_pop_polling_size as usize, of_queue: config.pop_polling_size as usize }
}

/// The answer that there is no message, with the fields that Java's clients need.
fn nothing(code: i32, invisible_time: i64, rest: u64) -> Command {
    let header = PopMessageResponse {
        pop_time: now_millis(),
        invisible_time,
        rest_num: signed(rest),
        start_offset_info: Some(String::new()),
        msg_offset_info: Some(String::new()),
        ..PopMessageResponse::default()
    };
    reply::answer(code).with_header(&header).with_remark("NO_MESSAGE_IN_QUEUE")
}

impl Polls for Take {
    fn connection_id(&self) -> u64 {
        self.responder.connection().id()
    }

    fn wants(&self, tags_code: i64) -> bool {
        self.filter.tags().lets_through(tags_code)
    }
}
