//! One line of the log for each change that others depend on: who, what, and what came of it.
//!
//! The lines have the target `audit`, so that `--log-level warn,audit=info` keeps them. Values of a
//! configuration are not told, and there are only so many lines a second: whoever can send requests
//! must not be able to fill a disk.

use std::net::SocketAddr;

use protocol::{Command, code::request};
use remoting::Quiet;

use crate::call::Rejection;

/// Codes that change configuration, topics, groups, offsets or files.
const AUDITED: [i32; 14] = [
    request::UPDATE_AND_CREATE_TOPIC,
    request::UPDATE_BROKER_CONFIG,
    request::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
    request::DELETE_SUBSCRIPTIONGROUP,
    request::DELETE_TOPIC_IN_BROKER,
    request::INVOKE_BROKER_TO_RESET_OFFSET,
    request::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST,
    request::UPDATE_AND_CREATE_TOPIC_LIST,
    request::CLEAN_EXPIRED_CONSUMEQUEUE,
    request::CLONE_GROUP_OFFSET,
    request::CLEAN_UNUSED_TOPIC,
    request::DELETE_EXPIRED_COMMITLOG,
    request::UPDATE_AND_GET_GROUP_FORBIDDEN,
    request::UPDATE_AND_CREATE_STATIC_TOPIC,
];

/// Header fields that say what is changed, by the names that requests have for them.
const SUBJECTS: [&str; 6] =
    ["topic", "group", "groupName", "consumerGroup", "srcGroup", "destGroup"];

/// Longest part of a stranger's text that is told, in characters.
const TOLD: usize = 128;

/// What is told of one request; taken before its handler has it.
#[derive(Debug)]
pub(crate) struct Audit {
    code: i32,
    subject: String,
}

/// The lines of one broker.
#[derive(Debug, Default)]
pub(crate) struct AuditLog(Quiet);

impl Audit {
    /// `None` where the request changes nothing that is audited.
    pub(crate) fn of(command: &Command) -> Option<Self> {
        AUDITED
            .contains(&command.code)
            .then(|| Self { code: command.code, subject: subject(command) })
    }
}

impl AuditLog {
    /// Tells what came of a request.
    pub(crate) fn tell(&self, audit: &Audit, peer: SocketAddr, refusal: Option<&Rejection>) {
        let Some(before) = self.0.line() else { return };
        let name = request::name(audit.code).unwrap_or("unknown");
        let subject = audit.subject.as_str();
        match refusal {
            None => tracing::info!(target: "audit", %peer, name, subject, before, "done"),
            Some(refusal) => {
                let (code, why) = (refusal.code, told(&refusal.remark));
                tracing::warn!(target: "audit", %peer, name, subject, code, why, before, "refused");
            }
        }
    }
}

fn subject(command: &Command) -> String {
    if command.code == request::UPDATE_BROKER_CONFIG {
        let text = String::from_utf8_lossy(&command.body);
        let pairs = protocol::properties_text::parse(&text).unwrap_or_default();
        let names: Vec<&str> = pairs.iter().map(|(name, _)| name.as_str()).take(16).collect();
        return told(&names.join(","));
    }
    let fields = SUBJECTS.iter().filter_map(|name| Some((name, command.field(name)?)));
    let fields: Vec<String> =
        fields.map(|(name, value)| format!("{name}={}", told(value))).collect();
    fields.join(" ")
}

/// A stranger's text for the log: bounded, on one line.
fn told(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).take(TOLD).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s_26_what_is_changed_is_told_without_values_and_on_one_line() {
        let update = Command::request(request::UPDATE_BROKER_CONFIG)
            .with_body("traceOn=planted\ntls.server.keyPassword=planted\n");
        let audit = Audit::of(&update).expect("audited");
        assert_eq!(audit.subject, "traceOn,tls.server.keyPassword");
        let delete = Command::request(request::DELETE_TOPIC_IN_BROKER)
            .with_field("topic", format!("a\nforged line{}", "x".repeat(10_000)));
        let audit = Audit::of(&delete).expect("audited");
        assert!(audit.subject.starts_with("topic=a?forged line"), "{}", audit.subject);
        assert!(audit.subject.len() < 200, "{}", audit.subject.len());
        assert!(Audit::of(&Command::request(request::SEND_MESSAGE_V2)).is_none());
    }
}
