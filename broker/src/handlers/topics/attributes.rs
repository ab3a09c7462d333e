//! Attributes of a topic: `+key=value` sets, `-key` removes (`TopicAttributes.java`,
//! `AttributeUtil.java`).

use std::collections::BTreeMap;

use protocol::code::response;

use crate::{call::Rejection, topics::Topic};

/// One attribute that topics have.
struct Attribute {
    name: &'static str,
    values: &'static [&'static str],
    /// Whether it may change once the topic exists.
    mutable: bool,
}

/// The values are those that can be served; others of Java's are in [`UNSERVED`].
const ATTRIBUTES: [Attribute; 4] = [
    Attribute { name: "queue.type", values: &["SimpleCQ"], mutable: false },
    Attribute { name: "cleanup.policy", values: &["DELETE"], mutable: false },
    Attribute {
        name: "message.type",
        values: &["UNSPECIFIED", "NORMAL", "FIFO", "DELAY", "TRANSACTION", "PRIORITY", "MIXED"],
        mutable: true,
    },
    // A time in milliseconds, for the tiered store alone; kept and without effect.
    Attribute { name: "reserve.time", values: &[], mutable: true },
];

/// Kinds of topics that do not exist here, and what to do instead; making one would store its messages
/// wrongly.
const UNSERVED: [(&str, &str, &str); 4] = [
    ("queue.type", "BatchCQ", "queues are SimpleCQ; leave the attribute out"),
    ("queue.type", "RocksDBCQ", "queues are SimpleCQ; leave the attribute out"),
    (
        "cleanup.policy",
        "COMPACTION",
        "messages are kept until retention takes them; leave the attribute out",
    ),
    ("message.type", "LITE", "light queues (INNER_MULTI_DISPATCH) are, with enableLmq"),
];

/// The attributes after the changes.
pub(super) fn changed(
    present: Option<&Topic>,
    changes: &str,
) -> Result<BTreeMap<String, String>, Rejection> {
    let mut attributes = present.map(|topic| topic.attributes.clone()).unwrap_or_default();
    for change in changes.split(',').map(str::trim).filter(|change| !change.is_empty()) {
        let (pair, sets) = match (change.strip_prefix('+'), change.strip_prefix('-')) {
            (Some(pair), _) => (pair, true),
            (_, Some(pair)) => (pair, false),
            _ => {
                return Err(wrong(format!(
                    "attribute {change} has no sign: +key=value sets, -key removes"
                )));
            }
        };
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let known = ATTRIBUTES
            .iter()
            .find(|attribute| attribute.name == name)
            .ok_or_else(|| wrong(format!("unsupported key: {name}")))?;
        if !known.mutable && present.is_some() {
            return Err(wrong(format!("attempt to update an unchangeable attribute. key: {name}")));
        }
        if !sets {
            attributes.remove(name);
            continue;
        }
        check(known, value)?;
        attributes.insert(name.to_owned(), value.to_owned());
    }
    Ok(attributes)
}

fn check(known: &Attribute, value: &str) -> Result<(), Rejection> {
    let name = known.name;
    if let Some((_, _, instead)) = UNSERVED.iter().find(|one| (one.0, one.1) == (name, value)) {
        return Err(wrong(format!("topics with {name}={value} are not served here: {instead}")));
    }
    let sound = if known.values.is_empty() {
        value.parse::<i64>().is_ok()
    } else {
        known.values.contains(&value)
    };
    if !sound {
        return Err(wrong(format!("value {value} is not in set: {name} takes {:?}", known.values)));
    }
    if (name, value) == ("message.type", "MIXED") {
        return Err(Rejection::new(
            response::INVALID_PARAMETER,
            "MIXED message type is not supported.",
        ));
    }
    Ok(())
}

fn wrong(text: String) -> Rejection {
    Rejection::new(response::SYSTEM_ERROR, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_set_and_removed() {
        let urgent = changed(None, "+message.type=PRIORITY").expect("sound");
        assert_eq!(urgent.get("message.type").map(String::as_str), Some("PRIORITY"));
        let made = changed(None, "+message.type=FIFO,+queue.type=SimpleCQ").expect("sound");
        assert_eq!(made.get("message.type").map(String::as_str), Some("FIFO"));
        let topic = Topic { attributes: made, ..Topic::default() };
        let left = changed(Some(&topic), "-message.type").expect("sound");
        assert!(!left.contains_key("message.type"));
        changed(Some(&topic), "+queue.type=SimpleCQ").expect_err("unchangeable");
    }

    #[test]
    fn what_cannot_be_served_is_refused() {
        for changes in [
            "+queue.type=BatchCQ",
            "+queue.type=RocksDBCQ",
            "+cleanup.policy=COMPACTION",
            "+message.type=LITE",
            "message.type=FIFO",
            "+x=y",
            "+message.type=ODD",
        ] {
            assert_eq!(changed(None, changes).expect_err(changes).code, response::SYSTEM_ERROR);
        }
        let mixed = changed(None, "+message.type=MIXED").expect_err("off by default");
        assert_eq!(mixed.code, response::INVALID_PARAMETER);
    }
}
