//! Figures of rounds: a table, and a plot of acknowledged sends over time.

use std::{collections::BTreeMap, fmt::Write};

use anyhow::{Context, Result, anyhow};
use plotters::prelude::*;

use crate::{
    failovers::{Outcomes, Round},
    faults::Fault,
    queues::{History, Outcome},
};

/// Line before which figures begin in a document, and behind which they end.
const MARKS: [&str; 2] = ["<!-- figures -->", "<!-- end of figures -->"];

/// Seconds of a plot before the fault, and behind it.
const PLOTTED: (f64, f64) = (2.0, 28.0);

/// Steps of a plot a second.
const STEPS: f64 = 10.0;

/// The runs of a product.
#[derive(Debug)]
pub struct Runs<'a> {
    /// Its name.
    pub product: &'a str,
    /// What they found.
    pub outcomes: Vec<Outcomes>,
}

/// The value that this percentage of an ascending list does not exceed.
#[must_use]
pub fn quantile(ascending: &[u64], percent: usize) -> u64 {
    let rank = (ascending.len() * percent).div_ceil(100).max(1);
    ascending.get(rank - 1).copied().unwrap_or(0)
}

/// A table in Markdown: a line for each product and fault.
///
/// # Errors
/// Never: writing to a text does not fail.
pub fn table(runs: &[Runs<'_>]) -> Result<String> {
    let mut text = String::from(
        "| product | fault | rounds | sends a second before | first acknowledged send, p50 | p99 | longest gap | refused attempts | without an answer |\n\
         |---|---|---|---|---|---|---|---|---|\n",
    );
    for Runs { product, outcomes } in runs {
        let mut faults: BTreeMap<Fault, Vec<&Round>> = BTreeMap::new();
        for round in outcomes.iter().flat_map(|one| &one.rounds) {
            faults.entry(round.fault).or_default().push(round);
        }
        for (fault, rounds) in faults {
            let mut first: Vec<u64> = rounds.iter().map(|round| round.first / 1000).collect();
            first.sort_unstable();
            let rate = rounds.iter().map(|round| round.rate).sum::<usize>() / rounds.len().max(1);
            let gap = rounds.iter().map(|round| round.gap / 1000).max().unwrap_or(0);
            let refused: usize = rounds.iter().map(|round| round.refused).sum();
            let unknown: usize = rounds.iter().map(|round| round.unknown).sum();
            writeln!(
                text,
                "| {product} | {fault} | {} | {rate} | {} ms | {} ms | {gap} ms | {refused} | {unknown} |",
                rounds.len(),
                quantile(&first, 50),
                quantile(&first, 99),
            )?;
        }
    }
    for Runs { product, outcomes } in runs {
        let sum = |of: fn(&Outcomes) -> usize| outcomes.iter().map(of).sum::<usize>();
        let acknowledged = sum(|one| one.history.acknowledged());
        let unknown = sum(|one| one.history.unknown());
        let verdict: Vec<String> =
            outcomes.iter().filter(|one| !one.findings.is_empty()).map(rules).collect();
        let verdict = if verdict.is_empty() {
            "B-1 to B-8 and B-17 hold in all runs".to_owned()
        } else {
            format!("these rules do not hold: {}", verdict.join("; "))
        };
        write!(
            text,
            "\n{product}: {acknowledged} acknowledged sends, {unknown} attempts without an answer; {verdict}.\n"
        )?;
    }
    Ok(text)
}

fn rules(outcomes: &Outcomes) -> String {
    let rules: Vec<String> = outcomes.findings.rules().map(|rule| rule.to_string()).collect();
    rules.join(", ")
}

/// `document` with `figures` in the place of those that it has.
///
/// # Errors
/// Where it has no place for them.
pub fn replaced(document: &str, figures: &str) -> Result<String> {
    let [begin, end] = MARKS;
    let (before, rest) = document.split_once(begin).context("the document has no begin mark")?;
    let (_old, after) = rest.split_once(end).context("the document has no end mark")?;
    Ok(format!("{before}{begin}\n{}\n{end}{after}", figures.trim_end()))
}

/// The acknowledged sends a second around `at`, in microseconds of the history's clock.
fn course(history: &History, at: u64) -> Vec<(f64, f64)> {
    let (before, behind) = PLOTTED;
    let mut counts: BTreeMap<i64, u32> = BTreeMap::new();
    let step = |seconds: f64| (seconds * STEPS).floor() as i64;
    for attempt in &history.attempts {
        if matches!(attempt.outcome, Outcome::At(_)) {
            let seconds = (attempt.span.to as f64 - at as f64) / 1e6;
            *counts.entry(step(seconds)).or_default() += 1;
        }
    }
    let last = history.attempts.iter().map(|attempt| attempt.span.to).max().unwrap_or(at);
    let end = ((last as f64 - at as f64) / 1e6).min(behind);
    (step(-before)..step(end))
        .map(|step| {
            let count = counts.get(&step).copied().unwrap_or(0);
            (step as f64 / STEPS, f64::from(count) * STEPS)
        })
        .collect()
}

/// A line of a plot.
#[derive(Debug, Clone, Copy)]
pub struct Line<'a> {
    /// Whose it is.
    pub product: &'a str,
    /// Its history.
    pub history: &'a History,
    /// When the fault was.
    pub at: u64,
}

