//! Many runs on several threads, each thread with whole runs.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use crate::{
    bare::Bare,
    coverage::Coverage,
    invariants::Violation,
    member::Member,
    plan::Plan,
    trace::Detail,
    world::{self, Outcome},
};

/// Most failures that a batch reports: the first few tell enough.
const FAILURES_MAX: usize = 10;

/// What runs in the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The consensus core on a log in memory.
    Bare,
    /// The real engine on a simulated disk.
    Engine,
    /// The same with the queue tails of the store on top.
    Messages,
    /// Messages, and tables that follow from records of the log.
    Journal,
    /// The consensus core where some members are taken for Java's.
    Java,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 5] =
        [Self::Bare, Self::Engine, Self::Messages, Self::Journal, Self::Java];

    /// The word for it on a command line and in a `.seed` file.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Bare => "bare",
            Self::Engine => "engine",
            Self::Messages => "messages",
            Self::Journal => "journal",
            Self::Java => "java",
        }
    }
}

/// Runs a plan. A panic is a violation.
#[must_use]
pub fn run(kind: Kind, plan: &Plan, detail: Detail) -> Outcome {
    let ran = catch_unwind(AssertUnwindSafe(|| match kind {
        Kind::Bare => world::run::<Bare>(plan, detail),
        Kind::Engine => world::run::<Member>(plan, detail),
        Kind::Messages => world::run::<Member>(&plan.clone().of_messages(), detail),
        Kind::Journal => world::run::<Member>(&plan.clone().of_journal(), detail),
        Kind::Java => world::run::<Bare>(&plan.clone().of_java(), detail),
    }));
    ran.unwrap_or_else(|panic| {
        let text = panic
            .downcast_ref::<String>()
            .cloned()
            .or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        let text = text.unwrap_or_else(|| "a panic without a text".to_owned());
        Outcome {
            violation: Some(Violation { invariant: "no panic", at: 0, text }),
            coverage: Coverage::default(),
            trace_hash: 0,
            text: Vec::new(),
        }
    })
}

/// Which seeds, and for how long.
#[derive(Debug, Clone, Copy)]
pub struct Order {
    /// What runs.
    pub kind: Kind,
    /// The first seed.
    pub from: u64,
    /// How many seeds at most.
    pub seeds: u64,
    /// When no further seed is begun.
    pub until: Option<Instant>,
    /// Threads.
    pub threads: usize,
}

/// What came of a batch.
#[derive(Debug, Default)]
pub struct Report {
    /// Seeds that ran.
    pub seeds: u64,
    /// Sum of all counters.
    pub coverage: Coverage,
    /// Plans that failed, by seed.
    pub failures: Vec<(Plan, Violation)>,
    /// How long it took.
    pub took: Duration,
}

impl Report {
    /// Adds another report.
    pub fn add(&mut self, other: Self) {
        self.seeds += other.seeds;
        self.coverage.add(&other.coverage);
        self.failures.extend(other.failures);
        self.took += other.took;
    }
}

/// Runs seeds one after another until the order is filled or too many have failed.
#[must_use]
pub fn run_all(order: Order) -> Report {
    let begun = Instant::now();
    let next = AtomicU64::new(0);
    let stop = AtomicBool::new(false);
    let report = Mutex::new(Report::default());
    thread::scope(|scope| {
        for _ in 0..order.threads.max(1) {
            scope.spawn(|| work(order, &next, &stop, &report));
        }
    });
    let mut report = report.into_inner().unwrap_or_else(PoisonError::into_inner);
    report.failures.sort_by_key(|(plan, _)| plan.seed);
    report.took = begun.elapsed();
    report
}

fn work(order: Order, next: &AtomicU64, stop: &AtomicBool, report: &Mutex<Report>) {
    loop {
        let nth = next.fetch_add(1, Ordering::Relaxed);
        let late = order.until.is_some_and(|until| Instant::now() >= until);
        if nth >= order.seeds || late || stop.load(Ordering::Relaxed) {
            return;
        }
        let plan = Plan::draw(order.from.wrapping_add(nth));
        let outcome = run(order.kind, &plan, Detail::Hash);
        let mut report = report.lock().unwrap_or_else(PoisonError::into_inner);
        report.seeds += 1;
        report.coverage.add(&outcome.coverage);
        if let Some(violation) = outcome.violation {
            report.failures.push((plan, violation));
            stop.store(report.failures.len() >= FAILURES_MAX, Ordering::Relaxed);
        }
    }
}
