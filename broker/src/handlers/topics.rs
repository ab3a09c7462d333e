//! Topics: codes 17, 18, 21, 202, 215, 305 and 351 (`AdminBrokerProcessor.java`).

mod attributes;

use std::sync::Arc;

use protocol::{
    body::{
        CreateTopicListRequestBody, DataVersion, MessageQueue, TopicList, TopicOffset,
        TopicStatsTable,
    },
    code::response,
    header::{
        CreateTopicRequest, DeleteTopicRequest, GetAllTopicConfigRequest,
        GetAllTopicConfigResponse, GetTopicConfigRequest, GetTopicStatsInfoRequest,
    },
    name,
};

use crate::{
    broker::Broker,
    call::{Call, Rejection, Reply},
    compat::{self, Wanted, java_slave::as_changes},
    topics::{self, Topic},
};

/// Topics of one page of 21, at most (`BrokerConfig.maxTopicNum` of the paging).
const PAGE: usize = 2_000;

/// The most topics that one request may make or change.
const MAX_LIST: usize = 1_000;

/// The most queues that a topic can have.
const MAX_QUEUES: i32 = 65_535;

/// 17: makes or changes a topic. Answered once that is committed and registered.
pub(crate) fn update(broker: &Arc<Broker>, call: &mut Call) -> Result<Reply, Rejection> {
    let request: CreateTopicRequest = call.header()?;
    put(broker, call, &[request])
}

/// 18: makes or changes several topics, all of them or none. Java's broker changes none where one
/// of them is already as it is wanted.
pub(crate) fn update_list(broker: &Arc<Broker>, call: &mut Call) -> Result<Reply, Rejection> {
    let list = CreateTopicListRequestBody::decode(&call.command.body)?.topic_config_list;
    if list.len() > MAX_LIST {
        let remark = format!("topicConfigList has {} topics; it takes {MAX_LIST}", list.len());
        return Err(Rejection::new(response::INVALID_PARAMETER, remark));
    }
    let requests: Vec<_> = list.into_iter().map(request_of).collect();
    put(broker, call, &requests)
}

/// What code 17 would ask for the same topic.
fn request_of(topic: Topic) -> CreateTopicRequest {
    let attribute = |(name, value): (&String, &String)| match value.is_empty() {
        true => name.clone(),
        false => format!("{name}={value}"),
    };
    let attributes: Vec<_> = topic.attributes.iter().map(attribute).collect();
    CreateTopicRequest {
        topic: topic.topic_name,
        read_queue_nums: topic.read_queue_nums,
        write_queue_nums: topic.write_queue_nums,
        perm: topic.perm,
        topic_filter_type: Some(topic.topic_filter_type),
        topic_sys_flag: Some(topic.topic_sys_flag),
        order: topic.order,
        attributes: Some(attributes.join(",")),
        ..CreateTopicRequest::default()
    }
}

fn put(
    broker: &Arc<Broker>,
    call: &mut Call,
    requests: &[CreateTopicRequest],
) -> Result<Reply, Rejection> {
    for request in requests {
        check_name(broker, &request.topic)?;
    }
    let plan = || {
        let wanted = requests.iter().map(|request| wanted(broker, request));
        let wanted = wanted.collect::<Result<Vec<_>, _>>()?;
        let changes: Vec<_> =
            wanted.into_iter().filter_map(|topic| broker.topics.put(topic)).collect();
        let changed = !changes.is_empty();
        Ok((changes, changed))
    };
    if !broker.change_blocking(plan)? {
        return Reply::done(call);
    }
    for request in requests {
        tracing::info!(topic = request.topic, peer = %call.client, "topic was changed");
    }
    registered(broker, call)
}

/// Whether a client may make or change a topic of this name.
fn check_name(broker: &Broker, topic: &str) -> Result<(), Rejection> {
    name::validate_topic(topic)
        .map_err(|error| Rejection::new(response::INVALID_PARAMETER, error.to_string()))?;
    if broker.topics.is_system(topic) {
        let remark = format!("The topic[{topic}] is conflict with system topic.");
        return Err(Rejection::new(response::INVALID_PARAMETER, remark));
    }
    Ok(())
}

fn wanted(broker: &Broker, request: &CreateTopicRequest) -> Result<Topic, Rejection> {
    let filter = request.topic_filter_type.as_deref().unwrap_or(topics::SINGLE_TAG);
    if filter != topics::SINGLE_TAG && filter != topics::MULTI_TAG {
        return Err(Rejection::new(
            response::SYSTEM_ERROR,
            format!("topicFilterType is {filter}; it must be SINGLE_TAG or MULTI_TAG"),
        ));
    }
    for (name, number) in
        [("readQueueNums", request.read_queue_nums), ("writeQueueNums", request.write_queue_nums)]
    {
        if !(0..=MAX_QUEUES).contains(&number) {
            return Err(Rejection::new(
                response::INVALID_PARAMETER,
                format!("{name} is {number}; it must be from 0 to {MAX_QUEUES}"),
            ));
        }
    }
    let present = broker.topics.get(&request.topic);
    let changes = request.attributes.as_deref().unwrap_or_default();
    let attributes = attributes::changed(present.as_deref(), changes)?;
    for (name, value) in &attributes {
        compat::limits(broker.group.as_deref(), Wanted::Attribute(name, value))
            .map_err(|text| Rejection::new(response::INVALID_PARAMETER, text))?;
    }
    Ok(Topic {
        topic_name: request.topic.clone(),
        read_queue_nums: request.read_queue_nums,
        write_queue_nums: request.write_queue_nums,
        perm: request.perm,
        topic_filter_type: filter.to_owned(),
        topic_sys_flag: request.topic_sys_flag.unwrap_or(0),
        order: request.order,
        attributes,
    })
}

