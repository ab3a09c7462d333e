//! Pulls: codes 11 and 361, and 46 which checks a subscription before it is used
//! (`PullMessageProcessor.java`, `DefaultPullMessageResultHandler.java`).

pub(crate) mod broadcast;
mod check;
pub(in crate::handlers) mod filter;
mod slave;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::{Bytes, BytesMut};
use protocol::{
    Command,
    body::SubscriptionGroupConfig,
    code::response,
    header::{PullMessageRequest, PullMessageResponse},
    message::sys_flag::pull::{COMMIT_OFFSET, SUSPEND},
};
use remoting::Responder;
use store::{GetRequest, GetResult, GetStatus};

use crate::{
    broker::Broker,
    call::{Call, Rejection, Reply},
    drafts,
    hold::Waits,
    lanes::Lane,
    reply,
    role::Role,
    topics::Topic,
};

pub(crate) use check::check_client_config;

use broadcast::Receiver;
use filter::PullFilter;

/// A client is never kept waiting for longer than this, whatever it asks for.
const LONGEST_HOLD: Duration = Duration::from_secs(600);

/// A pull that passed all checks.
#[derive(Debug)]
pub(crate) struct Pull {
    request: PullMessageRequest,
    queue: u32,
    filter: PullFilter,
    topic: Arc<Topic>,
    group: Arc<SubscriptionGroupConfig>,
    received: Instant,
    /// Who pulls, of a group that broadcasts.
    receiver: Option<Receiver>,
    /// When it is answered at the latest, once it was held.
    until: Option<Instant>,
    responder: Responder,
}

/// Gives messages of one queue; waits for them where the client allows it.
pub(crate) fn pull(broker: &Arc<Broker>, call: &mut Call) -> Result<Reply, Rejection> {
    let checked = check::check(broker, call)?;
    let receiver = Receiver::of(broker, &checked.request, &call.connection);
    let pull = Pull {
        queue: u32::try_from(checked.request.queue_id).unwrap_or_default(),
        request: checked.request,
        filter: checked.filter,
        topic: checked.topic,
        group: checked.group,
        received: call.received,
        receiver,
        until: None,
        responder: call.take_responder()?,
    };
    let queue = (&*pull.request.consumer_group, &*pull.request.topic, pull.request.queue_id);
    broker.locks.pulled(queue, call.connection.id(), call.received);
    if !broker.locks.knows_members(call.received) {
        broker.unannounced.pulled(queue.0, call.connection.id());
    }
    if let Some(offset) = pull.pending_reset(broker) {
        pull.answer_reset(broker, offset);
    } else if let Some(offset) = pull.broadcast_begin(broker) {
        pull.answer_reset(broker, offset);
    } else {
        pull.evaluate(broker, Turn::First);
    }
    Ok(Reply::Later)
}

/// Evaluates pulls that were taken out of the hold.
pub(crate) fn resume(broker: &Arc<Broker>, pulls: Vec<Pull>) {
    if pulls.is_empty() {
        return;
    }
    let handle = broker.runtime.clone();
    let broker = Arc::clone(broker);
    handle.spawn(async move {
        for pull in pulls {
            pull.evaluate(&broker, Turn::Second);
        }
    });
}

/// Whether a pull may still be held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    First,
    Second,
}

impl Pull {
    /// Reads from memory here, or from disk on the pull lane.
    fn evaluate(self, broker: &Arc<Broker>, turn: Turn) {
        if self.filter.is_cheap()
            && let Some(result) = broker.store.get_if_cached(&self.get_request(broker))
        {
            self.finish(broker, turn, result);
            return;
        }
        match broker.lanes.place(Lane::Pull) {
            Ok(place) => {
                let broker = Arc::clone(broker);
                place.run(move || {
                    let result = broker.store.get(&self.get_request(&broker));
                    self.finish(&broker, turn, result);
                });
            }
            Err(rejection) => self.responder.send(reply::refusal(&rejection)),
        }
    }

