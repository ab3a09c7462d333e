//! The section of docs/performance.md, made of the records.

use super::{
    FOREIGN_MAX, Row, big, figure, idle, loads, median, number, reach,
    record::{Record, Records},
    rows, session, tables, write_to,
};

/// Part of the records that tell how a part was measured.
pub const ABOUT: &str = "about";
/// Part of the records of the machine's bandwidths.
pub const MACHINE: &str = "machine";

/// The whole text of the section, for the pictures in `plots`.
#[must_use]
pub fn section(records: &Records, plots: &[(String, String)]) -> String {
    let mut text = head(records);
    let core = rows(records.of("core"));
    let topics = rows(records.of("topics"));
    let pop = rows(records.of("pop"));
    let machine: Vec<&Record> = records.of(MACHINE).collect();
    text += "\n### Goals\n\n";
    text += &reach::table(&reach::goals(&core, (&topics, &pop), &machine));
    if let Some(lines) = bandwidths(&machine) {
        text += &lines;
    }
    for (title, file) in plots {
        write_to(&mut text, format_args!("\n![{title}]({file})\n"));
    }
    for part in loads::PARTS {
        let rows = rows(records.of(part.name));
        if rows.is_empty() {
            continue;
        }
        write_to(&mut text, format_args!("\n### {}\n\n", part.heading));
        for line in about(records, part.name) {
            write_to(&mut text, format_args!("{line}\n\n"));
        }
        text += &tables(&rows);
    }
    text += &pairs(records, idle::PART, "Memory of what does nothing", &[("bytes", "bytes each")]);
    let columns = [("mib", "MiB/s"), ("seconds", "seconds")];
    text += &pairs(records, big::PART, "A large log", &columns);
    if text.contains("\\*") {
        let percent = FOREIGN_MAX * 100.0;
        write_to(
            &mut text,
            format_args!(
                "\n\\* In every round other programs used more than {percent:.0} % of one \
                 processor: not to be relied on.\n"
            ),
        );
    }
    text
}

fn head(records: &Records) -> String {
    let foreign: Vec<f64> = records.all().iter().map(|record| record.foreign).collect();
    let mut text = format!(
        "    cargo xtask bench --compare apache               about 30 minutes; --quick: about 9\n    \
         cargo xtask bench --compare apache --only topics    one part, at another time\n    \
         cargo xtask bench --compare apache --page           only this page anew, from docs/performance.jsonl\n\n\
         Broker, name server and load generator share the processors and 127.0.0.1. In each round \
         both brokers take\nturns, each with an empty store, and who is first changes. Both have the \
         same `flushDiskType`: with `SYNC_FLUSH`\nan answer means that the message is fsynced, with \
         `ASYNC_FLUSH` that it is in the page cache. Apache's broker has\nits ordinary commit log and \
         `{}`.\nCPU time is that of the broker, for each message of the whole run; memory is RssAnon + \
         RssShmem of the broker\nafter the load. `ledgermq bench` drives both but where the Java \
         client is named.",
        session::JVM.join(" ")
    );
    if let Some(foreign) = median(&foreign) {
        let percent = foreign * 100.0;
        write_to(
            &mut text,
            format_args!(" Other programs used {percent:.1} % of one processor in the median.\n"),
        );
    } else {
        text += "\n\nNothing has been measured yet.\n";
    }
    text
}

/// How a part was measured.
fn about<'a>(records: &'a Records, part: &'a str) -> impl Iterator<Item = &'a str> {
    records.of(ABOUT).filter_map(move |record| record.load.strip_prefix(part)?.strip_prefix(": "))
}

fn bandwidths(machine: &[&Record]) -> Option<String> {
    let of = |name: &str| {
        median(&machine.iter().filter_map(|record| record.figure(name)).collect::<Vec<_>>())
    };
    Some(format!(
        "\nThe machine alone, median of its rounds: loopback {:.0} MiB/s, disk {:.0} MiB/s written and flushed.\n",
        of("loopback")?,
        of("disk")?
    ))
}

/// A part without loads: medians of both brokers side by side.
fn pairs(records: &Records, part: &str, heading: &str, columns: &[(&str, &str)]) -> String {
    let rows = rows(records.of(part));
    if rows.is_empty() {
        return String::new();
    }
    let mut text = format!("\n### {heading}\n\n");
    for line in about(records, part) {
        write_to(&mut text, format_args!("{line}\n\n"));
    }
    text += "Apache / LedgerMQ:\n\n| flushDiskType | |";
    for (_, head) in columns {
        write_to(&mut text, format_args!(" {head} |"));
    }
    text += "\n|---|---|";
    text += &"---:|".repeat(columns.len());
    text.push('\n');
    for row in &rows {
        write_to(&mut text, format_args!("| {} | {} |", row.durability, row.load));
        for (name, _) in columns {
            write_to(&mut text, format_args!(" {} |", both(row, name)));
        }
        text.push('\n');
    }
    text
}

fn both(row: &Row<'_>, name: &str) -> String {
    match (figure(row, false, name), figure(row, true, name)) {
        (None, None) => String::new(),
        (apache, ours) => format!("{} / {}", number(apache), number(ours)),
    }
}
