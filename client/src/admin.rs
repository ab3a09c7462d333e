//! Looking at a cluster and changing it.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use namesrv_client::NameServers;
use protocol::{
    body::{
        ClusterInfo, ConsumeStats, ConsumerOffsetSerializeWrapper, KvTable, MessageQueue,
        SubscriptionGroupWrapper, TopicConfigSerializeWrapper, TopicStatsTable,
    },
    code::{request, response},
    header::{
        CreateTopicRequest, DeleteTopicRequest, GetConsumeStatsRequest, GetTopicStatsInfoRequest,
        QueryMessageRequest, ResetOffsetRequest, ViewMessageRequest,
    },
    message::{id::parse_offset_message_id, properties::key, record},
    name,
};

use crate::{
    Client, Received,
    error::{AdminError, RouteError},
    routes::Route,
};

/// Calls that change or look at the brokers and name servers of a client.
#[derive(Debug, Clone)]
pub struct Admin {
    client: Arc<Client>,
}

/// What a topic is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicSettings {
    /// Its name.
    pub name: String,
    /// Queues on each broker, for reading and for writing.
    pub queues: i32,
    /// Bits of `PermName.java`: read 4, write 2.
    pub perm: i32,
}

/// How far a group is in one queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueProgress {
    /// The queue.
    pub queue: MessageQueue,
    /// Offset behind its newest message.
    pub broker_offset: i64,
    /// Offset up to which the group is done.
    pub consumer_offset: i64,
    /// Store time of the last message that is done, in milliseconds since 1970; 0 if unknown.
    pub last_timestamp: i64,
}

/// How far a group is.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GroupProgress {
    /// By topic, broker and queue.
    pub queues: Vec<QueueProgress>,
    /// Messages a second that it is given.
    pub consume_tps: f64,
}

/// Where the offsets of a group are set to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reset {
    /// The first message stored at this time or later, in milliseconds since 1970; 0 is the oldest.
    Time(i64),
    /// Behind the newest message.
    Last,
    /// This offset of one queue.
    Offset(i64),
}

impl QueueProgress {
    /// Messages that the group has before it.
    pub fn lag(&self) -> i64 {
        self.broker_offset.saturating_sub(self.consumer_offset)
    }
}

impl Admin {
    /// Admin calls by the connections of a client.
    pub fn new(client: Arc<Client>) -> Self {
        Self { client }
    }

    /// Brokers by name and by cluster.
    ///
    /// # Errors
    /// See [`AdminError`].
    pub async fn cluster(&self) -> Result<ClusterInfo, AdminError> {
        Ok(self.servers().cluster_info().await?)
    }

    /// What a broker tells about itself.
    ///
    /// # Errors
    /// See [`AdminError`].
    pub async fn runtime_info(&self, broker: &str) -> Result<KvTable, AdminError> {
        let code = request::GET_BROKER_RUNTIME_INFO;
        let answer = self.client.request("state of a broker", broker, code).send().await?;
        Ok(answer.read(|command| Ok(KvTable::decode(&command.body)?))?)
    }

    /// All topics of a broker, its own ones among them.
    ///
    /// # Errors
    /// See [`AdminError`].
    pub async fn topic_table(
        &self,
        broker: &str,
    ) -> Result<TopicConfigSerializeWrapper, AdminError> {
        let code = request::GET_ALL_TOPIC_CONFIG;
        let answer = self.client.request("topics of a broker", broker, code).send().await?;
        Ok(answer.read(|command| Ok(TopicConfigSerializeWrapper::decode(&command.body)?))?)
    }

    /// All subscription groups of a broker.
    ///
    /// # Errors
    /// See [`AdminError`].
    pub async fn group_table(&self, broker: &str) -> Result<SubscriptionGroupWrapper, AdminError> {
        let code = request::GET_ALL_SUBSCRIPTIONGROUP_CONFIG;
        let answer = self.client.request("groups of a broker", broker, code).send().await?;
        Ok(answer.read(|command| Ok(SubscriptionGroupWrapper::decode(&command.body)?))?)
    }

    /// All offsets that groups have committed to a broker.
    ///
    /// # Errors
    /// See [`AdminError`].
    pub async fn offset_table(
        &self,
        broker: &str,
    ) -> Result<ConsumerOffsetSerializeWrapper, AdminError> {
        let code = request::GET_ALL_CONSUMER_OFFSET;
        let answer = self.client.request("offsets of a broker", broker, code).send().await?;
        Ok(answer.read(|command| Ok(ConsumerOffsetSerializeWrapper::decode(&command.body)?))?)
    }

    /// The configuration that a broker runs with, as lines `key=value`.
    ///
    /// # Errors
    /// See [`AdminError`].
    pub async fn broker_config(&self, broker: &str) -> Result<String, AdminError> {
        let code = request::GET_BROKER_CONFIG;
        let answer = self.client.request("configuration of a broker", broker, code).send().await?;
        Ok(answer.read(|command| Ok(String::from_utf8_lossy(&command.body).into_owned()))?)
    }

