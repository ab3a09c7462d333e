//! Reading a log on disk from front to back without changing it, to tell what is damaged; and giving
//! up what cannot be brought back.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use segment::{Finding, Mend, OpenFilesError, SegmentFiles, Vfs};

use crate::{
    ENTRY_HEADER, RecoverError,
    disk_log::cut::erase_behind,
    entry::Header,
    index_log::{self, UNIT, Unit},
    scan::{Before, Scanned, Scanner},
    state_files::{Checkpoint, DurableFile, DurableMark, HardState, LoadedState},
};

/// An entry further than this behind a bad one was written after the bad one was durable; see
/// `DiskOptions::unflushed_window`.
const WINDOW: u64 = 64 * 1024 * 1024;
/// Units of the index compared at once.
const UNITS_AT_ONCE: u64 = 2048;

/// What a log on disk holds and what is wrong with it.
#[derive(Debug, Default)]
pub struct LogSurvey {
    /// Log position of the first entry.
    pub begin: u64,
    /// Log position behind the last entry that can be read without passing over damage.
    pub end: u64,
    /// Sound entries, those behind damage too.
    pub entries: u64,
    /// Index of the first and of the last sound entry.
    pub indexes: Option<(u64, u64)>,
    /// Where the log cannot be taken up; what is sound behind that.
    pub rot: Option<Behind>,
    /// What is wrong.
    pub findings: Vec<Finding>,
}

/// Sound entries behind a damage.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Behind {
    /// Log position of the damage.
    pub position: u64,
    /// How many there are.
    pub entries: u64,
    /// Index of the first and of the last.
    pub indexes: Option<(u64, u64)>,
}

/// Is called with each sound entry.
pub trait Visitor {
    /// The entry at this log position; `behind_damage` where it cannot be reached by a start.
    fn entry(&mut self, position: u64, body: &[u8], behind_damage: bool);

    /// How far the look has come, as log positions: now and at the end.
    fn progress(&mut self, position: u64, end: u64);
}

/// Bytes of a data file in the folder of a log, as its files have them: the configured size where
/// there is none.
///
/// # Errors
/// What the disk answers.
pub fn data_file_size(vfs: &dyn Vfs, directory: &Path, configured: u64) -> io::Result<u64> {
    let data = directory.join("data");
    let mut sizes: Vec<u64> = Vec::new();
    for name in vfs.list(&data)? {
        if name.len() == 20 && name.bytes().all(|byte| byte.is_ascii_digit()) {
            sizes.push(vfs.open(&data.join(name))?.length()?);
        }
    }
    // That of most files; one may have been cut.
    sizes.sort_unstable();
    let most = sizes.chunk_by(|a, b| a == b).max_by_key(|same| same.len());
    let found = most.and_then(|same| same.first().copied()).filter(|size| *size > 0);
    Ok(found.unwrap_or(configured))
}

/// Reads everything that is in the folder `dledger-<selfId>` and checks it: sizes, order, checksums,
/// the chain, the index, and the small files beside. Nothing is changed.
///
/// # Errors
/// What the disk answers, other than that something is missing.
pub fn survey(
    vfs: &Arc<dyn Vfs>,
    directory: &Path,
    file_size: u64,
    visitor: &mut dyn Visitor,
) -> Result<LogSurvey, RecoverError> {
    let mut survey = LogSurvey::default();
    let data = directory.join("data");
    if vfs.list(&data).is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
        survey.tell(data, None, "there is no log".to_owned(), Mend::Start);
        return Ok(survey);
    }
    let (files, flaws) = SegmentFiles::open_sound(Arc::clone(vfs), data.clone(), file_size)?;
    let mark = DurableFile::read(&**vfs, directory)?;
    survey.strays(&data, files.foreign_names());
    let mark = survey.small_files(vfs, directory, mark)?;
    let index = survey.open_index(vfs, directory)?;
    let mut look = Look { files: &files, index, mark, boot_id: vfs.boot_id(), survey: &mut survey };
    look.run(visitor)?;
    survey.data_files(flaws, (file_size, files.range().map_or(0, |range| range.end)));
    Ok(survey)
}

/// Gives up all that lies at or behind log position `position`, so that the next start takes the log
/// up there. What it erases is gone: the caller has kept a copy and asked the operator.
///
/// # Errors
/// What the disk answers.
pub fn give_up_behind(
    vfs: &Arc<dyn Vfs>,
    directory: &Path,
    file_size: u64,
    position: u64,
) -> Result<(), RecoverError> {
    let data = SegmentFiles::open_extending(Arc::clone(vfs), directory.join("data"), file_size)?;
    let mut durable = DurableFile::open(&**vfs, directory)?;
    let boot_id = vfs.boot_id();
    erase_behind(&data, &mut durable, (position, &boot_id), |data| data.truncate(position))?;
    Ok(())
}

