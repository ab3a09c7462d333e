//! References: fastjson writes `{"$ref":"$.a.b"}` where the same Java object occurs again.

use super::Value;

/// Larger values are not copied, so that a few references cannot fill the memory.
const MAX_COPY: usize = 1_024;
/// Values that all references of one text may copy.
const MAX_COPIES: usize = 200_000;
/// Entries that may be looked at on the way to what all references of one text mean.
const MAX_VISITS: usize = 20_000_000;

/// What may still be spent on following references.
struct Budget {
    copies: usize,
    visits: usize,
}

/// Replaces references by copies of what they mean; those that cannot be followed become null,
/// which reads as absent. References within a copy are not followed.
pub(super) fn resolve(root: &mut Value) {
    if !has_reference(root) {
        return;
    }
    let original = root.clone();
    let mut budget = Budget { copies: MAX_COPIES, visits: MAX_VISITS };
    replace(root, &original, &mut budget);
}

fn path(value: &Value) -> Option<&str> {
    match value {
        Value::Object(entries) => match entries.as_slice() {
            [(Value::Text(name), Value::Text(path))] if name == "$ref" => Some(path),
            _ => None,
        },
        _ => None,
    }
}

fn has_reference(value: &Value) -> bool {
    match value {
        Value::Array(elements) => elements.iter().any(has_reference),
        Value::Object(entries) => {
            path(value).is_some()
                || entries.iter().any(|(key, value)| has_reference(key) || has_reference(value))
        }
        _ => false,
    }
}

fn replace(value: &mut Value, root: &Value, budget: &mut Budget) {
    if let Some(path) = path(value) {
        let found = follow(root, path, &mut budget.visits);
        *value = found.and_then(|found| copy(found, &mut budget.copies)).unwrap_or_default();
        return;
    }
    match value {
        Value::Array(elements) => {
            elements.iter_mut().for_each(|element| replace(element, root, budget));
        }
        Value::Object(entries) => {
            for (key, value) in entries {
                replace(key, root, budget);
                replace(value, root, budget);
            }
        }
        _ => {}
    }
}

/// Follows `$.name.name[index]`. A backslash takes the character behind it as part of a name.
fn follow<'a>(root: &'a Value, path: &str, visits: &mut usize) -> Option<&'a Value> {
    let mut value = root;
    for step in steps(path.strip_prefix('$')?) {
        *visits = visits.checked_sub(value.entries().map_or(1, <[_]>::len))?;
        value = match step {
            Step::Name(name) => value.get(&name)?,
            Step::Index(index) => value.elements()?.get(index)?,
        };
    }
    Some(value)
}

enum Step {
    Name(String),
    Index(usize),
}

fn steps(path: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut letters = path.chars();
    while let Some(letter) = letters.next() {
        match (letter, steps.last_mut()) {
            ('.', _) => steps.push(Step::Name(String::new())),
            ('[', _) => {
                let digits: String = letters.by_ref().take_while(|&letter| letter != ']').collect();
                // An index that is none leads nowhere.
                steps.push(Step::Index(digits.parse().unwrap_or(usize::MAX)));
            }
            ('\\', Some(Step::Name(name))) => name.extend(letters.next()),
            (letter, Some(Step::Name(name))) => name.push(letter),
            (letter, _) => steps.push(Step::Name(letter.to_string())),
        }
    }
    steps
}

/// A copy without references in it, as long as the budget lasts.
fn copy(value: &Value, budget: &mut usize) -> Option<Value> {
    let size = count(value, MAX_COPY)?;
    *budget = budget.checked_sub(size)?;
    let mut copy = value.clone();
    forget(&mut copy);
    Some(copy)
}

fn forget(value: &mut Value) {
    if path(value).is_some() {
        *value = Value::Null;
        return;
    }
    match value {
        Value::Array(elements) => elements.iter_mut().for_each(forget),
        Value::Object(entries) => entries.iter_mut().for_each(|entry| forget(&mut entry.1)),
        _ => {}
    }
}

/// Number of values within a value, unless more than a limit.
fn count(value: &Value, limit: usize) -> Option<usize> {
    let inner = |total: usize, value| {
        let total = total + count(value, limit.checked_sub(total)?)?;
        (total <= limit).then_some(total)
    };
    match value {
        Value::Array(elements) => elements.iter().try_fold(1, inner),
        Value::Object(entries) => {
            entries.iter().flat_map(|(key, value)| [key, value]).try_fold(1, inner)
        }
        _ => (limit > 0).then_some(1),
    }
}
