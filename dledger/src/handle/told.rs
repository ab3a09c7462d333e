//! What a member tells operators of itself.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use dledger_core::{PeerKind, Record};
use serde_json::{Value, json};

use super::Dledger;
use crate::{Marks, OtherMarks, RottenRange};

impl<T: Send + 'static> Dledger<T> {
    /// Role, marks, health and last events of this member, whose id is `id`, as a JSON object. `end`
    /// and the other marks are indices of entries, `committedBytes` and `flushedBytes` log positions.
    pub async fn told(&self, id: &str) -> Value {
        // A log that has stopped tells what it was last known to be.
        let marks = tokio::time::timeout(MARKS, self.marks()).await;
        let marks = marks.ok().and_then(Result::ok);
        described(self, id, marks)
    }
}

/// How long a status waits for the marks.
const MARKS: Duration = Duration::from_secs(1);

/// What a member says of itself.
fn described<T: Send + 'static>(log: &Dledger<T>, id: &str, marks: Option<Marks>) -> Value {
    let status = log.status().borrow().clone();
    let known = Marks {
        end: log.log().last_id().map(|last| last.index.0),
        committed: log.log().committed_entries().checked_sub(1),
        ..Marks::default()
    };
    let marks = marks.unwrap_or(known);
    let events: Vec<_> = log.records().iter().map(shown).collect();
    let rotten: Vec<_> = log.rotten().iter().map(rot).collect();
    json!({
        "id": id,
        "kind": OWN,
        "role": status.role.to_string(),
        "term": status.term,
        "leader": status.leader,
        "end": marks.end,
        "written": marks.written,
        "flushed": marks.flushed,
        "committed": marks.committed,
        "committedBytes": log.bounds().committed,
        "flushedBytes": log.log().flushed(),
        "opened": status.opened,
        "healthy": status.healthy,
        "room": status.room,
        "doubt": status.doubt.map(|doubt| format!("{doubt:?}")),
        "rotten": rotten.len(),
        "rottenRanges": rotten,
        "others": marks.others.iter().map(other).collect::<Vec<_>>(),
        "failure": status.failure,
        "events": events,
    })
}

/// What runs where it is one of ours.
const OWN: &str = "LedgerMQ";

fn rot(range: &RottenRange) -> Value {
    json!({ "first": range.first, "last": range.last, "reason": range.reason })
}

/// What a member knows of another one; the marks are there where it leads.
fn other(other: &OtherMarks) -> Value {
    let kind = match other.kind {
        Some(PeerKind::Own(_)) => OWN,
        Some(PeerKind::Java) => "Java",
        Some(PeerKind::Gone) => "gone",
        Some(PeerKind::Unknown) | None => "unknown",
    };
    let mut told = json!({ "id": other.id, "kind": kind });
    if let Some(progress) = &other.progress {
        told["match"] = json!(progress.written.map(|index| index.0));
        told["flushed"] = json!(progress.flushed.map(|index| index.0));
        told["inFlightBytes"] = json!(progress.in_flight);
        told["silentMs"] = json!(progress.silent);
        told["healthy"] = json!(progress.healthy);
        told["provisional"] = json!(progress.provisional);
    }
    told
}

/// A turn of a node's life with the time of day, in milliseconds since 1970.
fn shown((at, record): &(SystemTime, Record)) -> String {
    let at = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{} {record}", at.as_millis())
}
