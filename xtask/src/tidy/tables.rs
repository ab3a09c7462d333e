//! Tables whose last column is `tests` name tests that exist: what differs from Java and from the Raft
//! paper in docs/dledger.md, what strangers may cost in ARCHITECTURE.md, and what holds for each kind of
//! message in docs/kinds.md.

use super::{
    Finding, Source,
    sources::{exists, named},
};

/// A page and how many of its tables name tests.
#[derive(Debug, Clone, Copy)]
pub(super) struct Page {
    /// Its path.
    pub(super) path: &'static str,
    tables: usize,
}

/// The pages with such tables.
pub(super) const PAGES: [Page; 3] = [
    Page { path: "docs/dledger.md", tables: 2 },
    Page { path: "ARCHITECTURE.md", tables: 1 },
    Page { path: "docs/kinds.md", tables: 1 },
];

/// Rows without a test, and named tests that do not exist, of every table whose last head is `tests`.
pub(super) fn check(page: Page, text: &str, sources: &[Source]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let (mut tables, mut within) = (0, false);
    for (number, line) in text.lines().enumerate() {
        let mut find = |text: String| {
            findings.push(Finding { place: format!("{}:{}", page.path, number + 1), text });
        };
        let last = line.strip_prefix('|').and_then(|row| row.strip_suffix('|'));
        let last = last.and_then(|row| row.rsplit('|').next()).map(str::trim);
        match last {
            None => within = false,
            Some("tests") => {
                tables += 1;
                within = true;
            }
            Some(rule) if rule.trim_matches('-').is_empty() && !rule.is_empty() => {}
            Some(tests) if within => {
                let named: Vec<&str> = named(tests).collect();
                if named.is_empty() {
                    find("this row names no test: name the one that shows it".to_owned());
                }
                for name in named.into_iter().filter(|name| !exists(name, sources)) {
                    find(format!("there is no test `{name}`"));
                }
            }
            Some(_) => {}
        }
    }
    if tables != page.tables {
        let text = format!("{tables} tables have a last column `tests`, {} should", page.tables);
        findings.push(Finding { place: page.path.to_owned(), text });
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(rows: &str) -> Vec<String> {
        let text = "#[test]\nfn it_holds() {}\n".to_owned();
        let sources = [Source { path: "a/src/b.rs".to_owned(), text }];
        let page = format!(
            "| a | tests |\n|---|---|\n| x | `it_holds` |\n\n| fault | here |\n|---|---|\n| y | `gone` |\n\n\
             | b | tests |\n|---|---|\n{rows}\n"
        );
        check(PAGES[0], &page, &sources).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn tables_whose_tests_exist_are_in_order_and_others_are_passed_over() {
        assert_eq!(found("| z | `it_holds` |"), Vec::<String>::new());
    }

    #[test]
    fn a_row_without_a_test_a_test_that_is_gone_and_a_missing_table_are_found() {
        let both = found("| z | `it_held` |\n| z | |");
        assert_eq!(both.len(), 2, "{both:?}");
        assert!(both[0].contains(":11: there is no test `it_held`"), "{both:?}");
        assert!(both[1].contains(":12: this row names no test"), "{both:?}");
        let none: Vec<_> =
            check(PAGES[0], "no table", &[]).iter().map(ToString::to_string).collect();
        assert!(none[0].contains("0 tables"), "{none:?}");
    }
}
