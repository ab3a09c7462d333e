//! The checks of requests that pop or look, in Java's order and with its texts.

use std::sync::Arc;

use protocol::{code::response, header::PopMessageRequest, message::sys_flag::perm};

use crate::{
    broker::Broker,
    call::{Call, Rejection},
    filter::{Compiled, is_tags},
    handlers::pull::filter::{PullFilter, TagFilter},
    reply::SEE_FAQ,
    topics::Topic,
};

/// What a request is about.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) group: &'a str,
    pub(super) topic: &'a str,
    /// Negative for any.
    pub(super) queue: i32,
}

/// Whether the broker may be read.
pub(super) fn check_broker(broker: &Broker, verb: &str) -> Result<(), Rejection> {
    let config = broker.config();
    if config.broker_permission & perm::READ == 0 {
        let remark = format!("the broker[{}] {verb} message is forbidden", config.broker_ip1.0);
        return Err(Rejection::new(response::NO_PERMISSION, remark));
    }
    Ok(())
}

/// Whether the group may read the topic.
pub(super) fn check(
    broker: &Broker,
    call: &Call,
    asked: Asked<'_>,
) -> Result<Arc<Topic>, Rejection> {
    let topic = topic(broker, asked.topic)?;
    if topic.perm & perm::READ == 0 {
        let remark = format!("the topic[{}] peeking message is forbidden", asked.topic);
        return Err(Rejection::new(response::NO_PERMISSION, remark));
    }
    if asked.queue >= topic.read_queue_nums {
        return Err(Rejection::new(
            response::INVALID_PARAMETER,
            bad_queue(call, &topic, asked.queue),
        ));
    }
    let name = asked.group;
    let group = broker.consumer_group(name).ok_or_else(|| {
        let remark = format!("subscription group [{name}] does not exist, \n{SEE_FAQ}");
        Rejection::new(response::SUBSCRIPTION_GROUP_NOT_EXIST, remark)
    })?;
    if !group.consume_enable {
        let remark = format!("subscription group no permission, {name}");
        return Err(Rejection::new(response::NO_PERMISSION, remark));
    }
    Ok(topic)
}

/// The topic and queue of messages that were popped.
pub(super) fn check_queue(
    broker: &Broker,
    call: &Call,
    (name, queue): (&str, i32),
) -> Result<u32, Rejection> {
    let topic = topic(broker, name)?;
    let known = u32::try_from(queue).ok().filter(|_| queue < topic.read_queue_nums);
    known.ok_or_else(|| Rejection::new(response::MESSAGE_ILLEGAL, bad_queue(call, &topic, queue)))
}

/// What a pop lets through.
pub(super) fn filter(pop: &PopMessageRequest) -> Result<PullFilter, Rejection> {
    let text = pop.exp.as_deref().filter(|text| !text.is_empty());
    match (text, pop.exp_type.as_deref()) {
        (None, _) => Ok(PullFilter::Tags(TagFilter::all())),
        (Some(text), kind) if is_tags(kind) => Ok(PullFilter::Tags(TagFilter::of_text(text))),
        (Some(text), kind) => {
            let compiled = Compiled::of(kind.unwrap_or_default(), text).map_err(|error| {
                let remark = format!("parse the consumer's subscription failed: {error}");
                Rejection::new(response::SUBSCRIPTION_PARSE_FAILED, remark)
            })?;
            Ok(PullFilter::of_expression(Arc::new(compiled)))
        }
    }
}

fn topic(broker: &Broker, name: &str) -> Result<Arc<Topic>, Rejection> {
    broker.topics.get(name).ok_or_else(|| {
        let remark = format!("topic[{name}] not exist, apply first please! \n{SEE_FAQ}");
        Rejection::new(response::TOPIC_NOT_EXIST, remark)
    })
}

fn bad_queue(call: &Call, topic: &Topic, queue: i32) -> String {
    format!(
        "queueId[{queue}] is illegal, topic:[{}] topicConfig.readQueueNums:[{}] consumer:[{}]",
        topic.topic_name, topic.read_queue_nums, call.client
    )
}
