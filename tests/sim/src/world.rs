//! A group in its simulated world: one run from plan to verdict.

mod clients;
mod clock;
mod faults;
mod java;
mod jobs;
mod mail;
mod phases;
mod slot;
mod steps;
mod tables;
mod watch;

use dledger_core::Life;

use crate::{
    coverage::{Branch, Coverage},
    ghost::Seen,
    invariants::Violation,
    network::{Cut, Network},
    plan::{Fault, Plan},
    process::{Parcel, Process},
    random::Random,
    schedule::Schedule,
    trace::{Detail, Trace},
};

use self::{clients::Clients, mail::InOrder, phases::Phase, slot::Slot, watch::Watch};

/// Most happenings of a run: a run that needs more goes round in circles.
const HAPPENINGS_MAX: u64 = 3_000_000;
/// Virtual milliseconds between two looks at deadlines.
const CHECK_MILLIS: u64 = 50;

/// Something planned.
#[derive(Debug)]
enum Happening {
    /// A member wants to be woken.
    Wake { member: usize, life: u64 },
    /// A message arrives.
    Arrive { from: usize, parcel: Box<Parcel>, mark: Postmark },
    /// A job ends.
    JobEnds { member: usize, life: u64, job: u64 },
    /// A machine starts its process.
    Start { member: usize },
    /// A connection is seen to be closed.
    Gone { member: usize, gone: usize },
    /// The next fault.
    Fault,
    /// A fault ends.
    Ends(Ending),
    /// A client acts.
    Client { client: u64 },
    /// Deadlines are looked at.
    Check,
    /// The next phase begins.
    Phase(Phase),
    /// A flapping member's links change.
    Flap { member: usize, until: u64, open: bool },
}

/// How a fault ends.
#[derive(Debug, Clone, Copy)]
enum Ending {
    /// Links are joined, weather is as before.
    Network,
    /// A disk works again.
    Disk(usize),
    /// Jobs are quick again.
    Hang(usize),
}

/// What came of a run.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// What did not hold, if anything.
    pub violation: Option<Violation>,
    /// What happened.
    pub coverage: Coverage,
    /// The number that two runs of one plan share.
    pub trace_hash: u64,
    /// The lines of the run, where text was asked for.
    pub text: Vec<String>,
}

/// Runs a plan.
#[must_use]
pub fn run<P: Process>(plan: &Plan, detail: Detail) -> Outcome {
    let mut world = World::<P>::new(plan.clone(), detail);
    world.prepare();
    world.go();
    let World { watch, mut coverage, trace, now, .. } = world;
    coverage.virtual_millis = now;
    coverage.happenings = trace.happenings();
    Outcome {
        violation: watch.violation,
        coverage,
        trace_hash: trace.hash(),
        text: trace.text().to_vec(),
    }
}

/// What a message has with it on its way.
#[derive(Debug, Clone, Copy)]
struct Postmark {
    /// The life of its sender, which may be over when it arrives: an answer is for that one only, as it
    /// comes by the connection of the request.
    by: u64,
    /// Of an answer: the life of its receiver.
    to: Option<u64>,
    /// Among all messages, in the order of sending.
    number: u64,
}

/// What is kept of a request until it is answered.
#[derive(Debug, Clone, Copy)]
struct Asked {
    /// The life of its sender.
    life: u64,
    /// Of a push: [`dledger_core::Push::known`].
    known: Option<Life>,
}

