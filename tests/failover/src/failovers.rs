//! Rounds of faults on a group of brokers under load, and the check of everything after them.

use std::{
    fmt,
    io::Write,
    path::{Path, PathBuf},
    thread,
};

use anyhow::{Context, Result, anyhow, ensure};

use crate::{
    alike,
    brokers::{Brokers, Places, Product},
    faults::{CALM, Fault, Nemesis},
    held,
    network::Network,
    queues::{self, Attempt, Findings, History, Outcome},
    traffic::{self, Habits, PREFIX, Traffic},
};

/// What a round took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Round {
    /// What was done.
    pub fault: Fault,
    /// When, in microseconds of the history's clock.
    pub at: u64,
    /// Acknowledged sends a second shortly before.
    pub rate: usize,
    /// Microseconds from the fault until the first message was acknowledged that was sent after it.
    pub first: u64,
    /// Longest time without an acknowledgement from the fault until a while after.
    pub gap: u64,
    /// Attempts meanwhile that were refused.
    pub refused: usize,
    /// Attempts meanwhile of which nothing is known.
    pub unknown: usize,
}

/// What is run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Whose brokers.
    pub product: Product,
    /// Whether Apache's name server runs beside ours.
    pub apache_name_server: bool,
    /// How clients behave.
    pub habits: Habits,
    /// One round for each.
    pub faults: Vec<Fault>,
}

/// What a run found.
#[derive(Debug)]
pub struct Outcomes {
    /// The rounds.
    pub rounds: Vec<Round>,
    /// What clients saw, and what brokers hold.
    pub history: History,
    /// The rules that do not hold.
    pub findings: Findings,
}

/// Runs clients against a group with one round for each fault, heals it, and checks everything.
///
/// # Errors
/// Why the group did not come back, or is not the same on each node. What was lost is in the
/// findings.
pub fn run(plan: &Plan, folder: &Path) -> Result<Outcomes> {
    let network =
        if plan.faults.iter().any(|fault| fault.cuts()) { Some(Network::make()?) } else { None };
    let mut places = network.as_ref().map(Network::places).unwrap_or_default();
    places.disks = plan.faults.contains(&Fault::HangDisk);
    let brokers = Brokers::start(plan.product, &places, plan.apache_name_server, folder)?;
    let mut session = Session::begin(brokers, &plan.habits, folder)?;
    session.network = network;
    for fault in &plan.faults {
        session.round(*fault)?;
    }
    session.end()
}

/// Runs clients against two groups of one cluster: the master of one is killed, that of the other,
/// and both at once, `times` times. What each found.
///
/// # Errors
/// See [`run`].
pub fn two_groups(times: usize, folder: &Path) -> Result<[Outcomes; 2]> {
    let folders = [folder.join("a"), folder.join("b")];
    let first = Brokers::start(Product::Ours, &Places::default(), false, &folders[0])?;
    let second = first.beside("broker-b", &folders[1])?;
    let others = format!("{PREFIX}Other");
    let habits = [Habits::default(), Habits { topic: others, ..Habits::default() }];
    let mut first = Session::begin(first, &habits[0], &folders[0])?;
    let mut second = Session::begin(second, &habits[1], &folders[1])?;
    for _ in 0..times {
        first.round(Fault::KillMaster)?;
        second.round(Fault::KillMaster)?;
        thread::scope(|scope| {
            let other = scope.spawn(|| second.round(Fault::KillMaster));
            let one = first.round(Fault::KillMaster);
            other.join().map_err(|_panic| anyhow!("a round panicked"))?.and(one)
        })?;
    }
    Ok([first.end()?, second.end()?])
}

/// A group with its clients.
struct Session {
    brokers: Brokers,
    traffic: Traffic,
    network: Option<Network>,
    habits: Habits,
    folder: PathBuf,
    rounds: Vec<Round>,
}

impl Session {
    fn begin(brokers: Brokers, habits: &Habits, folder: &Path) -> Result<Self> {
        brokers.wait_master(None)?;
        let at = traffic::At { namesrv: brokers.namesrv(), broker: brokers.name().to_owned() };
        let traffic = Traffic::start(&at, habits, folder)?;
        // A new member that is not filled yet cannot stand in for another.
        brokers.caught_up()?;
        let (habits, folder) = (habits.clone(), folder.to_path_buf());
        Ok(Self { brokers, traffic, network: None, habits, folder, rounds: Vec::new() })
    }