/// Answers after the name servers have heard of the change.
fn registered(broker: &Arc<Broker>, call: &mut Call) -> Result<Reply, Rejection> {
    let broker = Arc::clone(broker);
    let answer = call.success();
    call.answer_with(async move {
        broker.register().await;
        Ok(answer)
    })
}

/// 215: deletes a topic with its queues, offsets and counters.
pub(crate) fn delete(broker: &Arc<Broker>, call: &mut Call) -> Result<Reply, Rejection> {
    let request: DeleteTopicRequest = call.header()?;
    let topic = request.topic.as_str();
    if topic.trim().is_empty() {
        let remark = "The specified topic is blank.";
        return Err(Rejection::new(response::INVALID_PARAMETER, remark));
    }
    if broker.topics.is_system(topic) {
        return Err(Rejection::new(
            response::INVALID_PARAMETER,
            format!("The topic[{topic}] is conflict with system topic."),
        ));
    }
    let mut gone = vec![topic.to_owned()];
    for group in broker.offsets.groups_of(topic) {
        // Retry topics of pop consumption, in both of their forms.
        let retries = [format!("%RETRY%{group}_{topic}"), format!("%RETRY%{group}+{topic}")];
        gone.extend(retries.into_iter().filter(|retry| broker.topics.get(retry).is_some()));
    }
    broker.delete_topics_blocking(gone)?;
    tracing::info!(topic, peer = %call.client, "topic was deleted");
    registered(broker, call)
}

/// 21: the table of topics, by pages where the client asks for pages.
pub(crate) fn all(broker: &Arc<Broker>, call: &mut Call) -> Result<Reply, Rejection> {
    let request: GetAllTopicConfigRequest = call.header()?;
    let total = |number: usize| GetAllTopicConfigResponse {
        total_topic_num: Some(i32::try_from(number).unwrap_or(i32::MAX)),
    };
    let Some(seq) = request.topic_seq else {
        let header = total(broker.topics.len());
        let mut wrapper = broker.topics.wrapper();
        if broker.is_for_changes(call) {
            // Of a table whose version it has, such a slave takes the attributes as they are.
            wrapper.data_version.counter += 1;
            wrapper
                .topic_config_table
                .values_mut()
                .for_each(|topic| as_changes(&mut topic.attributes));
        }
        return Ok(Reply::Now(call.success().with_header(&header).with_body(wrapper.encode())));
    };
    // A client whose pages belong to another version of the table starts again.
    let known = request.data_version.as_deref().filter(|text| !text.is_empty());
    let same = known.map(|text| {
        DataVersion::decode(text.as_bytes()).is_ok_and(|v| v == broker.topics.version())
    });
    let first = if same == Some(false) { 0 } else { usize::try_from(seq).unwrap_or(0) };
    let asked = request.max_topic_num.and_then(|number| usize::try_from(number).ok());
    let limit = asked.filter(|number| *number > 0).map_or(PAGE, |number| number.min(PAGE));
    let (page, number) = broker.topics.page(first, limit);
    Ok(Reply::Now(call.success().with_header(&total(number)).with_body(page.encode())))
}

/// 351: one topic.
pub(crate) fn one(broker: &Arc<Broker>, call: &mut Call) -> Result<Reply, Rejection> {
    let request: GetTopicConfigRequest = call.header()?;
    let topic = broker.topics.get(&request.topic).ok_or_else(|| {
        Rejection::new(
            response::TOPIC_NOT_EXIST,
            format!("No topic in this broker. topic: {}", request.topic),
        )
    })?;
    Reply::body(call, topic.encode())
}

/// 202: first and next offset of each queue of a topic.
pub(crate) fn stats(broker: &Arc<Broker>, call: &mut Call) -> Result<Reply, Rejection> {
    let request: GetTopicStatsInfoRequest = call.header()?;
    let name = &request.topic;
    let topic = broker.topics.get(name).ok_or_else(|| {
        Rejection::new(response::TOPIC_NOT_EXIST, format!("topic[{name}] not exist"))
    })?;
    let queues = topic.read_queue_nums.max(topic.write_queue_nums).max(0);
    let broker_name = broker.config().broker_name.clone();
    let mut table =
        TopicStatsTable { topic_put_tps: broker.stats.put_tps(name), ..Default::default() };
    for queue in 0..queues {
        let id = queue.unsigned_abs();
        let (min, max) = (broker.store.min_offset(name, id), broker.store.max_offset(name, id));
        let newest = max.checked_sub(1).filter(|newest| *newest >= min);
        let updated = newest.and_then(|newest| broker.store.store_time(name, id, newest));
        table.offset_table.insert(
            MessageQueue { topic: name.clone(), broker_name: broker_name.clone(), queue_id: queue },
            TopicOffset {
                min_offset: i64::try_from(min).unwrap_or(i64::MAX),
                max_offset: i64::try_from(max).unwrap_or(i64::MAX),
                last_update_timestamp: updated.and_then(|at| i64::try_from(at).ok()).unwrap_or(0),
            },
        );
    }
    Reply::body(call, table.encode())
}

/// 305: the topics that belong to the broker.
pub(crate) fn system(broker: &Arc<Broker>, call: &mut Call) -> Result<Reply, Rejection> {
    let list = TopicList { topic_list: broker.topics.system_names().to_vec(), broker_addr: None };
    Reply::body(call, list.encode())
}
