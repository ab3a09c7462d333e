//! Whether all nodes of a group that runs have the same: log, queues, topics, groups, offsets of
//! groups, progress of delayed messages.
//!
//! Queues are asked for at each node, tables are read from the files that each node writes for them.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::{Context, Result};
use interop::process::wait_until;
use serde_json::Value;

use crate::{
    brokers::{Brokers, SERVES},
    queues::Queue,
    traffic::{DELAYED, GROUP},
};

/// The files of the tables, with the field that has the table.
const FILES: [(&str, &str); 5] = [
    ("topics.json", "topicConfigTable"),
    ("subscriptionGroup.json", "subscriptionGroupTable"),
    ("consumerOffset.json", "offsetTable"),
    ("delayOffset.json", "offsetTable"),
    ("messageRequestMode.json", "messageRequestModeMap"),
];

/// What one node has.
#[derive(Debug, Clone, PartialEq)]
struct Node {
    /// End of the log, and how far the queues are behind it.
    log: (String, String),
    /// Begin and end of the queues of the topic, and of its delayed messages.
    queues: [Vec<(i64, i64)>; 2],
    /// The tables in the order of [`FILES`].
    tables: Vec<Value>,
}

/// Waits until all nodes have the same, and every offset in `commits` or a later one. The load must
/// rest.
///
/// # Errors
/// Where nodes still differ in the end, and in what.
pub fn check(brokers: &Brokers, topic: &str, commits: &BTreeMap<Queue, i64>) -> Result<()> {
    let mut last = String::new();
    let same = wait_until("all nodes have the same tables and queues", SERVES, || {
        let nodes = (0..brokers.size()).map(|number| node(brokers, number, topic));
        let verdict = nodes.collect::<Result<Vec<_>>>().map(|nodes| differ(&nodes, commits));
        match verdict {
            Ok(None) => return true,
            Ok(Some(difference)) => last = difference,
            Err(error) => last = format!("{error:#}"),
        }
        false
    });
    same.context(last)
}

/// Waits until every node knows that all delayed messages have come to their queues. None may be sent
/// meanwhile.
///
/// # Errors
/// Where some have not in time.
pub fn delivered(brokers: &Brokers) -> Result<()> {
    let mut last = String::new();
    let all = wait_until("all delayed messages have come", SERVES, || {
        let progress = (0..brokers.size()).map(|number| {
            let waiting = brokers.queues(number, "SCHEDULE_TOPIC_XXXX")?.first()?.1;
            let path = brokers.store(number).join("config").join(FILES[3].0);
            Some((waiting, table(&path, FILES[3].1).ok()?["1"].as_i64().unwrap_or(0)))
        });
        let progress: Vec<_> = progress.collect();
        last = format!("messages of level 1, and how many have come: {progress:?}");
        progress.iter().all(|node| node.is_some_and(|(waiting, come)| waiting == come))
    });
    all.context(last)
}

fn node(brokers: &Brokers, number: usize, topic: &str) -> Result<Node> {
    let runtime = brokers.runtime(number).with_context(|| format!("n{number} says nothing"))?;
    let text = |name: &str| runtime[name].as_str().unwrap_or_default().to_owned();
    let queues = |topic: &str| {
        let queues = brokers.queues(number, topic);
        queues.with_context(|| format!("n{number} says nothing of {topic}"))
    };
    let config = brokers.store(number).join("config");
    let table = |(name, field): (&str, &str)| table(&config.join(name), field);
    Ok(Node {
        log: (text("commitLogMaxOffset"), text("dispatchBehindBytes")),
        queues: [queues(topic)?, queues(&format!("{topic}{DELAYED}"))?],
        tables: FILES.into_iter().map(table).collect::<Result<_>>()?,
    })
}

/// A table that has no file yet has nothing in it.
fn table(path: &Path, field: &str) -> Result<Value> {
    if !path.exists() {
        return Ok(Value::Null);
    }
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let value: Value =
        serde_json::from_str(&quoted(&text)).with_context(|| path.display().to_string())?;
    value.get(field).cloned().with_context(|| format!("{} has no {field}", path.display()))
}

