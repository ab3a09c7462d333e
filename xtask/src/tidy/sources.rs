//! Rules on the text of one source.

use std::collections::BTreeMap;

use super::Finding;

/// Lines of a file before its tests.
const FILE_LIMIT: usize = 500;

/// Files that are longer, with the length that each may have. An entry may only shrink or go.
const LONG_FILES: &[(&str, usize)] = &[];

/// Module names that say nothing about the domain.
const EMPTY_NAMES: &[&str] = &[
    "utils", "util", "common", "helper", "helpers", "manager", "base", "impl", "impls", "service",
];

/// Lines without tests that each crate should stay within. Printed, not enforced.
const BUDGETS: &[(&str, usize)] = &[
    ("protocol", 9000),
    ("segment", 2500),
    ("dledger-core", 6000),
    ("remoting", 3000),
    ("store", 6000),
    ("dledger", 6000),
    ("namesrv-client", 1500),
    ("namesrv", 3000),
    ("client", 4000),
    ("broker", 11000),
    ("cli", 7000),
    ("xtask", 1500),
    ("tests", 18000),
];

/// One Rust source: its path from the top of the workspace, and its text.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) path: String,
    pub(crate) text: String,
}

/// What stands between backticks in a line of a page.
pub(super) fn named(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// Whether a function of this name is declared.
pub(super) fn exists(test: &str, sources: &[Source]) -> bool {
    let declared = format!("fn {test}(");
    sources.iter().any(|source| source.text.contains(&declared))
}

impl Source {
    fn is_test(&self) -> bool {
        self.path.starts_with("tests/")
            || self.path.contains("/tests/")
            || self.path.ends_with("/tests.rs")
    }

    /// Lines before the tests at the end of the file.
    fn lines(&self) -> usize {
        let mut count = 0;
        let mut lines = self.text.lines().peekable();
        while let Some(line) = lines.next() {
            let tests_follow = lines.peek().is_some_and(|next| next.starts_with("mod tests {"));
            if line == "#[cfg(test)]" && tests_follow {
                break;
            }
            count += 1;
        }
        count
    }

    fn finding(&self, line: usize, text: String) -> Finding {
        Finding { place: format!("{}:{line}", self.path), text }
    }
}

/// Findings of all rules on `source`.
pub(super) fn check(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    findings.extend(length(source));
    findings.extend(name(source));
    findings.extend(left_notes(source));
    findings.extend(ascii(source));
    findings
}

fn length(source: &Source) -> Option<Finding> {
    if source.is_test() {
        return None;
    }
    let allowed = LONG_FILES.iter().find(|(path, _)| *path == source.path);
    let limit = allowed.map_or(FILE_LIMIT, |(_, lines)| *lines);
    let lines = source.lines();
    (lines > limit).then(|| {
        let text = format!("{lines} lines without tests, more than {limit}: split it by nouns");
        source.finding(lines, text)
    })
}

/// An allowance for a file that has become shorter, or is gone.
pub(super) fn stale_allowances(sources: &[Source]) -> Vec<Finding> {
    stale(sources, LONG_FILES)
}

fn stale(sources: &[Source], allowances: &[(&str, usize)]) -> Vec<Finding> {
    let current = |path: &str| sources.iter().find(|s| s.path == path).map_or(0, Source::lines);
    let shrunk = allowances.iter().filter(|(path, lines)| current(path) < *lines);
    shrunk
        .map(|(path, lines)| Finding {
            place: (*path).to_owned(),
            text: format!("has {} lines now: lower its {lines} in LONG_FILES", current(path)),
        })
        .collect()
}

fn name(source: &Source) -> Option<Finding> {
    let parts = source.path.split('/').map(|part| part.trim_end_matches(".rs"));
    let bad = parts.into_iter().find(|part| EMPTY_NAMES.contains(part));
    let inline = || {
        source.text.lines().find_map(|line| {
            let name = line.trim_start().split("mod ").nth(1)?.split([' ', ';', '{']).next()?;
            let declares = line.trim_start().starts_with("mod ") || line.contains("pub");
            (declares && EMPTY_NAMES.contains(&name)).then_some(name)
        })
    };
    let bad = bad.or_else(inline)?;
    Some(source.finding(1, format!("module `{bad}`: name it after what it holds")))
}

fn left_notes(source: &Source) -> Vec<Finding> {
    // Written apart, so that this file does not find itself.
    let words = [concat!("FIX", "ME"), concat!("TO", "DO"), concat!("XX", "X ")];
    let has = |line: &str| words.iter().copied().find(|word| line.contains(word));
    let lines = source.text.lines().enumerate();
    let noted = lines.filter_map(|(at, line)| has(line).map(|word| (at + 1, word)));
    noted
        .map(|(at, word)| {
            source.finding(at, format!("`{}`: do it or file an issue", word.trim_end()))
        })
        .collect()
}

fn ascii(source: &Source) -> Vec<Finding> {
    let lines = source.text.lines().enumerate();
    let foreign =
        lines.filter_map(|(at, line)| line.chars().find(|c| !c.is_ascii()).map(|c| (at + 1, c)));
    foreign
        .map(|(at, c)| {
            let escape = c.escape_unicode();
            source.finding(at, format!("a character outside ASCII: write it as {escape}"))
        })
        .collect()
}

/// Name, lines without tests, and budget of each crate.
pub(super) fn sizes(sources: &[Source]) -> Vec<(&'static str, usize, usize)> {
    let mut lines: BTreeMap<&str, usize> = BTreeMap::new();
    for source in sources {
        let top = source.path.split('/').next().unwrap_or_default();
        if top == "tests" || !source.is_test() {
            *lines.entry(top).or_default() += source.lines();
        }
    }
    let size = |name: &str| lines.get(name).copied().unwrap_or_default();
    BUDGETS.iter().map(|(name, budget)| (*name, size(name), *budget)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(path: &str, text: &str) -> Source {
        Source { path: path.to_owned(), text: text.to_owned() }
    }

    #[test]
    fn a_file_of_501_lines_is_found_and_its_tests_do_not_count() {
        let long = source("store/src/queue.rs", &"// A line.\n".repeat(501));
        assert_eq!(check(&long).len(), 1);
        let lines = "// A line.\n".repeat(500);
        let tested = format!("{lines}#[cfg(test)]\nmod tests {{\n{lines}}}\n");
        assert_eq!(check(&source("store/src/queue.rs", &tested)), vec![]);
        assert_eq!(check(&source("store/src/queue/tests.rs", &lines.repeat(2))), vec![]);
    }

    #[test]
    fn an_allowance_that_is_not_needed_any_more_is_found() {
        let sources = [source("a.rs", "// One.\n// Two.\n")];
        assert_eq!(stale(&sources, &[("a.rs", 2)]), vec![]);
        assert_eq!(stale(&sources, &[("a.rs", 3)]).len(), 1);
        assert_eq!(stale(&sources, &[("gone.rs", 600)]).len(), 1);
    }

    #[test]
    fn an_empty_name_is_found_as_file_folder_and_inline_module() {
        assert_eq!(check(&source("store/src/utils.rs", "")).len(), 1);
        assert_eq!(check(&source("store/src/common/queue.rs", "")).len(), 1);
        assert_eq!(
            check(&source("store/src/lib.rs", concat!("pub(crate) mo", "d helper;\n"))).len(),
            1
        );
        assert_eq!(check(&source("store/src/lib.rs", concat!("mo", "d manager {\n}\n"))).len(), 1);
        assert_eq!(check(&source("store/src/lib.rs", "mod queue;\n// a mod base of\n")), vec![]);
    }

    #[test]
    fn a_left_note_is_found() {
        let text = concat!("// Fine.\n// TO", "DO: later\n");
        let found = check(&source("store/src/lib.rs", text));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].place, "store/src/lib.rs:2");
    }

    #[test]
    fn a_character_outside_ascii_is_found() {
        let found = check(&source("store/src/lib.rs", "// caf\u{e9}\n"));
        assert_eq!(found.len(), 1);
        assert!(found[0].text.contains("\\u{e9}"), "{}", found[0]);
    }

    #[test]
    fn sizes_leave_out_tests() {
        let text = "// One.\n#[cfg(test)]\nmod tests {\n}\n";
        let sizes =
            sizes(&[source("store/src/lib.rs", text), source("store/src/x/tests.rs", text)]);
        let store = sizes.iter().find(|(name, _, _)| *name == "store").unwrap();
        assert_eq!(store.1, 1);
    }
}
