//! Pulling from queues and reading offsets.

use std::{sync::Arc, time::Duration};

use protocol::{
    body::MessageQueue,
    code::{request, response},
    header::{
        BoundaryType, GetMaxOffsetRequest, GetMaxOffsetResponse, GetMinOffsetRequest,
        GetMinOffsetResponse, PullMessageRequest, PullMessageResponse, QueryConsumerOffsetRequest,
        QueryConsumerOffsetResponse, SearchOffsetRequest, SearchOffsetResponse,
        UpdateConsumerOffsetRequest,
    },
};

use crate::{
    Client, Received,
    error::{OffsetError, PullError, RequestError, RouteError},
    message::Tags,
    request::Answer,
    routes::Route,
};

/// Where a consumer begins in a queue of which it has no progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beginning {
    /// At the oldest message.
    First,
    /// Behind the newest message.
    Last,
    /// At the first message stored at this time or later, in milliseconds since 1970.
    Time(i64),
}

/// What to pull.
#[derive(Debug, Clone)]
pub struct PullRequest {
    /// Offset of the first message.
    pub offset: i64,
    /// Tags to take: `*` or `TagA || TagB`.
    pub tags: String,
    /// Messages at most.
    pub count: i32,
    /// How long the broker may wait for a message when there is none. It may take some seconds
    /// longer, as Java's broker looks every 5 s.
    pub wait: Option<Duration>,
}

impl PullRequest {
    /// All messages from `offset` on, 32 at a time, without waiting.
    pub fn at(offset: i64) -> Self {
        Self { offset, tags: "*".to_owned(), count: 32, wait: None }
    }
}

/// What a pull gave.
#[derive(Debug)]
pub struct Pulled {
    /// The messages that are wanted.
    pub messages: Vec<Received>,
    /// Where to go on.
    pub next: i64,
    /// Offset of the oldest message of the queue.
    pub min: i64,
    /// Offset behind the newest message of the queue.
    pub max: i64,
    /// The asked offset is not in the queue; `next` is.
    pub moved: bool,
}

/// Pulls from queues that the application chooses, and keeps offsets at the broker if it wants.
#[derive(Debug, Clone)]
pub struct PullConsumer {
    client: Arc<Client>,
    group: String,
}

impl PullConsumer {
    /// A consumer of a group. It does not join: no heartbeat, no share of the queues.
    pub fn new(client: Arc<Client>, group: impl Into<String>) -> Self {
        Self { client, group: group.into() }
    }

    /// The readable queues of a topic.
    ///
    /// # Errors
    /// See [`RouteError`].
    pub async fn queues(&self, topic: &str) -> Result<Vec<MessageQueue>, RouteError> {
        Ok(self.client.route(topic).await?.readable())
    }

    /// Messages of a queue.
    ///
    /// # Errors
    /// See [`PullError`].
    pub async fn pull(
        &self,
        queue: &MessageQueue,
        wanted: &PullRequest,
    ) -> Result<Pulled, PullError> {
        self.pull_by(&queue.topic, queue, wanted).await
    }

    /// As [`PullConsumer::pull`] for a light queue, which no name server knows: it lies where the
    /// topic lies whose messages name it.
    ///
    /// # Errors
    /// See [`PullError`].
    pub async fn pull_light(
        &self,
        topic: &str,
        light: &MessageQueue,
        wanted: &PullRequest,
    ) -> Result<Pulled, PullError> {
        self.pull_by(topic, light, wanted).await
    }

