use std::{collections::BTreeMap, sync::Arc};

use segment::SimVfs;
use store::config_file::ConfigFile;

use super::*;

fn file(disk: &SimVfs) -> ConfigFile {
    ConfigFile::new(Arc::new(disk.clone()), "config/consumerOffset.json")
}

fn content(disk: &SimVfs) -> Vec<u8> {
    file(disk).load(|bytes| Ok::<_, String>(bytes.to_vec())).unwrap().unwrap()
}

fn offsets() -> Offsets {
    Offsets::open(file(&SimVfs::new())).unwrap()
}

#[test]
fn the_last_commit_wins_even_backwards() {
    let offsets = offsets();
    assert_eq!(offsets.query("G", "T", 0), None);
    assert_eq!(offsets.commit("G", "T", 0, 10), Commit::Kept);
    assert_eq!(offsets.commit("G", "T", 0, 4), Commit::Kept);
    assert_eq!(offsets.query("G", "T", 0), Some(4));
    assert_eq!(offsets.query("G", "T", 1), None);
    assert_eq!(offsets.query("H", "T", 0), None);
}

#[test]
fn a_commit_that_says_nothing_changes_nothing() {
    let offsets = offsets();
    offsets.commit("G", "T", 0, 3);
    assert!(offsets.take_changed());
    assert_eq!(offsets.commit("G", "T", 0, -1), Commit::Meaningless);
    assert_eq!(offsets.commit("G", "T", -1, 5), Commit::Meaningless);
    assert_eq!(offsets.commit("G", "T", i32::MAX, 5), Commit::Meaningless);
    assert_eq!(offsets.query("G", "T", 0), Some(3));
    assert!(!offsets.take_changed());
}

#[test]
fn a_commit_that_repeats_the_offset_writes_nothing() {
    let offsets = offsets();
    offsets.commit("G", "T", 0, 3);
    assert!(offsets.take_changed());
    assert_eq!(offsets.commit("G", "T", 0, 3), Commit::Kept);
    assert!(!offsets.take_changed());
}

#[test]
fn a_reset_stands_until_a_pull_takes_it() {
    let offsets = offsets();
    offsets.commit("G", "T", 0, 100);
    offsets.reset("G", "T", 0, 7);
    assert_eq!(offsets.commit("G", "T", 0, 101), Commit::ResetPending);
    assert_eq!(offsets.query("G", "T", 0), Some(7));
    assert_eq!(offsets.take_reset("G", "T", 1), None);
    assert_eq!(offsets.take_reset("G", "T", 0), Some(7));
    assert_eq!(offsets.take_reset("G", "T", 0), None);
    assert_eq!(offsets.query("G", "T", 0), Some(7));
    assert_eq!(offsets.commit("G", "T", 0, 8), Commit::Kept);
}

#[test]
fn pulls_are_no_progress() {
    let offsets = offsets();
    offsets.pulled("G", "T", 0, 50);
    assert_eq!(offsets.last_pulled("G", "T", 0), Some(50));
    assert_eq!(offsets.query("G", "T", 0), None);
    assert!(offsets.topics_of("G").is_empty());
    assert!(!offsets.take_changed());
}

#[test]
fn topics_and_groups_are_found_copied_and_forgotten() {
    let offsets = offsets();
    offsets.commit("G", "T", 0, 1);
    offsets.commit("G", "U", 0, 2);
    offsets.commit("H", "T", 0, 3);
    assert_eq!(offsets.topics_of("G"), BTreeSet::from(["T".to_owned(), "U".to_owned()]));
    assert_eq!(offsets.groups_of("T"), BTreeSet::from(["G".to_owned(), "H".to_owned()]));
    offsets.copy("G", "N", None);
    assert_eq!(offsets.query("N", "U", 0), Some(2));
    offsets.copy("H", "N", Some("T"));
    assert_eq!(offsets.committed("N", "T"), BTreeMap::from([(0, 3)]));
    offsets.forget_group("G");
    assert!(offsets.topics_of("G").is_empty());
    offsets.forget_topic("T");
    assert_eq!(offsets.query("H", "T", 0), None);
    assert_eq!(offsets.query("N", "U", 0), Some(2));
}

#[test]
fn the_version_moves_with_every_five_hundredth_commit() {
    let offsets = offsets();
    for offset in 0..1_000 {
        offsets.commit("G", "T", 0, offset);
    }
    assert_eq!(offsets.version().counter, 2);
    assert!(offsets.version().timestamp > 0);
}

#[test]
fn committed_offsets_survive_and_the_rest_does_not() {
    let disk = SimVfs::new();
    let offsets = Offsets::open(file(&disk)).unwrap();
    offsets.commit("G", "T", 0, 10);
    offsets.commit("G", "T", 1, 11);
    offsets.pulled("G", "U", 0, 5);
    offsets.reset("H", "T", 0, 2);
    offsets.flush().unwrap();
    let text = String::from_utf8(content(&disk)).unwrap();
    assert!(text.contains("\"G\":[\"T\"],"), "{text}");
    assert!(text.contains("\t\t\"T@G\":{0:10,1:11\n\t\t},"), "{text}");
    let again = Offsets::open(file(&disk)).unwrap();
    assert_eq!(again.committed("G", "T"), BTreeMap::from([(0, 10), (1, 11)]));
    assert_eq!(again.query("H", "T", 0), Some(2));
    assert_eq!(again.take_reset("H", "T", 0), None);
    assert_eq!(again.last_pulled("G", "U", 0), None);
}

#[test]
fn a_table_that_java_wrote_is_read() {
    let disk = SimVfs::new();
    file(&disk).store(include_bytes!("../../../store/testdata/consumerOffset.json")).unwrap();
    let offsets = Offsets::open(file(&disk)).unwrap();
    assert_eq!(offsets.committed("PlGroup", "PlNormal"), BTreeMap::from([(0, 20), (1, 19)]));
    let system = offsets.query("CID_RMQ_SYS_TRANS", "RMQ_SYS_TRANS_HALF_TOPIC", 0);
    assert_eq!(system, Some(18));
}
