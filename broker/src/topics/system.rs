//! Topics that a broker has by itself (`TopicConfigManager.init`, `TopicValidator.java`).

use protocol::{
    body::TopicConfig,
    message::sys_flag::{perm, topic::UNIT},
    name,
};

use super::TEMPLATE;
use crate::{
    config::BrokerConfig,
    pop::names::{is_revive_topic, revive_topic},
};

/// Whether no producer may send to a topic.
pub(crate) fn refuses_sends(topic: &str) -> bool {
    name::is_not_allowed_send_topic(topic)
        || topic == name::TIMER_TOPIC
        || is_revive_topic(topic)
        || is_journal(topic)
}

/// Whether a topic is the broker's own journal, which no client sees.
pub(crate) fn is_journal(topic: &str) -> bool {
    topic == store::journal::TOPIC
}

/// Names the attribute of a topic by which its messages would have to be stored in a way that does
/// not exist yet: a table of Java's may hold such topics.
pub(crate) fn check_kind(topic: &TopicConfig) -> Result<(), String> {
    for (name, plain) in [("queue.type", "SimpleCQ"), ("cleanup.policy", "DELETE")] {
        if let Some(value) = topic.attributes.get(name).filter(|value| *value != plain) {
            return Err(format!("{name}={value}"));
        }
    }
    Ok(())
}

/// A topic of clients that may be read and written.
pub(crate) fn read_write(name: &str, queues: i32, unit_mode: bool) -> TopicConfig {
    TopicConfig { topic_sys_flag: if unit_mode { UNIT } else { 0 }, ..topic(name, queues) }
}

fn topic(name: &str, queues: i32) -> TopicConfig {
    TopicConfig {
        topic_name: name.to_owned(),
        read_queue_nums: queues,
        write_queue_nums: queues,
        perm: perm::READ | perm::WRITE,
        ..TopicConfig::default()
    }
}

/// The topics that exist from the start.
pub(super) fn topics(config: &BrokerConfig) -> Vec<TopicConfig> {
    let (cluster, broker) = (&config.broker_cluster_name, &config.broker_name);
    let with_perm = |name: &str, queues, perm| TopicConfig { perm, ..topic(name, queues) };
    let inherit = |enabled| perm::INHERIT | if enabled { perm::READ | perm::WRITE } else { 0 };
    let levels = i32::try_from(config.message_delay_level.highest()).unwrap_or(i32::MAX);
    let mut topics = vec![
        topic(name::SELF_TEST_TOPIC, 1),
        topic(name::BENCHMARK_TOPIC, 1024),
        with_perm(cluster, 16, inherit(config.cluster_topic_enable)),
        with_perm(broker, 1, inherit(config.broker_topic_enable)),
        topic(name::OFFSET_MOVED_EVENT, 1),
        topic(name::SCHEDULE_TOPIC, levels),
        topic(&format!("{cluster}_REPLY_TOPIC"), 1),
        topic(&revive_topic(cluster), 8),
        with_perm(&format!("rmq_sys_SYNC_BROKER_MEMBER_{broker}"), 1, perm::INHERIT),
        topic(name::TRANS_HALF_TOPIC, 1),
        topic(name::TRANS_OP_HALF_TOPIC, 1),
        topic(name::TIMER_TOPIC, 1),
    ];
    if config.auto_create_topic_enable {
        let queues = i32::try_from(config.default_topic_queue_nums).unwrap_or(i32::MAX);
        topics.push(with_perm(TEMPLATE, queues, inherit(true)));
    }
    if config.trace_topic_enable {
        topics.push(topic(&config.msg_trace_topic_name, 1));
    }
    topics
}

/// The names that belong to the broker, whether the topics exist or not.
pub(super) fn names(config: &BrokerConfig) -> Vec<String> {
    let mut names: Vec<String> = topics(config).into_iter().map(|topic| topic.topic_name).collect();
    for fixed in [TEMPLATE, name::TRACE_TOPIC, name::TRANS_CHECK_MAX_TIME_TOPIC] {
        if !names.iter().any(|present| present == fixed) {
            names.push(fixed.to_owned());
        }
    }
    names.sort_unstable();
    names
}
