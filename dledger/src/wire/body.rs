//! The bodies of requests and responses, field by field as Java has them (classes of
//! `io.openmessaging.storage.dledger.protocol`).
//!
//! Fields stand in the alphabetical order in which fastjson writes them. A `long` that is not set
//! is -1. The field `ledgermq` is ours: Java passes over it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{
    capability::Own,
    entry::JsonEntry,
    json::{Base64, none, success},
};

/// What every request and response has (`RequestOrResponse.java`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Base {
    /// Result of a response; 200 in requests.
    pub code: i32,
    /// Name of the group.
    pub group: Option<String>,
    /// Who leads, or who wants to.
    pub leader_id: Option<String>,
    /// Ours.
    pub ledgermq: Option<Own>,
    /// The sender.
    pub local_id: Option<String>,
    /// The receiver that is meant.
    pub remote_id: Option<String>,
    /// A term, -1 where none is said.
    pub term: i64,
}

impl Default for Base {
    fn default() -> Self {
        Self {
            code: success(),
            group: None,
            leader_id: None,
            ledgermq: None,
            local_id: None,
            remote_id: None,
            term: none(),
        }
    }
}

/// `HEART_BEAT`, its answer, and the answer to `LEADERSHIP_TRANSFER` have no further field.
pub type Heartbeat = Base;

/// `VOTE`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VoteBody {
    /// Result of a response; 200 in requests.
    #[serde(default = "success")]
    pub code: i32,
    /// Name of the group.
    pub group: Option<String>,
    /// The candidate.
    pub leader_id: Option<String>,
    /// Index of its last entry.
    #[serde(default = "none")]
    pub ledger_end_index: i64,
    /// Term of its last entry.
    #[serde(default = "none")]
    pub ledger_end_term: i64,
    /// Ours.
    pub ledgermq: Option<Own>,
    /// The sender.
    pub local_id: Option<String>,
    /// The receiver that is meant.
    pub remote_id: Option<String>,
    /// A term, -1 where none is said.
    #[serde(default = "none")]
    pub term: i64,
}

/// The answer to `VOTE`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VoteReplyBody {
    /// Result of a response; 200 in requests.
    #[serde(default = "success")]
    pub code: i32,
    /// Name of the group.
    pub group: Option<String>,
    /// The candidate, as in the request.
    pub leader_id: Option<String>,
    /// Ours.
    pub ledgermq: Option<Own>,
    /// The sender.
    pub local_id: Option<String>,
    /// The receiver that is meant.
    pub remote_id: Option<String>,
    /// Term of the member that answers.
    #[serde(default = "none")]
    pub term: i64,
    /// Name of the result (`VoteResponse.RESULT`).
    pub vote_result: Option<String>,
}

/// `PUSH`. `batch`, `count` and the two indexes follow from the entries; Java writes them too.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PushBody {
    /// Whether there are `batchEntry`.
    #[serde(default)]
    pub batch: bool,
    /// Of an APPEND of several.
    #[serde(default)]
    pub batch_entry: Vec<JsonEntry>,
    /// Result of a response; 200 in requests.
    #[serde(default = "success")]
    pub code: i32,
    /// The leader's commit index.
    #[serde(default = "none")]
    pub commit_index: i64,
    /// How many entries.
    #[serde(default)]
    pub count: i32,
    /// Of COMPARE, TRUNCATE and an APPEND of one.
    pub entry: Option<JsonEntry>,
    /// Index of the first entry.
    #[serde(default = "none")]
    pub first_entry_index: i64,
    /// Name of the group.
    pub group: Option<String>,
    /// Index of the last entry.
    #[serde(default = "none")]
    pub last_entry_index: i64,
    /// Who leads, or who wants to.
    pub leader_id: Option<String>,
    /// The sender.
    pub local_id: Option<String>,
    /// DLedger 0.4 only.
    pub pre_log_index: Option<i64>,
    /// The receiver that is meant.
    pub remote_id: Option<String>,
    /// A term, -1 where none is said.
    #[serde(default = "none")]
    pub term: i64,
    /// Bytes of the batch, 0 without one.
    #[serde(default)]
    pub total_size: i64,
    /// `APPEND`, `COMMIT`, `COMPARE` or `TRUNCATE`.
    #[serde(rename = "type")]
    pub kind: Option<String>,
}