/// The plot of acknowledged sends over time around a fault.
///
/// # Errors
/// Where the drawing fails.
pub fn plot(title: &str, lines: &[Line<'_>]) -> Result<String> {
    let courses: Vec<(&str, Vec<(f64, f64)>)> =
        lines.iter().map(|line| (line.product, course(line.history, line.at))).collect();
    let mut text = String::new();
    draw(&mut text, title, &courses).map_err(|error| anyhow!("drawing {title}: {error}"))?;
    Ok(text)
}

type Drawn = Result<(), Box<dyn std::error::Error>>;

fn draw(text: &mut String, title: &str, courses: &[(&str, Vec<(f64, f64)>)]) -> Drawn {
    let all = || courses.iter().flat_map(|(_, course)| course);
    let highest = all().fold(1.0, |highest: f64, (_, rate)| highest.max(*rate));
    let end = all().fold(1.0, |end: f64, (second, _)| end.max(*second));
    let root = SVGBackend::with_string(text, (900, 420)).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .caption(title, ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(60)
        .build_cartesian_2d(-PLOTTED.0..end, 0.0..highest * 1.1)?;
    chart
        .configure_mesh()
        .x_desc("seconds from the kill")
        .y_desc("acknowledged sends a second")
        .y_label_formatter(&|value| format!("{value:.0}"))
        .x_label_formatter(&|value| format!("{value:.0}"))
        .draw()?;
    for ((product, course), color) in courses.iter().zip(COLORS) {
        let line = [PathElement::new(course.clone(), color.stroke_width(2))];
        let legend = move |(x, y)| PathElement::new([(x, y), (x + 18, y)], color.stroke_width(2));
        chart.draw_series(line)?.label(*product).legend(legend);
    }
    let kill = vec![(0.0, 0.0), (0.0, highest * 1.1)];
    chart.draw_series([PathElement::new(kill, BLACK.stroke_width(1))])?;
    chart.configure_series_labels().background_style(WHITE).border_style(BLACK).draw()?;
    drop(chart);
    root.present()?;
    Ok(())
}

const COLORS: [RGBColor; 2] = [RGBColor(40, 110, 180), RGBColor(200, 120, 50)];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queues::{check, parse};

    fn outcomes() -> Outcomes {
        let history = parse(
            "send c1 k1=b1 T/0 1000000..1500000 at 0
             send c1 k2=b2 T/0 2100000..3500000 at 1
             holds n0 T/0 0..2 0:k1=b1@100 1:k2=b2@200",
        )
        .unwrap();
        let findings = check(&history);
        let fault = Fault::KillMaster;
        let round = |first| Round {
            fault,
            at: 2_000_000,
            rate: 40,
            first,
            gap: 9_000,
            refused: 2,
            unknown: 1,
        };
        Outcomes { rounds: vec![round(1_500_000), round(800_000)], history, findings }
    }

    #[test]
    fn a_table_has_a_line_for_each_fault() {
        let runs = [Runs { product: "LedgerMQ", outcomes: vec![outcomes()] }];
        let text = table(&runs).unwrap();
        let line = "| LedgerMQ | kill -9 master | 2 | 40 | 800 ms | 1500 ms | 9 ms | 4 | 2 |\n";
        assert!(text.contains(line), "{text}");
        assert!(text.contains("2 acknowledged sends"), "{text}");
        assert!(text.contains("hold in all runs"), "{text}");
    }

    #[test]
    fn figures_are_put_where_figures_were() {
        let document = "a\n<!-- figures -->\nold\n<!-- end of figures -->\nb\n";
        let new = "a\n<!-- figures -->\nnew\n<!-- end of figures -->\nb\n";
        assert_eq!(replaced(document, "new\n\n").unwrap(), new);
        assert!(replaced("a", "new").is_err());
    }

    #[test]
    fn a_plot_has_a_line_for_each_product() {
        let outcomes = outcomes();
        let (history, at) = (&outcomes.history, 2_000_000);
        let course = course(history, at);
        assert_eq!(course.iter().map(|(_, rate)| rate).sum::<f64>(), STEPS);
        let line = |product| Line { product, history, at };
        let text = plot("A kill", &[line("LedgerMQ"), line("Apache")]).unwrap();
        assert!(text.starts_with("<svg"), "{text}");
        for part in ["A kill", "LedgerMQ", "Apache", "seconds from the kill"] {
            assert!(text.contains(part), "{part} is missing in {text}");
        }
    }
}
