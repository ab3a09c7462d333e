//! Pushes and their answers in Java's form (`PushEntryRequest.java`, `PushEntryResponse.java`).

use bytes::{Bytes, BytesMut};
use dledger_core::{EntryId, Life, Push, PushCode, PushKind, PushName, PushReply};

pub(super) use super::body::PushBody;
use super::{
    ResponseCode, WireError,
    body::PushReplyBody,
    entry::{JsonEntry, describe, split},
    message::{Ids, index, signed, signed_index, term},
};

/// A push with its entries as Java's body.
///
/// # Errors
/// The entries are none, or a kind that carries one lacks it.
pub(super) fn to_body(ids: &Ids, push: &Push, entries: &[Bytes]) -> Result<PushBody, WireError> {
    let mut carried = Vec::new();
    for part in entries {
        carried.extend(split(part)?);
    }
    let kind = push.kind.name();
    let first = carried.first().map_or(-1, |entry| entry.index);
    let last = carried.last().map_or(-1, |entry| entry.index);
    let count = i32::try_from(carried.len()).unwrap_or(i32::MAX);
    let (mut entry, mut batch_entry, mut total_size) = (None, Vec::new(), 0);
    match (kind, carried.len()) {
        (PushName::Commit, _) => {}
        (_, 0) => return Err(WireError::Missing("entry")),
        (_, 1) => entry = carried.pop(),
        (PushName::Append, _) => {
            total_size = carried.iter().map(|entry| i64::from(entry.size)).sum();
            batch_entry = carried;
        }
        (PushName::Compare | PushName::Truncate, _) => return Err(WireError::Missing("one entry")),
    }
    let (first_entry_index, last_entry_index, count) = match kind {
        PushName::Commit => (-1, -1, 0),
        PushName::Compare | PushName::Truncate | PushName::Append => (first, last, count),
    };
    Ok(PushBody {
        batch: !batch_entry.is_empty(),
        batch_entry,
        code: ResponseCode::SUCCESS.0,
        commit_index: signed_index(push.commit),
        count,
        entry,
        first_entry_index,
        group: Some(ids.group.clone()),
        last_entry_index,
        leader_id: Some(ids.from.clone()),
        local_id: Some(ids.from.clone()),
        pre_log_index: None,
        remote_id: Some(ids.to.clone()),
        term: signed(push.term.0),
        total_size,
        kind: Some(kind.java_name().to_owned()),
    })
}

/// Reads a push of Java's; its entries come as they will lie in the log.
///
/// # Errors
/// A field makes no sense, or it is of DLedger 0.4.
pub(super) fn from_body(body: PushBody) -> Result<(Push, Option<Bytes>), WireError> {
    if body.pre_log_index.is_some() {
        return Err(WireError::Dialect04);
    }
    // The batch takes precedence, as in Java.
    let carried: Vec<JsonEntry> = match body.batch_entry.is_empty() {
        true => body.entry.into_iter().collect(),
        false => body.batch_entry,
    };
    let mut log = BytesMut::new();
    for entry in &carried {
        entry.to_log(&mut log)?;
    }
    let log = log.freeze();
    let single = || -> Result<(EntryId, u64), WireError> {
        let entry = carried.first().ok_or(WireError::Missing("entry"))?;
        let index = index(entry.index).ok_or(WireError::Missing("entry.index"))?;
        let position = u64::try_from(entry.pos).unwrap_or(0);
        Ok((EntryId { term: term("entry.term", entry.term)?, index }, position))
    };
    let kind = match body.kind.as_deref() {
        Some("COMPARE") => PushKind::Compare { id: single()?.0, same: None },
        Some("TRUNCATE") => {
            let (id, position) = single()?;
            PushKind::Truncate { id, position, same: None, next_term: None }
        }
        Some("APPEND") => PushKind::Append(describe(&log)?),
        Some("COMMIT") => PushKind::Commit,
        other => {
            let value = other.unwrap_or_default().chars().take(40).collect();
            return Err(WireError::Text { name: "type", value });
        }
    };
    let entries = (kind.name() != PushName::Commit).then_some(log);
    let push = Push {
        term: term("term", body.term)?,
        commit: index(body.commit_index),
        whole: None,
        known: None,
        kind,
    };
    Ok((push, entries))
}

/// The answer to a push of Java's.
pub(super) fn to_reply_body(ids: &Ids, reply: &PushReply) -> PushReplyBody {
    // Java gives the term of the request and counts what it got; without an index the leader throws.
    let carries = reply.kind != PushName::Commit;
    PushReplyBody {
        begin_index: signed_index(reply.begin),
        code: reply.code.code(),
        count: match reply.kind {
            PushName::Commit => 0,
            PushName::Append => i32::try_from(reply.count).unwrap_or(i32::MAX),
            PushName::Compare | PushName::Truncate => 1,
        },
        end_index: signed_index(reply.end),
        group: Some(ids.group.clone()),
        index: carries.then(|| signed_index(reply.first)),
        leader_id: None,
        term: signed(reply.request_term.0),
    }
}

/// Reads a Java member's answer to `asked`.
pub(super) fn from_reply_body(body: PushReplyBody, asked: &Push) -> PushReply {
    let code = PushCode::of_code(body.code);
    let reply = PushReply {
        term: u64::try_from(body.term).map_or(asked.term, dledger_core::Term),
        code,
        kind: asked.kind.name(),
        request_term: asked.term,
        first: None,
        count: 0,
        known: None,
        begin: index(body.begin_index),
        end: index(body.end_index),
        written: None,
        flushed: None,
        life: Life::default(),
        provisional: false,
    };
    let mut reply = of_request(reply, asked);
    if code == PushCode::Success {
        // It follows that this entry, and so all before it, is the leader's.
        let last = reply.count.saturating_sub(1);
        reply.written = reply.first.map(|first| first.plus(last));
    }
    reply
}

/// An answer with what it is an answer to, as the request said it.
pub(super) fn of_request(reply: PushReply, asked: &Push) -> PushReply {
    let (first, count) = match &asked.kind {
        PushKind::Compare { id, .. } | PushKind::Truncate { id, .. } => (Some(id.index), 0),
        PushKind::Append(range) => (Some(range.first), range.count),
        PushKind::Commit => (None, 0),
    };
    let (kind, request_term, known) = (asked.kind.name(), asked.term, asked.known);
    PushReply { kind, request_term, first, count, known, ..reply }
}