/// The first difference, in words.
fn differ(nodes: &[Node], commits: &BTreeMap<Queue, i64>) -> Option<String> {
    let first = nodes.first()?;
    for (number, node) in nodes.iter().enumerate() {
        if node.log.1 != "0" {
            return Some(format!("the queues of n{number} are {} bytes behind", node.log.1));
        }
        if (&node.log, &node.queues) != (&first.log, &first.queues) {
            let text = |node: &Node| format!("{:?} {:?}", node.log, node.queues);
            return Some(format!("n0 has {}, n{number} {}", text(first), text(node)));
        }
        for (at, (name, _)) in FILES.iter().enumerate() {
            if let Some(difference) = entries(&first.tables[at], &node.tables[at]) {
                return Some(format!("{name} of n0 and n{number}: {difference}"));
            }
        }
        for (queue, commit) in commits {
            let key = format!("{}@{GROUP}", queue.topic);
            let offset = node.tables[2][&key][queue.id.to_string()].as_i64();
            if offset.is_none_or(|offset| offset < *commit) {
                let text = format!("{queue}: {GROUP} committed {commit}, n{number} has {offset:?}");
                return Some(text);
            }
        }
    }
    None
}

/// The first entry in which two tables differ.
fn entries(one: &Value, other: &Value) -> Option<String> {
    if one == other {
        return None;
    }
    let (Value::Object(ones), Value::Object(others)) = (one, other) else {
        return Some(format!("{one} and {other}"));
    };
    let differs = |key: &&String| ones.get(*key) != others.get(*key);
    let key = ones.keys().chain(others.keys()).find(differs)?;
    let text = |of: &serde_json::Map<String, Value>| {
        of.get(key).map_or_else(|| "nothing".to_owned(), ToString::to_string)
    };
    Some(format!("{key} is {} and {}", text(ones), text(others)))
}

/// JSON, whose numbers Java writes as keys without quotes.
fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let (mut inside, mut escaped, mut key) = (false, false, false);
    let mut number = String::new();
    for c in text.chars() {
        if key && c.is_ascii_digit() {
            number.push(c);
            continue;
        }
        if !number.is_empty() {
            let quote = if c == ':' { "\"" } else { "" };
            out.extend([quote, number.as_str(), quote]);
            number.clear();
        }
        out.push(c);
        let was_escaped = std::mem::take(&mut escaped);
        match c {
            '\\' if inside => escaped = !was_escaped,
            '"' if !was_escaped => inside = !inside,
            _ => {}
        }
        key = !inside && (matches!(c, '{' | ',') || key && c.is_ascii_whitespace());
    }
    out + &number
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(offset: i64) -> Node {
        let offsets = json!({ format!("T@{GROUP}"): { "0": offset } });
        Node {
            log: ("900".to_owned(), "0".to_owned()),
            queues: [vec![(0, 7)], vec![(0, 1)]],
            tables: vec![json!({ "T": {} }), json!({}), offsets, json!({ "1": 5 }), json!({})],
        }
    }

    fn commits(offset: i64) -> BTreeMap<Queue, i64> {
        [(Queue { topic: "T".to_owned(), id: 0 }, offset)].into()
    }

    #[test]
    fn equal_nodes_are_equal() {
        assert_eq!(differ(&[node(5), node(5)], &commits(5)), None);
    }

    #[test]
    fn each_difference_is_told() {
        let of = |change: fn(&mut Node)| {
            let mut other = node(5);
            change(&mut other);
            differ(&[node(5), other], &commits(5)).unwrap()
        };
        assert!(of(|node| node.log.0 = "800".to_owned()).contains("800"));
        assert!(of(|node| node.log.1 = "9".to_owned()).contains("9 bytes behind"));
        assert!(of(|node| node.queues[0][0].1 = 8).contains("(0, 8)"));
        assert!(of(|node| node.queues[1].clear()).contains("n1"));
        assert!(of(|node| node.tables[0]["U"] = json!({})).contains("topics.json"));
        assert!(of(|node| node.tables[1]["g"] = json!({})).contains("g is nothing and {}"));
        assert!(of(|node| node.tables[3]["1"] = json!(4)).contains("delayOffset.json"));
    }

    #[test]
    fn an_offset_that_all_have_forgotten_is_told() {
        let text = differ(&[node(4), node(4)], &commits(5)).unwrap();
        assert!(text.contains("committed 5") && text.contains("Some(4)"), "{text}");
        let other = [(Queue { topic: "T".to_owned(), id: 3 }, 1)].into();
        assert!(differ(&[node(4), node(4)], &other).unwrap().contains("None"));
    }

    #[test]
    fn keys_that_are_numbers_get_quotes() {
        let text = r#"{"a":{0:12, 1:3},"b":[1,2],"c":"{0:1","d\"":{ 7:{8:9}}}"#;
        let value: Value = serde_json::from_str(&quoted(text)).unwrap();
        let wanted = json!({
            "a": { "0": 12, "1": 3 }, "b": [1, 2], "c": "{0:1", "d\"": { "7": { "8": 9 } }
        });
        assert_eq!(value, wanted);
    }
}
