//! Phases of a run: faults, a quorum that is whole, a group that is whole.

use super::{Ending, Happening, World, clock::TRUE_RATE};
use dledger_core::Provisional;

use crate::{
    coverage::Branch,
    ghost::{Ended, Seen},
    invariants::{Voter, can_elect},
    network::Cut,
    plan::{Fault, Scenario},
    process::{Disk, Incoming, Process},
};

/// Between two comparisons of all logs, in milliseconds.
const EQUAL_CHECK_MILLIS: u64 = 500;
/// What an entry costs on its way to a member that lacks many: pushes are short here, and disks slow.
const ENTRY_MILLIS: u64 = 4;
/// How long a group runs before it is disturbed.
const SETTLE_MILLIS: u64 = 4_000;

/// What a run is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Faults and load.
    Safety,
    /// One member that does not lead is disturbed.
    Disturb,
    /// A quorum is whole, the rest is not.
    Quorum,
    /// All are whole, and nobody submits any more.
    Whole,
}

impl<P: Process> World<P> {
    pub(super) fn prepare_phases(&mut self) {
        match self.plan.scenario {
            Scenario::Swarm => {
                let first = self.faults.between(100, 3000);
                self.schedule.plan(first, Happening::Fault);
                self.schedule.plan(self.plan.millis, Happening::Phase(Phase::Quorum));
            }
            Scenario::Disturbed => {
                self.schedule.plan(SETTLE_MILLIS, Happening::Phase(Phase::Disturb));
            }
        }
    }

    pub(super) fn enter(&mut self, phase: Phase) {
        self.trace.line(self.now, format_args!("phase {phase:?}"));
        self.note(7, phase as usize);
        match phase {
            Phase::Safety => {}
            Phase::Disturb => self.disturb(),
            Phase::Quorum => self.heal_quorum(),
            Phase::Whole => self.heal_all(),
        }
    }

    fn disturb(&mut self) {
        let opened = |member: &usize| {
            let standing = self.slots.get(*member).and_then(|slot| slot.standing());
            standing.is_some_and(|standing| standing.opened)
        };
        let leader = self.leaders().into_iter().find(opened);
        let Some(leader) = leader else {
            let text = format!("no leader after {} ms without a fault", self.now);
            return self.watch.break_by("R-20 a leader in time", text);
        };
        self.phase = Phase::Disturb;
        let others: Vec<usize> =
            (0..self.plan.members).filter(|member| *member != leader).collect();
        let Some(victim) = self.faults.pick(&others) else { return };
        self.clients.healed_from = Some(self.clients.next_number());
        self.watch.see(&Seen::Undisturbed);
        let lasts = self.plan.millis / 2;
        let until = self.now + lasts;
        self.schedule.plan(until, Happening::Phase(Phase::Whole));
        self.disturb_member(victim, leader, until);
    }

    fn disturb_member(&mut self, victim: usize, leader: usize, until: u64) {
        let kind = self.faults.below(7);
        self.trace.line(self.now, format_args!("n{victim} is disturbed by {kind}"));
        let (fault, cut) = match kind {
            0 => (Fault::Isolate, Some(Cut::Isolated(victim))),
            1 => (Fault::Deaf, Some(Cut::Deaf(victim))),
            2 => (Fault::Deaf, Some(Cut::Mute(victim))),
            3 => (Fault::OneWay, Some(Cut::OneWay(leader, victim))),
            4 => (Fault::Flap, None),
            5 => (Fault::Clocks, None),
            _ => (Fault::Pause, None),
        };
        self.fault(fault);
        match (fault, cut) {
            (_, Some(cut)) => {
                self.network.cut(cut);
                let lasts = self.faults.between(1500, 10_000);
                let at = (self.now + lasts).min(until);
                self.schedule.plan(at, Happening::Ends(Ending::Network));
            }
            (Fault::Flap, _) => self.flap(victim, until, false),
            (Fault::Clocks, _) => self.set_rate(victim, 2 * TRUE_RATE),
            _ => {
                let lasts = self.faults.between(1500, 8000);
                let until = (self.now + lasts).min(until);
                if let Some(slot) = self.slots.get_mut(victim) {
                    slot.frozen_until = until;
                }
            }
        }
    }

