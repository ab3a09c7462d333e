//! Messages by key, by position and by queue unit: codes 12, 33, 321
//! (`QueryMessageProcessor.java`, `AdminBrokerProcessor.queryConsumeQueue`).

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use protocol::{
    body::{ConsumeQueueData, QueryConsumeQueueResponseBody, SubscriptionData},
    code::response,
    header::{
        QueryConsumeQueueRequest, QueryMessageRequest, QueryMessageResponse, ViewMessageRequest,
    },
    message::record::RecordView,
};

use crate::{
    broker::Broker,
    call::{Call, Rejection, Reply},
    filter::{Found, is_tags},
    handlers::{
        offsets::queue_number,
        pull::filter::{PullFilter, TagFilter},
    },
    topics::is_journal,
};

/// The most messages that one query by key gives.
const MAX_MESSAGES: usize = 1_000;

/// The most units that one look into a queue gives.
const MAX_UNITS: usize = 10_000;

/// Code 12. The index knows hashes of keys; clients compare the keys themselves.
pub(crate) fn by_key(broker: &Arc<Broker>, call: &mut Call) -> Result<Reply, Rejection> {
    let header: QueryMessageRequest = call.header()?;
    let asked = if header.unique_key_query == Some(true) {
        broker.config().default_query_max_num as usize
    } else {
        usize::try_from(header.max_num).unwrap_or(0)
    };
    let millis = |time: i64| u64::try_from(time).unwrap_or(0);
    let range = (millis(header.begin_timestamp), millis(header.end_timestamp));
    let max = asked.min(MAX_MESSAGES);
    let max = if is_journal(&header.topic) { 0 } else { max };
    let found = broker.store.query_by_key(&header.topic, &header.key, max, range);
    let response_header = QueryMessageResponse {
        index_last_update_timestamp: found.last_update_timestamp.cast_signed(),
        index_last_update_phyoffset: found.last_update_physical.cast_signed(),
    };
    let mut body = BytesMut::new();
    for message in &found.messages {
        body.put_slice(message);
    }
    if body.is_empty() {
        let answer = call
            .command
            .response(response::QUERY_NOT_FOUND)
            .with_header(&response_header)
            .with_remark("can not find message, maybe time range not correct");
        return Ok(Reply::Now(answer));
    }
    Ok(Reply::Now(call.success().with_header(&response_header).with_body(body.freeze())))
}

/// Code 33. The record at a physical offset, which a message id carries.
pub(crate) fn by_position(broker: &Arc<Broker>, call: &mut Call) -> Result<Reply, Rejection> {
    let header: ViewMessageRequest = call.header()?;
    let record = message_at(broker, header.offset).ok_or_else(|| {
        let remark = format!("can not find message by the offset, {}", header.offset);
        Rejection::new(response::SYSTEM_ERROR, remark)
    })?;
    Reply::body(call, record)
}

/// The message at a physical offset; `None` where none begins there, and for the broker's own
/// journal, which nobody reads.
pub(crate) fn message_at(broker: &Broker, physical: i64) -> Option<Bytes> {
    let bytes = broker.store.message_at(u64::try_from(physical).ok()?).ok()?;
    let hidden = is_journal(RecordView::parse(&bytes).ok()?.topic());
    (!hidden).then_some(bytes)
}

/// Code 321. Units of a consume queue, and whether the subscription of the group, where it names one,
/// lets them through: of an expression, whether it lets their messages through.
pub(crate) fn units(broker: &Arc<Broker>, call: &mut Call) -> Result<Reply, Rejection> {
    let header: QueryConsumeQueueRequest = call.header()?;
    let queue = queue_number(header.queue_id)?;
    let (min, max) = (
        broker.store.min_offset(&header.topic, queue),
        broker.store.max_offset(&header.topic, queue),
    );
    if max == 0 || is_journal(&header.topic) {
        let remark = format!("{}@{} is not exist!", header.queue_id, header.topic);
        return Err(Rejection::new(response::SYSTEM_ERROR, remark));
    }
    let group = header.consumer_group.as_deref().filter(|group| !group.is_empty());
    let subscription = group.and_then(|group| broker.consumers.subscription(group, &header.topic));
    let subscription = group.zip(subscription.as_deref());
    let filter = subscription.map(|(group, data)| filter_of(broker, group, data)).transpose()?;
    let filter_data = match (group, subscription) {
        (Some(group), None) => Some(format!("{group}@{} is not online!", header.topic)),
        (_, Some((group, data))) => filter_data(group, data),
        (None, _) => None,
    };
    let from = u64::try_from(header.index).unwrap_or(0).max(min);
    let reads = filter.as_ref().is_some_and(PullFilter::looks_inside);
    let most = if reads { MAX_MESSAGES } else { MAX_UNITS };
    let count = usize::try_from(header.count).unwrap_or(0).min(most);
    let units = broker.store.units(&header.topic, queue, from, count);
    let data = |unit: &store::Unit| ConsumeQueueData {
        physic_offset: unit.physical.cast_signed(),
        physic_size: i32::try_from(unit.size).unwrap_or(i32::MAX),
        tags_code: unit.tags_code,
        eval: filter.as_ref().is_some_and(|filter| lets_through(broker, filter, unit)),
        ..ConsumeQueueData::default()
    };
    let body = QueryConsumeQueueResponseBody {
        queue_data: units.iter().map(data).collect(),
        min_queue_index: min.cast_signed(),
        max_queue_index: max.cast_signed(),
        filter_data,
        subscription_data: subscription.map(|(_, data)| data.clone()),
    };
    Reply::body(call, body.encode())
}

/// What the subscription of a group lets through.
fn filter_of(
    broker: &Broker,
    group: &str,
    data: &SubscriptionData,
) -> Result<PullFilter, Rejection> {
    if is_tags(Some(&data.expression_type)) {
        return Ok(PullFilter::Tags(TagFilter::of_subscription(data)));
    }
    let expression = (&*data.expression_type, &*data.sub_string, data.sub_version);
    match broker.filters.find((group, &data.topic), expression) {
        Found::Filter(compiled) => Ok(PullFilter::of_expression(compiled)),
        Found::Outdated(error) | Found::Missing(error) => {
            let remark = format!("the expression of group {group} cannot be read: {error}");
            Err(Rejection::new(response::SUBSCRIPTION_PARSE_FAILED, remark))
        }
    }
}

/// What is told of an expression (`ConsumerFilterData.java`); nothing of tags, which are in the subscription.
fn filter_data(group: &str, data: &SubscriptionData) -> Option<String> {
    if is_tags(Some(&data.expression_type)) {
        return None;
    }
    let told = serde_json::json!({
        "clientVersion": data.sub_version,
        "consumerGroup": group,
        "dead": false,
        "deadTime": 0,
        "expression": data.sub_string,
        "expressionType": data.expression_type,
        "topic": data.topic,
    });
    Some(format!("{told:#}"))
}

fn lets_through(broker: &Broker, filter: &PullFilter, unit: &store::Unit) -> bool {
    filter.tags().lets_through(unit.tags_code)
        && filter.content().is_none_or(|passes| {
            broker.store.message_at(unit.physical).is_ok_and(|record| passes(&record))
        })
}
