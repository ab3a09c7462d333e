//! The journal of tables on a member: what clients change becomes records of the log, the records
//! become tables on every member, and files on its disk follow. As the broker does it, less its
//! threads: a restart goes on from the files, a leader writes snapshots, and retention keeps what a
//! snapshot needs.

use std::{fmt::Write, io, path::Path, sync::Arc};

use bytes::Bytes;
use dledger::DiskLog;
use protocol::{
    body::{SubscriptionGroupConfig, TopicConfig},
    message::record::RecordView,
};
use segment::{Call, Vfs};
use store::{
    JournalRecord, Tails,
    journal::{
        self, Applied, Change, Folder, Kind, Mark, QueueRange, Record, Recovered, Replay, Source,
        Tables, Touched,
    },
};

use super::{
    files::Files,
    messages::{QUEUES, TOPIC},
};
use crate::{model::Op, plan::Plan, process::Shown};

/// Numbers of submissions from here on are the leader's own.
pub(super) const OWN: u64 = 1 << 48;
/// The queue by which the records of the journal are told from messages.
pub(super) const QUEUE: u32 = 10;
/// Jobs of the disk between two projections.
const PROJECT_EVERY: u64 = 7;
/// Milliseconds until a snapshot that failed is begun again.
const AGAIN: u64 = 300;
/// How much longer than a snapshot the log must be until the next one.
const SPACING: u64 = 4;

/// Faults that are planted in this owner of the log.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Planted {
    /// Changes of these are done by the leader alone.
    offsets: bool,
    topics: bool,
    delays: bool,
    /// The mark names a position that the files do not hold.
    hasty_mark: bool,
}

impl Planted {
    #[cfg(feature = "planted")]
    fn of(plan: &Plan) -> Self {
        use dledger_core::Bug;
        let has = |bug| plan.planted.has(bug);
        Self {
            offsets: has(Bug::P22),
            topics: has(Bug::P23),
            delays: has(Bug::P24),
            hasty_mark: has(Bug::T1),
        }
    }

    #[cfg(not(feature = "planted"))]
    fn of(_plan: &Plan) -> Self {
        Self::default()
    }

    fn hides(self, op: &Op) -> bool {
        match op {
            Op::Offset { .. } => self.offsets,
            Op::Topic { .. } | Op::DeleteTopic { .. } => self.topics,
            Op::Delay { .. } => self.delays,
            Op::Group { .. } | Op::DeleteGroup { .. } => false,
        }
    }
}

/// The journal of one member.
#[derive(Debug)]
pub(super) struct Journal {
    folder: Folder,
    mark: Mark,
    replay: Replay,
    /// Tables that may differ from their files.
    dirty: Touched,
    mark_is_old: bool,
    /// Log position up to which everything is applied.
    applied: u64,
    /// Ends of the queues there.
    tails: Tails,
    snapshot: Snapshot,
    last_id: u64,
    jobs: u64,
    file_size: u64,
    planted: Planted,
}

/// A snapshot on its way into the log.
#[derive(Debug, Default)]
enum Snapshot {
    /// None is being written; the next may begin at this time.
    #[default]
    None,
    /// Not before this time.
    NotBefore(u64),
    /// Its begin is with the log, or committed and not applied.
    Begun(u64),
    /// So much of it is left, the next one first.
    Parts { left: Vec<Record>, submitted: bool },
}

/// The records of the journal in a log.
struct Records<'a> {
    log: &'a DiskLog,
    files: &'a Files,
}

impl Source for Records<'_> {
    fn bounds(&self) -> (u64, u64) {
        let bounds = self.log.bounds();
        (bounds.min, bounds.committed)
    }

    fn read(
        &self,
        from: u64,
        each: &mut dyn FnMut(&JournalRecord<'_>) -> bool,
    ) -> io::Result<Option<u64>> {
        let (min, end) = self.bounds();
        for entry in self.files.entries(min, end).filter(|entry| entry.position >= from) {
            let Ok(body) = self.log.read_unsized(entry.position) else {
                return Ok(Some(entry.position));
            };
            let told = RecordView::parse(&body).ok().filter(|view| view.topic() == journal::TOPIC);
            let Some(view) = told else { continue };
            let (position, stored) = (entry.position, view.store_timestamp());
            if !each(&JournalRecord { position, stored, body: view.body() }) {
                break;
            }
        }
        Ok(None)
    }
}