    async fn pull_by(
        &self,
        routed: &str,
        queue: &MessageQueue,
        wanted: &PullRequest,
    ) -> Result<Pulled, PullError> {
        let route = self.client.route(routed).await?;
        let address = route.address(&queue.broker_name, 0).ok_or_else(|| PullError::NoBroker {
            topic: queue.topic.clone(),
            broker: queue.broker_name.clone(),
        })?;
        let tags = Tags::parse(&wanted.tags);
        let header = self.pull_header(queue, wanted, &tags);
        let timeout = CALL + wanted.wait.map_or(Duration::ZERO, |wait| wait + LATE);
        let result = self
            .client
            .request("pull", address, request::PULL_MESSAGE)
            .header(&header)
            .timeout(timeout)
            .send_accepting(&PULLED)
            .await;
        let answer = match result {
            Ok(answer) => answer,
            Err(error) => {
                self.client.doubt_route(routed);
                return Err(error.into());
            }
        };
        Ok(read(&answer, queue, &tags)?)
    }

    /// Offset of the oldest message.
    ///
    /// # Errors
    /// See [`OffsetError`].
    pub async fn min_offset(&self, queue: &MessageQueue) -> Result<i64, OffsetError> {
        let header = GetMinOffsetRequest { topic: queue.topic.clone(), queue_id: queue.queue_id };
        let (route, operation) = (self.route(queue).await?, "look-up of the oldest offset");
        let answer = self
            .client
            .request(operation, address(&route, queue)?, request::GET_MIN_OFFSET)
            .header(&header)
            .send()
            .await?;
        Ok(answer.header::<GetMinOffsetResponse>()?.offset)
    }

    /// Offset behind the newest message.
    ///
    /// # Errors
    /// See [`OffsetError`].
    pub async fn max_offset(&self, queue: &MessageQueue) -> Result<i64, OffsetError> {
        let header = GetMaxOffsetRequest {
            topic: queue.topic.clone(),
            queue_id: queue.queue_id,
            committed: true,
        };
        let (route, operation) = (self.route(queue).await?, "look-up of the newest offset");
        let answer = self
            .client
            .request(operation, address(&route, queue)?, request::GET_MAX_OFFSET)
            .header(&header)
            .send()
            .await?;
        Ok(answer.header::<GetMaxOffsetResponse>()?.offset)
    }

    /// Offset of the first message stored at `millis` since 1970 or later.
    ///
    /// # Errors
    /// See [`OffsetError`].
    pub async fn offset_at(&self, queue: &MessageQueue, millis: i64) -> Result<i64, OffsetError> {
        let header = SearchOffsetRequest {
            topic: queue.topic.clone(),
            queue_id: queue.queue_id,
            timestamp: millis,
            boundary_type: BoundaryType::Lower,
        };
        let (route, operation) = (self.route(queue).await?, "search of an offset by time");
        let answer = self
            .client
            .request(operation, address(&route, queue)?, request::SEARCH_OFFSET_BY_TIMESTAMP)
            .header(&header)
            .send()
            .await?;
        Ok(answer.header::<SearchOffsetResponse>()?.offset)
    }

    /// The offset that the group committed; `None` if it has none.
    ///
    /// # Errors
    /// See [`OffsetError`].
    pub async fn committed(&self, queue: &MessageQueue) -> Result<Option<i64>, OffsetError> {
        let header = QueryConsumerOffsetRequest {
            consumer_group: self.group.clone(),
            topic: queue.topic.clone(),
            queue_id: queue.queue_id,
            set_zero_if_not_found: Some(false),
        };
        let (route, operation) = (self.route(queue).await?, "look-up of a group's offset");
        let answer = self
            .client
            .request(operation, address(&route, queue)?, request::QUERY_CONSUMER_OFFSET)
            .header(&header)
            .send_accepting(&[response::SUCCESS, response::QUERY_NOT_FOUND])
            .await?;
        if answer.command.code == response::QUERY_NOT_FOUND {
            return Ok(None);
        }
        Ok(Some(answer.header::<QueryConsumerOffsetResponse>()?.offset))
    }

