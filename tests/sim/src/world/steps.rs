//! One step of a member, and all that is looked at after it.

use dledger_core::{Load, Message, PushCode, VoteAnswer};

use super::{Happening, World, slot::JobState};
use crate::{
    coverage::Branch,
    ghost::{Ended, Log, Seen},
    plan::{Fault, Keeping},
    process::{Change, Disk, Incoming, Parcel, Process, Setup, Standing, StartFailure},
};

impl<P: Process> World<P> {
    pub(super) fn start(&mut self, member: usize) {
        self.note(1, member);
        self.lives += 1;
        let life = self.lives;
        let Some(slot) = self.slots.get_mut(member) else { return };
        slot.starting = false;
        if slot.process.is_some() {
            return;
        }
        slot.life = life;
        let setup = Setup { member, plan: self.plan.clone(), life, before: slot.ended };
        let started = P::start(&slot.disk, &setup);
        if slot.disk.is_dark() {
            return self.crash(member, Ended::PowerCut);
        }
        match started {
            Ok(process) => self.started(member, process),
            Err(failure) => self.not_started(member, &failure),
        }
    }

    fn started(&mut self, member: usize, mut process: P) {
        let mut log = Log::default();
        for change in process.changes(&log) {
            if let Change::Appended(entry) = change {
                log.push(entry);
            }
        }
        let term = process.standing().term;
        let Some(slot) = self.slots.get_mut(member) else { return };
        let before = slot.ended;
        slot.standing = Some(process.standing());
        slot.process = Some(process);
        (slot.kept, slot.wake_at, slot.failures) = (None, u64::MAX, slot.disk.failures());
        (slot.frozen_until, slot.tears_vote) = (0, false);
        if slot.lacks.is_some() {
            slot.lacks = Some(self.watch.ghost.committed.len() as u64);
        }
        let known = self.watch.ghost.member(member);
        let lost = known.is_some_and(|known| log.last_index() < known.log.last_index());
        if before == Ended::PowerCut && lost {
            self.reach(Branch::TailLost);
        }
        let last = log.last().map(|last| (last.term, last.index));
        self.trace.line(
            self.now,
            format_args!(
                "n{member} starts in term {term} after {before:?}, log {:?}..{last:?}",
                log.first()
            ),
        );
        self.watch.see(&Seen::Started { member, log, term, before });
        // What ends this life, unless something else is arranged.
        if let Some(slot) = self.slots.get_mut(member) {
            slot.ended = Ended::Killed;
        }
        self.step(member, Incoming::Tick);
    }

    fn not_started(&mut self, member: usize, failure: &StartFailure) {
        self.trace.line(self.now, format_args!("n{member} does not start: {failure}"));
        if let StartFailure::Rot(_) = failure {
            // As the text tells the operator: the folder is moved away.
            self.reach(Branch::RotFound);
            return self.crash(member, Ended::Wiped);
        }
        let wait = self.machines.between(300, 1500);
        let at = self.now + wait;
        if let Some(slot) = self.slots.get_mut(member) {
            slot.starting = true;
            slot.start_failure = Some(failure.to_string());
            self.schedule.plan(at, Happening::Start { member });
        }
    }

    pub(super) fn wake(&mut self, member: usize, life: u64) {
        let now = self.now;
        let Some(slot) = self.slots.get_mut(member) else { return };
        if slot.life != life || slot.wake_at != now || slot.process.is_none() {
            return;
        }
        slot.wake_at = u64::MAX;
        if slot.frozen_until > now {
            slot.wake_at = slot.frozen_until;
            self.schedule.plan(slot.frozen_until, Happening::Wake { member, life });
            return;
        }
        self.note(2, member);
        self.step(member, Incoming::Tick);
    }

    pub(super) fn tell_gone(&mut self, member: usize, gone: usize) {
        let running = self.slots.get(member).is_some_and(|slot| slot.process.is_some());
        if running {
            self.note(4, member);
            self.step(member, Incoming::Gone { member: gone });
        }
    }

    pub(super) fn step(&mut self, member: usize, incoming: Incoming<P::Done>) {
        let Some(slot) = self.slots.get_mut(member) else { return };
        let now = slot.own_time(self.now);
        let Some(process) = &mut slot.process else { return };
        process.handle(now, incoming);
        self.after_step(member);
    }

