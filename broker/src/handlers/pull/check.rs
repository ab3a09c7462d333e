//! The checks of a pull, in Java's order and with its texts.

use std::sync::Arc;

use protocol::{
    body::{SubscriptionData, SubscriptionGroupConfig},
    code::{request, response},
    header::PullMessageRequest,
    json::{self, Value},
    message::sys_flag::{perm, pull::SUBSCRIPTION},
};

use super::filter::{PullFilter, TagFilter};
use crate::{
    broker::Broker,
    call::{Call, Rejection, Reply},
    filter::{Compiled, FilterError, Found, is_tags},
    reply::SEE_FAQ,
    topics::Topic,
};

/// What the checks found.
#[derive(Debug)]
pub(super) struct Checked {
    pub(super) request: PullMessageRequest,
    pub(super) topic: Arc<Topic>,
    pub(super) group: Arc<SubscriptionGroupConfig>,
    pub(super) filter: PullFilter,
}

/// Values of `forbiddenType` (`ForbiddenType.java`).
mod forbidden {
    pub(super) const BROKER: &str = "1";
    pub(super) const GROUP: &str = "2";
    pub(super) const TOPIC: &str = "3";
    pub(super) const BROADCAST: &str = "4";
    pub(super) const SUBSCRIPTION: &str = "5";
}

/// Reads and checks the request.
pub(super) fn check(broker: &Broker, call: &Call) -> Result<Checked, Rejection> {
    let pull: PullMessageRequest = call.header()?;
    check_broker(broker, call.command.code)?;
    let group = check_group(broker, &pull)?;
    let topic = check_topic(broker, call, &pull)?;
    let filter = if pull.sys_flag & SUBSCRIPTION != 0 {
        filter_of_request(broker, &pull)?
    } else {
        filter_of_heartbeat(broker, &pull, &group)?
    };
    Ok(Checked { request: pull, topic, group, filter })
}

fn forbid(kind: &'static str, remark: String) -> Rejection {
    Rejection::new(response::NO_PERMISSION, remark).with_field("forbiddenType", kind)
}

fn check_broker(broker: &Broker, code: i32) -> Result<(), Rejection> {
    let config = broker.config();
    let host = &config.broker_ip1.0;
    if config.broker_permission & perm::READ == 0 {
        let remark = format!("the broker[{host}] pulling message is forbidden");
        return Err(forbid(forbidden::BROKER, remark));
    }
    if code == request::LITE_PULL_MESSAGE && !config.lite_pull_message_enable {
        let remark = format!("the broker[{host}] for lite pull consumer is forbidden");
        return Err(forbid(forbidden::BROKER, remark));
    }
    Ok(())
}

fn check_group(
    broker: &Broker,
    pull: &PullMessageRequest,
) -> Result<Arc<SubscriptionGroupConfig>, Rejection> {
    let name = &pull.consumer_group;
    let group = broker.consumer_group(name).ok_or_else(|| {
        Rejection::new(
            response::SUBSCRIPTION_GROUP_NOT_EXIST,
            format!("subscription group [{name}] does not exist, \n{SEE_FAQ}"),
        )
    })?;
    if !group.consume_enable {
        let remark = format!("subscription group no permission, {name}");
        return Err(forbid(forbidden::GROUP, remark));
    }
    Ok(group)
}

fn check_topic(
    broker: &Broker,
    call: &Call,
    pull: &PullMessageRequest,
) -> Result<Arc<Topic>, Rejection> {
    let name = &pull.topic;
    let topic = broker.topics.get(name).ok_or_else(|| {
        Rejection::new(
            response::TOPIC_NOT_EXIST,
            format!("topic[{name}] not exist, apply first please! \n{SEE_FAQ}"),
        )
    })?;
    if topic.perm & perm::READ == 0 {
        let remark = format!("the topic[{name}] pulling message is forbidden");
        return Err(forbid(forbidden::TOPIC, remark));
    }
    if !(0..topic.read_queue_nums).contains(&pull.queue_id) {
        return Err(Rejection::new(
            response::INVALID_PARAMETER,
            format!(
                "queueId[{}] is illegal, topic:[{name}] topicConfig.readQueueNums:[{}] consumer:[{}]",
                pull.queue_id, topic.read_queue_nums, call.client
            ),
        ));
    }
    Ok(topic)
}