    pub(super) fn flap(&mut self, member: usize, until: u64, open: bool) {
        self.network.join();
        if self.now >= until || self.phase == Phase::Quorum || self.phase == Phase::Whole {
            return;
        }
        self.cut_again();
        if !open {
            let cut = match self.faults.below(3) {
                0 => Cut::Deaf(member),
                1 => Cut::Mute(member),
                _ => Cut::Isolated(member),
            };
            self.network.cut(cut);
        }
        let at = self.now + self.faults.between(80, 900);
        self.schedule.plan(at, Happening::Flap { member, until, open: !open });
    }

    /// Puts the cuts back that are in force beside a flapping member.
    fn cut_again(&mut self) {
        for cut in self.cuts.clone() {
            self.network.cut(cut);
        }
    }

    /// A quorum without a member that lacks something becomes whole, the others stay as they are
    /// and are cut off.
    fn heal_quorum(&mut self) {
        let mut members: Vec<usize> = (0..self.plan.members).collect();
        let quorum = self.plan.members / 2 + 1;
        let mut chosen = Vec::new();
        while chosen.len() < quorum
            && let Some(member) = self.faults.pick(&members)
        {
            members.retain(|other| *other != member);
            if !self.lacks_something(member) {
                chosen.push(member);
            }
        }
        self.phase = Phase::Quorum;
        if chosen.len() < quorum {
            // Too many lack something: only all together can go on.
            self.schedule.plan(self.now + 1, Happening::Phase(Phase::Whole));
            return;
        }
        self.network.heal();
        self.cuts.clear();
        for member in (0..self.plan.members).filter(|member| !chosen.contains(member)) {
            self.network.cut(Cut::Isolated(member));
        }
        for member in &chosen {
            self.heal_machine(*member);
        }
        self.trace.line(self.now, format_args!("whole: {chosen:?}"));
        self.clients.healed_from = Some(self.clients.next_number());
        (self.clients.acknowledged, self.clients.failed) = (0, 0);
        let limit = self.now + P::LEADER_SLACK + self.plan.leader_millis() + self.backlog(&chosen);
        self.watch.see(&Seen::Healed { limit });
        self.quorum = Some((limit, chosen));
        self.schedule.plan(limit + 2 * CHECK, Happening::Phase(Phase::Whole));
    }

    /// Time for what the longest log among `chosen` has and a majority lacks: a leader opens its term
    /// once they hold all of that.
    fn backlog(&self, chosen: &[usize]) -> u64 {
        let end = |member: &usize| self.watch.ghost.member(*member)?.log.last_index();
        let mut ends: Vec<Option<u64>> = chosen.iter().map(end).collect();
        ends.sort_unstable_by(|a, b| b.cmp(a));
        let longest = ends.first().copied().flatten().unwrap_or(0);
        let of_majority = ends.get(self.plan.members / 2).copied().flatten().unwrap_or(0);
        (longest - of_majority) * ENTRY_MILLIS
    }

    fn heal_all(&mut self) {
        if self.clients.acknowledged > 0 && self.phase == Phase::Quorum {
            self.reach(Branch::QuorumHealed);
        }
        self.phase = Phase::Whole;
        self.network.heal();
        self.cuts.clear();
        for member in 0..self.plan.members {
            self.heal_machine(member);
        }
        self.whole_by = self.now + self.plan.equal_millis();
    }

    fn heal_machine(&mut self, member: usize) {
        self.set_rate(member, TRUE_RATE);
        let Some(slot) = self.slots.get_mut(member) else { return };
        slot.disk.heal();
        (slot.hangs, slot.tears_vote) = (false, false);
        // What is frozen thaws when what was planned for it comes up.
        slot.frozen_until = slot.frozen_until.min(self.now + 1);
        for running in &slot.running {
            let (life, job) = (slot.life, running.number);
            self.schedule.plan(self.now + 1, Happening::JobEnds { member, life, job });
        }
        if slot.process.is_some() {
            self.step(member, Incoming::Tick);
        } else {
            self.start(member);
        }
    }

