//! Names of topics and groups: what is allowed, and what is reserved (`TopicValidator.java`,
//! `MixAll.java`).

/// The template of topics that are created by a first send.
pub const AUTO_CREATE_TOPIC_KEY_TOPIC: &str = "TBW102";
/// Where delayed messages wait.
pub const SCHEDULE_TOPIC: &str = "SCHEDULE_TOPIC_XXXX";
/// For measurements.
pub const BENCHMARK_TOPIC: &str = "BenchmarkTest";
/// Where half messages wait.
pub const TRANS_HALF_TOPIC: &str = "RMQ_SYS_TRANS_HALF_TOPIC";
/// Marks of half messages that were ended.
pub const TRANS_OP_HALF_TOPIC: &str = "RMQ_SYS_TRANS_OP_HALF_TOPIC";
/// Half messages that were checked too often.
pub const TRANS_CHECK_MAX_TIME_TOPIC: &str = "TRANS_CHECK_MAX_TIME_TOPIC";
/// Message traces.
pub const TRACE_TOPIC: &str = "RMQ_SYS_TRACE_TOPIC";
/// Self tests.
pub const SELF_TEST_TOPIC: &str = "SELF_TEST_TOPIC";
/// Offsets that were out of range.
pub const OFFSET_MOVED_EVENT: &str = "OFFSET_MOVED_EVENT";
/// Timer messages.
pub const TIMER_TOPIC: &str = "rmq_sys_wheel_timer";

/// Before the group's name in its retry topic.
pub const RETRY_PREFIX: &str = "%RETRY%";
/// Before the group's name in its dead letter topic.
pub const DLQ_PREFIX: &str = "%DLQ%";
/// Before the name of a light queue.
pub const LMQ_PREFIX: &str = "%LMQ%";
/// Before the names of system topics, in lower case.
pub const SYSTEM_PREFIX: &str = "rmq_sys_";
/// Before the names of system groups.
pub const SYSTEM_GROUP_PREFIX: &str = "CID_RMQ_SYS_";
/// Group of tools, which pull without heartbeat.
pub const TOOLS_CONSUMER: &str = "TOOLS_CONSUMER";

/// Longest topic, in characters.
pub const MAX_TOPIC: usize = 127;
/// Longest retry or dead letter topic, in characters.
pub const MAX_RETRY_TOPIC: usize = 255;
/// Longest group, in characters.
pub const MAX_GROUP: usize = 120;

const SYSTEM_TOPICS: [&str; 16] = [
    AUTO_CREATE_TOPIC_KEY_TOPIC,
    SCHEDULE_TOPIC,
    BENCHMARK_TOPIC,
    TRANS_HALF_TOPIC,
    TRACE_TOPIC,
    TRANS_OP_HALF_TOPIC,
    TRANS_CHECK_MAX_TIME_TOPIC,
    SELF_TEST_TOPIC,
    OFFSET_MOVED_EVENT,
    "CHECKPOINT_TOPIC",
    "RMQ_SYS_TOPIC_CONFIG_SYNC",
    "RMQ_SYS_CONSUMER_OFFSET_SYNC",
    "RMQ_SYS_DELAY_OFFSET_SYNC",
    "RMQ_SYS_SUBSCRIPTION_GROUP_SYNC",
    "RMQ_SYS_MESSAGE_MODE_SYNC",
    "RMQ_SYS_TIMER_METRICS_SYNC",
];

/// Why a name is refused. The texts are Java's, which go into remarks.
#[derive(Debug, thiserror::Error, Clone, PartialEq, Eq)]
pub enum NameError {
    /// Nothing but blanks.
    #[error("The specified {0} is blank.")]
    Blank(&'static str),
    /// A character that is not allowed.
    #[error(
        "The specified {kind}: {name}, contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$"
    )]
    Characters {
        /// "topic" or "group".
        kind: &'static str,
        /// The name.
        name: String,
    },
    /// Longer than its kind may be.
    #[error("The specified {kind}: {name}, is longer than {kind} max length: {limit}")]
    TooLong {
        /// "topic" or "group".
        kind: &'static str,
        /// The name.
        name: String,
        /// The bound in characters.
        limit: usize,
    },
    /// A retry or dead letter topic that is too long.
    #[error(
        "The specified topic is DLQ or Retry topic: {0}, and it's longer than topic max length: 255"
    )]
    RetryTooLong(String),
}

/// Whether a topic's name is one.
///
/// # Errors
/// It is blank, too long, or has a character that is not allowed.
pub fn validate_topic(topic: &str) -> Result<(), NameError> {
    validate_characters("topic", topic)?;
    if is_retry_topic(topic) || is_dlq_topic(topic) {
        if topic.len() > MAX_RETRY_TOPIC {
            return Err(NameError::RetryTooLong(topic.to_owned()));
        }
        return Ok(());
    }
    validate_length("topic", topic, MAX_TOPIC)
}

/// Whether a group's name is one.
///
/// # Errors
/// It is blank, too long, or has a character that is not allowed.
pub fn validate_group(group: &str) -> Result<(), NameError> {
    validate_characters("group", group)?;
    validate_length("group", group, MAX_GROUP)
}

