//! Who is connected: codes 203, 204, 328, 345 (`AdminBrokerProcessor.java`).

use std::{sync::Arc, time::Instant};

use protocol::{
    body::{
        Connection, ConsumerConnection, ProducerConnection, ProducerInfo, ProducerTableInfo,
        QuerySubscriptionResponseBody,
    },
    code::response,
    header::{
        GetConsumerConnectionListRequest, GetProducerConnectionListRequest,
        QuerySubscriptionByConsumerRequest,
    },
};

use crate::{
    broker::Broker,
    call::{Call, Rejection, Reply},
    clock::now_millis,
    consumers::Member,
};

/// Code 203. Tools depend on exactly 206 for a group that is not online.
pub(crate) fn of_consumers(broker: &Arc<Broker>, call: &mut Call) -> Result<Reply, Rejection> {
    let header: GetConsumerConnectionListRequest = call.header()?;
    let view = broker.consumers.view(&header.consumer_group).ok_or_else(|| {
        let remark = format!("the consumer group[{}] not online", header.consumer_group);
        Rejection::new(response::CONSUMER_NOT_ONLINE, remark)
    })?;
    let body = ConsumerConnection {
        connection_set: view.members.iter().map(connection).collect(),
        subscription_table: view
            .subscriptions
            .iter()
            .map(|(topic, data)| (topic.clone(), data.as_ref().clone()))
            .collect(),
        consume_type: Some(view.profile.consume_type.to_owned()),
        message_model: Some(view.profile.message_model.to_owned()),
        consume_from_where: Some(view.profile.from_where.to_owned()),
    };
    Reply::body(call, body.encode())
}

/// Code 204.
pub(crate) fn of_producers(broker: &Arc<Broker>, call: &mut Call) -> Result<Reply, Rejection> {
    let header: GetProducerConnectionListRequest = call.header()?;
    let members = broker.producers.members(&header.producer_group);
    if members.is_empty() {
        let remark = format!("the producer group[{}] not exist", header.producer_group);
        return Err(Rejection::new(response::SYSTEM_ERROR, remark));
    }
    let body = ProducerConnection { connection_set: members.iter().map(connection).collect() };
    Reply::body(call, body.encode())
}

/// Code 328. Every producer of every group.
pub(crate) fn all_producers(broker: &Arc<Broker>, call: &mut Call) -> Result<Reply, Rejection> {
    let now = now_millis();
    let groups = broker.producers.all();
    let info = |member: &Member<_>| {
        let silent = Instant::now().saturating_duration_since(member.last_heartbeat).as_millis();
        let last = now.saturating_sub(i64::try_from(silent).unwrap_or(0));
        ProducerInfo {
            client_id: member.client_id.clone(),
            // Java prints a socket address with this slash, and tools show it so.
            remote_ip: format!("/{}", member.address),
            language: member.language.name().to_owned(),
            version: member.version,
            last_update_timestamp: last,
        }
    };
    let data = groups
        .into_iter()
        .map(|(group, members)| (group, members.iter().map(info).collect()))
        .collect();
    Reply::body(call, ProducerTableInfo { data }.encode())
}

/// Code 345. The subscription of a group to a topic, where it has one.
pub(crate) fn subscription(broker: &Arc<Broker>, call: &mut Call) -> Result<Reply, Rejection> {
    let header: QuerySubscriptionByConsumerRequest = call.header()?;
    let topic = header.topic.clone().unwrap_or_default();
    let found = broker.consumers.subscription(&header.group, &topic);
    let body = QuerySubscriptionResponseBody {
        group: header.group,
        topic: header.topic,
        subscription_data: found.map(|data| data.as_ref().clone()),
    };
    Reply::body(call, body.encode())
}

fn connection<C>(member: &Member<C>) -> Connection {
    Connection {
        client_id: member.client_id.clone(),
        client_addr: member.address.clone(),
        language: member.language.name().to_owned(),
        version: member.version,
    }
}