    fn round(&mut self, fault: Fault) -> Result<()> {
        let number = self.rounds.len();
        let which = || format!("round {number}, {fault}");
        thread::sleep(CALM);
        let mut nemesis = Nemesis {
            brokers: &mut self.brokers,
            traffic: &mut self.traffic,
            network: self.network.as_ref(),
        };
        let (at, first) = nemesis.strike(fault).with_context(which)?;
        thread::sleep(CALM);
        let round = round(&self.traffic.book().history(), fault, (at, first));
        tell(&format!("round {number}: {round}"));
        self.rounds.push(round);
        self.brokers.caught_up().with_context(which)?;
        self.brokers.listed_once().with_context(which)?;
        if self.brokers.product() == Product::Ours {
            let commits = self.traffic.pause(true);
            alike::check(&self.brokers, &self.habits.topic, &commits).with_context(which)?;
            self.traffic.pause(false);
        }
        Ok(())
    }

    fn end(mut self) -> Result<Outcomes> {
        let mut history = self.traffic.stop()?;
        if self.brokers.product() == Product::Ours {
            alike::delivered(&self.brokers)?;
        }
        self.brokers.converged()?;
        if self.brokers.product() == Product::Ours {
            let commits = traffic::committed(&history);
            alike::check(&self.brokers, &self.habits.topic, &commits)?;
        }
        for number in 0..self.brokers.size() {
            self.brokers.stop(number)?;
        }
        for number in 0..self.brokers.size() {
            let store = self.brokers.store(number);
            let strict = self.brokers.product() == Product::Ours;
            history.holdings.extend(held::read(number, &store, PREFIX, strict)?);
        }
        let findings = queues::check(&history);
        if !findings.is_empty() {
            let path = self.folder.join("history.txt");
            let mut file =
                std::fs::File::create(&path).with_context(|| path.display().to_string())?;
            write!(file, "{history}").with_context(|| path.display().to_string())?;
        }
        Ok(Outcomes { rounds: self.rounds, history, findings })
    }
}

/// What the history says of the time around a fault.
fn round(history: &History, fault: Fault, (at, first): (u64, u64)) -> Round {
    let calm = u64::try_from(CALM.as_micros()).unwrap_or(u64::MAX);
    let (before, until) = (at.saturating_sub(calm), first + calm);
    let during = || {
        let spans = history.attempts.iter();
        spans.filter(|attempt| attempt.span.to >= at && attempt.span.from <= until)
    };
    let mut times: Vec<u64> = during()
        .filter(|attempt| matches!(attempt.outcome, Outcome::At(_)) && attempt.span.to <= until)
        .map(|attempt| attempt.span.to)
        .collect();
    let acknowledged = |attempt: &&Attempt| matches!(attempt.outcome, Outcome::At(_));
    let calmly = history.attempts.iter().filter(acknowledged);
    let calmly = calmly.filter(|attempt| (before..at).contains(&attempt.span.to)).count();
    times.push(at);
    times.sort_unstable();
    let gap = times.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0);
    Round {
        fault,
        at,
        rate: calmly * 1_000_000 / usize::try_from(calm).unwrap_or(usize::MAX),
        first: first.saturating_sub(at),
        gap,
        refused: during().filter(|attempt| attempt.outcome == Outcome::Refused).count(),
        unknown: during().filter(|attempt| attempt.outcome == Outcome::Unknown).count(),
    }
}

impl Outcomes {
    /// Fails where a rule does not hold, or nothing was shown.
    ///
    /// # Errors
    /// The violations.
    pub fn hold(&self) -> Result<()> {
        ensure!(self.findings.is_empty(), "{}", self.findings);
        ensure!(self.history.acknowledged() > 0, "nothing was acknowledged: nothing was shown");
        ensure!(!self.history.seen.is_empty(), "the readers have read nothing");
        Ok(())
    }
}

impl fmt::Display for Round {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { fault, rate, first, gap, refused, unknown, .. } = self;
        write!(
            f,
            "{fault} at {rate} sends a second: first acknowledged send after {} ms, longest gap {} ms, {refused} refused, \
             {unknown} without an answer",
            first / 1000,
            gap / 1000
        )
    }
}

impl fmt::Display for Outcomes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let history = &self.history;
        write!(
            f,
            "{} attempts, {} acknowledged, {} without an answer; {} messages and {} offsets of the \
             group read meanwhile; {}",
            history.attempts.len(),
            history.acknowledged(),
            history.unknown(),
            history.seen.len(),
            history.progress.len(),
            self.findings
        )
    }
}

#[expect(clippy::print_stdout, reason = "a test tells how far it is")]
fn tell(text: &str) {
    println!("{text}");
}
