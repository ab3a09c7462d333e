//! Leases on queues: codes 41 and 42 (`AdminBrokerProcessor.lockBatchMQ`, `unlockBatchMQ`).

use std::{sync::Arc, time::Instant};

use protocol::{
    body::{LockBatchRequestBody, LockBatchResponseBody, MessageQueue, UnlockBatchRequestBody},
    code::response,
    name,
};

use crate::{
    broker::Broker,
    call::{Call, Rejection, Reply},
    handlers::clients::{MAX_CLIENT_ID, check_length},
    locks::{Asking, MAX_QUEUES},
};

/// Code 41. Queues that another client holds are left out of the answer, which is a success all
/// the same; so are queues of topics that do not exist, for which leases would only cost memory.
/// Nobody else can hold a queue of a group that has no other member, once all had the time to show
/// themselves, or that never consumed from it.
pub(crate) fn lock(broker: &Arc<Broker>, call: &mut Call) -> Result<Reply, Rejection> {
    let body = LockBatchRequestBody::decode(&call.command.body)?;
    check(body.mq_set.len())?;
    name::validate_group(&body.consumer_group)
        .map_err(|error| Rejection::new(response::INVALID_PARAMETER, error.to_string()))?;
    check_length("client id", &body.client_id, MAX_CLIENT_ID)?;
    let queues = body.mq_set.into_iter().filter(|queue| exists(broker, queue)).collect();
    let (group, client) = (&body.consumer_group, &body.client_id);
    let member = broker.consumers.member(group, client);
    let asking = Asking { group, client, connection: member.map(|member| member.id) };
    let now = Instant::now();
    let alone =
        broker.locks.knows_members(now) && broker.consumers.client_ids(group) == [client.as_str()];
    let unheld = |queue: &MessageQueue| {
        alone || broker.offsets.query(group, &queue.topic, queue.queue_id).is_none()
    };
    let granted = broker.locks.lock(asking, queues, now, unheld);
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

/// Whether the broker has such a queue to consume. A broker's name is as long as a topic's at most.
fn exists(broker: &Broker, queue: &MessageQueue) -> bool {
    queue.broker_name.len() <= name::MAX_RETRY_TOPIC
        && broker.topics.get(&queue.topic).is_some_and(|topic| {
            (0..topic.read_queue_nums.max(topic.write_queue_nums)).contains(&queue.queue_id)
        })
}

fn check(queues: usize) -> Result<(), Rejection> {
    if queues > MAX_QUEUES {
        let remark = format!("request names {queues} queues, at most {MAX_QUEUES} are taken");
        return Err(Rejection::new(response::INVALID_PARAMETER, remark));
    }
    Ok(())
}
