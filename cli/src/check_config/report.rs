//! What is printed about a file.

use std::path::{Path, PathBuf};

use protocol::properties_text::Entry;
use serde_json::{Value, json};

use super::{
    finding::{Finding, Severity},
    thresholds::{self, Threshold},
};
use crate::{args::ServerKind, output};

/// All that is to be said about a file.
#[derive(Debug)]
pub(super) struct Report {
    file: PathBuf,
    kind: ServerKind,
    /// Number of its lines that set a key.
    pub(super) keys: usize,
    /// What was found.
    pub(super) findings: Vec<Finding>,
    /// What an acknowledged message has met; empty for a name server.
    pub(super) durability: String,
    /// The limits that hold.
    pub(super) thresholds: Vec<Threshold>,
}

impl Report {
    /// A report with these findings.
    pub(super) fn of(file: &Path, kind: ServerKind, findings: Vec<Finding>) -> Self {
        Self {
            file: file.to_owned(),
            kind,
            keys: 0,
            findings,
            durability: String::new(),
            thresholds: Vec::new(),
        }
    }

    /// Number of findings of a severity.
    pub(super) fn count(&self, severity: Severity) -> usize {
        self.findings.iter().filter(|finding| finding.severity == severity).count()
    }

    /// Gives findings about a key the line of that key, and sorts them.
    pub(super) fn place(&mut self, entries: &[Entry]) {
        for finding in &mut self.findings {
            finding.line = finding.line.or_else(|| thresholds::line_of(entries, &finding.key));
        }
        // Without a line comes last among those of its severity.
        self.findings.sort_by_key(|one| (one.severity, one.line.unwrap_or(usize::MAX)));
    }

    /// Prints it.
    pub(super) fn print(&self, as_json: bool) -> anyhow::Result<()> {
        if as_json {
            return Ok(output::line(&self.json().to_string())?);
        }
        self.print_findings()?;
        if !self.thresholds.is_empty() {
            let mut table = output::table(&["threshold", "value", "from", "meaning"]);
            for one in &self.thresholds {
                table.add_row([one.key, &one.value, &one.from(), &one.meaning]);
            }
            output::line(&format!("\n{}", table.trim_fmt()))?;
        }
        Ok(())
    }

    /// Prints it for people, without the limits.
    pub(super) fn print_findings(&self) -> anyhow::Result<()> {
        let server = match self.kind {
            ServerKind::Broker => "broker",
            ServerKind::Namesrv => "name server",
        };
        let (errors, warnings) = (self.count(Severity::Error), self.count(Severity::Warning));
        output::line(&format!(
            "{}: configuration of a {server}, {} keys, {errors} errors, {warnings} warnings",
            self.file.display(),
            self.keys
        ))?;
        print_table(&self.findings)?;
        if !self.durability.is_empty() {
            output::line(&format!("\nDurability: {}", self.durability))?;
        }
        Ok(())
    }

    /// For programs.
    pub(super) fn json(&self) -> Value {
        json!({
            "file": self.file.display().to_string(),
            "server": match self.kind {
                ServerKind::Broker => "broker",
                ServerKind::Namesrv => "namesrv",
            },
            "keys": self.keys,
            "errors": self.count(Severity::Error),
            "warnings": self.count(Severity::Warning),
            "findings": self.findings.iter().map(Finding::json).collect::<Vec<_>>(),
            "durability": self.durability,
            "thresholds": self.thresholds.iter().map(Threshold::json).collect::<Vec<_>>(),
        })
    }
}

/// Prints findings, if there are any.
pub(super) fn print_table(findings: &[Finding]) -> anyhow::Result<()> {
    if findings.is_empty() {
        return Ok(());
    }
    let mut table = output::table(&["severity", "line", "key", "finding"]);
    for one in findings {
        let line = one.line.map_or_else(|| "-".to_owned(), |line| line.to_string());
        let key = if one.key.is_empty() { "-" } else { &one.key };
        let row = [one.severity.name(), &line, key, &one.text];
        table.add_row(row.map(output::printable));
    }
    Ok(output::line(&format!("\n{}", table.trim_fmt()))?)
}
