//! Leases on queues: codes 41 and 42 (`AdminBrokerProcessor.lockBatchMQ`, `unlockBatchMQ`).

use std::{sync::Arc, time::Instant};

use protocol::{
    body::{LockBatchRequestBody, LockBatchResponseBody, UnlockBatchRequestBody},
    code::response,
};

use crate::{
    broker::Broker,
    call::{Call, Rejection, Reply},
    locks::MAX_QUEUES,
};

/// Code 41. Queues that another client holds are left out of the answer, which is a success all
/// the same.
pub(crate) fn lock(broker: &Arc<Broker>, call: &mut Call) -> Result<Reply, Rejection> {
    let body = LockBatchRequestBody::decode(&call.command.body)?;
    check(body.mq_set.len())?;
    let queues = body.mq_set.into_iter().collect();
    let granted = broker.locks.lock(&body.consumer_group, &body.client_id, queues, Instant::now());
    let lock_ok_mq_set = granted.into_iter().collect();
    Reply::body(call, LockBatchResponseBody { lock_ok_mq_set }.encode())
}

/// Code 42.
pub(crate) fn unlock(broker: &Arc<Broker>, call: &mut Call) -> Result<Reply, Rejection> {
    let body = UnlockBatchRequestBody::decode(&call.command.body)?;
    check(body.mq_set.len())?;
    broker.locks.unlock(&body.consumer_group, &body.client_id, &body.mq_set);
    Reply::done(call)
}

fn check(queues: usize) -> Result<(), Rejection> {
    if queues > MAX_QUEUES {
        let remark = format!("request names {queues} queues, at most {MAX_QUEUES} are taken");
        return Err(Rejection::new(response::INVALID_PARAMETER, remark));
    }
    Ok(())
}
