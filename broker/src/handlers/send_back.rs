//! 36: a consumer gives a message back (`AbstractSendMessageProcessor.consumerSendMsgBack`).

use std::sync::Arc;

use protocol::{
    body::SubscriptionGroupConfig,
    code::response,
    header::ConsumerSendMsgBackRequest,
    message::{
        id::offset_message_id,
        properties::{self, key},
        record::{self, MessageRecord},
        sys_flag::perm,
    },
    name,
};

use crate::{
    broker::Broker,
    call::{Call, Rejection, Reply},
    drafts,
    pending::settled,
    reply::{self, SEE_FAQ},
    topics,
};

/// Consumers from this version on say themselves how often a message may be given back.
const SAYS_MAX_RECONSUME_TIMES: i32 = 121;

/// Stores the message again: for its group alone, after a delay, or with its dead letters.
pub(crate) fn send_back(broker: &Arc<Broker>, call: &mut Call) -> Result<Reply, Rejection> {
    let request: ConsumerSendMsgBackRequest = call.header()?;
    let group = check(broker, &request)?;
    if group.retry_queue_nums <= 0 {
        return Reply::done(call);
    }
    let mut message = look_up(broker, request.offset)?;
    let origin = message.topic.clone();
    let most = request
        .max_reconsume_times
        .filter(|_| call.command.version >= SAYS_MAX_RECONSUME_TIMES)
        .unwrap_or(group.retry_max_times);
    rework(broker, &request, &group, (&mut message, most))?;
    broker.stats.sent_back(&request.group, &origin);
    if message.topic == name::dlq_topic(&request.group) {
        broker.stats.died(&request.group, &origin);
    }
    let committed = broker.submit_inside(&[message])?;
    call.answer_with(async move {
        settled(committed.await, "the log has stopped; send the message back again")?;
        Ok(reply::answer(response::SUCCESS))
    })
}

fn check(
    broker: &Broker,
    request: &ConsumerSendMsgBackRequest,
) -> Result<Arc<SubscriptionGroupConfig>, Rejection> {
    let config = broker.config();
    let name = &request.group;
    let group = broker.consumer_group(name).ok_or_else(|| {
        Rejection::new(
            response::SUBSCRIPTION_GROUP_NOT_EXIST,
            format!("subscription group not exist, {name} \n{SEE_FAQ}"),
        )
    })?;
    if config.broker_permission & perm::WRITE == 0 {
        return Err(Rejection::new(
            response::NO_PERMISSION,
            format!("the broker[{}] sending message is forbidden", config.broker_ip1.0),
        ));
    }
    Ok(group)
}

/// The message at a physical offset, which the client took from a pull.
fn look_up(broker: &Broker, offset: i64) -> Result<MessageRecord, Rejection> {
    let failed = |cause: &str| {
        let remark = format!("look message by offset failed, {offset}: {cause}");
        Rejection::new(response::SYSTEM_ERROR, remark)
    };
    let physical = u64::try_from(offset).map_err(|_negative| failed("it is negative"))?;
    let bytes = broker.store.message_at(physical).map_err(|error| failed(&error.to_string()))?;
    let message = record::decode(&bytes).map_err(|error| failed(&error.to_string()))?;
    if topics::is_journal(&message.topic) {
        return Err(failed("no message is there"));
    }
    Ok(message)
}

/// Makes the record that is stored of the one that was consumed.
fn rework(
    broker: &Arc<Broker>,
    request: &ConsumerSendMsgBackRequest,
    group: &SubscriptionGroupConfig,
    (message, most): (&mut MessageRecord, i32),
) -> Result<(), Rejection> {
    let mut properties = drafts::own(Some(properties::without_crc(&message.properties)));
    if !properties.contains(key::RETRY_TOPIC) {
        properties.insert(key::RETRY_TOPIC, message.topic.as_str());
    }
    if !properties.contains(key::ORIGIN_MESSAGE_ID) {
        let id = offset_message_id(message.store_host, message.physical_offset);
        properties.insert(key::ORIGIN_MESSAGE_ID, id);
    }
    let retry = name::retry_topic(&request.group);
    let done = message.reconsume_times >= most || request.delay_level < 0;
    let dead = done || !drafts::fit(&mut properties, drafts::growth_by_schedule(&retry));
    if dead && !done {
        let (group, offset) = (&request.group, request.offset);
        tracing::warn!(group, offset, "the properties of a message leave no room for another try");
    }
    let (topic, queues) =
        if dead { (name::dlq_topic(&request.group), 1) } else { (retry, group.retry_queue_nums) };
    let made = broker.ensure_topic_blocking(topics::read_write(
        &topic,
        queues,
        request.unit_mode && !dead,
    ))?;
    if made.perm & perm::WRITE == 0 {
        return Err(Rejection::new(
            response::NO_PERMISSION,
            format!("the topic[{topic}] sending message is forbidden"),
        ));
    }
    message.queue_id = broker.any_queue(queues).unwrap_or(0);
    message.topic = topic;
    properties.remove(key::DELAY);
    if dead {
        drafts::fit_dead_letter(&mut properties);
    } else {
        let level = match request.delay_level {
            0 => 3_i32.saturating_add(message.reconsume_times),
            level => level,
        };
        let levels = &broker.config().message_delay_level;
        drafts::schedule(message, &mut properties, level, levels);
    }
    message.reconsume_times = message.reconsume_times.saturating_add(1);
    message.store_host = broker.store_host();
    message.prepared_transaction_offset = 0;
    message.properties = properties::encode(&properties);
    Ok(())
}
