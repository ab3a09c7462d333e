//! `cargo xtask sim`: long runs of the simulator, recorded in docs/sim-runs.tsv.
#![expect(clippy::print_stdout, reason = "reports on standard output")]

use std::{
    fs::OpenOptions,
    io::Write,
    path::Path,
    process::Command,
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, Result, bail, ensure};

/// Head of the table.
const HEAD: &str = "commit\tkind\tfrom\tseeds\tseconds\tday\tresult\n";

/// Which seeds.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct Seeds {
    /// How many.
    #[arg(long)]
    seeds: u64,
    /// The first.
    #[arg(long)]
    from: u64,
    /// What runs: the real engine on a simulated disk, alone, under queues of messages, or under these
    /// and tables; or the bare consensus core, alone or beside members that are taken for Java's.
    #[arg(long, default_value = "engine")]
    kind: Kind,
    /// Threads, each with whole seeds.
    #[arg(long, default_value_t = 2)]
    threads: usize,
}

/// What runs in the simulated world.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Kind {
    /// The engine.
    Engine,
    /// The engine under the queue tails of the store.
    Messages,
    /// The same with the journal of tables.
    Journal,
    /// The core.
    Bare,
    /// The core beside members that are taken for Java's.
    Java,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Engine => "engine",
            Self::Messages => "messages",
            Self::Journal => "journal",
            Self::Bare => "bare",
            Self::Java => "java",
        }
    }
}

/// Runs the seeds and adds a line to the table, whether they pass or fail.
pub(crate) fn run(root: &Path, wanted: Seeds) -> Result<()> {
    let commit = commit(root)?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let (seeds, from) = (wanted.seeds.to_string(), wanted.from.to_string());
    let threads = wanted.threads.to_string();
    let kind = wanted.kind.name();
    let build = ["build", "--quiet", "--package", "sim", "--bin", "sim"];
    let built = Command::new(&cargo).args(build).current_dir(root).status();
    ensure!(built.context("starting cargo build")?.success(), "the simulator does not build");
    let run = ["run", "--quiet", "--package", "sim", "--bin", "sim", "--", "run"];
    let begun = Instant::now();
    let status = Command::new(cargo)
        .args(run)
        .args(["--kind", kind, "--seeds", &seeds, "--from", &from, "--threads", &threads])
        .current_dir(root)
        .status()
        .context("starting the simulator")?;
    let seconds = begun.elapsed().as_secs();
    let result = if status.success() { "passed" } else { "FAILED" };
    let day = today()?;
    let line = format!("{commit}\t{kind}\t{from}\t{seeds}\t{seconds}\t{day}\t{result}\n");
    record(&root.join("docs").join("sim-runs.tsv"), &line)?;
    println!("{}", line.trim_end());
    if status.success() { Ok(()) } else { bail!("seeds have failed: see above") }
}

/// The commit, with a mark where files differ from it.
fn commit(root: &Path) -> Result<String> {
    let git = |arguments: &[&str]| -> Result<String> {
        let output = Command::new("git").args(arguments).current_dir(root).output();
        let output = output.context("starting git")?;
        ensure!(output.status.success(), "git {} failed", arguments.join(" "));
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let head = git(&["rev-parse", "--short=10", "HEAD"])?;
    let changed = git(&["status", "--porcelain", "--untracked-files=no", "--", "*.rs"])?;
    Ok(if changed.is_empty() { head } else { format!("{head}+") })
}

fn today() -> Result<String> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).context("the clock is before 1970")?;
    let days = i64::try_from(now.as_secs() / 86_400).context("the clock is beyond all days")?;
    Ok(day(days))
}

/// The date `days` after 1970-01-01.
fn day(days: i64) -> String {
    let (mut year, mut left) = (1970, days);
    let leap = |year: i64| (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    while left >= 365 + i64::from(leap(year)) {
        left -= 365 + i64::from(leap(year));
        year += 1;
    }
    let february = 28 + i64::from(leap(year));
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if left < length {
            break;
        }
        left -= length;
        month += 1;
    }
    format!("{year:04}-{month:02}-{:02}", left + 1)
}

fn record(path: &Path, line: &str) -> Result<()> {
    let shown = path.display();
    let new = !path.exists();
    let mut file = OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .with_context(|| format!("opening {shown}"))?;
    if new {
        file.write_all(HEAD.as_bytes()).with_context(|| format!("writing {shown}"))?;
    }
    file.write_all(line.as_bytes()).with_context(|| format!("writing {shown}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_become_dates() {
        assert_eq!(day(0), "1970-01-01");
        assert_eq!(day(58), "1970-02-28");
        assert_eq!(day(11_016), "2000-02-29");
        assert_eq!(day(20_786), "2026-11-29");
    }

    #[test]
    fn a_line_is_added_behind_a_head() {
        let folder = std::env::temp_dir().join(format!("sim-runs-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("runs.tsv");
        record(&path, "a\n").unwrap();
        record(&path, "b\n").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), format!("{HEAD}a\nb\n"));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
