//! The stages of `cargo xtask ci`: one table with each stage's budget, and the loop that runs it.

use std::{
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process_group};

use crate::{excerpt::Excerpt, fuzz, instructions, tidy};

/// Variable that says which broker the tests of `tests/interop` run against.
const TARGET_VARIABLE: &str = "LEDGERMQ_INTEROP_TARGET";

/// Name of the stage that builds the broker with all its tests.
const TESTS: &str = "test";

/// What a stage runs.
#[derive(Debug, Clone, Copy)]
enum Work {
    /// Cargo with these arguments.
    Cargo(&'static [&'static str]),
    /// Tests of one target of `tests/interop` or `tests/crash` whose name holds the filter, one at a
    /// time, the ignored ones too.
    Interop(&'static str, &'static str),
    /// All tests of one target of `tests/interop` with the Apache broker in the place of ours.
    Apache(&'static str),
    /// The rules of [`tidy`].
    Tidy,
    /// The counts of [`instructions`].
    Instructions,
    /// The programs of [`fuzz`].
    Fuzz,
}

/// One line of the table.
#[derive(Debug, Clone, Copy)]
struct Stage {
    name: &'static str,
    /// Seconds it may take on two cores from a clean clone. Twice that ends it.
    budget: u64,
    /// Only with `--long`.
    long: bool,
    work: Work,
}

const fn stage(name: &'static str, budget: u64, work: Work) -> Stage {
    Stage { name, budget, long: false, work }
}

/// As many seeds as fit. With all members, as the stage `test` has it, so that nothing is built
/// twice.
const SIM: &[&str] =
    &["test", "--workspace", "--test", "seeds", "--", "--include-ignored", "--nocapture"];

/// Faults of the product that the simulator must find. Alone, without the other members: cargo
/// unites the features of all that it builds at once, and no other binary may have these faults.
const PLANTED: &[&str] =
    &["run", "--package", "sim", "--features", "planted", "--bin", "sim", "--", "planted"];

/// Sequences of operations of a log, with every subset of unsynced changes: those of a whole engine,
/// and those of a member that cuts its log, which lie beside the code.
const SEQUENCES: &[&str] = &[
    "test",
    "--workspace",
    "--lib",
    "--test",
    "dledger_sequences",
    "--",
    "--ignored",
    "every_subset",
];

/// The same with one operation more and fewer choices.
const LONGER_SEQUENCES: &[&str] = &[
    "test",
    "--workspace",
    "--lib",
    "--test",
    "dledger_sequences",
    "--",
    "--ignored",
    "four_operations",
];

/// Strangers that take minutes: a million names, random bytes for a minute.
const LONG_STRANGERS: &[&str] = &[
    "test",
    "--workspace",
    "--test",
    "strangers",
    "--",
    "--ignored",
    "--nocapture",
    "in_the_long_run",
];

/// All stages in the order in which they run: what is quick to fail comes first.
const STAGES: &[Stage] = &[
    stage("fmt", 10, Work::Cargo(&["fmt", "--all", "--check"])),
    stage("tidy", 20, Work::Tidy),
    stage(
        "clippy",
        90,
        Work::Cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]),
    ),
    stage(TESTS, 680, Work::Cargo(&["test", "--workspace", "--no-fail-fast"])),
    stage("instructions", 40, Work::Instructions),
    stage("doc", 30, Work::Cargo(&["doc", "--workspace", "--no-deps", "--document-private-items"])),
    stage("sim", 150, Work::Cargo(SIM)),
    stage("sim-planted", 70, Work::Cargo(PLANTED)),
    stage("interop-build", 100, Work::Interop("prepare", "")),
    stage("java-5.5.0", 80, Work::Interop("clients", "java_5_5_0")),
    stage("java-4.9.8", 70, Work::Interop("clients", "java_4_9_8")),
    stage("go", 50, Work::Interop("clients", "go")),
    stage("mqadmin", 30, Work::Interop("clients", "mqadmin")),
    stage("online-admin", 50, Work::Interop("clients", "online_admin")),
    stage("name-servers", 60, Work::Interop("name_servers", "")),
    stage("tls", 40, Work::Interop("tls", "")),
    stage("restarts", 60, Work::Interop("restarts", "")),
    stage("stores", 320, Work::Interop("stores", "")),
    stage("power-cuts", 40, Work::Interop("power_cut", "")),
    stage("group-power", 40, Work::Interop("group_power", "")),
    stage("full-disk", 110, Work::Interop("full_disk", "")),
    stage("kill-points", 30, Work::Interop("kill_points", "")),
    stage("kv", 60, Work::Interop("kv", "member")),
    stage("failover", 140, Work::Interop("brokers", "short")),
    long("failover-rounds", 1_200, Work::Interop("brokers", "long")),
    long("kinds", 1_200, Work::Interop("kinds", "")),
    long("kv-long", 420, Work::Interop("kv", "thirty_rounds")),
    long("small-memory", 900, Work::Interop("small_memory", "long")),
    long("fuzz", 1_500, Work::Fuzz),
    long("strangers", 900, Work::Cargo(LONG_STRANGERS)),
    stage("dledger", 70, Work::Interop("dledger", "acknowledged")),
    stage("dledger-java", 200, Work::Interop("dledger", "java")),
    long("java-pop", 120, Work::Interop("clients", "java_pop")),
    long("proxy", 900, Work::Interop("proxy", "")),
    long("three-clients", 600, Work::Interop("three_nodes", "client")),
    long("three-proxy", 900, Work::Interop("three_nodes", "proxy")),
    long("takeover", 900, Work::Interop("takeover", "")),
    long("dledger-rounds", 900, Work::Interop("dledger", "thirty_rounds")),
    stage("store-sequences", 60, Work::Cargo(SEQUENCES)),
    long("store-sequences-4", 600, Work::Cargo(LONGER_SEQUENCES)),
    long("mqadmin-compare", 300, Work::Interop("mqadmin_compare", "")),
    long("apache-clients", 600, Work::Apache("clients")),
    long("apache-proxy", 900, Work::Apache("proxy")),
    long("apache-stores", 300, Work::Apache("stores")),
];

