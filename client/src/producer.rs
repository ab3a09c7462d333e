//! Sending.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::{Bytes, BytesMut};
use protocol::{
    body::{MessageQueue, TopicRouteData},
    code::{request, response},
    header::SendMessageRequest,
    message::{
        batch::{self, BatchMessage},
        properties::{self, key},
    },
    name,
};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::{
    Client, Message,
    error::{RequestError, RouteError, SendError},
    request::Request,
    routes::Route,
    unique_id::{self, now_millis},
};

mod outcome;

pub use outcome::{SendStatus, Sent};

/// How a producer behaves.
#[derive(Debug, Clone)]
pub struct ProducerOptions {
    /// Its group.
    pub group: String,
    /// Time that one message may take, repeats included. Java: 3 s.
    pub timeout: Duration,
    /// How often a failed message is sent again, where there is time. Java: 2.
    pub retries: u32,
    /// Sends that may wait for their answer at a time; more wait for their turn.
    pub window: usize,
    /// Queues that a topic gets which this producer creates by its first message. Java: 4.
    pub new_topic_queues: i32,
}

impl ProducerOptions {
    /// Java's values, and a window of 1024.
    pub fn new(group: impl Into<String>) -> Self {
        Self {
            group: group.into(),
            timeout: Duration::from_secs(3),
            retries: 2,
            window: 1024,
            new_topic_queues: 4,
        }
    }
}

/// Sends messages. Calls may run at the same time; the window bounds how many do.
#[derive(Debug)]
pub struct Producer {
    client: Arc<Client>,
    options: ProducerOptions,
    window: Semaphore,
    /// Which queue is next.
    turn: AtomicU64,
}

/// What is sent in one request.
#[derive(Debug)]
struct Parcel {
    code: i32,
    /// Complete but for the queue.
    header: SendMessageRequest,
    body: Bytes,
    /// The client's ids of the messages.
    ids: Vec<String>,
}

impl Parcel {
    fn topic(&self) -> &str {
        &self.header.topic
    }
}

impl Producer {
    /// Joins the group. Brokers hear of it with the first heartbeat.
    pub fn start(client: Arc<Client>, options: ProducerOptions) -> Self {
        client.members.producer_joins(&options.group);
        let window = Semaphore::new(options.window.clamp(1, Semaphore::MAX_PERMITS));
        Self { client, options, window, turn: AtomicU64::new(unique_id::random()) }
    }

    /// Sends a message and waits until it is stored. Another queue, on another broker if there is
    /// one, is tried when that fails.
    ///
    /// # Errors
    /// See [`SendError`]; after [`SendError::Failed`] the message may be stored all the same.
    pub async fn send(&self, message: Message) -> Result<Sent, SendError> {
        self.deliver(self.parcel(message)?, None).await
    }

    /// Sends a message to a queue of its id, on whichever broker has it.
    ///
    /// # Errors
    /// See [`SendError`].
    pub async fn send_to(&self, message: Message, queue_id: i32) -> Result<Sent, SendError> {
        self.deliver(self.parcel(message)?, Some(queue_id)).await
    }

    /// Sends messages of one topic in one request: all are stored or none, next to each other.
    ///
    /// # Errors
    /// See [`SendError`]; [`SendError::Malformed`] also for none, for two topics and for delays.
    pub async fn send_batch(&self, messages: Vec<Message>) -> Result<Sent, SendError> {
        self.deliver(self.batch_parcel(messages)?, None).await
    }

    /// Sends a message without an answer: nobody knows whether it arrives.
    ///
    /// # Errors
    /// See [`SendError`]; a message that is lost later is lost without a word.
    pub async fn send_oneway(&self, message: Message) -> Result<(), SendError> {
        let parcel = self.parcel(message)?;
        let _permit = self.permit().await?;
        let route = self.publish_route(parcel.topic()).await?;
        let queue = self.choose(&route, None, None)?;
        self.request(&parcel, &route, &queue).send_oneway().await.map_err(|cause| {
            SendError::Failed { topic: parcel.topic().to_owned(), attempts: 1, cause }
        })
    }

    /// Leaves the group.
    pub async fn stop(self) {
        self.window.close();
        if self.client.members.producer_leaves(&self.options.group) {
            self.client.unregister(Some(&self.options.group), None).await;
        }
    }

