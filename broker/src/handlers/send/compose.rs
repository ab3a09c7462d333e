//! From the request to finished records.

use std::{net::SocketAddr, sync::Arc};

use bytes::Bytes;
use protocol::{
    code::response,
    message::{
        batch,
        properties::{self, MAX_LENGTH, Properties, key},
        record::MessageRecord,
        sys_flag::MULTI_TAGS,
    },
    name,
};

use super::{Composed, Send};
use crate::{
    broker::Broker,
    call::{Call, Rejection},
    clock,
    drafts::{self, LONGEST_SENT, Unsupported},
    reply::SEE_FAQ,
    topics::{self, Topic},
};

/// The most bytes that the records of one batch have, as a multiple of `maxMessageSize`: a record
/// has more bytes than its message in the batch.
const BATCH_GROWTH: usize = 4;

/// Producers from this version on say themselves how often a message may be retried.
const SAYS_MAX_RECONSUME_TIMES: i32 = 121;

impl Send {
    /// One message: one record.
    pub(super) fn single(
        &self,
        broker: &Arc<Broker>,
        (born_host, queue_id): (SocketAddr, i32),
        topic: &Topic,
        call: &Call,
    ) -> Result<Composed, Rejection> {
        let request = &self.request;
        self.check_body(&call.command.body)?;
        let mut properties = drafts::own(request.properties.as_deref());
        let mut record = self.record(broker, (born_host, queue_id), call.command.body.clone());
        if topic.topic_filter_type == topics::MULTI_TAG {
            record.sys_flag |= MULTI_TAGS;
        }
        if let Some(group) = name::group_of_retry_topic(&request.topic) {
            self.retry_or_dead_letter(broker, (call.command.version, group), &mut record)?
                .then(|| properties.insert(key::DELAY, "-1"));
        }
        let level = delay_level(&properties)?;
        let is_retry = record.reconsume_times > 0 && level > 0;
        self.check_features(&properties, is_retry)?;
        let unique_key = self.mark(broker, &mut properties);
        let (topic, queue_id) = (record.topic.clone(), record.queue_id);
        if level > 0 {
            let levels = &self.config.message_delay_level;
            drafts::schedule(&mut record, &mut properties, level, levels);
        }
        record.properties = self.text(&properties)?;
        self.check_length(&record)?;
        Ok(Composed { records: vec![record], topic, queue_id, unique_key: Some(unique_key) })
    }

    /// A batch: one record for each of its messages, all in one queue.
    pub(super) fn batch(
        &self,
        broker: &Arc<Broker>,
        (born_host, queue_id): (SocketAddr, i32),
        body: &Bytes,
    ) -> Result<Composed, Rejection> {
        let request = &self.request;
        let illegal = |text: String| Rejection::new(response::MESSAGE_ILLEGAL, text);
        if request.topic.len() > usize::from(i8::MAX.unsigned_abs()) {
            return Err(illegal(format!("message topic length too long {}", request.topic.len())));
        }
        if name::group_of_retry_topic(&request.topic).is_some() {
            return Err(illegal(format!(
                "batch request does not support retry group {}",
                request.topic
            )));
        }
        self.check_body(body)?;
        let messages =
            batch::decode(body).map_err(|error| illegal(self.illegal(&error.to_string())))?;
        let most = BATCH_GROWTH * self.config.max_message_size as usize;
        let mut records = Vec::with_capacity(messages.len());
        let mut bytes = 0;
        for message in messages {
            let mut properties = drafts::own(Some(&message.properties));
            self.check_features(&properties, false)?;
            if delay_level(&properties)? > 0 {
                return Err(illegal("a batch holds no delayed message; send it alone".to_owned()));
            }
            properties.insert(key::CLUSTER, self.config.broker_cluster_name.as_str());
            let mut record = self.record(broker, (born_host, queue_id), message.body);
            record.flag = message.flag;
            record.properties = self.text(&properties)?;
            self.check_length(&record)?;
            bytes += record.encoded_len();
            if bytes > most {
                return Err(illegal(self.illegal(&format!(
                    "its records have more than {most}B; send fewer messages at a time"
                ))));
            }
            records.push(record);
        }
        let unique_key =
            properties::find(request.properties.as_deref().unwrap_or_default(), key::UNIQ_KEY)
                .map(str::to_owned);
        Ok(Composed { records, topic: request.topic.clone(), queue_id, unique_key })
    }

    fn check_body(&self, body: &Bytes) -> Result<(), Rejection> {
        let limit = self.config.max_message_size as usize;
        let cause = if body.is_empty() {
            "its body is empty".to_owned()
        } else if body.len() > limit {
            format!("its body has {}B", body.len())
        } else {
            return Ok(());
        };
        Err(Rejection::new(response::MESSAGE_ILLEGAL, self.illegal(&cause)))
    }