impl LogSurvey {
    fn tell(&mut self, place: PathBuf, position: Option<u64>, what: String, mend: Mend) {
        self.findings.push(Finding { place, position, what, mend });
    }

    fn strays(&mut self, folder: &Path, names: &[String]) {
        for name in names {
            let what = "not a file of the log; a Java broker would not start".to_owned();
            self.tell(folder.join(name), None, what, Mend::MoveAside);
        }
    }

    fn data_files(&mut self, flaws: Vec<OpenFilesError>, (file_size, end): (u64, u64)) {
        for flaw in flaws {
            let (path, mend) = match &flaw {
                OpenFilesError::Length { path, actual, .. } => {
                    let is_next = path.ends_with(format!("{end:020}"));
                    let cut = is_next && *actual < file_size && end > 0;
                    // What was durable of it is told by the mark.
                    let gone = self.rot.is_some();
                    (path.clone(), if cut && !gone { Mend::Start } else { Mend::Lost })
                }
                OpenFilesError::Name { path, .. } => (path.clone(), Mend::MoveAside),
                OpenFilesError::Gap { directory, .. } => (directory.clone(), Mend::Lost),
                OpenFilesError::Io { path, .. } => (path.clone(), Mend::Lost),
            };
            if mend == Mend::Lost && self.rot.is_none() {
                self.rot = Some(Behind { position: self.end, ..Behind::default() });
            }
            self.tell(path, None, flaw.to_string(), mend);
        }
    }

    fn small_files(
        &mut self,
        vfs: &Arc<dyn Vfs>,
        directory: &Path,
        mark: Option<DurableMark>,
    ) -> io::Result<DurableMark> {
        if let LoadedState::Damaged(reason) = HardState::new(Arc::clone(vfs), directory).load()? {
            let what = format!("{reason}: no vote is given in the term that it named");
            self.tell(directory.join("currterm"), None, what, Mend::Start);
        }
        let Some(mark) = mark else {
            let what = "says nothing: rot is found by the checksums only".to_owned();
            self.tell(directory.join("durable"), None, what, Mend::Start);
            return Ok(DurableMark::default());
        };
        let by_java = Checkpoint::new(Arc::clone(vfs), directory).load()?.by_java;
        Ok(if by_java { DurableMark::default() } else { mark })
    }

    fn open_index(
        &mut self,
        vfs: &Arc<dyn Vfs>,
        directory: &Path,
    ) -> Result<Option<SegmentFiles>, RecoverError> {
        let folder = directory.join("index");
        let size = index_log::FILE_SIZE;
        let opened = match SegmentFiles::open_sound(Arc::clone(vfs), folder.clone(), size) {
            Err(OpenFilesError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                self.tell(folder, None, "there is no index".to_owned(), Mend::Start);
                return Ok(None);
            }
            opened => opened?,
        };
        let (index, flaws) = opened;
        self.strays(&folder, index.foreign_names());
        for flaw in &flaws {
            self.tell(folder.clone(), None, format!("{flaw}; it is built anew"), Mend::Start);
        }
        Ok(flaws.is_empty().then_some(index))
    }
}

/// One pass over the entries.
struct Look<'a> {
    files: &'a SegmentFiles,
    index: Option<SegmentFiles>,
    mark: DurableMark,
    boot_id: String,
    survey: &'a mut LogSurvey,
}

