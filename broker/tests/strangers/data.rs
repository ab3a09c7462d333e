//! Data from another machine: any file of the folder has anything in it.

use std::{
    fs::{self, File},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use bytes::Bytes;
use protocol::{
    Command,
    code::{request, response},
    message::{properties, record},
};
use tempfile::TempDir;

use crate::{
    names::heartbeat,
    rig::{Rig, pull_header, send_header, v2},
};

/// Messages of the sound store, over several files of each kind.
const MESSAGES: usize = 300;
/// Stores that are scribbled on, each in another way.
const ROUNDS: u64 = 30;
/// Files of a size that is copied in no time.
const SMALL: &str = concat!(
    "mappedFileSizeCommitLog=65536\nmappedFileSizeConsumeQueue=2000\n",
    "maxIndexNum=100\nmaxHashSlotNum=50\n",
);

/// Numbers from a seed (xorshift).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    fn bytes(&mut self, count: u64) -> Vec<u8> {
        (0..count).map(|_| self.next().to_be_bytes()[0]).collect()
    }
}

fn body(number: usize) -> String {
    format!("message {number} {}", "x".repeat(200))
}

/// A store with messages, keys, groups and offsets, stopped in order, and the numbers of the messages in
/// the order of the queue.
async fn sound_store() -> (TempDir, Vec<usize>) {
    let rig = Rig::new(SMALL).await;
    let sends = (0..MESSAGES).map(|number| {
        v2(&send_header("T", &format!("KEYS\u{1}k{number}\u{2}")), Bytes::from(body(number)))
    });
    let mut order = vec![0; MESSAGES];
    for (number, answer) in rig.ask_all(sends.collect()).await.iter().enumerate() {
        let offset: usize = answer.field("queueOffset").expect("stored").parse().expect("a number");
        order[offset] = number;
    }
    rig.pulled("T", (MESSAGES - 1).try_into().expect("small")).await;
    assert_eq!(rig.ask(heartbeat("client", vec!["G".to_owned()], Vec::new())).await.code, 0);
    let commit = Command::request(request::UPDATE_CONSUMER_OFFSET)
        .with_field("consumerGroup", "G")
        .with_field("topic", "T")
        .with_field("queueId", "0")
        .with_field("commitOffset", "7");
    assert_eq!(rig.ask(commit).await.code, 0);
    (rig.stopped().await, order)
}

fn copy(from: &Path, to: &Path, files: &mut Vec<PathBuf>) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target, files);
        } else {
            fs::copy(entry.path(), &target).expect("copied");
            files.push(target);
        }
    }
}

/// Does something to a file; tells what.
fn scribble(path: &Path, numbers: &mut Numbers) -> String {
    let file = File::options().write(true).open(path).expect("a file");
    let length = file.metadata().expect("its length").len();
    // Headers lie at the begin, and most of a file may be empty.
    let reach = if numbers.below(2) == 0 { length.min(4096) } else { length };
    let at = numbers.below(reach);
    let count = 1 + numbers.below(64);
    let (what, bytes) = match numbers.below(6) {
        0 => ("random bytes", numbers.bytes(count)),
        1 => ("ones", vec![0xFF; count.try_into().expect("small")]),
        2 => ("the largest number", i64::MAX.to_be_bytes().to_vec()),
        3 => ("the smallest number", i64::MIN.to_be_bytes().to_vec()),
        4 => ("a small number", numbers.below(1 << 16).to_be_bytes().to_vec()),
        _ => {
            file.set_len(at).expect("cut");
            return format!("{} ends at {at}", path.display());
        }
    };
    file.write_all_at(&bytes, at).expect("written");
    format!("{what} at {at} of {}", path.display())
}

/// What is shown is what was stored there; whatever else is asked for is answered.
async fn shows_nothing_else(rig: &Rig, order: &[usize], what: &str) {
    let pulls = (0..MESSAGES).map(|offset| {
        let header = pull_header("T", offset.try_into().expect("small"));
        Command::request_with(request::PULL_MESSAGE, &header)
    });
    for (offset, answer) in rig.ask_all(pulls.collect()).await.iter().enumerate() {
        if answer.code == response::SUCCESS {
            for view in record::records(&answer.body) {
                let found = view.expect("a record").to_record();
                let place = usize::try_from(found.queue_offset).expect("a place");
                assert!(place >= offset, "{what}: {place} in place of {offset}");
                assert_eq!(found.body, body(order[place]), "{what}");
            }
        }
    }
    let queries = (0..MESSAGES).map(|number| {
        Command::request(request::QUERY_MESSAGE)
            .with_field("topic", "T")
            .with_field("key", format!("k{number}"))
            .with_field("maxNum", "32")
            .with_field("beginTimestamp", "0")
            .with_field("endTimestamp", i64::MAX.to_string())
    });
    for (number, answer) in rig.ask_all(queries.collect()).await.iter().enumerate() {
        for view in record::records(&answer.body) {
            let found = view.expect("a record").to_record();
            let key = format!("k{number}");
            assert_eq!(properties::find(&found.properties, "KEYS"), Some(&*key), "{what}");
        }
    }
    let of_queue = |code: i32| {
        Command::request(code)
            .with_field("topic", "T")
            .with_field("queueId", "0")
            .with_field("timestamp", "1700000000000")
            .with_field("index", "0")
            .with_field("count", "1000")
            .with_field("consumerGroup", "G")
    };
    for code in [
        request::GET_MIN_OFFSET,
        request::GET_MAX_OFFSET,
        request::SEARCH_OFFSET_BY_TIMESTAMP,
        request::GET_EARLIEST_MSG_STORETIME,
        request::QUERY_CONSUME_QUEUE,
        request::QUERY_CONSUMER_OFFSET,
        request::GET_BROKER_RUNTIME_INFO,
        request::GET_ALL_TOPIC_CONFIG,
    ] {
        rig.ask(of_queue(code)).await;
    }
}

/// A start either is refused with a text or shows what was stored, nothing else. Nothing panics, and each
/// question is answered in time.
#[tokio::test(flavor = "multi_thread")]
async fn s_28_a_broker_on_scribbled_files_is_refused_or_shows_what_was_stored() {
    let (sound, order) = sound_store().await;
    let (mut started, mut refused) = (0, 0);
    for round in 1..=ROUNDS {
        let mut numbers = Numbers(round.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let folder = tempfile::tempdir().expect("a folder");
        let mut files = Vec::new();
        copy(sound.path(), folder.path(), &mut files);
        files.sort();
        let changes: Vec<_> = (0..=numbers.below(3))
            .map(|_| {
                let at = numbers.below(files.len() as u64);
                scribble(&files[usize::try_from(at).expect("small")], &mut numbers)
            })
            .collect();
        let what = format!("round {round}: {}", changes.join(", "));
        match Rig::on(folder, SMALL).await {
            Ok(rig) => {
                shows_nothing_else(&rig, &order, &what).await;
                rig.end().await;
                started += 1;
            }
            Err(error) => {
                assert!(error.to_string().len() > 20, "{what}: {error}");
                refused += 1;
            }
        }
    }
    assert!(started > 5 && refused > 0, "{started} started, {refused} refused");
}
