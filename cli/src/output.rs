//! What commands print on standard output.

use std::io::{self, Write};

use client::Received;
use comfy_table::{ContentArrangement, Table, presets};
use serde_json::{Value, json};

/// Writes a line; a reader that went away is an error like any other, which `main` passes over.
pub(crate) fn line(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.write_all(b"\n")
}

/// Writes bytes and the end of a line.
pub(crate) fn bytes_line(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.write_all(b"\n")
}

/// The same facts for people and for programs.
#[derive(Debug)]
pub(crate) struct Shown {
    /// For people.
    pub(crate) table: Table,
    /// For programs.
    pub(crate) json: Value,
}

impl Shown {
    /// Writes one of the two.
    pub(crate) fn print(&self, as_json: bool) -> io::Result<()> {
        if as_json { line(&self.json.to_string()) } else { line(&self.table.trim_fmt()) }
    }
}

/// A table with a head and no frame, which can be cut by `awk`.
pub(crate) fn table(head: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(head.iter().map(|name| name.to_uppercase()));
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table
}

/// A message in one line for people.
pub(crate) fn message_line(message: &Received) -> String {
    let mut text = format!("{}/{} @{}", message.broker, message.queue_id, message.queue_offset);
    if let Some(tag) = message.tag() {
        text.push_str(&format!("  {}", printable(tag)));
    }
    let keys: Vec<&str> = message.keys().collect();
    if !keys.is_empty() {
        text.push_str(&format!("  keys={}", printable(&keys.join(","))));
    }
    match &message.packed {
        None => text.push_str(&format!("  {}", printable(&String::from_utf8_lossy(&message.body)))),
        Some(why) => text.push_str(&format!("  ({} bytes; {why})", message.body.len())),
    }
    text
}

/// A message for programs. A body that is no text is given in hexadecimal digits.
pub(crate) fn message_json(message: &Received) -> Value {
    let properties: serde_json::Map<String, Value> = message
        .properties
        .iter()
        .map(|(name, value)| (name.to_owned(), Value::from(value)))
        .collect();
    let mut value = json!({
        "topic": message.topic,
        "broker": message.broker,
        "queueId": message.queue_id,
        "queueOffset": message.queue_offset,
        "physicalOffset": message.physical_offset,
        "msgId": message.id(),
        "offsetMsgId": message.offset_message_id,
        "tag": message.tag(),
        "keys": message.keys().collect::<Vec<_>>(),
        "properties": properties,
        "bornTimestamp": message.born_timestamp,
        "bornHost": message.born_host.to_string(),
        "storeTimestamp": message.store_timestamp,
        "storeHost": message.store_host.to_string(),
        "reconsumeTimes": message.reconsume_times,
        "flag": message.flag,
    });
    match std::str::from_utf8(&message.body) {
        Ok(text) if message.packed.is_none() => value["body"] = text.into(),
        _ => {
            let hex: String = message.body.iter().map(|byte| format!("{byte:02x}")).collect();
            value["bodyHex"] = hex.into();
        }
    }
    value
}

/// Text without characters that a terminal would act on.
pub(crate) fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\t' { '\u{fffd}' } else { c }).collect()
}

/// A point in time for people; nothing where there is none.
pub(crate) fn time(millis: i64) -> String {
    match jiff::Timestamp::from_millisecond(millis) {
        Ok(at) if millis > 0 => at.to_string(),
        _ => "-".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_cannot_act_on_the_terminal() {
        assert_eq!(printable("a\u{1b}[2Jb\tc"), "a\u{fffd}[2Jb\tc");
    }

    #[test]
    fn a_table_is_plain_columns() {
        let mut table = table(&["topic", "queues"]);
        table.add_row(["TopicTest", "8"]);
        let shown = Shown { table, json: json!([]) };
        let text = shown.table.trim_fmt();
        let lines: Vec<Vec<&str>> =
            text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines, [["TOPIC", "QUEUES"], ["TopicTest", "8"]]);
    }

    #[test]
    fn times_are_rfc_3339() {
        assert_eq!(time(1_795_968_000_000), "2026-11-29T16:00:00Z");
        assert_eq!(time(0), "-");
    }
}
