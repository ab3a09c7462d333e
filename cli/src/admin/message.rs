//! `ledgermq admin message`.

use anyhow::bail;
use client::{Admin, AdminError, Received};
use serde_json::Value;

use crate::output;

/// Shows the message with an id of a broker or, within a topic, of a client.
pub(super) async fn show(
    admin: &Admin,
    id: &str,
    topic: Option<&str>,
    as_json: bool,
) -> anyhow::Result<()> {
    let found = find(admin, id, topic).await?;
    if found.is_empty() {
        bail!("there is no message {id}");
    }
    if as_json {
        let all: Vec<Value> = found.iter().map(output::message_json).collect();
        output::line(&Value::from(all).to_string())?;
        return Ok(());
    }
    for message in &found {
        print(message)?;
    }
    Ok(())
}

async fn find(admin: &Admin, id: &str, topic: Option<&str>) -> anyhow::Result<Vec<Received>> {
    // Both kinds have the same length, so that only the look-up tells them apart. A client's id
    // read as a broker's names an address where nobody answers, so the topic goes first.
    if let Some(topic) = topic {
        let found = admin.messages_by_unique_id(topic, id).await?;
        if !found.is_empty() {
            return Ok(found);
        }
    }
    match admin.message_by_offset_id(id).await {
        Ok(message) => Ok(vec![message]),
        Err(_) if topic.is_some() => Ok(Vec::new()),
        Err(error @ AdminError::MessageId { .. }) => {
            bail!("{error}; a message with a client's own id is found with --topic")
        }
        Err(error) => Err(error.into()),
    }
}

fn print(message: &Received) -> std::io::Result<()> {
    let facts = [
        ("topic", message.topic.clone()),
        ("queue", message.queue_id.to_string()),
        ("offset", message.queue_offset.to_string()),
        ("log offset", message.physical_offset.to_string()),
        ("id", message.id().to_owned()),
        ("broker's id", message.offset_message_id.clone()),
        ("sent", format!("{} from {}", output::time(message.born_timestamp), message.born_host)),
        ("stored", format!("{} at {}", output::time(message.store_timestamp), message.store_host)),
        ("given back", format!("{} times", message.reconsume_times)),
    ];
    for (name, value) in facts {
        output::line(&format!("{name:<12} {}", output::printable(&value)))?;
    }
    for (name, value) in message.properties.iter() {
        let pair = output::printable(&format!("{name}={value}"));
        output::line(&format!("{:<12} {pair}", "property"))?;
    }
    let body = match &message.packed {
        None => String::from_utf8_lossy(&message.body).into_owned(),
        Some(why) => format!("({} bytes; {why})", message.body.len()),
    };
    output::line(&format!("{:<12} {}", "body", output::printable(&body)))
}
