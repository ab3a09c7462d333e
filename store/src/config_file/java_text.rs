//! The text form in which Java writes its configuration files: fastjson's pretty format.
//!
//! Members stand on lines of their own behind tabs; arrays stand on one line; a map with integer
//! keys has them bare, on one line, and ends on the next.

use serde_json::Value;

/// How [`java_text`] writes.
#[derive(Clone, Copy)]
pub struct JavaText<'a> {
    /// Whether the map at this path (names of the members above it) has integer keys, which Java
    /// writes bare. `consumerOffset.json`: the maps in `offsetTable`; `delayOffset.json`:
    /// `offsetTable` itself.
    pub integer_keys: &'a dyn Fn(&[&str]) -> bool,
}

impl std::fmt::Debug for JavaText<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("JavaText").finish_non_exhaustive()
    }
}

/// The value as Java writes it to a file of config/.
pub fn java_text(value: &Value, form: JavaText<'_>) -> String {
    let mut text = String::new();
    write(value, form, &mut Vec::new(), &mut text);
    text
}

fn write<'a>(value: &'a Value, form: JavaText<'_>, path: &mut Vec<&'a str>, text: &mut String) {
    match value {
        Value::Object(members) if members.is_empty() => text.push_str("{}"),
        Value::Object(members) => {
            let bare = (form.integer_keys)(path);
            text.push('{');
            for (nth, (name, member)) in members.iter().enumerate() {
                if nth > 0 {
                    text.push(',');
                }
                if bare {
                    text.push_str(name);
                } else {
                    new_line(path.len() + 1, text);
                    text.push_str(&Value::from(name.as_str()).to_string());
                }
                text.push(':');
                path.push(name);
                write(member, form, path, text);
                path.pop();
            }
            new_line(path.len(), text);
            text.push('}');
        }
        Value::Array(items) => {
            text.push('[');
            for (nth, item) in items.iter().enumerate() {
                if nth > 0 {
                    text.push(',');
                }
                write(item, form, path, text);
            }
            text.push(']');
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            text.push_str(&value.to_string());
        }
    }
}

fn new_line(depth: usize, text: &mut String) {
    text.push('\n');
    text.extend(std::iter::repeat_n('\t', depth));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn delay_offsets_are_written_byte_for_byte_as_java_does() {
        let value = json!({
            "dataVersion": {"counter": 44, "stateVersion": 0, "timestamp": 1_795_963_995_874_u64},
            "offsetTable": {"2": 1, "3": 8},
        });
        let form = JavaText { integer_keys: &|path| path == ["offsetTable"] };
        let expected = "{\n\t\"dataVersion\":{\n\t\t\"counter\":44,\n\t\t\"stateVersion\":0,\n\t\t\
                        \"timestamp\":1795963995874\n\t},\n\t\"offsetTable\":{2:1,3:8\n\t}\n}";
        assert_eq!(java_text(&value, form), expected);
    }

    fn lines(text: &str) -> Vec<&str> {
        let mut lines: Vec<_> = text.lines().map(|line| line.trim_end_matches(',')).collect();
        lines.sort_unstable();
        lines
    }

    /// Java's maps have no order that could be kept, so lines are compared.
    #[test]
    fn tables_of_topics_and_groups_have_the_lines_that_java_writes() {
        let topics = include_str!("../../testdata/topics.json");
        let groups = include_str!("../../testdata/subscriptionGroup.json");
        for java in [topics, groups] {
            let value: Value = serde_json::from_str(java).unwrap();
            let ours = java_text(&value, JavaText { integer_keys: &|_| false });
            assert_eq!(lines(&ours), lines(java));
        }
    }

    /// The sample of consumerOffset.json, its members in the order of their names.
    #[test]
    fn consumer_offsets_have_the_lines_that_java_writes() {
        let value = json!({
            "dataVersion": {"counter": 0, "stateVersion": 0, "timestamp": 1_795_962_943_617_u64},
            "groupTopicMap": {
                "PlGroup": ["PlNormal", "PlDelay", "PlTx", "PlTimer"],
                "CID_RMQ_SYS_TRANS": ["RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC"],
            },
            "offsetTable": {
                "PlDelay@PlGroup": {"0": 1},
                "RMQ_SYS_TRANS_OP_HALF_TOPIC@CID_RMQ_SYS_TRANS": {"0": 1},
                "PlTimer@PlGroup": {"0": 1},
                "RMQ_SYS_TRANS_HALF_TOPIC@CID_RMQ_SYS_TRANS": {"0": 18},
                "PlNormal@PlGroup": {"0": 20, "1": 19},
                "PlTx@PlGroup": {"1": 1},
            },
        });
        let form = JavaText { integer_keys: &|path| path.len() == 2 && path[0] == "offsetTable" };
        let java = include_str!("../../testdata/consumerOffset.json");
        assert_eq!(lines(&java_text(&value, form)), lines(java));
    }
}