/// The answer to `PUSH`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PushReplyBody {
    /// First index of the responder's log.
    #[serde(default = "none")]
    pub begin_index: i64,
    /// Result of a response; 200 in requests.
    #[serde(default = "success")]
    pub code: i32,
    /// How many entries.
    #[serde(default)]
    pub count: i32,
    /// Last index of the responder's log.
    #[serde(default = "none")]
    pub end_index: i64,
    /// Name of the group.
    pub group: Option<String>,
    /// First index of the request; absent for COMMIT.
    pub index: Option<i64>,
    /// Who leads, or who wants to.
    pub leader_id: Option<String>,
    /// A term, -1 where none is said.
    #[serde(default = "none")]
    pub term: i64,
}

/// `LEADERSHIP_TRANSFER`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TransferBody {
    /// Result of a response; 200 in requests.
    #[serde(default = "success")]
    pub code: i32,
    /// Name of the group.
    pub group: Option<String>,
    /// Who leads, or who wants to.
    pub leader_id: Option<String>,
    /// The sender.
    pub local_id: Option<String>,
    /// The receiver that is meant.
    pub remote_id: Option<String>,
    /// The entry that the next leader must have.
    #[serde(default = "none")]
    pub take_leadership_ledger_index: i64,
    /// A term, -1 where none is said.
    #[serde(default = "none")]
    pub term: i64,
    /// The leader now.
    pub transfer_id: Option<String>,
    /// The next one.
    pub transferee_id: Option<String>,
}

/// `APPEND`. With `batchMsgs`, `body` does not count (`BatchAppendEntryRequest.java`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AppendBody {
    /// Bodies, in order.
    pub batch_msgs: Option<Vec<Base64>>,
    /// The body.
    pub body: Option<Base64>,
    /// Result of a response; 200 in requests.
    #[serde(default = "success")]
    pub code: i32,
    /// Name of the group.
    pub group: Option<String>,
    /// Who leads, or who wants to.
    pub leader_id: Option<String>,
    /// The sender.
    pub local_id: Option<String>,
    /// The receiver that is meant.
    pub remote_id: Option<String>,
    /// A term, -1 where none is said.
    #[serde(default = "none")]
    pub term: i64,
}

/// The answer to `APPEND`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AppendReplyBody {
    /// Result of a response; 200 in requests.
    #[serde(default = "success")]
    pub code: i32,
    /// Name of the group.
    pub group: Option<String>,
    /// Index of the entry, of the last one of a batch.
    #[serde(default = "none")]
    pub index: i64,
    /// Who leads, or who wants to.
    pub leader_id: Option<String>,
    /// The sender.
    pub local_id: Option<String>,
    /// Its position.
    #[serde(default = "none")]
    pub pos: i64,
    /// The receiver that is meant.
    pub remote_id: Option<String>,
    /// A term, -1 where none is said.
    #[serde(default = "none")]
    pub term: i64,
}

/// `GET`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GetBody {
    /// The entry that is wanted.
    pub begin_index: Option<i64>,
    /// Result of a response; 200 in requests.
    #[serde(default = "success")]
    pub code: i32,
    /// Name of the group.
    pub group: Option<String>,
    /// Who leads, or who wants to.
    pub leader_id: Option<String>,
    /// The sender.
    pub local_id: Option<String>,
    /// Java passes over it.
    #[serde(default)]
    pub max_size: i32,
    /// The receiver that is meant.
    pub remote_id: Option<String>,
    /// A term, -1 where none is said.
    #[serde(default = "none")]
    pub term: i64,
}

/// The answer to `GET`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GetReplyBody {
    /// Result of a response; 200 in requests.
    #[serde(default = "success")]
    pub code: i32,
    /// The one entry.
    #[serde(default)]
    pub entries: Vec<JsonEntry>,
    /// Name of the group.
    pub group: Option<String>,
    /// Who leads, or who wants to.
    pub leader_id: Option<String>,
    /// The sender.
    pub local_id: Option<String>,
    /// The receiver that is meant.
    pub remote_id: Option<String>,
    /// A term, -1 where none is said.
    #[serde(default = "none")]
    pub term: i64,
}

/// The answer to `METADATA`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MetadataReplyBody {
    /// Result of a response; 200 in requests.
    #[serde(default = "success")]
    pub code: i32,
    /// Name of the group.
    pub group: Option<String>,
    /// Who leads, or who wants to.
    pub leader_id: Option<String>,
    /// The sender.
    pub local_id: Option<String>,
    /// Address of each member, `host:port`.
    #[serde(default)]
    pub peers: BTreeMap<String, String>,
    /// The receiver that is meant.
    pub remote_id: Option<String>,
    /// A term, -1 where none is said.
    #[serde(default = "none")]
    pub term: i64,
}
