//! State of a simulated disk.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::{Path, PathBuf},
};

use super::{Call, Fate, SECTOR, Unsynced};

/// `ENOSPC`.
const NO_SPACE: i32 = 28;

/// Which file, whatever its name.
pub(super) type FileId = usize;

/// A change of names that waits for the directory's sync.
#[derive(Debug, Clone)]
pub(super) enum NameChange {
    Link { path: PathBuf, file: FileId },
    Unlink { path: PathBuf },
    Rename { from: PathBuf, to: PathBuf, file: FileId },
}

impl NameChange {
    fn path(&self) -> &Path {
        match self {
            Self::Link { path, .. } | Self::Unlink { path } => path,
            Self::Rename { to, .. } => to,
        }
    }

    fn file(&self) -> Option<FileId> {
        match self {
            Self::Link { file, .. } | Self::Rename { file, .. } => Some(*file),
            Self::Unlink { .. } => None,
        }
    }

    fn apply(&self, names: &mut BTreeMap<PathBuf, FileId>) {
        match self {
            Self::Link { path, file } => {
                names.insert(path.clone(), *file);
            }
            Self::Unlink { path } => {
                names.remove(path);
            }
            Self::Rename { from, to, file } => {
                if names.get(from) == Some(file) {
                    names.remove(from);
                }
                names.insert(to.clone(), *file);
            }
        }
    }
}

#[derive(Debug, Clone, Default)]
struct Content {
    /// What a reader sees.
    cached: Vec<u8>,
    /// What a power cut leaves.
    durable: Vec<u8>,
    dirty: BTreeSet<usize>,
    /// Sectors that take room.
    allocated: BTreeSet<usize>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Disk {
    names: BTreeMap<PathBuf, FileId>,
    durable_names: BTreeMap<PathBuf, FileId>,
    name_changes: Vec<NameChange>,
    files: Vec<Content>,
    pub(super) directories: BTreeSet<PathBuf>,
    pub(super) locks: BTreeSet<PathBuf>,
    pub(super) calls: u64,
    pub(super) boots: u64,
    pub(super) power_until: Option<u64>,
    pub(super) failures: BTreeMap<Call, (u64, u64, i32)>,
    pub(super) failed: BTreeMap<Call, u64>,
    pub(super) room: Option<u64>,
    pub(super) short_write: Option<usize>,
}

impl Disk {
    pub(super) fn powered(&self) -> io::Result<()> {
        if self.power_until.is_some_and(|until| self.calls > until) {
            return Err(io::Error::other("simulated power cut"));
        }
        Ok(())
    }

    /// Counts a changing call and lets it fail where a test said so.
    pub(super) fn begin(&mut self, call: Call) -> io::Result<()> {
        self.calls += 1;
        self.powered()?;
        self.injected(call)
    }

    fn injected(&mut self, call: Call) -> io::Result<()> {
        match self.failures.get_mut(&call) {
            Some((0, times, errno)) if *times > 0 => {
                *times -= 1;
                *self.failed.entry(call).or_default() += 1;
                Err(io::Error::from_raw_os_error(*errno))
            }
            Some((skip, _, _)) => {
                *skip = skip.saturating_sub(1);
                Ok(())
            }
            None => Ok(()),
        }
    }

    pub(super) fn find(&self, path: &Path) -> io::Result<FileId> {
        self.names.get(path).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    pub(super) fn create(&mut self, path: &Path) -> io::Result<FileId> {
        self.begin(Call::Metadata)?;
        if self.names.contains_key(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let file = self.files.len();
        self.files.push(Content::default());
        self.change_names(NameChange::Link { path: path.into(), file });
        Ok(file)
    }

    pub(super) fn change_names(&mut self, change: NameChange) {
        change.apply(&mut self.names);
        self.name_changes.push(change);
    }

    pub(super) fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        self.powered()?;
        let names: Vec<String> = self
            .names
            .keys()
            .filter(|path| path.parent() == Some(directory))
            .filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned()))
            .collect();
        if names.is_empty() && !self.directories.contains(directory) {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(names)
    }

    pub(super) fn list_directories(&self, directory: &Path) -> io::Result<Vec<String>> {
        self.powered()?;
        let all = self.names.keys().filter_map(|path| path.parent());
        let all = all.chain(self.directories.iter().map(PathBuf::as_path));
        let mut found = false;
        let mut names = BTreeSet::new();
        for path in all {
            if let Ok(below) = path.strip_prefix(directory) {
                found = true;
                names.extend(below.iter().next().map(|name| name.to_string_lossy().into_owned()));
            }
        }
        if found { Ok(names.into_iter().collect()) } else { Err(io::ErrorKind::NotFound.into()) }
    }

