//! What CI runs within its budget.
#![expect(
    clippy::print_stdout,
    reason = "reports on standard output, as the command that calls it"
)]

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use crate::{
    batch::{self, Kind, Order, Report},
    coverage::Coverage,
    plan::Plan,
    shrink,
    trace::Detail,
};

/// Seeds that run twice.
const TWICE: u64 = 10;

/// The seeds of one kind.
#[derive(Debug, Clone, Copy)]
struct Part {
    kind: Kind,
    /// How many run, if there is time.
    seeds: u64,
    /// With fewer the run proves too little, and fails.
    least: u64,
    /// Of the time that is left, in relation to the shares of the kinds that come after it.
    share: u32,
}

const fn part(kind: Kind, seeds: u64, least: u64, share: u32) -> Part {
    Part { kind, seeds, least, share }
}

/// Seeds of CI: always the same, from 0 on, so that a rare fault that is found by chance does not stop
/// a change that has nothing to do with it. New seeds are the matter of `cargo xtask sim`; when those
/// below are raised, all of them must have run before.
const PARTS: [Part; 5] = [
    part(Kind::Bare, 4000, 400, 35),
    part(Kind::Engine, 1000, 100, 35),
    part(Kind::Messages, 150, 15, 10),
    part(Kind::Journal, 60, 6, 10),
    part(Kind::Java, 300, 30, 10),
];

/// What the first of `parts` may take of the time that is left: what it does not need is left to the
/// others.
fn share(left: Duration, parts: &[Part]) -> Duration {
    let all: u32 = parts.iter().map(|part| part.share).sum();
    parts.first().map_or(left, |part| left * part.share / all.max(1))
}

/// Runs regressions, some seeds twice, then the seeds of CI, as many as fit into `seconds`.
///
/// # Errors
/// What failed, in a few lines.
pub fn run(seconds: u64, threads: usize) -> Result<(), String> {
    let begun = Instant::now();
    let mut failed = Vec::new();
    let regressions = regressions()?;
    for (name, kind, plan) in &regressions {
        if let Some(violation) = batch::run(*kind, plan, Detail::Hash).violation {
            failed.push(format!("regression {name}: {} {plan}: {violation}", kind.name()));
        }
    }
    println!("{} regressions", regressions.len());
    failed.extend(twice());
    let mut coverage = Coverage::default();
    for (nth, Part { kind, seeds, least, .. }) in PARTS.into_iter().enumerate() {
        let left = Duration::from_secs(seconds).saturating_sub(begun.elapsed());
        let until = Some(Instant::now() + share(left, PARTS.get(nth..).unwrap_or_default()));
        let report = batch::run_all(Order { kind, from: 0, seeds, until, threads });
        show(kind, &report);
        if report.seeds < least {
            let (name, ran) = (kind.name(), report.seeds);
            failed.push(format!("{ran} seeds of {name} in {seconds} s, {least} at least must run"));
        }
        failed.extend(report.failures.iter().map(|(plan, violation)| {
            let (smallest, violation) = shrink::shrink(kind, plan, violation);
            format!("{} {smallest}: {violation}", kind.name())
        }));
        if !failed.is_empty() {
            return Err(failed.join("\n"));
        }
        coverage.add(&report.coverage);
    }
    let missing = coverage.missing();
    if !missing.is_empty() {
        failed.push(format!("never happened: {}", missing.join(", ")));
    }
    if failed.is_empty() { Ok(()) } else { Err(failed.join("\n")) }
}

/// Seeds that run twice and must do the same.
fn twice() -> Vec<String> {
    let mut failed = Vec::new();
    for kind in Kind::ALL {
        for seed in 0..TWICE {
            let plan = Plan::draw(seed);
            let runs = [(), ()].map(|()| batch::run(kind, &plan, Detail::Full).trace_hash);
            if runs.first() != runs.last() {
                failed.push(format!("{} {plan} does not repeat: {runs:x?}", kind.name()));
            }
        }
    }
    println!("{TWICE} seeds of each kind twice");
    failed
}

/// Prints a report.
pub fn show(kind: Kind, report: &Report) {
    let hours = Duration::from_millis(report.coverage.virtual_millis).as_secs_f64() / 3600.0;
    println!(
        "{}: {} seeds in {:.1} s, {:.1} h of virtual time, {} happenings, {} failed",
        kind.name(),
        report.seeds,
        report.took.as_secs_f64(),
        hours,
        report.coverage.happenings,
        report.failures.len()
    );
    println!("{}", report.coverage.report());
    for (plan, violation) in &report.failures {
        println!("FAILED {} {plan}: {violation}", kind.name());
    }
}

/// The plans of `regressions/*.seed`: each line one, the kind in front.
///
/// # Errors
/// Which file cannot be read.
pub fn regressions() -> Result<Vec<(String, Kind, Plan)>, String> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("regressions");
    let listed = std::fs::read_dir(&directory)
        .map_err(|error| format!("{}: {error}", directory.display()))?;
    let mut paths: Vec<PathBuf> = listed.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "seed"));
    paths.sort();
    let mut plans = Vec::new();
    for path in paths {
        let shown = path.display().to_string();
        let text = std::fs::read_to_string(&path).map_err(|error| format!("{shown}: {error}"))?;
        for line in text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
            let (kind, plan) = line.split_once(' ').ok_or(format!("{shown}: no kind in {line}"))?;
            let kind = Kind::ALL.into_iter().find(|known| known.name() == kind);
            let kind = kind.ok_or(format!("{shown}: {line} begins with no kind"))?;
            let plan = plan.parse().map_err(|error| format!("{shown}: {error}"))?;
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            plans.push((name, kind, plan));
        }
    }
    Ok(plans)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A kind that takes all that it may leaves each of the others its share.
    #[test]
    fn every_kind_has_its_share_of_the_time() {
        let mut left = Duration::from_secs(100);
        let mut parts: &[Part] = &PARTS;
        while let [part, rest @ ..] = parts {
            let share = share(left, parts);
            assert_eq!(share, Duration::from_secs(part.share.into()), "{part:?}");
            left -= share;
            parts = rest;
        }
        assert_eq!(share(Duration::from_secs(7), &PARTS[4..]), Duration::from_secs(7));
        let kinds = PARTS.map(|part| part.kind);
        assert!(Kind::ALL.iter().all(|kind| kinds.contains(kind)));
    }

    #[test]
    fn every_regression_is_a_plan() {
        regressions().unwrap();
    }
}
