//! Topics of pop consumption (`KeyBuilder.java`, `PopAckConstants.java`).

use protocol::name::RETRY_PREFIX;

/// What the names of revive topics begin with; the cluster's name follows.
const REVIVE_PREFIX: &str = "rmq_sys_REVIVE_LOG_";

/// The group whose consumer offsets say how far the revive topic is done with: the offset of the
/// last record that is, as Java has it.
pub(crate) const REVIVE_GROUP: &str = "CID_RMQ_SYS_REVIVE_GROUP";

/// Queue number in the place of a revive queue's: the messages were popped in order.
pub(crate) const ORDERED: i32 = 999;

/// The topic of check points and acknowledgements.
pub(crate) fn revive_topic(cluster: &str) -> String {
    format!("{REVIVE_PREFIX}{cluster}")
}

/// Whether a topic holds check points: what stands there can name any topic.
pub(crate) fn is_revive_topic(topic: &str) -> bool {
    topic.starts_with(REVIVE_PREFIX)
}

/// The two forms of the topic to which messages of `topic` come back that `group` did not finish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// With an underscore, the default.
    V1,
    /// With a plus sign (`enableRetryTopicV2`).
    V2,
}

/// The retry topic of a group and topic.
pub(crate) fn retry_topic(topic: &str, group: &str, form: Form) -> String {
    let separator = match form {
        Form::V1 => '_',
        Form::V2 => '+',
    };
    format!("{RETRY_PREFIX}{group}{separator}{topic}")
}

/// The topic whose messages a retry topic of the group holds; another topic is its own.
pub(crate) fn normal_topic<'a>(topic: &'a str, group: &str) -> &'a str {
    let of_group = topic.strip_prefix(RETRY_PREFIX).and_then(|rest| rest.strip_prefix(group));
    of_group.and_then(|rest| rest.strip_prefix(['_', '+'])).unwrap_or(topic)
}

/// How handles and answers name a topic: 0 the topic itself, 1 and 2 the forms of retry topics.
pub(crate) fn flag(topic: &str) -> &'static str {
    match topic.starts_with(RETRY_PREFIX) {
        false => "0",
        true if topic.contains('+') => "2",
        true => "1",
    }
}

/// The topic that a flag means; `None` where it is none.
pub(crate) fn by_flag(flag: &str, topic: &str, group: &str) -> Option<String> {
    match flag {
        "0" => Some(topic.to_owned()),
        "1" => Some(retry_topic(topic, group, Form::V1)),
        "2" => Some(retry_topic(topic, group, Form::V2)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_topics_have_two_forms() {
        for (form, name, of) in [(Form::V1, "%RETRY%g_T_1", "1"), (Form::V2, "%RETRY%g+T_1", "2")] {
            assert_eq!(retry_topic("T_1", "g", form), name);
            assert_eq!(normal_topic(name, "g"), "T_1");
            assert_eq!(flag(name), of);
            assert_eq!(by_flag(of, "T_1", "g").as_deref(), Some(name));
        }
        assert_eq!(normal_topic("T", "g"), "T");
        assert_eq!(normal_topic("%RETRY%other_T", "g"), "%RETRY%other_T", "of another group");
        assert_eq!((flag("T"), by_flag("0", "T", "g").as_deref()), ("0", Some("T")));
        assert_eq!(by_flag("3", "T", "g"), None);
        assert!(is_revive_topic(&revive_topic("c")));
    }
}
