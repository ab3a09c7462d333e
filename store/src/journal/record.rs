//! The body of one record of the journal: JSON, so that people can read what a log holds.

use protocol::body::{SetMessageRequestModeRequestBody, SubscriptionGroupConfig, TopicConfig};
use serde::{Deserialize, Serialize};

use super::Versions;

/// The newest form of records that this code writes and reads. A record is written in the oldest form
/// that can say it, so that a group goes on whose members are brought to a new version one by one.
pub const VERSION: u32 = 3;

/// Bytes of the body of one record, at most, where what it holds can be divided at all.
pub const PART_BYTES: usize = 256 << 10;

/// Queues of one group and topic in one change, at most.
const QUEUES_OF_A_CHANGE: usize = 4_096;

/// One record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum Record {
    /// The first entry of a leader: it commits what earlier terms left.
    Opening {
        /// The leader's term.
        term: u64,
    },
    /// Changes of tables, in order.
    Changes {
        /// The changes.
        changes: Vec<Change>,
    },
    /// A snapshot begins: it describes the tables as they are right here.
    Begin {
        /// Id of the snapshot; no other has it.
        snapshot: u64,
    },
    /// Rows of a snapshot.
    Part {
        /// Id of the snapshot.
        snapshot: u64,
        /// Number of this part, from 0 on.
        nth: u32,
        /// The rows, written as changes of empty tables.
        rows: Vec<Change>,
    },
    /// A snapshot is complete.
    End {
        /// Id of the snapshot.
        snapshot: u64,
        /// Number of its parts.
        parts: u32,
        /// Versions of the tables at its begin.
        versions: Versions,
    },
}

/// One change of one table. A change says what holds afterwards, so that doing it twice is
/// harmless.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Change {
    /// A topic is made or replaced.
    Topic(TopicConfig),
    /// A topic is made where there is none of its name.
    NewTopic(TopicConfig),
    /// A topic is deleted: with the offsets of all groups in it, and its queues are cleared of what
    /// lies before this record. Next offsets stay.
    DeleteTopic(String),
    /// A group is made or replaced.
    Group(SubscriptionGroupConfig),
    /// A group is made where there is none of its name.
    NewGroup(SubscriptionGroupConfig),
    /// A group is deleted, with its masks.
    DeleteGroup(String),
    /// Rights of a group on a topic are taken away or given back.
    Forbidden {
        /// The group.
        group: String,
        /// The topic.
        topic: String,
        /// Bits of the rights that are taken; 0 where none is.
        mask: i32,
    },
    /// Where a group goes on in queues of a topic.
    Offsets {
        /// `topic@group`, as in Java's file.
        key: String,
        /// Queue and offset.
        queues: Vec<(i32, i64)>,
    },
    /// All offsets of a group are dropped.
    DropOffsetsOfGroup(String),
    /// How far levels of delayed messages are delivered: level and next offset.
    Delays(Vec<(u32, u64)>),
    /// How a group consumes a topic. In records from version 2 on.
    RequestMode(SetMessageRequestModeRequestBody),
    /// What an ordered pop was given of a queue. In records from version 2 on.
    Order {
        /// `topic@group`.
        key: String,
        /// The queue.
        queue: i32,
        /// The row as JSON in Java's form; nothing where it is dropped.
        row: Option<String>,
    },
    /// An administrator has set where a group goes on in a queue, against what it commits until it has
    /// heard of it; or it has. In records from version 3 on.
    Reset {
        /// `topic@group`.
        key: String,
        /// The queue.
        queue: i32,
        /// Where it goes on.
        offset: i64,
        /// Whether the group has heard of this offset.
        told: bool,
    },
    /// First and next offsets of queues. Only in parts of a snapshot.
    Queues {
        /// The topic.
        topic: String,
        /// Its queues.
        queues: Vec<QueueRange>,
    },
}

/// First and next offset of one queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueRange {
    /// Its number.
    pub id: u32,
    /// Offset of its first message.
    pub min: u64,
    /// Offset that the next message gets.
    pub next: u64,
}

/// Why a record cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// A newer node wrote it.
    #[error(
        "a record of the journal has version {version}, and this node knows versions up to {VERSION}: it stops rather than miss what the record says; install the version that the group's leader runs"
    )]
    Newer {
        /// The record's version.
        version: u32,
    },
    /// It is none.
    #[error("a record of the journal is damaged: {0}")]
    Damaged(String),
}

#[derive(Deserialize)]
struct Head {
    version: u32,
}

#[derive(Serialize)]
struct Written<'a> {
    version: u32,
    #[serde(flatten)]
    record: &'a Record,
}

impl Record {
    /// The body of the message that carries it.
    ///
    /// # Errors
    /// It has no text form, which no record of this crate's making lacks.
    pub fn encode(&self) -> Result<Vec<u8>, serde_json::Error> {
        serde_json::to_vec(&Written { version: self.version(), record: self })
    }

    /// The oldest form that can say it.
    fn version(&self) -> u32 {
        let (Self::Changes { changes } | Self::Part { rows: changes, .. }) = self else { return 1 };
        let version = |change: &Change| match change {
            Change::Reset { .. } => 3,
            Change::RequestMode(_) | Change::Order { .. } => 2,
            _ => 1,
        };
        changes.iter().map(version).max().unwrap_or(1)
    }
}

/// Reads the body of a record.
///
/// # Errors
/// See [`DecodeError`].
pub fn decode(body: &[u8]) -> Result<Record, DecodeError> {
    let damaged = |error: serde_json::Error| DecodeError::Damaged(error.to_string());
    let Head { version } = serde_json::from_slice(body).map_err(damaged)?;
    if version > VERSION {
        return Err(DecodeError::Newer { version });
    }
    serde_json::from_slice(body).map_err(damaged)
}

/// Changes as records, in order: of [`PART_BYTES`] each, or a little more.
///
/// # Errors
/// See [`Record::encode`].
pub fn changes(list: Vec<Change>) -> Result<Vec<Record>, serde_json::Error> {
    let packed = pack(list)?;
    Ok(packed.into_iter().map(|changes| Record::Changes { changes }).collect())
}

/// Divides changes so that each share has at most [`PART_BYTES`] or is a single one.
pub(super) fn pack(list: Vec<Change>) -> Result<Vec<Vec<Change>>, serde_json::Error> {
    // What a record has around its changes.
    const FRAME: usize = 128;
    let (mut shares, mut share, mut bytes) = (Vec::new(), Vec::new(), FRAME);
    for change in list.into_iter().flat_map(divided) {
        let length = serde_json::to_vec(&change)?.len() + 1;
        if bytes + length > PART_BYTES && !share.is_empty() {
            shares.push(std::mem::take(&mut share));
            bytes = FRAME;
        }
        bytes += length;
        share.push(change);
    }
    if !share.is_empty() {
        shares.push(share);
    }
    Ok(shares)
}

/// A change of many queues as several of fewer.
fn divided(change: Change) -> Vec<Change> {
    match change {
        Change::Offsets { key, queues } if queues.len() > QUEUES_OF_A_CHANGE => queues
            .chunks(QUEUES_OF_A_CHANGE)
            .map(|queues| Change::Offsets { key: key.clone(), queues: queues.to_vec() })
            .collect(),
        Change::Queues { topic, queues } if queues.len() > QUEUES_OF_A_CHANGE => queues
            .chunks(QUEUES_OF_A_CHANGE)
            .map(|queues| Change::Queues { topic: topic.clone(), queues: queues.to_vec() })
            .collect(),
        other => vec![other],
    }
}
