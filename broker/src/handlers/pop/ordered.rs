//! Messages that were popped in order: what is done of them, and for how long they stay with their
//! client (`AckMessageProcessor.ackOrderly`).
//!
//! What changes is a record of the journal, which is committed before the client is answered.

use std::sync::Arc;

use protocol::{
    Command,
    body::OrderInfo,
    code::response,
    header::{ChangeInvisibleTimeRequest, ChangeInvisibleTimeResponse},
};
use store::journal::Change;
use tokio::sync::oneshot;

use super::{
    collect::{record_of, row_change},
    freed, is_lost,
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

/// What was done of ordered queues for a request, and what is to be written of it.
#[derive(Debug, Default)]
struct Step {
    changes: Vec<Change>,
    /// Where groups go on now, and where they did before.
    moves: Vec<(Queue, (i64, i64))>,
    /// What was known of queues before.
    rows: Vec<(Queue, Option<OrderInfo>)>,
}

/// A step on its way into the log.
type Written = (oneshot::Receiver<Outcome>, Step);

/// Messages are done.
pub(super) fn acknowledge(
    broker: &Arc<Broker>,
    call: &mut Call,
    messages: Vec<Message>,
) -> Result<Reply, Rejection> {
    run(broker, call, move |broker| {
        let mut written = Vec::new();
        for together in messages.chunk_by(|one, next| one.of.lock() == next.of.lock()) {
            written.extend(acknowledge_together(broker, together)?);
        }
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
        let (group, topic) = of.lock();
        let _held = broker.pop.lock(group, topic);
        if *offset < position(broker, of) {
            let header = ChangeInvisibleTimeResponse::default();
            return Ok((Vec::new(), reply::answer(response::SUCCESS).with_header(&header)));
        }
        let until = now_millis().saturating_add(invisible_time);
        let mut step = Step::default();
        step.rows.push((of.clone(), broker.pop.orders.row(of)));
        let row = broker.pop.orders.keep_until(of, (*offset, *pop_time), until);
        step.changes.extend(row.map(|row| row_change(of, Some(&row))));
        let written = step.write(broker)?;
        let header = ChangeInvisibleTimeResponse {
            pop_time: *pop_time,
            invisible_time: until.saturating_sub(*pop_time),
            revive_qid: ORDERED,
        };
        Ok((written.into_iter().collect(), reply::answer(response::SUCCESS).with_header(&header)))
    })
}

/// Messages of one group and topic are done, up to the first that cannot be.
fn acknowledge_together(
    broker: &Broker,
    messages: &[Message],
) -> Result<Option<Written>, Rejection> {
    let Some(first) = messages.first() else { return Ok(None) };
    let (group, topic) = first.of.lock();
    let _held = broker.pop.lock(group, topic);
    let _ordered = broker.offsets.in_order();
    let mut step = Step::default();
    let done = messages.iter().try_for_each(|message| step.acknowledge(broker, message));
    let written = step.write(broker)?;
    done.map(|()| written)
}

impl Queue {
    /// Group and topic of the lock under which messages of the queue are taken.
    fn lock(&self) -> (&str, &str) {
        (&self.group, normal_topic(&self.topic, &self.group))
    }
}

impl Step {
    fn acknowledge(&mut self, broker: &Broker, message: &Message) -> Result<(), Rejection> {
        let Message { of, offset, pop_time } = message;
        let before = position(broker, of);
        if *offset < before {
            return Ok(());
        }
        self.rows.push((of.clone(), broker.pop.orders.row(of)));
        let (done, row) = broker.pop.orders.acknowledge(of, (*offset, *pop_time));
        self.changes.extend(row.map(|row| row_change(of, Some(&row))));
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
                self.changes
                    .push(Change::Offsets { key: of.key(), queues: vec![(of.queue, next)] });
                self.moves.push((of.clone(), (before, next)));
                broker.offsets.written(&of.group, &of.topic, of.queue, next);
            }
        }
        Ok(())
    }

    /// Gives the changes to the log, where there are some.
    fn write(mut self, broker: &Broker) -> Result<Option<Written>, Rejection> {
        let changes = std::mem::take(&mut self.changes);
        if changes.is_empty() {
            return Ok(None);
        }
        let submitted =
            record_of(broker, changes).and_then(|record| broker.submit_records(&[record]));
        match submitted {
            Ok(committed) => Ok(Some((committed, self))),
            Err(rejection) => {
                self.take_back(broker);
                Err(rejection)
            }
        }
    }

    /// Nothing is kept of it in the log: all is as it was, and clients do it again.
    fn take_back(self, broker: &Broker) {
        for (of, (from, to)) in self.moves.into_iter().rev() {
            broker.offsets.not_written(&of.group, &of.topic, of.queue, (from, to));
        }
        for (of, before) in self.rows.into_iter().rev() {
            broker.pop.orders.restore(&of, before);
        }
    }
}

fn position(broker: &Broker, of: &Queue) -> i64 {
    broker.offsets.query(&of.group, &of.topic, of.queue).unwrap_or(-1)
}

/// Runs where it may wait for a pop of the same group and topic, and answers when what it has written
/// is committed.
fn run(
    broker: &Arc<Broker>,
    call: &mut Call,
    work: impl FnOnce(&Arc<Broker>) -> Result<(Vec<Written>, Command), Rejection> + Send + 'static,
) -> Result<Reply, Rejection> {
    let place = broker.lanes.place(Lane::Pull)?;
    let responder = call.take_responder()?;
    let broker = Arc::clone(broker);
    place.run(move || {
        let worked = work(&broker);
        broker.runtime.clone().spawn(async move {
            let answered = match worked {
                Ok((written, answer)) => committed(&broker, written).await.map(|()| answer),
                Err(rejection) => Err(rejection),
            };
            responder.send(answered.unwrap_or_else(|rejection| reply::refusal(&rejection)));
        });
    });
    Ok(Reply::Later)
}

/// Waits until all is committed.
async fn committed(broker: &Broker, written: Vec<Written>) -> Result<(), Rejection> {
    for (committed, step) in written {
        let outcome = committed.await;
        if matches!(&outcome, Ok(Err(failure)) if is_lost(failure)) {
            step.take_back(broker);
        }
        settled(outcome, "the log has stopped; ask the broker that takes over")?;
    }
    Ok(())
}
