//! `sim`: runs seeds, replays one, makes it smaller. See docs/testing.md.
#![expect(clippy::print_stdout, reason = "a command line tool reports on its standard output")]

use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

use clap::{Parser, Subcommand, ValueEnum};
use sim::{
    batch::{self, Kind, Order, Report},
    ci,
    plan::Plan,
    shrink,
    trace::Detail,
};

#[derive(Debug, Parser)]
#[command(about = "Simulates whole groups from seeds")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum KindName {
    Bare,
    Engine,
    Messages,
    Journal,
    Java,
}

impl From<KindName> for Kind {
    fn from(name: KindName) -> Self {
        match name {
            KindName::Bare => Self::Bare,
            KindName::Engine => Self::Engine,
            KindName::Messages => Self::Messages,
            KindName::Journal => Self::Journal,
            KindName::Java => Self::Java,
        }
    }
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Runs seeds and prints what happened.
    Run {
        #[arg(long, default_value = "engine")]
        kind: KindName,
        /// How many.
        #[arg(long, default_value_t = 1000)]
        seeds: u64,
        /// The first.
        #[arg(long, default_value_t = 0)]
        from: u64,
        /// Stops after so many seconds.
        #[arg(long)]
        seconds: Option<u64>,
        #[arg(long, default_value_t = 2)]
        threads: usize,
    },
    /// Replays a plan, such as `seed=7 members=3`, and prints each line of it.
    One {
        #[arg(long, default_value = "engine")]
        kind: KindName,
        /// Only the verdict.
        #[arg(long)]
        quiet: bool,
        /// The words of the plan.
        plan: Vec<String>,
    },
    /// Makes a failing plan smaller.
    Shrink {
        #[arg(long, default_value = "engine")]
        kind: KindName,
        /// The words of the plan.
        plan: Vec<String>,
    },
    /// What CI runs: regressions, seeds twice, then as many seeds as fit.
    Ci {
        /// Seconds for all of it.
        #[arg(long, default_value_t = 200)]
        seconds: u64,
        #[arg(long, default_value_t = 2)]
        threads: usize,
    },
    /// Turns on one fault of the product after another; a fixed seed must find each.
    #[cfg(feature = "planted")]
    Planted {
        /// Looks for seeds instead of trying those that are known.
        #[arg(long)]
        search: bool,
        /// Only these, such as P3.
        only: Vec<String>,
    },
}

fn main() -> ExitCode {
    match run(Arguments::parse().task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            println!("{text}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> Result<(), String> {
    match task {
        Task::Run { kind, seeds, from, seconds, threads } => {
            let until = seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
            let order = Order { kind: kind.into(), from, seeds, until, threads };
            let report = batch::run_all(order);
            show(kind.into(), &report);
            if report.failures.is_empty() { Ok(()) } else { Err("seeds have failed".to_owned()) }
        }
        Task::One { kind, quiet, plan } => one(kind.into(), quiet, &plan),
        Task::Shrink { kind, plan } => {
            let plan = read(&plan)?;
            let outcome = batch::run(kind.into(), &plan, Detail::Hash);
            let violation = outcome.violation.ok_or("that plan breaks nothing")?;
            let (smallest, violation) = shrink::shrink(kind.into(), &plan, &violation);
            println!("{} {smallest}\n{violation}", Kind::from(kind).name());
            Ok(())
        }
        Task::Ci { seconds, threads } => ci::run(seconds, threads),
        #[cfg(feature = "planted")]
        Task::Planted { search, only } => sim::planted::run(search, &only),
    }
}

fn read(words: &[String]) -> Result<Plan, String> {
    words.join(" ").parse().map_err(|error: sim::plan::PlanError| error.to_string())
}

fn one(kind: Kind, quiet: bool, words: &[String]) -> Result<(), String> {
    let plan = read(words)?;
    let detail = if quiet { Detail::Hash } else { Detail::Text };
    let outcome = batch::run(kind, &plan, detail);
    for line in &outcome.text {
        println!("{line}");
    }
    println!("{}", outcome.coverage.report());
    println!("trace {:016x}, {} happenings", outcome.trace_hash, outcome.coverage.happenings);
    match outcome.violation {
        Some(violation) => Err(violation.to_string()),
        None => Ok(()),
    }
}

fn show(kind: Kind, report: &Report) {
    ci::show(kind, report);
}