    pub(super) fn set_rate(&mut self, member: usize, rate: u64) {
        let now = self.now;
        if let Some(slot) = self.slots.get_mut(member) {
            slot.clock.set_rate(now, rate);
            if slot.process.is_some() {
                slot.wake_at = now + 1;
                let life = slot.life;
                self.schedule.plan(now + 1, Happening::Wake { member, life });
            }
        }
        if rate != TRUE_RATE {
            // By its own clock it may wait twice as long before it steps down.
            self.watch.see(&Seen::Freed { member });
        }
    }

    /// Shortly before the healed quorum must have a leader: whether it can have one. Members that
    /// say that they may lack something wait for the others, by design, where the firm ones among
    /// them are too few or have the worse logs. What a member says of itself is judged in the last
    /// phase, at whose end none may say so any more.
    fn judge_quorum(&mut self) {
        let near = |(limit, _): &mut (u64, Vec<usize>)| self.now + CHECK > *limit;
        let Some((_, chosen)) = self.quorum.take_if(near) else { return };
        let leader = self.leaders().into_iter().find(|leader| chosen.contains(leader));
        let is_opened = |member: &usize| {
            let standing = self.slots.get(*member).and_then(|slot| slot.standing());
            standing.is_some_and(|standing| standing.opened)
        };
        if let Some(member) = leader.filter(is_opened) {
            // Clients may have had nothing to submit meanwhile.
            return self.watch.see(&Seen::Opened { member });
        }
        let is_led = leader.is_some();
        let voters: Vec<Voter> = chosen.iter().map(|member| self.voter(*member)).collect();
        if is_led || self.clients.acknowledged > 0 || can_elect(&voters, self.plan.members) {
            return;
        }
        self.trace.line(self.now, format_args!("these wait for the others: {voters:?}"));
        self.reach(Branch::WaitsForAll);
        self.watch.see(&Seen::Unelectable);
    }

    fn voter(&self, member: usize) -> Voter {
        let process = self.slots.get(member).and_then(|slot| slot.process.as_ref());
        let doubt = process.and_then(Process::doubt);
        let lacks_head = process.is_some_and(Process::lacks_head);
        let last = self.watch.ghost.member(member).and_then(|known| known.log.last());
        Voter {
            last: last.map(|last| (last.term, last.index)),
            is_firm: doubt.is_none(),
            is_new: !lacks_head && doubt.is_none_or(|doubt| doubt == Provisional::Empty),
            lacks_head,
        }
    }

    /// In the phase of the quorum: whether it can have a leader. In the last phase: whether all
    /// members are equal, or time is up.
    pub(super) fn check_phase(&mut self) {
        if self.phase == Phase::Quorum {
            self.judge_quorum();
        }
        if self.phase != Phase::Whole || self.now < self.equal_check {
            return;
        }
        self.equal_check = self.now + EQUAL_CHECK_MILLIS;
        match self.difference() {
            None => {
                self.read_everything();
                self.compare_queues();
                self.compare_all_tables();
                self.done = true;
            }
            Some(difference) if self.now > self.whole_by => {
                self.watch.break_by("R-20 all members become equal", difference);
            }
            Some(_) => self.let_stray_in(),
        }
    }

    /// What still tells the members apart.
    fn difference(&mut self) -> Option<String> {
        for member in 0..self.plan.members {
            if self.lacks_something(member) {
                return Some(format!("n{member} has not caught up: {}", self.told_lack(member)));
            }
        }
        if !self.clients.idle() {
            return Some("submissions wait".to_owned());
        }
        let ghost = &self.watch.ghost;
        let first = ghost.members.first()?.log.last();
        for (member, known) in ghost.members.iter().enumerate() {
            let slot = self.slots.get(member)?;
            if slot.process.is_none() {
                return Some(format!("n{member} does not run: {:?}", slot.start_failure));
            }
            if known.log.last() != first || known.log.last_index() != known.commit {
                let (last, commit) = (known.log.last(), known.commit);
                return Some(format!(
                    "n{member} ends with {last:?}, committed {commit:?}, n0 with {first:?}"
                ));
            }
            let count = ghost.committed.len() as u64;
            if known.commit.map_or(0, |commit| commit + 1) != count {
                return Some(format!("n{member} committed {:?} of {count}", known.commit));
            }
            if let Some(doubt) = slot.process.as_ref().and_then(Process::doubt) {
                return Some(format!("n{member} is still provisional: {doubt}"));
            }
        }
        if let Some(behind) = self.tables_behind() {
            return Some(behind);
        }
        (self.leaders().len() != 1).then(|| "not one leader".to_owned())
    }

