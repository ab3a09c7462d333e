//! Derived files that are deleted, emptied, cut or foreign.

use std::{path::Path, sync::Arc};

use segment::{Vfs, VfsFile};

use super::rig::{Rig, UNITS_PER_FILE, new_log, options};
use crate::{Store, append_log::AppendLog, memory_log::MemoryLog};

/// Four queues of several files each, and several index files.
fn filled() -> Rig {
    let rig = Rig::new();
    for round in 0..5 {
        for queue in 0..3 {
            rig.send("T", queue, 9 + round, "a");
        }
        let keys = format!("UNIQ_KEY\u{1}U{round}\u{2}KEYS\u{1}K\u{2}");
        rig.send_with("Keys", 0, &vec!["x".to_owned(); 20], &keys);
    }
    rig
}

fn check(rig: &Rig, what: &str) {
    rig.check_against_log();
    for round in 0..5 {
        let found = rig.store().query_by_key("Keys", &format!("U{round}"), 100, (0, u64::MAX));
        assert_eq!(found.messages.len(), 20, "{what}, U{round}");
    }
    assert_eq!(rig.store().query_by_key("Keys", "K", 200, (0, u64::MAX)).messages.len(), 100);
}

#[test]
fn after_a_clean_stop_nothing_is_derived_again() {
    let mut rig = filled();
    rig.stop();
    assert!(rig.disk.open(Path::new("store/abort")).is_err());
    rig.open_idle();
    assert_eq!(rig.store().dispatch_behind_bytes(), 0);
    assert!(rig.disk.open(Path::new("store/abort")).is_ok());
    rig.dispatch();
    check(&rig, "clean");
}

#[test]
fn after_a_kill_only_the_tail_is_derived_again() {
    let mut rig = filled();
    rig.await_mark();
    let committed = rig.log.bounds().committed;
    rig.send("T", 0, 5, "a");
    rig.kill();
    rig.open_idle();
    assert!(rig.store().dispatched() >= committed, "{}", rig.store().dispatched());
    rig.dispatch();
    check(&rig, "killed");
}

type Damage = fn(&dyn Vfs, &Path, &dyn VfsFile);

fn delete(vfs: &dyn Vfs, path: &Path, _: &dyn VfsFile) {
    vfs.remove(path).unwrap();
}

fn empty(_: &dyn Vfs, _: &Path, file: &dyn VfsFile) {
    file.set_length(0).unwrap();
}

fn halve(_: &dyn Vfs, _: &Path, file: &dyn VfsFile) {
    file.set_length(file.length().unwrap() / 2).unwrap();
}

fn zero_tail(_: &dyn Vfs, _: &Path, file: &dyn VfsFile) {
    let length = file.length().unwrap();
    file.write_at(&[std::io::IoSlice::new(&[0; 60])], length - 60).unwrap();
}

fn lengthen(_: &dyn Vfs, _: &Path, file: &dyn VfsFile) {
    file.set_length(file.length().unwrap() + 4096).unwrap();
}

/// Case 19 of the known faults, for every file, after a clean stop and after a kill.
#[test]
fn every_file_may_be_deleted_emptied_or_cut() {
    let damages: [(&str, Damage); 5] = [
        ("deleted", delete),
        ("emptied", empty),
        ("halved", halve),
        ("zeroed at its end", zero_tail),
        ("lengthened", lengthen),
    ];
    for clean in [true, false] {
        let mut rig = filled();
        rig.stop();
        rig.open();
        let mut paths = rig.files("consumequeue");
        assert!(paths.len() > 12);
        paths.extend(rig.files("index"));
        paths.push("store/derived.mark".into());
        paths.push("store/checkpoint".into());
        for path in paths {
            for (what, damage) in damages {
                rig.end(clean);
                // Deriving again may have given an index file another name.
                if let Ok(file) = rig.disk.open(&path) {
                    damage(&rig.disk, &path, &*file);
                }
                rig.open();
                check(&rig, &format!("{} {what}, clean {clean}", path.display()));
            }
        }
    }
}

#[test]
fn whole_folders_may_be_deleted() {
    for folder in ["consumequeue/T/1", "consumequeue/T", "consumequeue", "index", ""] {
        let mut rig = filled();
        rig.stop();
        rig.open();
        rig.kill();
        for path in rig.files(folder) {
            rig.disk.remove(&path).unwrap();
        }
        rig.open();
        check(&rig, folder);
    }
}

