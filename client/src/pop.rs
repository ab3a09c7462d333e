//! Taking messages of a topic for a time, and acknowledging them (`MQClientAPIImpl.processPopResponse`).

use std::{collections::HashMap, sync::Arc, time::Duration};

use protocol::{
    code::{request, response},
    header::{AckMessageRequest, PopMessageRequest, PopMessageResponse},
    message::{properties::key, record},
    name,
};

use crate::{
    Client, Received,
    error::{PullError, RequestError, RouteError},
    request::Answer,
};

/// What to take.
#[derive(Debug, Clone)]
pub struct PopRequest {
    /// Messages at most.
    pub count: i32,
    /// For how long they are nobody else's. What is not acknowledged by then comes again.
    pub invisible: Duration,
    /// How long the broker may wait for a message when there is none.
    pub wait: Option<Duration>,
}

/// A message that was taken.
#[derive(Debug, Clone)]
pub struct Popped {
    /// The message.
    pub message: Received,
    /// Names this delivery of it.
    handle: String,
    /// The topic that it lies in: its own, or one of those that messages come again in.
    lies_in: String,
}

/// What a pop gave.
#[derive(Debug, Default)]
pub struct Pops {
    /// The messages.
    pub messages: Vec<Popped>,
    /// How many more there are, as far as the broker says.
    pub rest: i64,
}

/// Takes messages of topics for a group.
#[derive(Debug, Clone)]
pub struct PopConsumer {
    client: Arc<Client>,
    group: String,
}

impl PopConsumer {
    /// A consumer of a group. Pops need no heartbeat.
    pub fn new(client: Arc<Client>, group: impl Into<String>) -> Self {
        Self { client, group: group.into() }
    }

    /// Names of the brokers that have the topic.
    ///
    /// # Errors
    /// See [`RouteError`].
    pub async fn brokers(&self, topic: &str) -> Result<Vec<String>, RouteError> {
        let route = self.client.route(topic).await?;
        Ok(route.data.broker_datas.iter().map(|broker| broker.broker_name.clone()).collect())
    }

    /// Takes messages of any queue that the topic has on a broker.
    ///
    /// # Errors
    /// See [`PullError`].
    pub async fn pop(
        &self,
        topic: &str,
        broker: &str,
        wanted: &PopRequest,
    ) -> Result<Pops, PullError> {
        let address = self.address(topic, broker).await?;
        let wait = wanted.wait.unwrap_or_default();
        let header = PopMessageRequest {
            consumer_group: self.group.clone(),
            topic: topic.to_owned(),
            queue_id: ANY_QUEUE,
            max_msg_nums: wanted.count.max(1),
            invisible_time: millis(wanted.invisible),
            poll_time: millis(wait),
            init_mode: FROM_FIRST,
            order: Some(false),
            ..PopMessageRequest::default()
        };
        let answer = self
            .client
            .request("pop", &address, request::POP_MESSAGE)
            .header(&header)
            .timeout(CALL + wait)
            .send_accepting(&POPPED)
            .await?;
        Ok(self.read(&answer, (topic, broker))?)
    }

    /// A message that was taken is done.
    ///
    /// # Errors
    /// See [`PullError`].
    pub async fn ack(&self, popped: &Popped) -> Result<(), PullError> {
        let Popped { message, handle, lies_in } = popped;
        let address = self.address(&message.topic, &message.broker).await?;
        let header = AckMessageRequest {
            consumer_group: self.group.clone(),
            topic: lies_in.clone(),
            queue_id: message.queue_id,
            extra_info: handle.clone(),
            offset: message.queue_offset,
            lite_topic: None,
        };
        let request = self.client.request("acknowledgement", &address, request::ACK_MESSAGE);
        request.header(&header).timeout(CALL).send().await?;
        Ok(())
    }

    async fn address(&self, topic: &str, broker: &str) -> Result<String, PullError> {
        let route = self.client.route(topic).await?;
        let found = route.master_address(broker).map(ToOwned::to_owned);
        found.ok_or_else(|| PullError::NoBroker {
            topic: topic.to_owned(),
            broker: broker.to_owned(),
        })
    }