    fn told_lack(&self, member: usize) -> String {
        let Some(slot) = self.slots.get(member) else { return String::new() };
        let Some(known) = self.watch.ghost.member(member) else { return String::new() };
        let rotten = known.log.entries().iter().filter(|entry| !slot.disk.is_sound(entry)).count();
        let doubt = slot.process.as_ref().and_then(Process::doubt);
        let (lacks, kept, ended) = (slot.lacks, slot.kept, known.before);
        let failure = &slot.start_failure;
        format!(
            "{lacks:?} entries, kept {kept:?}, {rotten} rotten, provisional {doubt:?}, before {ended:?}, \
             {failure:?}"
        )
    }

    /// Every committed entry, read from every member.
    fn read_everything(&mut self) {
        for member in 0..self.plan.members {
            let Some(known) = self.watch.ghost.member(member) else { return };
            let entries = known.log.entries().to_vec();
            for entry in entries {
                let Some(slot) = self.slots.get(member) else { return };
                let Some(process) = &slot.process else { return };
                let read = process.read(&entry);
                let sound = slot.disk.is_sound(&entry);
                match read {
                    Some(hash) if sound => {
                        let index = entry.index;
                        self.watch.see(&Seen::Read { member, index, hash });
                    }
                    other => {
                        let text =
                            format!("n{member} reads {other:?} for {entry:?}, sound {sound}");
                        return self.watch.break_by("R-15 rot is mended", text);
                    }
                }
            }
        }
    }

    /// Whether each queue ends at the same offset with every member.
    fn compare_queues(&mut self) {
        if !self.plan.messages {
            return;
        }
        let processes = self.slots.iter().filter_map(|slot| slot.process.as_ref());
        let ends: Vec<_> = processes.map(Process::queue_ends).collect();
        if ends.windows(2).any(|pair| pair.first() != pair.last()) {
            let text = format!("the queues end at {ends:?}");
            self.watch.break_by("B-4 queues are equal", text);
        }
    }

    /// Whether the member lost what it may have vouched for and has not got it back.
    pub(super) fn lacks_something(&mut self, member: usize) -> bool {
        let Some(slot) = self.slots.get(member) else { return false };
        let Some(count) = slot.lacks else { return false };
        let Some(process) = &slot.process else { return true };
        let Some(known) = self.watch.ghost.member(member) else { return false };
        let durable = slot.disk.durable(&known.log, None);
        let is_durable = count.checked_sub(1).is_none_or(|last| {
            durable >= Some(last) || known.log.first().is_some_and(|first| first > last)
        });
        let holds = is_durable && self.watch.ghost.holds(known, count);
        let committed = self.watch.ghost.committed.len() as u64;
        // Rot is found when it is read.
        let unsound = known
            .log
            .entries()
            .iter()
            .filter(|entry| entry.index < committed && !slot.disk.is_sound(entry))
            .filter(|entry| process.read(entry) != Some(entry.hash))
            .count();
        let sound = unsound == 0;
        let proved = process.doubt().is_none();
        if !(holds && sound && proved) {
            return true;
        }
        let ended = self.watch.ghost.member(member).map(|known| known.before);
        if ended == Some(Ended::Rotten) {
            self.reach(Branch::RotMended);
        }
        if ended != Some(Ended::Never) {
            self.reach(Branch::CaughtUp);
            self.reach(Branch::Proved);
        }
        if let Some(slot) = self.slots.get_mut(member) {
            slot.lacks = None;
        }
        false
    }
}

/// Milliseconds until the next look at deadlines.
const CHECK: u64 = super::CHECK_MILLIS;
