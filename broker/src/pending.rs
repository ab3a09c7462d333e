//! Who waits for an append, and what they are told when it is committed.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use protocol::{
    Command, code::response, header::SendMessageResponse, message::id::offset_message_id, name,
};
use remoting::{Flush, Responder};
use store::append_log::{AppendFailure, CommitSink, Completed, Placed, RefusalCause};
use tokio::sync::oneshot;

use crate::{
    broker::Advertised, call::Rejection, config::BrokerConfig, disk::Disk, reply, stats::Stats,
};

/// What became of an append.
pub(crate) type Outcome = Result<Placed, AppendFailure>;

/// Who waits for an append.
#[derive(Debug)]
pub(crate) enum Pending {
    /// A producer.
    Send(Box<Producer>),
    /// A task or thread of this broker.
    Inside(oneshot::Sender<Outcome>),
}

/// A producer that waits for its answer.
#[derive(Debug)]
pub(crate) struct Producer {
    /// Answers it.
    pub(crate) responder: Responder,
    /// Topic as the producer named it, for the statistics.
    pub(crate) topic: String,
    /// Queue that the answer names.
    pub(crate) queue_id: i32,
    /// `UNIQ_KEY` of the message; none for a batch without one.
    pub(crate) transaction_id: Option<String>,
    /// By what a timer message can be taken back.
    pub(crate) recall_handle: Option<String>,
    /// Fields that every answer to a send carries.
    pub(crate) marks: Marks,
    /// When the request came.
    pub(crate) received: Instant,
}

/// The region and the trace switch, which every answer to a send carries.
#[derive(Debug, Clone)]
pub(crate) struct Marks {
    /// The configuration when the message came: `regionId` and `traceOn`.
    pub(crate) config: Arc<BrokerConfig>,
}

impl Marks {
    /// The answer with these fields.
    pub(crate) fn on(&self, answer: Command) -> Command {
        answer
            .with_field("MSG_REGION", &self.config.region_id)
            .with_field("TRACE_ON", if self.config.trace_on { "true" } else { "false" })
    }
}

/// Tells those who wait, a committed group at a time.
#[derive(Debug)]
pub(crate) struct Completions {
    /// Counts what was stored.
    pub(crate) stats: Arc<Stats>,
    /// The address that message ids carry.
    pub(crate) advertised: Arc<Advertised>,
    /// Counts what the log has taken and not completed.
    pub(crate) in_flight: Arc<InFlight>,
    /// Is told when there was no room.
    pub(crate) disk: Arc<Disk>,
    /// Whether an append waits for other members.
    pub(crate) grouped: bool,
}

/// Appends that the log has taken and not completed.
#[derive(Debug, Default)]
pub(crate) struct InFlight(AtomicU64);

impl InFlight {
    /// One is about to be handed over.
    pub(crate) fn begin(&self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }

    /// Some were completed or refused.
    pub(crate) fn end(&self, number: u64) {
        self.0.fetch_sub(number, Ordering::AcqRel);
    }

