//! Whatever became of one file of the data folder, but for the log's own: the start goes on with every
//! message and with the progress of consumers, or names the file. Kin of cases 23 and 32 of the known
//! faults.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
};

use broker::StartError;
use protocol::{Command, code::request};

use crate::{
    fixture::{Fixture, field, try_start},
    journal::commit,
};

/// What can become of a file.
#[derive(Debug, Clone, Copy)]
enum Damage {
    Deleted,
    Empty,
    Half,
    Blank,
}

impl Damage {
    const ALL: [Self; 4] = [Self::Deleted, Self::Empty, Self::Half, Self::Blank];

    fn put_on(self, path: &Path) {
        if matches!(self, Self::Deleted) {
            fs::remove_file(path).expect("removed");
            return;
        }
        let file = File::options().write(true).open(path).expect("a file");
        let length = file.metadata().expect("its length").len();
        let kept = if matches!(self, Self::Half) { length / 2 } else { 0 };
        file.set_len(kept).expect("cut");
        if matches!(self, Self::Blank) {
            file.set_len(length).expect("made longer");
        }
    }
}

/// Files below a folder, without those of the log.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("a name").path();
        match path.is_dir() {
            true if path.ends_with("data") => {}
            true => found.extend(files(&path)),
            false => found.push(path),
        }
    }
    found.sort();
    found
}

/// The fixture again, on a start that may be refused.
async fn reopened(fixture: Fixture, path: &Path, damage: Damage) -> Fixture {
    let Fixture { broker, client, directory } = fixture;
    client.close();
    broker.shutdown().await.expect("an orderly stop");
    // A small file is put back after a refusal; what is derived may be large, and is never refused.
    let before = fs::metadata(path).is_ok_and(|found| found.len() < 1 << 20);
    let before = before.then(|| fs::read(path).expect("a file"));
    // A mark of the running process goes with it.
    if path.exists() {
        damage.put_on(path);
    }
    let broker = match try_start(directory.path(), SMALL).await {
        Ok(broker) => broker,
        Err(StartError::Data(text)) => {
            let name = path.file_name().expect("a name").to_string_lossy();
            assert!(text.contains(&*name), "{damage:?} {}: {text}", path.display());
            let before = before.unwrap_or_else(|| panic!("{}: {text}", path.display()));
            let file = File::create(path).expect("put back");
            std::io::Write::write_all(&mut &file, &before).expect("written");
            try_start(directory.path(), SMALL).await.expect("what was put back")
        }
        Err(other) => panic!("{damage:?} {}: {other}", path.display()),
    };
    Fixture { broker, client: remoting::Client::new(remoting::ClientOptions::default()), directory }
}

/// Derived files of a size that is written in no time.
const SMALL: &str = "maxIndexNum=1000\nmaxHashSlotNum=100\n";

#[tokio::test(flavor = "multi_thread")]
async fn each_file_beside_the_log_may_be_gone_empty_half_or_blank() {
    const COUNT: usize = 3;
    let mut fixture = Fixture::with(SMALL).await;
    for _ in 0..COUNT {
        fixture.heartbeat("G", "T", "*").await;
        fixture.sent("T", "m", "KEYS\u{1}k").await;
        assert_eq!(fixture.ask(commit(2)).await.code, 0);
        fixture.messages("T", 1, 1).await;
        // Each table is written more than once, so that it has a backup.
        fixture = fixture.restarted(SMALL).await;
    }
    let paths = files(fixture.directory.path());
    assert!(paths.len() > 12, "{paths:?}");
    let mut tried = 0;
    for path in &paths {
        for damage in Damage::ALL {
            // The index of keys may have another name since it was made again.
            if !path.exists() {
                continue;
            }
            fixture = reopened(fixture, path, damage).await;
            let what = format!("{damage:?} {}", path.display());
            assert_eq!(fixture.messages("T", 1, COUNT).await.len(), COUNT, "{what}");
            let query = Command::request(request::QUERY_CONSUMER_OFFSET)
                .with_field("consumerGroup", "G")
                .with_field("topic", "T")
                .with_field("queueId", "0");
            let offset = fixture.ask(query).await;
            assert_eq!(offset.code, 0, "{what}: {offset:?}");
            assert_eq!(field(&offset, "offset"), "2", "{what}");
            tried += 1;
        }
    }
    assert!(tried > 40, "{tried} damages of {paths:?}");
    fixture.sent("T", "and on", "").await;
    assert_eq!(fixture.messages("T", 1, COUNT + 1).await.len(), COUNT + 1);
}
