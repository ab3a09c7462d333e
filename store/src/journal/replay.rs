//! Records in log order become tables.

use super::{
    Change, Mark, Record, RecordMark, Tables, Touched, Versions,
    record::{DecodeError, decode},
};

/// Changes between begin and end of a snapshot that are kept, at most. One with more was given up
/// by its writer.
const MAX_SINCE: usize = 1 << 20;

/// The tables, how far they have come, and the snapshot that is under way.
#[derive(Debug, Clone, Default)]
pub struct Replay {
    tables: Tables,
    position: u64,
    whole: bool,
    term: u64,
    last: Option<RecordMark>,
    newest: Option<SnapshotPlace>,
    staged: Option<Staged>,
    settled: Settled,
}

/// Where a complete snapshot lies: log positions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct SnapshotPlace {
    /// Of its first record.
    pub begin: u64,
    /// Of its last record.
    pub end: u64,
}

/// What one record did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Applied {
    /// Nothing that others need to know.
    Nothing,
    /// These changes were done; the tables that they touched beside them.
    Changes(Vec<Change>, Touched),
    /// A snapshot of this id begins: it describes [`Replay::tables`] as they are now.
    Begun(u64),
    /// The tables are those of a snapshot that is complete now; whether that changed something.
    Adopted(bool),
}

/// Why a record was not applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("record of the journal at {position}: {reason}")]
pub struct ReplayError {
    /// Log position of the record.
    pub position: u64,
    /// What is wrong with it.
    pub reason: DecodeError,
}

#[derive(Debug, Clone)]
struct Staged {
    id: u64,
    begin: u64,
    parts: u32,
    tables: Tables,
    since: Vec<(i64, Vec<Change>)>,
    changes: usize,
}

/// Tables that files decided, whatever records before a log position say.
#[derive(Debug, Clone, Copy, Default)]
struct Settled {
    before: u64,
    tables: Touched,
}

impl Replay {
    /// Goes on from tables that hold all records before log position `position`. `whole` says
    /// whether they do: else the next complete snapshot decides, and a leader writes one.
    #[must_use]
    pub fn from(tables: Tables, position: u64, whole: bool) -> Self {
        Self { tables, position, whole, ..Self::default() }
    }

    /// As was marked: the newest complete snapshot, the newest term and the last record that were
    /// known.
    #[must_use]
    pub fn knowing(mut self, mark: &Mark) -> Self {
        (self.newest, self.term, self.last) = (mark.snapshot, mark.term, mark.last);
        self
    }

    /// Files decided some tables: records before log position `before` leave them alone.
    #[must_use]
    pub fn settled(mut self, tables: Touched, before: u64) -> Self {
        self.settled = Settled { before, tables };
        self
    }

    /// The tables now.
    #[must_use]
    pub fn tables(&self) -> &Tables {
        &self.tables
    }

    /// The tables, to be completed by what every node has by itself.
    pub fn tables_mut(&mut self) -> &mut Tables {
        &mut self.tables
    }

    /// Log position before which all records are applied.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Whether the tables hold everything that the journal ever said.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.whole
    }

    /// Whether tables are as somebody else wrote their files, which no record says, and no snapshot
    /// that would say what holds is under way.
    #[must_use]
    pub fn is_decided_by_files(&self) -> bool {
        !self.whole && self.settled.tables.any() && self.staged.is_none()
    }

    /// The newest term that was opened.
    #[must_use]
    pub fn term(&self) -> u64 {
        self.term
    }

    /// The last record that is applied.
    #[must_use]
    pub fn last(&self) -> Option<RecordMark> {
        self.last
    }

    /// The newest complete snapshot: the log before its begin is not needed any more.
    #[must_use]
    pub fn newest(&self) -> Option<SnapshotPlace> {
        self.newest
    }

    /// Takes tables that no record says. Until the next complete snapshot they are not whole.
    pub fn adopt(&mut self, tables: Tables) {
        (self.tables, self.whole, self.staged) = (tables, false, None);
    }

    /// Nothing before log position `position` is left to apply.
    pub fn reached(&mut self, position: u64) {
        self.position = self.position.max(position);
    }

    /// Applies records from log position `position` on once more, which is harmless.
    pub fn go_back_to(&mut self, position: u64) {
        self.position = self.position.min(position);
    }

    /// Applies the record at log position `at`, which was stored at `stored` milliseconds. One that
    /// is applied already does nothing.
    ///
    /// # Errors
    /// See [`ReplayError`]; the tables are as before.
    pub fn apply(&mut self, at: u64, stored: i64, body: &[u8]) -> Result<Applied, ReplayError> {
        let record = decode(body).map_err(|reason| ReplayError { position: at, reason })?;
        if at < self.position {
            return Ok(Applied::Nothing);
        }
        self.position = at + 1;
        self.last = Some(RecordMark::of(at, body));
        Ok(match record {
            Record::Opening { term } => {
                // Whatever an earlier leader began, it cannot end any more.
                self.staged = None;
                self.term = self.term.max(term);
                Applied::Nothing
            }
            Record::Changes { changes } => self.change(at, stored, changes),
            Record::Begin { snapshot } => {
                self.staged = Some(Staged::new(snapshot, at));
                Applied::Begun(snapshot)
            }
            Record::Part { snapshot, nth, rows } => {
                self.part(snapshot, nth, &rows);
                Applied::Nothing
            }
            Record::End { snapshot, parts, versions } => self.end(at, (snapshot, parts), versions),
        })
    }

    fn change(&mut self, at: u64, stored: i64, changes: Vec<Change>) -> Applied {
        let settled =
            if at < self.settled.before { self.settled.tables } else { Touched::default() };
        let touched = self.tables.apply(&changes, stored, settled);
        if let Some(staged) = &mut self.staged {
            staged.changes += changes.len();
            staged.since.push((stored, changes.clone()));
            if staged.changes > MAX_SINCE {
                self.staged = None;
            }
        }
        Applied::Changes(changes, touched)
    }

    fn part(&mut self, snapshot: u64, nth: u32, rows: &[Change]) {
        match &mut self.staged {
            Some(staged) if (staged.id, staged.parts) == (snapshot, nth) => {
                staged.parts += 1;
                staged.tables.apply(rows, 0, Touched::default());
            }
            other => *other = None,
        }
    }

    fn end(&mut self, at: u64, (snapshot, parts): (u64, u32), versions: Versions) -> Applied {
        let complete = |staged: &Staged| (staged.id, staged.parts) == (snapshot, parts);
        let Some(staged) = self.staged.take().filter(complete) else { return Applied::Nothing };
        let Staged { begin, mut tables, since, .. } = staged;
        tables.versions = versions;
        for (stored, changes) in since {
            tables.apply(&changes, stored, Touched::default());
        }
        self.newest = Some(SnapshotPlace { begin, end: at });
        if begin < self.settled.before {
            tables.take(self.settled.tables, &self.tables);
        } else {
            self.whole = true;
        }
        let changed = tables != self.tables;
        self.tables = tables;
        Applied::Adopted(changed)
    }
}

impl Staged {
    fn new(id: u64, begin: u64) -> Self {
        Self { id, begin, parts: 0, tables: Tables::default(), since: Vec::new(), changes: 0 }
    }
}