impl Journal {
    /// Goes on from the files in config/ and the records behind their mark.
    pub(super) fn start(
        vfs: &Arc<dyn Vfs>,
        (log, files): (&DiskLog, &Files),
        plan: &Plan,
    ) -> Result<Self, String> {
        let loaded = Folder::new(vfs, Path::new("config")).load();
        let source = Records { log, files };
        let recovered = loaded.and_then(|loaded| loaded.recover(&source, |_| {}));
        let Recovered { replay, folder, mark, unread } =
            recovered.map_err(|error| error.to_string())?;
        let bounds = log.bounds();
        let mut applied = unread.unwrap_or(bounds.committed);
        let mut tails = Tails::new();
        for entry in files.entries(bounds.min, applied) {
            let Ok(body) = log.read_unsized(entry.position) else {
                applied = entry.position;
                break;
            };
            tails.fold(&body);
        }
        Ok(Self {
            folder,
            mark,
            replay,
            dirty: Touched::ALL,
            mark_is_old: false,
            applied,
            tails,
            snapshot: Snapshot::None,
            last_id: 0,
            jobs: 0,
            file_size: plan.file_size,
            planted: Planted::of(plan),
        })
    }

    /// Applies what is committed, in order; stops at what cannot be read and comes back to it.
    pub(super) fn follow(&mut self, log: &DiskLog, files: &Files) {
        let bounds = log.bounds();
        if self.applied < bounds.min {
            // The log was started anew further on: what is left decides where queues go on.
            (self.applied, self.tails) = (bounds.min, Tails::new());
        }
        for entry in files.entries(self.applied, bounds.committed) {
            let Ok(body) = log.read_unsized(entry.position) else { return };
            self.tails.fold(&body);
            self.apply(entry.position, &body);
            self.applied = entry.end();
        }
        self.applied = self.applied.max(bounds.committed);
    }

    fn apply(&mut self, position: u64, body: &[u8]) {
        let Ok(view) = RecordView::parse(body) else { return };
        if view.topic() != journal::TOPIC {
            return;
        }
        match self.replay.apply(position, view.store_timestamp(), view.body()) {
            Ok(Applied::Changes(_, touched)) => self.touch(touched),
            Ok(Applied::Begun(id)) => self.capture(id),
            Ok(Applied::Adopted(changed)) => {
                self.mark_is_old = true;
                if changed {
                    self.touch(Touched::ALL);
                }
            }
            Ok(Applied::Nothing) | Err(_) => {}
        }
    }

    fn touch(&mut self, touched: Touched) {
        Kind::ALL.into_iter().filter(|kind| touched.has(*kind)).for_each(|kind| {
            self.dirty.add(kind);
        });
    }

    /// The begin of a snapshot is applied: where this member writes it, it describes what holds now.
    fn capture(&mut self, id: u64) {
        if !matches!(self.snapshot, Snapshot::Begun(begun) if begun == id) {
            return;
        }
        let range = |id| QueueRange { id, min: 0, next: self.tails.next(TOPIC, id) };
        let queues = vec![(TOPIC.to_owned(), (0..QUEUES).map(range).collect())];
        let records = journal::snapshot_records(id, self.replay.tables(), queues);
        self.snapshot = match records {
            Ok(records) => Snapshot::Parts { left: single_rows(records), submitted: false },
            Err(_) => Snapshot::None,
        };
    }

    /// The record that the leader has to submit now, with its number.
    pub(super) fn next_record(&mut self, leads: Option<u64>, now: u64) -> Option<(u64, Record)> {
        let Some(term) = leads else {
            self.snapshot = Snapshot::None;
            return None;
        };
        let is_due = self.is_due();
        match &mut self.snapshot {
            Snapshot::NotBefore(at) if now < *at => None,
            Snapshot::None | Snapshot::NotBefore(_) if is_due => {
                self.last_id = (self.last_id + 1).max((term << 20) + 1);
                self.snapshot = Snapshot::Begun(self.last_id);
                Some((OWN + self.last_id, Record::Begin { snapshot: self.last_id }))
            }
            Snapshot::Parts { left, submitted: submitted @ false } => {
                let record = left.first()?.clone();
                *submitted = true;
                Some((OWN + self.last_id, record))
            }
            Snapshot::None
            | Snapshot::NotBefore(_)
            | Snapshot::Begun(_)
            | Snapshot::Parts { .. } => None,
        }
    }

    fn is_due(&self) -> bool {
        let newest = self.replay.newest().filter(|_| self.replay.is_whole());
        let Some(newest) = newest else { return true };
        let length = newest.end.saturating_sub(newest.begin);
        self.applied / self.file_size > newest.begin / self.file_size
            && self.applied.saturating_sub(newest.end) >= length.saturating_mul(SPACING)
    }

    /// What became of a record of the leader's own.
    pub(super) fn submitted(&mut self, token: u64, committed: bool, now: u64) {
        // Of a snapshot that was given up.
        if token != OWN + self.last_id {
            return;
        }
        match &mut self.snapshot {
            _ if !committed => self.snapshot = Snapshot::NotBefore(now + AGAIN),
            Snapshot::Parts { left, submitted } if *submitted => {
                left.remove(0);
                *submitted = false;
                if left.is_empty() {
                    self.snapshot = Snapshot::None;
                }
            }
            _ => {}
        }
    }