    /// How many there are.
    pub(crate) fn count(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    /// Waits until there are none, for `limit` at most; gives whether there are none.
    pub(crate) async fn drained(&self, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        while self.0.load(Ordering::Acquire) > 0 {
            if Instant::now() >= deadline {
                return false;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        true
    }
}

impl CommitSink<Pending> for Completions {
    fn completed(&self, group: Vec<Completed<Pending>>) {
        // Each connection is woken once, when the flushes of the whole group are dropped.
        let mut flushes: Vec<Flush> = Vec::new();
        let number = group.len() as u64;
        for completed in group {
            match &completed.result {
                Ok(_) => self.disk.stored(),
                Err(AppendFailure::DiskFull(reason)) => self.disk.found_no_room(reason),
                Err(_) => {}
            }
            match completed.token {
                Pending::Send(producer) => {
                    flushes.extend(self.answer(*producer, completed.result));
                }
                Pending::Inside(waiting) => {
                    if waiting.send(completed.result).is_err() {
                        tracing::debug!("nobody waits for a committed append any more");
                    }
                }
            }
        }
        drop(flushes);
        self.in_flight.end(number);
    }
}

impl Completions {
    fn answer(&self, mut producer: Producer, outcome: Outcome) -> Option<Flush> {
        let elapsed = producer.received.elapsed();
        let answer = match outcome {
            Ok(placed) => {
                let bytes = placed.lengths.iter().map(|length| u64::from(*length)).sum();
                let messages = placed.lengths.len() as u64;
                self.stats.sent((&producer.topic, producer.queue_id), (messages, bytes), elapsed);
                self.stored(&mut producer, &placed)
            }
            Err(failure) => {
                self.stats.send_failed();
                failed(&producer, &failure, self.grouped)
            }
        };
        producer.responder.send_unflushed(producer.marks.on(answer))
    }

    /// The answer to a stored message: its id, or the ids of a batch, and the first queue offset.
    fn stored(&self, producer: &mut Producer, placed: &Placed) -> Command {
        let store_host = self.advertised.get();
        let mut ids = String::new();
        let mut queue_offset = None;
        for record in placed.records() {
            let (offset, physical) = offsets(record);
            queue_offset.get_or_insert(offset);
            let id = offset_message_id(store_host, physical);
            if ids.is_empty() {
                ids = id;
            } else {
                ids.push(',');
                ids.push_str(&id);
            }
        }
        reply::answer(response::SUCCESS).with_header(&SendMessageResponse {
            msg_id: ids,
            queue_id: producer.queue_id,
            queue_offset: queue_offset.unwrap_or_default(),
            transaction_id: producer.transaction_id.take(),
            recall_handle: producer.recall_handle.take(),
            ..SendMessageResponse::default()
        })
    }
}

/// Queue offset and physical offset of a stamped record, at Java's fixed places.
pub(crate) fn offsets(record: &[u8]) -> (i64, i64) {
    let at = |start: usize| {
        let bytes = record.get(start..start + 8).and_then(|bytes| bytes.try_into().ok());
        i64::from_be_bytes(bytes.unwrap_or_default())
    };
    (
        at(protocol::message::record::at::QUEUE_OFFSET),
        at(protocol::message::record::at::PHYSICAL_OFFSET),
    )
}

/// The answer to a message that is not known to be committed: by a code at which clients send again
/// where nothing of it is kept, by the code of a time-out where it may still be committed.
///
/// Java clients read the header of the time-out codes as that of a success, so that it must be
/// there; the offset -1 says that it is not known.
fn failed(producer: &Producer, failure: &AppendFailure, grouped: bool) -> Command {
    let code = match failure {
        AppendFailure::Refused(cause) => {
            return reply::refusal(&refused(cause, producer.marks.config.max_message_size));
        }
        AppendFailure::Truncated { .. } | AppendFailure::DiskFull(_) => {
            response::SERVICE_NOT_AVAILABLE
        }
        AppendFailure::TimedOut { .. } => unconfirmed_code(&producer.topic, grouped),
        AppendFailure::Write(_) | AppendFailure::Unconfirmed(_) => response::SYSTEM_ERROR,
    };
    let answer = reply::answer(code).with_remark(remark_of(failure));
    if !matches!(failure, AppendFailure::TimedOut { .. }) {
        return answer;
    }
    answer.with_header(&SendMessageResponse {
        queue_id: producer.queue_id,
        queue_offset: -1,
        transaction_id: producer.transaction_id.clone(),
        ..SendMessageResponse::default()
    })
}

/// The code of a send that was not confirmed in time. A consumer that sends a message back as a new one,
/// since the master did not answer it, looks at no code of a time-out
/// (`DefaultMQPushConsumerImpl.sendMessageBackAsNormalMessage`): it would take the message for kept. At an
/// error it tries again.
pub(crate) fn unconfirmed_code(topic: &str, grouped: bool) -> i32 {
    if name::is_retry_topic(topic) {
        response::SYSTEM_ERROR
    } else if grouped {
        response::FLUSH_SLAVE_TIMEOUT
    } else {
        response::FLUSH_DISK_TIMEOUT
    }
}

/// The refusal of a batch that the log did not take.
pub(crate) fn refused(cause: &RefusalCause, max_body: u32) -> Rejection {
    match cause {
        RefusalCause::Full { .. } => Rejection::new(
            response::SYSTEM_BUSY,
            format!("[PC_SYNCHRONIZED]broker busy, start flow control for a while: {cause}"),
        ),
        RefusalCause::NotLeader { .. } => {
            Rejection::new(response::SERVICE_NOT_AVAILABLE, format!("{cause}; send again"))
        }
        RefusalCause::DiskFull => Rejection::new(
            response::SERVICE_NOT_AVAILABLE,
            "service not available now: the broker's disk is full; free some room or send to another broker",
        ),
        RefusalCause::TooLarge { length, limit } => Rejection::new(
            response::MESSAGE_ILLEGAL,
            format!(
                "the message is illegal, maybe msg body or properties length not matched. msg body length limit {max_body}B, msg properties length limit 32KB. With properties and headers it has {length}B of {limit}B."
            ),
        ),
        RefusalCause::Stopped(reason) => Rejection::new(
            response::SERVICE_NOT_AVAILABLE,
            format!("service not available now: {reason}"),
        ),
    }
}

/// What the log made of an append that somebody waited for. `stopped` is told where the log has
/// stopped, and says what to do then.
pub(crate) fn settled(
    told: Result<Outcome, oneshot::error::RecvError>,
    stopped: &str,
) -> Result<Placed, Rejection> {
    let outcome = told
        .map_err(|_dropped| Rejection::new(response::SERVICE_NOT_AVAILABLE, stopped.to_owned()))?;
    outcome.map_err(|failure| not_committed(&failure))
}

/// The refusal of an append that was taken and not committed.
pub(crate) fn not_committed(failure: &AppendFailure) -> Rejection {
    let code = match failure {
        AppendFailure::Truncated { .. }
        | AppendFailure::Refused(_)
        | AppendFailure::DiskFull(_) => response::SERVICE_NOT_AVAILABLE,
        AppendFailure::TimedOut { .. }
        | AppendFailure::Write(_)
        | AppendFailure::Unconfirmed(_) => response::SYSTEM_ERROR,
    };
    Rejection::new(code, remark_of(failure))
}

fn remark_of(failure: &AppendFailure) -> String {
    match failure {
        AppendFailure::DiskFull(_) => format!(
            "service not available now: {failure}; free some room or send to another broker"
        ),
        _ => failure.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_back_and_not_confirmed_is_an_error_and_no_time_out() {
        assert_eq!(unconfirmed_code("T", true), response::FLUSH_SLAVE_TIMEOUT);
        assert_eq!(unconfirmed_code("T", false), response::FLUSH_DISK_TIMEOUT);
        for grouped in [true, false] {
            assert_eq!(unconfirmed_code("%RETRY%G", grouped), response::SYSTEM_ERROR);
        }
    }
}
