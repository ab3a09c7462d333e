//! Data files as they lie on a simulated disk, read behind the back of the engine.

use std::{
    cell::{Cell, RefCell},
    path::{Path, PathBuf},
    rc::Rc,
};

use dledger::ENTRY_HEADER;
use segment::SimVfs;

use super::messages::told;
use crate::ghost::Entry;

/// The folder of every member, each on its own disk.
pub(super) const FOLDER: &str = "store/dledger";

/// The data files of a disk.
#[derive(Debug, Clone)]
pub(super) struct Files {
    pub(super) vfs: SimVfs,
    size: u64,
    /// Entries that rotted, as they were: an observer takes them for what they should be.
    pub(super) rotten: Rc<RefCell<Vec<Entry>>>,
    /// Syncs that failed for files beside the log, which are written again as a whole: they are no
    /// reason to stop.
    pub(super) beside: Rc<Cell<u64>>,
}

impl Files {
    pub(super) fn new(vfs: SimVfs, size: u64) -> Self {
        Self { vfs, size, rotten: Rc::default(), beside: Rc::default() }
    }

    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// File and offset in it of a log position.
    pub(super) fn place(&self, position: u64) -> (PathBuf, u64) {
        let offset = position % self.size();
        let name = format!("{:020}", position - offset);
        (Path::new(FOLDER).join("data").join(name), offset)
    }

    /// The entry that begins at a position, if there is one.
    pub(super) fn entry_at(&self, position: u64) -> Option<Entry> {
        let (path, offset) = self.place(position);
        let size = self.vfs.peek(&path, (offset, ENTRY_HEADER), |header| {
            (be_u32(header, 0) == Some(1)).then(|| be_u32(header, 4)).flatten()
        })??;
        if u64::from(size) + offset > self.size() || (size as usize) < ENTRY_HEADER {
            return None;
        }
        // A bit of its place may have flipped.
        let entry = self.vfs.peek(&path, (offset, size as usize), parse)?;
        entry.filter(|entry| entry.position == position)
    }

    /// The same, or the one that rotted there, as it was.
    pub(super) fn known_at(&self, position: u64) -> Option<Entry> {
        self.rotten_at(position).or_else(|| self.entry_at(position))
    }

    /// The entries between two positions, padding passed over.
    pub(super) fn entries(&self, from: u64, end: u64) -> impl Iterator<Item = Entry> + '_ {
        let mut at = from;
        std::iter::from_fn(move || {
            while at < end {
                if let Some(entry) = self.known_at(at) {
                    at = entry.end();
                    return Some(entry);
                }
                at = at - at % self.size() + self.size();
            }
            None
        })
    }

    /// Whether the header of an entry is another one now.
    pub(super) fn header_differs(&self, entry: &Entry) -> bool {
        if self.is_rotten(entry) {
            return false;
        }
        let (path, offset) = self.place(entry.position);
        let same = self.vfs.peek(&path, (offset, ENTRY_HEADER), |header| {
            (be_u64(header, 8), be_u64(header, 16), be_u32(header, 36))
                == (Some(entry.index), Some(entry.term), Some(entry.chain))
        });
        same != Some(true)
    }

    /// Index of the last entry in all data files, as far as they can be read.
    pub(super) fn last_index(&self) -> Option<u64> {
        let data = Path::new(FOLDER).join("data");
        let paths = self.vfs.paths();
        let bases = paths
            .iter()
            .filter(|path| path.starts_with(&data))
            .filter_map(|path| path.file_name()?.to_str()?.parse::<u64>().ok());
        let bases: Vec<u64> = bases.collect();
        let (first, last) = (bases.iter().min()?, bases.iter().max()?);
        self.entries(*first, last + self.size).last().map(|entry| entry.index)
    }

    fn rotten_at(&self, position: u64) -> Option<Entry> {
        self.rotten.borrow().iter().find(|entry| entry.position == position).copied()
    }

    fn is_rotten(&self, entry: &Entry) -> bool {
        self.rotten.borrow().contains(entry)
    }

    /// Whether all bytes of an entry are what they were.
    pub(super) fn is_sound(&self, entry: &Entry) -> bool {
        self.entry_at(entry.position).as_ref() == Some(entry)
    }

    /// As they would be after a power cut.
    pub(super) fn durably_sound(&self, entry: &Entry) -> bool {
        if self.is_rotten(entry) {
            // It was durable; what became of it is another property.
            return true;
        }
        let (path, offset) = self.place(entry.position);
        let place = (offset, entry.size as usize);
        self.vfs.peek_durable(&path, place, hash) == Some(entry.hash)
    }

    /// What stands for the bytes of an entry with this body and the header that lies on the disk.
    pub(super) fn hash_with_body(&self, entry: &Entry, body: &[u8]) -> u64 {
        let (path, offset) = self.place(entry.position);
        let header = self.vfs.peek(&path, (offset, ENTRY_HEADER), <[u8]>::to_vec);
        let mut bytes = header.unwrap_or_default();
        bytes.extend_from_slice(body);
        hash(&bytes)
    }
}

fn parse(bytes: &[u8]) -> Option<Entry> {
    let body = bytes.get(ENTRY_HEADER..)?;
    let token = body.get(1..17).and_then(|digits| std::str::from_utf8(digits).ok());
    let token = token.and_then(|digits| u64::from_str_radix(digits, 16).ok()).unwrap_or(0);
    let message = told(body);
    Some(Entry {
        size: be_u32(bytes, 4)?,
        index: be_u64(bytes, 8)?,
        term: be_u64(bytes, 16)?,
        position: be_u64(bytes, 24)?,
        chain: be_u32(bytes, 36)?,
        hash: hash(bytes),
        token: message.map_or(token, |message| message.token),
        opening: message.map_or(body.get(1..9) == Some(b"opening "), |message| message.opening),
        place: message.map(|message| message.place),
    })
}

/// A number that stands for bytes.
pub(super) fn hash(bytes: &[u8]) -> u64 {
    let mut hash = bytes.len() as u64;
    for part in bytes.chunks(8) {
        let mut word = [0; 8];
        for (to, from) in word.iter_mut().zip(part) {
            *to = *from;
        }
        hash = (hash.rotate_left(5) ^ u64::from_be_bytes(word)).wrapping_mul(0x517c_c1b7_2722_0a95);
    }
    hash
}

fn be_u32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn be_u64(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_be_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}
