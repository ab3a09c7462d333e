//! Three members of ours and three of Java's DLedger library in turn on this machine, under the same
//! appends: `cargo xtask bench --compare dledger`.
#![allow(clippy::disallowed_methods, reason = "this is no server: it starts processes")]
#![expect(clippy::print_stdout, reason = "a command line tool reports on its standard output")]

use std::{collections::BTreeMap, fs, io::Write, path::Path, path::PathBuf};

use anyhow::{Context, Result};
use clap::Parser;
use interop::{
    comparison::{
        dledger, machine, page,
        record::{Record, Records},
        replace_section,
        session::Settings,
    },
    folder,
};

/// Measures a group of ours and one of Java's DLedger library in turn on this machine.
///
/// Figures go to docs/dledger-performance.jsonl as they are measured, and the section of
/// docs/performance.md is made of that file at the end.
#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask bench --compare dledger")]
struct Arguments {
    /// Rounds; all groups start anew in each.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Measured seconds of each load.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=600))]
    seconds: u32,
    /// One round, 2 s each.
    #[arg(long)]
    quick: bool,
    /// Keep what the file has already and measure the rest.
    #[arg(long)]
    resume: bool,
    /// Measure nothing: only make the section of the file.
    #[arg(long)]
    page: bool,
    /// Folder of the file of figures and of performance.md.
    #[arg(long, value_name = "DIR")]
    docs: Option<PathBuf>,
    /// Folder for the files of the groups, which is emptied. Java's library takes no appends where
    /// more than 95 % of its disk are used.
    #[arg(long, value_name = "DIR")]
    work: Option<PathBuf>,
}

fn main() -> Result<()> {
    let mut arguments = Arguments::parse();
    if arguments.quick {
        (arguments.rounds, arguments.seconds) = (1, 2);
    }
    let docs = match &arguments.docs {
        Some(docs) => docs.clone(),
        None => {
            let root = folder::sources().ancestors().nth(2);
            root.context("tests/interop lies two levels deep")?.join("docs")
        }
    };
    let mut records = Records::open(&docs.join("dledger-performance.jsonl"))?;
    let measured = if arguments.page { Ok(()) } else { measure(&arguments, &mut records) };
    // What was measured before a failure is shown as well; without a record the page stays.
    if !records.all().is_empty() {
        let path = docs.join("performance.md");
        let document = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let document = replace_section(&document, dledger::HEADING, &dledger::section(&records));
        write(&path, &document)?;
        println!("wrote {}", path.display());
    }
    measured
}

fn measure(arguments: &Arguments, records: &mut Records) -> Result<()> {
    dledger::prepare()?;
    let target = folder::target()?;
    let default = target.join("release").join("ledgermq");
    let settings = Settings {
        binary: std::env::var_os("LEDGERMQ_BIN").map_or(default, PathBuf::from),
        seconds: arguments.seconds,
        // Java compiles while it runs.
        warmup: 5,
        work: arguments.work.clone().unwrap_or_else(|| target.join("compare-dledger")),
    };
    if !arguments.resume || records.all().is_empty() {
        records.forget(dledger::PART)?;
        records.forget(page::ABOUT)?;
        let text = format!(
            "{}; {} rounds, {} s of warm-up and {} s measured a load.",
            machine::about(),
            arguments.rounds,
            settings.warmup,
            settings.seconds
        );
        records.add(vec![about(text)])?;
    }
    for round in 1..=arguments.rounds {
        for member in dledger::turn(round) {
            let (product, durability) = member.names();
            if records.has(dledger::PART, durability, product, round) {
                continue;
            }
            let found = dledger::measure(&settings, member, round)?;
            for record in &found {
                println!("{record:?}");
            }
            records.add(found)?;
        }
    }
    Ok(())
}

fn about(load: String) -> Record {
    Record {
        part: page::ABOUT.to_owned(),
        load,
        durability: String::new(),
        product: String::new(),
        round: 0,
        foreign: 0.0,
        figures: BTreeMap::new(),
    }
}

fn write(path: &Path, text: &str) -> Result<()> {
    let mut file = fs::File::create(path).with_context(|| path.display().to_string())?;
    file.write_all(text.as_bytes()).with_context(|| path.display().to_string())
}
