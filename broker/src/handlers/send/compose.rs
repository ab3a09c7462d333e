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
use store::light;

use super::{Composed, Send};
use crate::{
    broker::Broker,
    call::{Call, Rejection},
    clock,
    drafts::{self, LONGEST_SENT},
    handlers::recall::Handle,
    priority,
    reply::SEE_FAQ,
    timer,
    topics::{self, Topic},
    transaction,
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
            let room = drafts::growth_by_schedule(&request.topic);
            let has_room = drafts::fit(&mut properties, room);
            let version = call.command.version;
            let level = delay_level(&properties)?;
            let asks = (version, group, has_room);
            if self.retry_or_dead_letter(broker, asks, (&mut record, level))? {
                properties.insert(key::DELAY, "-1");
                let origin = properties.get(key::RETRY_TOPIC).unwrap_or(&request.topic);
                broker.stats.died(group, origin);
            }
        }
        if let Some(queue) = priority::take_queue(&mut properties, topic.write_queue_nums) {
            record.queue_id = queue;
        }
        let level = delay_level(&properties)?;
        let is_retry = record.reconsume_times > 0 && level > 0;
        self.check_features(&properties, is_retry)?;
        let is_half = transaction::is_half(&properties, is_retry);
        let unique_key = self.mark(broker, &mut properties);
        let (mut topic, queue_id) = (record.topic.clone(), record.queue_id);
        if is_half {
            self.check_half(&properties)?;
            // What its commit would ask for must be possible now.
            timer::hold_back(
                &mut record.clone(),
                &mut properties.clone(),
                &self.config,
                clock::now_millis(),
            )?;
            transaction::prepare(&mut record, &mut properties);
            topic = record.topic.clone();
        } else if level > 0 {
            let levels = &self.config.message_delay_level;
            drafts::schedule(&mut record, &mut properties, level, levels);
        } else {
            timer::hold_back(&mut record, &mut properties, &self.config, clock::now_millis())?;
        }
        let recall_handle = (record.topic == name::TIMER_TOPIC && !name::is_retry_topic(&topic))
            .then(|| Handle::of(&properties, &self.config.broker_name))
            .flatten()
            .map(|handle| handle.encode());
        let room = self.check_light(broker, &properties)?;
        if name::is_retry_topic(&request.topic) {
            drafts::fit_dead_letter(&mut properties);
        }
        record.properties = self.text(&record.topic, &properties)?;
        self.check_length(&record, room)?;
        Ok(Composed {
            records: vec![record],
            topic,
            queue_id,
            unique_key: Some(unique_key),
            recall_handle,
        })
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
        if name::is_retry_topic(&request.topic) {
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
            if transaction::is_half(&properties, false) {
                return Err(illegal("a batch holds no half message; send it alone".to_owned()));
            }
            if delay_level(&properties)? > 0 {
                return Err(illegal("a batch holds no delayed message; send it alone".to_owned()));
            }
            if timer::asks_for_a_time(&properties) {
                return Err(illegal("a batch holds no timer message; send it alone".to_owned()));
            }
            properties.insert(key::CLUSTER, self.config.broker_cluster_name.as_str());
            let mut record = self.record(broker, (born_host, queue_id), message.body);
            record.flag = message.flag;
            let room = self.check_light(broker, &properties)?;
            record.properties = self.text(&request.topic, &properties)?;
            self.check_length(&record, room)?;
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
        Ok(Composed {
            records,
            topic: request.topic.clone(),
            queue_id,
            unique_key,
            recall_handle: None,
        })
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

    /// Whether the record fits into the log now, after it was given back, and with `room` bytes that
    /// it gets once it goes into its own topic.
    pub(super) fn check_length(
        &self,
        record: &MessageRecord,
        room: usize,
    ) -> Result<(), Rejection> {
        let length = record.encoded_len() + room;
        if length <= LONGEST_SENT {
            return Ok(());
        }
        let cause = format!("with properties and headers it has {length}B of {LONGEST_SENT}B");
        Err(Rejection::new(response::MESSAGE_ILLEGAL, self.illegal(&cause)))
    }

    fn check_features(&self, properties: &Properties, is_retry: bool) -> Result<(), Rejection> {
        if !drafts::is_lost(properties, self.request.sys_flag, is_retry) {
            return Ok(());
        }
        Err(Rejection::new(
            response::MESSAGE_ILLEGAL,
            "sysFlag says that the message is prepared or rolled back, and property TRAN_MSG is not true; send a half message with it",
        ))
    }

    /// Whether a half message is taken. Without its group nobody could be asked about it, and it
    /// needs room for what questions add to it.
    fn check_half(&self, properties: &Properties) -> Result<(), Rejection> {
        if self.config.reject_transaction_message {
            let host = &self.config.broker_ip1.0;
            let remark = format!("the broker[{host}] sending transaction message is forbidden");
            return Err(Rejection::new(response::NO_PERMISSION, remark));
        }
        let illegal =
            |cause: String| Err(Rejection::new(response::MESSAGE_ILLEGAL, self.illegal(&cause)));
        if !properties.contains(key::PGROUP) {
            return illegal("a half message names its producer group as PGROUP".to_owned());
        }
        let length = properties.encoded_len();
        if length > MAX_LENGTH - transaction::GROWTH {
            return illegal(format!("the properties of this half message have {length}B"));
        }
        Ok(())
    }

    /// Whether the further queues that a message names may be used; gives the bytes of its offsets in
    /// them.
    fn check_light(&self, broker: &Broker, properties: &Properties) -> Result<usize, Rejection> {
        let Some(listed) = properties.get(key::INNER_MULTI_DISPATCH) else { return Ok(0) };
        let illegal =
            |cause: String| Err(Rejection::new(response::MESSAGE_ILLEGAL, self.illegal(&cause)));
        if !self.config.enable_multi_dispatch || !self.config.enable_lmq {
            return illegal(
                "property INNER_MULTI_DISPATCH needs enableLmq=true and enableMultiDispatch=true"
                    .to_owned(),
            );
        }
        let room = light::room(listed.split(light::SEPARATOR).count()).len();
        if properties.encoded_len() + room > MAX_LENGTH - transaction::GROWTH {
            return illegal("INNER_MULTI_DISPATCH names too many queues".to_owned());
        }
        let mut fresh = 0;
        for queue in listed.split(light::SEPARATOR) {
            if let Err(error) = name::validate_topic(queue) {
                return illegal(format!("INNER_MULTI_DISPATCH names {queue:?}: {error}"));
            }
            if !queue.starts_with(name::LMQ_PREFIX) {
                return illegal(format!(
                    "INNER_MULTI_DISPATCH names {queue}, and light queues begin with %LMQ%"
                ));
            }
            fresh += usize::from(broker.store.max_offset(queue, 0) == 0);
        }
        let most = self.config.max_lmq_consume_queue_num as usize;
        if fresh > 0 && broker.store.light_queues() + fresh > most {
            return Err(Rejection::new(
                response::SYSTEM_ERROR,
                format!(
                    "[LMQ_CONSUME_QUEUE_NUM_EXCEEDED]broker config enableLmq and enableMultiDispatch, lmq consumeQueue num exceed maxLmqConsumeQueueNum config num, here {most}."
                ),
            ));
        }
        Ok(room)
    }

    pub(super) fn record(
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
    /// never looks at its retry topic, and a message without room for another try gets none. A new
    /// master knows no leases; it tells the last try of an ordered consumer by the level.
    fn retry_or_dead_letter(
        &self,
        broker: &Arc<Broker>,
        (version, group, has_room): (i32, &str, bool),
        (record, level): (&mut MessageRecord, i32),
    ) -> Result<bool, Rejection> {
        let found = broker.consumer_group(group).ok_or_else(|| {
            Rejection::new(
                response::SUBSCRIPTION_GROUP_NOT_EXIST,
                format!("subscription group not exist, {group}\n{SEE_FAQ}"),
            )
        })?;
        let said = self.request.max_reconsume_times;
        let most =
            said.filter(|_| version >= SAYS_MAX_RECONSUME_TIMES).unwrap_or(found.retry_max_times);
        let times = record.reconsume_times;
        let last_in_order = times >= most && level == level_of_try(times);
        let in_order = last_in_order || broker.locks.holds_any(group, std::time::Instant::now());
        if times <= most && !in_order && has_room {
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

    pub(super) fn text(&self, topic: &str, properties: &Properties) -> Result<String, Rejection> {
        let length = properties.encoded_len();
        if length <= MAX_LENGTH {
            let text = drafts::text(topic, properties);
            if text.len() <= MAX_LENGTH {
                return Ok(text);
            }
        }
        let cause = format!("its properties have {length}B");
        Err(Rejection::new(response::MESSAGE_ILLEGAL, self.illegal(&cause)))
    }
}

/// The level of a message that a Java consumer in order sends back when it has tried it so many times,
/// this one not counted, which is the most (`ConsumeMessageOrderlyService.sendMessageBack`). One
/// without order counts the try and so asks for a level less (`DefaultMQPushConsumerImpl`).
fn level_of_try(times: i32) -> i32 {
    times.saturating_add(3)
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
