//! The derived files' own checkpoint: how far they have come, in `derived.mark`.
//!
//! It names a log position and what every queue and index file held when exactly the log before
//! that position was derived. It is written after the files and not synced with them, so recovery
//! believes it only as far as the files bear it out.
//!
//! ```text
//! magic 8 "LMQMARK1" | position 8 | store timestamp 8 | flags 1 (bit 0: clean stop)
//! queues 4, each: topic length 2, topic | id 4 | min 8 | next 8 | seen 8 | last physical 8 (-1: none)
//!                 | cleared below 8 | flags 1 (bit 0: anchored)
//! index files 4, each: name 17 | header 40 | flags 1 (bit 0: sealed)
//! times 4, each: position 8 | store timestamp 8
//! CRC-32 4 of all before
//! ```

use std::sync::Arc;

use bytes::{Buf, BufMut, TryGetError};

use crate::{
    consume_queue::QueueState,
    index_file::{HEADER_BYTES, IndexHeader, NAME_DIGITS},
    placement::QueueEnd,
    timeline::Timeline,
};

const MAGIC: &[u8; 8] = b"LMQMARK1";
const NONE: u64 = u64::MAX;

/// What the derived files held at one log position.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) position: u64,
    pub(crate) store_timestamp: u64,
    /// Whether the store was stopped with everything written.
    pub(crate) clean: bool,
    pub(crate) queues: Vec<QueueMark>,
    pub(crate) indexes: Vec<IndexMark>,
    pub(crate) timeline: Timeline,
}

/// One queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct QueueMark {
    pub(crate) topic: Arc<str>,
    pub(crate) id: u32,
    pub(crate) state: QueueState,
}

/// One index file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct IndexMark {
    pub(crate) name: String,
    pub(crate) header: IndexHeader,
    /// Whether slots and entries are complete on disk.
    pub(crate) sealed: bool,
}

/// Why a mark was not believed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum MarkError {
    #[error("it is cut")]
    Cut,
    #[error("it does not begin with LMQMARK1")]
    Magic,
    #[error("its checksum differs")]
    Checksum,
    #[error("a name in it is not text")]
    Text,
}

impl From<TryGetError> for MarkError {
    fn from(_: TryGetError) -> Self {
        Self::Cut
    }
}

impl Mark {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(64 + self.queues.len() * 80);
        out.put_slice(MAGIC);
        out.put_u64(self.position);
        out.put_u64(self.store_timestamp);
        out.put_u8(u8::from(self.clean));
        out.put_u32(count(self.queues.len()));
        for queue in &self.queues {
            out.put_u16(u16::try_from(queue.topic.len()).unwrap_or(u16::MAX));
            out.put_slice(queue.topic.as_bytes());
            out.put_u32(queue.id);
            let state = &queue.state;
            out.put_u64(state.min);
            out.put_u64(state.end.next);
            out.put_u64(state.end.seen);
            out.put_u64(state.last_physical.unwrap_or(NONE));
            out.put_u64(state.cleared_below);
            out.put_u8(u8::from(state.end.anchored));
        }
        out.put_u32(count(self.indexes.len()));
        for index in &self.indexes {
            out.put_slice(index.name.as_bytes());
            out.put_slice(&index.header.encode());
            out.put_u8(u8::from(index.sealed));
        }
        out.put_u32(count(self.timeline.samples().len()));
        for (position, timestamp) in self.timeline.samples() {
            out.put_u64(*position);
            out.put_u64(*timestamp);
        }
        let checksum = crc32fast::hash(&out);
        out.put_u32(checksum);
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, MarkError> {
        let (mut rest, mut checksum) = bytes
            .split_last_chunk::<4>()
            .ok_or(MarkError::Cut)
            .map(|(content, checksum)| (content, checksum.as_slice()))?;
        if crc32fast::hash(rest) != checksum.try_get_u32()? {
            return Err(MarkError::Checksum);
        }
        if take(&mut rest, MAGIC.len())? != MAGIC {
            return Err(MarkError::Magic);
        }
        let mut mark = Self {
            position: rest.try_get_u64()?,
            store_timestamp: rest.try_get_u64()?,
            clean: rest.try_get_u8()? & 1 == 1,
            ..Self::default()
        };
        for _ in 0..rest.try_get_u32()? {
            mark.queues.push(queue(&mut rest)?);
        }
        for _ in 0..rest.try_get_u32()? {
            mark.indexes.push(index(&mut rest)?);
        }
        let mut samples = Vec::new();
        for _ in 0..rest.try_get_u32()? {
            samples.push((rest.try_get_u64()?, rest.try_get_u64()?));
        }
        mark.timeline = Timeline::from_samples(samples);
        Ok(mark)
    }
}

