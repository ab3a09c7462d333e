//! Measures what a failover takes, ours and Apache's, and writes the figures to docs/failover.md and
//! the plot to docs/failover.svg: `cargo xtask failover`.

#![expect(clippy::print_stdout, reason = "figures of a run")]
#![expect(clippy::disallowed_methods, reason = "it writes documents")]

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, Result};
use clap::Parser;
use failover::{
    brokers::Product,
    failovers::{Outcomes, Plan, run, two_groups},
    faults::Fault,
    figures::{Line, Runs, plot, replaced, table},
    foreign::Language,
    network,
    traffic::Habits,
};
use interop::{APACHE_STORE, folder::scenario, libraries};

/// How much is run.
#[derive(Debug, Parser)]
struct Arguments {
    /// Kills of the master.
    #[arg(long, default_value_t = 30)]
    kills: usize,
    /// Rounds of each other fault.
    #[arg(long, default_value_t = 5)]
    others: usize,
    /// Rounds of each partition.
    #[arg(long, default_value_t = 3)]
    cuts: usize,
    /// Rounds in which the master's disk hangs; needs root.
    #[arg(long, default_value_t = 3)]
    hangs: usize,
    /// Kills of the master under the load of the official Java client, where it is started again at
    /// once; needs a JDK and Maven.
    #[arg(long, default_value_t = 10)]
    java: usize,
    /// The same under the official Go client; needs Go.
    #[arg(long, default_value_t = 5)]
    go: usize,
    /// Planned switches (SIGTERM) under 32 senders.
    #[arg(long, default_value_t = 5)]
    planned: usize,
    /// Kills of both masters of two groups in one cluster.
    #[arg(long, default_value_t = 2)]
    groups: usize,
    /// Kills of the master of Apache's group; needs a JDK and Maven.
    #[arg(long, default_value_t = 5)]
    apache: usize,
    /// What is to be said of the machine.
    #[arg(long, default_value = "")]
    machine: String,
    /// Prints the figures and writes nothing.
    #[arg(long)]
    dry_run: bool,
}

fn main() -> ExitCode {
    let again: Vec<String> = std::env::args().skip(1).collect();
    let arguments = Arguments::parse();
    let again: Vec<&str> = again.iter().map(String::as_str).collect();
    // Partitions need a network of their own, and then all may have it.
    let outcome =
        prepare(&arguments).and_then(|()| network::inside(&again, || measure(&arguments)));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Fetches and builds what has no network to come from later.
fn prepare(arguments: &Arguments) -> Result<()> {
    libraries::ledgermq()?;
    if arguments.apache > 0 {
        libraries::class_path("rocketmq-broker", APACHE_STORE)?;
    }
    for (kills, language) in [(arguments.java, Language::Java), (arguments.go, Language::Go)] {
        if kills > 0 {
            language.build()?;
        }
    }
    Ok(())
}

fn measure(arguments: &Arguments) -> Result<()> {
    let repeated = |faults: &[Fault], times: usize| -> Vec<Fault> {
        faults.iter().flat_map(|fault| vec![*fault; times]).collect()
    };
    let ours = [
        ("failover-kill", repeated(&[Fault::KillMaster], arguments.kills)),
        ("failover-other", repeated(&Fault::OTHERS, arguments.others)),
        ("failover-hangs", repeated(&[Fault::HangDisk], arguments.hangs)),
        ("failover-cuts", repeated(&Fault::CUTS, arguments.cuts)),
    ];
    let ours = ours.into_iter().filter(|(_, faults)| !faults.is_empty());
    let ours = ours.map(|(name, faults)| one(name, Product::Ours, Habits::default(), faults));
    let mut runs = vec![Runs { product: "LedgerMQ", outcomes: ours.collect::<Result<_>>()? }];
    let official = [
        (arguments.java, "failover-java", "LedgerMQ, Java client", Language::Java),
        (arguments.go, "failover-go", "LedgerMQ, Go client", Language::Go),
    ];
    for (kills, name, product, language) in official {
        if kills > 0 {
            let habits = Habits { client: Some(language), ..Habits::default() };
            let faults = vec![Fault::KillMasterAndRestart; kills];
            let outcomes = vec![one(name, Product::Ours, habits, faults)?];
            runs.push(Runs { product, outcomes });
        }
    }
    if arguments.planned > 0 {
        let habits = Habits { senders: 32, queues: 8, delayed: false, ..Habits::default() };
        let faults = vec![Fault::StopMaster; arguments.planned];
        let outcomes = vec![one("failover-planned", Product::Ours, habits, faults)?];
        runs.push(Runs { product: "LedgerMQ, 32 senders", outcomes });
    }
    if arguments.groups > 0 {
        let outcomes = groups(arguments.groups)?;
        runs.push(Runs { product: "LedgerMQ, two groups", outcomes });
    }
    let apache = format!("Apache {APACHE_STORE}");
    if arguments.apache > 0 {
        let faults = vec![Fault::KillMaster; arguments.apache];
        // Its offsets and delayed messages follow the master by pulls every ten seconds.
        let habits = Habits { delayed: false, ..Habits::default() };
        let outcome = one("failover-apache", Product::Apache(APACHE_STORE), habits, faults)?;
        runs.push(Runs { product: &apache, outcomes: vec![outcome] });
    }
    runs.retain(|runs| !runs.outcomes.is_empty());
    let figures = format!("{}\n{}", arguments.machine, table(&runs)?);
    println!("{figures}");
    let drawn = runs.iter().filter(|runs| runs.product == "LedgerMQ" || runs.product == apache);
    let lines: Vec<Line<'_>> = drawn.filter_map(typical).collect();
    let picture = plot("kill -9 of the master: a round of the median", &lines)?;
    if arguments.dry_run {
        return Ok(());
    }
    let docs = docs()?;
    let page = docs.join("failover.md");
    let text = fs::read_to_string(&page).with_context(|| page.display().to_string())?;
    fs::write(&page, replaced(&text, figures.trim())?).context("writing docs/failover.md")?;
    fs::write(docs.join("failover.svg"), picture).context("writing docs/failover.svg")
}

fn one(name: &str, product: Product, habits: Habits, faults: Vec<Fault>) -> Result<Outcomes> {
    let plan = Plan { product, apache_name_server: false, habits, faults };
    let mut found = None;
    scenario(name, |folder| {
        let outcomes = run(&plan, folder)?;
        println!("{name}: {outcomes}");
        found = Some(outcomes);
        Ok(())
    })?;
    found.context("a run without findings")
}

fn groups(times: usize) -> Result<Vec<Outcomes>> {
    let mut found = Vec::new();
    scenario("failover-groups", |folder| {
        for outcomes in two_groups(times, folder)? {
            println!("failover-groups: {outcomes}");
            found.push(outcomes);
        }
        Ok(())
    })?;
    Ok(found)
}

/// The round of the median time after a kill.
fn typical<'a>(runs: &'a Runs<'_>) -> Option<Line<'a>> {
    let each =
        runs.outcomes.iter().flat_map(|one| one.rounds.iter().map(move |round| (round, one)));
    let mut kills: Vec<_> = each.filter(|(round, _)| round.fault == Fault::KillMaster).collect();
    kills.sort_by_key(|(round, _)| round.first);
    let (round, outcomes) = kills.get(kills.len() / 2)?;
    Some(Line { product: runs.product, history: &outcomes.history, at: round.at })
}

fn docs() -> Result<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
    Ok(root.context("tests/failover lies two folders below the top")?.join("docs"))
}
