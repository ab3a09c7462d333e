//! The small files beside the log: `currterm` and `checkpoint`, in Java's text form, and `durable`
//! and `provisional`, which are our own.

mod doubt;
mod durable;

use std::{io, path::Path, sync::Arc};

use dledger_core::{NodeId, Term, Vote};
use segment::{Backup, SmallFile, Vfs};

pub use self::doubt::Doubt;
pub(crate) use self::{
    doubt::DoubtFile,
    durable::{DurableFile, DurableMark},
};

/// Term and vote (Java: `MemberState.persistState`), which must survive every crash.
#[derive(Debug)]
pub(crate) struct HardState(SmallFile);

/// What `currterm` says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LoadedState {
    /// There is no such file.
    Missing,
    /// It cannot be read as term and vote.
    Damaged(String),
    /// It says this.
    Found { term: Term, vote: Vote },
}

impl HardState {
    pub(crate) fn new(vfs: Arc<dyn Vfs>, directory: &Path) -> Self {
        Self(SmallFile::new(vfs, directory.join("currterm"), Backup::None))
    }

    pub(crate) fn load(&self) -> io::Result<LoadedState> {
        let Some(bytes) = self.0.load()? else { return Ok(LoadedState::Missing) };
        let text = String::from_utf8_lossy(&bytes);
        let Some(term) = number(&text, "currTerm") else {
            let reason = format!("{} has no number currTerm", self.0.path().display());
            return Ok(LoadedState::Damaged(reason));
        };
        let vote = match value(&text, "voteLeader") {
            Some("") | None => Vote::None,
            Some(id) => Vote::For(NodeId(id.to_owned())),
        };
        Ok(LoadedState::Found { term: Term(term), vote })
    }

    /// Durable on return.
    pub(crate) fn store(&self, term: Term, vote: &Vote) -> io::Result<()> {
        let leader = match vote {
            Vote::For(id) => id.0.as_str(),
            Vote::None | Vote::Unknown => "",
        };
        self.0.store(format!("voteLeader={leader}\ncurrTerm={term}\n").as_bytes())
    }
}

/// How far the log was at the last checkpoint (Java: `DLedgerMmapFileStore.persistCheckPoint`).
#[derive(Debug)]
pub(crate) struct Checkpoint(SmallFile);

/// What `checkpoint` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct LoadedCheckpoint {
    /// An entry that was committed then.
    pub(crate) committed_index: Option<u64>,
    /// The last entry then: up to there the index was durable.
    pub(crate) end_index: Option<u64>,
    /// Whether a Java node wrote it, that is: ran on this folder after us.
    pub(crate) by_java: bool,
}

impl Checkpoint {
    pub(crate) fn new(vfs: Arc<dyn Vfs>, directory: &Path) -> Self {
        Self(SmallFile::new(vfs, directory.join("checkpoint"), Backup::None))
    }

    /// A damaged file says nothing: the log itself tells what is committed once a term is opened.
    pub(crate) fn load(&self) -> io::Result<LoadedCheckpoint> {
        let Some(bytes) = self.0.load()? else { return Ok(LoadedCheckpoint::default()) };
        let text = String::from_utf8_lossy(&bytes);
        Ok(LoadedCheckpoint {
            committed_index: number(&text, "committedIndex"),
            end_index: number(&text, "endIndex"),
            by_java: value(&text, "writer") != Some("ledgermq"),
        })
    }

    /// The third line is ours; Java reads its two keys and passes over others.
    pub(crate) fn store(&self, committed: Option<u64>, end: Option<u64>) -> io::Result<()> {
        let text = |index: Option<u64>| index.map_or("-1".to_owned(), |index| index.to_string());
        let (committed, end) = (text(committed), text(end));
        let content = format!("committedIndex={committed}\nendIndex={end}\nwriter=ledgermq\n");
        self.0.store(content.as_bytes())
    }
}

/// The value of `key` in a text of `key=value` lines.
fn value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once('=')?;
        (name.trim() == key).then(|| value.trim())
    })
}

fn number(text: &str, key: &str) -> Option<u64> {
    value(text, key)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use segment::SimVfs;
    use std::io::IoSlice;

    fn disk_with(name: &str, content: &[u8]) -> Arc<dyn Vfs> {
        let disk = SimVfs::new();
        let file = disk.create(&Path::new("d").join(name)).unwrap();
        file.write_at(&[IoSlice::new(content)], 0).unwrap();
        Arc::new(disk)
    }

    fn found(term: u64, id: &str) -> LoadedState {
        LoadedState::Found { term: Term(term), vote: Vote::For(NodeId(id.into())) }
    }

    #[test]
    fn what_java_wrote_is_read() {
        let currterm = include_bytes!("../tests/data/dledger-currterm.txt");
        let state = HardState::new(disk_with("currterm", currterm), Path::new("d"));
        assert_eq!(state.load().unwrap(), found(5, "n2"));
        let checkpoint = include_bytes!("../tests/data/dledger-checkpoint.txt");
        let checkpoint = Checkpoint::new(disk_with("checkpoint", checkpoint), Path::new("d"));
        let expected =
            LoadedCheckpoint { committed_index: Some(466), end_index: Some(466), by_java: true };
        assert_eq!(checkpoint.load().unwrap(), expected);
    }

    #[test]
    fn what_is_written_has_javas_form() {
        let disk: Arc<dyn Vfs> = Arc::new(SimVfs::new());
        let state = HardState::new(Arc::clone(&disk), Path::new("d"));
        assert_eq!(state.load().unwrap(), LoadedState::Missing);
        state.store(Term(5), &Vote::For(NodeId("n2".into()))).unwrap();
        let expected = include_bytes!("../tests/data/dledger-currterm.txt");
        assert_eq!(state.0.load().unwrap().unwrap(), expected);
        state.store(Term(6), &Vote::None).unwrap();
        let none = LoadedState::Found { term: Term(6), vote: Vote::None };
        assert_eq!(state.load().unwrap(), none);

        let checkpoint = Checkpoint::new(disk, Path::new("d"));
        checkpoint.store(None, Some(466)).unwrap();
        let text = checkpoint.0.load().unwrap().unwrap();
        assert_eq!(text, b"committedIndex=-1\nendIndex=466\nwriter=ledgermq\n");
        let expected = LoadedCheckpoint { end_index: Some(466), ..LoadedCheckpoint::default() };
        assert_eq!(checkpoint.load().unwrap(), expected);
    }

    #[test]
    fn a_damaged_term_is_told_from_a_missing_one() {
        for content in ["", "voteLeader=n0\n", "currTerm=many\n", "\0\0\0"] {
            let state = HardState::new(disk_with("currterm", content.as_bytes()), Path::new("d"));
            assert!(matches!(state.load().unwrap(), LoadedState::Damaged(_)), "{content:?}");
        }
    }
}