    /// Names of all topics.
    ///
    /// # Errors
    /// See [`AdminError`].
    pub async fn topics(&self) -> Result<BTreeSet<String>, AdminError> {
        let list = self.servers().topic_list().await?;
        Ok(list.topic_list.into_iter().collect())
    }

    /// Brokers and queues of a topic.
    ///
    /// # Errors
    /// See [`RouteError`].
    pub async fn route(&self, topic: &str) -> Result<Route, RouteError> {
        self.client.route(topic).await
    }

    /// Addresses of the masters of a cluster, or of all.
    ///
    /// # Errors
    /// See [`AdminError`].
    pub async fn masters(&self, cluster: Option<&str>) -> Result<Vec<String>, AdminError> {
        let info = self.cluster().await?;
        let names: BTreeSet<&String> = match cluster {
            None => info.broker_addr_table.keys().collect(),
            Some(name) => match info.cluster_addr_table.get(name) {
                Some(brokers) => brokers.iter().collect(),
                None => {
                    let known: Vec<&str> =
                        info.cluster_addr_table.keys().map(String::as_str).collect();
                    return Err(AdminError::NoBroker(format!(
                        "there is no cluster {name:?}; there is {}",
                        if known.is_empty() { "none at all".to_owned() } else { known.join(", ") }
                    )));
                }
            },
        };
        let masters: Vec<String> = names
            .into_iter()
            .filter_map(|name| info.broker_addr_table.get(name)?.broker_addrs.get(&0).cloned())
            .collect();
        if masters.is_empty() {
            return Err(AdminError::NoBroker(format!(
                "no master is registered at {}",
                self.servers().addresses().join(";")
            )));
        }
        Ok(masters)
    }

    /// Makes a topic on a broker, or changes it.
    ///
    /// # Errors
    /// See [`AdminError`].
    pub async fn create_topic(
        &self,
        broker: &str,
        topic: &TopicSettings,
    ) -> Result<(), AdminError> {
        let header = CreateTopicRequest {
            topic: topic.name.clone(),
            default_topic: Some(name::AUTO_CREATE_TOPIC_KEY_TOPIC.to_owned()),
            read_queue_nums: topic.queues,
            write_queue_nums: topic.queues,
            perm: topic.perm,
            topic_filter_type: Some("SINGLE_TAG".to_owned()),
            topic_sys_flag: Some(0),
            order: false,
            attributes: None,
            force: None,
        };
        let code = request::UPDATE_AND_CREATE_TOPIC;
        let request = self.client.request("creation of a topic", broker, code);
        request.header(&header).timeout(SLOW).send().await?;
        Ok(())
    }

    /// Deletes a topic with its messages from a broker.
    ///
    /// # Errors
    /// See [`AdminError`].
    pub async fn delete_topic(&self, broker: &str, topic: &str) -> Result<(), AdminError> {
        let header = DeleteTopicRequest { topic: topic.to_owned() };
        let code = request::DELETE_TOPIC_IN_BROKER;
        let request = self.client.request("deletion of a topic", broker, code);
        request.header(&header).timeout(SLOW).send().await?;
        Ok(())
    }

    /// Has every name server forget a topic of a cluster, or of all.
    ///
    /// # Errors
    /// The first of a name server that did not; the others were asked all the same.
    pub async fn forget_topic(&self, topic: &str, cluster: Option<&str>) -> Result<(), AdminError> {
        let outcomes = self.servers().delete_topic(topic, cluster).await;
        let done: Result<Vec<()>, _> = outcomes.into_iter().map(|(_, outcome)| outcome).collect();
        done?;
        Ok(())
    }

    /// Offsets of the queues of a topic on all its masters, by broker and queue.
    ///
    /// # Errors
    /// See [`AdminError`].
    pub async fn topic_stats(&self, topic: &str) -> Result<TopicStatsTable, AdminError> {
        let header = GetTopicStatsInfoRequest { topic: topic.to_owned() };
        let mut all = TopicStatsTable::default();
        let route = self.client.route(topic).await?;
        for broker in route.masters() {
            let request =
                self.client.request("offsets of a topic", broker, request::GET_TOPIC_STATS_INFO);
            let answer = request.header(&header).send().await?;
            let stats = answer.read(|command| Ok(TopicStatsTable::decode(&command.body)?))?;
            all.offset_table.extend(stats.offset_table);
            all.topic_put_tps += stats.topic_put_tps;
        }
        Ok(all)
    }

