//! Jobs of the disks: one at a time on each lane of each machine.

use super::{
    Happening, World,
    slot::{JobState, Lane, Running},
};
use crate::{
    ghost::Seen,
    invariants::STUCK_MILLIS,
    plan::Fault,
    process::{Disk, Incoming, Process},
};

/// Longest usual time of a job in milliseconds.
const JOB_MOST: u64 = 60;

impl<P: Process> World<P> {
    pub(super) fn take_jobs(&mut self, member: usize) {
        let Some(slot) = self.slots.get_mut(member) else { return };
        let Some(process) = &mut slot.process else { return };
        while let Some(job) = process.poll_job() {
            slot.jobs.push_back(job);
        }
        for lane in Lane::ALL {
            self.begin_job(member, lane);
        }
    }

    fn begin_job(&mut self, member: usize, lane: Lane) {
        let usual = self.plan.disk_usual;
        let Some(slot) = self.slots.get_mut(member) else { return };
        let Some(job) = slot.next_job(lane) else { return };
        let is_flush = P::is_flush(&job);
        let tears = P::is_vote(&job) && std::mem::take(&mut slot.tears_vote);
        let hangs = slot.hangs;
        let takes = if hangs {
            self.machines.between(2000, 7000)
        } else {
            self.machines.heavy_tail(usual, JOB_MOST)
        };
        self.trace.line(self.now, format_args!("n{member} begins {job:?}"));
        // Whether a sync had its effect early or late can only be told by a crash.
        let early = self.machines.chance(500) || tears;
        if tears {
            slot.disk.inject(Fault::TornVote, &mut self.machines);
        }
        let Some(process) = &slot.process else { return };
        let state = if early { JobState::Done(process.run_job(job)) } else { JobState::Ahead(job) };
        self.jobs += 1;
        let number = self.jobs;
        slot.running.push(Running { state, is_flush, lane, number });
        let (life, clock_is_true) = (slot.life, slot.clock.is_true());
        self.schedule.plan(self.now + takes, Happening::JobEnds { member, life, job: number });
        if hangs {
            self.fault(Fault::Hang);
        }
        if is_flush && takes > STUCK_MILLIS && clock_is_true && !self.plan.java.models(member) {
            self.watch.see(&Seen::Stuck { member, since: self.now });
        }
        if early && !self.died_in_the_dark(member) {
            self.observe(member);
        }
    }

    pub(super) fn job_ends(&mut self, member: usize, (life, job): (u64, u64)) {
        let now = self.now;
        let Some(slot) = self.slots.get_mut(member) else { return };
        let Some(place) = slot.running.iter().position(|running| running.number == job) else {
            return;
        };
        if slot.life != life || slot.process.is_none() {
            return;
        }
        if slot.frozen_until > now {
            self.schedule.plan(slot.frozen_until, Happening::JobEnds { member, life, job });
            return;
        }
        let own = slot.own_time(now);
        let Running { state, is_flush, .. } = slot.running.remove(place);
        let Some(process) = &mut slot.process else { return };
        let done = match state {
            JobState::Done(done) => done,
            JobState::Ahead(job) => process.run_job(job),
        };
        self.trace.line(now, format_args!("n{member} ends {done:?}"));
        self.note(5, member);
        if self.died_in_the_dark(member) {
            return;
        }
        if is_flush {
            self.watch.see(&Seen::Freed { member });
        }
        self.observe(member);
        self.step(member, Incoming::Done(done));
        let Some(slot) = self.slots.get_mut(member).filter(|slot| slot.life == life) else {
            return;
        };
        let Some(process) = &mut slot.process else { return };
        process.write_behind(own);
        self.after_step(member);
    }
}