fn validate_characters(kind: &'static str, name: &str) -> Result<(), NameError> {
    if name.trim().is_empty() {
        return Err(NameError::Blank(kind));
    }
    let allowed =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'%' | b'|' | b'_' | b'-');
    if name.bytes().all(allowed) {
        return Ok(());
    }
    // The remark goes back in a header: a name of megabytes must not.
    let name = name.chars().take(MAX_RETRY_TOPIC).collect();
    Err(NameError::Characters { kind, name })
}

fn validate_length(kind: &'static str, name: &str, limit: usize) -> Result<(), NameError> {
    if name.len() > limit {
        let name = name.chars().take(MAX_RETRY_TOPIC).collect();
        return Err(NameError::TooLong { kind, name, limit });
    }
    Ok(())
}

/// Whether a topic belongs to the system. A broker adds topics named after itself and its cluster.
pub fn is_system_topic(topic: &str) -> bool {
    SYSTEM_TOPICS.contains(&topic) || topic.starts_with(SYSTEM_PREFIX)
}

/// All names of system topics that are fixed.
pub fn system_topics() -> &'static [&'static str] {
    &SYSTEM_TOPICS
}

/// Whether clients may not send to a topic.
pub fn is_not_allowed_send_topic(topic: &str) -> bool {
    matches!(
        topic,
        SCHEDULE_TOPIC
            | TRANS_HALF_TOPIC
            | TRANS_OP_HALF_TOPIC
            | TRANS_CHECK_MAX_TIME_TOPIC
            | SELF_TEST_TOPIC
            | OFFSET_MOVED_EVENT
            | "RMQ_SYS_TOPIC_CONFIG_SYNC"
            | "RMQ_SYS_CONSUMER_OFFSET_SYNC"
            | "RMQ_SYS_DELAY_OFFSET_SYNC"
            | "RMQ_SYS_SUBSCRIPTION_GROUP_SYNC"
            | "RMQ_SYS_MESSAGE_MODE_SYNC"
            | "RMQ_SYS_TIMER_METRICS_SYNC"
    )
}

/// The retry topic of a group.
pub fn retry_topic(group: &str) -> String {
    format!("{RETRY_PREFIX}{group}")
}

/// The dead letter topic of a group.
pub fn dlq_topic(group: &str) -> String {
    format!("{DLQ_PREFIX}{group}")
}

/// Whether a topic is a group's retry topic.
pub fn is_retry_topic(topic: &str) -> bool {
    topic.starts_with(RETRY_PREFIX)
}

/// Whether a topic is a group's dead letter topic.
pub fn is_dlq_topic(topic: &str) -> bool {
    topic.starts_with(DLQ_PREFIX)
}

/// The group of a retry topic.
pub fn group_of_retry_topic(topic: &str) -> Option<&str> {
    topic.strip_prefix(RETRY_PREFIX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_have_javas_texts() {
        let long = "t".repeat(128);
        let retry = format!("%RETRY%{}", "g".repeat(249));
        let cases = [
            (" ", "The specified topic is blank.".to_owned()),
            (
                "bad/name",
                "The specified topic: bad/name, contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$"
                    .to_owned(),
            ),
            (&long, format!("The specified topic: {long}, is longer than topic max length: 127")),
            (
                &retry,
                format!("The specified topic is DLQ or Retry topic: {retry}, and it's longer than topic max length: 255"),
            ),
        ];
        for (topic, text) in cases {
            assert_eq!(validate_topic(topic).unwrap_err().to_string(), text);
        }
        let long = "g".repeat(121);
        let text = format!("The specified group: {long}, is longer than group max length: 120");
        assert_eq!(validate_group(&long).unwrap_err().to_string(), text);
    }

    #[test]
    fn names_at_the_limits_are_taken() {
        let retry = format!("%RETRY%{}", "g".repeat(248));
        let topic = "t".repeat(127);
        for name in ["T", "%LMQ%a|b_c-d", &topic, &retry, "%DLQ%g"] {
            assert_eq!(validate_topic(name), Ok(()), "{name}");
        }
        assert_eq!(validate_group(&"g".repeat(120)), Ok(()));
    }

    #[test]
    fn paths_controls_and_other_scripts_are_refused() {
        for name in ["../x", "%2e.", "a\0", "a b", "\u{fc}", "a\n", "."] {
            assert!(validate_topic(name).is_err(), "{name:?}");
            assert!(validate_group(name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn system_topics_are_known() {
        assert!(is_system_topic("TBW102") && is_system_topic("rmq_sys_REVIVE_LOG_C"));
        assert!(!is_system_topic("T") && !is_system_topic("%RETRY%g"));
        assert!(is_not_allowed_send_topic("RMQ_SYS_TRANS_HALF_TOPIC"));
        assert!(!is_not_allowed_send_topic("TBW102"));
        assert_eq!(group_of_retry_topic(&retry_topic("g")), Some("g"));
    }
}
