//! Clients: they submit to whoever says it leads, read what is committed, and ask how far to read.

use std::collections::BTreeSet;

use super::{Happening, World, phases::Phase};
use crate::{
    coverage::Branch,
    ghost::Seen,
    process::{Answer, Incoming, Process},
};

/// By when a submission must be answered at the latest, in milliseconds: its time-out on the
/// slowest clock, and the longest pause.
const ANSWER_MILLIS: u64 = 30_000;

/// What clients wait for.
#[derive(Debug, Default)]
pub(super) struct Clients {
    next: u64,
    /// Submissions without an answer, with their member.
    waiting: BTreeSet<(u64, usize)>,
    /// Questions without an answer, with their member.
    questions: BTreeSet<(u64, usize)>,
    /// Submissions from this number on were made after the group healed.
    pub(super) healed_from: Option<u64>,
    /// How many submissions after that were acknowledged.
    pub(super) acknowledged: u64,
    /// How many of those made since the last [`super::phases::Phase::Disturb`] were not.
    pub(super) failed: u64,
}

impl Clients {
    /// What a member owed is never answered: its process has ended.
    pub(super) fn forget(&mut self, member: usize) {
        self.waiting.retain(|(_, owner)| *owner != member);
        self.questions.retain(|(_, owner)| *owner != member);
    }

    pub(super) fn idle(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(super) fn next_number(&self) -> u64 {
        self.next + 1
    }
}

impl<P: Process> World<P> {
    pub(super) fn client_acts(&mut self, client: u64) {
        if self.phase == Phase::Whole {
            return;
        }
        let gap = if self.phase == Phase::Quorum { 40 } else { self.plan.client_gap };
        let pause = self.load.heavy_tail(gap, 20 * gap);
        self.schedule.plan(self.now + pause, Happening::Client { client });
        match self.load.below(10) {
            0..7 => self.submit(),
            7..9 => self.read(),
            _ => self.ask(),
        }
    }

    /// Mostly who leads in the highest term; sometimes any that says it leads, sometimes anybody.
    fn target(&mut self) -> Option<usize> {
        if self.load.chance(50) {
            let member = usize::try_from(self.load.below(self.plan.members as u64)).ok()?;
            return self.running(member);
        }
        let leaders = self.leaders();
        if self.load.chance(150) {
            return self.load.pick(&leaders);
        }
        let term = |member: &usize| {
            let standing = self.slots.get(*member).and_then(|slot| slot.standing());
            standing.map_or(0, |standing| standing.term)
        };
        leaders.iter().copied().max_by_key(term)
    }

    /// The member, if it runs and is not frozen.
    fn running(&self, member: usize) -> Option<usize> {
        let slot = self.slots.get(member)?;
        (slot.process.is_some() && slot.frozen_until <= self.now).then_some(member)
    }

    fn submit(&mut self) {
        let Some(member) = self.target().and_then(|member| self.running(member)) else { return };
        self.clients.next += 1;
        let token = self.clients.next;
        let count = self.load.heavy_tail(1, 4);
        let bodies = (0..count)
            .map(|nth| {
                let length = self.load.between(12, self.plan.body_most);
                body(token, nth, length)
            })
            .collect();
        self.note(6, member);
        self.trace.line(self.now, format_args!("client submits {token} ({count}) to n{member}"));
        self.clients.waiting.insert((token, member));
        let deadline = self.now + ANSWER_MILLIS;
        self.watch.see(&Seen::Submitted { member, token, deadline });
        self.step(member, Incoming::Submit { token, bodies });
    }

    fn read(&mut self) {
        let committed = self.watch.ghost.committed.len() as u64;
        let member = usize::try_from(self.load.below(self.plan.members as u64)).unwrap_or(0);
        let recent = self.load.heavy_tail(4, committed.max(5));
        let Some(member) = self.running(member) else { return };
        let index = committed.saturating_sub(recent);
        let Some(entry) = self.watch.ghost.committed(index).map(|known| known.entry) else {
            return;
        };
        let read = self.slots.get(member).and_then(|slot| slot.process.as_ref()?.read(&entry));
        if let Some(hash) = read {
            self.watch.see(&Seen::Read { member, index, hash });
        }
    }

    fn ask(&mut self) {
        let Some(member) = self.target().and_then(|member| self.running(member)) else { return };
        self.clients.next += 1;
        let call = self.clients.next;
        self.clients.questions.insert((call, member));
        self.watch.see(&Seen::Asked { member, call });
        self.step(member, Incoming::ReadIndex { call });
    }

    pub(super) fn hear_answers(&mut self, member: usize) {
        let Some(slot) = self.slots.get_mut(member) else { return };
        let Some(process) = &mut slot.process else { return };
        for answer in process.take_answers() {
            self.trace.line(self.now, format_args!("n{member} answers {answer:?}"));
            match answer {
                Answer::Acknowledged { token, position, hash } => {
                    self.reach(Branch::Acknowledged);
                    self.acknowledged(member, token, (position, hash));
                }
                Answer::CutOff { token } => {
                    self.reach(Branch::CutOff);
                    self.resolve(member, token, None, true);
                }
                Answer::Refused { token } => self.resolve(member, token, None, true),
                Answer::TimedOut { token } => {
                    self.reach(Branch::TimedOut);
                    self.resolve(member, token, None, false);
                }
                Answer::Read { call, entries } => {
                    if self.clients.questions.remove(&(call, member)) {
                        self.watch.see(&Seen::Told { member, call, entries });
                    }
                }
                Answer::Transferred { success } => {
                    if success {
                        self.reach(Branch::Transferred);
                    }
                }
            }
        }
    }

    fn acknowledged(&mut self, member: usize, token: u64, (position, hash): (u64, u64)) {
        let log = self.watch.ghost.member(member).map(|known| &known.log);
        let entry = log.and_then(|log| {
            log.entries().iter().rev().find(|entry| entry.position == position).copied()
        });
        // An entry that is not in the log at all is told as the one that can never be.
        let index = entry.map_or(u64::MAX, |entry| entry.index);
        self.resolve(member, token, Some((index, hash)), false);
        if self.clients.healed_from.is_some_and(|from| token >= from) {
            self.clients.acknowledged += 1;
            self.watch.see(&Seen::Opened { member });
        }
    }

    fn resolve(&mut self, member: usize, token: u64, acked: Option<(u64, u64)>, gone: bool) {
        self.clients.waiting.remove(&(token, member));
        if acked.is_none() && self.clients.healed_from.is_some_and(|from| token >= from) {
            self.clients.failed += 1;
        }
        self.watch.see(&Seen::Resolved { member, token, acknowledged: acked, gone });
    }
}

/// A body that names its submission, of `length` bytes.
fn body(token: u64, nth: u64, length: u64) -> Vec<u8> {
    let mut bytes = format!("?{token:016x}{nth:02x} ").into_bytes();
    let length = usize::try_from(length).unwrap_or(0).max(bytes.len());
    let text: Vec<u8> = bytes.iter().copied().cycle().take(length).collect();
    bytes.clone_from(&text);
    bytes
}