    pub(super) fn after_step(&mut self, member: usize) {
        if self.died_in_the_dark(member) {
            return;
        }
        self.observe(member);
        self.hear_answers(member);
        self.send_all(member);
        self.take_jobs(member);
        self.plan_wake(member);
        let failed = self.slots.get(member).and_then(|slot| slot.standing);
        if failed.is_some_and(|standing| standing.failed) {
            self.process_ended(member);
        }
    }

    /// Power went in the midst of a call: whatever the process did since has not happened.
    pub(super) fn died_in_the_dark(&mut self, member: usize) -> bool {
        let dark = self.slots.get(member).is_some_and(|slot| slot.disk.is_dark());
        if dark {
            self.fault(Fault::TornCall);
            self.crash(member, Ended::PowerCut);
        }
        dark
    }

    /// A process that has stopped for good is started again by whoever looks after it.
    fn process_ended(&mut self, member: usize) {
        let reason = self.slots.get(member).and_then(|slot| slot.process.as_ref()?.failure());
        self.trace.line(self.now, format_args!("n{member} stops: {reason:?}"));
        if let Some(violation) = reason.as_ref().filter(|reason| P::is_violation(reason)) {
            self.watch.break_by("a member never meets what must never be", violation.clone());
        }
        self.reach(Branch::DiskFailed);
        let ended = self.slots.get(member).map_or(Ended::Killed, |slot| slot.ended);
        self.crash(member, ended);
    }

    /// Looks at what the member says of itself and at its disk.
    pub(super) fn observe(&mut self, member: usize) {
        self.observe_disk_errors(member);
        let opened = self.observe_standing(member);
        self.observe_log(member);
        self.observe_commit(member);
        if opened {
            self.judge_new_leader(member);
        }
        self.observe_loads(member);
    }

    /// What is far below its bound is passed over.
    fn observe_loads(&mut self, member: usize) {
        let Some(slot) = self.slots.get(member) else { return };
        let Some(process) = &slot.process else { return };
        for load in process.loads().into_iter().filter(|load| load.amount > load.bound / 2) {
            self.watch.see(&Seen::Queued { member, load });
        }
    }

    fn observe_disk_errors(&mut self, member: usize) {
        let Some(slot) = self.slots.get_mut(member) else { return };
        // What went wrong in a job is told to the process at its end.
        if !slot.running.is_empty() {
            return;
        }
        let failures = slot.disk.failures();
        if failures != slot.failures {
            slot.failures = failures;
            self.watch.see(&Seen::DiskFailed { member });
        }
    }

    /// Whether the member has just committed the entry that opens its term.
    fn observe_standing(&mut self, member: usize) -> bool {
        let Some(slot) = self.slots.get_mut(member) else { return false };
        let Some(now) = slot.process.as_ref().map(Process::standing) else { return false };
        let Some(before) = slot.standing.replace(now) else { return false };
        if before == now {
            return false;
        }
        let Standing { role, term, opened, .. } = now;
        self.trace
            .line(self.now, format_args!("n{member} is {role} in term {term}, opened {opened}"));
        if before.leads() && !(now.leads() && now.term == before.term) {
            self.reach(Branch::Deposed);
            self.watch.see(&Seen::Deposed { member });
        }
        if now.term != before.term {
            self.watch.see(&Seen::Term { member, term: now.term });
        }
        if now.leads() && !(before.leads() && now.term == before.term) {
            self.reach(Branch::Elected);
            if self.plan.java.has(member) {
                self.reach(Branch::JavaLed);
            }
            if self.leaders().len() > 1 {
                self.reach(Branch::TwoLeaders);
            }
            self.watch.see(&Seen::Led { member, term: now.term });
        }
        now.opened && !(before.opened && now.term == before.term)
    }

