//! A log on a simulated disk, for tests of its parts.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use dledger_core::{Policy, Term};
use segment::{SimVfs, Vfs};

use crate::{
    DiskLog, DiskOptions, ENTRY_HEADER,
    range::EntriesRead,
    recovery::{Group, RecoverError, recover},
    writer::{AppendError, Bodies, Writer},
};

/// Bytes of a data file.
pub(crate) const FILE: u64 = 4096;

#[derive(Debug)]
pub(crate) struct Fixture {
    pub(crate) disk: SimVfs,
    pub(crate) log: Arc<DiskLog>,
    pub(crate) writer: Writer,
}

impl Fixture {
    pub(crate) fn new(hot_ring: usize) -> Self {
        Self::open(SimVfs::new(), hot_ring)
    }

    pub(crate) fn open(disk: SimVfs, hot_ring: usize) -> Self {
        Self::try_open(disk, hot_ring).unwrap()
    }

    pub(crate) fn try_open(disk: SimVfs, hot_ring: usize) -> Result<Self, RecoverError> {
        let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
        let options = DiskOptions {
            index_file_size: 32 * 8,
            hot_ring_bytes: hot_ring,
            ..DiskOptions::new("log".into(), FILE)
        };
        let group = Group { members: 3, policy: Policy::Flushed, planted: Default::default() };
        let found = recover(&vfs, options, &group)?;
        let writer = Writer::new(Arc::clone(&found.log), found.cursor);
        Ok(Self { disk, log: found.log, writer })
    }

    /// Appends entries with bodies of these lengths.
    pub(crate) fn append(&mut self, term: u64, lengths: &[u32]) {
        self.try_append(term, lengths).unwrap();
    }

    pub(crate) fn try_append(&mut self, term: u64, lengths: &[u32]) -> Result<(), AppendError> {
        let mut buffer = BytesMut::new();
        for length in lengths {
            buffer.put_bytes(0, ENTRY_HEADER);
            let text = format!("{term}:{length} ");
            buffer.extend(text.bytes().cycle().take(*length as usize));
        }
        let group = vec![Bodies { buffer, lengths: lengths.to_vec() }];
        self.writer.append((Term(term), 0), group, |_| Ok(())).map(drop)
    }

    pub(crate) fn flush(&self) {
        self.log.flush(self.writer.end()).unwrap();
    }

    /// Term and index of the last entry.
    pub(crate) fn last(&self) -> Option<(u64, u64)> {
        self.log.last_id().map(|id| (id.term.0, id.index.0))
    }

    /// All from entry `first` on, as it would be sent.
    pub(crate) fn sent(&self, first: u64) -> Bytes {
        let upto = self.last().unwrap().1;
        let mut all = BytesMut::new();
        let mut from = first;
        while from <= upto {
            let read = self.log.range_on_disk(from, upto, 1 << 20).unwrap();
            from = read.last.index.0 + 1;
            all.extend(joined(&read));
        }
        all.freeze()
    }
}

/// The bytes of a range in one piece.
pub(crate) fn joined(read: &EntriesRead) -> Bytes {
    let mut all = BytesMut::new();
    for piece in &read.bytes {
        all.extend_from_slice(piece);
    }
    all.freeze()
}
