//! A member of a consumer group.

use std::{sync::Arc, time::Duration};

use protocol::{
    body::{ConsumerData, MessageQueue, SubscriptionData},
    code::request,
    header::ConsumerSendMsgBackRequest,
    name,
};
use tokio::{
    sync::{Notify, mpsc, watch},
    task::JoinHandle,
};

use crate::{
    Beginning, Client, Received,
    error::{GroupError, OffsetError, RequestError},
    message::Tags,
    unique_id::now_millis,
};

mod queue;
mod share;

use queue::Assigned;
use share::Member;

/// How a group consumer behaves.
#[derive(Debug, Clone)]
pub struct GroupOptions {
    /// The group.
    pub group: String,
    /// Topics with the tags to take: `*` or `TagA || TagB`. All members must have the same.
    pub subscriptions: Vec<(String, String)>,
    /// Where to begin in queues of which the group has no progress.
    pub beginning: Beginning,
    /// Messages that may wait for the application, and in each queue be unfinished.
    pub buffer: usize,
    /// Time between looks at who else is in the group. Java: 20 s; changes are told at once.
    pub rebalance: Duration,
    /// Time between commits of offsets. Java: 5 s.
    pub commit: Duration,
}

impl GroupOptions {
    /// Java's times, and a buffer of 1000 messages.
    pub fn new(group: impl Into<String>, topic: impl Into<String>, tags: &str) -> Self {
        Self {
            group: group.into(),
            subscriptions: vec![(topic.into(), tags.to_owned())],
            beginning: Beginning::First,
            buffer: 1000,
            rebalance: Duration::from_secs(20),
            commit: Duration::from_secs(5),
        }
    }
}

/// Receives the messages of its share of the queues. Offsets are committed every few seconds and
/// at the stop, so that a member that dies has its last messages delivered again.
#[derive(Debug)]
pub struct GroupConsumer {
    client: Arc<Client>,
    group: String,
    deliveries: mpsc::Receiver<Delivery>,
    member: Arc<Member>,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

/// A message for the application, which must say what became of it. One that is dropped without a
/// word holds its queue's offset back, so that it is delivered again later.
#[derive(Debug)]
pub struct Delivery {
    /// The message.
    pub message: Received,
    queue: Arc<Assigned>,
    client: Arc<Client>,
    group: String,
}

impl GroupConsumer {
    /// Joins a group.
    ///
    /// # Errors
    /// See [`GroupError`].
    pub async fn start(client: Arc<Client>, options: GroupOptions) -> Result<Self, GroupError> {
        for (topic, _) in &options.subscriptions {
            client.route(topic).await?;
        }
        let changed = Arc::new(Notify::new());
        if !client.members.consumer_joins(consumer_data(&options), Arc::clone(&changed)) {
            return Err(GroupError::Taken(options.group));
        }
        if let Err(cause) = client.heartbeat().await {
            client.members.consumer_leaves(&options.group);
            return Err(GroupError::Heartbeat { group: options.group, cause });
        }
        let (sender, deliveries) = mpsc::channel(options.buffer.max(1));
        let (stop, stopped) = watch::channel(false);
        let group = options.group.clone();
        let member = Arc::new(Member::new(Arc::clone(&client), options, sender));
        let task = tokio::spawn(share::run(Arc::clone(&member), changed, stopped));
        Ok(Self { client, group, deliveries, member, stop, task })
    }

    /// The next message; waits for one. `None` once the consumer is stopped.
    pub async fn next(&mut self) -> Option<Delivery> {
        loop {
            let delivery = self.deliveries.recv().await?;
            // Its queue went to another member while it waited here.
            if !delivery.queue.is_dropped() {
                return Some(delivery);
            }
        }
    }

    /// The queues that are this member's now.
    pub fn queues(&self) -> Vec<MessageQueue> {
        self.member.queues()
    }

    /// Whether this member has been given its queues and has received all that was in them when
    /// they were last pulled.
    pub fn is_at_end(&self) -> bool {
        // In this order: a queue is at its end only after its messages are in the channel.
        self.member.is_at_end() && self.deliveries.is_empty()
    }

    /// Commits offsets, leaves the group and gives its queues to the others.
    ///
    /// # Errors
    /// The first commit that failed; the group is left all the same.
    pub async fn stop(mut self) -> Result<(), OffsetError> {
        self.stop.send_replace(true);
        if let Err(error) = (&mut self.task).await {
            tracing::warn!(%error, "the consumer did not end well");
        }
        let committed = self.member.leave().await;
        // Before the brokers hear of it, so that no heartbeat announces it again.
        self.client.members.consumer_leaves(&self.group);
        self.client.unregister(None, Some(&self.group)).await;
        committed
    }
}

/// A consumer that is dropped without a stop commits nothing more; its messages are delivered again.
impl Drop for GroupConsumer {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        self.member.abandon();
        self.client.members.consumer_leaves(&self.group);
    }
}

impl Delivery {
    /// The message is done with.
    pub fn done(self) {
        self.queue.finished(self.message.queue_offset);
    }

    /// The message is to be delivered again later, to any member: at delay level `level`, or with
    /// 0 ever later. After too many times the broker puts it into the group's dead-letter topic.
    ///
    /// # Errors
    /// The broker did not take it back; it is still held, and is delivered again after a restart.
    pub async fn later(self, level: i32) -> Result<(), RequestError> {
        let header = ConsumerSendMsgBackRequest {
            offset: self.message.physical_offset,
            group: self.group.clone(),
            delay_level: level,
            origin_msg_id: Some(self.message.id().to_owned()),
            origin_topic: Some(self.message.topic.clone()),
            unit_mode: false,
            max_reconsume_times: None,
        };
        let address = self.message.store_host.to_string();
        self.client
            .request("giving back a message", &address, request::CONSUMER_SEND_MSG_BACK)
            .header(&header)
            .send()
            .await?;
        self.queue.finished(self.message.queue_offset);
        Ok(())
    }
}

/// Waits for a stop.
pub(crate) async fn until_stopped(stopped: &mut watch::Receiver<bool>) {
    if stopped.wait_for(|stop| *stop).await.is_err() {
        tracing::debug!("the consumer was dropped without a stop");
    }
}

/// What heartbeats tell: the subscriptions, and that of the group's retry topic.
fn consumer_data(options: &GroupOptions) -> ConsumerData {
    let version = now_millis();
    let retry = (name::retry_topic(&options.group), "*".to_owned());
    let subscriptions = options.subscriptions.iter().chain([&retry]);
    ConsumerData {
        group_name: options.group.clone(),
        consume_type: "CONSUME_PASSIVELY".to_owned(),
        message_model: "CLUSTERING".to_owned(),
        consume_from_where: match options.beginning {
            Beginning::First => "CONSUME_FROM_FIRST_OFFSET",
            Beginning::Last => "CONSUME_FROM_LAST_OFFSET",
            Beginning::Time(_) => "CONSUME_FROM_TIMESTAMP",
        }
        .to_owned(),
        subscription_data_set: subscriptions.map(|(t, e)| subscription(t, e, version)).collect(),
        unit_mode: false,
    }
}

fn subscription(topic: &str, expression: &str, version: i64) -> SubscriptionData {
    let tags = Tags::parse(expression);
    SubscriptionData {
        topic: topic.to_owned(),
        sub_string: tags.expression.clone(),
        code_set: tags.codes(),
        tags_set: tags.tags.into_iter().collect(),
        sub_version: version,
        expression_type: "TAG".to_owned(),
        ..SubscriptionData::default()
    }
}