    /// How far a group is, in one topic or in all that it consumes.
    ///
    /// # Errors
    /// See [`AdminError`].
    pub async fn group_progress(
        &self,
        group: &str,
        topic: Option<&str>,
    ) -> Result<GroupProgress, AdminError> {
        let header = GetConsumeStatsRequest {
            consumer_group: group.to_owned(),
            topic: topic.map(ToOwned::to_owned),
            topic_list: None,
        };
        let mut all = GroupProgress::default();
        for broker in self.masters_of_group(group, topic).await? {
            let request =
                self.client.request("progress of a group", &broker, request::GET_CONSUME_STATS);
            let answer = request.header(&header).timeout(SLOW).send().await?;
            let stats = answer.read(|command| Ok(ConsumeStats::decode(&command.body)?))?;
            all.consume_tps += stats.consume_tps;
            all.queues.extend(stats.offset_table.into_iter().map(|(queue, offsets)| {
                QueueProgress {
                    queue,
                    broker_offset: offsets.broker_offset,
                    consumer_offset: offsets.consumer_offset,
                    last_timestamp: offsets.last_timestamp,
                }
            }));
        }
        all.queues.sort_by(|a, b| a.queue.cmp(&b.queue));
        Ok(all)
    }

    /// Sets the offsets of a group in a topic; gives the new ones.
    ///
    /// # Errors
    /// See [`AdminError`].
    pub async fn reset_offsets(
        &self,
        group: &str,
        topic: &str,
        to: Reset,
        queue_id: Option<i32>,
    ) -> Result<Vec<(MessageQueue, i64)>, AdminError> {
        let header = ResetOffsetRequest {
            topic: topic.to_owned(),
            group: group.to_owned(),
            queue_id: queue_id.unwrap_or(-1),
            offset: if let Reset::Offset(offset) = to { Some(offset) } else { None },
            // A negative time is the end of the queue.
            timestamp: if let Reset::Time(millis) = to { millis } else { -1 },
            is_force: true,
        };
        let route = self.client.route(topic).await?;
        let mut all = Vec::new();
        for broker in route.masters() {
            let code = request::INVOKE_BROKER_TO_RESET_OFFSET;
            let request = self.client.request("reset of a group's offsets", broker, code);
            let answer = request.header(&header).timeout(SLOW).send().await?;
            let body = answer
                .read(|command| Ok(protocol::body::ResetOffsetBody::decode(&command.body)?))?;
            all.extend(body.offset_table);
        }
        all.sort();
        Ok(all)
    }

    /// The message with an id of a broker, asked for at the broker in the id.
    ///
    /// # Errors
    /// See [`AdminError`].
    pub async fn message_by_offset_id(&self, id: &str) -> Result<Received, AdminError> {
        let (host, offset) = parse_offset_message_id(id).map_err(|error| {
            AdminError::MessageId { id: id.to_owned(), reason: error.to_string() }
        })?;
        let header = ViewMessageRequest { topic: None, offset };
        let address = host.to_string();
        let request =
            self.client.request("look-up of a message", &address, request::VIEW_MESSAGE_BY_ID);
        let answer = request.header(&header).send().await?;
        let found = record::decode(&answer.command.body)
            .map_err(|error| answer.malformed(error.to_string()))?;
        Ok(Received::read(found, ""))
    }

    /// The messages of a topic with an id that a client gave, on all its brokers.
    ///
    /// # Errors
    /// See [`AdminError`].
    pub async fn messages_by_unique_id(
        &self,
        topic: &str,
        id: &str,
    ) -> Result<Vec<Received>, AdminError> {
        let header = QueryMessageRequest {
            topic: topic.to_owned(),
            key: id.to_owned(),
            max_num: 32,
            begin_timestamp: 0,
            end_timestamp: i64::MAX,
            index_type: None,
            last_key: None,
            unique_key_query: Some(true),
        };
        let route = self.client.route(topic).await?;
        let mut all = Vec::new();
        for broker in &route.data.broker_datas {
            let Some(address) = route.address(&broker.broker_name, 0) else { continue };
            let answer = self
                .client
                .request("search of a message", address, request::QUERY_MESSAGE)
                .header(&header)
                .timeout(SLOW)
                .send_accepting(&[response::SUCCESS, response::QUERY_NOT_FOUND])
                .await?;
            if answer.command.code == response::QUERY_NOT_FOUND {
                continue;
            }
            let found = Received::read_all(&answer.command.body, &broker.broker_name)
                .map_err(|error| answer.malformed(error.to_string()))?;
            // The index knows hashes of ids only.
            all.extend(found.into_iter().filter(|m| m.properties.get(key::UNIQ_KEY) == Some(id)));
        }
        Ok(all)
    }

    /// Masters that may know a group: those of the topic, or of the group's retry topic, or all.
    async fn masters_of_group(
        &self,
        group: &str,
        topic: Option<&str>,
    ) -> Result<Vec<String>, AdminError> {
        let retry = name::retry_topic(group);
        match self.client.route(topic.unwrap_or(&retry)).await {
            Ok(route) => Ok(route.masters().map(ToOwned::to_owned).collect()),
            Err(RouteError::Unknown { .. }) if topic.is_none() => self.masters(None).await,
            Err(error) => Err(error.into()),
        }
    }

    fn servers(&self) -> &NameServers {
        self.client.servers()
    }
}

/// Time for calls that may write files or look at many queues.
const SLOW: Duration = Duration::from_secs(10);
