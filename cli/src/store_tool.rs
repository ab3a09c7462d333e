//! `ledgermq store`: looking through a data folder, mending it, and copying it in another form.

mod convert;
mod repair;

use std::path::Path;

use anyhow::bail;
use broker::{LostTopic, Offline, StoreSurvey};
use indicatif::{ProgressBar, ProgressStyle};
use segment::Finding;
use serde_json::{Value, json};

use crate::{
    args::{FolderArgs, StoreArgs, StoreCommand},
    config,
    output::{self, Shown},
};

/// Runs a command.
pub(crate) fn run(args: &StoreArgs) -> anyhow::Result<()> {
    match &args.command {
        StoreCommand::Verify(args) => verify(args),
        StoreCommand::Repair(args) => repair::run(args),
        StoreCommand::Export(args) => convert::export(args),
        StoreCommand::Import(args) => convert::import(args),
    }
}

fn verify(args: &FolderArgs) -> anyhow::Result<()> {
    let offline = open(args)?;
    let survey = look(&offline)?;
    show(&survey, &offline).print(args.json)?;
    match survey.damages() {
        0 => Ok(()),
        count => bail!("{}: {count} damages", args.folder.display()),
    }
}

fn open(args: &FolderArgs) -> anyhow::Result<Offline> {
    Ok(Offline::find(config::store(args)?)?)
}

/// Reads everything, with a bar on standard error.
fn look(offline: &Offline) -> anyhow::Result<StoreSurvey> {
    let bar = bar("reading");
    let survey = offline.verify(&mut |done, all| {
        bar.set_length(all);
        bar.set_position(done);
    });
    bar.finish_and_clear();
    Ok(survey?)
}

fn bar(what: &'static str) -> ProgressBar {
    let bar = ProgressBar::new(0).with_message(what);
    let form = "{msg} {wide_bar} {bytes} of {total_bytes}, {eta}";
    match ProgressStyle::with_template(form) {
        Ok(style) => bar.with_style(style),
        Err(_unknown_form) => bar,
    }
}

/// The table of what was found, with what was read below it.
fn show(survey: &StoreSurvey, offline: &Offline) -> Shown {
    let mut table = output::table(&["place", "position", "what", "next step"]);
    for finding in survey.findings() {
        table.add_row(row(finding, offline.root()));
    }
    for (what, count) in counts(survey) {
        table.add_row([what.to_owned(), String::new(), count, String::new()]);
    }
    Shown { table, json: as_json(survey, offline.root()) }
}

fn row(finding: &Finding, root: &Path) -> [String; 4] {
    [
        within(&finding.place, root),
        finding.position.map_or_else(|| "-".to_owned(), |position| position.to_string()),
        finding.what.clone(),
        finding.mend.to_string(),
    ]
}

fn within(place: &Path, root: &Path) -> String {
    let inside = place.strip_prefix(root).unwrap_or(place);
    if inside.as_os_str().is_empty() { ".".to_owned() } else { inside.display().to_string() }
}

fn counts(survey: &StoreSurvey) -> Vec<(&'static str, String)> {
    let log = &survey.log;
    let indexes = match log.indexes {
        Some((first, last)) => format!("{} entries, {first} to {last}", log.entries),
        None => "no entry".to_owned(),
    };
    let derived = &survey.derived;
    vec![
        ("read: log", format!("{indexes}, positions {} to {}", log.begin, log.end)),
        ("read: queues", format!("{} with {} units", derived.queues, derived.units)),
        ("read: index", format!("{} files with {} keys", derived.index_files, derived.keys)),
        ("damages", survey.damages().to_string()),
    ]
}

fn as_json(survey: &StoreSurvey, root: &Path) -> Value {
    let findings: Vec<Value> = survey
        .findings()
        .map(|finding| {
            json!({
                "place": within(&finding.place, root),
                "position": finding.position,
                "what": finding.what,
                "harmless": finding.mend.is_harmless(),
                "next": finding.mend.to_string(),
            })
        })
        .collect();
    let log = &survey.log;
    json!({
        "damages": survey.damages(),
        "findings": findings,
        "entries": log.entries,
        "begin": log.begin,
        "end": log.end,
        "queues": survey.derived.queues,
        "units": survey.derived.units,
        "indexFiles": survey.derived.index_files,
        "keys": survey.derived.keys,
        "behindDamage": lost_json(&survey.lost),
    })
}

fn lost_json(lost: &[LostTopic]) -> Vec<Value> {
    let one = |lost: &LostTopic| {
        json!({
            "topic": lost.topic, "messages": lost.messages,
            "firstStored": lost.stored.0, "lastStored": lost.stored.1,
        })
    };
    lost.iter().map(one).collect()
}
