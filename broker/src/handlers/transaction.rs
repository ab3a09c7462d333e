//! Ends of transactions: 37 (`EndTransactionProcessor.java`), and 323, which takes a message up again
//! that was given up (`AdminBrokerProcessor.resumeCheckHalfMessage`).

use std::{sync::Arc, time::Duration};

use protocol::{
    code::response,
    header::{EndTransactionRequest, ResumeCheckHalfMessageRequest},
    message::{
        id::parse_offset_message_id,
        sys_flag::{TRANSACTION_COMMIT, TRANSACTION_ROLLBACK},
    },
};

use crate::{
    broker::Broker,
    call::{Call, Rejection, Reply},
    clock,
    pending::{not_committed, settled},
    reply,
    transaction::{End, Half},
};

/// Code 37. Answered when the end is committed.
pub(crate) fn end(broker: &Arc<Broker>, call: &mut Call) -> Result<Reply, Rejection> {
    let request: EndTransactionRequest = call.header()?;
    let end = match request.commit_or_rollback {
        TRANSACTION_COMMIT => End::Commit,
        TRANSACTION_ROLLBACK => End::Rollback,
        _ => {
            // The producer does not know yet: it is asked later. Java gives no answer, to nobody.
            call.take_responder()?.leave_unanswered();
            return Ok(Reply::Later);
        }
    };
    let half = look_up(broker, &request)?;
    check(broker, &request, &half, end)?;
    let ending = broker.end_transaction(&half, end)?;
    // What takes a half message off lets a full disk become empty.
    let submitted = match ending.topic {
        Some(_) => broker.submit_inside(&ending.records),
        None => broker.submit_records(&ending.records),
    };
    let committed = submitted.inspect_err(|_| broker.transaction_refused(&ending))?;
    let (broker, received) = (Arc::clone(broker), call.received);
    call.answer_with(async move {
        match committed.await {
            Ok(Ok(placed)) => {
                broker.transaction_ended(&ending, &placed);
                if let Some(topic) = &ending.topic {
                    let bytes = placed.lengths.first().copied().unwrap_or(0);
                    let queue = ending.records.first().map_or(0, |record| record.queue_id);
                    let stored = (1, u64::from(bytes));
                    broker.stats.sent((topic, queue), stored, received.elapsed());
                }
                Ok(reply::answer(response::SUCCESS))
            }
            Ok(Err(failure)) => {
                broker.transaction_not_ended(&ending, &failure);
                Err(not_committed(&failure))
            }
            Err(_dropped) => Err(Rejection::new(
                response::SERVICE_NOT_AVAILABLE,
                "the log has stopped; the broker that takes over asks how the transaction ended",
            )),
        }
    })
}

/// The half message that a request names.
fn look_up(broker: &Broker, request: &EndTransactionRequest) -> Result<Half, Rejection> {
    let failed = |cause: &str| {
        let remark = format!("Find prepared transaction message failed: {cause}");
        Rejection::new(response::SYSTEM_ERROR, remark)
    };
    let physical = u64::try_from(request.commit_log_offset)
        .map_err(|_negative| failed("commitLogOffset is negative"))?;
    let bytes = broker.store.message_at(physical).map_err(|error| failed(&error.to_string()))?;
    Half::read(&bytes).map_err(|error| failed(&error.to_string()))
}

/// Java's checks, in its order and with its texts.
fn check(
    broker: &Broker,
    request: &EndTransactionRequest,
    half: &Half,
    end: End,
) -> Result<(), Rejection> {
    let record = half.record();
    if !request.from_transaction_check {
        let unsaid = Duration::from_millis(broker.config().transaction_time_out);
        let age = clock::now_millis().saturating_sub(record.born_timestamp);
        let age = Duration::from_millis(u64::try_from(age).unwrap_or(0));
        if half.immunity(unsaid).is_some_and(|immunity| age > immunity) {
            let remark = format!(
                "Message {end:?} fail [producer end]: it came {age:?} after the message was born, later than CHECK_IMMUNITY_TIME_IN_SECONDS allows; the broker will ask"
            );
            return Err(Rejection::new(response::ILLEGAL_OPERATION, remark));
        }
    }
    let wrong = |text: &str| Err(Rejection::new(response::SYSTEM_ERROR, text));
    if half.group() != request.producer_group {
        return wrong("The producer group wrong");
    }
    if record.queue_offset != request.tran_state_table_offset {
        return wrong("The transaction state table offset wrong");
    }
    if record.physical_offset != request.commit_log_offset {
        return wrong("The commit log offset wrong");
    }
    Ok(())
}

/// Code 323.
pub(crate) fn resume(broker: &Arc<Broker>, call: &mut Call) -> Result<Reply, Rejection> {
    let request: ResumeCheckHalfMessageRequest = call.header()?;
    let failed = |cause: &str| {
        let remark = format!("Put message back to RMQ_SYS_TRANS_HALF_TOPIC failed. {cause}");
        Rejection::new(response::SYSTEM_ERROR, remark.trim_end())
    };
    let id = request.msg_id.ok_or_else(|| failed("msgId is missing"))?;
    let (_, physical) = parse_offset_message_id(&id).map_err(|error| failed(&error.to_string()))?;
    let physical = u64::try_from(physical).map_err(|_negative| failed("msgId is none"))?;
    let bytes = broker.store.message_at(physical).map_err(|error| failed(&error.to_string()))?;
    let record =
        Half::resumed(&bytes, broker.store_host()).map_err(|error| failed(&error.to_string()))?;
    let committed = broker.submit_inside(&[record])?;
    call.answer_with(async move {
        settled(committed.await, "the log has stopped; ask the broker that takes over")?;
        Ok(reply::answer(response::SUCCESS))
    })
}
