//! The table of known faults names tests that exist.

use std::collections::BTreeSet;

use super::{
    Finding,
    sources::{Source, named},
};

/// Where the table is.
pub(super) const PAGE: &str = "docs/known-faults.md";

/// What stands in place of tests where there are none.
const WITHOUT: [&str; 2] = ["*open*", "*measured*"];

/// Checks each line of the table against the sources.
pub(super) fn check(page: &str, sources: &[Source]) -> Vec<Finding> {
    let functions: BTreeSet<&str> =
        sources.iter().flat_map(|source| functions(&source.text)).collect();
    let mut findings = Vec::new();
    let mut before = 0;
    for (number, line) in page.lines().enumerate() {
        let mut find = |text: String| {
            findings.push(Finding { place: format!("{PAGE}:{}", number + 1), text });
        };
        let Some(row) = line.strip_prefix("| ") else { continue };
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let Some(case) = cells.first().and_then(|cell| cell.parse::<u32>().ok()) else { continue };
        if case <= before {
            find(format!("case {case} stands behind case {before}: sort the table"));
        }
        before = case;
        let [_, _, here, tests, ..] = cells[..] else {
            find("a line has four cells: case, symptom, here, tests".to_owned());
            continue;
        };
        let named: Vec<&str> = named(tests).collect();
        if named.is_empty() && !WITHOUT.iter().any(|mark| here.starts_with(mark)) {
            find(format!("case {case} names no test: name one, or begin with *open*"));
        }
        for name in named.into_iter().filter(|name| !functions.contains(name)) {
            find(format!("there is no test {name}: name the one that shows case {case} now"));
        }
    }
    findings
}

/// Names behind `fn`.
fn functions(text: &str) -> impl Iterator<Item = &str> {
    text.split("fn ").skip(1).filter_map(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_')?;
        rest.get(..end).filter(|name| !name.is_empty())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(page: &str) -> Vec<String> {
        let text = "#[test]\nfn it_holds() {}\n#[test]\npub(crate) fn so_does_this() {}\n";
        let source = Source { path: "a/src/b.rs".to_owned(), text: text.to_owned() };
        check(page, &[source]).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_table_whose_tests_exist_is_in_order() {
        let page = "| case | a | b | tests |\n|---|---|---|---|\n| 1 | a | b | `it_holds`, `so_does_this` |\n\
                    | 7 | a | *open*: not yet | |\n";
        assert_eq!(found(page), Vec::<String>::new());
    }

    #[test]
    fn a_test_that_is_gone_a_case_without_one_and_a_wrong_order_are_found() {
        let page = "| 2 | a | b | `it_held` |\n| 1 | a | b | |\n| 3 | a |\n";
        let found = found(page);
        assert_eq!(found.len(), 4, "{found:?}");
        assert!(found[0].contains(":1: there is no test it_held"), "{found:?}");
        assert!(found[1].contains("case 1 stands behind case 2"), "{found:?}");
        assert!(found[2].contains("case 1 names no test"), "{found:?}");
        assert!(found[3].contains("four cells"), "{found:?}");
    }
}
