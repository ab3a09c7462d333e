use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use protocol::body::{SubscriptionGroupConfig, TopicConfig};
use segment::{Fate, SimVfs, Vfs};
use store::{
    BatchBuilder, StoreOptions,
    append_log::AppendLog,
    journal::Record,
    memory_log::{MemoryLog, test_record},
};

use super::*;
use crate::{config::BrokerConfig, offline::Nobody};

/// A log with a store that outlives the folder of the tables.
struct Rig {
    log: Arc<MemoryLog<()>>,
    store: Store<()>,
    config: BrokerConfig,
}

impl Rig {
    fn new() -> Self {
        let log = Arc::new(MemoryLog::new(Arc::new(Nobody)));
        let options = StoreOptions {
            vfs: Arc::new(SimVfs::new()),
            idle_wait: Duration::from_millis(2),
            index_slots: 8,
            index_entries: 32,
            ..StoreOptions::new("store")
        };
        let store = Store::open(options, Arc::clone(&log) as Arc<dyn AppendLog<()>>);
        let store = store.expect("a sound disk");
        store.start_dispatch(Arc::new(Nobody));
        let mut config = BrokerConfig { broker_name: "b".into(), ..BrokerConfig::default() };
        config.complete();
        Self { log, store, config }
    }

    /// Writes a record and waits until it is dispatched.
    fn write(&self, record: &Record) {
        let body = record.encode().expect("a text");
        let mut builder = BatchBuilder::new();
        builder.push_bytes(&test_record(store::journal::TOPIC, 0, &body, ""));
        let before = self.log.bounds().committed;
        self.store.submit(builder.finish(())).expect("taken");
        let deadline = Instant::now() + Duration::from_secs(20);
        let behind =
            || self.log.bounds().committed == before || self.store.dispatch_behind_bytes() > 0;
        while behind() {
            assert!(Instant::now() < deadline, "dispatcher does not catch up");
            std::thread::sleep(Duration::from_micros(100));
        }
    }

    fn change(&self, changes: Vec<Change>) {
        self.write(&Record::Changes { changes });
    }

    /// A start on the folder.
    fn open(&self, disk: &SimVfs) -> Journal {
        let disk: Arc<dyn Vfs> = Arc::new(disk.clone());
        let loaded = Folder::new(&disk, Path::new("config")).load().expect("sound files");
        Journal::recover(loaded, &self.store, &self.config).expect("a sound journal")
    }

    /// Applies what is dispatched, as the dispatcher does.
    fn follow(&self, journal: &Journal) {
        let mut state = journal.state();
        let from = state.replay.position();
        let mut apply = |record: &JournalRecord<'_>| {
            state.replay.apply(record.position, record.stored, record.body).expect("sound");
            true
        };
        self.store.read_journal(from, &mut apply).expect("a sound disk");
        state.dirty = Touched::ALL;
    }

    fn project(&self, journal: &Journal) -> std::io::Result<()> {
        journal.project(self.store.dispatched())
    }
}

fn topic(name: &str, queues: i32) -> Change {
    Change::Topic(TopicConfig {
        topic_name: name.to_owned(),
        write_queue_nums: queues,
        ..TopicConfig::default()
    })
}

fn group(name: &str) -> Change {
    Change::NewGroup(SubscriptionGroupConfig {
        group_name: name.to_owned(),
        ..SubscriptionGroupConfig::default()
    })
}

fn offset(queue: i32, offset: i64) -> Change {
    Change::Offsets { key: "T@G".to_owned(), queues: vec![(queue, offset)] }
}

fn everything(round: u8) -> Vec<Change> {
    vec![
        topic("T", i32::from(round)),
        group(&format!("G{round}")),
        offset(i32::from(round), 5),
        Change::Delays(vec![(1, u64::from(round))]),
    ]
}

fn tables(journal: &Journal) -> Tables {
    journal.with_tables(Clone::clone)
}

#[test]
fn a_projection_that_is_cut_short_at_any_place_loses_nothing() {
    let mut cuts = 0;
    loop {
        let (rig, disk) = (Rig::new(), SimVfs::new());
        rig.change(everything(1));
        let journal = rig.open(&disk);
        rig.project(&journal).expect("a sound disk");
        rig.change(everything(2));
        rig.follow(&journal);
        disk.cut_power_after(cuts);
        let whole = rig.project(&journal).is_ok() && !disk.is_dark();
        // What comes behind the crash's projection is in the log alone.
        rig.change(vec![offset(7, 70), Change::DeleteTopic("U".to_owned())]);
        rig.follow(&journal);
        let fates = [Fate::Keep, Fate::Drop, Fate::Torn];
        for fate in fates {
            let again = rig.open(&disk.crash(&mut |_| fate));
            assert_eq!(tables(&again), tables(&journal), "cut after {cuts} calls, {fate:?}");
            assert_eq!(again.state().replay.is_whole(), journal.state().replay.is_whole());
        }
        if whole {
            break;
        }
        cuts += 1;
    }
    assert!(cuts > 10, "only {cuts} places");
}

