//! The table of docs/testing.md that names the tests of each security requirement.

use super::{
    Finding, Source,
    sources::{exists, named},
};

/// The page with the table.
pub(super) const PAGE: &str = "docs/testing.md";

/// Numbers of the requirements that the product promises.
const REQUIRED: &[u8] =
    &[1, 2, 3, 9, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 25, 27, 28];

/// Requirements without a row, rows without a test, and named tests that do not exist.
pub(super) fn check(page: &str, sources: &[Source]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for number in REQUIRED {
        let begin = format!("| S-{number} |");
        let Some((at, row)) = page.lines().enumerate().find(|(_, row)| row.starts_with(&begin))
        else {
            findings.push(finding(1, format!("no row begins with `{begin}`: name its tests")));
            continue;
        };
        let mark = format!("s_{number:02}_");
        let tests = || named(row).filter(|word| word.starts_with("s_"));
        if !tests().any(|test| test.contains(&mark)) {
            findings.push(finding(at + 1, format!("S-{number} names no test with {mark}")));
        }
        for test in tests().filter(|test| !exists(test, sources)) {
            findings.push(finding(at + 1, format!("there is no test `{test}`")));
        }
    }
    findings
}

fn finding(line: usize, text: String) -> Finding {
    Finding { place: format!("{PAGE}:{line}"), text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(but: impl Fn(&u8) -> Option<&'static str>) -> String {
        let row = |number: &u8| match but(number) {
            Some(other) => other.to_owned(),
            None => format!("| S-{number} | what | `s_{number:02}_holds` in `some/file.rs` |\n"),
        };
        REQUIRED.iter().map(row).collect()
    }

    fn sources() -> Vec<Source> {
        let text = REQUIRED.iter().map(|number| format!("fn s_{number:02}_holds() {{}}\n"));
        vec![Source { path: "a.rs".to_owned(), text: text.collect() }]
    }

    #[test]
    fn a_whole_table_is_in_order() {
        assert_eq!(check(&page(|_| None), &sources()), vec![]);
    }

    #[test]
    fn a_missing_row_one_without_a_test_and_a_test_that_is_gone_are_found() {
        for (row, part) in [
            ("", "no row begins with `| S-9 |`"),
            ("| S-9 | what | nothing |\n", "S-9 names no test"),
            ("| S-9 | what | `s_19_holds` |\n", "S-9 names no test"),
            ("| S-9 | what | `s_09_holds`, `s_09_gone` |\n", "there is no test `s_09_gone`"),
        ] {
            let found = check(&page(|number| (*number == 9).then_some(row)), &sources());
            assert_eq!(found.len(), 1, "{row}: {found:?}");
            assert!(found[0].text.contains(part), "{row}: {found:?}");
        }
    }
}
