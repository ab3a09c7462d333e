//! Requests that the broker hands on to a consumer: codes 223 (by 221), 307, 309
//! (`AdminBrokerProcessor.callConsumer`, `Broker2Client.java`).

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use protocol::{
    Command,
    body::GetConsumerStatusBody,
    code::{request, response},
    header::{
        ConsumeMessageDirectlyResultRequest, GetConsumerRunningInfoRequest,
        GetConsumerStatusRequest,
    },
    message::id,
    version,
};
use remoting::{CallError, Connection};

use crate::{
    broker::Broker,
    call::{Call, Rejection, Reply},
    consumers::Member,
    handlers::query::message_at,
};

/// How long a consumer may take for a request that is handed on.
const RELAY: Duration = Duration::from_secs(10);

/// How long each consumer of a group may take to say how far it is.
const STATUS: Duration = Duration::from_secs(5);

/// Code 307. The consumer's answer is given as it came.
pub(crate) fn running_info(broker: &Arc<Broker>, call: &mut Call) -> Result<Reply, Rejection> {
    let header: GetConsumerRunningInfoRequest = call.header()?;
    let mut handed_on = Command::request(request::GET_CONSUMER_RUNNING_INFO);
    handed_on.ext_fields.clone_from(&call.command.ext_fields);
    handed_on.body = call.command.body.clone();
    relay(broker, call, (&header.consumer_group, &header.client_id), handed_on)
}

/// Code 309. The message goes with the request, so that the consumer need not fetch it.
pub(crate) fn consume_directly(broker: &Arc<Broker>, call: &mut Call) -> Result<Reply, Rejection> {
    let header: ConsumeMessageDirectlyResultRequest = call.header()?;
    let group = header.consumer_group.clone();
    let client_id = header.client_id.clone().unwrap_or_default();
    let mut body = call.command.body.clone();
    if let Some(message_id) = &header.msg_id {
        body = message(broker, message_id)?;
    }
    let topic_sys_flag = header
        .topic
        .as_ref()
        .and_then(|topic| broker.topics.get(topic))
        .map_or(0, |topic| topic.topic_sys_flag);
    let group_sys_flag = broker.groups.find(&group).map_or(0, |found| found.group_sys_flag);
    let filled = ConsumeMessageDirectlyResultRequest {
        broker_name: Some(broker.config().broker_name.clone()),
        topic_sys_flag: Some(topic_sys_flag),
        group_sys_flag: Some(group_sys_flag),
        ..header
    };
    let mut handed_on = Command::request(request::CONSUME_MESSAGE_DIRECTLY).with_body(body);
    handed_on.ext_fields.clone_from(&call.command.ext_fields);
    let handed_on = handed_on.with_header(&filled);
    relay(broker, call, (&group, &client_id), handed_on)
}

/// Code 223. How far each consumer of a group is, by its own account.
pub(crate) fn status(broker: &Arc<Broker>, call: &mut Call) -> Result<Reply, Rejection> {
    let header: GetConsumerStatusRequest = call.header()?;
    let only = header.client_addr.as_deref().filter(|client| !client.trim().is_empty());
    let members = broker.consumers.members(&header.group);
    if members.is_empty() {
        let remark = format!("No Any Consumer online in the consumer group: [{}]", header.group);
        return Err(Rejection::new(response::SYSTEM_ERROR, remark));
    }
    let asked: Vec<_> = members
        .into_iter()
        .filter(|member| only.is_none_or(|client| member.client_id == client))
        .collect();
    let question = GetConsumerStatusRequest { client_addr: None, ..header.clone() };
    let question = Command::request_with(request::GET_CONSUMER_STATUS_FROM_CLIENT, &question);
    let answer = call.success();
    call.answer_with(async move {
        let waiting: Vec<_> = asked
            .into_iter()
            .map(|member| (member.client_id, member.handle.call(question.clone(), STATUS)))
            .collect();
        let mut status = GetConsumerStatusBody::default();
        // All were asked at once, so that the slowest one decides how long this takes.
        for (client_id, answer) in waiting {
            match progress(answer.await) {
                Ok(body) => {
                    status.consumer_table.insert(client_id, body.message_queue_table);
                }
                Err(cause) => tracing::warn!(client_id, cause, "consumer did not tell its status"),
            }
        }
        Ok(answer.with_body(status.encode()))
    })
}

/// What a consumer said of itself, or why it did not.
fn progress(answer: Result<Command, CallError>) -> Result<GetConsumerStatusBody, String> {
    let answer = answer.map_err(|error| error.to_string())?;
    if answer.code != response::SUCCESS {
        return Err(format!("it answered code {}", answer.code));
    }
    GetConsumerStatusBody::decode(&answer.body).map_err(|error| error.to_string())
}

/// Hands a request on to one consumer, and its answer back.
fn relay(
    broker: &Arc<Broker>,
    call: &mut Call,
    (group, client_id): (&str, &str),
    request: Command,
) -> Result<Reply, Rejection> {
    let member = online(broker, group, client_id)?;
    let (group, client_id) = (group.to_owned(), client_id.to_owned());
    call.answer_with(async move {
        let answer = member.handle.call(request, RELAY).await;
        answer.map_err(|error| no_answer(&group, &client_id, &error))
    })
}

fn online(
    broker: &Arc<Broker>,
    group: &str,
    client_id: &str,
) -> Result<Member<Arc<Connection>>, Rejection> {
    let member = broker.consumers.member(group, client_id).ok_or_else(|| {
        let remark = format!("The Consumer <{group}> <{client_id}> not online");
        Rejection::new(response::SYSTEM_ERROR, remark)
    })?;
    if member.version < version::V3_1_8_SNAPSHOT {
        let remark = format!(
            "The Consumer <{client_id}> Version <{}> too low to finish, please upgrade it to V3_1_8_SNAPSHOT",
            version::description(member.version)
        );
        return Err(Rejection::new(response::SYSTEM_ERROR, remark));
    }
    Ok(member)
}

fn no_answer(group: &str, client_id: &str, error: &CallError) -> Rejection {
    match error {
        CallError::Timeout { .. } => Rejection::new(
            response::CONSUME_MSG_TIMEOUT,
            format!("consumer <{group}> <{client_id}> Timeout: {error}"),
        ),
        _ => Rejection::new(
            response::SYSTEM_ERROR,
            format!("invoke consumer <{group}> <{client_id}> Exception: {error}"),
        ),
    }
}

/// The record that an offset message id names.
fn message(broker: &Arc<Broker>, message_id: &str) -> Result<Bytes, Rejection> {
    let refuse = |why: String| {
        Rejection::new(response::SYSTEM_ERROR, format!("message id {message_id}: {why}"))
    };
    let (_, physical) =
        id::parse_offset_message_id(message_id).map_err(|error| refuse(error.to_string()))?;
    message_at(broker, physical).ok_or_else(|| refuse(format!("no message is at {physical}")))
}
