//! Pop consumption while the broker is killed: what was acknowledged comes no more, whatever else was
//! under way, and all else comes until it is.
#![expect(
    clippy::expect_used,
    reason = "this is a test, which starts processes; clippy knows only functions marked as tests"
)]

mod process;

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard},
    time::{Duration, Instant},
};

use process::{LONG, Server, raw::Raw};
use protocol::{
    Command,
    code::{request, response},
    header::{AckMessageRequest, PopMessageRequest},
    message::{properties, record, record::MessageRecord},
};

/// Messages that are sent before the first pop.
const MESSAGES: u32 = 240;
/// Kills of the broker.
const KILLS: u32 = 3;
/// Clients that pop at the same time.
const CLIENTS: u32 = 2;
/// How long a pop has its messages.
const INVISIBLE: Duration = Duration::from_secs(1);

/// What the clients saw of one message.
#[derive(Debug, Default)]
struct Life {
    /// When the pops were asked for that brought it.
    asked: Vec<Instant>,
    /// When an acknowledgement of it was first confirmed.
    done: Option<Instant>,
    /// Whether one was under way when the broker was killed: it may be done.
    perhaps: bool,
    /// What was said to others.
    refused: Vec<String>,
}

/// What they saw of all messages.
#[derive(Default)]
struct Book(Mutex<BTreeMap<u32, Life>>);

impl Book {
    fn lives(&self) -> MutexGuard<'_, BTreeMap<u32, Life>> {
        self.0.lock().expect("nobody panics")
    }

    fn done(&self) -> usize {
        self.lives().values().filter(|life| life.done.is_some() || life.perhaps).count()
    }
}

fn pop() -> Command {
    let header = PopMessageRequest {
        consumer_group: "G".into(),
        topic: "T".into(),
        queue_id: -1,
        max_msg_nums: 8,
        invisible_time: i64::try_from(INVISIBLE.as_millis()).expect("a short time"),
        ..PopMessageRequest::default()
    };
    Command::request_with(request::POP_MESSAGE, &header)
}

/// What a client makes of the answer: the handle of a message is in it, or in the fields.
fn handle(answer: &Command, message: &MessageRecord) -> String {
    let known = properties::decode(&message.properties);
    if let Some(handle) = known.get("POP_CK") {
        return handle.to_owned();
    }
    let field = |name: &str| answer.field(name).expect("a field").to_owned();
    let (queue, offset) = (message.queue_id.to_string(), message.queue_offset);
    let starts = field("startOffsetInfo");
    let mut starts = starts.split(';').map(|entry| entry.split(' ').collect::<Vec<_>>());
    let start = starts.find(|words| words[0] == "0" && words[1] == queue).expect("the queue")[2];
    let (time, invisible) = (field("popTime"), field("invisibleTime"));
    format!("{start} {time} {invisible} {} 0 broker-a {queue} {offset}", field("reviveQid"))
}

fn ack(handle: String, offset: i64) -> Command {
    let words: Vec<&str> = handle.split(' ').collect();
    let topic = if words[4] == "0" { "T" } else { "%RETRY%G_T" };
    let header = AckMessageRequest {
        consumer_group: "G".into(),
        topic: topic.into(),
        queue_id: words[6].parse().expect("a number"),
        extra_info: handle.clone(),
        offset,
        lite_topic: None,
    };
    Command::request_with(request::ACK_MESSAGE, &header)
}

/// Pops and acknowledges until the broker is gone, or `ends` says so. Every third message is left alone
/// when it comes for the first time.
fn client(address: &str, book: &Book, ends: &(dyn Fn() -> bool + Sync)) {
    let raw = Raw::new();
    while !ends() {
        let asked = Instant::now();
        let Ok(answer) = raw.call(address, pop()) else { return };
        if answer.code != response::SUCCESS {
            assert_eq!(answer.code, response::POLLING_TIMEOUT, "{:?}", answer.remark);
            std::thread::sleep(Duration::from_millis(10));
            continue;
        }
        for message in record::records(&answer.body) {
            let message = message.expect("a record").to_record();
            let text = std::str::from_utf8(&message.body).expect("a text");
            let number: u32 = text.parse().expect("a number");
            let first = {
                let mut lives = book.lives();
                let life = lives.entry(number).or_default();
                life.asked.push(asked);
                life.asked.len() == 1
            };
            if first && number.is_multiple_of(3) {
                continue;
            }
            let ack = ack(handle(&answer, &message), message.queue_offset);
            let answer = raw.call(address, ack);
            let mut lives = book.lives();
            let life = lives.entry(number).or_default();
            let Ok(answer) = answer else {
                life.perhaps = true;
                return;
            };
            if answer.code == response::SUCCESS {
                life.done.get_or_insert_with(Instant::now);
            } else {
                life.refused.push(format!("{}: {:?}", answer.code, answer.remark));
            }
        }
    }
}

/// B-12 of one broker that is killed and started again, a client's acknowledgements under way.
#[test]
fn b_12_what_was_acknowledged_before_a_kill_comes_no_more_and_all_else_does() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut server = Server::standalone(folder.path());
    let (sender, address) = (Raw::new(), server.address("broker"));
    for number in 0..MESSAGES {
        sender.sent(&address, "T", &number.to_string(), "");
    }
    let book = Book::default();
    for kill in 1..=KILLS {
        let address = server.address("broker");
        let share = usize::try_from(MESSAGES * kill / (KILLS + 1)).expect("a small number");
        std::thread::scope(|scope| {
            for _ in 0..CLIENTS {
                scope.spawn(|| client(&address, &book, &|| false));
            }
            let begun = Instant::now();
            while book.done() < share {
                assert!(begun.elapsed() < LONG, "{} are done, {share} are to be", book.done());
                std::thread::sleep(Duration::from_millis(1));
            }
            server.kill();
        });
        server = Server::standalone(folder.path());
    }
    let address = server.address("broker");
    let begun = Instant::now();
    // Then whatever is still to come has its time.
    let quiet = Mutex::new(None);
    let ends = || {
        let all = book.done() == usize::try_from(MESSAGES).expect("a small number");
        let mut since = quiet.lock().expect("nobody panics");
        let since = since.get_or_insert_with(Instant::now);
        if !all {
            *since = Instant::now();
        }
        since.elapsed() > INVISIBLE * 5 / 2 || begun.elapsed() > LONG
    };
    client(&address, &book, &ends);
    let lives = book.lives();
    let mut wrong = Vec::new();
    for number in 0..MESSAGES {
        let life = lives.get(&number);
        let Some(life) = life.filter(|life| life.done.is_some() || life.perhaps) else {
            wrong.push(format!("{number} was not got to its end: {life:?}"));
            continue;
        };
        let Some(done) = life.done else { continue };
        if life.asked.iter().any(|asked| *asked > done) {
            wrong.push(format!("{number} came after it was done: {life:?}"));
        }
        if life.asked.len() == 1 && number.is_multiple_of(3) {
            wrong.push(format!("{number} was left alone, and done: {life:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