    async fn deliver(&self, parcel: Parcel, queue_id: Option<i32>) -> Result<Sent, SendError> {
        let deadline = Instant::now() + self.options.timeout;
        let _permit = tokio::time::timeout(self.options.timeout, self.permit())
            .await
            .unwrap_or_else(|_elapsed| Err(self.out_of_time(&parcel)))?;
        let mut avoid: Option<MessageQueue> = None;
        let mut attempts = 0;
        loop {
            let route = self.publish_route(parcel.topic()).await?;
            let queue = self.choose(&route, queue_id, avoid.as_ref())?;
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(self.out_of_time(&parcel));
            }
            attempts += 1;
            let error = match self.attempt(&parcel, &route, &queue, left).await {
                Ok(sent) => return Ok(sent),
                Err(error) => error,
            };
            self.client.doubt_route(parcel.topic());
            let spent = attempts > self.options.retries || Instant::now() >= deadline;
            if spent || !worth_repeating(&error) {
                let topic = parcel.topic().to_owned();
                return Err(SendError::Failed { topic, attempts, cause: error });
            }
            tracing::debug!(%error, attempts, "sending again");
            avoid = Some(queue);
            // A broker that is away for a moment gets that moment, within the message's time.
            tokio::time::sleep(PAUSE.min(left)).await;
        }
    }

    async fn attempt(
        &self,
        parcel: &Parcel,
        route: &Route,
        queue: &MessageQueue,
        left: Duration,
    ) -> Result<Sent, RequestError> {
        let request = self.request(parcel, route, queue).timeout(left);
        let answer = request.send_accepting(&outcome::STORED).await?;
        outcome::read(&answer, &parcel.ids, queue)
    }

    fn request<'a>(
        &'a self,
        parcel: &Parcel,
        route: &'a Route,
        queue: &MessageQueue,
    ) -> Request<'a> {
        // A queue was chosen for having a master, so that an address is there.
        let address = route.master_address(&queue.broker_name).unwrap_or_default();
        let mut header = parcel.header.clone();
        header.queue_id = queue.queue_id;
        header.bname = Some(queue.broker_name.clone());
        let operation =
            if parcel.code == request::SEND_BATCH_MESSAGE { "send of a batch" } else { "send" };
        let request = self.client.request(operation, address, parcel.code);
        request.send_header(&header).body(parcel.body.clone())
    }

    /// The route to send by: the topic's, or for a new topic that of the template from which
    /// brokers create it (`DefaultMQProducerImpl.tryToFindTopicPublishInfo`).
    async fn publish_route(&self, topic: &str) -> Result<Route, RouteError> {
        let unknown = match self.client.route(topic).await {
            Err(error @ RouteError::Unknown { .. }) => error,
            other => return other,
        };
        let template = match self.client.route(name::AUTO_CREATE_TOPIC_KEY_TOPIC).await {
            Ok(template) => template,
            // The topic is what the caller asked for.
            Err(RouteError::Unknown { .. }) => return Err(unknown),
            Err(error) => return Err(error),
        };
        let mut data = TopicRouteData::clone(&template.data);
        for queue in &mut data.queue_datas {
            queue.read_queue_nums = queue.read_queue_nums.min(self.options.new_topic_queues);
            queue.write_queue_nums = queue.write_queue_nums.min(self.options.new_topic_queues);
        }
        Ok(Route { topic: topic.to_owned(), data: Arc::new(data) })
    }

    /// The next queue in turn; after a failure one of another broker, or else another queue.
    fn choose(
        &self,
        route: &Route,
        queue_id: Option<i32>,
        avoid: Option<&MessageQueue>,
    ) -> Result<MessageQueue, SendError> {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let none = || {
            // A master that is gone has a successor soon: the next message asks where it is.
            self.client.doubt_route(&route.topic);
            SendError::NoQueue { topic: route.topic.clone(), queue: queue_id }
        };
        if queue_id.is_none() && avoid.is_none() {
            // Nearly every message takes this way, so no list is made.
            let index = usize::try_from(turn % route.writable_count().max(1) as u64);
            return index.ok().and_then(|index| route.writable_at(index)).ok_or_else(none);
        }
        let mut queues = route.writable();
        if let Some(id) = queue_id {
            queues.retain(|queue| queue.queue_id == id);
        }
        if let Some(failed) = avoid {
            if queues.iter().any(|queue| queue.broker_name != failed.broker_name) {
                queues.retain(|queue| queue.broker_name != failed.broker_name);
            } else if queues.len() > 1 {
                queues.retain(|queue| queue != failed);
            }
        }
        match usize::try_from(turn % queues.len().max(1) as u64) {
            Ok(index) if index < queues.len() => Ok(queues.swap_remove(index)),
            _ => Err(none()),
        }
    }

    fn parcel(&self, mut message: Message) -> Result<Parcel, SendError> {
        message.check()?;
        let id = message.ensure_unique_id();
        let header = SendMessageRequest {
            flag: message.flag,
            properties: Some(properties::encode(&message.properties)),
            batch: Some(false),
            ..self.header(&message.topic)
        };
        Ok(Parcel { code: request::SEND_MESSAGE_V2, header, body: message.body, ids: vec![id] })
    }

    fn batch_parcel(&self, mut messages: Vec<Message>) -> Result<Parcel, SendError> {
        let topic = messages.first().map(|first| first.topic.clone()).unwrap_or_default();
        let malformed =
            |reason: &str| SendError::Malformed { topic: topic.clone(), reason: reason.to_owned() };
        let mut ids = Vec::with_capacity(messages.len());
        for message in &mut messages {
            message.check()?;
            if message.topic != topic {
                return Err(malformed("the messages of a batch must have one topic"));
            }
            if [key::DELAY, key::TRAN_MSG].iter().any(|name| message.properties.get(name).is_some())
            {
                return Err(malformed("a batch has neither delayed nor transactional messages"));
            }
            ids.push(message.ensure_unique_id());
        }
        if messages.is_empty() {
            return Err(malformed("a batch needs at least one message"));
        }
        let parts: Vec<BatchMessage> = messages
            .into_iter()
            .map(|message| BatchMessage {
                flag: message.flag,
                body: message.body,
                properties: properties::encode(&message.properties),
            })
            .collect();
        let mut body = BytesMut::new();
        batch::encode(&parts, &mut body).map_err(|error| malformed(&error.to_string()))?;
        let header = SendMessageRequest { batch: Some(true), ..self.header(&topic) };
        Ok(Parcel { code: request::SEND_BATCH_MESSAGE, header, body: body.freeze(), ids })
    }

    fn header(&self, topic: &str) -> SendMessageRequest {
        SendMessageRequest {
            producer_group: self.options.group.clone(),
            topic: topic.to_owned(),
            default_topic: name::AUTO_CREATE_TOPIC_KEY_TOPIC.to_owned(),
            default_topic_queue_nums: self.options.new_topic_queues,
            born_timestamp: now_millis(),
            reconsume_times: Some(0),
            unit_mode: Some(false),
            ..SendMessageRequest::default()
        }
    }

    async fn permit(&self) -> Result<SemaphorePermit<'_>, SendError> {
        self.window
            .acquire()
            .await
            .map_err(|_closed| SendError::Stopped(self.options.group.clone()))
    }

    fn out_of_time(&self, parcel: &Parcel) -> SendError {
        SendError::OutOfTime { topic: parcel.topic().to_owned(), timeout: self.options.timeout }
    }
}

/// Whether another try may succeed: no answer, or one of the codes on which Java's producer tries
/// again (`DefaultMQProducer.retryResponseCodes`).
fn worth_repeating(error: &RequestError) -> bool {
    match error {
        RequestError::Call { .. } => true,
        RequestError::Refused { code, .. } => RETRIED.contains(code),
        RequestError::Answer { .. } => false,
    }
}

const RETRIED: [i32; 8] = [
    response::TOPIC_NOT_EXIST,
    response::SERVICE_NOT_AVAILABLE,
    response::SYSTEM_ERROR,
    response::SYSTEM_BUSY,
    response::NO_PERMISSION,
    response::NO_BUYER_ID,
    response::NOT_IN_CURRENT_UNIT,
    response::GO_AWAY,
];

/// Time before a message is sent again.
const PAUSE: Duration = Duration::from_millis(20);
