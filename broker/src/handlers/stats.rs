//! Progress of groups and statistics: codes 208, 300, 303, 315, 317, 343
//! (`AdminBrokerProcessor.java`).

use std::{collections::BTreeSet, sync::Arc};

use protocol::{
    body::{
        BrokerStatsData, BrokerStatsItem, ConsumeStats, ConsumeStatsList, GroupList, MessageQueue,
        OffsetWrapper, QueryConsumeTimeSpanBody, QueueTimeSpan, TopicList,
    },
    code::response,
    header::{
        GetBrokerConsumeStatsRequest, GetConsumeStatsRequest, QueryConsumeTimeSpanRequest,
        QueryTopicConsumeByWhoRequest, QueryTopicsByConsumerRequest, ViewBrokerStatsDataRequest,
    },
};

use crate::{
    broker::Broker,
    call::{Call, Rejection, Reply},
    clock::{local_text, now_millis},
    stats::Figures,
    topics::Topic,
};

/// Code 208.
pub(crate) fn of_group(broker: &Arc<Broker>, call: &mut Call) -> Result<Reply, Rejection> {
    let header: GetConsumeStatsRequest = call.header()?;
    let group = &header.consumer_group;
    let mut stats = ConsumeStats::default();
    for topic in topics_asked(broker, &header) {
        let Some(config) = broker.topics.get(&topic) else { continue };
        if subscribes_others_only(broker, group, &topic) {
            continue;
        }
        add_topic(broker, group, &config, &mut stats);
    }
    Reply::body(call, stats.encode())
}

/// Code 300. Groups that are online for a topic, and those that have offsets there.
pub(crate) fn groups_of_topic(broker: &Arc<Broker>, call: &mut Call) -> Result<Reply, Rejection> {
    let header: QueryTopicConsumeByWhoRequest = call.header()?;
    let mut groups = broker.offsets.groups_of(&header.topic);
    groups.extend(broker.consumers.groups_of_topic(&header.topic));
    Reply::body(call, GroupList { group_list: groups.into_iter().collect() }.encode())
}

/// Code 343. Topics that a group has offsets for.
pub(crate) fn topics_of_group(broker: &Arc<Broker>, call: &mut Call) -> Result<Reply, Rejection> {
    let header: QueryTopicsByConsumerRequest = call.header()?;
    let topics = broker.offsets.topics_of(&header.group);
    let body = TopicList {
        topic_list: topics.into_iter().collect(),
        broker_addr: Some(broker.client_address()),
    };
    Reply::body(call, body.encode())
}

/// Code 303. How old the messages are that a group has before it.
pub(crate) fn time_span(broker: &Arc<Broker>, call: &mut Call) -> Result<Reply, Rejection> {
    let header: QueryConsumeTimeSpanRequest = call.header()?;
    let topic = broker.topics.get(&header.topic).ok_or_else(|| {
        let remark = format!("topic[{}] not exist", header.topic);
        Rejection::new(response::TOPIC_NOT_EXIST, remark)
    })?;
    let spans = queues(&topic).map(|queue| span_of(broker, &header, queue)).collect();
    Reply::body(call, QueryConsumeTimeSpanBody { consume_time_span_set: spans }.encode())
}

/// Code 315. What was never counted is an error: tools tell by it that nothing is there.
pub(crate) fn view(broker: &Arc<Broker>, call: &mut Call) -> Result<Reply, Rejection> {
    let header: ViewBrokerStatsDataRequest = call.header()?;
    let view = broker.stats.view(&header.stats_name, &header.stats_key).ok_or_else(|| {
        let remark = format!("The stats <{}> <{}> not exist", header.stats_name, header.stats_key);
        Rejection::new(response::SYSTEM_ERROR, remark)
    })?;
    let item = |figures: Figures| BrokerStatsItem {
        sum: figures.sum.cast_signed(),
        tps: figures.tps,
        avgpt: figures.average,
    };
    let body = BrokerStatsData {
        stats_minute: item(view.minute),
        stats_hour: item(view.hour),
        stats_day: item(view.day),
    };
    Reply::body(call, body.encode())
}

