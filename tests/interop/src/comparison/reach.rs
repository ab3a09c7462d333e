//! The goals of the single node beside Apache's, and how far each is reached.

use super::{
    Row, figure,
    loads::{self, DURABILITIES},
    median, ratios,
    record::Record,
    write_to,
};

/// A goal: a measured number, and the bound that it should keep.
#[derive(Debug, Clone, PartialEq)]
pub struct Goal {
    /// What is compared.
    pub what: String,
    /// The measured number.
    pub found: Option<f64>,
    /// The bound.
    pub bound: f64,
    /// Whether the number should be at least the bound, or at most.
    pub at_least: bool,
}

impl Goal {
    fn verdict(&self) -> &'static str {
        match self.found {
            None => "not measured",
            Some(found) if (found >= self.bound) == self.at_least || found == self.bound => {
                "reached"
            }
            Some(_) => "not reached",
        }
    }
}

/// The goals at each durability, from the rows of the parts `core`, `topics` and `pop` and the bandwidths
/// of the machine.
#[must_use]
pub fn goals(
    core: &[Row<'_>],
    (topics, pop): (&[Row<'_>], &[Row<'_>]),
    machine: &[&Record],
) -> Vec<Goal> {
    let mut goals = Vec::new();
    for durability in DURABILITIES {
        let row =
            |load: &str| core.iter().find(|row| row.durability == durability && row.load == load);
        let ratio = |load: &str, name: &str| row(load).and_then(|row| median(&ratios(row, name)));
        let mut goal = |what: &str, load: &str, found, bound, at_least| {
            // A star, as in the tables below, where others used the machine.
            let star = if row(load).is_some_and(|row| row.busy) { " \\*" } else { "" };
            let what = format!("{what}, {durability}{star}");
            goals.push(Goal { what, found, bound, at_least });
        };
        let mut ours = |what: &str, load: &str, name, bound, at_least| {
            let what = format!("{what} / Apache's, {load}");
            goal(&what, load, ratio(load, name), bound, at_least);
        };
        let window = loads::WINDOW_1000;
        ours("throughput", window, "rate", 3.0, true);
        ours("CPU a message", window, "cpu", 1.0 / 3.0, false);
        ours("p99", loads::STEADY, "p99", 0.5, false);
        ours("memory", window, "memory", 0.1, false);
        let rate = row(loads::LARGE).and_then(|row| figure(row, true, "mib"));
        let share = rate.zip(lower_bandwidth(machine)).map(|(rate, bandwidth)| rate / bandwidth);
        let what = format!("{} / lower of loopback and disk", loads::LARGE);
        goal(&what, loads::LARGE, share, 0.6, true);
    }
    for durability in DURABILITIES {
        let what = format!("lowest / highest throughput of 1 to 10,000 topics, {durability}");
        let found = flatness(topics, durability);
        goals.push(Goal { what, found, bound: 0.8, at_least: true });
    }
    for row in pop.iter().filter(|row| row.load == loads::POP) {
        let star = if row.busy { " \\*" } else { "" };
        let what = format!("throughput / Apache's, {}, {}{star}", loads::POP, row.durability);
        goals.push(Goal { what, found: median(&ratios(row, "rate")), bound: 1.0, at_least: true });
    }
    goals
}

/// Our lowest throughput with 1 to 10,000 topics, as a share of the highest.
fn flatness(topics: &[Row<'_>], durability: &str) -> Option<f64> {
    let rate = |load: &str| {
        let row = topics.iter().find(|row| row.durability == durability && row.load == load);
        row.and_then(|row| figure(row, true, "rate"))
    };
    let rates: Vec<f64> = loads::TOPICS.into_iter().filter_map(rate).collect();
    let lowest = rates.iter().copied().fold(f64::INFINITY, f64::min);
    let highest = rates.iter().copied().fold(0.0, f64::max);
    (rates.len() > 1).then_some(lowest / highest)
}

/// The lower of the median bandwidths of loopback and disk, MiB a second.
fn lower_bandwidth(machine: &[&Record]) -> Option<f64> {
    let of = |name: &str| {
        median(&machine.iter().filter_map(|record| record.figure(name)).collect::<Vec<_>>())
    };
    Some(of("loopback")?.min(of("disk")?))
}

/// The table of goals.
#[must_use]
pub fn table(goals: &[Goal]) -> String {
    let mut text = String::from("| goal | bound | found | |\n|---|---:|---:|---|\n");
    for goal in goals {
        let sign = if goal.at_least { "at least" } else { "at most" };
        let found = goal.found.map_or_else(|| "-".to_owned(), |found| format!("{found:.2}"));
        write_to(
            &mut text,
            format_args!(
                "| {} | {sign} {:.2} | {found} | {} |\n",
                goal.what,
                goal.bound,
                goal.verdict()
            ),
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::{rows, tests::record};

    #[test]
    fn goals_are_judged_by_what_was_measured() {
        let records = [
            record("apache", loads::WINDOW_1000, 1, 100.0),
            record("ledgermq", loads::WINDOW_1000, 1, 290.0),
        ];
        let core = rows(records.iter());
        let found = goals(&core, (&[], &[]), &[]);
        assert_eq!(found.len(), 12);
        let text = table(&found);
        let throughput = "| throughput / Apache's, send 1 KiB, window 1,000, SYNC_FLUSH | at least 3.00 | 2.90 | not reached |";
        assert!(text.contains(throughput), "{text}");
        for durability in DURABILITIES {
            let flat = format!("10,000 topics, {durability} | at least 0.80 | - | not measured |");
            assert!(text.contains(&flat), "{text}");
        }
    }

    #[test]
    fn the_goal_of_pop_consumption_is_told_where_it_was_measured() {
        let records =
            [record("apache", loads::POP, 1, 100.0), record("ledgermq", loads::POP, 1, 150.0)];
        let found = goals(&[], (&[], &rows(records.iter())), &[]);
        let goal = found.last().unwrap();
        assert!(goal.what.ends_with("32 workers, SYNC_FLUSH"), "{}", goal.what);
        assert_eq!((goal.found, goal.verdict()), (Some(1.5), "reached"));
    }

    #[test]
    fn a_goal_has_a_star_where_its_own_load_was_disturbed() {
        let mut records = [
            record("apache", loads::WINDOW_1000, 1, 100.0),
            record("ledgermq", loads::WINDOW_1000, 1, 290.0),
            record("apache", loads::STEADY, 1, 100.0),
            record("ledgermq", loads::STEADY, 1, 100.0),
        ];
        records[3].foreign = 0.5;
        let starred: Vec<_> = goals(&rows(records.iter()), (&[], &[]), &[])
            .into_iter()
            .filter(|goal| goal.what.ends_with('*'))
            .map(|goal| goal.what)
            .collect();
        assert_eq!(starred.len(), 1, "{starred:?}");
        assert!(starred[0].starts_with("p99"), "{starred:?}");
    }

    #[test]
    fn a_bound_that_is_met_exactly_is_reached() {
        let goal = |found, at_least| Goal {
            what: String::new(),
            found: Some(found),
            bound: 0.5,
            at_least,
        };
        let verdicts = [(0.5, true), (0.5, false), (0.6, true), (0.6, false)];
        let verdicts = verdicts.map(|(found, at_least)| goal(found, at_least).verdict());
        assert_eq!(verdicts, ["reached", "reached", "reached", "not reached"]);
    }
}
