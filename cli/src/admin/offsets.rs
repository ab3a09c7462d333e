//! `ledgermq admin offsets`.

use anyhow::bail;
use client::{Admin, Reset};
use serde_json::json;

use crate::{
    args::ResetTo,
    output::{self, Shown, table},
};

/// What is reset, and where to.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) group: String,
    pub(super) topic: String,
    pub(super) to: ResetTo,
    pub(super) queue: Option<i32>,
}

/// How far a group is.
pub(super) async fn show(admin: &Admin, group: &str, topic: Option<&str>) -> anyhow::Result<Shown> {
    let progress = admin.group_progress(group, topic).await?;
    let mut table = table(&["topic", "broker", "queue", "done", "max", "lag", "last done"]);
    let mut rows = Vec::new();
    for at in &progress.queues {
        table.add_row([
            at.queue.topic.clone(),
            at.queue.broker_name.clone(),
            at.queue.queue_id.to_string(),
            at.consumer_offset.to_string(),
            at.broker_offset.to_string(),
            at.lag().to_string(),
            output::time(at.last_timestamp),
        ]);
        rows.push(json!({
            "topic": at.queue.topic,
            "broker": at.queue.broker_name,
            "queueId": at.queue.queue_id,
            "consumerOffset": at.consumer_offset,
            "brokerOffset": at.broker_offset,
            "lag": at.lag(),
            "lastTimestamp": at.last_timestamp,
        }));
    }
    let lag: i64 = progress.queues.iter().map(client::QueueProgress::lag).sum();
    table.add_row(["total", "", "", "", "", &lag.to_string(), ""]);
    let json = json!({
        "group": group,
        "lag": lag,
        "consumeTps": progress.consume_tps,
        "queues": rows,
    });
    Ok(Shown { table, json })
}

/// Sets how far a group is; shows the new offsets.
pub(super) async fn reset(admin: &Admin, target: &Target) -> anyhow::Result<Shown> {
    let to = match target.to {
        ResetTo::First => Reset::Time(0),
        ResetTo::Last => Reset::Last,
        ResetTo::Time(millis) => Reset::Time(millis),
        ResetTo::Offset(_) if target.queue.is_none() => {
            bail!("an offset belongs to one queue: say which by --queue ID")
        }
        ResetTo::Offset(offset) => Reset::Offset(offset),
    };
    let offsets = admin.reset_offsets(&target.group, &target.topic, to, target.queue).await?;
    let mut table = table(&["topic", "broker", "queue", "offset"]);
    let mut rows = Vec::new();
    for (queue, offset) in &offsets {
        table.add_row([
            queue.topic.clone(),
            queue.broker_name.clone(),
            queue.queue_id.to_string(),
            offset.to_string(),
        ]);
        rows.push(json!({
            "topic": queue.topic,
            "broker": queue.broker_name,
            "queueId": queue.queue_id,
            "offset": offset,
        }));
    }
    Ok(Shown { table, json: rows.into() })
}
