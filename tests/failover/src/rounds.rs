//! Rounds of faults under load, and what is checked after them.

use std::{
    fmt,
    path::Path,
    sync::atomic::Ordering,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::Signal;

use crate::{
    cluster::Cluster,
    linearizable::{Verdict, WORLDS, check},
    load::{Numbers, Reads, Seen, Worker, lock, read_all},
};

/// Load before and after each fault.
const CALM: Duration = Duration::from_millis(1000);

/// How long a member is paused: longer than an election takes.
const PAUSE: Duration = Duration::from_millis(3000);

/// How long the group may take to acknowledge a change after a fault.
const ACKNOWLEDGES: Duration = Duration::from_secs(60);

/// Acknowledgements looked at for the first one after a fault: more than come in between two looks.
const LOOKED_BACK: usize = 2000;

/// What is done to a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// SIGKILL of the leader; it comes back when another has taken over.
    KillLeader,
    /// SIGSTOP of the leader, and SIGCONT when another has taken over.
    PauseLeader,
    /// SIGKILL of a follower, and its restart.
    KillFollower,
    /// SIGSTOP of a follower, and SIGCONT.
    PauseFollower,
    /// SIGKILL of the leader, and of its successor once the first is back.
    KillLeaderTwice,
    /// SIGKILL of all members, and their restart.
    KillAll,
    /// SIGKILL of a follower, and its restart without any file.
    WipeFollower,
}

impl Fault {
    /// All of them; the first are done in every run.
    pub const ALL: [Self; 7] = [
        Self::KillLeader,
        Self::PauseLeader,
        Self::KillAll,
        Self::KillFollower,
        Self::KillLeaderTwice,
        Self::PauseFollower,
        Self::WipeFollower,
    ];
}

/// What a run found.
#[derive(Debug)]
pub struct Findings {
    /// Operations on shared keys.
    pub operations: usize,
    /// Of them, those without an answer.
    pub unanswered: usize,
    /// Acknowledged changes to keys that are written once: none is lost.
    pub kept: usize,
    /// Milliseconds from each kill of the leader to the next acknowledged change, ascending.
    pub takeovers: Vec<u64>,
    /// Whether the history is linearizable.
    pub verdict: Verdict,
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} operations on shared keys, {} without an answer; {} acknowledged keys kept; {}",
            self.operations, self.unanswered, self.kept, self.verdict
        )?;
        let at = |part: usize| {
            let last = self.takeovers.len().saturating_sub(1);
            self.takeovers.get((self.takeovers.len() * part / 100).min(last)).copied().unwrap_or(0)
        };
        write!(
            f,
            "from kill of the leader to the next acknowledged change: {} kills, p50 {} ms, p99 {} ms, longest {} ms",
            self.takeovers.len(),
            at(50),
            at(99),
            at(100)
        )
    }
}

/// What is run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Members of the group.
    pub size: usize,
    /// Clients at work at the same time.
    pub clients: u64,
    /// From where they read.
    pub reads: Reads,
    /// One round for each.
    pub faults: Vec<Fault>,
}

/// Runs clients against a group with one round for each fault, heals it, and checks everything.
///
/// # Errors
/// What was lost, or why the group did not come back. The verdict on the history is in the findings.
pub fn run(plan: &Plan, folder: &Path) -> Result<Findings> {
    let mut cluster = Cluster::start(plan.size, folder)?;
    cluster.leader(None)?;
    cluster.whole()?;
    let seen = Seen::default();
    let addresses = cluster.addresses().to_vec();
    let takeovers = thread::scope(|scope| {
        let workers: Vec<_> = (0..plan.clients)
            .map(|number| {
                let mut worker = Worker::new(number, &addresses, plan.reads, &seen);
                scope.spawn(move || worker.run())
            })
            .collect();
        let done = all_rounds(&mut cluster, &plan.faults, &seen);
        seen.stop.store(true, Ordering::Relaxed);
        for worker in workers {
            worker.join().map_err(|_panic| anyhow::anyhow!("a client panicked"))??;
        }
        done
    })?;
    cluster.restart_all()?;
    cluster.leader(None)?;
    read_all(&addresses, &seen)?;
    let kept = nothing_is_lost(&cluster, &seen)?;
    let history = seen.recorder.history();
    let unanswered = history.iter().filter(|operation| operation.to.is_none()).count();
    let verdict = check(&history, WORLDS);
    if verdict != Verdict::Linearizable {
        let text: String = history.iter().map(|operation| format!("{operation}\n")).collect();
        keep(&folder.join("history.txt"), &text)?;
    }
    Ok(Findings { operations: history.len(), unanswered, kept, takeovers, verdict })
}

fn keep(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).with_context(|| format!("writing {}", path.display()))
}

