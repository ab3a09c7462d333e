//! The simulated disk of a member and what can go wrong with it.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use segment::{Backup, Call, Fate, SimVfs, SmallFile, Unsynced, Vfs};

use super::files::{FOLDER, Files};
use crate::{
    ghost::{Entry, Log},
    plan::{Fault, Plan},
    process::{Disk, Setup},
    random::Random,
};

/// `EIO`.
const IO_ERROR: i32 = 5;

/// A disk with the data files of one member.
#[derive(Debug)]
pub struct SimDisk {
    files: Files,
}

/// Bytes of a header that only the entry before vouches for: index, term and chain checksum. The entry
/// that a log begins with has none before it. Its index and term are told by the index file, which may
/// be lost as well, its chain checksum by the entry behind it, if there is one.
const BY_THE_ONE_BEFORE: [std::ops::Range<u64>; 2] = [8..24, 36..40];

impl SimDisk {
    pub(super) fn vfs(&self) -> &SimVfs {
        &self.files.vfs
    }

    pub(super) fn files(&self) -> &Files {
        &self.files
    }

    /// What the checkpoint tells to be committed.
    fn checkpoint(&self) -> Option<u64> {
        let content = self.vfs().durable_content(&Path::new(FOLDER).join("checkpoint"))?;
        let text = String::from_utf8(content).ok()?;
        text.lines().find_map(|line| line.strip_prefix("committedIndex=")?.parse().ok())
    }

    fn with(&self, vfs: SimVfs) -> Self {
        let files = Files::new(vfs, self.files.size());
        files.rotten.borrow_mut().clone_from(&self.files.rotten.borrow());
        Self { files }
    }
}

impl Disk for SimDisk {
    fn new(plan: &Plan) -> Self {
        Self { files: Files::new(SimVfs::new(), plan.file_size) }
    }

    fn after_kill(&self) -> Self {
        self.with(self.vfs().after_kill())
    }

    fn after_power_cut(&self, random: &mut Random) -> Self {
        // Some power cuts take all that they can, some nearly nothing.
        let kept = random.pick(&[0, 300, 600, 950]).unwrap_or(0);
        self.with(self.vfs().crash(&mut |change| {
            if random.chance(kept) {
                return Fate::Keep;
            }
            let torn = matches!(change, Unsynced::Sector { .. }) && random.chance(150);
            if torn { Fate::Torn } else { Fate::Drop }
        }))
    }

    fn wiped(&self) -> Self {
        let disk = self.with(self.vfs().wiped());
        disk.files.rotten.borrow_mut().clear();
        disk
    }

    fn rolled_back(&self, copy: &Self) -> Option<Self> {
        let vfs = copy.vfs().after_kill();
        vfs.boot_after(self.vfs().boots());
        let older = copy.with(vfs);
        let last = older.files.last_index();
        if last >= self.checkpoint() {
            return None;
        }
        for name in ["checkpoint", "currterm", "provisional"] {
            let path = Path::new(FOLDER).join(name);
            let content = self.vfs().durable_content(&path)?;
            SmallFile::new(Arc::new(older.vfs().clone()), path, Backup::None)
                .store(&content)
                .ok()?;
        }
        Some(older)
    }

    fn inject(&self, fault: Fault, random: &mut Random) -> bool {
        let (skip, times) = (random.below(12), random.between(1, 3));
        match fault {
            Fault::TornCall => self.vfs().cut_power_after(random.below(20)),
            Fault::TornVote => self.vfs().cut_power_after(random.below(9)),
            Fault::WriteError => self.vfs().fail(Call::Write, skip, times, IO_ERROR),
            Fault::ReadError => self.vfs().fail(Call::Read, skip, times, IO_ERROR),
            Fault::SyncError => self.vfs().fail(Call::Sync, skip, times, IO_ERROR),
            Fault::NoSpace => self.vfs().set_room(Some(random.below(6000))),
            _ => return false,
        }
        true
    }

    fn heal(&self) {
        self.vfs().heal();
    }

    fn failures(&self) -> u64 {
        self.vfs().failed(Call::Sync).saturating_sub(self.files.beside.get())
    }

    fn is_dark(&self) -> bool {
        self.vfs().is_dark()
    }

    fn rot(&self, entries: &[Entry], random: &mut Random) -> Option<u64> {
        let entry = random.pick(entries)?;
        let (path, offset) = self.files.place(entry.position);
        // The entries of a log are given from its first one on.
        let begins = entry.index > 0 && entries.first() == Some(&entry);
        let covered: Vec<u64> = (0..u64::from(entry.size))
            .filter(|at| !begins || !BY_THE_ONE_BEFORE.iter().any(|part| part.contains(at)))
            .collect();
        let at = offset + random.pick(&covered)?;
        self.vfs().flip_bit(&path, at).ok()?;
        self.files.rotten.borrow_mut().push(entry);
        Some(entry.index)
    }

    fn lose_index(&self, random: &mut Random) -> bool {
        let index = Path::new(FOLDER).join("index");
        let checkpoint = Path::new(FOLDER).join("checkpoint");
        let both = random.below(3);
        let goes = |path: &&PathBuf| match both {
            0 => path.starts_with(&index),
            1 => **path == checkpoint,
            _ => path.starts_with(&index) || **path == checkpoint,
        };
        let paths = self.vfs().paths();
        let gone = paths.iter().filter(goes).filter(|path| self.vfs().remove(path).is_ok());
        gone.count() > 0
    }

    fn stored_vote(&self) -> (u64, Option<usize>) {
        let path = Path::new(FOLDER).join("currterm");
        let content = self.vfs().durable_content(&path).unwrap_or_default();
        let text = String::from_utf8_lossy(&content).into_owned();
        let value = |key: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
            line.map(str::to_owned)
        };
        let term = value("currTerm").and_then(|term| term.parse().ok()).unwrap_or(0);
        (term, value("voteLeader").and_then(|id| Setup::number(&id)))
    }

    fn durable(&self, log: &Log, from: Option<u64>) -> Option<u64> {
        let start = from.map_or(log.first()?, |from| from + 1);
        let mut durable = from;
        let mut index = start.max(log.first()?);
        while let Some(entry) = log.get(index)
            && self.files.durably_sound(entry)
        {
            durable = Some(index);
            index += 1;
        }
        durable
    }

    fn is_sound(&self, entry: &Entry) -> bool {
        let sound = self.files.is_sound(entry);
        if sound {
            self.files.rotten.borrow_mut().retain(|rotten| rotten != entry);
        }
        sound
    }
}
