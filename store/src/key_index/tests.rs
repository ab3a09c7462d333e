use std::path::Path;

use protocol::message::record::records;
use segment::{SimVfs, VfsFile, read_exact_at};

use super::*;

fn index(disk: &SimVfs) -> KeyIndex {
    KeyIndex::new(&StoreOptions {
        vfs: Arc::new(disk.clone()),
        index_slots: 100,
        index_entries: 400,
        ..StoreOptions::new("store")
    })
}

fn add_sample(index: &KeyIndex) {
    let log = include_bytes!("../../testdata/vec-commitlog-v1-v2-ipv6-crc32.bin");
    let mut keys = Vec::new();
    for view in records(log) {
        let record = Record::read(view.unwrap().bytes()).unwrap();
        index.collect(&record, record.physical, &record.properties(), &mut keys);
    }
    assert_eq!(keys.len(), 4);
    index.add(&keys).unwrap();
}

fn content(disk: &SimVfs, name: &str) -> Vec<u8> {
    let file: Arc<dyn VfsFile> = disk.open(&Path::new("store/index").join(name)).unwrap();
    let mut bytes = vec![0; file.length().unwrap() as usize];
    read_exact_at(&*file, &mut bytes, 0).unwrap();
    bytes
}

/// The index file that Java wrote for the records of its commit-log sample.
#[test]
fn a_file_is_byte_for_byte_the_one_that_java_writes() {
    let disk = SimVfs::new();
    let index = index(&disk);
    add_sample(&index);
    let end = index.close().unwrap();
    let java = include_bytes!("../../testdata/vec-index-100slots-400entries.bin");
    let names = disk.list(Path::new("store/index")).unwrap();
    assert_eq!(names, ["20261129144836898"]);
    assert_eq!(content(&disk, &names[0]), java);
    assert_eq!(end, 1_795_963_716_968);
}

/// Slots are written at a clean stop alone; after a kill they come from the entries.
#[test]
fn an_unsealed_file_is_taken_up_with_and_without_its_slots() {
    for clean in [true, false] {
        let disk = SimVfs::new();
        let first = index(&disk);
        add_sample(&first);
        if clean {
            first.close().unwrap();
        } else {
            first.settle().unwrap();
        }
        let marks = first.marks().unwrap();
        let again = index(&disk);
        assert_eq!(again.recover(Some(&marks), clean, 10_000).unwrap(), None);
        assert_eq!(again.marks().unwrap(), marks);
        add_sample(&again);
        again.close().unwrap();
        let java = include_bytes!("../../testdata/vec-index-100slots-400entries.bin");
        assert_eq!(content(&disk, &marks[0].name), java, "what is in is not added twice");
    }
}

/// Entries of messages that the log lost must not keep their successors out
/// (spec: store-dledger.md 6.9 B).
#[test]
fn entries_behind_the_committed_log_are_cut() {
    let disk = SimVfs::new();
    let first = index(&disk);
    add_sample(&first);
    first.close().unwrap();
    let marks = first.marks().unwrap();
    let again = index(&disk);
    let from = again.recover(Some(&marks), true, 310).unwrap();
    assert!(from.is_some_and(|from| from <= 149), "{from:?}");
    add_sample(&again);
    let found = |key_of: usize| {
        let log = include_bytes!("../../testdata/vec-commitlog-v1-v2-ipv6-crc32.bin");
        let view = records(log).nth(key_of).unwrap().unwrap();
        let key = view.property(key::UNIQ_KEY).or_else(|| view.property(key::KEYS)).unwrap();
        let mut found = again.find(view.topic(), &key, 10, (0, u64::MAX)).physical;
        found.dedup();
        found
    };
    assert_eq!((0..4).map(found).collect::<Vec<_>>(), [[0], [149], [310], [592]]);
}

#[test]
fn a_successor_begins_where_its_predecessor_ends() {
    let disk = SimVfs::new();
    let index = index(&disk);
    let keys: Vec<_> = (0..1000_u64)
        .map(|nth| Key { hash: 7, physical: nth * 100, store_timestamp: 1_000_000 + nth })
        .collect();
    index.add(&keys).unwrap();
    index.settle().unwrap();
    let marks = index.marks().unwrap();
    assert_eq!(marks.iter().map(|mark| mark.header.count).collect::<Vec<_>>(), [400, 400, 203]);
    assert_eq!(marks.iter().map(|mark| mark.sealed).collect::<Vec<_>>(), [true, true, false]);
    assert_eq!(marks[1].header.begin_physical, 399 * 100);
    assert_eq!(index.cut_before(399 * 100), [marks[0].name.clone()]);
}

#[test]
fn names_are_times_and_never_run_backwards() {
    assert_eq!(name_of(0), "19700101000000000");
    assert_eq!(name_of(1_709_210_096_789), "20240229123456789");
    assert_eq!(name_of(1_795_963_716_898), "20261129144836898");
    let name = next_name(Some("20261129144836898"), 1_795_963_716_898);
    assert_eq!(name, "20261129144836899");
}
