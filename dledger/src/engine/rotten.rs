//! Entries that rotted: they are fetched from the other members, and given up where none of them will
//! ever have them again.

use std::collections::BTreeMap;

use bytes::Bytes;
use dledger_core::{CallId, Fetch, FetchReply, LogIndex, Lost, Message, Millis, NodeId};

use super::{Engine, Job, Mending, ReadJob, disk::RETRY_MILLIS};
use crate::{EntriesRead, disk_log::rot::RottenRange, transport::Outgoing};

/// Most bytes that are read for a member that asks for what rotted.
const FETCH_BYTES: u64 = 4 * 1024 * 1024;
/// Most such requests that are served at once; others are told that there is nothing.
const FETCHES: usize = 4;

/// Rotten entries on their way back.
#[derive(Debug, Default)]
pub(super) struct Mends {
    /// When a member is asked again.
    due: Millis,
    /// Which one.
    turn: usize,
    /// What came is being written.
    running: bool,
    /// Reads for members that asked for what rotted with them.
    serving: usize,
    /// Members that will never have the first entry that is rotten here.
    lost: BTreeMap<NodeId, Lost>,
    /// Which entry that is.
    lost_first: LogIndex,
}

impl Mends {
    /// When a member is to be asked, unless what one sent is being written.
    pub(super) fn due(&self) -> Option<Millis> {
        (!self.running).then_some(self.due)
    }

    /// How many members are being served, and how many may be.
    pub(super) fn served_at_once(&self) -> (usize, usize) {
        (self.serving, FETCHES)
    }

    /// What a member said of its copies counts no more: it may have begun anew.
    pub(super) fn forget(&mut self, id: &NodeId) {
        self.lost.remove(id);
    }

    /// A member said whether it will ever have entry `first`, which is the first one that is rotten here.
    fn note_lost(&mut self, id: &NodeId, first: LogIndex, lost: Option<Lost>) {
        if self.lost_first != first {
            self.lost.clear();
            self.lost_first = first;
        }
        match lost {
            Some(lost) => self.lost.insert(id.clone(), lost),
            None => self.lost.remove(id),
        };
    }

    /// The first entry that any of `others` has, where all of them will never have what is rotten here.
    fn first_elsewhere(&self, others: &[NodeId]) -> Option<LogIndex> {
        let said: Option<Vec<Lost>> = others.iter().map(|id| self.lost.get(id).copied()).collect();
        let begins = said?.into_iter().filter_map(|lost| match lost {
            Lost::Trimmed(begin) => Some(begin),
            Lost::Rotten => None,
        });
        begins.min().filter(|begin| *begin > self.lost_first)
    }
}

impl<T> Engine<T> {
    /// Looks closer at where readers have met something bad; tells whether there is rot.
    pub(super) fn convict(&mut self) -> bool {
        let convicted = self.log.convicted();
        for (index, reason) in &convicted {
            self.found_rotten(LogIndex(*index), reason);
        }
        !convicted.is_empty()
    }

    /// An entry of this node could not be read: it is rotten, or the one before it is.
    pub(super) fn find_culprits(&mut self, index: LogIndex) {
        for (index, reason) in self.log.culprits(index.0) {
            self.found_rotten(LogIndex(index), &reason);
        }
    }

    fn found_rotten(&mut self, index: LogIndex, reason: &str) {
        if let Some(range) = self.log.note_rot(index.0, reason) {
            tracing::error!(?range, "an entry is rotten: it is fetched from another member");
        }
    }

    /// Asks the leader, and the others in turn, for the first range that rotted.
    pub(super) fn fetch_rotten(&mut self, now: Millis) {
        if self.mends.running || now < self.mends.due {
            return;
        }
        let Some(range) = self.log.rotten().into_iter().next() else { return };
        self.mends.due = now.after(RETRY_MILLIS);
        self.mends.turn = self.mends.turn.wrapping_add(1);
        let leader = self.status.leader.clone().map(NodeId);
        let leader = leader.filter(|id| self.mends.turn % 2 == 1 && self.others.contains(id));
        let nth = self.mends.turn / 2 % self.others.len().max(1);
        let to = leader.or_else(|| self.others.get(nth).cloned());
        // A Java member does not know the request.
        let Some(to) = to.filter(|id| !self.is_java(id)) else { return };
        let message =
            Message::Fetch(Fetch { first: LogIndex(range.first), last: LogIndex(range.last) });
        self.sends.push_back(Outgoing { to: to.0, call: None, message, entries: Vec::new() });
    }

    /// A member's copies of some entries are rotten: it gets this node's.
    pub(super) fn serve(&mut self, from: NodeId, call: CallId, Fetch { first, last }: Fetch) {
        let has = self.written.is_some_and(|written| last <= written.index) && first <= last;
        if !has || self.mends.serving >= FETCHES {
            return self.answer_fetch((from, call), first, None);
        }
        self.mends.serving += 1;
        let (call, max_bytes) = (Some(call), FETCH_BYTES);
        let job = ReadJob { peer: from, call, from: first, upto: last, max_bytes };
        self.jobs.push_back(Job::Read(job));
    }

    pub(super) fn served(&mut self) {
        self.mends.serving = self.mends.serving.saturating_sub(1);
    }