    fn get_request<'a>(&'a self, broker: &Broker) -> GetRequest<'a> {
        let config = broker.config();
        let asked = self.request.max_msg_bytes.and_then(|bytes| usize::try_from(bytes).ok());
        let most = config.max_transfer_bytes_on_message_in_memory as usize;
        GetRequest {
            topic: &self.request.topic,
            queue_id: self.queue,
            offset: self.request.queue_offset,
            max_messages: u32::try_from(self.request.max_msg_nums).unwrap_or(0),
            max_bytes: asked.filter(|bytes| *bytes > 0).map_or(most, |bytes| bytes.min(most)),
            filter: self.filter.tags().as_dyn(),
            content: self.filter.content(),
        }
    }

    /// Answers, or holds a pull that found nothing.
    fn finish(mut self, broker: &Arc<Broker>, turn: Turn, mut result: GetResult) {
        let request = &self.request;
        let role = broker.role();
        // A slave keeps no offsets of its own (`PullMessageProcessor`: `storeOffsetEnable`).
        if role.is_master() && turn == Turn::First && request.sys_flag & COMMIT_OFFSET != 0 {
            let (group, topic) = (&request.consumer_group, &request.topic);
            broker.offsets.commit(group, topic, request.queue_id, request.commit_offset);
        }
        let code = if role.is_master() {
            code(result.status, request.queue_offset)
        } else {
            slave::code(&mut result, request.queue_offset, knows_master(&role))
        };
        let may_wait = turn == Turn::First && request.sys_flag & SUSPEND != 0;
        if code == response::PULL_NOT_FOUND && may_wait {
            self.hold(broker);
        } else if self.was_woken_in_vain(turn, result.status) {
            self.request.queue_offset = signed(result.next_begin_offset);
            self.hold(broker);
        } else {
            self.answer(broker, code, result);
        }
    }

    /// Whether a message woke it that its filter, which looks inside, does not let through, and
    /// there is still time to wait for another.
    fn was_woken_in_vain(&self, turn: Turn, status: GetStatus) -> bool {
        turn == Turn::Second
            && status == GetStatus::NoMatchedMessage
            && self.filter.looks_inside()
            && self.until.is_some_and(|until| Instant::now() < until)
    }

    fn deadline(&self, broker: &Broker) -> Instant {
        let config = broker.config();
        let asked = if config.long_polling_enable {
            u64::try_from(self.request.suspend_timeout_millis).unwrap_or(0)
        } else {
            config.short_polling_time_mills
        };
        Instant::now() + Duration::from_millis(asked).min(LONGEST_HOLD)
    }

    fn hold(mut self, broker: &Arc<Broker>) {
        self.remember_broadcast(broker, self.request.queue_offset);
        let deadline = self.until.unwrap_or_else(|| self.deadline(broker));
        self.until = Some(deadline);
        let (topic, queue) = (self.request.topic.clone(), self.queue);
        let offset = u64::try_from(self.request.queue_offset).unwrap_or(0);
        match broker.hold.hold(&topic, queue, deadline, self) {
            Err(mut pull) => {
                pull.until = None;
                pull.evaluate(broker, Turn::Second);
            }
            // A message may have come between the look and the hold; its arrival found nobody.
            Ok(id) if broker.store.max_offset(&topic, queue) > offset => {
                if let Some(pull) = broker.hold.take(id) {
                    pull.evaluate(broker, Turn::Second);
                }
            }
            Ok(_) => {}
        }
    }

    fn answer(self, broker: &Broker, code: i32, result: GetResult) {
        let request = &self.request;
        let (group, topic) = (&request.consumer_group, &request.topic);
        let next = signed(result.next_begin_offset);
        broker.offsets.pulled(group, topic, request.queue_id, next);
        let moved = code == response::PULL_OFFSET_MOVED;
        self.remember_broadcast(broker, if moved { next } else { request.queue_offset });
        let mut answer = self.head(broker, code, &result);
        if code == response::SUCCESS {
            let figures = (result.messages.len() as u64, result.total_bytes as u64);
            broker.stats.pulled(group, (topic, request.queue_id), figures, self.received);
            answer = answer.with_body(concatenated(result.messages, result.total_bytes));
        } else {
            broker.stats.pulled_nothing();
        }
        self.responder.send(answer);
    }

    fn head(&self, broker: &Broker, code: i32, result: &GetResult) -> Command {
        let header = PullMessageResponse {
            suggest_which_broker_id: self.suggested(broker, result),
            next_begin_offset: signed(result.next_begin_offset),
            min_offset: signed(result.min_offset),
            max_offset: signed(result.max_offset),
            ..self.response_header()
        };
        reply::answer(code).with_header(&header).with_remark(result.status.java_name())
    }

    /// The id of the broker that the client is to ask next.
    fn suggested(&self, broker: &Broker, result: &GetResult) -> i64 {
        if !broker.config().slave_read_enable {
            return 0;
        }
        let role = broker.role();
        let found = result.status == GetStatus::Found;
        let lags = !broker.store.counts_as_in_memory(result.behind_bytes);
        if !role.is_master() {
            let own = broker.registration.broker_id();
            return slave::suggested_by_slave(lags, found, knows_master(&role), own);
        }
        let slaves = if lags { broker.live_slaves() } else { Vec::new() };
        let wanted = self.group.which_broker_when_consume_slowly;
        slave::suggested_by_master(slave::Reader { lags, wanted, slaves: &slaves })
    }

    fn response_header(&self) -> PullMessageResponse {
        PullMessageResponse {
            suggest_which_broker_id: 0,
            topic_sys_flag: Some(self.topic.topic_sys_flag),
            group_sys_flag: Some(self.group.group_sys_flag),
            ..PullMessageResponse::default()
        }
    }

    /// An administrator's reset that the group has not heard of, to be told by this pull.
    fn pending_reset(&self, broker: &Broker) -> Option<i64> {
        let request = &self.request;
        let tells = broker.config().use_server_side_reset_offset;
        (tells && broker.with_role(Role::is_master))
            .then(|| {
                let (group, topic) = (&request.consumer_group, &request.topic);
                broker.take_reset(group, topic, request.queue_id)
            })
            .flatten()
            // A client that begins there has heard of it by its query; being told again would cost
            // it ten seconds.
            .filter(|offset| *offset != request.queue_offset)
    }

    fn answer_reset(self, broker: &Broker, offset: i64) {
        self.remember_broadcast(broker, offset);
        let (topic, queue) = (&self.request.topic, self.queue);
        let header = PullMessageResponse {
            next_begin_offset: offset,
            min_offset: signed(broker.store.min_offset(topic, queue)),
            max_offset: signed(broker.store.max_offset(topic, queue)),
            ..self.response_header()
        };
        let answer = reply::answer(response::PULL_OFFSET_MOVED)
            .with_header(&header)
            .with_remark("OFFSET_RESET");
        self.responder.send(answer);
    }
}

