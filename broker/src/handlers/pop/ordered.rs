//! Messages that were popped in order: what is done of them, and for how long they stay with their
//! client (`AckMessageProcessor.ackOrderly`).
//!
//! What changes is a record of the journal, which is committed before the client is answered.

use std::sync::Arc;

use protocol::{
    Command,
    code::response,
    header::{ChangeInvisibleTimeRequest, ChangeInvisibleTimeResponse},
};
use store::journal::Change;
use tokio::sync::oneshot;

use super::{
    collect::{record_of, row_change},
    freed,
};
use crate::{
    broker::Broker,
    call::{Call, Rejection, Reply},
    clock::now_millis,
    lanes::Lane,
    pending::{Outcome, settled},
    pop::{
        names::{ORDERED, normal_topic},
        order::{Done, Queue},
    },
    reply,
};

/// A message that was popped in order.
#[derive(Debug, Clone)]
pub(super) struct Message {
    pub(super) of: Queue,
    pub(super) offset: i64,
    pub(super) pop_time: i64,
}

/// What is written for a request, where something is, and the answer when that is committed.
type Written = (Option<oneshot::Receiver<Outcome>>, Command);

/// Messages are done.
pub(super) fn acknowledge(
    broker: &Arc<Broker>,
    call: &mut Call,
    messages: Vec<Message>,
) -> Result<Reply, Rejection> {
    run(broker, call, move |broker| {
        let mut changes = Vec::new();
        for message in &messages {
            changes.extend(acknowledge_one(broker, message)?);
        }
        let written = write(broker, changes)?;
        for Message { of, .. } in &messages {
            broker.stats.acknowledged(&of.group, &of.topic, 1);
        }
        let of = messages.into_iter().map(|message| message.of);
        let is_free = |of: &Queue| !broker.pop.orders.is_blocked(of, None, now_millis());
        freed(broker, &of.filter(is_free).collect::<Vec<_>>());
        Ok((written, reply::answer(response::SUCCESS)))
    })
}

/// A message stays with its client for another time from now on.
pub(super) fn change(
    broker: &Arc<Broker>,
    call: &mut Call,
    (message, request): (Message, &ChangeInvisibleTimeRequest),
) -> Result<Reply, Rejection> {
    let invisible_time = request.invisible_time;
    run(broker, call, move |broker| {
        let Message { of, offset, pop_time } = &message;
        let _held = broker.pop.lock(&of.group, normal_topic(&of.topic, &of.group));
        if *offset < position(broker, of) {
            let header = ChangeInvisibleTimeResponse::default();
            return Ok((None, reply::answer(response::SUCCESS).with_header(&header)));
        }
        let until = now_millis().saturating_add(invisible_time);
        let row = broker.pop.orders.keep_until(of, (*offset, *pop_time), until);
        let written =
            write(broker, row.map(|row| row_change(of, Some(&row))).into_iter().collect())?;
        let header = ChangeInvisibleTimeResponse {
            pop_time: *pop_time,
            invisible_time: until.saturating_sub(*pop_time),
            revive_qid: ORDERED,
        };
        Ok((written, reply::answer(response::SUCCESS).with_header(&header)))
    })
}

fn acknowledge_one(broker: &Broker, message: &Message) -> Result<Vec<Change>, Rejection> {
    let Message { of, offset, pop_time } = message;
    let _held = broker.pop.lock(&of.group, normal_topic(&of.topic, &of.group));
    let before = position(broker, of);
    if *offset < before {
        return Ok(Vec::new());
    }
    let (done, row) = broker.pop.orders.acknowledge(of, (*offset, *pop_time));
    let mut changes: Vec<Change> = row.map(|row| row_change(of, Some(&row))).into_iter().collect();
    match done {
        Done::Outdated => {}
        Done::Unknown => {
            let Queue { topic, group, queue } = of;
            let remark = format!(
                "offset is illegal, key:{topic}@{group}@{queue}, old:{before}, commit:{offset}, next:-1"
            );
            return Err(Rejection::new(response::MESSAGE_ILLEGAL, remark));
        }
        Done::Next(next) if broker.offsets.has_reset(&of.group, &of.topic, of.queue) => {
            tracing::debug!(next, "an administrator has set where the group goes on");
        }
        Done::Next(next) => {
            changes.push(Change::Offsets { key: of.key(), queues: vec![(of.queue, next)] });
            broker.offsets.written(&of.group, &of.topic, of.queue, next);
        }
    }
    Ok(changes)
}

fn position(broker: &Broker, of: &Queue) -> i64 {
    broker.offsets.query(&of.group, &of.topic, of.queue).unwrap_or(-1)
}

fn write(
    broker: &Broker,
    changes: Vec<Change>,
) -> Result<Option<oneshot::Receiver<Outcome>>, Rejection> {
    if changes.is_empty() {
        return Ok(None);
    }
    broker.submit_records(&[record_of(broker, changes)?]).map(Some)
}

/// Runs where it may wait for a pop of the same group and topic, and answers when what it has written
/// is committed.
fn run(
    broker: &Arc<Broker>,
    call: &mut Call,
    work: impl FnOnce(&Arc<Broker>) -> Result<Written, Rejection> + Send + 'static,
) -> Result<Reply, Rejection> {
    let place = broker.lanes.place(Lane::Pull)?;
    let responder = call.take_responder()?;
    let broker = Arc::clone(broker);
    place.run(move || {
        let written = work(&broker);
        broker.runtime.spawn(async move {
            let answer = match written {
                Ok((committed, answer)) => committed_answer(committed, answer).await,
                Err(rejection) => reply::refusal(&rejection),
            };
            responder.send(answer);
        });
    });
    Ok(Reply::Later)
}

async fn committed_answer(
    committed: Option<oneshot::Receiver<Outcome>>,
    answer: Command,
) -> Command {
    let Some(committed) = committed else { return answer };
    let stopped = "the log has stopped; ask the broker that takes over";
    match settled(committed.await, stopped) {
        Ok(_) => answer,
        Err(rejection) => reply::refusal(&rejection),
    }
}
