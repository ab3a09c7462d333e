//! Rules on sources and dependencies that neither rustc nor clippy knows.
//!
//! Lengths of functions, arguments and complexity are clippy's (`clippy.toml`). Each rule here has
//! a test with a planted violation.
#![expect(clippy::print_stdout, reason = "reports on standard output")]

mod dependencies;
mod known_faults;
mod requirements;
mod sources;
mod tables;

use std::{fmt, fs, path::Path, process::Command};

use anyhow::{Context, Result, bail, ensure};

pub(crate) use sources::Source;

/// One broken rule.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    /// File and line, or crate.
    place: String,
    /// What is wrong and what to do instead.
    text: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.text)
    }
}

/// Checks everything and prints the size of each crate.
pub(crate) fn run(root: &Path) -> Result<()> {
    let sources = read(root)?;
    ensure!(!sources.is_empty(), "git lists no Rust source in {}", root.display());
    let mut findings: Vec<Finding> = sources.iter().flat_map(sources::check).collect();
    findings.extend(sources::stale_allowances(&sources));
    let page = root.join(requirements::PAGE);
    let page = fs::read_to_string(&page).with_context(|| page.display().to_string())?;
    findings.extend(requirements::check(&page, &sources));
    let page = fs::read_to_string(root.join(known_faults::PAGE)).context(known_faults::PAGE)?;
    findings.extend(known_faults::check(&page, &sources));
    for page in tables::PAGES {
        let text = fs::read_to_string(root.join(page.path)).context(page.path)?;
        findings.extend(tables::check(page, &text, &sources));
    }
    let metadata = metadata(root)?;
    findings.extend(dependencies::edges(&metadata)?);
    findings.extend(dependencies::pure_leaves(&metadata)?);
    findings.extend(dependencies::planted(&features(root)?));
    println!("{:<16} {:>6} {:>7}", "crate", "lines", "budget");
    for (name, lines, budget) in sources::sizes(&sources) {
        let over = if lines > budget { "  over" } else { "" };
        println!("{name:<16} {lines:>6} {budget:>7}{over}");
    }
    for finding in &findings {
        println!("{finding}");
    }
    if !findings.is_empty() {
        bail!("tidy: {} findings", findings.len());
    }
    println!("tidy: {} sources in order", sources.len());
    Ok(())
}

/// Every Rust source that git knows or would add.
fn read(root: &Path) -> Result<Vec<Source>> {
    let listed = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard", "*.rs"])
        .current_dir(root)
        .output()
        .context("starting git ls-files")?;
    ensure!(listed.status.success(), "git ls-files ended with {}", listed.status);
    let names = String::from_utf8(listed.stdout).context("file names are not UTF-8")?;
    let mut sources = Vec::new();
    for path in names.lines().filter(|path| root.join(path).is_file()) {
        let text =
            fs::read_to_string(root.join(path)).with_context(|| format!("reading {path}"))?;
        sources.push(Source { path: path.to_owned(), text });
    }
    Ok(sources)
}

/// The features that the binary is built with when all members are built together.
fn features(root: &Path) -> Result<String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["tree", "--workspace", "--edges", "features", "--prefix", "none", "--locked"])
        .current_dir(root)
        .output()
        .context("starting cargo tree")?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "cargo tree ended with {}: {complaint}", output.status);
    String::from_utf8(output.stdout).context("cargo tree printed no UTF-8")
}

fn metadata(root: &Path) -> Result<serde_json::Value> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--locked"])
        .current_dir(root)
        .output()
        .context("starting cargo metadata")?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "cargo metadata ended with {}: {complaint}", output.status);
    serde_json::from_slice(&output.stdout).context("cargo metadata printed no JSON")
}
