//! The folder of the tables: Java's JSON files and their mark, written as a projection and read at a
//! start together with the records behind the mark.

use std::{io, path::Path, sync::Arc};

use protocol::body::BodyError;
use segment::{Backup, SmallFile, Vfs};

use super::{
    DecodeError, FileMark, Kind, Mark, MarkError, RecordMark, Replay, ReplayError, Tables, Touched,
};
use crate::{
    Store,
    config_file::{ConfigFile, LoadConfigError},
    dispatch::JournalRecord,
};

/// Why the tables cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenJournalError {
    /// A file is there and cannot be read.
    #[error(transparent)]
    Load(#[from] LoadConfigError),
    /// The mark is of a newer version.
    #[error(transparent)]
    Mark(#[from] MarkError),
    /// The disk refuses.
    #[error("the journal cannot be read: {0}; look at the disk")]
    Io(#[from] io::Error),
    /// A record is above this node's level.
    #[error(transparent)]
    Replay(#[from] ReplayError),
}

/// Where the records of a journal are read from.
pub trait Source {
    /// First log position that is left, and the position behind what is known to be committed.
    fn bounds(&self) -> (u64, u64);

    /// Gives the records from log position `from` on, in order, until `each` gives false, or up to
    /// one that cannot be read now, whose position is returned.
    ///
    /// # Errors
    /// The disk refuses.
    fn read(
        &self,
        from: u64,
        each: &mut dyn FnMut(&JournalRecord<'_>) -> bool,
    ) -> io::Result<Option<u64>>;
}

impl<T: Send + 'static> Source for Store<T> {
    fn bounds(&self) -> (u64, u64) {
        (self.min_physical(), self.max_physical())
    }

    fn read(
        &self,
        from: u64,
        each: &mut dyn FnMut(&JournalRecord<'_>) -> bool,
    ) -> io::Result<Option<u64>> {
        self.read_journal(from, each)
    }
}

/// The files of config/ that hold the tables.
#[derive(Debug)]
pub struct Folder {
    vfs: Arc<dyn Vfs>,
    tables: Vec<(Kind, &'static str, ConfigFile)>,
    mark: SmallFile,
}

/// What the files hold.
#[derive(Debug)]
pub struct Loaded {
    folder: Folder,
    mark: Option<Mark>,
    contents: Vec<(Kind, Content)>,
}

#[derive(Debug)]
struct Content {
    /// Name of the file; empty where it is made of several.
    name: &'static str,
    /// Whether another file of the table counts instead.
    passed_over: bool,
    bytes: Vec<u8>,
    /// Whether the file itself was damaged or missing, and its backup was read.
    from_backup: bool,
}

/// The tables at a start, and what the next projection needs.
#[derive(Debug)]
pub struct Recovered {
    /// The tables, up to the newest record that could be read.
    pub replay: Replay,
    /// The files.
    pub folder: Folder,
    /// What the files hold that need not be written again.
    pub mark: Mark,
    /// Log position of a record that could not be read: it and all behind it are still to be
    /// applied.
    pub unread: Option<u64>,
}

impl Folder {
    /// The files in `directory`.
    #[must_use]
    pub fn new(vfs: &Arc<dyn Vfs>, directory: &Path) -> Self {
        let files = |kind: Kind| {
            kind.file_names().iter().map(move |name| {
                (kind, *name, ConfigFile::new(Arc::clone(vfs), directory.join(name)))
            })
        };
        let mark = directory.join("journal.mark");
        Self {
            vfs: Arc::clone(vfs),
            tables: Kind::ALL.into_iter().flat_map(files).collect(),
            mark: SmallFile::new(Arc::clone(vfs), mark, Backup::None),
        }
    }

    /// Reads them.
    ///
    /// # Errors
    /// The disk refuses, or neither a file nor its backup is what it should be: starting without
    /// would make every group consume from its beginning.
    pub fn load(self) -> Result<Loaded, OpenJournalError> {
        let mut contents = Vec::new();
        for (kind, name, file) in &self.tables {
            let parse = |bytes: &[u8]| -> Result<Vec<u8>, BodyError> {
                Tables::default().read_file(*kind, bytes)?;
                Ok(bytes.to_vec())
            };
            if let Some((bytes, from_backup)) = file.load_telling(parse)? {
                let content = Content { name, passed_over: false, bytes, from_backup };
                contents.push((*kind, content));
            }
        }
        let mark = match self.mark.load()?.map(|bytes| Mark::decode(&bytes)) {
            None => None,
            Some(Ok(mark)) => Some(mark),
            Some(Err(error @ MarkError::Newer(_))) => return Err(error.into()),
            Some(Err(error)) => {
                tracing::warn!(%error, "the JSON files are taken as they are");
                None
            }
        };
        let mut loaded = Loaded { folder: self, mark, contents };
        loaded.choose_offsets()?;
        Ok(loaded)
    }

    /// Writes the files of tables in `dirty` that are not what `last` knows, and the mark, which
    /// `next` becomes; `is_old` where the mark has to be written though no table differs.
    ///
    /// # Errors
    /// The disk refuses. The mark that is there then knows whatever the files hold.
    pub fn write(
        &self,
        (tables, dirty): (&Tables, Touched),
        next: &mut Mark,
        (last, is_old): (&Mark, bool),
    ) -> io::Result<()> {
        let mut texts = Vec::new();
        for kind in Kind::ALL.into_iter().filter(|kind| dirty.has(*kind)) {
            for name in kind.file_names() {
                let text = tables.file_named(kind, name)?;
                let content = FileMark::of(text.as_bytes());
                if last.files.get(*name) != Some(&content) {
                    next.files.insert((*name).to_owned(), content);
                    texts.push((*name, text));
                }
            }
        }
        if texts.is_empty() && !is_old && last.whole == next.whole {
            // The files are as they were: the old mark is right about them.
            next.clone_from(last);
            return Ok(());
        }
        if !texts.is_empty() {
            self.write_mark(&Mark { upcoming: next.files.clone(), ..last.clone() })?;
        }
        for (name, text) in texts {
            self.write_file(name, &text)?;
        }
        self.write_mark(next)
    }

    fn write_file(&self, name: &str, text: &str) -> io::Result<()> {
        let mut named = self.tables.iter().filter(|(_, of, _)| *of == name);
        named.try_for_each(|(_, _, file)| file.store(text.as_bytes()))
    }

    fn write_mark(&self, mark: &Mark) -> io::Result<()> {
        if let Some(directory) = self.mark.path().parent() {
            self.vfs.create_directory(directory)?;
        }
        self.mark.store(&mark.encode()?)
    }
}

impl Loaded {
    /// The tables at the log position up to which `source` can be read: those of the files, with
    /// the records behind their mark. A file that the mark does not know counts as it is, but for
    /// what the journal changed behind the mark and nobody else did. `complete` adds what every
    /// node has by itself.
    ///
    /// # Errors
    /// See [`OpenJournalError`].
    pub fn recover(
        self,
        source: &dyn Source,
        complete: impl FnOnce(&mut Tables),
    ) -> Result<Recovered, OpenJournalError> {
        let mut replay = self.replay_of_files(source)?;
        let unread = [follow(&mut replay, source)?, self.add_missing(source, &mut replay)?];
        let unread = unread.into_iter().flatten().min();
        replay.go_back_to(unread.unwrap_or(u64::MAX));
        complete(replay.tables_mut());
        let mut mark = self.mark.unwrap_or_default();
        // Only what the files hold now is worth not writing again.
        mark.files.retain(|name, file| {
            let of_name = |(_, content): &&(Kind, Content)| content.name == name;
            let content = self.contents.iter().find(of_name);
            content.is_some_and(|(_, content)| {
                !content.from_backup && *file == FileMark::of(&content.bytes)
            })
        });
        mark.upcoming.clear();
        Ok(Recovered { replay, folder: self.folder, mark, unread })
    }

    /// What the files say, before any record is applied.
    fn replay_of_files(&self, source: &dyn Source) -> Result<Replay, OpenJournalError> {
        let (min, end) = source.bounds();
        let mut tables = Tables::default();
        let mut settled = Touched::default();
        for (kind, content) in self.counting() {
            if let Err(error) = tables.read_file(*kind, &content.bytes) {
                tracing::error!(file = kind.file_name(), %error, "it was sound a moment ago");
            }
            let known = self.knows(content);
            if !known && !content.from_backup {
                settled.add(*kind);
            }
        }
        if settled.offsets {
            // Who wrote the offsets knows nothing of resets: groups have gone on since.
            settled.add(Kind::Resets);
            tables.resets.clear();
        }
        let Some(mark) = &self.mark else {
            let whole = min == 0 && self.contents.is_empty();
            return Ok(Replay::from(tables, min, whole).settled(settled, end));
        };
        for kind in Kind::ALL.into_iter().filter(|kind| settled.has(*kind)) {
            tracing::warn!(
                file = kind.file_name(),
                "it is not what this broker wrote: it counts, and not what the journal says of it"
            );
        }
        let versions = mark.versions.clone();
        let file_versions = std::mem::replace(&mut tables.versions, versions);
        tables.versions.take(settled, &file_versions);
        if settled.any()
            && let Some((base, ours)) = around(source, mark.position)?
        {
            // What was acknowledged here behind the mark, and the other writer never saw.
            tables.merge(settled, &base, &ours);
        }
        let whole = mark.whole && !settled.any() && mark.position >= min;
        let from = match mark.last {
            Some(last) if is_there(source, last)? => last.position + 1,
            // The log has lost its end, or is not read so far yet: the tables are made anew from
            // what it holds. Doing a change once more is harmless.
            _ if mark.whole => {
                if mark.snapshot.is_none() && min == 0 {
                    tables.take(others(settled), &Tables::default());
                }
                mark.snapshot.map_or(min, |snapshot| snapshot.begin.max(min))
            }
            // No record says all that they are.
            _ => mark.position,
        };
        Ok(Replay::from(tables, from, whole).settled(settled, end).knowing(mark))
    }

    /// Offsets have two files, and a Java broker writes the one or the other. The one that somebody
    /// else wrote counts; where that is true of both, the larger offset of each queue does, for no
    /// one can say which is newer, and what was acknowledged must not be forgotten.
    fn choose_offsets(&mut self) -> Result<(), OpenJournalError> {
        let places: Vec<usize> = (0..self.contents.len())
            .filter(|at| self.contents.get(*at).is_some_and(|(kind, _)| *kind == Kind::Offsets))
            .collect();
        let [plain, light] = places[..] else { return Ok(()) };
        let told = |at: usize| {
            let content = self.contents.get(at).map(|(_, content)| content);
            content.map_or((true, true), |content| (self.knows(content), content.from_backup))
        };
        let over: &[usize] = match (told(plain), told(light)) {
            ((_, true), (_, false)) | ((true, _), (false, false)) => &[plain],
            ((false, false), (false, false)) => &[plain, light],
            _ => &[light],
        };
        if let [_, _] = over {
            let larger = self.larger_offsets([plain, light])?;
            self.contents.push((Kind::Offsets, larger));
        }
        for at in over {
            if let Some((_, content)) = self.contents.get_mut(*at) {
                content.passed_over = true;
            }
        }
        Ok(())
    }

    fn larger_offsets(&self, places: [usize; 2]) -> Result<Content, OpenJournalError> {
        let mut all = Tables::default();
        for content in places.iter().filter_map(|at| self.contents.get(*at)).map(|(_, it)| it) {
            let mut read = Tables::default();
            if let Err(error) = read.read_file(Kind::Offsets, &content.bytes) {
                tracing::error!(file = content.name, %error, "it was sound a moment ago");
            }
            for (key, queues) in read.offsets {
                let known = all.offsets.entry(key).or_default();
                for (queue, offset) in queues {
                    let largest = known.entry(queue).or_insert(offset);
                    *largest = offset.max(*largest);
                }
            }
            if read.versions.offsets.counter >= all.versions.offsets.counter {
                all.versions = read.versions;
            }
        }
        let bytes = all.file(Kind::Offsets)?.into_bytes();
        Ok(Content { name: "", passed_over: false, bytes, from_backup: false })
    }

    /// The contents that count.
    fn counting(&self) -> impl Iterator<Item = &(Kind, Content)> {
        self.contents.iter().filter(|(_, content)| !content.passed_over)
    }

    fn knows(&self, content: &Content) -> bool {
        self.mark.as_ref().is_some_and(|mark| mark.knows(content.name, &content.bytes))
    }

    /// Tables without a file, or with a backup alone, come from the whole journal.
    fn add_missing(
        &self,
        source: &dyn Source,
        replay: &mut Replay,
    ) -> Result<Option<u64>, OpenJournalError> {
        let min = source.bounds().0;
        let mut missing = Touched::ALL;
        let mut backups = Touched::default();
        for (kind, content) in self.counting() {
            if content.from_backup {
                backups.add(*kind);
            } else {
                missing = without(missing, *kind);
            }
        }
        let fresh = self.mark.is_none() && self.contents.is_empty();
        if !missing.any() || (fresh && replay.position() <= min) {
            return Ok(None);
        }
        let mut all = Replay::from(Tables::default(), min, min == 0);
        let unread = follow(&mut all, source)?;
        for kind in Kind::ALL.into_iter().filter(|kind| missing.has(*kind)) {
            // A backup is better than the rest of a journal whose beginning is gone.
            if all.is_whole() || !backups.has(kind) {
                let mut one = Touched::default();
                one.add(kind);
                replay.tables_mut().take(one, all.tables());
            }
        }
        Ok(unread)
    }
}

fn without(set: Touched, kind: Kind) -> Touched {
    let mut left = Touched::default();
    for other in Kind::ALL.into_iter().filter(|other| *other != kind && set.has(*other)) {
        left.add(other);
    }
    left
}

/// All tables but these.
fn others(set: Touched) -> Touched {
    Kind::ALL.into_iter().filter(|kind| set.has(*kind)).fold(Touched::ALL, without)
}

/// Whether a record lies where it was.
fn is_there(source: &dyn Source, last: RecordMark) -> io::Result<bool> {
    let mut found = None;
    // One that cannot be read is none that was found.
    source.read(last.position, &mut |record| {
        found = Some(RecordMark::of(record.position, record.body));
        false
    })?;
    Ok(found == Some(last))
}

/// The tables as the journal had them at log position `mark`, and as it has them now; `None` where
/// its beginning is gone and no snapshot before the mark is left.
fn around(source: &dyn Source, mark: u64) -> Result<Option<(Tables, Tables)>, OpenJournalError> {
    let min = source.bounds().0;
    let mut replay = Replay::from(Tables::default(), min, min == 0);
    let mut base = None;
    let mut newer = None;
    let unread = source.read(min, &mut |record| {
        if base.is_none() && record.position >= mark {
            base = Some((replay.is_whole(), replay.tables().clone()));
        }
        apply(&mut replay, record, &mut newer)
    })?;
    newer.map_or(Ok(()), |error: ReplayError| Err(error))?;
    let (whole, base) = base.unwrap_or_else(|| (replay.is_whole(), replay.tables().clone()));
    Ok((whole && unread.is_none()).then(|| (base, replay.tables().clone())))
}

/// Applies the records between the replay's position and the end of what can be read; gives the
/// position of one that cannot be.
fn follow(replay: &mut Replay, source: &dyn Source) -> Result<Option<u64>, OpenJournalError> {
    let from = replay.position();
    let mut newer = None;
    let unread = source.read(from, &mut |record| apply(replay, record, &mut newer))?;
    newer.map_or(Ok(unread), |error| Err(error.into()))
}

/// Applies one record; false where it is above this node's level.
fn apply(replay: &mut Replay, record: &JournalRecord<'_>, newer: &mut Option<ReplayError>) -> bool {
    match replay.apply(record.position, record.stored, record.body) {
        Ok(_) => true,
        Err(error) if matches!(error.reason, DecodeError::Newer { .. }) => {
            *newer = Some(error);
            false
        }
        Err(error) => {
            tracing::error!(%error, "a record of the journal is passed over");
            true
        }
    }
}
