//! Requests of a stock client to one broker, whatever its role.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use protocol::{
    Command,
    code::{request, response},
    message::record,
};
use remoting::{CallError, Client, ClientOptions, Connection};

use super::LONG;

/// A client with a runtime of its own.
pub(crate) struct Raw {
    runtime: tokio::runtime::Runtime,
    client: Client,
}

impl Raw {
    pub(crate) fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        let client = {
            let _within = runtime.enter();
            Client::new(ClientOptions::default())
        };
        Self { runtime, client }
    }

    pub(crate) fn call(&self, address: &str, request: Command) -> Result<Command, CallError> {
        self.runtime.block_on(self.client.call(address, request, LONG))
    }

    /// The connection to a broker.
    pub(crate) fn connection(&self, address: &str) -> Arc<Connection> {
        self.runtime.block_on(self.client.connection(address)).expect("a connection")
    }

    /// Asks until the answer is a success: a master that has just taken over may ask for patience.
    pub(crate) fn done(&self, address: &str, request: &Command) -> Command {
        let begun = Instant::now();
        loop {
            let told = match self.call(address, request.clone()) {
                Ok(answer) if answer.code == response::SUCCESS => return answer,
                Ok(answer) => format!("{}: {:?}", answer.code, answer.remark),
                Err(error) => error.to_string(),
            };
            assert!(begun.elapsed() < LONG, "{} of {address}: {told}", request.code);
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Sends one message, which must be stored; gives its queue offset.
    pub(crate) fn sent(&self, address: &str, topic: &str, body: &str, properties: &str) -> i64 {
        let answer =
            self.call(address, send(topic, body.to_owned(), properties)).expect("an answer");
        assert_eq!(answer.code, response::SUCCESS, "{:?}", answer.remark);
        answer.field("queueOffset").expect("an offset").parse().expect("a number")
    }

    /// Bodies that a broker shows from an offset of queue 0 on; nothing where it refuses.
    pub(crate) fn bodies(&self, address: &str, topic: &str, offset: u64) -> Vec<String> {
        let Ok(answer) = self.call(address, pull(topic, offset)) else { return Vec::new() };
        if answer.code != response::SUCCESS {
            return Vec::new();
        }
        let views = record::records(&answer.body).map(|view| view.expect("a record").to_record());
        views.map(|record| String::from_utf8(record.body.to_vec()).expect("a text")).collect()
    }

    /// All bodies that a broker shows in queue 0.
    pub(crate) fn all_bodies(&self, address: &str, topic: &str) -> Vec<String> {
        let mut all = Vec::new();
        loop {
            let found = self.bodies(address, topic, all.len() as u64);
            if found.is_empty() {
                return all;
            }
            all.extend(found);
        }
    }

    /// How many messages a broker shows in queue 0 from an offset on.
    pub(crate) fn all_bodies_from(&self, address: &str, topic: &str, from: u64) -> usize {
        let mut count = 0;
        loop {
            let found = self.bodies(address, topic, from + count as u64).len();
            if found == 0 {
                return count;
            }
            count += found;
        }
    }

    /// How far a group is in queue 0, where the broker tells.
    pub(crate) fn progress(&self, address: &str, group: &str, topic: &str) -> Option<i64> {
        let answer = self.call(address, of_group(request::QUERY_CONSUMER_OFFSET, group, topic));
        answer.ok()?.field("offset")?.parse().ok()
    }
}

/// A request about the progress of a group in queue 0.
pub(crate) fn of_group(code: i32, group: &str, topic: &str) -> Command {
    let command = Command::request(code).with_field("consumerGroup", group);
    command.with_field("topic", topic).with_field("queueId", "0")
}

/// SEND_MESSAGE_V2 to queue 0 of a topic that may be new: group, topic, template, its queues, queue...
pub(crate) fn send(topic: &str, body: impl Into<Bytes>, properties: &str) -> Command {
    let fields = [
        ("a", "P"),
        ("b", topic),
        ("c", "TBW102"),
        ("d", "4"),
        ("e", "0"),
        ("f", "0"),
        ("g", "1"),
        ("h", "0"),
        ("i", properties),
        ("j", "0"),
        ("k", "false"),
        ("m", "false"),
    ];
    let command = Command::request(request::SEND_MESSAGE_V2).with_body(body);
    fields.into_iter().fold(command, |command, (name, value)| command.with_field(name, value))
}

/// A pull of a tool that does not wait.
pub(crate) fn pull(topic: &str, offset: u64) -> Command {
    pull_by("TOOLS_CONSUMER", topic, offset)
}

/// A pull of a group that does not wait.
pub(crate) fn pull_by(group: &str, topic: &str, offset: u64) -> Command {
    let offset = offset.to_string();
    let fields = [
        ("consumerGroup", group),
        ("topic", topic),
        ("queueId", "0"),
        ("queueOffset", &offset),
        ("maxMsgNums", "32"),
        ("sysFlag", "4"),
        ("commitOffset", "0"),
        ("suspendTimeoutMillis", "0"),
        ("subscription", "*"),
        ("subVersion", "0"),
    ];
    let command = Command::request(request::PULL_MESSAGE);
    fields.into_iter().fold(command, |command, (name, value)| command.with_field(name, value))
}