impl Look<'_> {
    fn run(&mut self, visitor: &mut dyn Visitor) -> io::Result<()> {
        let Some(range) = self.files.range() else { return Ok(()) };
        let mut units = Units::default();
        let mut scanner = Scanner::new(self.files);
        let mut before = Before::start(None);
        let mut position = range.start;
        self.survey.begin = range.start;
        self.survey.end = range.start;
        loop {
            visitor.progress(position, range.end);
            match scanner.at(position, &before)? {
                Scanned::Entry(header) => {
                    self.sound(&header);
                    let behind = self.survey.rot.is_some();
                    let body = read_body(self.files, &header)?;
                    visitor.entry(position, &body, behind);
                    units.push(self, &header)?;
                    before.advance(header);
                    position = header.end();
                }
                Scanned::Padding => position = self.next_file(position),
                Scanned::Nothing => match self.stopped(position, "nothing was written there")? {
                    Some(next) => (position, before) = (next, Before::start(None)),
                    None => break,
                },
                Scanned::Bad(reason) => match self.stopped(position, reason)? {
                    Some(next) => (position, before) = (next, Before::start(None)),
                    None => break,
                },
            }
        }
        units.compare(self)?;
        units.tell(self);
        visitor.progress(range.end, range.end);
        Ok(())
    }

    fn sound(&mut self, header: &Header) {
        let survey = &mut *self.survey;
        survey.entries += 1;
        let first = survey.indexes.map_or(header.index, |(first, _)| first);
        survey.indexes = Some((first, header.index));
        match &mut survey.rot {
            Some(behind) => {
                behind.entries += 1;
                let first = behind.indexes.map_or(header.index, |(first, _)| first);
                behind.indexes = Some((first, header.index));
            }
            None => survey.end = header.end(),
        }
    }

    fn next_file(&self, position: u64) -> u64 {
        self.files.base_of(position) + self.files.file_size()
    }

    /// Tells what the end at `position` is; where it is damage, the position from which entries can
    /// be read again.
    fn stopped(&mut self, position: u64, reason: &str) -> io::Result<Option<u64>> {
        let range = self.files.range().unwrap_or(0..0);
        let mut scanner = Scanner::new(self.files);
        let same_boot = !self.boot_id.is_empty() && self.mark.boot_id == self.boot_id;
        let proof = if same_boot { position } else { position.saturating_add(WINDOW) };
        let proved = !self.mark.cutting && scanner.find_checked(proof)?.is_some();
        let damaged = position < self.mark.position || proved || self.survey.rot.is_some();
        if !damaged {
            let torn = range.contains(&position) && scanner.first_nonzero(position)?.is_some();
            let file_behind = range.end > self.next_file(position);
            if torn || file_behind {
                let what = format!("torn tail, as after a crash: {reason}");
                let place = self.files.directory().to_owned();
                self.survey.tell(place, Some(position), what, Mend::Start);
            }
            return Ok(None);
        }
        let next = self.next_sound(position)?;
        if position < self.mark.position || proved {
            let what = match next {
                Some(next) => format!("{reason}; sound again from {next} on"),
                None => format!(
                    "{reason}; nothing sound behind it, and all before {} was durable",
                    self.mark.position
                ),
            };
            let place = self.files.directory().to_owned();
            self.survey.tell(place, Some(position), what, Mend::Lost);
            self.survey.rot.get_or_insert(Behind { position, ..Behind::default() });
        }
        Ok(next)
    }

    /// The next entry with checksums, or the first one of a later file.
    fn next_sound(&self, position: u64) -> io::Result<Option<u64>> {
        let mut scanner = Scanner::new(self.files);
        let checked = scanner.find_checked(position + 1)?;
        let end = self.files.range().map_or(0, |range| range.end);
        let mut base = self.next_file(position);
        while base < end && checked.is_none_or(|checked| base < checked) {
            if matches!(scanner.at(base, &Before::start(None))?, Scanned::Entry(_)) {
                return Ok(Some(base));
            }
            base += self.files.file_size();
        }
        Ok(checked)
    }
}

/// Units of entries on their way to be compared with the index.
#[derive(Default)]
struct Units {
    first: u64,
    bytes: Vec<u8>,
    /// Entries whose units differ: the first, the last, how many.
    wrong: Option<(u64, u64, u64)>,
    /// The last entry of all.
    last: u64,
}

impl Units {
    fn push(&mut self, look: &Look<'_>, header: &Header) -> io::Result<()> {
        let count = (self.bytes.len() / UNIT) as u64;
        if count == UNITS_AT_ONCE || header.index != self.first + count {
            self.compare(look)?;
            self.first = header.index;
        }
        self.last = header.index;
        self.bytes.extend_from_slice(&Unit::from(header).encode());
        Ok(())
    }

    fn compare(&mut self, look: &Look<'_>) -> io::Result<()> {
        let expected = std::mem::take(&mut self.bytes);
        let Some(index) = look.index.as_ref().filter(|_| !expected.is_empty()) else {
            return Ok(());
        };
        for (nth, unit) in (self.first..).zip(expected.chunks_exact(UNIT)) {
            let place = nth * UNIT as u64;
            let mut found = [0; UNIT];
            if index.range().is_some_and(|range| range.contains(&place)) {
                index.read_at(place, &mut found)?;
            }
            if found != *unit {
                let (first, _, count) = self.wrong.unwrap_or((nth, nth, 0));
                self.wrong = Some((first, nth, count + 1));
            }
        }
        Ok(())
    }

    /// A start compares units from the durable mark on; those before it are believed.
    fn tell(&self, look: &mut Look<'_>) {
        let Some((first, last, count)) = self.wrong else { return };
        let tail = last == self.last && last - first + 1 == count && !look.mark.clean;
        let (what, mend) = if tail {
            (format!("entries {first} to {last} are not in it yet, as after a crash"), Mend::Start)
        } else {
            (format!("{count} units differ from their entries, {first} to {last}"), Mend::Derive)
        };
        let Some(index) = &look.index else { return };
        let place = index.directory().to_owned();
        look.survey.tell(place, Some(first * UNIT as u64), what, mend);
    }
}

fn read_body(files: &SegmentFiles, header: &Header) -> io::Result<Vec<u8>> {
    let mut body = vec![0; header.body_length() as usize];
    files.read_at(header.position + ENTRY_HEADER as u64, &mut body)?;
    Ok(body)
}
