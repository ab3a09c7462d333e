//! Faults: what breaks, when, and how it ends.

use super::{Ending, Happening, World, clock::TRUE_RATE, phases::Phase};
use crate::{
    ghost::{Ended, Seen},
    network::{Cut, Weather},
    plan::{Fault, Faults, Keeping},
    process::{Disk, Incoming, Process},
};

impl<P: Process> World<P> {
    pub(super) fn next_fault(&mut self) {
        if self.phase != Phase::Safety {
            return;
        }
        let on: Vec<Fault> = self.plan.faults.iter().collect();
        let gap = self.faults.heavy_tail(self.plan.fault_gap, 8 * self.plan.fault_gap);
        self.schedule.plan(self.now + gap, Happening::Fault);
        let Some(fault) = self.faults.pick(&on) else { return };
        let member = usize::try_from(self.faults.below(self.plan.members as u64)).unwrap_or(0);
        // A leader is hit as often as all others together: what breaks there matters most.
        let leaders = self.leaders();
        let member = if self.faults.chance(350) {
            self.faults.pick(&leaders).unwrap_or(member)
        } else {
            member
        };
        self.note(8, fault as usize * 8 + member);
        if self.inflict(fault, member) {
            self.fault(fault);
            self.trace.line(self.now, format_args!("fault {fault:?} hits n{member}"));
        }
    }

    /// Lets a fault strike; false where it cannot now.
    fn inflict(&mut self, fault: Fault, member: usize) -> bool {
        match fault {
            Fault::Loss | Fault::Duplicates | Fault::Reorder | Fault::Delay => self.storm(fault),
            Fault::OneWay
            | Fault::Halves
            | Fault::Isolate
            | Fault::Deaf
            | Fault::Bridge
            | Fault::Ring => self.cut(fault, member),
            Fault::Flap => {
                let until = self.now + self.faults.between(500, 6000);
                self.flap(member, until, false);
                true
            }
            Fault::Hold => self.hold(member),
            Fault::Clocks => self.clocks(),
            Fault::Pause => self.pause(member),
            Fault::Kill => self.end(member, Ended::Killed),
            Fault::PowerCut => self.cut_power(member),
            Fault::Blackout => self.blackout(),
            Fault::TornCall
            | Fault::WriteError
            | Fault::ReadError
            | Fault::SyncError
            | Fault::NoSpace => self.break_disk(fault, member),
            Fault::TornVote => self.tear_vote(member),
            Fault::Hang => self.hang(member),
            Fault::Rot => self.rot(member),
            Fault::Wipe => self.may_lose(member) && self.lose(member, Ended::Wiped),
            Fault::Rollback => self.roll_back(member),
            Fault::LostIndex => self.lose_index(member),
            Fault::Trim => self.trim(member),
            Fault::Transfer => self.transfer(member),
        }
    }

    fn storm(&mut self, fault: Fault) -> bool {
        let mut weather = self.network.weather;
        match fault {
            Fault::Loss => weather.loss = self.faults.between(10, 500),
            Fault::Duplicates => weather.duplicates = self.faults.between(10, 500),
            Fault::Reorder => {
                weather.reorders = true;
                weather.delay_most = weather.delay_most.max(self.faults.between(10, 200));
            }
            _ => {
                weather.delay_usual = self.faults.between(2, 150);
                weather.delay_most = self.faults.heavy_tail(500, 10_000).max(weather.delay_usual);
            }
        }
        self.network.weather = weather;
        self.end_network_later();
        true
    }

    fn end_network_later(&mut self) {
        let at = self.now + self.faults.heavy_tail(2000, 12_000);
        self.schedule.plan(at, Happening::Ends(Ending::Network));
    }

