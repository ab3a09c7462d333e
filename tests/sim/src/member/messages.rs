//! Entries that are message records, with queue offsets as a broker gives them out: the tails of the
//! store stamp what is appended, are dropped when the lead goes, and are folded anew from the log
//! when it comes.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use bytes::{BufMut, Bytes, BytesMut};
use dledger::{Body, ENTRY_HEADER, Entries, Hook, HookError, Tail};
use protocol::message::record::{self, MAGIC_V1, MessageRecord, at};
use store::{Tails, journal::Record};

use super::journal;
use crate::plan::Plan;

/// The topic of all messages.
pub(super) const TOPIC: &str = "T";
/// How many queues it has.
pub(super) const QUEUES: u32 = 3;
/// The queue of the entries that open terms, in a topic of its own.
const OPENINGS: u32 = 9;

/// Stamps messages as the log of a broker does.
#[derive(Debug, Default)]
pub(super) struct QueueHook {
    tails: Tails,
    /// A planted fault: the tails outlive the lead.
    forgets: bool,
    /// Openings are records of the journal.
    journal: bool,
}

impl QueueHook {
    pub(super) fn new(plan: &Plan) -> Self {
        #[cfg(feature = "planted")]
        let forgets = plan.planted.has(dledger_core::Bug::P26);
        #[cfg(not(feature = "planted"))]
        let forgets = !plan.messages;
        Self { tails: Tails::new(), forgets, journal: plan.journal }
    }
}

impl Hook for QueueHook {
    fn elected(&mut self, _term: u64, tail: &mut dyn Tail) -> Result<(), HookError> {
        tail.visit(self.tails.position(), &mut |_, body| {
            self.tails.fold(body);
            Ok(())
        })
    }

    fn opening(&mut self, term: u64) -> Vec<u8> {
        let opening = if self.journal {
            message(store::journal::TOPIC, journal::QUEUE, (0, journal::opening(term)))
        } else {
            message("opening", OPENINGS, (0, Bytes::from(format!("opening {term}"))))
        };
        let mut bytes = BytesMut::new();
        put(&MessageRecord { flag: 1, ..opening }, &mut bytes);
        bytes.to_vec()
    }

    fn stamp(&mut self, group: &mut [Body<'_>]) -> Result<(), HookError> {
        self.tails.begin_group();
        for body in group {
            let physical = body.position + ENTRY_HEADER as u64;
            let stamped = self.tails.stamp(body.bytes, physical, 0);
            stamped.map_err(|error| HookError(error.to_string()))?;
        }
        Ok(())
    }

    fn undo(&mut self) {
        self.tails.undo();
    }

    fn deposed(&mut self) {
        if !self.forgets {
            self.tails = Tails::new();
        }
    }
}

/// A submission of these bodies as messages of one queue.
pub(super) fn entries(token: u64, bodies: &[Vec<u8>]) -> Entries<u64> {
    let queue = u32::try_from(token % u64::from(QUEUES)).unwrap_or(0);
    let (mut buffer, mut lengths) = (BytesMut::new(), Vec::new());
    for body in bodies {
        buffer.put_bytes(0, ENTRY_HEADER);
        let start = buffer.len();
        put(&message(TOPIC, queue, (token, Bytes::copy_from_slice(body))), &mut buffer);
        lengths.push(u32::try_from(buffer.len() - start).unwrap_or(0));
    }
    Entries { buffer, lengths, token }
}

/// A submission of messages, and behind them a record of the journal.
pub(super) fn with_record(token: u64, bodies: &[Vec<u8>], record: Option<&Record>) -> Entries<u64> {
    let mut entries = entries(token, bodies);
    let Some(body) = record.and_then(|record| record.encode().ok()) else { return entries };
    // The leader's own records answer to nobody.
    let named = if token < journal::OWN { token } else { 0 };
    entries.buffer.put_bytes(0, ENTRY_HEADER);
    let start = entries.buffer.len();
    let message = message(store::journal::TOPIC, journal::QUEUE, (named, body.into()));
    put(&message, &mut entries.buffer);
    let length = entries.buffer.len() - start;
    entries.lengths.push(u32::try_from(length).unwrap_or(0));
    entries
}

fn message(topic: &str, queue: u32, (token, body): (u64, Bytes)) -> MessageRecord {
    let host = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 1);
    MessageRecord {
        queue_id: i32::try_from(queue).unwrap_or(0),
        flag: 0,
        queue_offset: 0,
        physical_offset: 0,
        sys_flag: 0,
        // What names the submission.
        born_timestamp: i64::try_from(token).unwrap_or(0),
        born_host: host,
        store_timestamp: 0,
        store_host: host,
        reconsume_times: 0,
        prepared_transaction_offset: 0,
        body,
        topic: topic.to_owned(),
        properties: String::new(),
    }
}

fn put(message: &MessageRecord, to: &mut BytesMut) {
    // A record that does not fit would be left out, and the empty entry be refused.
    drop(record::encode(message, to));
}

/// What a message says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) token: u64,
    pub(super) opening: bool,
    /// Its queue and its offset there.
    pub(super) place: (u32, u64),
}

/// Reads a body that is a message; `None` for any other.
pub(super) fn told(body: &[u8]) -> Option<Told> {
    let word = |from: usize| Some(u32::from_be_bytes(body.get(from..from + 4)?.try_into().ok()?));
    let long = |from: usize| Some(u64::from_be_bytes(body.get(from..from + 8)?.try_into().ok()?));
    if word(at::MAGIC)? != MAGIC_V1.cast_unsigned() {
        return None;
    }
    Some(Told {
        token: long(at::BORN_TIMESTAMP)?,
        opening: word(at::FLAG)? == 1,
        place: (word(at::QUEUE_ID)?, long(at::QUEUE_OFFSET)?),
    })
}

/// The next offset of each queue behind these bodies, as the store counts.
pub(super) fn ends(bodies: impl Iterator<Item = Bytes>) -> Vec<u64> {
    let mut tails = Tails::new();
    bodies.for_each(|body| tails.fold(&body));
    let queues = (0..QUEUES).map(|queue| (TOPIC, queue));
    let beside = [("opening", OPENINGS), (store::journal::TOPIC, journal::QUEUE)];
    queues.chain(beside).map(|(topic, queue)| tails.next(topic, queue)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_tells_its_submission_and_its_place() {
        let entries = entries(5, &[b"one".to_vec(), b"two".to_vec()]);
        let mut hook = QueueHook::default();
        let mut buffer = entries.buffer;
        let mut bodies = Vec::new();
        let mut position = 0;
        for length in &entries.lengths {
            let mut body = buffer.split_to(ENTRY_HEADER + *length as usize).split_off(ENTRY_HEADER);
            let mut group = [Body { bytes: &mut body, position }];
            hook.stamp(&mut group).unwrap();
            position += u64::from(*length) + ENTRY_HEADER as u64;
            bodies.push(body.freeze());
        }
        let places: Vec<_> = bodies.iter().map(|body| told(body).unwrap()).collect();
        let told_of = |offset| Told { token: 5, opening: false, place: (2, offset) };
        assert_eq!(places, [told_of(0), told_of(1)]);
        assert_eq!(ends(bodies.into_iter()), [0, 0, 2, 0, 0]);
        assert!(told(&hook.opening(4)).unwrap().opening);
        assert_eq!(told(b"?0000000000000001 and no message"), None);
    }
}