fn queue(rest: &mut &[u8]) -> Result<QueueMark, MarkError> {
    let length = rest.try_get_u16()?;
    let topic = text(rest, usize::from(length))?;
    let id = rest.try_get_u32()?;
    let (min, next, seen) = (rest.try_get_u64()?, rest.try_get_u64()?, rest.try_get_u64()?);
    let last_physical = Some(rest.try_get_u64()?).filter(|last| *last != NONE);
    let cleared_below = rest.try_get_u64()?;
    let anchored = rest.try_get_u8()? & 1 == 1;
    let end = QueueEnd { next, seen, anchored };
    let state = QueueState { min, end, last_physical, cleared_below };
    Ok(QueueMark { topic: Arc::from(topic), id, state })
}

fn index(rest: &mut &[u8]) -> Result<IndexMark, MarkError> {
    let name = text(rest, NAME_DIGITS)?.to_owned();
    let header = IndexHeader::decode(take(rest, HEADER_BYTES)?).ok_or(MarkError::Cut)?;
    let sealed = rest.try_get_u8()? & 1 == 1;
    Ok(IndexMark { name, header, sealed })
}

fn text<'a>(rest: &mut &'a [u8], length: usize) -> Result<&'a str, MarkError> {
    std::str::from_utf8(take(rest, length)?).map_err(|_not_utf8| MarkError::Text)
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Result<&'a [u8], MarkError> {
    let (taken, behind) = rest.split_at_checked(length).ok_or(MarkError::Cut)?;
    *rest = behind;
    Ok(taken)
}

fn count(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark() -> Mark {
        let end = QueueEnd { next: 9, seen: 1000, anchored: true };
        let state = QueueState { min: 3, end, last_physical: Some(900), cleared_below: 17 };
        let empty = QueueState::default();
        let header = IndexHeader { count: 5, end_physical: 900, ..IndexHeader::default() };
        Mark {
            position: 1000,
            store_timestamp: 77,
            clean: true,
            queues: vec![
                QueueMark { topic: Arc::from("T"), id: 0, state },
                QueueMark { topic: Arc::from("%RETRY%g"), id: 7, state: empty },
            ],
            indexes: vec![IndexMark { name: "20260101000000000".into(), header, sealed: false }],
            timeline: Timeline::from_samples(vec![(0, 5), (500, 6)]),
        }
    }

    #[test]
    fn a_mark_reads_back() {
        assert_eq!(Mark::decode(&mark().encode()), Ok(mark()));
    }

    #[test]
    fn a_cut_or_changed_mark_is_refused() {
        let bytes = mark().encode();
        for length in 0..bytes.len() {
            assert!(Mark::decode(&bytes[..length]).is_err(), "{length}");
        }
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 4;
            assert!(Mark::decode(&changed).is_err(), "{at}");
        }
        let mut endless = MAGIC.to_vec();
        endless.put_bytes(0, 17);
        endless.put_u32(u32::MAX);
        endless.put_u32(crc32fast::hash(&endless));
        assert_eq!(Mark::decode(&endless), Err(MarkError::Cut));
    }
}
