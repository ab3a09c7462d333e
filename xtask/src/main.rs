//! Development tasks: `cargo xtask ci`, `fix`, `tidy`, `docs`, `bench`, `sim`.
#![allow(clippy::disallowed_methods, reason = "this is no server: it starts processes")]
#![expect(clippy::print_stdout, reason = "a command line tool reports on its standard output")]

mod excerpt;
mod fuzz;
mod instructions;
mod simulate;
mod stages;
mod tidy;

use std::{
    fs::File,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use anyhow::{Context, Result, ensure};
use clap::{Parser, Subcommand};

/// Development tasks of the workspace.
#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Runs every check, as CI does. Writes nothing but target/.
    Ci {
        /// Also the stages that do not fit into a CI run.
        #[arg(long)]
        long: bool,
        /// Only the stages whose name contains one of these.
        #[arg(long = "only", value_name = "NAME")]
        only: Vec<String>,
        /// Prints the table of stages and runs nothing.
        #[arg(long)]
        list: bool,
    },
    /// Formats the sources and applies what clippy can mend.
    Fix,
    /// Checks the rules on sources and dependencies that no lint knows.
    Tidy,
    /// Writes the documents that are derived from tables in the sources.
    Docs,
    /// Counts the instructions of a message by callgrind, and compares with what was recorded.
    Instructions,
    /// Runs seeds of the simulator and adds a line about them to docs/sim-runs.tsv.
    Sim(simulate::Seeds),
    /// Measures what a failover takes under each fault, and writes docs/failover.md and its picture.
    Failover {
        /// How much: `--kills N`, `--others N`, `--cuts N`, `--apache N`, `--dry-run`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "OPTIONS")]
        options: Vec<String>,
    },
    /// Measures ours and another one in turn on this machine, and writes the figures to
    /// docs/performance.jsonl, docs/dledger-performance.jsonl or docs/kinds.jsonl and the page made of them to
    /// docs/performance.md.
    Bench {
        /// The other one.
        #[arg(long)]
        compare: Peer,
        /// What is measured, and how: `--only PART`, `--quick`, `--resume`, `--page`, `--big`, and
        /// more, which `-- --help` lists.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "OPTIONS")]
        options: Vec<String>,
    },
}

/// What to compare with.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Peer {
    /// Apache RocketMQ 5.5.0, from Maven Central; needs a JDK and Maven.
    Apache,
    /// A group of Java's DLedger 0.3.2, which Apache RocketMQ 5.5.0 brings, beside one of ours.
    Dledger,
    /// Nothing: ours alone under a million timers and 20,000 light queues.
    Alone,
}

fn main() -> ExitCode {
    match run(Arguments::parse().task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> Result<()> {
    let root = root()?;
    match task {
        Task::Ci { long, only, list } => {
            if list {
                stages::list();
                return Ok(());
            }
            stages::run(&root, long, &only)
        }
        Task::Fix => fix(&root),
        Task::Tidy => tidy::run(&root),
        Task::Docs => docs(&root),
        Task::Instructions => instructions::run(&root),
        Task::Sim(seeds) => simulate::run(&root, seeds),
        Task::Failover { options } => {
            let run = ["run", "--quiet", "--package", "failover", "--example", "failover", "--"];
            let options = options.iter().map(String::as_str);
            cargo(&root, &run.into_iter().chain(options).collect::<Vec<_>>())
        }
        Task::Bench { compare: Peer::Apache, options } => bench(&root, "compare", &options),
        Task::Bench { compare: Peer::Dledger, options } => {
            bench(&root, "compare_dledger", &options)
        }
        Task::Bench { compare: Peer::Alone, options } => bench(&root, "kinds", &options),
    }
}

fn root() -> Result<PathBuf> {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().map(Path::to_path_buf).context("xtask lies at the top of the workspace")
}

fn fix(root: &Path) -> Result<()> {
    cargo(
        root,
        &["clippy", "--workspace", "--all-targets", "--fix", "--allow-dirty", "--allow-staged"],
    )?;
    cargo(root, &["fmt", "--all"])
}

/// docs/config.md, from the broker's table of keys, and docs/protocol-status.md, from its table of
/// request codes.
fn docs(root: &Path) -> Result<()> {
    for (example, page) in
        [("config_md", "config.md"), ("protocol_status_md", "protocol-status.md")]
    {
        print_into(root, example, &root.join("docs").join(page))?;
    }
    Ok(())
}

/// What an example of the broker prints, into a file.
fn print_into(root: &Path, example: &str, path: &Path) -> Result<()> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let made = Command::new(cargo)
        .args(["run", "--quiet", "--package", "broker", "--example", example])
        .current_dir(root)
        .output()
        .with_context(|| format!("starting the broker's example {example}"))?;
    let complaint = String::from_utf8_lossy(&made.stderr);
    ensure!(made.status.success(), "{example} ended with {}: {complaint}", made.status);
    let mut file = File::create(path).with_context(|| format!("creating {}", path.display()))?;
    file.write_all(&made.stdout).with_context(|| format!("writing {}", path.display()))?;
    println!("wrote {}", path.display());
    Ok(())
}

/// The comparison itself is an example of `interop`, which knows how to start both. Its servers are
/// the release build, as the load is, unless `LEDGERMQ_BIN` names another one.
fn bench(root: &Path, example: &str, options: &[String]) -> Result<()> {
    cargo(root, &["build", "--release", "--package", "ledgermq", "--bin", "ledgermq"])?;
    let own = std::env::current_exe().context("the path of this program")?;
    let target = own.ancestors().nth(2).context("it lies in target/debug")?;
    let binary = std::env::var_os("LEDGERMQ_BIN")
        .map_or_else(|| target.join("release").join("ledgermq"), PathBuf::from);
    ensure!(binary.is_file(), "{} is no program", binary.display());
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(["run", "--quiet", "--package", "interop", "--example", example, "--"])
        .args(options)
        .env("LEDGERMQ_BIN", &binary)
        .current_dir(root)
        .status()
        .with_context(|| format!("starting the comparison {example}"))?;
    ensure!(status.success(), "the comparison ended with {status}");
    Ok(())
}

/// Runs cargo with `arguments` in `root` and waits for it.
pub(crate) fn cargo(root: &Path, arguments: &[&str]) -> Result<()> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(arguments)
        .current_dir(root)
        .status()
        .with_context(|| format!("starting cargo {}", arguments.join(" ")))?;
    ensure!(status.success(), "cargo {} ended with {status}", arguments.join(" "));
    Ok(())
}