/// Everything there is in a run.
#[derive(Debug)]
struct World<P: Process> {
    plan: Plan,
    now: u64,
    schedule: Schedule<Happening>,
    slots: Vec<Slot<P>>,
    network: Network,
    clients: Clients,
    watch: Watch,
    coverage: Coverage,
    trace: Trace,
    /// Draws of the faults.
    faults: Random,
    /// Draws of the machines: delays of jobs, fates of sectors.
    machines: Random,
    /// Draws of the load.
    load: Random,
    lives: u64,
    /// Jobs of the disks so far.
    jobs: u64,
    calls: Vec<Asked>,
    in_order: InOrder,
    phase: Phase,
    /// Cuts that are in force, so that another one can be added.
    cuts: Vec<Cut>,
    /// By when the healed quorum must have a leader, and who it is, until that is judged.
    quorum: Option<(u64, Vec<usize>)>,
    /// By when all members must be equal, in the last phase.
    whole_by: u64,
    /// A leader was halted so that a member gets back that stands in a larger term.
    stray_let_in: bool,
    /// When they are compared again.
    equal_check: u64,
    done: bool,
}

impl<P: Process> World<P> {
    fn new(plan: Plan, detail: Detail) -> Self {
        let stream = |purpose| Random::stream(plan.seed, purpose);
        Self {
            now: 0,
            schedule: Schedule::default(),
            slots: (0..plan.members).map(|_| Slot::new(&plan)).collect(),
            network: Network::new(plan.members, stream(2)),
            clients: Clients::default(),
            watch: Watch::new(&plan),
            coverage: Coverage::default(),
            trace: Trace::new(detail),
            faults: stream(3),
            machines: stream(4),
            load: stream(5),
            lives: 0,
            jobs: 0,
            calls: Vec::new(),
            in_order: InOrder::default(),
            phase: Phase::Safety,
            cuts: Vec::new(),
            quorum: None,
            whole_by: u64::MAX,
            stray_let_in: false,
            equal_check: 0,
            done: false,
            plan,
        }
    }

    fn prepare(&mut self) {
        for member in 0..self.plan.members {
            let at = self.machines.below(300);
            self.schedule.plan(at, Happening::Start { member });
        }
        for client in 0..self.plan.clients {
            let at = self.load.between(500, 2000);
            self.schedule.plan(at, Happening::Client { client });
        }
        self.schedule.plan(CHECK_MILLIS, Happening::Check);
        self.prepare_phases();
    }

    fn go(&mut self) {
        while !self.done
            && self.watch.violation.is_none()
            && let Some((at, happening)) = self.schedule.pop()
        {
            debug_assert!(at >= self.now, "time goes back");
            self.now = at;
            self.watch.now = at;
            if self.trace.happenings() > HAPPENINGS_MAX {
                self.watch.break_by("a run ends", "too many happenings".to_owned());
                return;
            }
            self.happen(happening);
        }
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Wake { member, life } => self.wake(member, life),
            Happening::Arrive { from, parcel, mark } => self.arrive(from, *parcel, mark),
            Happening::JobEnds { member, life, job } => self.job_ends(member, (life, job)),
            Happening::Start { member } => self.start(member),
            Happening::Gone { member, gone } => self.tell_gone(member, gone),
            Happening::Fault => self.next_fault(),
            Happening::Ends(ending) => self.end_fault(ending),
            Happening::Client { client } => self.client_acts(client),
            Happening::Check => {
                self.watch.see(&Seen::Passed { at: self.now });
                self.check_phase();
                self.schedule.plan(self.now + CHECK_MILLIS, Happening::Check);
            }
            Happening::Phase(phase) => self.enter(phase),
            Happening::Flap { member, until, open } => self.flap(member, until, open),
        }
    }

    /// Members that say they lead, in member order.
    fn leaders(&self) -> Vec<usize> {
        let leads = |slot: &Slot<P>| slot.standing().is_some_and(|standing| standing.leads());
        (0..self.slots.len()).filter(|member| self.slots.get(*member).is_some_and(leads)).collect()
    }

    fn note(&mut self, kind: u64, part: usize) {
        self.trace.mark(self.now, kind, part as u64);
    }

    fn fault(&mut self, fault: Fault) {
        self.coverage.fault(fault);
        self.trace.line(self.now, format_args!("fault {fault:?}"));
    }

    fn reach(&mut self, branch: Branch) {
        self.coverage.reach(branch);
    }
}
