//! Our broker alone under many timers and many light queues: `cargo xtask bench --compare alone`.
#![allow(clippy::disallowed_methods, reason = "this is no server: it starts processes")]
#![expect(clippy::print_stdout, reason = "a command line tool reports on its standard output")]

use std::{collections::BTreeMap, fs, io::Write, path::PathBuf};

use anyhow::{Context, Result, ensure};
use clap::Parser;
use interop::{
    comparison::{
        kinds::{self, Sizes},
        loads::DURABILITIES,
        machine,
        record::{Record, Records},
        replace_section,
        session::{Session, Settings},
    },
    folder,
    node::Product,
};

/// Measures our broker under a million timers and 20,000 light queues.
///
/// Figures go to docs/kinds.jsonl as they are measured, and the section of docs/performance.md is made
/// of that file at the end.
#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask bench --compare alone")]
struct Arguments {
    /// Only this part: timers, light; may be repeated.
    #[arg(long = "only", value_name = "PART")]
    only: Vec<String>,
    /// Only with this flushDiskType.
    #[arg(long, value_name = "TYPE")]
    flush: Option<String>,
    /// A tenth of everything.
    #[arg(long)]
    quick: bool,
    /// Measure nothing: only make the section of the file.
    #[arg(long)]
    page: bool,
    /// Print what is measured and write no file.
    #[arg(long)]
    dry_run: bool,
}

/// A part, and how it is measured.
type Part = (&'static str, fn(&mut Session, Sizes) -> Result<Vec<Record>>);

const PARTS: [Part; 2] = [(kinds::TIMERS, kinds::timers), (kinds::LIGHT, kinds::light)];

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let root = folder::sources().ancestors().nth(2);
    let docs = root.context("tests/interop lies two levels deep")?.join("docs");
    let mut records = Records::open(&docs.join("kinds.jsonl"))?;
    if !arguments.page {
        measure(&arguments, &mut records)?;
    }
    if arguments.dry_run || records.all().is_empty() {
        return Ok(());
    }
    let path = docs.join("performance.md");
    let document = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let document = replace_section(&document, kinds::HEADING, &kinds::section(records.all()));
    let mut file = fs::File::create(&path).with_context(|| path.display().to_string())?;
    file.write_all(document.as_bytes()).with_context(|| path.display().to_string())?;
    println!("wrote {}", path.display());
    Ok(())
}

fn measure(arguments: &Arguments, records: &mut Records) -> Result<()> {
    for part in &arguments.only {
        ensure!(PARTS.iter().any(|(name, _)| name == part), "{part} is no part: timers, light");
    }
    let target = folder::target()?;
    let default = target.join("release").join("ledgermq");
    let binary = std::env::var_os("LEDGERMQ_BIN").map_or(default, PathBuf::from);
    let settings = Settings { binary, seconds: 0, warmup: 0, work: target.join("kinds") };
    let part = if arguments.quick { 10 } else { 1 };
    let sizes = Sizes {
        waiting: 1_000_000 / part,
        due: 200_000 / part,
        rate: 5_000,
        queues: 20_000 / part,
    };
    let only = &arguments.only;
    for (name, measure) in
        PARTS.into_iter().filter(|(name, _)| only.is_empty() || only.iter().any(|one| one == name))
    {
        let mut found = vec![about(name)];
        for durability in DURABILITIES {
            if arguments.flush.as_deref().is_some_and(|only| only != durability) {
                continue;
            }
            let keys = (durability, &["enableLmq", "enableMultiDispatch"][..]);
            let mut session = Session::start_with(&settings, Product::Ours, keys, 0)?;
            let measured = measure(&mut session, sizes)?;
            session.end()?;
            println!("{measured:?}");
            found.extend(measured);
        }
        if arguments.dry_run {
            continue;
        }
        let others: Vec<Record> = records
            .all()
            .iter()
            .filter(|record| record.part == kinds::ABOUT && !record.load.starts_with(name))
            .cloned()
            .collect();
        records.forget(kinds::ABOUT)?;
        records.forget(name)?;
        records.add(others)?;
        records.add(found)?;
    }
    Ok(())
}

fn about(part: &str) -> Record {
    Record {
        part: kinds::ABOUT.to_owned(),
        load: format!("{part}: {}.", machine::about()),
        durability: String::new(),
        product: String::new(),
        round: 1,
        foreign: 0.0,
        figures: BTreeMap::new(),
    }
}