    /// Commits an offset for the group: everything before it is done.
    ///
    /// # Errors
    /// See [`OffsetError`].
    pub async fn commit(&self, queue: &MessageQueue, offset: i64) -> Result<(), OffsetError> {
        let header = UpdateConsumerOffsetRequest {
            consumer_group: self.group.clone(),
            topic: queue.topic.clone(),
            queue_id: Some(queue.queue_id),
            commit_offset: Some(offset),
        };
        let (route, operation) = (self.route(queue).await?, "commit of an offset");
        self.client
            .request(operation, address(&route, queue)?, request::UPDATE_CONSUMER_OFFSET)
            .header(&header)
            .send()
            .await?;
        Ok(())
    }

    /// The offset at which a beginning lies in a queue.
    ///
    /// # Errors
    /// See [`OffsetError`].
    pub async fn offset_of(
        &self,
        queue: &MessageQueue,
        beginning: Beginning,
    ) -> Result<i64, OffsetError> {
        match beginning {
            Beginning::First => self.min_offset(queue).await,
            Beginning::Last => self.max_offset(queue).await,
            Beginning::Time(millis) => self.offset_at(queue, millis).await,
        }
    }

    async fn route(&self, queue: &MessageQueue) -> Result<Route, RouteError> {
        self.client.route(&queue.topic).await
    }

    fn pull_header(
        &self,
        queue: &MessageQueue,
        wanted: &PullRequest,
        tags: &Tags,
    ) -> PullMessageRequest {
        let suspend = if wanted.wait.is_some() { SUSPEND } else { 0 };
        PullMessageRequest {
            consumer_group: self.group.clone(),
            topic: queue.topic.clone(),
            queue_id: queue.queue_id,
            queue_offset: wanted.offset,
            max_msg_nums: wanted.count.max(1),
            // The subscription comes along, so that a pull needs no heartbeat before it.
            sys_flag: suspend | SUBSCRIPTION,
            commit_offset: 0,
            suspend_timeout_millis: wanted
                .wait
                .map_or(0, |wait| i64::try_from(wait.as_millis()).unwrap_or(i64::MAX)),
            subscription: Some(tags.expression.clone()),
            sub_version: 0,
            expression_type: Some("TAG".to_owned()),
            ..PullMessageRequest::default()
        }
    }
}

fn address<'a>(route: &'a Route, queue: &MessageQueue) -> Result<&'a str, OffsetError> {
    route.address(&queue.broker_name, 0).ok_or_else(|| OffsetError::NoBroker {
        topic: queue.topic.clone(),
        broker: queue.broker_name.clone(),
    })
}

fn read(answer: &Answer, queue: &MessageQueue, tags: &Tags) -> Result<Pulled, RequestError> {
    let header: PullMessageResponse = answer.header()?;
    let mut messages = Vec::new();
    if answer.command.code == response::SUCCESS {
        messages = Received::read_all(&answer.command.body, &queue.broker_name)
            .map_err(|error| answer.malformed(error.to_string()))?;
        for message in &mut messages {
            message.queue_offset += header.offset_delta.unwrap_or(0);
        }
        messages.retain(|message| tags.wants(message));
    }
    Ok(Pulled {
        messages,
        next: header.next_begin_offset,
        min: header.min_offset,
        max: header.max_offset,
        moved: answer.command.code == response::PULL_OFFSET_MOVED,
    })
}

/// Codes of an answer that says where to go on.
const PULLED: [i32; 4] = [
    response::SUCCESS,
    response::PULL_NOT_FOUND,
    response::PULL_RETRY_IMMEDIATELY,
    response::PULL_OFFSET_MOVED,
];

/// Bit of a pull that may wait at the broker (`PullSysFlag.java`).
const SUSPEND: i32 = 2;
/// Bit of a pull that brings its subscription along.
const SUBSCRIPTION: i32 = 4;
/// Time for a pull that need not wait.
const CALL: Duration = Duration::from_secs(10);
/// How much later than asked a broker may answer a waiting pull: Java's looks every 5 s.
const LATE: Duration = Duration::from_secs(10);
