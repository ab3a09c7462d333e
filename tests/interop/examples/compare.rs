//! Apache's broker and ours in turn on this machine, under the same loads:
//! `cargo xtask bench --compare apache`.
#![allow(clippy::disallowed_methods, reason = "this is no server: it starts processes")]
#![expect(clippy::print_stdout, reason = "a command line tool reports on its standard output")]

use std::{
    collections::BTreeMap,
    fs,
    io::Write,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use clap::Parser;
use interop::{
    APACHE,
    comparison::{
        Row, big, idle,
        loads::{self, DURABILITIES, PARTS, Part},
        machine, page, plot,
        record::{Record, Records},
        replace_section, rows,
        session::{self, Session, Settings},
    },
    folder,
    node::Product,
    usage,
};

/// Measures our broker and Apache's in turn on this machine.
///
/// Figures go to docs/performance.jsonl as they are measured, and docs/performance.md and its
/// pictures are made of that file at the end. Without --only the parts core, pop, topics, java and
/// idle are measured.
#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask bench --compare apache")]
struct Arguments {
    /// Only this part: core, pop, topics, java, idle, big; may be repeated.
    #[arg(long = "only", value_name = "PART")]
    only: Vec<String>,
    /// Rounds; both brokers start anew in each.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Measured seconds of each load.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=600))]
    seconds: u32,
    /// Few loads, one round, 2 s each.
    #[arg(long)]
    quick: bool,
    /// Keep the rounds that the file has already and measure the others.
    #[arg(long)]
    resume: bool,
    /// Measure nothing: only make the page of the file.
    #[arg(long)]
    page: bool,
    /// Also the part big: a log of this many GiB, and starts with it.
    #[arg(long, value_name = "GIB", num_args = 0..=1, default_missing_value = "10")]
    big: Option<u32>,
    /// Also the part idle, which a quick run leaves out.
    #[arg(long)]
    idle: bool,
}

fn main() -> Result<()> {
    let mut arguments = Arguments::parse();
    if arguments.quick {
        (arguments.rounds, arguments.seconds) = (1, 2);
    }
    let docs =
        folder::sources().ancestors().nth(2).context("tests/interop lies two levels deep")?;
    let docs = docs.join("docs");
    let records = Records::open(&docs.join("performance.jsonl"))?;
    let target = folder::target()?;
    let default = target.join("release").join("ledgermq");
    let binary = std::env::var_os("LEDGERMQ_BIN").map_or(default, PathBuf::from);
    let settings =
        Settings { binary, seconds: arguments.seconds, warmup: 2, work: target.join("compare") };
    let mut comparison = Comparison { arguments, settings, records };
    let measured = if comparison.arguments.page { Ok(()) } else { comparison.measure() };
    // What was measured before a failure is shown as well; without a record the page stays.
    if !comparison.records.all().is_empty() {
        write_page(&docs, &comparison.records)?;
    }
    measured
}

struct Comparison {
    arguments: Arguments,
    settings: Settings,
    records: Records,
}

impl Comparison {
    fn measure(&mut self) -> Result<()> {
        for part in &self.arguments.only {
            let known = loads::part(part).is_some() || [idle::PART, big::PART].contains(&&**part);
            ensure!(known, "{part} is no part: core, pop, topics, java, idle, big");
        }
        session::prepare()?;
        let wanted: Vec<_> = PARTS.iter().filter(|part| self.wants(part.name, true)).collect();
        for part in wanted {
            self.part(part)?;
        }
        if self.wants(idle::PART, self.arguments.idle || !self.arguments.quick) {
            self.once(idle::PART, QUEUES, |session| idle::measure(session, QUEUES, 1))?;
        }
        if self.wants(big::PART, self.arguments.big.is_some()) {
            let gib = self.arguments.big.unwrap_or(10);
            self.once(big::PART, 0, |session| big::measure(session, gib, 1))?;
        }
        Ok(())
    }

    fn wants(&self, part: &str, otherwise: bool) -> bool {
        let only = &self.arguments.only;
        if only.is_empty() { otherwise } else { only.iter().any(|name| name == part) }
    }

    /// All rounds of a part that is made of loads.
    fn part(&mut self, part: &'static Part) -> Result<()> {
        self.begin(part.name)?;
        for round in 1..=self.arguments.rounds.min(part.rounds) {
            if part.name == "core" {
                self.machine(round)?;
            }
            for (durability, product) in turns(round) {
                if self.records.has(part.name, durability, session::name(product), round) {
                    continue;
                }
                let records = self.loads(part, durability, product, round)?;
                self.records.add(records)?;
            }
        }
        Ok(())
    }

    /// All loads of a part on one broker that starts with an empty store.
    fn loads(
        &self,
        part: &Part,
        durability: &'static str,
        product: Product,
        round: u32,
    ) -> Result<Vec<Record>> {
        let session = Session::start(&self.settings, product, durability, part.topics)?;
        let mut records = Vec::new();
        for load in part.loads.iter().filter(|load| load.quick || !self.arguments.quick) {
            let record = session.measure(part.name, load.name, load.generator, round)?;
            println!("{} {durability} {} {round}: {record:?}", record.product, load.name);
            records.push(record);
        }
        session.end()?;
        Ok(records)
    }

    /// A part that is measured once with each durability.
    fn once(
        &mut self,
        part: &'static str,
        topics: u32,
        measure: impl Fn(&mut Session) -> Result<Vec<Record>>,
    ) -> Result<()> {
        self.begin(part)?;
        for (durability, product) in turns(1) {
            if self.records.has(part, durability, session::name(product), 1) {
                continue;
            }
            let (begun, machine) = (Instant::now(), usage::machine_cpu_seconds()?);
            let mut session = Session::start(&self.settings, product, durability, topics)?;
            let records = measure(&mut session)?;
            session.end()?;
            for record in &records {
                println!("{record:?}");
            }
            let used = usage::machine_cpu_seconds()? - machine;
            println!("{part}: {:.1} s, {used:.1} s of CPU", begun.elapsed().as_secs_f64());
            self.records.add(records)?;
        }
        Ok(())
    }

    /// Forgets what the file has of a part, and notes how it is measured now.
    fn begin(&mut self, part: &str) -> Result<()> {
        let resumed = self.arguments.resume && self.records.of(part).next().is_some();
        if resumed {
            return Ok(());
        }
        self.records.forget(part)?;
        if part == "core" {
            self.records.forget(page::MACHINE)?;
        }
        let text = format!("{part}: {}", self.about());
        let others =
            self.records.all().iter().filter(|one| {
                one.part == page::ABOUT && !one.load.starts_with(&format!("{part}: "))
            });
        let others: Vec<Record> = others.cloned().collect();
        self.records.forget(page::ABOUT)?;
        self.records.add(others)?;
        self.records.add(vec![machine_record(page::ABOUT, &text, 0, BTreeMap::new())])
    }

    fn about(&self) -> String {
        format!(
            "{}; {} rounds at most, {} s of warm-up and {} s measured a load.",
            machine::about(),
            self.arguments.rounds,
            self.settings.warmup,
            self.settings.seconds
        )
    }

    /// What the machine alone can do.
    fn machine(&mut self, round: u32) -> Result<()> {
        if self.records.has(page::MACHINE, "", "", round) {
            return Ok(());
        }
        let folder = self.settings.work.with_extension("disk");
        let found = machine::bandwidth(&folder, BANDWIDTH)?;
        println!("{found:?}");
        let figures = BTreeMap::from([
            ("loopback".to_owned(), found.loopback),
            ("disk".to_owned(), found.disk),
        ]);
        self.records.add(vec![machine_record(page::MACHINE, "bandwidth", round, figures)])
    }
}

fn machine_record(part: &str, load: &str, round: u32, figures: BTreeMap<String, f64>) -> Record {
    Record {
        part: part.to_owned(),
        load: load.to_owned(),
        durability: String::new(),
        product: String::new(),
        round,
        foreign: 0.0,
        figures,
    }
}

/// Both brokers at each durability. Who is first takes turns, so that neither always meets the warmer
/// machine.
fn turns(round: u32) -> impl Iterator<Item = (&'static str, Product)> {
    let (apache, ours) = (Product::Apache(APACHE), Product::Ours);
    let order = if round % 2 == 1 { [apache, ours] } else { [ours, apache] };
    DURABILITIES.into_iter().flat_map(move |durability| order.map(|product| (durability, product)))
}

/// Writes the pictures and the section of the page.
fn write_page(docs: &Path, records: &Records) -> Result<()> {
    let core = rows(records.of("core"));
    let mut plots = Vec::new();
    for durability in DURABILITIES {
        let here: Vec<&Row<'_>> = core.iter().filter(|row| row.durability == durability).collect();
        for chart in plot::CHARTS {
            if let Some(svg) = plot::svg(chart, durability, &here)? {
                let name = format!("{}-{}.svg", chart.file, durability.to_ascii_lowercase());
                let folder = docs.join("performance");
                fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
                write(&folder.join(&name), &svg)?;
                plots.push((
                    format!("{}, {durability}", chart.title),
                    format!("performance/{name}"),
                ));
            }
        }
    }
    let path = docs.join("performance.md");
    let document = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    write(&path, &replace_section(&document, HEADING, &page::section(records, &plots)))?;
    println!("wrote {}", path.display());
    Ok(())
}

fn write(path: &Path, text: &str) -> Result<()> {
    let mut file = fs::File::create(path).with_context(|| path.display().to_string())?;
    file.write_all(text.as_bytes()).with_context(|| path.display().to_string())
}

const HEADING: &str = "## Beside Apache RocketMQ 5.5.0";
/// Queues of the part `idle`.
const QUEUES: u32 = 10_000;
/// Time of each measurement of a bandwidth.
const BANDWIDTH: Duration = Duration::from_secs(2);