#[expect(clippy::print_stdout, reason = "a test tells how far it is")]
fn all_rounds(cluster: &mut Cluster, faults: &[Fault], seen: &Seen) -> Result<Vec<u64>> {
    let mut takeovers = Vec::new();
    let mut numbers = Numbers::new(7);
    for (round, fault) in faults.iter().enumerate() {
        thread::sleep(CALM);
        let started = Instant::now();
        one_round(
            cluster,
            *fault,
            &mut Nemesis { seen, numbers: &mut numbers, takeovers: &mut takeovers },
        )
        .with_context(|| format!("round {round}, {fault:?}"))?;
        let acknowledged = lock(&seen.acknowledged).len();
        println!(
            "round {round}, {fault:?}: {} ms; {acknowledged} changes acknowledged so far",
            started.elapsed().as_millis()
        );
    }
    thread::sleep(CALM);
    takeovers.sort_unstable();
    Ok(takeovers)
}

struct Nemesis<'a> {
    seen: &'a Seen,
    numbers: &'a mut Numbers,
    takeovers: &'a mut Vec<u64>,
}

fn one_round(cluster: &mut Cluster, fault: Fault, nemesis: &mut Nemesis<'_>) -> Result<()> {
    let leader = cluster.leader(None)?;
    match fault {
        Fault::KillLeader => nemesis.kill_leader(cluster, leader)?,
        Fault::KillLeaderTwice => {
            nemesis.kill_leader(cluster, leader)?;
            let next = cluster.leader(None)?;
            nemesis.kill_leader(cluster, next)?;
        }
        Fault::PauseLeader => nemesis.pause(cluster, leader)?,
        Fault::KillFollower | Fault::PauseFollower | Fault::WipeFollower => {
            let others = cluster.size() as u64 - 1;
            ensure!(others > 0, "a group of one has no follower");
            let step = 1 + nemesis.numbers.below(others) as usize;
            let follower = (leader + step) % cluster.size();
            if fault == Fault::PauseFollower {
                return nemesis.pause(cluster, follower);
            }
            cluster.kill(follower)?;
            thread::sleep(CALM);
            if fault == Fault::WipeFollower {
                cluster.wipe(follower)?;
            }
            cluster.restart(follower)?;
            cluster.whole()?;
        }
        Fault::KillAll => {
            for member in 0..cluster.size() {
                cluster.kill(member)?;
            }
            cluster.restart_all()?;
        }
    }
    nemesis.acknowledges(None)?;
    Ok(())
}

impl Nemesis<'_> {
    /// In a group of one, the leader must come back before anything is acknowledged.
    fn kill_leader(&mut self, cluster: &mut Cluster, leader: usize) -> Result<()> {
        let killed = self.seen.recorder.now();
        cluster.kill(leader)?;
        if cluster.size() == 1 {
            cluster.restart(leader)?;
        }
        let not = (cluster.size() > 1).then(|| cluster.addresses()[leader].clone());
        let acknowledged = self.acknowledges_after(killed, not.as_deref())?;
        self.takeovers.push((acknowledged - killed) / 1_000_000);
        if cluster.size() > 1 {
            cluster.restart(leader)?;
        }
        Ok(())
    }

    /// The others, where they are enough, go on without it.
    fn pause(&self, cluster: &mut Cluster, member: usize) -> Result<()> {
        cluster.signal(member, Signal::STOP)?;
        thread::sleep(PAUSE);
        let not = (cluster.size() > 1).then(|| cluster.addresses()[member].clone());
        let outcome = if cluster.size() > 1 { self.acknowledges(not.as_deref()) } else { Ok(()) };
        cluster.signal(member, Signal::CONT)?;
        outcome.and_then(|()| self.acknowledges(None))
    }

    /// Waits until a change is acknowledged that was not before, by any member but `not`.
    fn acknowledges(&self, not: Option<&str>) -> Result<()> {
        self.acknowledges_after(self.seen.recorder.now(), not).map(|_at| ())
    }

    /// When the first change after `from` was acknowledged by any member but `not`.
    fn acknowledges_after(&self, from: u64, not: Option<&str>) -> Result<u64> {
        let start = Instant::now();
        loop {
            let fits = |at: u64, by: &str| at > from && Some(by) != not;
            let found = lock(&self.seen.acknowledged)
                .iter()
                .rev()
                .take(LOOKED_BACK)
                .filter(|change| fits(change.at, &change.by))
                .map(|change| change.at)
                .min();
            if let Some(at) = found {
                return Ok(at);
            }
            if start.elapsed() > ACKNOWLEDGES {
                bail!("no change is acknowledged within {} s", ACKNOWLEDGES.as_secs());
            }
            thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Every key that was written once and acknowledged is there, at each member, with its value.
fn nothing_is_lost(cluster: &Cluster, seen: &Seen) -> Result<usize> {
    let report = cluster.converged()?;
    let ledger = lock(&seen.ledger);
    ensure!(
        report.keys >= ledger.len() as u64,
        "{} keys are fewer than {}",
        report.keys,
        ledger.len()
    );
    for (key, value) in ledger.iter() {
        for member in 0..cluster.size() {
            let found = cluster.local(member, key);
            ensure!(
                found.as_ref() == Some(value),
                "member {member} has {found:?} for {key}, which was acknowledged as {value}"
            );
        }
    }
    Ok(ledger.len())
}