/// Case 23 of the known faults, in the folders of derived files.
#[test]
fn stray_files_neither_stop_the_start_nor_are_deleted() {
    let mut rig = filled();
    rig.stop();
    let strays = [
        "store/consumequeue/readme.txt",
        "store/consumequeue/T/readme.txt",
        "store/consumequeue/T/0/.nfs0001",
        "store/consumequeue/T/0/00000000000000000007",
        "store/consumequeue/T/x7/00000000000000000000",
        "store/consumequeue/Odd/readme",
        "store/index/readme.txt",
        "store/stray",
    ];
    for path in strays {
        rig.disk.create(Path::new(path)).unwrap();
    }
    rig.disk.create(Path::new("store/consumequeue/T/9/00000000000000000000")).unwrap_err_or_empty();
    rig.open();
    check(&rig, "strays");
    for path in strays {
        assert!(rig.disk.open(Path::new(path)).is_ok(), "{path} is gone");
    }
    assert_eq!(rig.store().max_offset("T", 9), 0);
}

trait Made {
    fn unwrap_err_or_empty(self);
}

impl Made for std::io::Result<Arc<dyn VfsFile>> {
    /// The file of a queue that nobody wrote to: empty, as a crash leaves it.
    fn unwrap_err_or_empty(self) {
        assert_eq!(self.unwrap().length().unwrap(), 0);
    }
}

/// Case 20 of the known faults: the queues point past the end of a log that lost its tail.
#[test]
fn queues_ahead_of_the_log_are_cut() {
    for clean in [true, false] {
        let mut rig = filled();
        rig.end(clean);
        let whole = rig.log.read_forward(0, usize::MAX).unwrap();
        for kept in [0, 1, whole.records.len() / 2, whole.records.len() - 1] {
            let log = new_log(&rig.clock);
            for (_, record) in whole.records.iter().take(kept) {
                log.append_foreign(|_| record.clone());
            }
            rig.log = Arc::<MemoryLog<()>>::clone(&log);
            let disk = rig.disk.after_kill();
            let store = Store::open(options(&disk), log).unwrap();
            let short = Rig {
                store: Some(store),
                disk,
                heard: Arc::default(),
                log: Arc::clone(&rig.log),
                clock: Arc::clone(&rig.clock),
            };
            short.dispatch();
            short.check_against_log();
            short.send("T", 0, 40, "a");
            short.send_with("Keys", 0, &["new".to_owned()], "KEYS\u{1}new\u{2}");
            short.check_against_log();
            let found = short.store().query_by_key("Keys", "new", 9, (0, u64::MAX));
            assert_eq!(found.messages.len(), 1, "{kept} records kept");
        }
    }
}

#[test]
fn a_store_of_a_broker_without_dledger_is_refused_untouched() {
    let mut rig = filled();
    rig.stop();
    rig.disk.remove(Path::new("store/derived.mark")).unwrap();
    rig.disk.create(Path::new("store/commitlog/readme.txt")).unwrap();
    rig.open();
    rig.stop();
    rig.disk.remove(Path::new("store/derived.mark")).unwrap();
    rig.disk.create(Path::new("store/commitlog/00000000000000000000")).unwrap();
    let before = rig.files("");
    let log = Arc::<MemoryLog<()>>::clone(&rig.log);
    let refused = Store::open(options(&rig.disk), log).unwrap_err();
    assert!(refused.to_string().contains("store/commitlog"), "{refused}");
    assert_eq!(rig.files(""), before);
}

#[test]
fn another_file_size_derives_the_queues_again() {
    let mut rig = filled();
    rig.stop();
    let log = Arc::<MemoryLog<()>>::clone(&rig.log);
    let mut other = options(&rig.disk);
    other.consume_queue_file_size = (UNITS_PER_FILE + 3) * 20;
    other.index_slots = 5;
    rig.store = Some(Store::open(other, log).unwrap());
    rig.dispatch();
    check(&rig, "another file size");
}

/// Case 35 of the known faults: a kill costs the tail of a queue at most, never its files.
#[test]
fn after_a_kill_every_queue_file_is_there_and_only_the_last_one_of_a_queue_changes() {
    for _ in 0..5 {
        let mut rig = filled();
        rig.await_mark();
        rig.send("T", 0, 3, "a");
        rig.send_with("T", 1, &["no properties at all".to_owned()], "");
        rig.kill();
        let content = |path: &std::path::PathBuf| {
            let file = rig.disk.open(path).unwrap();
            let mut bytes = vec![0; usize::try_from(file.length().unwrap()).unwrap()];
            segment::read_exact_at(&*file, &mut bytes, 0).unwrap();
            bytes
        };
        let before: Vec<_> =
            rig.files("consumequeue").into_iter().map(|path| (content(&path), path)).collect();
        assert!(before.len() > 8, "{}", before.len());
        rig.open();
        let after = rig.files("consumequeue");
        for (bytes, path) in &before {
            assert!(after.contains(path), "{} is gone", path.display());
            let last = after.iter().filter(|other| other.parent() == path.parent()).max();
            let file = rig.disk.open(path).unwrap();
            let mut now = vec![0; bytes.len()];
            segment::read_exact_at(&*file, &mut now, 0).unwrap();
            assert!(last == Some(path) || now == *bytes, "{} has changed", path.display());
        }
        check(&rig, "after a kill");
    }
}
