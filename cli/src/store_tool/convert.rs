//! `ledgermq store export` and `ledgermq store import`.

use std::path::Path;

use broker::{Conversion, NativeOffline};
use serde_json::{Value, json};

use super::bar;
use crate::{
    args::{ConvertArgs, ImportArgs},
    config,
    data_lock::DataLock,
    output::{self, Shown},
};

/// From DLedger to the form of a Java broker without it.
pub(super) fn export(args: &ConvertArgs) -> anyhow::Result<()> {
    let offline = super::open(&args.folder)?;
    let _lock = DataLock::share(offline.root())?;
    let done = with_bar(|progress| offline.export(&args.to, progress))?;
    Ok(show(&done, &args.to).print(args.folder.json)?)
}

/// From the form of a Java broker without DLedger to DLedger.
pub(super) fn import(args: &ImportArgs) -> anyhow::Result<()> {
    let ConvertArgs { folder, to } = &args.convert;
    let offline = NativeOffline::new(config::store(folder)?, args.commitlog.clone());
    let _lock = DataLock::share(offline.root())?;
    let done = with_bar(|progress| offline.import(to, progress))?;
    Ok(show(&done, to).print(folder.json)?)
}

fn with_bar<T, E>(run: impl FnOnce(&mut broker::Progress<'_>) -> Result<T, E>) -> Result<T, E> {
    let bar = bar("copying");
    let done = run(&mut |done, all| {
        bar.set_length(all);
        bar.set_position(done);
    });
    bar.finish_and_clear();
    done
}

fn show(done: &Conversion, to: &Path) -> Shown {
    let mut table = output::table(&["what", "count"]);
    for (what, count) in rows(done, to) {
        table.add_row([what, count]);
    }
    Shown { table, json: as_json(done, to) }
}

fn rows(done: &Conversion, to: &Path) -> Vec<(String, String)> {
    let (begin, end) = done.range;
    let mut rows = vec![
        ("data folder".to_owned(), to.display().to_string()),
        ("messages".to_owned(), format!("{}, {} of them in queues", done.messages, done.queued)),
        ("queues".to_owned(), done.queues.to_string()),
        ("log".to_owned(), format!("positions {begin} to {end}")),
        ("start it with".to_owned(), format!("mappedFileSizeCommitLog={}", done.file_size)),
        ("tables".to_owned(), done.tables.join(", ")),
    ];
    let left_out = [
        ("left out: records of the journal", done.journal),
        ("left out: messages of deleted topics", done.deleted),
        ("left out: entries that are no message", done.unreadable),
    ];
    for (what, count) in left_out.into_iter().filter(|(_, count)| *count > 0) {
        rows.push((what.to_owned(), count.to_string()));
    }
    rows
}

fn as_json(done: &Conversion, to: &Path) -> Value {
    json!({
        "folder": to.display().to_string(),
        "messages": done.messages,
        "queued": done.queued,
        "queues": done.queues,
        "begin": done.range.0,
        "end": done.range.1,
        "mappedFileSizeCommitLog": done.file_size,
        "journal": done.journal,
        "deleted": done.deleted,
        "unreadable": done.unreadable,
        "tables": done.tables,
    })
}