    pub(super) fn used_bytes(&self) -> u64 {
        let sectors: usize = self.files.iter().map(|file| file.allocated.len()).sum();
        (sectors * SECTOR) as u64
    }

    pub(super) fn sync_directory(&mut self, directory: &Path) {
        let (synced, waiting): (Vec<_>, Vec<_>) = std::mem::take(&mut self.name_changes)
            .into_iter()
            .partition(|change| change.path().parent() == Some(directory));
        for change in synced {
            change.apply(&mut self.durable_names);
        }
        self.name_changes = waiting;
    }

    fn content(&mut self, file: FileId) -> io::Result<&mut Content> {
        self.files.get_mut(file).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    pub(super) fn write(&mut self, file: FileId, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.begin(Call::Write)?;
        let offset = to_usize(offset)?;
        let limit = self.short_write.take().unwrap_or(usize::MAX);
        let bytes = bytes.get(..limit).unwrap_or(bytes);
        let mut room = self.room;
        let content = self.content(file)?;
        let mut done = 0;
        while let Some(rest) = bytes.get(done..).filter(|rest| !rest.is_empty()) {
            let sector = (offset + done) / SECTOR;
            let count = rest.len().min((sector + 1) * SECTOR - (offset + done));
            if !content.take_room(sector, &mut room) {
                break;
            }
            content.put(offset + done, rest.get(..count).unwrap_or(rest));
            done += count;
        }
        self.room = room;
        if done == 0 && !bytes.is_empty() {
            return Err(io::Error::from_raw_os_error(NO_SPACE));
        }
        Ok(done)
    }

    pub(super) fn read(
        &mut self,
        file: FileId,
        buffer: &mut [u8],
        offset: u64,
    ) -> io::Result<usize> {
        self.powered()?;
        self.injected(Call::Read)?;
        let offset = to_usize(offset)?;
        let rest = self.content(file)?.cached.get(offset..).unwrap_or_default();
        let count = rest.len().min(buffer.len());
        for (to, from) in buffer.iter_mut().zip(rest) {
            *to = *from;
        }
        Ok(count)
    }

    pub(super) fn sync(&mut self, file: FileId) -> io::Result<()> {
        let outcome = self.begin(Call::Sync);
        self.powered()?;
        let content = self.content(file)?;
        let dirty = std::mem::take(&mut content.dirty);
        outcome?;
        content.durable.resize(content.cached.len(), 0);
        for sector in dirty {
            content.persist(sector, SECTOR);
        }
        Ok(())
    }

    pub(super) fn sync_all(&mut self) -> io::Result<()> {
        for file in 0..self.files.len() {
            self.sync(file)?;
        }
        for change in std::mem::take(&mut self.name_changes) {
            change.apply(&mut self.durable_names);
        }
        Ok(())
    }

    pub(super) fn set_length(&mut self, file: FileId, length: u64) -> io::Result<()> {
        self.begin(Call::Metadata)?;
        let length = to_usize(length)?;
        self.content(file)?.cached.resize(length, 0);
        Ok(())
    }

    pub(super) fn length(&mut self, file: FileId) -> io::Result<u64> {
        self.powered()?;
        Ok(self.content(file)?.cached.len() as u64)
    }

    pub(super) fn allocate(&mut self, file: FileId, length: u64) -> io::Result<()> {
        self.begin(Call::Metadata)?;
        let length = to_usize(length)?;
        let mut room = self.room;
        let content = self.content(file)?;
        for sector in 0..length.div_ceil(SECTOR) {
            if !content.take_room(sector, &mut room) {
                return Err(io::Error::from_raw_os_error(NO_SPACE));
            }
        }
        if content.cached.len() < length {
            content.cached.resize(length, 0);
        }
        self.room = room;
        Ok(())
    }

    pub(super) fn next_data(&mut self, file: FileId, offset: u64) -> io::Result<Option<u64>> {
        self.powered()?;
        let sector = to_usize(offset)? / SECTOR;
        let found = self.content(file)?.allocated.range(sector..).next().copied();
        Ok(found.map(|sector| offset.max((sector * SECTOR) as u64)))
    }

    pub(super) fn flip_bit(&mut self, path: &Path, offset: u64) -> io::Result<()> {
        let file = self.find(path)?;
        let offset = to_usize(offset)?;
        let content = self.content(file)?;
        for bytes in [&mut content.cached, &mut content.durable] {
            match bytes.get_mut(offset) {
                Some(byte) => *byte ^= 1,
                None => return Err(io::ErrorKind::UnexpectedEof.into()),
            }
        }
        Ok(())
    }

    pub(super) fn paths(&self) -> Vec<PathBuf> {
        self.names.keys().cloned().collect()
    }

    pub(super) fn cached(&self, path: &Path, offset: u64, length: usize) -> Option<&[u8]> {
        let content = self.files.get(*self.names.get(path)?)?;
        slice(&content.cached, offset, length)
    }

    pub(super) fn durable(&self, path: &Path, offset: u64, length: usize) -> Option<&[u8]> {
        let content = self.files.get(*self.durable_names.get(path)?)?;
        slice(&content.durable, offset, length)
    }

    pub(super) fn durable_whole(&self, path: &Path) -> Option<&[u8]> {
        let content = self.files.get(*self.durable_names.get(path)?)?;
        Some(&content.durable)
    }

    pub(super) fn mend(&mut self) {
        if self.powered().is_ok() {
            self.power_until = None;
        }
        self.failures.clear();
        self.room = None;
        self.short_write = None;
    }

    pub(super) fn heal(&mut self) {
        self.power_until = None;
        self.failures.clear();
        self.failed.clear();
        self.room = None;
        self.short_write = None;
        self.locks.clear();
    }

    /// A copy without the bytes of files that have no name any more, nor get one back by a crash.
    pub(super) fn living(&self) -> Self {
        let named: BTreeSet<FileId> = self
            .names
            .values()
            .chain(self.durable_names.values())
            .copied()
            .chain(self.name_changes.iter().filter_map(NameChange::file))
            .collect();
        let files = self.files.iter().enumerate();
        let files = files
            .map(|(id, file)| if named.contains(&id) { file.clone() } else { Content::default() })
            .collect();
        Self {
            names: self.names.clone(),
            durable_names: self.durable_names.clone(),
            name_changes: self.name_changes.clone(),
            files,
            directories: self.directories.clone(),
            locks: self.locks.clone(),
            failures: self.failures.clone(),
            failed: self.failed.clone(),
            ..*self
        }
    }

    pub(super) fn crash(&self, decide: &mut dyn FnMut(&Unsynced) -> Fate) -> Self {
        let mut after = self.living();
        after.heal();
        after.boots += 1;
        let path_of = |file| self.names.iter().find(|(_, id)| **id == file).map(|(path, _)| path);
        for (file, content) in after.files.iter_mut().enumerate() {
            if content.dirty.is_empty() && content.cached.len() == content.durable.len() {
                // What a failed sync has dropped is in the cache alone.
                content.cached.clone_from(&content.durable);
                continue;
            }
            let path = path_of(file).cloned();
            let length_kept = content.cached.len() == content.durable.len()
                || decide(&Unsynced::Length { path: path.clone() }) == Fate::Keep;
            if length_kept {
                content.durable.resize(content.cached.len(), 0);
            }
            for sector in std::mem::take(&mut content.dirty) {
                let change = Unsynced::Sector { path: path.clone(), number: sector as u64 };
                match decide(&change) {
                    Fate::Keep => content.persist(sector, SECTOR),
                    Fate::Torn => content.persist(sector, SECTOR / 2),
                    Fate::Drop => {}
                }
            }
            content.cached.clone_from(&content.durable);
        }
        for change in std::mem::take(&mut after.name_changes) {
            if decide(&Unsynced::Name { path: change.path().into() }) == Fate::Keep {
                change.apply(&mut after.durable_names);
            }
        }
        after.names.clone_from(&after.durable_names);
        after
    }
}

impl Content {
    fn take_room(&mut self, sector: usize, room: &mut Option<u64>) -> bool {
        if self.allocated.contains(&sector) {
            return true;
        }
        if let Some(left) = room {
            match left.checked_sub(SECTOR as u64) {
                Some(rest) => *left = rest,
                None => return false,
            }
        }
        self.allocated.insert(sector)
    }

    fn put(&mut self, offset: usize, bytes: &[u8]) {
        let end = offset + bytes.len();
        if self.cached.len() < end {
            self.cached.resize(end, 0);
        }
        if let Some(place) = self.cached.get_mut(offset..end) {
            place.copy_from_slice(bytes);
        }
        self.dirty.insert(offset / SECTOR);
    }

    /// Copies the first `bytes` of a sector to where a power cut finds them, as far as the durable
    /// length reaches.
    fn persist(&mut self, sector: usize, bytes: usize) {
        let start = sector * SECTOR;
        let end = (start + bytes).min(self.cached.len()).min(self.durable.len());
        if let (Some(to), Some(from)) =
            (self.durable.get_mut(start..end), self.cached.get(start..end))
        {
            to.copy_from_slice(from);
        }
    }
}

fn slice(bytes: &[u8], offset: u64, length: usize) -> Option<&[u8]> {
    let start = usize::try_from(offset).ok()?;
    bytes.get(start..start.checked_add(length)?)
}

fn to_usize(offset: u64) -> io::Result<usize> {
    usize::try_from(offset).map_err(io::Error::other)
}
