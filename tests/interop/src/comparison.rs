//! Apache's broker and ours under the same loads: what is measured, the records of it, and the page
//! that is made of them.

use std::fmt::Write as _;

pub mod big;
pub mod dledger;
pub mod idle;
pub mod kinds;
pub mod loads;
pub mod machine;
pub mod page;
pub mod plot;
pub mod reach;
pub mod record;
pub mod session;

use record::Record;

/// Share of one processor that others may use while a figure is measured that is to be believed.
pub const FOREIGN_MAX: f64 = 0.05;

/// One load with the records of both brokers, a pair for each round.
#[derive(Debug)]
pub struct Row<'a> {
    /// Durability of the brokers.
    pub durability: &'a str,
    /// The load.
    pub load: &'a str,
    /// Apache's and ours; those of quiet rounds, if there is one.
    pub rounds: Vec<(&'a Record, &'a Record)>,
    /// Whether others used the machine in all rounds.
    pub busy: bool,
}

/// Pairs records of one part by durability, load and round, in the order of the records.
#[must_use]
pub fn rows<'a>(records: impl Iterator<Item = &'a Record> + Clone) -> Vec<Row<'a>> {
    let mut rows: Vec<Row<'a>> = Vec::new();
    for ours in records.clone().filter(|record| record.product == "ledgermq") {
        let apache = records.clone().find(|record| {
            record.product == "apache"
                && record.durability == ours.durability
                && record.load == ours.load
                && record.round == ours.round
        });
        let Some(apache) = apache else { continue };
        let same = |row: &&mut Row<'_>| row.durability == ours.durability && row.load == ours.load;
        match rows.iter_mut().find(same) {
            Some(row) => row.rounds.push((apache, ours)),
            None => rows.push(Row {
                durability: &ours.durability,
                load: &ours.load,
                rounds: vec![(apache, ours)],
                busy: false,
            }),
        }
    }
    for row in &mut rows {
        let quiet =
            |(apache, ours): &(&Record, &Record)| apache.foreign.max(ours.foreign) <= FOREIGN_MAX;
        row.busy = !row.rounds.iter().any(quiet);
        if !row.busy {
            row.rounds.retain(quiet);
        }
    }
    rows
}

/// Median of some numbers.
#[must_use]
pub fn median(numbers: &[f64]) -> Option<f64> {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = *sorted.get(sorted.len() / 2)?;
    let lower = *sorted.get((sorted.len() - 1) / 2)?;
    Some(f64::midpoint(lower, upper))
}

/// Median of a figure of one product in a row.
#[must_use]
pub fn figure(row: &Row<'_>, is_ours: bool, name: &str) -> Option<f64> {
    let of = |(apache, ours): &(&Record, &Record)| {
        if is_ours { ours.figure(name) } else { apache.figure(name) }
    };
    median(&row.rounds.iter().filter_map(of).collect::<Vec<_>>())
}

/// Ratios ours / Apache of a figure, round by round.
#[must_use]
pub fn ratios(row: &Row<'_>, name: &str) -> Vec<f64> {
    let of = |(apache, ours): &(&Record, &Record)| Some(ours.figure(name)? / apache.figure(name)?);
    row.rounds.iter().filter_map(of).filter(|ratio| ratio.is_finite()).collect()
}

/// Figures of a load that tables show, with the heads of their columns.
const COLUMNS: [(&str, &str, &str); 5] = [
    ("rate", "msg/s", "msg/s"),
    ("p99", "p99", "p99 ms"),
    ("cpu", "CPU a message", "CPU us a message"),
    ("memory", "memory", "memory MiB"),
    ("resident", "VmRSS", "VmRSS MiB"),
];