/// A stage that only `--long` runs.
const fn long(name: &'static str, budget: u64, work: Work) -> Stage {
    Stage { name, budget, long: true, work }
}

/// Prints the table.
pub(crate) fn list() {
    println!("{:<16} {:>8}  runs", "stage", "budget");
    for stage in STAGES {
        let long = if stage.long { "  (--long only)" } else { "" };
        println!("{:<16} {:>6} s  {}{long}", stage.name, stage.budget, describe(stage.work));
    }
}

fn describe(work: Work) -> String {
    match work {
        Work::Cargo(arguments) => format!("cargo {}", arguments.join(" ")),
        Work::Interop(target, filter) => format!("cargo {}", interop(target, filter).join(" ")),
        Work::Apache(target) => {
            format!("{TARGET_VARIABLE}=apache cargo {}", interop(target, "").join(" "))
        }
        Work::Tidy => "cargo xtask tidy".to_owned(),
        Work::Instructions => "cargo xtask instructions".to_owned(),
        Work::Fuzz => "libFuzzer, every target".to_owned(),
    }
}

fn interop(target: &'static str, filter: &'static str) -> Vec<&'static str> {
    let filter = if filter.is_empty() { &[][..] } else { &[filter] };
    let run = ["--include-ignored", "--test-threads=1", "--nocapture"];
    // With all members, as the stage `test` has it: then cargo builds no dependency a second time
    // for other features.
    [["test", "--workspace", "--test", target, "--"].as_slice(), filter, &run].concat()
}

/// Runs the stages, prints what each took, and fails if one of them failed.
pub(crate) fn run(root: &Path, long: bool, only: &[String]) -> Result<()> {
    let wanted = |stage: &&Stage| {
        let named = only.iter().any(|part| stage.name.contains(part.as_str()));
        if only.is_empty() { long || !stage.long } else { named }
    };
    let mut table = Vec::new();
    let mut failures = Vec::new();
    let mut binary = None;
    for stage in STAGES.iter().filter(wanted) {
        println!("\n==> {} (budget {} s): {}", stage.name, stage.budget, describe(stage.work));
        let start = Instant::now();
        let excerpt = Excerpt::default();
        let outcome = one(root, *stage, binary.as_deref(), &excerpt);
        if stage.name == TESTS {
            // Also where a test failed: else each later stage would build it for itself.
            binary = tested_binary();
        }
        let seconds = start.elapsed().as_secs_f64();
        match &outcome {
            Ok(()) => println!("==> {}: ok in {seconds:.1} s", stage.name),
            Err(error) => {
                println!("==> {}: FAILED after {seconds:.1} s: {error:#}", stage.name);
                failures.push((stage.name, format!("{error:#}"), excerpt.causes()));
            }
        }
        table.push((*stage, seconds, outcome.is_ok()));
    }
    let verdict = report(&table);
    for (name, error, causes) in failures {
        println!("\n==> why {name} failed: {error}");
        causes.iter().for_each(|line| println!("    {line}"));
    }
    verdict
}

