//! Clients and their groups: codes 34, 35, 38 (`ClientManageProcessor.java`,
//! `ConsumerManageProcessor.java`).

use std::{sync::Arc, time::Instant};

use protocol::{
    body::{
        ConsumerData, GetConsumerListByGroupResponseBody, HeartbeatData, SubscriptionData,
        SubscriptionGroupConfig,
    },
    code::response,
    header::{
        GetConsumerListByGroupRequest, HeartbeatResponse, UnregisterClientRequest,
        UnregisterClientResponse,
    },
    name,
};
use remoting::Connection;

use crate::{
    broker::Broker,
    call::{Call, Rejection, Reply},
    consumers::{MAX_TOPICS, Member, Profile, Registration},
    role::Role,
    topics::{self, Topic},
};

/// The most groups that one client may name in a heartbeat.
const MAX_GROUPS: usize = 10_000;

/// The longest body of a heartbeat, in bytes.
const MAX_BODY: usize = 4 << 20;

/// The longest client id, in bytes: address, instance, unit and stream.
pub(crate) const MAX_CLIENT_ID: usize = 1024;

/// The longest name of a producer group, in bytes. Clients allow 255 characters.
const MAX_PRODUCER_GROUP: usize = 255;

/// Code 34. Answered once the retry topics of new groups are registered at the name servers, so
/// that the consumer's next look at its routes finds them.
pub(crate) fn heartbeat(broker: &Arc<Broker>, call: &mut Call) -> Result<Reply, Rejection> {
    let heartbeat = decode(call)?;
    let member = member_of(call, &heartbeat.client_id);
    let mut retry_topics = Vec::new();
    let mut subscriptions_wanted = heartbeat.heartbeat_fingerprint == 0;
    let without = heartbeat.without_sub && heartbeat.heartbeat_fingerprint != 0;
    for consumer in heartbeat.consumer_data_set {
        let Some(group) = admit(broker, &consumer) else { continue };
        retry_topics.extend(missing_retry_topic(broker, &consumer, &group));
        let registration = Registration {
            profile: Profile::from_names(
                &consumer.consume_type,
                &consumer.message_model,
                &consumer.consume_from_where,
            ),
            group: consumer.group_name.clone(),
            subscriptions: (!without).then_some(consumer.subscription_data_set),
            fingerprint: heartbeat.heartbeat_fingerprint,
        };
        let done = broker.consumers.register(registration, member.clone()).map_err(refused)?;
        subscriptions_wanted |= done.subscriptions_wanted;
        if done.changed {
            broker.tell_changed(&consumer.group_name);
        }
    }
    for producer in heartbeat.producer_data_set {
        broker.producers.register(&producer.group_name, member.clone()).map_err(refused)?;
    }
    if !call.connection.is_open() {
        // It ended while its last request was served: what was just entered must not stay.
        broker.client_gone(&call.connection);
    }
    answer(broker, call, retry_topics, subscriptions_wanted)
}

/// Code 35. Takes the connection, not the client id, out of the groups.
pub(crate) fn unregister(broker: &Arc<Broker>, call: &mut Call) -> Result<Reply, Rejection> {
    let header: UnregisterClientRequest = call.header()?;
    let connection = call.connection.id();
    if let Some(group) = header.producer_group {
        broker.producers.unregister(&group, connection);
    }
    if let Some(group) = header.consumer_group
        && let Some(lost) = broker.consumers.unregister(&group, connection)
    {
        broker.tell_lost(&lost);
    }
    Reply::header(call, &UnregisterClientResponse {})
}

/// Code 38. A group without members is an error and no empty list: clients would take that for
/// the truth and give up their queues. A slave has the members that send it heartbeats, as all do
/// that know it; where the one that asks is not among them, most are missing. So they are on a
/// master that has just been started, see [`Broker::lacks_members`].
pub(crate) fn list(broker: &Arc<Broker>, call: &mut Call) -> Result<Reply, Rejection> {
    let header: GetConsumerListByGroupRequest = call.header()?;
    let members = broker.consumers.members(&header.consumer_group);
    let known = members.iter().any(|member| member.id == call.connection.id());
    broker.require_members(&header.consumer_group, known, call.received)?;
    let consumer_id_list = broker.consumers.client_ids(&header.consumer_group);
    if consumer_id_list.is_empty() {
        let remark = format!("no consumer for this group, {}", header.consumer_group);
        return Err(Rejection::new(response::SYSTEM_ERROR, remark));
    }
    Reply::body(call, GetConsumerListByGroupResponseBody { consumer_id_list }.encode())
}

impl Broker {
    /// Refuses to say who is in a group where most of its members may not have said yet that they
    /// are: on a slave that does not know the one who asks, and on a master that lacks members. At
    /// this code clients keep the queues that they have and ask again.
    pub(crate) fn require_members(
        &self,
        group: &str,
        knows_asking: bool,
        now: Instant,
    ) -> Result<(), Rejection> {
        if !knows_asking && !self.with_role(Role::is_master) {
            return Err(self.not_served());
        }
        if self.lacks_members(group, knows_asking, now) {
            let remark = format!(
                "service not available now: this broker was started a moment ago and does not know all consumers of group {group} yet; keep the queues and ask again"
            );
            return Err(Rejection::new(response::SERVICE_NOT_AVAILABLE, remark));
        }
        Ok(())
    }

