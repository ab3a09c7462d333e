//! A log in memory with a durable part.

use std::{
    cell::{Ref, RefCell, RefMut},
    rc::Rc,
};

use dledger_core::{EntryId, LogIndex, NodeId, Policy, Provisional, State, Term, Vote};

use super::wire::state_of;
use crate::{
    ghost::{Entry, Log},
    plan::{Fault, Plan},
    process::{Change, Disk, Setup},
    random::Random,
};

#[derive(Debug, Clone, Default)]
struct Content {
    /// Index of the first entry that the log holds, or would hold.
    first: u64,
    term: u64,
    vote: Option<usize>,
    entries: Vec<Entry>,
    /// Index behind the last durable entry.
    durable: u64,
    checkpoint: Option<u64>,
    /// It may lack what it vouched for.
    doubt: Option<Provisional>,
    /// What counts is what was written: then a power cut is a reason for doubt.
    written_counts: bool,
}

/// A disk in memory; clones share it.
#[derive(Debug, Clone)]
pub struct MemoryDisk(Rc<RefCell<Content>>);

impl MemoryDisk {
    fn look(&self) -> Ref<'_, Content> {
        self.0.borrow()
    }

    fn change(&self) -> RefMut<'_, Content> {
        self.0.borrow_mut()
    }

    fn of(content: Content) -> Self {
        Self(Rc::new(RefCell::new(content)))
    }

    pub(super) fn state(&self, policy: Policy) -> State {
        {
            // A start makes durable what a killed process left in the cache.
            let mut content = self.change();
            content.written_counts = policy == Policy::Written;
            content.durable = content.entries.last().map_or(content.first, |last| last.index + 1);
            if content.entries.is_empty() {
                content.doubt.get_or_insert(Provisional::Empty);
            }
        }
        let content = self.look();
        State {
            term: Term(content.term),
            vote: content.vote.map_or(Vote::None, |member| Vote::For(NodeId(Setup::id(member)))),
            committed: content.checkpoint.map(LogIndex),
            provisional: content.doubt,
            first: LogIndex(content.first),
            ..state_of(&content.entries)
        }
    }

    pub(super) fn entry(&self, index: u64) -> Option<Entry> {
        self.look().get(index)
    }

    pub(super) fn last_id(&self) -> Option<EntryId> {
        let content = self.look();
        let last = content.entries.last()?;
        Some(EntryId { term: Term(last.term), index: LogIndex(last.index) })
    }

    pub(super) fn push(&self, entry: Entry) {
        self.change().entries.push(entry);
    }

    pub(super) fn flush(&self, upto: u64) {
        let mut content = self.change();
        let end = content.entries.last().map_or(0, |last| last.index + 1);
        content.durable = content.durable.max(end.min(upto + 1));
    }

    /// The term that a power cut would leave.
    pub(super) fn stored_term(&self) -> u64 {
        self.look().term
    }

    pub(super) fn store_vote(&self, term: u64, vote: &Vote) {
        let mut content = self.change();
        content.term = term;
        content.vote = match vote {
            Vote::For(id) => Setup::number(&id.0),
            Vote::None | Vote::Unknown => None,
        };
    }

    pub(super) fn truncate(&self, from: u64) {
        let mut content = self.change();
        content.entries.retain(|entry| entry.index < from);
        let end = content.entries.last().map_or(0, |last| last.index + 1);
        // A cut is durable, and so is then what is left.
        content.durable = end;
    }

    /// Index of the first entry that the log holds, or would hold.
    pub(super) fn first(&self) -> u64 {
        self.look().first
    }

    pub(super) fn restart(&self, first: u64) {
        let mut content = self.change();
        content.entries.clear();
        (content.first, content.durable) = (first, first);
        content.checkpoint = None;
        // While it is refilled the log lacks what this node has acknowledged.
        content.doubt = Some(Provisional::RolledBack);
    }

    pub(super) fn checkpoint(&self, committed: u64) {
        let mut content = self.change();
        let durable = content.durable.checked_sub(1);
        content.checkpoint = content.checkpoint.max(durable.map(|end| end.min(committed)));
    }

    pub(super) fn trust(&self) {
        self.change().doubt = None;
    }

    pub(super) fn trim(&self, committed: u64) -> Option<u64> {
        let mut content = self.change();
        let first = content.entries.first()?.index;
        let keep = first + committed.saturating_sub(first) / 2;
        let keep = keep.min(content.durable.saturating_sub(1));
        if keep <= first {
            return None;
        }
        content.entries.retain(|entry| entry.index >= keep);
        content.first = keep;
        Some(keep)
    }

    pub(super) fn changes(&self, log: &Log) -> Vec<Change> {
        let content = self.look();
        let mut changes = Vec::new();
        let first = content.first;
        // From the end, where nearly every look ends at once.
        let differs = |entry: &&Entry| {
            entry.index >= first && content.get(entry.index).as_ref() != Some(*entry)
        };
        let cut = log.entries().iter().rev().take_while(differs).last().map(|entry| entry.index);
        changes.extend(cut.map(Change::Truncated));
        if log.first().is_some_and(|known| known < first) {
            changes.push(Change::Trimmed(first));
        }
        let end = log.last_index().map_or(0, |last| last + 1);
        let from = cut.unwrap_or(end).max(first);
        let start = content.entries.partition_point(|entry| entry.index < from);
        let new = content.entries.get(start..).unwrap_or_default();
        changes.extend(new.iter().map(|entry| Change::Appended(*entry)));
        changes
    }
}