    /// Whether the record fits into the log now and after it was given back.
    fn check_length(&self, record: &MessageRecord) -> Result<(), Rejection> {
        let length = record.encoded_len();
        if length <= LONGEST_SENT {
            return Ok(());
        }
        let cause = format!("with properties and headers it has {length}B of {LONGEST_SENT}B");
        Err(Rejection::new(response::MESSAGE_ILLEGAL, self.illegal(&cause)))
    }

    fn check_features(&self, properties: &Properties, is_retry: bool) -> Result<(), Rejection> {
        let host = &self.config.broker_ip1.0;
        let (code, text) = match drafts::unsupported(properties, self.request.sys_flag, is_retry) {
            None => return Ok(()),
            Some(Unsupported::Transaction) => (
                response::NO_PERMISSION,
                format!(
                    "the broker[{host}] sending transaction message is forbidden: transactions do not exist yet"
                ),
            ),
            // Java's code here, 1, makes producers try in vain on every broker.
            Some(Unsupported::Timer) => (
                response::MESSAGE_ILLEGAL,
                "accurate timer message is not enabled: timer messages do not exist yet; use a delay level (property DELAY)".to_owned(),
            ),
            Some(Unsupported::LightQueues) => (
                response::MESSAGE_ILLEGAL,
                "light queues (property INNER_MULTI_DISPATCH) do not exist yet; send without it".to_owned(),
            ),
        };
        Err(Rejection::new(code, text))
    }

    fn record(
        &self,
        broker: &Arc<Broker>,
        (born_host, queue_id): (SocketAddr, i32),
        body: Bytes,
    ) -> MessageRecord {
        let request = &self.request;
        MessageRecord {
            queue_id,
            flag: request.flag,
            queue_offset: 0,
            physical_offset: 0,
            sys_flag: request.sys_flag,
            born_timestamp: request.born_timestamp,
            born_host,
            store_timestamp: 0,
            store_host: broker.store_host(),
            reconsume_times: request.reconsume_times.unwrap_or(0),
            prepared_transaction_offset: 0,
            body,
            topic: request.topic.clone(),
            properties: String::new(),
        }
    }

    /// Decides whether a message for a retry topic goes to the dead letters instead, and says so
    /// (`SendMessageProcessor.handleRetryAndDLQ`). A group that holds leases consumes in order and
    /// never looks at its retry topic.
    fn retry_or_dead_letter(
        &self,
        broker: &Arc<Broker>,
        (version, group): (i32, &str),
        record: &mut MessageRecord,
    ) -> Result<bool, Rejection> {
        let found = broker.group(group).ok_or_else(|| {
            Rejection::new(
                response::SUBSCRIPTION_GROUP_NOT_EXIST,
                format!("subscription group not exist, {group}\n{SEE_FAQ}"),
            )
        })?;
        let said = self.request.max_reconsume_times;
        let most =
            said.filter(|_| version >= SAYS_MAX_RECONSUME_TIMES).unwrap_or(found.retry_max_times);
        let in_order = broker.locks.holds_any(group, std::time::Instant::now());
        if record.reconsume_times <= most && !in_order {
            return Ok(false);
        }
        let dead = topics::read_write(&name::dlq_topic(group), 1, false);
        record.topic = dead.topic_name.clone();
        broker.ensure_topic_soon(dead);
        record.queue_id = 0;
        Ok(true)
    }

    /// Sets what the broker sets on each message; gives its unique key.
    fn mark(&self, broker: &Arc<Broker>, properties: &mut Properties) -> String {
        properties.insert(key::CLUSTER, self.config.broker_cluster_name.as_str());
        properties.insert(key::MSG_REGION, self.config.region_id.as_str());
        properties.insert(key::TRACE_ON, if self.config.trace_on { "true" } else { "false" });
        if let Some(present) = properties.get(key::UNIQ_KEY) {
            return present.to_owned();
        }
        let fresh = broker.unique_ids.next(clock::now_millis());
        properties.insert(key::UNIQ_KEY, fresh.as_str());
        fresh
    }

    fn text(&self, properties: &Properties) -> Result<String, Rejection> {
        let length = properties.encoded_len();
        if length > MAX_LENGTH {
            let cause = format!("its properties have {length}B");
            return Err(Rejection::new(response::MESSAGE_ILLEGAL, self.illegal(&cause)));
        }
        Ok(properties::encode(properties))
    }
}

/// The delay level that a message asks for; 0 or less for none. Java fails on text that is no
/// number, with the same code.
fn delay_level(properties: &Properties) -> Result<i32, Rejection> {
    let Some(text) = properties.get(key::DELAY) else { return Ok(0) };
    text.parse().map_err(|_no_number| {
        Rejection::new(
            response::SYSTEM_ERROR,
            format!("property DELAY is {text:?}: For input string: {text:?} is no delay level"),
        )
    })
}