    fn observe_log(&mut self, member: usize) {
        let Some(slot) = self.slots.get_mut(member) else { return };
        let Some(process) = &mut slot.process else { return };
        let Some(known) = self.watch.ghost.member(member) else { return };
        let changes = process.changes(&known.log);
        for change in changes {
            match change {
                Change::Truncated(from) => self.truncated(member, from),
                Change::Trimmed(first) => {
                    let known = self.watch.ghost.member(member);
                    let all = known.is_some_and(|known| known.log.last_index() < Some(first));
                    if all {
                        self.reach(Branch::LogRestarted);
                        self.forget_kept(member, 0);
                    }
                    self.trace.line(self.now, format_args!("n{member} trims to {first}"));
                    self.watch.see(&Seen::Trimmed { member, first });
                }
                Change::Appended(entry) => {
                    self.watch.see(&Seen::Appended { member, entry });
                }
            }
        }
    }

    fn truncated(&mut self, member: usize, from: u64) {
        self.trace.line(self.now, format_args!("n{member} cuts from {from}"));
        self.reach(Branch::Truncated);
        if self.slots.get(member).is_some_and(|slot| slot.kept >= Some(from)) {
            self.reach(Branch::TruncatedFlushed);
        }
        self.forget_kept(member, from);
        self.watch.see(&Seen::Truncated { member, from });
    }

    fn forget_kept(&mut self, member: usize, from: u64) {
        let Some(slot) = self.slots.get_mut(member) else { return };
        let left = slot.kept.min(from.checked_sub(1));
        if left != slot.kept {
            slot.kept = left;
            self.watch.see(&Seen::Kept { member, upto: left });
        }
    }

    fn observe_commit(&mut self, member: usize) {
        let Some(slot) = self.slots.get(member) else { return };
        let Some(known) = self.watch.ghost.member(member) else { return };
        let Some(process) = &slot.process else { return };
        let upto = process.committed(&known.log);
        let before = known.commit;
        if upto == before {
            return;
        }
        let Some(upto) = upto else {
            // A log that was started anew further on is empty for a while.
            if before.is_some_and(|before| known.log.get(before).is_some()) {
                self.watch.break_by("R-9 monotonic commit", format!("n{member} forgot {before:?}"));
            }
            return;
        };
        if let Some(term) = known.leads {
            let next = known.log.get(before.map_or(0, |before| before + 1));
            if next.is_some_and(|next| next.term < term) {
                self.reach(Branch::OldTermCommitted);
            }
            self.look_at_kept(member);
        }
        self.watch.see(&Seen::Committed { member, upto });
    }

    /// Up to where the member's disk holds its log now.
    fn look_at_kept(&mut self, member: usize) {
        let Some(slot) = self.slots.get_mut(member) else { return };
        let Some(known) = self.watch.ghost.member(member) else { return };
        let kept = match self.plan.keeping {
            Keeping::Flushed if !self.plan.java.models(member) => {
                slot.disk.durable(&known.log, slot.kept)
            }
            Keeping::Flushed | Keeping::Written => known.log.last_index(),
        };
        if kept != slot.kept {
            slot.kept = kept;
            self.watch.see(&Seen::Kept { member, upto: kept });
        }
    }

    pub(super) fn look_at_message(&mut self, member: usize, parcel: &Parcel) {
        let candidate = parcel.to;
        self.look_at_sounding(member, parcel);
        match &parcel.message {
            Message::VoteReply(reply) if reply.answer == VoteAnswer::Accept && !reply.pre_vote => {
                let term = reply.request_term.0;
                let Some(slot) = self.slots.get(member) else { return };
                let stored = slot.disk.stored_vote() == (term, Some(candidate));
                let provisional = reply.provisional;
                self.watch.see(&Seen::Granted { member, term, candidate, stored, provisional });
            }
            Message::VoteReply(reply)
                if !reply.pre_vote
                    && !self.plan.java.has(member)
                    && matches!(
                        reply.answer,
                        VoteAnswer::RejectExpiredLedgerTerm | VoteAnswer::RejectSmallLedgerEndIndex
                    ) =>
            {
                let (term, asked) = (reply.term.0, reply.request_term.0);
                self.watch.see(&Seen::Refused { member, term, asked });
            }
            Message::PushReply(reply) if reply.code == PushCode::Success => {
                let mark = match self.plan.keeping {
                    _ if self.plan.java.models(member) => reply.first,
                    Keeping::Flushed => reply.flushed,
                    Keeping::Written => reply.written,
                };
                if let Some(upto) = mark.map(|mark| mark.0) {
                    self.look_at_kept(member);
                    self.watch.see(&Seen::Vouched { member, upto });
                }
            }
            Message::Push(_) => {
                let count = parcel.entries.len() as u64;
                let load = Load::new("bytes of a push", count, P::push_bound(&self.plan));
                self.watch.see(&Seen::Queued { member, load });
            }
            _ => {}
        }
        // Java answers a push with the term of that, whichever it is in.
        let repeats =
            self.plan.java.models(member) && matches!(parcel.message, Message::PushReply(_));
        if let Some(term) = term_of(&parcel.message).filter(|_| !repeats) {
            self.watch.see(&Seen::Spoke { member, term });
        }
    }

