//! Development tasks: `cargo xtask ci`, `fix`, `tidy`, `docs`, `bench`.
#![expect(clippy::print_stdout, reason = "a command line tool reports on its standard output")]

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
    /// Measures our broker and another one in turn on this machine, by `ledgermq bench`, and writes
    /// the ratios into docs/performance.md if nothing else was busy meanwhile.
    Bench {
        /// The other broker.
        #[arg(long)]
        compare: Peer,
        /// Rounds; both brokers start anew in each.
        #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
        rounds: u32,
        /// Measured seconds of each load.
        #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=600))]
        seconds: u32,
    },
}

/// A broker to compare with.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Peer {
    /// Apache RocketMQ 5.5.0, from Maven Central; needs a JDK and Maven.
    Apache,
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
        Task::Bench { compare: Peer::Apache, rounds, seconds } => bench(&root, rounds, seconds),
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

/// docs/config.md, from the broker's table of keys; a test of the broker checks that it is in step.
fn docs(root: &Path) -> Result<()> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let made = Command::new(cargo)
        .args(["run", "--quiet", "--package", "broker", "--example", "config_md"])
        .current_dir(root)
        .output()
        .context("starting the broker's example config_md")?;
    let complaint = String::from_utf8_lossy(&made.stderr);
    ensure!(made.status.success(), "config_md ended with {}: {complaint}", made.status);
    let path = root.join("docs").join("config.md");
    let mut file = File::create(&path).with_context(|| format!("creating {}", path.display()))?;
    file.write_all(&made.stdout).with_context(|| format!("writing {}", path.display()))?;
    println!("wrote {}", path.display());
    Ok(())
}

/// The comparison itself is an example of `interop`, which knows how to start both brokers.
fn bench(root: &Path, rounds: u32, seconds: u32) -> Result<()> {
    cargo(root, &["build", "--release", "--package", "ledgermq", "--bin", "ledgermq"])?;
    let (rounds, seconds) = (rounds.to_string(), seconds.to_string());
    let example = ["run", "--quiet", "--package", "interop", "--example", "compare", "--"];
    cargo(root, &[&example[..], &[&rounds, &seconds]].concat())
}

/// Runs cargo with `arguments` in `root` and waits for it.
fn cargo(root: &Path, arguments: &[&str]) -> Result<()> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(arguments)
        .current_dir(root)
        .status()
        .with_context(|| format!("starting cargo {}", arguments.join(" ")))?;
    ensure!(status.success(), "cargo {} ended with {status}", arguments.join(" "));
    Ok(())
}