#[test]
fn nothing_is_written_while_nothing_changes() {
    let (rig, disk) = (Rig::new(), SimVfs::new());
    rig.change(everything(1));
    let journal = rig.open(&disk);
    rig.project(&journal).expect("a sound disk");
    let calls = disk.calls();
    rig.project(&journal).expect("a sound disk");
    rig.follow(&journal);
    rig.project(&journal).expect("a sound disk");
    let again = rig.open(&disk);
    let before = disk.calls();
    rig.project(&again).expect("a sound disk");
    assert_eq!(disk.calls(), before, "a start that changes nothing writes nothing");
    assert!(calls > 0);
}

/// A Java broker ran on the folder, or a person edited a file.
#[test]
fn a_file_that_somebody_else_wrote_counts_and_the_leader_is_to_write_a_snapshot() {
    let (rig, disk) = (Rig::new(), SimVfs::new());
    rig.change(everything(1));
    let journal = rig.open(&disk);
    rig.project(&journal).expect("a sound disk");
    assert!(journal.state().replay.is_whole());
    rig.change(vec![topic("T", 9), offset(1, 50)]);
    let mut edited = tables(&journal);
    edited.topics.remove("T");
    edited.apply(&[topic("Javas", 3)], 9, Touched::default());
    let text = edited.file(Kind::Topics).expect("a text");
    let file = store::config_file::ConfigFile::new(
        Arc::new(disk.clone()),
        Path::new("config").join(Kind::Topics.file_name()),
    );
    file.store(text.as_bytes()).expect("a sound disk");
    let again = rig.open(&disk);
    assert!(!again.state().replay.is_whole(), "a leader has to say what holds");
    let found = tables(&again);
    assert!(found.topics.contains_key("Javas") && !found.topics.contains_key("T"));
    assert_eq!(found.offsets["T@G"][&1], 50, "the other files are known: the log goes on there");
    rig.change(vec![topic("T", 4)]);
    rig.follow(&again);
    assert_eq!(tables(&again).topics["T"].write_queue_nums, 4, "newer records count");
}

#[test]
fn files_that_are_missing_are_made_again_from_the_journal() {
    let (rig, disk) = (Rig::new(), SimVfs::new());
    rig.change(everything(1));
    let journal = rig.open(&disk);
    rig.project(&journal).expect("a sound disk");
    rig.change(everything(2));
    rig.follow(&journal);
    rig.project(&journal).expect("a sound disk");
    let gone = Path::new("config").join(Kind::Offsets.file_name());
    disk.remove(&gone).expect("it is there");
    let again = rig.open(&disk);
    assert_eq!(tables(&again).offsets, tables(&journal).offsets, "and not those of the backup");
    let nothing = rig.open(&SimVfs::new());
    assert_eq!(tables(&nothing).offsets, tables(&journal).offsets);
    assert!(nothing.state().replay.is_whole(), "the log has its beginning");
}

/// A folder that was written before there was a journal, or by Java.
#[test]
fn files_without_a_mark_count() {
    let (rig, disk) = (Rig::new(), SimVfs::new());
    let mut written = Tables::default();
    written.apply(&everything(3), 9, Touched::default());
    for kind in Kind::ALL {
        let text = written.file(kind).expect("a text");
        let path = Path::new("config").join(kind.file_name());
        let file = store::config_file::ConfigFile::new(Arc::new(disk.clone()), path);
        file.store(text.as_bytes()).expect("a sound disk");
    }
    let journal = rig.open(&disk);
    assert!(!journal.state().replay.is_whole());
    let found = tables(&journal);
    assert_eq!((&found.offsets, &found.delays), (&written.offsets, &written.delays));
    assert!(found.topics.contains_key("T") && found.topics.contains_key("TBW102"));
    assert_eq!(journal.needed_from(false), u64::MAX, "the files alone hold the tables");
    assert_eq!(journal.needed_from(true), 0, "others need what lies in the log");
}

