//! What can be said about the lines of a file without knowing what its keys do.

use std::collections::BTreeMap;

use protocol::properties_text::Entry;

use super::finding::Finding;

/// What a server's tables say about a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Told {
    /// It has an effect, or its value decides.
    Known,
    /// It has none, for this reason.
    Idle(String),
    /// No table has it; the nearest name, where one is near.
    Unknown(Option<&'static str>),
}

/// Checks names and values one by one. `set` takes a value and tells why it cannot be.
pub(super) fn check(
    entries: &[Entry],
    tell: impl Fn(&str, &str) -> Told,
    mut set: impl FnMut(&str, &str) -> Result<(), String>,
) -> Vec<Finding> {
    let mut findings = repeated(entries);
    for Entry { line, name, value } in entries {
        let written = form(name, value);
        let about = match tell(name, value.trim()) {
            Told::Known => {
                set(name, value.trim()).err().map(|cause| Finding::error("bad-value", name, cause))
            }
            Told::Idle(reason) => {
                Some(Finding::warning("no-effect", name, format!("has no effect: {reason}")))
            }
            Told::Unknown(nearest) => Some(unknown(name, nearest)),
        };
        findings.extend(written.into_iter().chain(about).map(|finding| finding.at(*line)));
    }
    findings
}

/// Keys that stand more than once; the last one counts.
fn repeated(entries: &[Entry]) -> Vec<Finding> {
    let mut lines: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for entry in entries {
        lines.entry(&entry.name).or_default().push(entry.line);
    }
    let mut findings = Vec::new();
    for (name, lines) in lines {
        if let [earlier @ .., last] = &*lines
            && !earlier.is_empty()
        {
            let earlier: Vec<String> = earlier.iter().map(ToString::to_string).collect();
            let text = format!(
                "stands {} times: this line counts, and line {} does not; remove it",
                earlier.len() + 1,
                earlier.join(" and ")
            );
            findings.push(Finding::warning("repeated-key", name, text).at(*last));
        }
    }
    findings
}

/// What is odd about the way in which a value is written.
fn form(name: &str, value: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    if value.trim_end() != value {
        let java = if matches!(value.trim(), "true" | "TRUE" | "True") {
            "Java's broker takes `true ` for false"
        } else {
            "Java's broker takes them as part of the value"
        };
        let text = format!("blanks at the end of the line are cut off here; {java}: remove them");
        findings.push(Finding::warning("trailing-blank", name, text));
    }
    let value = value.trim();
    if let Some((_, comment)) = value.split_once(" #").or_else(|| value.split_once("\t#")) {
        let text = format!(
            "`#{comment}` is part of the value: a properties file has comments on lines of their \
             own only"
        );
        findings.push(Finding::warning("comment-in-value", name, text));
    }
    let quoted = |mark| value.len() >= 2 && value.starts_with(mark) && value.ends_with(mark);
    if quoted('"') || quoted('\'') {
        findings.push(Finding::warning(
            "quoted-value",
            name,
            "the quotation marks are part of the value: remove them",
        ));
    }
    findings
}

fn unknown(name: &str, nearest: Option<&'static str>) -> Finding {
    match nearest {
        Some(near) if near.eq_ignore_ascii_case(name) => Finding::error(
            "misspelt-key",
            name,
            format!("is ignored: names are case sensitive, write {near}"),
        ),
        Some(near) => Finding::error(
            "misspelt-key",
            name,
            format!("is no key and is ignored: did you mean {near}?"),
        ),
        None => Finding::warning("unknown-key", name, "is no key and is ignored: remove it"),
    }
}