    pub(super) fn answer_fetch(
        &mut self,
        (to, call): (NodeId, CallId),
        first: LogIndex,
        read: Option<EntriesRead>,
    ) {
        let count = read.as_ref().map_or(0, |read| read.count);
        let lost = if read.is_none() { self.lost(first) } else { None };
        let entries = read.map_or_else(Vec::new, |read| read.bytes);
        let message = Message::FetchReply(FetchReply { first, count, lost });
        self.sends.push_back(Outgoing { to: to.0, call: Some(call), message, entries });
    }

    /// Why this member will never have an entry that another one asks for.
    fn lost(&self, first: LogIndex) -> Option<Lost> {
        let begin = self.log.first_index().ok().flatten()?;
        if begin > first.0 {
            return Some(Lost::Trimmed(LogIndex(begin)));
        }
        let mut rotten = self.log.rotten().into_iter();
        let own = rotten.any(|range| (range.first..=range.last).contains(&first.0));
        own.then_some(Lost::Rotten)
    }

    /// A member sent its copies of entries that are rotten here.
    pub(super) fn fetched(&mut self, from: &NodeId, reply: FetchReply, entries: Option<Bytes>) {
        let Some(bytes) = entries.filter(|bytes| reply.count > 0 && !bytes.is_empty()) else {
            tracing::warn!(%from, ?reply, "a member cannot send what is rotten here");
            return self.consider_lost(from, reply);
        };
        self.mends.forget(from);
        match self.check(bytes) {
            Ok(_) if self.mends.running => {}
            Ok(fetched) => {
                self.mends.running = true;
                self.jobs.push_back(Job::Mend(Mending { fetched }));
            }
            Err(reason) => tracing::warn!(%from, reason, "what was sent for rotten entries is bad"),
        }
    }

    /// Where no other member will ever have what is rotten here, as their retention has deleted it, it
    /// is given up here, too: this log then begins where one of theirs does. All of that is committed,
    /// so nothing goes that retention might not have taken; what the owner needs stays.
    fn consider_lost(&mut self, from: &NodeId, reply: FetchReply) {
        let Some(range) = self.log.rotten().into_iter().next() else { return };
        if range.first != reply.first.0 {
            return;
        }
        self.mends.note_lost(from, reply.first, reply.lost);
        let Some(begin) = self.mends.first_elsewhere(&self.others) else { return };
        // A log that does not reach up to there is begun anew by its leader.
        let Ok(unit) = self.log.unit(begin.0) else { return };
        let needed = self.hook.as_mut().map_or(0, |hook| hook.0.needed_from());
        let may_go = unit.position <= self.log.bounds().committed.min(needed);
        if may_go && !self.mends.running && !self.cutting {
            self.give_up(&range, begin, unit.position);
        }
    }

    fn give_up(&mut self, range: &RottenRange, begin: LogIndex, before: u64) {
        tracing::error!(
            ?range, %begin,
            "no member has what is rotten here any more: the log is trimmed as those of the others were"
        );
        self.mends.running = true;
        self.mends.lost.clear();
        self.jobs.push_back(Job::GiveUp { before });
    }

    pub(super) fn gave_up(&mut self, now: Millis, result: Result<(), String>) {
        self.mends.running = false;
        if let Err(reason) = result {
            tracing::warn!(reason, "what is lost could not be deleted: it is tried again");
        }
        self.trimmed(now);
    }

    pub(super) fn mended(&mut self, first: LogIndex, result: Result<(), String>) {
        self.mends.running = false;
        match result {
            Ok(()) => {
                tracing::info!(%first, left = self.log.rotten().len(), "rotten entries are mended");
                self.mends.due = Millis(0);
                if let Err(error) = self.writer.refresh() {
                    tracing::warn!(%error, "the end of the log cannot be read");
                }
            }
            Err(reason) => tracing::warn!(%first, reason, "rotten entries are not mended"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_lost_once_all_others_have_said_so_and_one_knows_where_the_log_goes_on() {
        let [n1, n2, n3] = ["n1", "n2", "n3"].map(|id| NodeId(id.to_owned()));
        let others = [n1.clone(), n2.clone(), n3.clone()];
        let first = LogIndex(5);
        let trimmed = |begin| Some(Lost::Trimmed(LogIndex(begin)));
        let mut mends = Mends::default();
        mends.note_lost(&n1, first, trimmed(9));
        mends.note_lost(&n2, first, Some(Lost::Rotten));
        assert_eq!(mends.first_elsewhere(&others), None, "n3 may have it");
        mends.note_lost(&n3, first, trimmed(7));
        assert_eq!(mends.first_elsewhere(&others), Some(LogIndex(7)));
        mends.note_lost(&n3, first, Some(Lost::Rotten));
        assert_eq!(mends.first_elsewhere(&others), Some(LogIndex(9)));
        mends.forget(&n1);
        assert_eq!(mends.first_elsewhere(&others), None, "n1 began a new life");
        mends.note_lost(&n1, first, Some(Lost::Rotten));
        assert_eq!(mends.first_elsewhere(&others), None, "all copies are rotten");
        mends.note_lost(&n1, first, trimmed(4));
        assert_eq!(mends.first_elsewhere(&others), None, "that is no reason");
        mends.note_lost(&n1, LogIndex(6), trimmed(9));
        assert_eq!(mends.first_elsewhere(&others), None, "nobody else was asked for that one");
        mends.note_lost(&n2, LogIndex(6), None);
        assert_eq!(mends.first_elsewhere(&others), None);
    }
}