    /// Writes the files from time to time.
    pub(super) fn job_ended(&mut self, files: &Files) {
        self.jobs += 1;
        if self.jobs.is_multiple_of(PROJECT_EVERY) {
            self.project(files);
        }
    }

    /// Writes the files of tables that changed. What the disk refuses is tried again.
    pub(super) fn project(&mut self, files: &Files) {
        let before = files.vfs.failed(Call::Sync);
        self.write_files();
        let failed = files.vfs.failed(Call::Sync).saturating_sub(before);
        files.beside.set(files.beside.get() + failed);
    }

    fn write_files(&mut self) {
        let dirty = std::mem::take(&mut self.dirty);
        let is_old = std::mem::take(&mut self.mark_is_old);
        if !dirty.any() && !is_old {
            return;
        }
        self.replay.reached(self.applied);
        let mut tables = Tables::default();
        tables.take(dirty, self.replay.tables());
        let mut next = Mark {
            position: self.replay.position(),
            term: self.replay.term(),
            last: self.replay.last(),
            whole: self.replay.is_whole(),
            snapshot: self.replay.newest(),
            versions: self.replay.tables().versions.clone(),
            files: self.mark.files.clone(),
            ..Mark::default()
        };
        let written = if self.planted.hasty_mark && !self.mark.files.is_empty() {
            Touched::default()
        } else {
            dirty
        };
        match self.folder.write((&tables, written), &mut next, (&self.mark, true)) {
            Ok(()) => self.mark = next,
            Err(_) => {
                self.mark_is_old |= is_old;
                self.touch(dirty);
            }
        }
    }

    /// Log position before which retention may delete.
    pub(super) fn needed_from(&self) -> u64 {
        self.replay.newest().map_or(0, |newest| newest.begin)
    }

    /// What a client's submission writes: bodies of messages, and behind them perhaps a record.
    /// A planted fault does it to the leader's own tables alone.
    pub(super) fn record(&mut self, op: &Op) -> Option<Record> {
        let changes = vec![change(op)];
        if self.planted.hides(op) {
            let touched = self.replay.tables_mut().apply(&changes, 0, Touched::default());
            self.touch(touched);
            return None;
        }
        Some(Record::Changes { changes })
    }

    /// The tables for a comparison, and up to which log position they are applied.
    pub(super) fn shown(&self) -> Shown {
        Shown { applied: self.applied, tables: text(self.replay.tables()) }
    }
}

/// Parts of one row each: a snapshot of few rows has many records too.
fn single_rows(records: Vec<Record>) -> Vec<Record> {
    let (mut single, mut parts) = (Vec::new(), 0);
    for record in records {
        match record {
            Record::Part { snapshot, rows, .. } => {
                for row in rows {
                    single.push(Record::Part { snapshot, nth: parts, rows: vec![row] });
                    parts += 1;
                }
            }
            Record::End { snapshot, versions, .. } => {
                single.push(Record::End { snapshot, parts, versions });
            }
            other => single.push(other),
        }
    }
    single
}

fn change(op: &Op) -> Change {
    match op {
        Op::Topic { name, value } => Change::Topic(TopicConfig {
            topic_name: name.clone(),
            write_queue_nums: *value,
            ..TopicConfig::default()
        }),
        Op::DeleteTopic { name } => Change::DeleteTopic(name.clone()),
        Op::Group { name, value } => Change::Group(SubscriptionGroupConfig {
            group_name: name.clone(),
            retry_max_times: *value,
            ..SubscriptionGroupConfig::default()
        }),
        Op::DeleteGroup { name } => Change::DeleteGroup(name.clone()),
        Op::Offset { key, queue, value } => {
            Change::Offsets { key: key.clone(), queues: vec![(*queue, *value)] }
        }
        Op::Delay { level, value } => Change::Delays(vec![(*level, *value)]),
    }
}

/// As [`crate::model::Model`] writes its own.
fn text(tables: &Tables) -> String {
    let mut text = String::new();
    for (name, topic) in &tables.topics {
        put(&mut text, format_args!("topic {name} {}\n", topic.write_queue_nums));
    }
    for (name, group) in &tables.groups {
        put(&mut text, format_args!("group {name} {}\n", group.retry_max_times));
    }
    for (key, queues) in &tables.offsets {
        for (queue, offset) in queues {
            put(&mut text, format_args!("offset {key} {queue} {offset}\n"));
        }
    }
    for (level, offset) in &tables.delays {
        put(&mut text, format_args!("delay {level} {offset}\n"));
    }
    text
}

fn put(text: &mut String, line: std::fmt::Arguments<'_>) {
    // A string takes every text.
    text.write_fmt(line).ok();
}

/// The record that opens a term.
pub(super) fn opening(term: u64) -> Bytes {
    Record::Opening { term }.encode().unwrap_or_default().into()
}