/// Tools and lite consumers bring their subscription along.
fn filter_of_request(broker: &Broker, pull: &PullMessageRequest) -> Result<PullFilter, Rejection> {
    let text = pull.subscription.as_deref();
    match pull.expression_type.as_deref() {
        kind if is_tags(kind) => Ok(PullFilter::Tags(TagFilter::of_text(text.unwrap_or("*")))),
        kind => {
            let kind = kind.unwrap_or_default();
            check_enabled(broker, kind)?;
            let compiled = Compiled::of(kind, text.unwrap_or_default()).map_err(|error| {
                let remark = format!("parse the consumer's subscription failed: {error}");
                Rejection::new(response::SUBSCRIPTION_PARSE_FAILED, remark)
            })?;
            Ok(PullFilter::of_expression(Arc::new(compiled)))
        }
    }
}

fn filter_of_heartbeat(
    broker: &Broker,
    pull: &PullMessageRequest,
    config: &SubscriptionGroupConfig,
) -> Result<PullFilter, Rejection> {
    let (group, topic) = (&pull.consumer_group, &pull.topic);
    let missing = |what: &str| {
        let remark = format!("the consumer's {what} not exist\n{SEE_FAQ}");
        Rejection::new(response::SUBSCRIPTION_NOT_EXIST, remark)
    };
    let profile = broker.consumers.profile(group).ok_or_else(|| missing("group info"))?;
    if profile.is_broadcasting() && !config.consume_broadcast_enable {
        let remark = format!("the consumer group[{group}] can not consume by broadcast way");
        return Err(forbid(forbidden::BROADCAST, remark));
    }
    if !broker.groups.may_read(group, topic) {
        let remark = format!("the consumer group[{group}] is forbidden for topic[{topic}]");
        return Err(forbid(forbidden::SUBSCRIPTION, remark));
    }
    let subscription =
        broker.consumers.subscription(group, topic).ok_or_else(|| missing("subscription"))?;
    if subscription.sub_version < pull.sub_version {
        return Err(Rejection::new(
            response::SUBSCRIPTION_NOT_LATEST,
            "the consumer's subscription not latest",
        ));
    }
    if is_tags(Some(&subscription.expression_type)) {
        return Ok(PullFilter::Tags(TagFilter::of_subscription(&subscription)));
    }
    filter_by_expression(broker, (group, topic), &subscription)
}

/// What heartbeats brought: it must be there in the version that the client knows.
fn filter_by_expression(
    broker: &Broker,
    name: (&str, &str),
    subscription: &SubscriptionData,
) -> Result<PullFilter, Rejection> {
    let kind = &subscription.expression_type;
    check_enabled(broker, kind)?;
    let (code, remark) = match broker
        .filters
        .find(name, (kind, &subscription.sub_string, subscription.sub_version))
    {
        Found::Filter(compiled) => return Ok(PullFilter::of_expression(compiled)),
        Found::Missing(error) => (
            response::FILTER_DATA_NOT_EXIST,
            format!(
                "The broker's consumer filter data is not exist!Your expression may be wrong! {error}"
            ),
        ),
        Found::Outdated(error) => (
            response::FILTER_DATA_NOT_LATEST,
            format!("the consumer's consumer filter data not latest: {error}"),
        ),
    };
    Err(Rejection::new(code, remark))
}

fn check_enabled(broker: &Broker, kind: &str) -> Result<(), Rejection> {
    if broker.config().enable_property_filter {
        return Ok(());
    }
    let kind: String = kind.chars().take(40).collect();
    let remark = format!(
        "The broker does not support consumer to filter message by {kind}: set \
         enablePropertyFilter=true in its configuration"
    );
    Err(Rejection::new(response::SYSTEM_ERROR, remark))
}

/// 46: whether a subscription can be served (`ClientManageProcessor.checkClientConfig`).
pub(crate) fn check_client_config(
    broker: &Arc<Broker>,
    call: &mut Call,
) -> Result<Reply, Rejection> {
    if !call.command.body.is_empty() {
        let body = json::parse(&call.command.body)
            .map_err(|error| Rejection::new(response::SYSTEM_ERROR, error.to_string()))?;
        let subscription = body.get("subscriptionData");
        let field = |name: &str| {
            let value = subscription.and_then(|data| data.get(name));
            value.and_then(Value::to_text)
        };
        let kind = field("expressionType");
        if !is_tags(kind.as_deref()) {
            let kind = kind.unwrap_or_default();
            check_enabled(broker, &kind)?;
            let text = field("subString").unwrap_or_default();
            Compiled::of(&kind, &text).map_err(|error: FilterError| {
                Rejection::new(response::SUBSCRIPTION_PARSE_FAILED, error.to_string())
            })?;
        }
    }
    Reply::done(call)
}