impl Content {
    fn get(&self, index: u64) -> Option<Entry> {
        let nth = index.checked_sub(self.entries.first()?.index)?;
        self.entries.get(usize::try_from(nth).ok()?).copied()
    }
}

impl Disk for MemoryDisk {
    fn new(_plan: &Plan) -> Self {
        Self::of(Content::default())
    }

    fn after_kill(&self) -> Self {
        Self::of(self.look().clone())
    }

    fn after_power_cut(&self, random: &mut Random) -> Self {
        let mut content = self.look().clone();
        let end = content.entries.last().map_or(0, |last| last.index + 1);
        let left = random.between(content.durable.min(end), end);
        content.entries.retain(|entry| entry.index < left);
        content.durable = left;
        if content.written_counts {
            content.doubt = Some(Provisional::UncleanBoot);
        }
        Self::of(content)
    }

    fn wiped(&self) -> Self {
        Self::of(Content::default())
    }

    fn rolled_back(&self, copy: &Self) -> Option<Self> {
        let mut content = copy.look().clone();
        // The engine sees it by a mark that it keeps elsewhere.
        content.doubt = Some(Provisional::RolledBack);
        let now = self.look();
        (content.term, content.vote) = (now.term, now.vote);
        Some(Self::of(content))
    }

    fn inject(&self, _fault: Fault, _random: &mut Random) -> bool {
        false
    }

    fn heal(&self) {}

    fn failures(&self) -> u64 {
        0
    }

    fn is_dark(&self) -> bool {
        false
    }

    fn rot(&self, _entries: &[Entry], _random: &mut Random) -> Option<u64> {
        None
    }

    fn lose_index(&self, _random: &mut Random) -> bool {
        self.change().checkpoint = None;
        true
    }

    fn stored_vote(&self) -> (u64, Option<usize>) {
        let content = self.look();
        (content.term, content.vote)
    }

    fn durable(&self, log: &Log, _from: Option<u64>) -> Option<u64> {
        let content = self.look();
        let end = log.last_index()?.min(content.durable.checked_sub(1)?);
        content.get(end).filter(|entry| log.get(end) == Some(entry)).map(|entry| entry.index)
    }

    fn is_sound(&self, entry: &Entry) -> bool {
        self.entry(entry.index).as_ref() == Some(entry)
    }
}
