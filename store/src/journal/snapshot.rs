//! Tables as the records of a snapshot.

use super::{Change, QueueRange, Record, Tables, record::pack};

/// The records behind the begin of snapshot `id`, which describes `tables` and, by topic, `queues`:
/// parts and the end.
///
/// # Errors
/// See [`Record::encode`].
pub fn records(
    id: u64,
    tables: &Tables,
    queues: Vec<(String, Vec<QueueRange>)>,
) -> Result<Vec<Record>, serde_json::Error> {
    let mut rows: Vec<Change> = Vec::new();
    rows.extend(tables.topics.values().map(|topic| Change::Topic((**topic).clone())));
    rows.extend(tables.groups.values().map(|group| Change::Group((**group).clone())));
    for (group, topics) in &tables.forbidden {
        rows.extend(topics.iter().map(|(topic, mask)| Change::Forbidden {
            group: group.clone(),
            topic: topic.clone(),
            mask: *mask,
        }));
    }
    rows.extend(tables.offsets.iter().map(|(key, queues)| Change::Offsets {
        key: key.clone(),
        queues: queues.iter().map(|(queue, offset)| (*queue, *offset)).collect(),
    }));
    if !tables.delays.is_empty() {
        let levels = tables.delays.iter().map(|(level, offset)| (*level, *offset));
        rows.push(Change::Delays(levels.collect()));
    }
    let modes = tables.request_modes.values().flat_map(|groups| groups.values());
    rows.extend(modes.map(|mode| Change::RequestMode(mode.clone())));
    for (key, orders) in &tables.orders {
        rows.extend(orders.iter().map(|(queue, row)| Change::Order {
            key: key.clone(),
            queue: *queue,
            row: Some(String::from_utf8_lossy(&row.encode()).into_owned()),
        }));
    }
    for (key, resets) in &tables.resets {
        rows.extend(resets.iter().map(|(queue, offset)| Change::Reset {
            key: key.clone(),
            queue: *queue,
            offset: *offset,
            told: false,
        }));
    }
    rows.extend(queues.into_iter().map(|(topic, queues)| Change::Queues { topic, queues }));
    let mut records = Vec::new();
    for (nth, rows) in (0..).zip(pack(rows)?) {
        records.push(Record::Part { snapshot: id, nth, rows });
    }
    let parts = u32::try_from(records.len()).unwrap_or(u32::MAX);
    records.push(Record::End { snapshot: id, parts, versions: tables.versions.clone() });
    Ok(records)
}
