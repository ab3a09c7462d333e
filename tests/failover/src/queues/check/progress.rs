//! Offsets of groups: B-7.

use std::collections::BTreeMap;

use super::{Findings, Rule};
use crate::queues::{Commit, History, Progress, Queue};

pub(super) fn check(history: &History, findings: &mut Findings) {
    let mut commits: BTreeMap<(&str, &Queue), Vec<&Commit>> = BTreeMap::new();
    for commit in &history.commits {
        commits.entry((&commit.group, &commit.queue)).or_default().push(commit);
    }
    for told in &history.progress {
        let of_it = commits.get(&(told.group.as_str(), &told.queue));
        one(told, of_it.map_or(&[], Vec::as_slice), findings);
    }
}

fn one(told: &Progress, commits: &[&Commit], findings: &mut Findings) {
    let Progress { by, group, queue, span, value } = told;
    let text = || {
        let value = value.map_or_else(|| "none".to_owned(), |value| value.to_string());
        format!("{by} was told at {span} that {group} is at {value} in {queue}")
    };
    if let Some((least, commit)) = least(told, commits)
        && value.is_none_or(|value| value < least)
    {
        let when = commit.span;
        findings.add(Rule::Progress, || format!("{}; {least} was acknowledged at {when}", text()));
    }
    let begun = |commit: &&&Commit| commit.span.from <= span.to;
    if let Some(value) = value
        && !commits.iter().filter(begun).any(|commit| commit.value == *value)
    {
        findings.add(Rule::Progress, || format!("{}, which nobody had committed", text()));
    }
}

/// The offset that a group has at least, and by which commit.
fn least<'a>(told: &Progress, commits: &[&'a Commit]) -> Option<(i64, &'a Commit)> {
    let before = |commit: &&&Commit| commit.acknowledged && commit.span.to < told.span.from;
    let reset = commits.iter().filter(|commit| commit.reset);
    let last = reset.clone().filter(before).max_by_key(|commit| commit.span.from);
    // What was committed before the last reset does not count, nor while it was done.
    let since = last.map_or(0, |commit| commit.span.from);
    let counted = commits.iter().filter(before).filter(|commit| commit.span.from >= since);
    let highest = counted.filter(|commit| {
        let done = last.is_none_or(|last| commit.span.from > last.span.to);
        done || last.is_some_and(|last| std::ptr::eq(*last, **commit))
    });
    let highest = highest.max_by_key(|commit| commit.value).map(|it| (it.value, *it))?;
    // A reset that may have been done since.
    let open = reset
        .filter(|commit| commit.span.from <= told.span.to && commit.span.from > since)
        .min_by_key(|commit| commit.value);
    match open {
        Some(open) if open.value < highest.0 => Some((open.value, open)),
        _ => Some(highest),
    }
}