    fn plan_wake(&mut self, member: usize) {
        let now = self.now;
        let Some(slot) = self.slots.get_mut(member) else { return };
        let Some(at) = slot.process.as_ref().and_then(Process::timeout) else { return };
        // A process that wants to be woken at once is woken a millisecond later: time must pass.
        let at = slot.clock.when(at.0).max(now + 1);
        if at < slot.wake_at {
            slot.wake_at = at;
            let life = slot.life;
            self.schedule.plan(at, Happening::Wake { member, life });
        }
    }

    /// Ends a process, and does to its disk what the way of ending does.
    pub(super) fn crash(&mut self, member: usize, ended: Ended) {
        let Some(slot) = self.slots.get_mut(member) else { return };
        let was_running = slot.process.is_some();
        for running in slot.running.drain(..) {
            if let (Some(process), Ended::PowerCut) = (&slot.process, ended)
                && let JobState::Ahead(job) = running.state
                && !slot.disk.is_dark()
                && self.machines.chance(500)
            {
                // Power goes in the midst of what the disk does.
                slot.disk.inject(Fault::TornCall, &mut self.machines);
                drop(process.run_job(job));
            }
        }
        slot.disk = match ended {
            Ended::PowerCut => slot.disk.after_power_cut(&mut self.machines),
            Ended::Wiped => slot.disk.wiped(),
            Ended::RolledBack => {
                let older = slot.copy.take().and_then(|copy| slot.disk.rolled_back(&copy));
                older.unwrap_or_else(|| slot.disk.after_kill())
            }
            Ended::Never | Ended::Killed | Ended::Rotten | Ended::LostIndex => {
                slot.disk.after_kill()
            }
        };
        slot.process = None;
        slot.jobs.clear();
        slot.standing = None;
        slot.ended = ended;
        slot.wake_at = u64::MAX;
        self.trace.line(self.now, format_args!("n{member} ends: {ended:?}"));
        if was_running {
            self.watch.see(&Seen::Stopped { member });
            self.clients.forget(member);
        }
        self.plan_start(member);
    }

    fn plan_start(&mut self, member: usize) {
        let down = self.machines.heavy_tail(300, 6000);
        let Some(slot) = self.slots.get_mut(member) else { return };
        if !slot.starting {
            slot.starting = true;
            self.schedule.plan(self.now + down, Happening::Start { member });
        }
        for other in (0..self.plan.members).filter(|other| *other != member) {
            // The others may see the connection close, or wait for an answer in vain.
            if self.machines.chance(500) {
                let at = self.now + self.machines.between(1, 50);
                self.schedule.plan(at, Happening::Gone { member: other, gone: member });
            }
        }
    }
}

/// The term that a message tells of its sender.
fn term_of(message: &Message) -> Option<u64> {
    match message {
        Message::Vote(vote) => (!vote.pre_vote).then_some(vote.term.0),
        Message::VoteReply(reply) => (!reply.pre_vote).then_some(reply.term.0),
        Message::Heartbeat(heartbeat) => Some(heartbeat.term.0),
        Message::HeartbeatReply(reply) => reply.term.map(|term| term.0),
        Message::Push(push) => Some(push.term.0),
        Message::PushReply(reply) => Some(reply.term.0),
        Message::Transfer(request) => Some(request.term.0),
        Message::TransferReply(reply) => Some(reply.term.0),
        Message::Fetch(_) | Message::FetchReply(_) => None,
    }
}
