//! Sends: codes 10, 310 and 320 (`SendMessageProcessor.java`, `AbstractSendMessageProcessor.java`).

mod compose;
mod respond;

use std::{sync::Arc, time::Instant};

use protocol::{
    code::response,
    header::SendMessageRequest,
    message::{properties::key, record::MessageRecord, sys_flag::perm},
    name,
};

use crate::{
    broker::Broker,
    call::{Call, Rejection, Reply},
    compat,
    config::BrokerConfig,
    drafts,
    pending::{self, Marks, Pending, Producer},
    reply::{self, SEE_FAQ},
    topics::{self, Topic, Wanted},
};

pub(crate) use respond::respond;

/// A send that passed the checks of its header.
#[derive(Debug)]
struct Send {
    request: SendMessageRequest,
    config: Arc<BrokerConfig>,
}

/// Stores one message, or a batch of them; answered when they are committed.
pub(crate) fn send(broker: &Arc<Broker>, call: &mut Call) -> Result<Reply, Rejection> {
    Send::read(broker, call)?.marked(broker, call)
}

/// Java answers so to a send without any header field.
fn no_header() -> Rejection {
    Rejection::new(
        response::SYSTEM_ERROR,
        "the send has no header fields; it needs at least topic and queueId",
    )
}

impl Send {
    fn read(broker: &Broker, call: &Call) -> Result<Self, Rejection> {
        let fields = call.command.ext_fields.as_ref().ok_or_else(no_header)?;
        let request = SendMessageRequest::decode_for(call.command.code, fields)?;
        Ok(Self { request, config: broker.config() })
    }

    /// Serves the send; a refusal carries the marks that each answer to a send carries.
    fn marked(self, broker: &Arc<Broker>, call: &mut Call) -> Result<Reply, Rejection> {
        let marks = Marks::of(&self.config);
        self.serve(broker, call).map_err(|rejection| marks.on_rejection(rejection))
    }

    fn serve(self, broker: &Arc<Broker>, call: &mut Call) -> Result<Reply, Rejection> {
        broker.require_disk()?;
        self.check_topic_name(broker)?;
        match broker.topics.get(&self.request.topic) {
            Some(topic) => self.store(broker, call, &topic),
            None => self.make_topic_and_store(broker, call),
        }
    }

    fn check_topic_name(&self, broker: &Broker) -> Result<(), Rejection> {
        let topic = &self.request.topic;
        let ordered = || broker.topics.get(topic).is_some_and(|topic| topic.order);
        if self.config.broker_permission & perm::WRITE == 0 && ordered() {
            let host = &self.config.broker_ip1.0;
            return Err(Rejection::new(
                response::NO_PERMISSION,
                format!("the broker[{host}] sending message is forbidden"),
            ));
        }
        name::validate_topic(topic)
            .map_err(|error| Rejection::new(response::INVALID_PARAMETER, error.to_string()))?;
        if topics::refuses_sends(topic) {
            return Err(Rejection::new(
                response::NO_PERMISSION,
                format!("Sending message to topic[{topic}] is forbidden."),
            ));
        }
        Ok(())
    }

    /// Makes the topic from its template, registers it, and goes on with the send.
    fn make_topic_and_store(
        self,
        broker: &Arc<Broker>,
        call: &mut Call,
    ) -> Result<Reply, Rejection> {
        let topic = self.new_topic(broker)?;
        let broker = Arc::clone(broker);
        let mut call = call.detach()?;
        tokio::spawn(async move {
            let marks = Marks::of(&self.config);
            let made = broker.ensure_topic(topic).await;
            let result = made
                .and_then(|topic| self.store(&broker, &mut call, &topic))
                .map_err(|rejection| marks.on_rejection(rejection));
            reply::give(&mut call, result);
        });
        Ok(Reply::Later)
    }

    fn new_topic(&self, broker: &Broker) -> Result<Topic, Rejection> {
        let request = &self.request;
        let unit_mode = request.unit_mode.unwrap_or(false);
        if name::group_of_retry_topic(&request.topic).is_some() {
            return Ok(topics::read_write(&request.topic, 1, unit_mode));
        }
        let wanted = Wanted {
            topic: &request.topic,
            template: &request.default_topic,
            queues: request.default_topic_queue_nums,
            unit_mode,
        };
        broker.topics.by_template(&wanted, &self.config).ok_or_else(|| {
            Rejection::new(
                response::TOPIC_NOT_EXIST,
                format!("topic[{}] not exist, apply first please!\n{SEE_FAQ}", request.topic),
            )
        })
    }