/// The tables of a part: for each load a line with the ratios ours / Apache, median and range of
/// the rounds, and below it the medians themselves.
#[must_use]
pub fn tables(rows: &[Row<'_>]) -> String {
    let mut text = String::from("Ratio LedgerMQ / Apache, median (lowest to highest round):\n\n");
    text += "| flushDiskType | load |";
    for (_, head, _) in COLUMNS {
        write_to(&mut text, format_args!(" {head} |"));
    }
    text += "\n|---|---|---:|---:|---:|---:|---:|\n";
    for row in rows {
        write_to(&mut text, format_args!("| {} | {} |", row.durability, label(row)));
        for (name, _, _) in COLUMNS {
            write_to(&mut text, format_args!(" {} |", ratio(&ratios(row, name))));
        }
        text.push('\n');
    }
    text += "\nMedians, Apache / LedgerMQ:\n\n| flushDiskType | load |";
    for (_, _, head) in COLUMNS {
        write_to(&mut text, format_args!(" {head} |"));
    }
    text += " failed requests |\n|---|---|---:|---:|---:|---:|---:|---:|\n";
    for row in rows {
        write_to(&mut text, format_args!("| {} | {} |", row.durability, label(row)));
        for name in COLUMNS.map(|(name, _, _)| name).into_iter().chain(["failed"]) {
            write_to(&mut text, format_args!(" {} |", pair(row, name)));
        }
        text.push('\n');
    }
    text
}

/// Name of a load; a star stands behind what was never measured on a quiet machine.
fn label(row: &Row<'_>) -> String {
    format!("{}{}", row.load, if row.busy { " \\*" } else { "" })
}

/// `document` with the section under `heading` replaced by `body`, or added at its end.
#[must_use]
pub fn replace_section(document: &str, heading: &str, body: &str) -> String {
    let mut kept = String::new();
    let mut inside = false;
    let mut placed = false;
    for line in document.lines() {
        if line == heading {
            inside = true;
            placed = true;
            write_to(&mut kept, format_args!("{heading}\n\n{}\n\n", body.trim_end()));
            continue;
        }
        inside = inside && !line.starts_with("## ");
        if !inside {
            kept += line;
            kept.push('\n');
        }
    }
    if !placed {
        write_to(&mut kept, format_args!("\n{heading}\n\n{}\n", body.trim_end()));
    }
    kept.trim_end().to_owned() + "\n"
}

/// Median and range of ratios.
fn ratio(ratios: &[f64]) -> String {
    let lowest = ratios.iter().copied().fold(f64::INFINITY, f64::min);
    let highest = ratios.iter().copied().fold(0.0, f64::max);
    match median(ratios) {
        Some(median) => format!("{median:.2} ({lowest:.2} to {highest:.2})"),
        None => "-".to_owned(),
    }
}

/// Medians of both brokers.
fn pair(row: &Row<'_>, name: &str) -> String {
    format!("{} / {}", number(figure(row, false, name)), number(figure(row, true, name)))
}

/// A number with as many digits as it deserves.
fn number(number: Option<f64>) -> String {
    match number {
        Some(number) if number >= 100.0 => format!("{number:.0}"),
        Some(number) if number >= 10.0 || number == 0.0 => format!("{number:.1}"),
        Some(number) => format!("{number:.2}"),
        None => "-".to_owned(),
    }
}

/// Writing to a `String` cannot fail.
fn write_to(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    if text.write_fmt(arguments).is_err() {
        debug_assert!(false, "a String takes every text");
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    pub(super) fn record(product: &str, load: &str, round: u32, rate: f64) -> Record {
        let figures = [
            ("rate", rate),
            ("p99", 2.0),
            ("p50", 1.0),
            ("cpu", 10.0),
            ("memory", 100.0),
            ("resident", 200.0),
            ("failed", 0.0),
        ];
        Record {
            part: "core".to_owned(),
            load: load.to_owned(),
            durability: "SYNC_FLUSH".to_owned(),
            product: product.to_owned(),
            round,
            foreign: 0.0,
            figures: figures.map(|(name, value)| (name.to_owned(), value)).into(),
        }
    }

    #[test]
    fn a_median_of_an_even_number_lies_between() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }

    #[test]
    fn ratios_are_made_round_by_round() {
        let mut records = Vec::new();
        for (round, apache, ours) in [(1, 100.0, 300.0), (2, 200.0, 400.0), (3, 100.0, 400.0)] {
            records.push(record("apache", "x", round, apache));
            records.push(record("ledgermq", "x", round, ours));
        }
        // A round of which one half is missing yet.
        records.push(record("ledgermq", "x", 4, 1.0));
        let text = tables(&rows(records.iter()));
        assert!(
            text.contains("| SYNC_FLUSH | x | 3.00 (2.00 to 4.00) | 1.00 (1.00 to 1.00) |"),
            "{text}"
        );
        assert!(
            text.contains("| SYNC_FLUSH | x | 100 / 400 | 2.00 / 2.00 | 10.0 / 10.0 |"),
            "{text}"
        );
    }

    #[test]
    fn rounds_in_which_others_worked_count_only_where_there_are_no_others() {
        let mut records = [
            record("apache", "x", 1, 100.0),
            record("ledgermq", "x", 1, 300.0),
            record("apache", "x", 2, 100.0),
            record("ledgermq", "x", 2, 900.0),
        ];
        records[3].foreign = 0.5;
        let text = tables(&rows(records.iter()));
        assert!(text.contains("| x | 3.00 (3.00 to 3.00) |"), "{text}");
        records[0].foreign = 0.5;
        let text = tables(&rows(records.iter()));
        assert!(text.contains("| x \\* | 6.00 (3.00 to 9.00) |"), "{text}");
    }

    #[test]
    fn a_figure_that_was_not_measured_is_a_dash() {
        let mut records = [record("apache", "x", 1, 100.0), record("ledgermq", "x", 1, 300.0)];
        records[0].figures = BTreeMap::new();
        let text = tables(&rows(records.iter()));
        assert!(text.contains("| SYNC_FLUSH | x | - | - |"), "{text}");
        assert!(text.contains("| SYNC_FLUSH | x | - / 300 |"), "{text}");
    }

    #[test]
    fn a_section_is_replaced_and_the_others_stay() {
        let document = "# P\n\n## A\n\none\n\n## B\n\ntwo\n";
        let replaced = replace_section(document, "## A", "new\n");
        assert_eq!(replaced, "# P\n\n## A\n\nnew\n\n## B\n\ntwo\n");
        let added = replace_section(document, "## C", "new\n");
        assert_eq!(added, "# P\n\n## A\n\none\n\n## B\n\ntwo\n\n## C\n\nnew\n");
        assert_eq!(replace_section(&added, "## C", "new\n"), added);
    }
}
