//! What tools change at name servers, at all of them, since they do not tell each other.

use std::collections::BTreeMap;

use protocol::Command;
use protocol::body::{GetBrokerMemberGroupResponseBody, KvTable, TopicList};
use protocol::code::{request, response};
use protocol::header::{
    AddWritePermOfBrokerRequest, AddWritePermOfBrokerResponse, DeleteKvConfigRequest,
    DeleteTopicFromNamesrvRequest, GetBrokerMemberGroupRequest, GetKvConfigRequest,
    GetKvConfigResponse, GetKvListByNamespaceRequest, GetTopicsByClusterRequest,
    PutKvConfigRequest, WipeWritePermOfBrokerRequest, WipeWritePermOfBrokerResponse,
};

use crate::{NameServerError, NameServers, accepted, header_of};

/// What each name server said, by address.
pub type Outcomes<T> = Vec<(String, Result<T, NameServerError>)>;

impl NameServers {
    /// Sets a value at every name server.
    pub async fn put_kv(&self, namespace: &str, key: &str, value: &str) -> Outcomes<()> {
        let header = PutKvConfigRequest {
            namespace: Some(namespace.to_owned()),
            key: Some(key.to_owned()),
            value: Some(value.to_owned()),
        };
        self.tell_all(&Command::request_with(request::PUT_KV_CONFIG, &header)).await
    }

    /// Deletes a value at every name server.
    pub async fn delete_kv(&self, namespace: &str, key: &str) -> Outcomes<()> {
        let header = DeleteKvConfigRequest { namespace: namespace.to_owned(), key: key.to_owned() };
        self.tell_all(&Command::request_with(request::DELETE_KV_CONFIG, &header)).await
    }

    /// A value, or `None` when it is not set.
    ///
    /// # Errors
    /// As for [`Self::route`].
    pub async fn get_kv(
        &self,
        namespace: &str,
        key: &str,
    ) -> Result<Option<String>, NameServerError> {
        let header = GetKvConfigRequest { namespace: namespace.to_owned(), key: key.to_owned() };
        let (address, answer) =
            self.ask_raw(Command::request_with(request::GET_KV_CONFIG, &header)).await?;
        if answer.code == response::QUERY_NOT_FOUND {
            return Ok(None);
        }
        let answer = accepted(&address, answer)?;
        Ok(header_of::<GetKvConfigResponse>(&address, &answer)?.value)
    }

    /// All values of a namespace by key; none when it is not known.
    ///
    /// # Errors
    /// As for [`Self::route`].
    pub async fn list_kv(
        &self,
        namespace: &str,
    ) -> Result<BTreeMap<String, String>, NameServerError> {
        let header = GetKvListByNamespaceRequest { namespace: namespace.to_owned() };
        let (address, answer) =
            self.ask_raw(Command::request_with(request::GET_KVLIST_BY_NAMESPACE, &header)).await?;
        if answer.code == response::QUERY_NOT_FOUND {
            return Ok(BTreeMap::new());
        }
        let answer = accepted(&address, answer)?;
        let table = KvTable::decode(&answer.body)
            .map_err(|error| NameServerError::answer(&address, error))?;
        Ok(table.table.into_iter().collect())
    }

    /// Makes every name server forget a topic, on all brokers or on those of one cluster.
    pub async fn delete_topic(&self, topic: &str, cluster: Option<&str>) -> Outcomes<()> {
        let header = DeleteTopicFromNamesrvRequest {
            topic: topic.to_owned(),
            cluster_name: cluster.map(str::to_owned),
        };
        self.tell_all(&Command::request_with(request::DELETE_TOPIC_IN_NAMESRV, &header)).await
    }

    /// Topics of the brokers of a cluster.
    ///
    /// # Errors
    /// As for [`Self::route`].
    pub async fn topics_of_cluster(&self, cluster: &str) -> Result<TopicList, NameServerError> {
        let header = GetTopicsByClusterRequest { cluster: cluster.to_owned() };
        let request = Command::request_with(request::GET_TOPICS_BY_CLUSTER, &header);
        let (address, answer) = self.ask(request).await?;
        TopicList::decode(&answer.body).map_err(|error| NameServerError::answer(&address, error))
    }

    /// Addresses of one group of brokers by id; none when it is not known.
    ///
    /// # Errors
    /// As for [`Self::route`].
    pub async fn members(
        &self,
        cluster: &str,
        broker_name: &str,
    ) -> Result<BTreeMap<i64, String>, NameServerError> {
        let header = GetBrokerMemberGroupRequest {
            cluster_name: cluster.to_owned(),
            broker_name: broker_name.to_owned(),
        };
        let request = Command::request_with(request::GET_BROKER_MEMBER_GROUP, &header);
        let (address, answer) = self.ask(request).await?;
        let body = GetBrokerMemberGroupResponseBody::decode(&answer.body)
            .map_err(|error| NameServerError::answer(&address, error))?;
        Ok(body.broker_member_group.map(|group| group.broker_addrs).unwrap_or_default())
    }

    /// Takes the write permission from all topics of a broker, at every name server; each tells
    /// how many there are.
    pub async fn wipe_write(&self, broker_name: &str) -> Outcomes<i32> {
        let header = WipeWritePermOfBrokerRequest { broker_name: broker_name.to_owned() };
        let request = Command::request_with(request::WIPE_WRITE_PERM_OF_BROKER, &header);
        self.ask_all(&request, self.timeout, |address, answer| {
            let header: WipeWritePermOfBrokerResponse = header_of(address, &answer)?;
            Ok(header.wipe_topic_count)
        })
        .await
    }

    /// Gives the write permission back, at every name server.
    pub async fn add_write(&self, broker_name: &str) -> Outcomes<i32> {
        let header = AddWritePermOfBrokerRequest { broker_name: broker_name.to_owned() };
        let request = Command::request_with(request::ADD_WRITE_PERM_OF_BROKER, &header);
        self.ask_all(&request, self.timeout, |address, answer| {
            let header: AddWritePermOfBrokerResponse = header_of(address, &answer)?;
            Ok(header.add_topic_count)
        })
        .await
    }

    async fn tell_all(&self, request: &Command) -> Outcomes<()> {
        self.ask_all(request, self.timeout, |_, _| Ok(())).await
    }
}