/// This broker was killed before its files were written; a Java broker went on with what they held.
#[test]
fn what_another_writer_never_saw_is_kept_beside_what_it_changed() {
    let (rig, disk) = (Rig::new(), SimVfs::new());
    rig.change(vec![topic("T", 1), topic("Old", 1), offset(0, 5), offset(1, 5)]);
    let journal = rig.open(&disk);
    rig.project(&journal).expect("a sound disk");
    rig.change(vec![topic("Ours", 4), group("Ours"), offset(0, 50), offset(1, 50), offset(2, 7)]);
    let mut java = tables(&journal);
    java.topics.remove("Old");
    java.apply(&[topic("Javas", 3), group("Javas"), offset(1, 30)], 9, Touched::default());
    for kind in [Kind::Topics, Kind::Groups, Kind::Offsets] {
        let path = Path::new("config").join(kind.file_name());
        let file = store::config_file::ConfigFile::new(Arc::new(disk.clone()), path);
        let text = java.file(kind).expect("a text");
        // Java's own form.
        file.store(format!("{text}\n").as_bytes()).expect("a sound disk");
    }
    let found = tables(&rig.open(&disk));
    let has = |name| (found.topics.contains_key(name), found.groups.contains_key(name));
    assert_eq!((has("Ours"), has("Javas")), ((true, true), (true, true)));
    assert!(!found.topics.contains_key("Old"), "deleted by the other one");
    let offsets: Vec<_> = found.offsets["T@G"].iter().map(|(queue, at)| (*queue, *at)).collect();
    assert_eq!(offsets, [(0, 50), (1, 30), (2, 7)], "ours, Java's, ours");
}

/// A Java broker with light queues keeps all offsets in a file of its own.
#[test]
fn offsets_go_to_a_java_broker_with_light_queues_and_come_back() {
    const LIGHT: &str = "config/lmqConsumerOffset.json";
    let read = |disk: &SimVfs, path: &str| {
        let file = store::config_file::ConfigFile::new(Arc::new(disk.clone()), path);
        file.load(|bytes| Ok::<_, String>(bytes.to_vec())).expect("a file").expect("it is there")
    };
    let write = |disk: &SimVfs, path: &str, tables: &Tables| {
        let file = store::config_file::ConfigFile::new(Arc::new(disk.clone()), path);
        let name = path.rsplit('/').next().expect("a name");
        let text = tables.file_named(Kind::Offsets, name).expect("a text");
        file.store(format!("{text}\n").as_bytes()).expect("a sound disk");
    };
    let (rig, disk) = (Rig::new(), SimVfs::new());
    let of = |key: &str, offset| Change::Offsets { key: key.to_owned(), queues: vec![(0, offset)] };
    rig.change(vec![offset(0, 5), of("%LMQ%a@%LMQ%g", 9), of("%LMQ%a@G", 4)]);
    let journal = rig.open(&disk);
    rig.project(&journal).expect("a sound disk");
    let text = String::from_utf8(read(&disk, LIGHT)).expect("text");
    let light = text.split("\"lmqOffsetTable\":").nth(1).expect("the table");
    let light = light.split('}').next().unwrap_or_default();
    // Java looks there for groups of light queues, and for no other one.
    assert!(light.contains("\"%LMQ%a@%LMQ%g\":9") && !light.contains("@G\""), "{text}");
    let mut java = Tables::default();
    java.read_file(Kind::Offsets, &read(&disk, LIGHT)).expect("Java's form");
    assert_eq!(java.offsets, tables(&journal).offsets);
    java.apply(&[offset(0, 70)], 9, Touched::default());
    write(&disk, LIGHT, &java);
    assert_eq!(tables(&rig.open(&disk)).offsets["T@G"][&0], 70, "it alone is new");
    // A first start on Java's folder, where the plain file is left from before.
    let (rig, disk) = (Rig::new(), SimVfs::new());
    let mut old = Tables::default();
    old.apply(&[offset(0, 3), offset(1, 8)], 9, Touched::default());
    write(&disk, "config/consumerOffset.json", &old);
    write(&disk, LIGHT, &java);
    let found = tables(&rig.open(&disk));
    assert_eq!((found.offsets["T@G"][&0], found.offsets["T@G"][&1]), (70, 8));
    assert_eq!(found.offsets["%LMQ%a@%LMQ%g"][&0], 9);
    assert_eq!(found.offsets["%LMQ%a@G"][&0], 4);
}

/// A power cut took the end of a log that is only in the page cache, and with it records that the
/// files hold already.
#[test]
fn records_count_that_lie_before_the_mark_in_a_log_that_lost_its_end() {
    let (rig, disk) = (Rig::new(), SimVfs::new());
    rig.write(&Record::Opening { term: 1 });
    rig.change(everything(1));
    rig.change(everything(2));
    let journal = rig.open(&disk);
    rig.project(&journal).expect("a sound disk");
    let short = Rig::new();
    short.write(&Record::Opening { term: 1 });
    let again = short.open(&disk);
    assert!(!tables(&again).topics.contains_key("T"), "what was lost never was");
    short.write(&Record::Opening { term: 2 });
    short.change(vec![topic("New", 4)]);
    assert!(short.store.max_physical() < rig.store.max_physical(), "before the mark");
    short.follow(&again);
    assert!(tables(&again).topics.contains_key("New"));
    let restarted = short.open(&disk);
    assert!(tables(&restarted).topics.contains_key("New"), "before its files are written too");
    assert!(restarted.state().replay.is_whole());
}
