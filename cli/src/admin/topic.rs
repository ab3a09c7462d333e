//! `ledgermq admin topic`.

use std::collections::BTreeMap;

use anyhow::bail;
use client::{Admin, TopicSettings};
use serde_json::{Value, json};

use crate::{
    args::Place,
    output::{self, Shown, table},
};

/// Names of all topics.
pub(super) async fn list(admin: &Admin) -> anyhow::Result<Shown> {
    let topics = admin.topics().await?;
    let mut table = table(&["topic"]);
    for topic in &topics {
        table.add_row([topic]);
    }
    Ok(Shown { table, json: json!(topics) })
}

/// Brokers and queues of a topic.
pub(super) async fn route(admin: &Admin, topic: &str) -> anyhow::Result<Shown> {
    let route = admin.route(topic).await?;
    let mut table = table(&["broker", "cluster", "addresses", "read", "write", "perm"]);
    let mut rows = Vec::new();
    for queues in &route.data.queue_datas {
        let broker =
            route.data.broker_datas.iter().find(|data| data.broker_name == queues.broker_name);
        let addresses: BTreeMap<i64, String> = broker
            .map(|broker| broker.broker_addrs.iter().map(|(id, at)| (*id, at.clone())).collect())
            .unwrap_or_default();
        let cluster = broker.map(|broker| broker.cluster.clone()).unwrap_or_default();
        let shown: Vec<String> = addresses.iter().map(|(id, at)| format!("{id}={at}")).collect();
        table.add_row([
            queues.broker_name.clone(),
            cluster.clone(),
            shown.join(","),
            queues.read_queue_nums.to_string(),
            queues.write_queue_nums.to_string(),
            permission(queues.perm),
        ]);
        rows.push(json!({
            "broker": queues.broker_name,
            "cluster": cluster,
            "addresses": addresses,
            "readQueues": queues.read_queue_nums,
            "writeQueues": queues.write_queue_nums,
            "perm": queues.perm,
        }));
    }
    Ok(Shown { table, json: rows.into() })
}

/// Offsets of each queue.
pub(super) async fn status(admin: &Admin, topic: &str) -> anyhow::Result<Shown> {
    let stats = admin.topic_stats(topic).await?;
    let mut table = table(&["broker", "queue", "min", "max", "messages", "last message"]);
    let mut queues: Vec<_> = stats.offset_table.into_iter().collect();
    queues.sort_by(|(a, _), (b, _)| a.cmp(b));
    let mut rows: Vec<Value> = Vec::new();
    for (queue, offsets) in queues {
        let count = offsets.max_offset - offsets.min_offset;
        table.add_row([
            queue.broker_name.clone(),
            queue.queue_id.to_string(),
            offsets.min_offset.to_string(),
            offsets.max_offset.to_string(),
            count.to_string(),
            output::time(offsets.last_update_timestamp),
        ]);
        rows.push(json!({
            "broker": queue.broker_name,
            "queueId": queue.queue_id,
            "minOffset": offsets.min_offset,
            "maxOffset": offsets.max_offset,
            "lastUpdateTimestamp": offsets.last_update_timestamp,
        }));
    }
    Ok(Shown { table, json: rows.into() })
}

/// Makes or changes a topic; gives the brokers.
pub(super) async fn create(
    admin: &Admin,
    settings: &TopicSettings,
    place: &Place,
) -> anyhow::Result<Vec<String>> {
    let brokers = brokers(admin, place).await?;
    for broker in &brokers {
        admin.create_topic(broker, settings).await?;
    }
    Ok(brokers)
}

/// Deletes a topic; gives the brokers.
pub(super) async fn delete(
    admin: &Admin,
    name: &str,
    place: &Place,
) -> anyhow::Result<Vec<String>> {
    if !admin.topics().await?.contains(name) {
        bail!("there is no topic {name:?}; `ledgermq admin topic list` lists them");
    }
    let brokers = brokers(admin, place).await?;
    for broker in &brokers {
        admin.delete_topic(broker, name).await?;
    }
    // Of a single broker the route goes with its next registration.
    if place.broker.is_none() {
        admin.forget_topic(name, place.cluster.as_deref()).await?;
    }
    Ok(brokers)
}

async fn brokers(admin: &Admin, place: &Place) -> anyhow::Result<Vec<String>> {
    match &place.broker {
        Some(broker) => Ok(vec![broker.clone()]),
        None => Ok(admin.masters(place.cluster.as_deref()).await?),
    }
}

/// Java's letters (`PermName.perm2String`).
fn permission(perm: i32) -> String {
    [(4, 'R'), (2, 'W'), (1, 'X')]
        .into_iter()
        .map(|(bit, letter)| if perm & bit == 0 { '-' } else { letter })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::permission;

    #[test]
    fn permissions_have_javas_letters() {
        assert_eq!(permission(6), "RW-");
        assert_eq!(permission(7), "RWX");
        assert_eq!(permission(0), "---");
    }
}