    fn cut(&mut self, fault: Fault, member: usize) -> bool {
        let members = self.plan.members;
        let other = (member + 1 + self.below(members - 1)) % members;
        let cut = match fault {
            Fault::OneWay => Cut::OneWay(member, other),
            Fault::Halves => {
                let mask = 1 + self.faults.below((1 << members) - 2);
                Cut::Halves(u8::try_from(mask).unwrap_or(1))
            }
            Fault::Isolate => Cut::Isolated(member),
            Fault::Deaf if self.faults.chance(500) => Cut::Deaf(member),
            Fault::Deaf => Cut::Mute(member),
            Fault::Bridge => Cut::Bridge(member),
            _ => Cut::Ring,
        };
        self.network.cut(cut);
        self.cuts.push(cut);
        self.end_network_later();
        true
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.faults.below(bound as u64)).unwrap_or(0)
    }

    fn hold(&mut self, member: usize) -> bool {
        let until = self.now + self.faults.between(200, 5000);
        for other in (0..self.plan.members).filter(|other| *other != member) {
            if self.faults.chance(600) {
                self.network.hold(other, member, until);
            }
            if self.faults.chance(300) {
                self.network.hold(member, other, until);
            }
        }
        true
    }

    fn clocks(&mut self) -> bool {
        for member in 0..self.plan.members {
            let rate = self.faults.between(TRUE_RATE / 2, 2 * TRUE_RATE);
            self.set_rate(member, rate);
        }
        true
    }

    fn pause(&mut self, member: usize) -> bool {
        let until = self.now + self.faults.heavy_tail(1500, 10_000);
        let Some(slot) = self.slots.get_mut(member) else { return false };
        slot.frozen_until = slot.frozen_until.max(until);
        let runs = slot.process.is_some();
        // A frozen leader cannot step down.
        self.watch.see(&Seen::Freed { member });
        runs
    }

    /// Ends a running process.
    fn end(&mut self, member: usize, ended: Ended) -> bool {
        let running = self.slots.get(member).is_some_and(|slot| slot.process.is_some());
        if running {
            self.crash(member, ended);
        }
        running
    }

    /// What only the page cache holds counts in a group that does not flush first: then a power cut
    /// may take what a member vouched for.
    fn cut_power(&mut self, member: usize) -> bool {
        if self.plan.java.models(member) {
            return self.end(member, Ended::Killed);
        }
        if self.plan.keeping == Keeping::Flushed {
            return self.end(member, Ended::PowerCut);
        }
        self.may_lose(member) && self.lose(member, Ended::PowerCut)
    }

    fn blackout(&mut self) -> bool {
        for member in 0..self.plan.members {
            let ended = match self.plan.keeping {
                Keeping::Flushed if !self.plan.java.models(member) => Ended::PowerCut,
                Keeping::Flushed | Keeping::Written => Ended::Killed,
            };
            self.end(member, ended);
        }
        true
    }

    fn break_disk(&mut self, fault: Fault, member: usize) -> bool {
        let loses = match fault {
            Fault::SyncError => true,
            Fault::TornCall => self.plan.keeping == Keeping::Written,
            _ => false,
        };
        let running = self.slots.get(member).is_some_and(|slot| slot.process.is_some());
        if !running || (loses && !self.may_lose(member)) {
            return false;
        }
        let Some(slot) = self.slots.get_mut(member) else { return false };
        if !slot.disk.inject(fault, &mut self.faults) {
            return false;
        }
        if loses {
            slot.lacks = Some(self.watch.ghost.committed.len() as u64);
        }
        let at = self.now + self.faults.heavy_tail(1000, 8000);
        self.schedule.plan(at, Happening::Ends(Ending::Disk(member)));
        // Power that goes in the midst of a call is counted when it does.
        fault != Fault::TornCall
    }

    /// Power will go in the midst of the next storing of term and vote.
    fn tear_vote(&mut self, member: usize) -> bool {
        let loses = self.plan.keeping == Keeping::Written;
        if loses && !self.may_lose(member) {
            return false;
        }
        let committed = self.watch.ghost.committed.len() as u64;
        if let Some(slot) = self.slots.get_mut(member).filter(|slot| slot.process.is_some()) {
            slot.tears_vote = true;
            if loses {
                slot.lacks = Some(committed);
            }
        }
        // Counted when power goes.
        false
    }

    fn hang(&mut self, member: usize) -> bool {
        let at = self.now + self.faults.between(300, 4000);
        if let Some(slot) = self.slots.get_mut(member) {
            slot.hangs = true;
        }
        self.schedule.plan(at, Happening::Ends(Ending::Hang(member)));
        // Counted when a job is slow.
        false
    }

    fn rot(&mut self, member: usize) -> bool {
        // One rotten entry of a member at a time is enough.
        if self.lacks_something(member) || !self.may_lose(member) {
            return false;
        }
        let Some(known) = self.watch.ghost.member(member) else { return false };
        let committed = self.watch.ghost.committed.len() as u64;
        // Only what the others have as well, so that a good copy exists.
        let copied = |index: u64| {
            let holders = self.watch.ghost.members.iter();
            holders.filter(|other| other.log.get(index) == known.log.get(index)).count() > 1
        };
        let entries: Vec<_> = known
            .log
            .entries()
            .iter()
            .filter(|entry| entry.index < committed && copied(entry.index))
            .copied()
            .collect();
        if !self.lose(member, Ended::Rotten) {
            return false;
        }
        let Some(slot) = self.slots.get_mut(member) else { return false };
        match slot.disk.rot(&entries, &mut self.faults) {
            Some(index) => {
                self.trace.line(self.now, format_args!("n{member} rots at {index}"));
                true
            }
            None => {
                slot.ended = Ended::Killed;
                false
            }
        }
    }

    fn roll_back(&mut self, member: usize) -> bool {
        let Some(slot) = self.slots.get_mut(member) else { return false };
        if slot.copy.is_none() {
            // A copy of what is durable, as a snapshot of a disk is.
            slot.copy = Some(slot.disk.after_power_cut(&mut self.machines));
            return false;
        }
        let known = slot.copy.as_ref().is_some_and(|copy| slot.disk.rolled_back(copy).is_some());
        known && self.may_lose(member) && self.lose(member, Ended::RolledBack)
    }

    fn lose_index(&mut self, member: usize) -> bool {
        if !self.end(member, Ended::LostIndex) {
            return false;
        }
        let Some(slot) = self.slots.get_mut(member) else { return false };
        slot.disk.lose_index(&mut self.faults)
    }

    /// Retention of one member. It may take the last good copy of what is rotten with another.
    fn trim(&mut self, member: usize) -> bool {
        let now = self.now;
        let Some(slot) = self.slots.get_mut(member) else { return false };
        let own = slot.own_time(now);
        let Some(process) = &mut slot.process else { return false };
        process.trim(own);
        self.step(member, Incoming::Tick);
        true
    }

    fn transfer(&mut self, member: usize) -> bool {
        let leaders = self.leaders();
        let Some(leader) = self.faults.pick(&leaders) else { return false };
        let to = self.faults.chance(700).then_some(member);
        self.step(leader, Incoming::Transfer { to });
        true
    }

    /// Whether the member may lose what it vouched for: no more than a minority lacks something.
    /// Beside members that are taken for Java's none may: nobody would be told.
    fn may_lose(&mut self, member: usize) -> bool {
        if !self.plan.java.is_empty() {
            return false;
        }
        let lacking = (0..self.plan.members)
            .filter(|other| *other != member && self.lacks_something(*other))
            .count();
        lacking < self.plan.members.div_ceil(2).saturating_sub(1).max(1)
    }

    /// Ends a process in a way that may lose what it vouched for.
    fn lose(&mut self, member: usize, ended: Ended) -> bool {
        let committed = self.watch.ghost.committed.len() as u64;
        if !self.end(member, ended) {
            return false;
        }
        if let Some(slot) = self.slots.get_mut(member) {
            slot.lacks = Some(committed);
        }
        true
    }

    pub(super) fn end_fault(&mut self, ending: Ending) {
        match ending {
            Ending::Network => {
                self.network.weather = Weather::FAIR;
                if self.phase == Phase::Safety || self.phase == Phase::Disturb {
                    self.network.join();
                    self.cuts.clear();
                }
            }
            Ending::Disk(member) => {
                if let Some(slot) = self.slots.get(member) {
                    slot.disk.heal();
                }
            }
            Ending::Hang(member) => {
                if let Some(slot) = self.slots.get_mut(member) {
                    slot.hangs = false;
                }
            }
        }
    }
}

impl Faults {
    /// Whether none is on.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.iter().next().is_none()
    }
}
