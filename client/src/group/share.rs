//! This member's share of the queues: who else is there, which queues are ours, pulling them.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use protocol::{
    body::{GetConsumerListByGroupResponseBody, MessageQueue},
    code::request,
    header::GetConsumerListByGroupRequest,
    name,
};
use tokio::{
    sync::{Notify, mpsc, watch},
    task::JoinHandle,
    time::MissedTickBehavior,
};

use super::{Assigned, Delivery, GroupOptions, until_stopped};
use crate::{
    Beginning, Client, PullConsumer, PullRequest,
    allocation::average,
    error::{OffsetError, PullError, RequestError, RouteError},
};

/// A member and its queues.
#[derive(Debug)]
pub(crate) struct Member {
    client: Arc<Client>,
    options: GroupOptions,
    puller: PullConsumer,
    deliveries: mpsc::Sender<Delivery>,
    queues: Mutex<HashMap<MessageQueue, Held>>,
    /// Queues were dealt at least once.
    dealt: AtomicBool,
}

#[derive(Debug)]
struct Held {
    assigned: Arc<Assigned>,
    pulling: JoinHandle<()>,
}

/// Deals queues and commits offsets until the consumer stops.
pub(super) async fn run(
    member: Arc<Member>,
    changed: Arc<Notify>,
    mut stopped: watch::Receiver<bool>,
) {
    let mut rebalance = tokio::time::interval(member.options.rebalance);
    let mut commit = tokio::time::interval(member.options.commit);
    rebalance.set_missed_tick_behavior(MissedTickBehavior::Delay);
    commit.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = until_stopped(&mut stopped) => return,
            _ = rebalance.tick() => member.rebalance().await,
            () = changed.notified() => member.rebalance().await,
            _ = commit.tick() => {
                if let Err(error) = member.commit_all().await {
                    tracing::warn!(%error, "offset was not committed; it is tried again");
                }
            }
        }
    }
}

impl Member {
    pub(super) fn new(
        client: Arc<Client>,
        options: GroupOptions,
        deliveries: mpsc::Sender<Delivery>,
    ) -> Self {
        let puller = PullConsumer::new(Arc::clone(&client), options.group.clone());
        Self {
            client,
            options,
            puller,
            deliveries,
            queues: Mutex::default(),
            dealt: AtomicBool::new(false),
        }
    }

    /// The queues that are this member's.
    pub(super) fn queues(&self) -> Vec<MessageQueue> {
        self.held().keys().cloned().collect()
    }

    /// Whether the last pull of every queue found nothing more.
    pub(super) fn is_at_end(&self) -> bool {
        self.dealt.load(Ordering::Acquire)
            && self.held().values().all(|held| held.assigned.is_at_end())
    }

    /// Stops pulling.
    pub(super) fn abandon(&self) {
        for (_, held) in self.held().drain() {
            held.pulling.abort();
            held.assigned.drop_it();
        }
    }

    /// Stops pulling and commits what is done.
    pub(super) async fn leave(&self) -> Result<(), OffsetError> {
        let queues: Vec<_> = self.held().drain().map(|(_, held)| held).collect();
        let mut first_error = Ok(());
        for held in &queues {
            held.pulling.abort();
        }
        for held in queues {
            let committed = self.commit(&held.assigned).await;
            held.assigned.drop_it();
            first_error = first_error.and(committed);
        }
        first_error
    }

    /// Deals the queues of every topic anew.
    async fn rebalance(self: &Arc<Self>) {
        let retry = name::retry_topic(&self.options.group);
        let topics: Vec<(String, String)> = self
            .options
            .subscriptions
            .iter()
            .cloned()
            .chain([(retry.clone(), "*".to_owned())])
            .collect();
        for (topic, tags) in topics {
            match self.share(&topic).await {
                Ok(mine) => self.hold(&topic, &tags, mine).await,
                // The broker makes the retry topic when it first hears of the group.
                Err(PullError::Route(RouteError::Unknown { .. })) if topic == retry => {}
                Err(error) => tracing::warn!(topic, %error, "queues could not be dealt"),
            }
        }
        self.dealt.store(true, Ordering::Release);
    }

    /// This member's share of the queues of a topic.
    async fn share(&self, topic: &str) -> Result<Vec<MessageQueue>, PullError> {
        let route = self.client.route(topic).await?;
        let queues = route.readable();
        let broker = queues.first().map(|queue| queue.broker_name.clone()).unwrap_or_default();
        let address = route.address(&broker, 0).ok_or_else(|| PullError::NoBroker {
            topic: topic.to_owned(),
            broker: broker.clone(),
        })?;
        let mut members = self.members(address).await;
        let known = matches!(&members, Ok(ids) if ids.iter().any(|id| id == self.client.id()));
        if !known {
            // The broker lost this member with its connection, or has not heard of it yet.
            self.client.heartbeat().await?;
            members = self.members(address).await;
        }
        Ok(average(queues, members?, self.client.id()))
    }

