//! `ledgermq store repair`.

use std::{
    fmt, fs,
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, bail};
use broker::{Offline, StoreSurvey};
use segment::{Finding, Mend, RealVfs, Vfs};
use serde_json::json;

use super::{bar, lost_json, show, within};
use crate::{
    args::RepairArgs,
    data_lock::DataLock,
    output::{self, Shown},
};

/// One step of a repair.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    /// Goes to the folder beside.
    MoveAside(PathBuf),
    /// A copy goes to the folder beside.
    Copy(PathBuf),
    /// The log ends here from now on.
    CutLog(u64),
    /// Log and store are opened and closed: a torn tail is cut, what is missing is made again.
    Rebuild,
}

/// Looks, plans, does, and looks again.
pub(super) fn run(args: &RepairArgs) -> anyhow::Result<()> {
    let folder = &args.folder;
    let offline = super::open(folder)?;
    // Held until the end: no broker may work on the folder meanwhile.
    let _lock = DataLock::take(offline.root(), "DIR")?;
    let survey = super::look(&offline)?;
    let steps = plan(&survey, &offline, args.accept_loss)?;
    let loss = args.accept_loss && survey.log.rot.is_some();
    shown(&survey, &offline, (&steps, loss)).print(folder.json)?;
    if args.dry_run {
        return Ok(());
    }
    let aside = offline.root().join(format!("repaired-{}", seconds()));
    for step in &steps {
        perform(step, &offline, &aside).with_context(|| step.text(offline.root()))?;
    }
    let after = super::look(&offline)?;
    show(&after, &offline).print(folder.json)?;
    if aside.exists() {
        tracing::warn!(folder = %aside.display(), "what was moved aside is there; remove it once it is not needed");
    }
    match after.damages() {
        0 => Ok(()),
        count => bail!("{}: {count} damages are left", folder.folder.display()),
    }
}

fn plan(survey: &StoreSurvey, offline: &Offline, accept_loss: bool) -> anyhow::Result<Vec<Step>> {
    let mut steps = Vec::new();
    let add = |steps: &mut Vec<Step>, step: Step| {
        if !steps.contains(&step) {
            steps.push(step);
        }
    };
    for finding in survey.findings() {
        match finding.mend {
            // With damage in the log its index tells what the damaged entries were.
            Mend::Derive if survey.log.rot.is_some() && !accept_loss => {}
            Mend::Derive | Mend::MoveAside => {
                add(&mut steps, Step::MoveAside(finding.place.clone()));
            }
            Mend::Lost if accept_loss && is_table(finding, offline) => {
                for path in [finding.place.clone(), backup_of(&finding.place)] {
                    if path.exists() {
                        add(&mut steps, Step::MoveAside(path));
                    }
                }
            }
            Mend::Lost | Mend::Start => {}
        }
    }
    match &survey.log.rot {
        Some(behind) if accept_loss => {
            for step in cut(offline, behind.position)? {
                add(&mut steps, step);
            }
            steps.push(Step::Rebuild);
        }
        // It could not be opened.
        Some(_) => {}
        None => steps.push(Step::Rebuild),
    }
    Ok(steps)
}

/// Keeps what is cut off: whole files are moved, of the one that holds the cut a copy stays.
fn cut(offline: &Offline, position: u64) -> anyhow::Result<Vec<Step>> {
    let data = offline.log().join("data");
    let size = offline.data_file_size();
    let mut steps = Vec::new();
    for name in RealVfs.list(&data).with_context(|| data.display().to_string())? {
        let Ok(base) = name.parse::<u64>() else { continue };
        let path = data.join(&name);
        let length = fs::metadata(&path).with_context(|| path.display().to_string())?.len();
        if base >= position || length != size {
            steps.push(Step::MoveAside(path));
        } else if base + size > position {
            steps.push(Step::Copy(path));
        }
    }
    steps.push(Step::CutLog(position));
    Ok(steps)
}

fn is_table(finding: &Finding, offline: &Offline) -> bool {
    finding.place.parent() == Some(&offline.root().join("config"))
}

fn backup_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".bak");
    name.into()
}

fn perform(step: &Step, offline: &Offline, aside: &Path) -> anyhow::Result<()> {
    match step {
        Step::MoveAside(path) => {
            let to = destination(path, offline, aside)?;
            RealVfs.rename(path, &to)?;
            for folder in [path.parent(), to.parent()].into_iter().flatten() {
                RealVfs.sync_directory(folder)?;
            }
        }
        Step::Copy(path) => {
            let to = destination(path, offline, aside)?;
            fs::copy(path, &to)?;
            fs::File::open(&to)?.sync_all()?;
        }
        Step::CutLog(position) => offline.give_up_behind(*position)?,
        Step::Rebuild => {
            let bar = bar("deriving");
            let rebuilt = offline.rebuild(&mut |done, all| {
                bar.set_length(all);
                bar.set_position(done);
            });
            bar.finish_and_clear();
            rebuilt?;
        }
    }
    Ok(())
}

fn destination(path: &Path, offline: &Offline, aside: &Path) -> anyhow::Result<PathBuf> {
    let to = aside.join(path.strip_prefix(offline.root()).unwrap_or(path));
    let folder = to.parent().context("a file without a folder")?;
    RealVfs.create_directory(folder).with_context(|| folder.display().to_string())?;
    Ok(to)
}

impl Step {
    fn text(&self, root: &Path) -> String {
        match self {
            Self::MoveAside(path) => format!("move {} aside", within(path, root)),
            Self::Copy(path) => format!("keep a copy of {}", within(path, root)),
            Self::CutLog(position) => format!("end the log at position {position}"),
            Self::Rebuild => {
                "open and close log and store: cut a torn tail, make again what is missing"
                    .to_owned()
            }
        }
    }
}

/// What was found, what is done about it, and what is lost by that.
fn shown(survey: &StoreSurvey, offline: &Offline, (steps, loss): (&[Step], bool)) -> Shown {
    let Shown { mut table, json: mut facts } = show(survey, offline);
    let mut add = |what: &str, text: &dyn fmt::Display| {
        table.add_row([what.to_owned(), String::new(), text.to_string(), String::new()]);
    };
    for step in steps {
        add("step", &step.text(offline.root()));
    }
    if let Some(behind) = survey.log.rot {
        let name = if loss { "lost" } else { "lost with --accept-loss" };
        let entries = match behind.indexes {
            Some((first, last)) => format!(
                "the damaged entries at position {} and {} sound ones behind them, entries {first} to {last}",
                behind.position, behind.entries
            ),
            None => format!(
                "what is damaged from position {} on; no sound entry is behind it",
                behind.position
            ),
        };
        add(name, &entries);
        for lost in &survey.lost {
            let (first, last) = (output::time(lost.stored.0), output::time(lost.stored.1));
            let text = format!(
                "{} messages of {}, stored {first} to {last}",
                lost.messages,
                output::printable(&lost.topic)
            );
            add(name, &text);
        }
    }
    let texts: Vec<String> = steps.iter().map(|step| step.text(offline.root())).collect();
    facts["steps"] = json!(texts);
    facts["lost"] = if loss { json!(lost_json(&survey.lost)) } else { json!([]) };
    Shown { table, json: facts }
}

fn seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
