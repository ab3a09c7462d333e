//! Who consumes which queues, and how: codes 400, 401, 402 (`QueryAssignmentProcessor.java`,
//! `MessageRequestModeManager.java`).

use std::{collections::BTreeSet, sync::Arc, time::Instant};

use protocol::{
    Command,
    body::{
        MessageQueue, MessageQueueAssignment, QueryAssignmentRequestBody,
        QueryAssignmentResponseBody, SetMessageRequestModeRequestBody,
    },
    code::response,
    name,
};
use store::journal::{Change, Tables};

use crate::{
    assignment::{Question, Strategy},
    broker::Broker,
    call::{Call, Rejection, Reply},
    config::RequestMode,
};

/// Code 400. Without a list where nothing can be said: the client keeps what it has.
pub(crate) fn query(broker: &Arc<Broker>, call: &mut Call) -> Result<Reply, Rejection> {
    let asked = QueryAssignmentRequestBody::decode(&call.command.body)?;
    let shared = is_shared(&asked)?;
    let answer = call.success();
    let broker = Arc::clone(broker);
    call.answer_with(async move {
        let mode = broker.request_mode(&asked.topic, &asked.consumer_group);
        let queues = if shared {
            broker.divided(&asked, &mode).await?
        } else {
            broker.queues_of(&asked.topic).await.map(|all| all.iter().cloned().collect())
        };
        Ok(assigned(answer, queues, &mode))
    })
}

/// Code 401.
pub(crate) fn set_mode(broker: &Arc<Broker>, call: &mut Call) -> Result<Reply, Rejection> {
    let wanted = SetMessageRequestModeRequestBody::decode(&call.command.body)?;
    let (topic, group) = (&wanted.topic, &wanted.consumer_group);
    if name::is_retry_topic(topic) {
        let remark = "retry topic is not allowed to set mode";
        return Err(Rejection::new(response::NO_PERMISSION, remark));
    }
    if mode_named(wanted.mode.as_deref()).is_none() {
        let given = wanted.mode.as_deref().unwrap_or("nothing");
        let remark = format!("mode must be PULL or POP, the request has {given}");
        return Err(Rejection::new(response::INVALID_PARAMETER, remark));
    }
    if broker.topics.get(topic).is_none() {
        let remark = format!("topic[{topic}] not exist");
        return Err(Rejection::new(response::TOPIC_NOT_EXIST, remark));
    }
    if broker.consumer_group(group).is_none() {
        let remark =
            format!("subscription group does not exist: {group}; create it with updateSubGroup");
        return Err(Rejection::new(response::SUBSCRIPTION_GROUP_NOT_EXIST, remark));
    }
    tracing::info!(topic, group, mode = wanted.mode, peer = %call.client, "request mode is set");
    broker.change_blocking(|| {
        let same = broker.set_request_mode(topic, group).as_ref() == Some(&wanted);
        let change = (!same).then(|| Change::RequestMode(wanted.clone()));
        Ok((change.into_iter().collect(), ()))
    })?;
    Reply::done(call)
}

/// Code 402. What was set for all topics and groups.
pub(crate) fn modes(broker: &Arc<Broker>, call: &mut Call) -> Result<Reply, Rejection> {
    Reply::body(call, broker.journal.with_tables(Tables::request_modes_wrapper).encode())
}

impl Broker {
    /// How a group consumes a topic: as was set, else as configured. What is tried again is always
    /// pulled.
    fn request_mode(&self, topic: &str, group: &str) -> SetMessageRequestModeRequestBody {
        if let Some(set) = self.set_request_mode(topic, group) {
            return set;
        }
        let config = self.config();
        let mode = if name::is_retry_topic(topic) {
            RequestMode::Pull
        } else {
            config.default_message_request_mode
        };
        let share = if mode == RequestMode::Pop { config.default_pop_share_queue_num } else { 0 };
        SetMessageRequestModeRequestBody {
            topic: topic.to_owned(),
            consumer_group: group.to_owned(),
            mode: Some(mode.name().to_owned()),
            pop_share_queue_num: share,
        }
    }

    fn set_request_mode(
        &self,
        topic: &str,
        group: &str,
    ) -> Option<SetMessageRequestModeRequestBody> {
        self.journal.with_tables(|tables| tables.request_modes.get(topic)?.get(group).cloned())
    }

    /// The queues of one member of a group that shares them.
    async fn divided(
        &self,
        asked: &QueryAssignmentRequestBody,
        mode: &SetMessageRequestModeRequestBody,
    ) -> Result<Option<BTreeSet<MessageQueue>>, Rejection> {
        let queues = if asked.topic.starts_with(name::LMQ_PREFIX) {
            let broker = self.config().broker_name.clone();
            Some(vec![MessageQueue::new(asked.topic.as_str(), broker, 0)].into())
        } else {
            self.queues_of(&asked.topic).await
        };
        let Some(queues) = queues else { return Ok(None) };
        if !self.config().server_load_balancer_enable {
            return Ok(Some(queues.iter().cloned().collect()));
        }
        let mut members = self.consumers.client_ids(&asked.consumer_group);
        // As code 38: what lacks most of a group does not divide its queues.
        let known = members.contains(&asked.client_id);
        self.require_members(&asked.consumer_group, known, Instant::now())?;
        let strategy = asked.strategy_name.as_deref().and_then(Strategy::named);
        let Some(strategy) = strategy.filter(|_| !members.is_empty()) else { return Ok(None) };
        members.sort_unstable();
        let question =
            Question { strategy, member: &asked.client_id, members: &members, queues: &queues };
        Ok(match mode_named(mode.mode.as_deref()) {
            Some(RequestMode::Pop) => question.popped(mode.pop_share_queue_num),
            Some(RequestMode::Pull) | None => question.pulled(),
        })
    }
}

/// Whether the members of the group share the queues; else each has all.
fn is_shared(asked: &QueryAssignmentRequestBody) -> Result<bool, Rejection> {
    match asked.message_model.as_deref() {
        Some("CLUSTERING") => Ok(true),
        Some("BROADCASTING") => Ok(false),
        other => {
            let given = other.unwrap_or("nothing");
            let remark =
                format!("messageModel must be CLUSTERING or BROADCASTING, the request has {given}");
            Err(Rejection::new(response::INVALID_PARAMETER, remark))
        }
    }
}

fn mode_named(name: Option<&str>) -> Option<RequestMode> {
    [RequestMode::Pull, RequestMode::Pop].into_iter().find(|mode| Some(mode.name()) == name)
}

fn assigned(
    answer: Command,
    queues: Option<BTreeSet<MessageQueue>>,
    mode: &SetMessageRequestModeRequestBody,
) -> Command {
    let assignment = |queue| MessageQueueAssignment {
        attachments: None,
        message_queue: Some(queue),
        mode: mode.mode.clone(),
    };
    let message_queue_assignments =
        queues.map(|queues| queues.into_iter().map(assignment).collect());
    answer.with_body(QueryAssignmentResponseBody { message_queue_assignments }.encode())
}