    async fn members(&self, address: &str) -> Result<Vec<String>, RequestError> {
        let header = GetConsumerListByGroupRequest { consumer_group: self.options.group.clone() };
        let answer = self
            .client
            .request("list of a group's members", address, request::GET_CONSUMER_LIST_BY_GROUP)
            .header(&header)
            .send()
            .await?;
        answer.read(|command| {
            Ok(GetConsumerListByGroupResponseBody::decode(&command.body)?.consumer_id_list)
        })
    }

    /// Gives up the queues of a topic that are not in `mine` and takes those that are new.
    async fn hold(self: &Arc<Self>, topic: &str, tags: &str, mine: Vec<MessageQueue>) {
        let lost: Vec<MessageQueue> = self
            .held()
            .keys()
            .filter(|queue| queue.topic == topic && !mine.contains(queue))
            .cloned()
            .collect();
        for queue in lost {
            let Some(held) = self.held().remove(&queue) else { continue };
            held.pulling.abort();
            held.assigned.drop_it();
            if let Err(error) = self.commit(&held.assigned).await {
                tracing::warn!(%error, "offset of a given-up queue was not committed");
            }
        }
        for queue in mine {
            if self.held().contains_key(&queue) {
                continue;
            }
            match self.first_offset(&queue).await {
                Ok(offset) => self.take(queue, tags, offset),
                Err(error) => tracing::warn!(%error, "queue is not taken yet"),
            }
        }
    }

    fn take(self: &Arc<Self>, queue: MessageQueue, tags: &str, offset: i64) {
        let assigned = Assigned::new(queue.clone(), offset);
        let pulling = tokio::spawn(pull(
            Arc::clone(self),
            Arc::clone(&assigned),
            PullRequest { tags: tags.to_owned(), ..PullRequest::at(offset) },
        ));
        self.held().insert(queue, Held { assigned, pulling });
    }

    /// Where to begin: at the group's progress, or else at the beginning that was asked for. A
    /// retry topic is new with its group, so that nothing of it may be left out.
    async fn first_offset(&self, queue: &MessageQueue) -> Result<i64, OffsetError> {
        if let Some(offset) = self.puller.committed(queue).await? {
            return Ok(offset);
        }
        let retry = name::retry_topic(&self.options.group) == queue.topic;
        let beginning = if retry { Beginning::First } else { self.options.beginning };
        self.puller.offset_of(queue, beginning).await
    }

    async fn commit_all(&self) -> Result<(), OffsetError> {
        let all: Vec<_> = self.held().values().map(|held| Arc::clone(&held.assigned)).collect();
        let mut first_error = Ok(());
        for assigned in all {
            let committed = self.commit(&assigned).await;
            first_error = first_error.and(committed);
        }
        first_error
    }

    async fn commit(&self, assigned: &Assigned) -> Result<(), OffsetError> {
        if let Some(offset) = assigned.to_commit() {
            self.puller.commit(&assigned.queue, offset).await?;
            assigned.committed(offset);
        }
        Ok(())
    }

    fn held(&self) -> MutexGuard<'_, HashMap<MessageQueue, Held>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Pulls a queue until it is given up.
async fn pull(member: Arc<Member>, assigned: Arc<Assigned>, mut wanted: PullRequest) {
    while !assigned.is_dropped() {
        // Only at the end is there a need to wait, and to be told of the end there must be none.
        wanted.wait = assigned.is_at_end().then_some(WAIT);
        assigned.room(member.options.buffer.max(1)).await;
        let pulled = match member.puller.pull(&assigned.queue, &wanted).await {
            Ok(pulled) => pulled,
            Err(error) => {
                tracing::warn!(%error, "pull failed; it is tried again in {} s", PAUSE.as_secs());
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        wanted.offset = pulled.next;
        if pulled.moved {
            assigned.moved(pulled.next);
            continue;
        }
        assigned.set_at_end(false);
        assigned.pulled(pulled.messages.iter().map(|m| m.queue_offset), pulled.next);
        for message in pulled.messages {
            let delivery = Delivery {
                message,
                queue: Arc::clone(&assigned),
                client: Arc::clone(&member.client),
                group: member.options.group.clone(),
            };
            if member.deliveries.send(delivery).await.is_err() {
                return;
            }
        }
        assigned.set_at_end(pulled.next >= pulled.max);
    }
}

/// How long a broker may hold a pull (Java: 15 s).
const WAIT: Duration = Duration::from_secs(15);
/// Time after a failed pull.
const PAUSE: Duration = Duration::from_secs(1);
