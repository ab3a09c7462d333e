//! Replies to requests between clients: codes 324 and 325, which the broker brings to the requester
//! by 326 (`ReplyMessageProcessor.java`).

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use protocol::{
    Command,
    code::{request, response},
    header::{ReplyMessageRequest, SendMessageResponse},
    message::{
        id::offset_message_id,
        properties::{self, Properties, key},
        record::MessageRecord,
    },
};

use super::{Marks, Send};
use crate::{
    broker::Broker,
    call::{Call, Rejection, Reply},
    clock, drafts,
    pending::offsets,
    reply,
    topics::Topic,
};

/// How long the requester may take to accept its reply.
const ACCEPT: Duration = Duration::from_secs(10);

/// A reply on its way to its requester, and into its topic.
struct Response {
    header: ReplyMessageRequest,
    properties: Properties,
    record: MessageRecord,
    /// Its topic, where that has to be made.
    missing: Option<Topic>,
    store: bool,
}

/// Where a reply was stored: its id and queue offset.
struct Stored {
    id: String,
    offset: i64,
}

/// Brings a reply to its requester; answered when that has it. Whether it could be stored too makes
/// no difference to the answer's code, as in Java.
pub(crate) fn respond(broker: &Arc<Broker>, call: &mut Call) -> Result<Reply, Rejection> {
    let send = Send::read(broker, call)?;
    let marks = Marks::of(&send.config);
    let response = send.response(broker, call).map_err(|refused| marks.on_rejection(refused))?;
    let (broker, body) = (Arc::clone(broker), call.command.body.clone());
    call.answer_with(async move {
        let Response { header, properties, record, missing, store } = response;
        let queue_id = record.queue_id;
        let (pushed, stored) = tokio::join!(push(&broker, header, properties, body), async {
            if store { keep(&broker, record, missing).await } else { None }
        });
        let answer = match pushed {
            Ok(()) => reply::answer(response::SUCCESS),
            Err(remark) => reply::answer(response::SYSTEM_ERROR).with_remark(remark),
        };
        let (id, offset) =
            stored.map_or_else(|| ("0".to_owned(), 0), |stored| (stored.id, stored.offset));
        Ok(marks.on(answer.with_header(&SendMessageResponse {
            msg_id: id,
            queue_id,
            queue_offset: offset,
            ..SendMessageResponse::default()
        })))
    })
}

impl Send {
    fn response(&self, broker: &Arc<Broker>, call: &Call) -> Result<Response, Rejection> {
        self.check_topic_name(broker)?;
        let (topic, missing) = match broker.topics.get(&self.request.topic) {
            Some(topic) => (topic, None),
            None => {
                let topic = self.new_topic(broker)?;
                (Arc::new(topic.clone()), Some(topic))
            }
        };
        let queue_id = self.queue_id(broker, call, &topic)?;
        let body = &call.command.body;
        let limit = self.config.max_message_size as usize;
        if body.len() > limit {
            let cause = format!("its body has {}B", body.len());
            return Err(Rejection::new(response::MESSAGE_ILLEGAL, self.illegal(&cause)));
        }
        let properties = drafts::own(self.request.properties.as_deref());
        let mut record = self.record(broker, (call.client, queue_id), body.clone());
        record.properties = self.text(&record.topic, &properties)?;
        self.check_length(&record, 0)?;
        let header = self.push_header(broker, call);
        let store = self.config.store_reply_message_enable;
        Ok(Response { header, properties, record, missing, store })
    }

    fn push_header(&self, broker: &Broker, call: &Call) -> ReplyMessageRequest {
        let request = &self.request;
        ReplyMessageRequest {
            producer_group: request.producer_group.clone(),
            topic: request.topic.clone(),
            default_topic: request.default_topic.clone(),
            default_topic_queue_nums: request.default_topic_queue_nums,
            queue_id: request.queue_id,
            sys_flag: request.sys_flag,
            born_timestamp: request.born_timestamp,
            flag: request.flag,
            properties: None,
            reconsume_times: request.reconsume_times,
            unit_mode: request.unit_mode.unwrap_or(false),
            born_host: call.client.to_string(),
            store_host: broker.store_host().to_string(),
            store_timestamp: clock::now_millis(),
        }
    }
}

/// Brings the reply to the client that waits for it.
///
/// # Errors
/// Java's text for why that did not work.
async fn push(
    broker: &Broker,
    header: ReplyMessageRequest,
    mut properties: Properties,
    body: Bytes,
) -> Result<(), String> {
    let Some(client) = properties.get(key::REPLY_TO_CLIENT).map(str::to_owned) else {
        return Err(format!("reply message properties[{}] is null", key::REPLY_TO_CLIENT));
    };
    let Some(requester) = broker.producers.of_client(&client) else {
        return Err(format!("push reply message fail, channel of <{client}> not found."));
    };
    properties.insert(key::PUSH_REPLY_TIME, clock::now_millis().to_string());
    let header =
        ReplyMessageRequest { properties: Some(properties::encode(&properties)), ..header };
    let push =
        Command::request_with(request::PUSH_REPLY_MESSAGE_TO_CLIENT, &header).with_body(body);
    let failed = |cause: String| {
        tracing::warn!(client, cause, "a reply did not reach its requester");
        Err(format!("push reply message to {client}fail."))
    };
    match requester.call(push, ACCEPT).await {
        Ok(answer) if answer.code == response::SUCCESS => Ok(()),
        Ok(answer) => failed(answer.remark.unwrap_or_default()),
        Err(error) => failed(error.to_string()),
    }
}

/// Stores the reply in its topic; `None` where that did not work.
async fn keep(
    broker: &Arc<Broker>,
    record: MessageRecord,
    missing: Option<Topic>,
) -> Option<Stored> {
    let (topic, queue) = (record.topic.clone(), record.queue_id);
    let not_kept = |reason: &str| tracing::warn!(topic, reason, "a reply was not stored");
    if let Some(missing) = missing
        && let Err(rejection) = broker.ensure_topic(missing).await
    {
        not_kept(&rejection.remark);
        return None;
    }
    let begun = std::time::Instant::now();
    let committed = match broker.submit_inside(&[record]) {
        Ok(committed) => committed.await.ok()?,
        Err(rejection) => {
            not_kept(&rejection.remark);
            return None;
        }
    };
    match committed {
        Ok(placed) => {
            let stored = placed.records().next()?;
            let (offset, physical) = offsets(stored);
            let bytes = u64::try_from(stored.len()).unwrap_or(0);
            broker.stats.sent((&topic, queue), (1, bytes), begun.elapsed());
            Some(Stored { id: offset_message_id(broker.store_host(), physical), offset })
        }
        Err(failure) => {
            not_kept(&failure.to_string());
            None
        }
    }
}
