//! A broker registers at every name server, and leaves them.

use std::collections::BTreeMap;
use std::time::Duration;

use protocol::Command;
use protocol::body::{KvTable, RegisterBrokerBody, register_body_crc32};
use protocol::code::request;
use protocol::header::{RegisterBrokerRequest, RegisterBrokerResponse, UnRegisterBrokerRequest};

use crate::{NameServerError, NameServers, header_of};

/// What a broker says of itself.
#[derive(Debug, Clone)]
pub struct RegisterBroker {
    /// Name of the cluster.
    pub cluster_name: String,
    /// Name of the group of brokers.
    pub broker_name: String,
    /// Address that clients are sent to, `ip:port`.
    pub broker_addr: String,
    /// Id in the group; 0 is the master.
    pub broker_id: i64,
    /// Address that slaves replicate from, `ip:port`.
    pub ha_server_addr: String,
    /// Whether a slave may stand in for a missing master. `None` marks a broker of 4.x.
    pub enable_acting_master: Option<bool>,
    /// Time without a sign of life after which name servers forget the broker; 120 s if absent.
    pub heartbeat_timeout: Option<Duration>,
    /// Zone of the broker.
    pub zone_name: Option<String>,
    /// Topics and their version. All topics, two at least, in a full registration; the changed
    /// ones with the new version in an incremental one.
    pub body: RegisterBrokerBody,
}

/// What one name server said.
#[derive(Debug, Clone)]
pub struct RegisterOutcome {
    /// Its address.
    pub name_server: String,
    /// Its answer.
    pub result: Result<RegisterAnswer, NameServerError>,
}

/// The answer to a registration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RegisterAnswer {
    /// Address of the master, told to slaves.
    pub master_addr: Option<String>,
    /// Where the master replicates from, told to slaves.
    pub ha_server_addr: Option<String>,
    /// Queue orders by topic; `None` when there never was one. A broker marks these topics as
    /// ordered.
    pub order_topics: Option<BTreeMap<String, String>>,
}

impl NameServers {
    /// Registers a broker at every name server in parallel. Java allows 24 s.
    pub async fn register(
        &self,
        broker: &RegisterBroker,
        timeout: Duration,
    ) -> Vec<RegisterOutcome> {
        let outcomes = self.ask_all(&registration(broker), timeout, read_answer).await;
        outcomes
            .into_iter()
            .map(|(name_server, result)| RegisterOutcome { name_server, result })
            .collect()
    }

    /// Takes a broker away from every name server in parallel.
    pub async fn unregister(
        &self,
        broker: &RegisterBroker,
        timeout: Duration,
    ) -> Vec<(String, Result<(), NameServerError>)> {
        let header = UnRegisterBrokerRequest {
            broker_name: broker.broker_name.clone(),
            broker_addr: broker.broker_addr.clone(),
            cluster_name: broker.cluster_name.clone(),
            broker_id: broker.broker_id,
        };
        let request = Command::request_with(request::UNREGISTER_BROKER, &header);
        self.ask_all(&request, timeout, |_, _| Ok(())).await
    }
}

fn registration(broker: &RegisterBroker) -> Command {
    let body = broker.body.encode();
    let header = RegisterBrokerRequest {
        broker_name: broker.broker_name.clone(),
        broker_addr: broker.broker_addr.clone(),
        cluster_name: broker.cluster_name.clone(),
        ha_server_addr: broker.ha_server_addr.clone(),
        broker_id: broker.broker_id,
        heartbeat_timeout_millis: broker
            .heartbeat_timeout
            .and_then(|timeout| i64::try_from(timeout.as_millis()).ok()),
        enable_acting_master: broker.enable_acting_master,
        compressed: false,
        body_crc32: register_body_crc32(&body),
        zone_name: broker.zone_name.clone(),
    };
    Command::request_with(request::REGISTER_BROKER, &header).with_body(body)
}

fn read_answer(address: &str, answer: Command) -> Result<RegisterAnswer, NameServerError> {
    let header: RegisterBrokerResponse = header_of(address, &answer)?;
    let order_topics = if answer.body.is_empty() {
        None
    } else {
        let table = KvTable::decode(&answer.body)
            .map_err(|error| NameServerError::answer(address, error))?;
        Some(table.table.into_iter().collect())
    };
    Ok(RegisterAnswer {
        master_addr: header.master_addr,
        ha_server_addr: header.ha_server_addr,
        order_topics,
    })
}