    /// Whether members of the group are missing that were there before this node was started: it
    /// has consumed before, and the one who asks is not known, or somebody pulls for it who is not.
    /// A list without them makes each member take queues that others still consume, or give up its
    /// own. A round of heartbeats later whoever is not known is not there.
    fn lacks_members(&self, group: &str, knows_asking: bool, now: Instant) -> bool {
        if self.locks.knows_members(now) {
            return false;
        }
        let members = self.consumers.members(group);
        let is_member = |connection: u64| members.iter().any(|member| member.id == connection);
        self.unannounced.any(group, |connection| !is_member(connection))
            || (!knows_asking && self.offsets.has_group(group))
    }
}

/// The heartbeat, within its bounds.
fn decode(call: &Call) -> Result<HeartbeatData, Rejection> {
    let illegal = |remark: String| Rejection::new(response::INVALID_PARAMETER, remark);
    let length = call.command.body.len();
    if length > MAX_BODY {
        return Err(illegal(format!("heartbeat of {length} bytes, at most {MAX_BODY} are taken")));
    }
    let heartbeat = HeartbeatData::decode(&call.command.body)?;
    let groups = heartbeat.consumer_data_set.len() + heartbeat.producer_data_set.len();
    if groups > MAX_GROUPS {
        return Err(illegal(format!(
            "heartbeat of {groups} groups, at most {MAX_GROUPS} are taken"
        )));
    }
    check_length("client id", &heartbeat.client_id, MAX_CLIENT_ID)?;
    for producer in &heartbeat.producer_data_set {
        check_length("producer group", &producer.group_name, MAX_PRODUCER_GROUP)?;
    }
    for consumer in &heartbeat.consumer_data_set {
        let (group, topics) = (&consumer.group_name, consumer.subscription_data_set.len());
        if topics > MAX_TOPICS {
            let remark =
                format!("{group} subscribes {topics} topics, at most {MAX_TOPICS} are taken");
            return Err(illegal(remark));
        }
    }
    Ok(heartbeat)
}

/// Refuses a name that is kept as long as its client is online, and is too long for that.
pub(crate) fn check_length(kind: &str, name: &str, limit: usize) -> Result<(), Rejection> {
    if name.len() <= limit {
        return Ok(());
    }
    let start: String = name.chars().take(64).collect();
    let length = name.len();
    let remark = format!("{kind} {start:?}... has {length} bytes, at most {limit} are taken");
    Err(Rejection::new(response::INVALID_PARAMETER, remark))
}

/// The group of a consumer; `None` where it may not be made, which Java passes over in silence.
fn admit(broker: &Arc<Broker>, consumer: &ConsumerData) -> Option<Arc<SubscriptionGroupConfig>> {
    let pulls = consumer.consume_type == "CONSUME_ACTIVELY";
    if pulls && broker.config().reject_pull_consumer_enable {
        return None;
    }
    broker.consumer_group(&consumer.group_name)
}

/// The group's retry topic, where it is still to be made and this node may make it.
fn missing_retry_topic(
    broker: &Arc<Broker>,
    consumer: &ConsumerData,
    group: &SubscriptionGroupConfig,
) -> Option<Topic> {
    let topic = name::retry_topic(&group.group_name);
    let wanted = group.retry_queue_nums > 0
        && broker.topics.get(&topic).is_none()
        && broker.role().is_master();
    let ordered =
        |data: &SubscriptionData| broker.topics.get(&data.topic).is_some_and(|topic| topic.order);
    wanted.then(|| Topic {
        order: consumer.subscription_data_set.iter().any(ordered),
        ..topics::read_write(&topic, group.retry_queue_nums, consumer.unit_mode)
    })
}

fn answer(
    broker: &Arc<Broker>,
    call: &mut Call,
    retry_topics: Vec<Topic>,
    subscriptions_wanted: bool,
) -> Result<Reply, Rejection> {
    let header = HeartbeatResponse {
        is_support_heart_beat_v2: Some(true),
        is_sub_change: Some(subscriptions_wanted),
    };
    let answer = call.success().with_header(&header);
    if retry_topics.is_empty() {
        return Ok(Reply::Now(answer));
    }
    let broker = Arc::clone(broker);
    call.answer_with(async move {
        broker.ensure_topics(retry_topics).await?;
        Ok(answer)
    })
}

fn refused(error: impl std::fmt::Display) -> Rejection {
    Rejection::new(response::SYSTEM_BUSY, error.to_string())
}

fn member_of(call: &Call, client_id: &str) -> Member<Arc<Connection>> {
    Member {
        id: call.connection.id(),
        handle: Arc::clone(&call.connection),
        client_id: client_id.to_owned(),
        address: call.connection.remote_addr().to_string(),
        language: call.command.language,
        version: call.command.version,
        last_heartbeat: Instant::now(),
    }
}
