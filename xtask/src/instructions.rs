//! What a message costs in instructions, counted by callgrind, which a busy machine does not change.
//!
//! `broker/examples/instructions.rs` is run at two lengths; start and stop cost the same in both, so
//! that the difference is that of the messages. Limits are those of the development profile.

use std::{path::Path, process::Command};

use anyhow::{Context, Result, bail, ensure};

/// What was recorded, in instructions a message: a mode of the example, and the mode that it begins
/// with, which is taken off.
const RECORDED: &[(&str, Option<&str>, u64)] =
    &[("send", None, 99_100), ("pull", Some("send"), 4_200), ("client", None, 126_300)];

/// How far above the record a run may be, in percent. Threads make the figures differ by a few.
const MARGIN: u64 = 10;

/// What a mode may be above that, in percent of the mode that it begins with: the difference of two
/// runs has the noise of both.
const NOISE: u64 = 1;

/// Messages of the short and of the long run.
const LENGTHS: (u64, u64) = (1_000, 3_000);

/// Counts every mode and fails if one is above its limit.
pub(crate) fn run(root: &Path) -> Result<()> {
    if !is_there() {
        if std::env::var("CI").as_deref() == Ok("true") {
            bail!("valgrind is missing, and CI=true: .ci/run installs it");
        }
        println!("skipped: valgrind is missing");
        return Ok(());
    }
    // With all members, as the tests are built: then nothing is built a second time.
    crate::cargo(root, &["build", "--quiet", "--workspace", "--example", "instructions"])?;
    let program = std::env::current_exe().context("the path of xtask")?;
    let program = program.with_file_name("examples").join("instructions");
    let mut counted: Vec<(&str, u64)> = Vec::new();
    let mut above = Vec::new();
    println!("{:<8} {:>12} {:>12}  instructions a message", "mode", "counted", "recorded");
    for (mode, begins_with, recorded) in RECORDED {
        let whole = per_message(&program, mode)?;
        let before = counted.iter().find(|(name, _)| Some(*name) == *begins_with);
        let before = before.map_or(0, |(_, count)| *count);
        let own = whole.saturating_sub(before);
        counted.push((mode, whole));
        println!("{mode:<8} {own:>12} {recorded:>12}");
        if is_above(own, *recorded, before) {
            above.push(*mode);
        }
    }
    ensure!(
        above.is_empty(),
        "{} cost more than {MARGIN} % above the record: find out why with `valgrind \
         --tool=callgrind {} {} 3000` and callgrind_annotate; if the cost is wanted, put the counted \
         figures into RECORDED of xtask/src/instructions.rs and say why in the commit",
        above.join(", "),
        program.display(),
        above.join("|")
    );
    Ok(())
}

fn is_above(counted: u64, recorded: u64, begins_with: u64) -> bool {
    counted * 100 > recorded * (100 + MARGIN) + begins_with * NOISE
}

fn is_there() -> bool {
    Command::new("valgrind").arg("--version").output().is_ok_and(|output| output.status.success())
}

/// Instructions of one message of a mode.
fn per_message(program: &Path, mode: &str) -> Result<u64> {
    let (short, long) = LENGTHS;
    let (few, many) = (count(program, mode, short)?, count(program, mode, long)?);
    Ok(many.saturating_sub(few) / (long - short))
}

/// Instructions of one run.
fn count(program: &Path, mode: &str, messages: u64) -> Result<u64> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(program)
        .args([mode, &messages.to_string()])
        .output()
        .context("starting valgrind")?;
    let told = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{mode} ended with {}: {told}", output.status);
    collected(&told).with_context(|| format!("valgrind did not tell a count: {told}"))
}

/// The count in what callgrind tells at its end: `==1== Collected : 123`.
fn collected(told: &str) -> Option<u64> {
    let line = told.lines().find_map(|line| line.split_once("Collected : "))?.1;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_is_read_from_what_callgrind_tells() {
        assert_eq!(collected("==7== \n==7== Collected : 462629997\n"), Some(462_629_997));
        assert_eq!(collected("==7== Events"), None);
    }

    #[test]
    fn more_than_the_margin_is_above() {
        assert!(!is_above(110, 100, 0));
        assert!(is_above(111, 100, 0));
        assert!(!is_above(1, 100, 0));
        assert!(!is_above(120, 100, 1000));
        assert!(is_above(121, 100, 1000));
    }

    #[test]
    fn a_mode_begins_with_one_that_is_counted_before() {
        for (at, (_, begins_with, recorded)) in RECORDED.iter().enumerate() {
            assert!(*recorded > 0);
            let before: Vec<_> = RECORDED.iter().take(at).map(|(mode, _, _)| *mode).collect();
            assert!(begins_with.is_none_or(|mode| before.contains(&mode)));
        }
    }
}