/// Code 317. Progress of every group on every topic it has offsets for.
pub(crate) fn of_all_groups(broker: &Arc<Broker>, call: &mut Call) -> Result<Reply, Rejection> {
    let header: GetBrokerConsumeStatsRequest = call.header()?;
    let mut body =
        ConsumeStatsList { broker_addr: broker.client_address(), ..ConsumeStatsList::default() };
    for group in broker.groups.all().into_keys() {
        let mut of_group = Vec::new();
        for topic in broker.offsets.topics_of(&group) {
            let Some(config) = broker.topics.get(&topic) else { continue };
            if (header.is_order && !config.order) || subscribes_others_only(broker, &group, &topic)
            {
                continue;
            }
            let mut stats = ConsumeStats::default();
            add_topic(broker, &group, &config, &mut stats);
            for row in stats.offset_table.values() {
                body.total_diff += row.broker_offset - row.consumer_offset;
                body.total_inflight_diff += row.pull_offset - row.consumer_offset;
            }
            of_group.push(stats);
        }
        body.consume_stats_list.push([(group, of_group)].into());
    }
    Reply::body(call, body.encode())
}

/// The topics that a request for a group's progress means: those it names, else those that the
/// group has offsets for.
fn topics_asked(broker: &Arc<Broker>, header: &GetConsumeStatsRequest) -> BTreeSet<String> {
    let named = |text: &Option<String>| -> BTreeSet<String> {
        let text = text.as_deref().unwrap_or_default();
        text.split(';').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect()
    };
    let mut topics = named(&header.topic_list);
    topics.extend(named(&header.topic));
    if topics.is_empty() { broker.offsets.topics_of(&header.consumer_group) } else { topics }
}

/// Whether the group is online with subscriptions, and none to this topic: then its offsets there
/// are history, and their lag would alarm for nothing.
fn subscribes_others_only(broker: &Arc<Broker>, group: &str, topic: &str) -> bool {
    broker.consumers.subscription(group, topic).is_none()
        && broker.consumers.has_subscriptions(group)
}

fn add_topic(broker: &Arc<Broker>, group: &str, topic: &Topic, stats: &mut ConsumeStats) {
    let name = &topic.topic_name;
    for queue in queues(topic) {
        let number = queue.cast_unsigned();
        let broker_offset = broker.store.max_offset(name, number).cast_signed();
        let consumer_offset = broker.offsets.query(group, name, queue).unwrap_or(0).max(0);
        let pulled = broker.offsets.last_pulled(group, name, queue).unwrap_or(0);
        let before = u64::try_from(consumer_offset - 1).ok();
        let last = before.and_then(|offset| broker.store.store_time(name, number, offset));
        let row = OffsetWrapper {
            broker_offset,
            consumer_offset,
            pull_offset: pulled.max(consumer_offset),
            last_timestamp: last.map_or(0, u64::cast_signed),
        };
        stats.offset_table.insert(message_queue(broker, name, queue), row);
    }
    stats.consume_tps += broker.stats.get_tps(group, name);
}

fn span_of(
    broker: &Arc<Broker>,
    header: &QueryConsumeTimeSpanRequest,
    queue: i32,
) -> QueueTimeSpan {
    let (topic, number) = (&header.topic, queue.cast_unsigned());
    let time = |offset: u64| broker.store.store_time(topic, number, offset).map(u64::cast_signed);
    let (min, max) =
        (broker.store.min_offset(topic, number), broker.store.max_offset(topic, number));
    let min_time = time(min);
    let committed = broker.offsets.query(&header.group, topic, queue);
    let next = committed.and_then(|offset| u64::try_from(offset).ok()).unwrap_or(0);
    let consume_time = next.checked_sub(1).map_or(min_time, time);
    let waiting = (next < max).then(|| time(next)).flatten();
    let (first, consumed) = (min_time.unwrap_or(-1), consume_time.unwrap_or(-1));
    let last = max.checked_sub(1).and_then(time).unwrap_or(-1);
    QueueTimeSpan {
        message_queue: message_queue(broker, topic, queue),
        min_time_stamp: first,
        min_time_stamp_str: Some(local_text(first)),
        max_time_stamp: last,
        max_time_stamp_str: Some(local_text(last)),
        consume_time_stamp: consumed,
        consume_time_stamp_str: Some(local_text(consumed)),
        delay_time: waiting.map_or(0, |stored| now_millis() - stored),
    }
}

fn queues(topic: &Topic) -> std::ops::Range<i32> {
    0..topic.write_queue_nums.max(topic.read_queue_nums)
}

fn message_queue(broker: &Arc<Broker>, topic: &str, queue_id: i32) -> MessageQueue {
    MessageQueue::new(topic, &broker.config().broker_name, queue_id)
}