    fn read(&self, answer: &Answer, place: (&str, &str)) -> Result<Pops, RequestError> {
        let header: PopMessageResponse = answer.header()?;
        if answer.command.code != response::SUCCESS {
            return Ok(Pops { messages: Vec::new(), rest: header.rest_num });
        }
        let starts = starts(header.start_offset_info.as_deref().unwrap_or_default());
        let mut messages = Vec::new();
        for view in record::records(&answer.command.body) {
            let record = view.map_err(|error| answer.malformed(error.to_string()))?.to_record();
            let popped = self.popped(record, (&header, &starts), place);
            messages.push(popped.map_err(|reason| answer.malformed(reason))?);
        }
        Ok(Pops { messages, rest: header.rest_num })
    }

    fn popped(
        &self,
        record: record::MessageRecord,
        (header, starts): (&PopMessageResponse, &HashMap<String, String>),
        (topic, broker): (&str, &str),
    ) -> Result<Popped, String> {
        let (stored_in, queue) = (record.topic.clone(), record.queue_id);
        let mut message = Received::read(record, broker);
        let handle = match message.properties.get(key::POP_CK) {
            Some(handle) => handle.to_owned(),
            None => {
                let flag = flag(&stored_in);
                let start = starts.get(&format!("{flag} {queue}"));
                let start = start.ok_or_else(|| {
                    format!("startOffsetInfo does not name queue {queue} of {stored_in}")
                })?;
                let PopMessageResponse { pop_time, invisible_time, revive_qid, .. } = header;
                let offset = message.queue_offset;
                format!(
                    "{start} {pop_time} {invisible_time} {revive_qid} {flag} {broker} {queue} {offset}"
                )
            }
        };
        let lies_in = match handle.split(' ').nth(FLAG_WORD) {
            Some("1") => format!("{}{}_{topic}", name::RETRY_PREFIX, self.group),
            Some("2") => format!("{}{}+{topic}", name::RETRY_PREFIX, self.group),
            _ => topic.to_owned(),
        };
        topic.clone_into(&mut message.topic);
        Ok(Popped { message, handle, lies_in })
    }
}

/// Where the pop of each queue began, by flag and number of the queue: `0 3 17;1 0 5`.
fn starts(text: &str) -> HashMap<String, String> {
    let entries = text.split(';').filter_map(|entry| entry.rsplit_once(' '));
    entries.map(|(queue, start)| (queue.to_owned(), start.to_owned())).collect()
}

/// How handles name a topic (`ExtraInfoUtil.getRetry`).
fn flag(topic: &str) -> &'static str {
    match topic.strip_prefix(name::RETRY_PREFIX) {
        None => "0",
        Some(rest) if rest.contains('+') => "2",
        Some(_) => "1",
    }
}

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

/// Codes of an answer that says what there is.
const POPPED: [i32; 4] = [
    response::SUCCESS,
    response::POLLING_TIMEOUT,
    response::POLLING_FULL,
    response::PULL_NOT_FOUND,
];
const ANY_QUEUE: i32 = -1;
/// A new group begins with the oldest message (`ConsumeInitMode.java`).
const FROM_FIRST: i32 = 0;
/// Which word of a handle tells the topic.
const FLAG_WORD: usize = 4;
/// Time for a request that need not wait.
const CALL: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_are_found_by_topic_and_queue() {
        let starts = starts("0 3 17;1 0 5");
        assert_eq!(starts.get("0 3").map(String::as_str), Some("17"));
        assert_eq!(starts.get("1 0").map(String::as_str), Some("5"));
        assert_eq!(starts.get("0 0"), None);
    }

    #[test]
    fn topics_have_flags() {
        for (topic, expected) in [("T", "0"), ("%RETRY%g_T", "1"), ("%RETRY%g+T", "2")] {
            assert_eq!(flag(topic), expected);
        }
    }
}