    /// Stores in a topic that exists.
    fn store(
        &self,
        broker: &Arc<Broker>,
        call: &mut Call,
        topic: &Topic,
    ) -> Result<Reply, Rejection> {
        topics::check_kind(topic).map_err(|kind| {
            let remark =
                format!("topic[{}] has {kind}, which does not exist yet", topic.topic_name);
            Rejection::new(response::MESSAGE_ILLEGAL, remark)
        })?;
        let told = self.request.properties.as_deref().unwrap_or_default();
        if told.contains(key::INNER_MULTI_DISPATCH) {
            compat::limits(broker.group.as_deref(), compat::Wanted::LightQueues)
                .map_err(|text| Rejection::new(response::MESSAGE_ILLEGAL, text))?;
        }
        let queue_id = self.queue_id(broker, call, topic)?;
        let born_host = call.client;
        let composed = if self.request.batch.unwrap_or(false) {
            self.batch(broker, (born_host, queue_id), &call.command.body)?
        } else {
            self.single(broker, (born_host, queue_id), topic, call)?
        };
        let Composed { records, topic, queue_id, unique_key, recall_handle } = composed;
        self.submit(broker, call, &records, |responder, received| Producer {
            responder,
            topic,
            queue_id,
            transaction_id: unique_key,
            recall_handle,
            marks: Marks::of(&self.config),
            received,
        })
    }

    /// The queue that the producer names, or the next one where it leaves the choice.
    fn queue_id(&self, broker: &Broker, call: &Call, topic: &Topic) -> Result<i32, Rejection> {
        let wanted = self.request.queue_id;
        if wanted >= topic.write_queue_nums.max(topic.read_queue_nums) {
            let peer = call.client;
            return Err(Rejection::new(
                response::INVALID_PARAMETER,
                format!(
                    "request queueId[{wanted}] is illegal, topic[{}] has {} write and {} read queues Producer: {peer}",
                    topic.topic_name, topic.write_queue_nums, topic.read_queue_nums
                ),
            ));
        }
        if wanted >= 0 {
            return Ok(wanted);
        }
        broker.any_queue(topic.write_queue_nums).ok_or_else(|| {
            Rejection::new(
                response::NO_PERMISSION,
                format!("topic[{}] has no queue that can be written", topic.topic_name),
            )
        })
    }

    fn submit(
        &self,
        broker: &Arc<Broker>,
        call: &mut Call,
        records: &[MessageRecord],
        producer: impl FnOnce(remoting::Responder, Instant) -> Producer,
    ) -> Result<Reply, Rejection> {
        let batch = drafts::batch(records, ()).map_err(|error| {
            Rejection::new(response::MESSAGE_ILLEGAL, self.illegal(&error.to_string()))
        })?;
        let producer = producer(call.take_responder()?, call.received);
        let batch = store::append_log::Batch {
            buffer: batch.buffer,
            lengths: batch.lengths,
            token: Pending::Send(Box::new(producer)),
        };
        match broker.submit(batch) {
            Ok(()) => Ok(Reply::Later),
            Err(refused) => {
                broker.stats.send_failed();
                if let Pending::Send(producer) = refused.batch.token {
                    call.responder = Some(producer.responder);
                }
                Err(pending::refused(&refused.cause, self.config.max_message_size))
            }
        }
    }

    /// Java's text for a message that is too long, with the cause.
    fn illegal(&self, cause: &str) -> String {
        format!(
            "the message is illegal, maybe msg body or properties length not matched. msg body length limit {}B, msg properties length limit 32KB. {cause}",
            self.config.max_message_size
        )
    }
}

/// Finished records, and what the answer says of them.
#[derive(Debug)]
struct Composed {
    records: Vec<MessageRecord>,
    topic: String,
    queue_id: i32,
    unique_key: Option<String>,
    recall_handle: Option<String>,
}

impl Marks {
    /// As configured.
    pub(crate) fn of(config: &Arc<BrokerConfig>) -> Self {
        Self { config: Arc::clone(config) }
    }

    /// Java sets the marks before it checks the message, and loses them with an exception.
    fn on_rejection(&self, rejection: Rejection) -> Rejection {
        if matches!(rejection.code, response::SYSTEM_ERROR | response::SYSTEM_BUSY) {
            return rejection;
        }
        rejection
            .with_field(key::MSG_REGION, self.config.region_id.as_str())
            .with_field(key::TRACE_ON, if self.config.trace_on { "true" } else { "false" })
    }
}