fn report(table: &[(Stage, f64, bool)]) -> Result<()> {
    println!("\n{:<16} {:>9} {:>8}", "stage", "took", "budget");
    for (stage, seconds, passed) in table {
        let verdict = match (passed, *seconds > stage.budget as f64) {
            (false, _) => "FAILED",
            (true, true) => "over budget",
            (true, false) => "ok",
        };
        println!("{:<16} {seconds:>7.1} s {:>6} s  {verdict}", stage.name, stage.budget);
    }
    let failed = table.iter().filter(|(_, _, passed)| !passed).count();
    let total: f64 = table.iter().map(|(_, seconds, _)| seconds).sum();
    println!("all stages: {total:.0} s");
    println!("stages: {} passed, {failed} failed", table.len() - failed);
    match (table.len(), failed) {
        (0, _) => bail!("no stage has such a name; `cargo xtask ci --list` prints them"),
        (_, 0) => Ok(()),
        _ => bail!("{failed} of {} stages failed", table.len()),
    }
}

/// The broker that `cargo test` has just built, so that no other stage builds it again.
fn tested_binary() -> Option<PathBuf> {
    let beside = std::env::current_exe().ok()?.with_file_name("ledgermq");
    beside.is_file().then_some(beside)
}

fn one(root: &Path, stage: Stage, binary: Option<&Path>, excerpt: &Excerpt) -> Result<()> {
    let arguments = match stage.work {
        Work::Tidy => return tidy::run(root),
        Work::Instructions => return instructions::run(root),
        Work::Fuzz => return fuzz::run(root),
        Work::Cargo(arguments) => arguments.to_vec(),
        Work::Interop(target, filter) => interop(target, filter),
        Work::Apache(target) => interop(target, ""),
    };
    let target = if matches!(stage.work, Work::Apache(_)) { "apache" } else { "ours" };
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    if let Some(binary) = binary {
        command.env("LEDGERMQ_BIN", binary);
    }
    let mut child = command
        .args(&arguments)
        .env("RUSTDOCFLAGS", "-D warnings")
        .env(TARGET_VARIABLE, target)
        .env("RUST_BACKTRACE", "0")
        .current_dir(root)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .with_context(|| format!("starting cargo {}", arguments.join(" ")))?;
    let stdout = child.stdout.take().map(|from| excerpt.pass_on(from, std::io::stdout()));
    let stderr = child.stderr.take().map(|from| excerpt.pass_on(from, std::io::stderr()));
    let status = wait(&mut child, Duration::from_secs(2 * stage.budget))?;
    // Not joined: a process that a test left behind may hold a pipe open for ever.
    let passing = [stdout, stderr];
    let end = Instant::now() + LAST_LINES;
    while passing.iter().flatten().any(|it| !it.is_finished()) && Instant::now() < end {
        thread::sleep(Duration::from_millis(20));
    }
    if status.success() { Ok(()) } else { bail!("cargo ended with {status}") }
}

/// How long the last lines of a stage are waited for once it has ended.
const LAST_LINES: Duration = Duration::from_secs(5);

/// Waits for `child`, at most `limit`; then ends it and all that it started.
fn wait(child: &mut Child, limit: Duration) -> Result<ExitStatus> {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().context("waiting for a stage")? {
            return Ok(status);
        }
        if start.elapsed() > limit {
            let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
            let group = group.context("the process id of a stage is out of range")?;
            kill_process_group(group, Signal::KILL).context("ending a stage")?;
            child.wait().context("waiting for a stage that was ended")?;
            bail!("ended: it ran for more than {} s, twice its budget", limit.as_secs());
        }
        thread::sleep(Duration::from_millis(100));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_over_twice_its_budget_is_ended() {
        let mut child = Command::new("sleep").arg("600").process_group(0).spawn().unwrap();
        let error = wait(&mut child, Duration::from_millis(50)).unwrap_err();
        assert!(error.to_string().contains("twice its budget"), "{error}");
        assert!(child.try_wait().unwrap().is_some(), "the child is still there");
    }

    #[test]
    fn a_failed_stage_fails_the_run() {
        let passed = (STAGES[0], 1.0, true);
        let failed = (STAGES[1], 1.0, false);
        assert!(report(&[passed]).is_ok());
        assert!(report(&[passed, failed]).is_err());
        assert!(report(&[]).is_err());
    }

    #[test]
    fn names_are_unique_and_all_budgets_fit_into_ci() {
        let mut names: Vec<_> = STAGES.iter().map(|stage| stage.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), STAGES.len());
        let total: u64 = STAGES.iter().filter(|stage| !stage.long).map(|s| s.budget).sum();
        assert!(total <= 2700, "budgets add up to {total} s");
    }
}
