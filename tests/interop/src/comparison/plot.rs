//! Bar charts of the comparison as SVG: both brokers beside each other, a pair of bars a load.

use anyhow::{Result, anyhow};
use plotters::prelude::*;

use super::{Row, figure};

/// What a chart shows.
#[derive(Debug, Clone, Copy)]
pub struct Chart {
    /// Name of its file, without the folder.
    pub file: &'static str,
    /// Its title, with the unit.
    pub title: &'static str,
    /// Name of the figure.
    pub figure: &'static str,
}

/// All charts of a durability and part.
pub const CHARTS: [Chart; 4] = [
    Chart { file: "throughput", title: "Messages a second", figure: "rate" },
    Chart { file: "cpu", title: "Broker's CPU time of a message, us", figure: "cpu" },
    Chart { file: "p99", title: "p99 latency, ms", figure: "p99" },
    Chart { file: "memory", title: "RssAnon + RssShmem of the broker, MiB", figure: "memory" },
];

/// The chart of these rows; `None` where there is nothing to show.
///
/// # Errors
/// Where the drawing fails.
pub fn svg(chart: Chart, durability: &str, rows: &[&Row<'_>]) -> Result<Option<String>> {
    let bars: Vec<(&str, f64, f64)> = rows
        .iter()
        .filter_map(|row| {
            let of = |is_ours| figure(row, is_ours, chart.figure);
            Some((row.load, of(false)?, of(true)?))
        })
        .collect();
    let highest =
        bars.iter().fold(0.0, |highest: f64, (_, left, right)| highest.max(*left).max(*right));
    if bars.is_empty() || highest <= 0.0 {
        return Ok(None);
    }
    let mut text = String::new();
    let title = format!("{}, {durability}", chart.title);
    draw(&mut text, &title, &bars, highest).map_err(|error| anyhow!("drawing {title}: {error}"))?;
    Ok(Some(text))
}

type Drawn = Result<(), Box<dyn std::error::Error>>;

fn draw(text: &mut String, title: &str, bars: &[(&str, f64, f64)], highest: f64) -> Drawn {
    let count = i32::try_from(bars.len())?;
    let height = 90 + 46 * u32::try_from(bars.len())?;
    let root = SVGBackend::with_string(text, (900, height)).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .caption(title, ("sans-serif", 18))
        .margin(10)
        .x_label_area_size(30)
        .y_label_area_size(270)
        .build_cartesian_2d(0.0..highest * 1.15, (0..count).into_segmented())?;
    let name = |at: &SegmentValue<i32>| match at {
        SegmentValue::CenterOf(index) => {
            let load = usize::try_from(*index).ok().and_then(|index| bars.get(index));
            load.map_or_else(String::new, |(load, _, _)| (*load).to_owned())
        }
        SegmentValue::Exact(_) | SegmentValue::Last => String::new(),
    };
    chart
        .configure_mesh()
        .disable_y_mesh()
        .y_labels(bars.len())
        .y_label_formatter(&name)
        .x_label_formatter(&|value| format!("{value}"))
        .draw()?;
    let area = chart.plotting_area();
    for (index, (_, apache, ours)) in (0..count).zip(bars) {
        for (part, value, color) in [(0, *apache, APACHE), (1, *ours, OURS)] {
            // A load is a segment of the axis; a bar is half of it.
            let from = area.map_coordinate(&(0.0, SegmentValue::Exact(index)));
            let to = area.map_coordinate(&(value, SegmentValue::Exact(index + 1)));
            let middle = i32::midpoint(from.1, to.1);
            let (top, bottom) = if part == 0 { (to.1 + 4, middle) } else { (middle, from.1 - 4) };
            root.draw(&Rectangle::new([(from.0, top), (to.0, bottom)], color.filled()))?;
            let label = super::number(Some(value));
            let place = (to.0 + 4, i32::midpoint(top, bottom) - 6);
            root.draw(&Text::new(label, place, ("sans-serif", 12)))?;
        }
    }
    for (name, color, x) in [("Apache 5.5.0", APACHE, 640), ("LedgerMQ", OURS, 770)] {
        root.draw(&Rectangle::new([(x, 12), (x + 12, 24)], color.filled()))?;
        root.draw(&Text::new(name, (x + 18, 12), ("sans-serif", 13)))?;
    }
    drop(chart);
    root.present()?;
    Ok(())
}

const APACHE: RGBColor = RGBColor(200, 120, 50);
const OURS: RGBColor = RGBColor(40, 110, 180);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::{rows, tests::record};

    #[test]
    fn a_chart_names_its_loads_and_has_their_values() {
        let records =
            [record("apache", "load one", 1, 100.0), record("ledgermq", "load one", 1, 320.0)];
        let rows = rows(records.iter());
        let rows: Vec<&Row<'_>> = rows.iter().collect();
        let text = svg(CHARTS[0], "SYNC_FLUSH", &rows).unwrap().unwrap();
        assert!(text.starts_with("<svg") && text.trim_end().ends_with("</svg>"), "{text}");
        for part in ["load one", "320", "Messages a second, SYNC_FLUSH", "LedgerMQ"] {
            assert!(text.contains(part), "{part} is missing in {text}");
        }
        assert_eq!(svg(CHARTS[0], "SYNC_FLUSH", &[]).unwrap(), None);
    }
}