impl Waits for Pull {
    fn connection_id(&self) -> u64 {
        self.responder.connection().id()
    }

    fn wants(&self, queue_offset: u64, tags_code: i64) -> bool {
        let from = u64::try_from(self.request.queue_offset).unwrap_or(0);
        queue_offset >= from && self.filter.tags().lets_through(tags_code)
    }
}

/// Whether this node knows a master to send clients to.
fn knows_master(role: &Role) -> bool {
    matches!(role, Role::Slave { .. })
}

/// The answer's code for what the store found. A queue without a message moves a client that asks
/// for an offset which cannot be, and lets one wait that starts there.
fn code(status: GetStatus, asked: i64) -> i32 {
    match status {
        GetStatus::Found => response::SUCCESS,
        GetStatus::NoMatchedMessage | GetStatus::MessageWasRemoving => {
            response::PULL_RETRY_IMMEDIATELY
        }
        GetStatus::NoMatchedLogicQueue | GetStatus::NoMessageInQueue if asked != 0 => {
            response::PULL_OFFSET_MOVED
        }
        GetStatus::NoMatchedLogicQueue
        | GetStatus::NoMessageInQueue
        | GetStatus::OffsetFoundNull
        | GetStatus::OffsetOverflowOne => response::PULL_NOT_FOUND,
        GetStatus::OffsetOverflowBadly | GetStatus::OffsetTooSmall => response::PULL_OFFSET_MOVED,
    }
}

/// The records back to back. A single one shares the log's memory, unless others lie in it that a
/// consumer who reads slowly would keep there.
pub(in crate::handlers) fn concatenated(mut messages: Vec<Bytes>, total: usize) -> Bytes {
    if messages.len() == 1 && total > drafts::SHARES {
        return messages.pop().unwrap_or_default();
    }
    let mut body = BytesMut::with_capacity(total);
    for message in messages {
        body.extend_from_slice(&message);
    }
    body.freeze()
}

/// Offsets are far below the end of the signed range.
pub(in crate::handlers) fn signed(offset: u64) -> i64 {
    i64::try_from(offset).unwrap_or(i64::MAX)
}
