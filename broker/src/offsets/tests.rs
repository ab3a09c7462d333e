use std::collections::{BTreeMap, BTreeSet};

use store::journal::{Kind, Touched};

use super::*;

fn offsets() -> Offsets {
    Offsets::default()
}

/// Does what the journal does with commits.
fn apply(offsets: &Offsets, tables: &mut Tables, sent: &Sent) {
    for change in sent.changes() {
        tables.apply(std::slice::from_ref(&change), 5, Touched::default());
        let Change::Offsets { key, queues } = change else { panic!("{change:?}") };
        offsets.take(&key, &queues, tables);
    }
}

#[test]
fn the_last_commit_wins_even_backwards() {
    let offsets = offsets();
    assert_eq!(offsets.query("G", "T", 0), None);
    assert_eq!(offsets.commit("G", "T", 0, 10), Commit::Pending);
    assert_eq!(offsets.commit("G", "T", 0, 4), Commit::Pending);
    assert_eq!(offsets.query("G", "T", 0), Some(4));
    assert_eq!(offsets.query("G", "T", 1), None);
    assert_eq!(offsets.query("H", "T", 0), None);
}

#[test]
fn a_commit_that_says_nothing_changes_nothing() {
    let offsets = offsets();
    offsets.commit("G", "T", 0, 3);
    assert!(!offsets.take_unsent().is_empty());
    assert_eq!(offsets.commit("G", "T", 0, -1), Commit::Meaningless);
    assert_eq!(offsets.commit("G", "T", -1, 5), Commit::Meaningless);
    assert_eq!(offsets.commit("G", "T", i32::MAX, 5), Commit::Meaningless);
    assert_eq!(offsets.query("G", "T", 0), Some(3));
    assert!(offsets.take_unsent().is_empty());
}

#[test]
fn a_commit_that_repeats_the_offset_writes_nothing() {
    let (offsets, mut tables) = (offsets(), Tables::default());
    offsets.commit("G", "T", 0, 3);
    let sent = offsets.take_unsent();
    assert_eq!(offsets.commit("G", "T", 0, 3), Commit::Pending, "its record is on its way");
    assert!(offsets.take_unsent().is_empty());
    apply(&offsets, &mut tables, &sent);
    offsets.settle(sent, true);
    assert_eq!(offsets.commit("G", "T", 0, 3), Commit::Known);
    assert!(offsets.take_unsent().is_empty());
}

/// The answer never goes back to an older record that is applied late.
#[test]
fn what_was_committed_last_is_told_while_older_records_are_applied() {
    let (offsets, mut tables) = (offsets(), Tables::default());
    offsets.commit("G", "T", 0, 10);
    let first = offsets.take_unsent();
    offsets.commit("G", "T", 0, 20);
    apply(&offsets, &mut tables, &first);
    assert_eq!(offsets.query("G", "T", 0), Some(20));
    offsets.settle(first, true);
    assert_eq!(offsets.query("G", "T", 0), Some(20));
    let second = offsets.take_unsent();
    assert_eq!(second.changes().len(), 1);
    offsets.settle(second, false);
    let again = offsets.take_unsent();
    assert_eq!(again.changes().len(), 1, "it is sent until it is applied");
    apply(&offsets, &mut tables, &again);
    offsets.settle(again, true);
    assert_eq!(tables.offsets["T@G"][&0], 20);
    assert_eq!(offsets.commit("G", "T", 0, 20), Commit::Known);
}

/// A node that lost the lead answers what the journal says.
#[test]
fn a_load_forgets_commits_that_are_not_applied() {
    let (offsets, mut tables) = (offsets(), Tables::default());
    offsets.commit("G", "T", 0, 10);
    let sent = offsets.take_unsent();
    apply(&offsets, &mut tables, &sent);
    offsets.settle(sent, true);
    offsets.commit("G", "T", 0, 20);
    offsets.commit("H", "T", 0, 1);
    offsets.load(&tables);
    assert_eq!((offsets.query("G", "T", 0), offsets.query("H", "T", 0)), (Some(10), None));
    assert!(offsets.take_unsent().is_empty());
}

#[test]
fn a_reset_stands_until_a_pull_takes_it() {
    let offsets = offsets();
    offsets.commit("G", "T", 0, 100);
    let waits = offsets.reset("G", "T", 0, 7);
    let key = "T@G".to_owned();
    assert_eq!(waits, Change::Reset { key, queue: 0, offset: 7, told: false });
    assert_eq!(offsets.commit("G", "T", 0, 101), Commit::ResetPending);
    assert_eq!(offsets.query("G", "T", 0), Some(7));
    assert_eq!(offsets.take_reset("G", "T", 1), None);
    assert_eq!(offsets.take_reset("G", "T", 0), Some(7));
    assert_eq!(offsets.take_reset("G", "T", 0), None);
    assert_eq!(offsets.query("G", "T", 0), Some(7));
    assert_eq!(offsets.commit("G", "T", 0, 8), Commit::Pending);
}

#[test]
fn pulls_are_no_progress() {
    let offsets = offsets();
    offsets.pulled("G", "T", 0, 50);
    assert_eq!(offsets.last_pulled("G", "T", 0), Some(50));
    assert_eq!(offsets.query("G", "T", 0), None);
    assert!(offsets.topics_of("G").is_empty());
    assert!(offsets.take_unsent().is_empty());
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
fn a_table_that_java_wrote_is_read() {
    let mut tables = Tables::default();
    let java = include_bytes!("../../../store/testdata/consumerOffset.json");
    tables.read_file(Kind::Offsets, java).unwrap();
    let offsets = Offsets::new(&tables);
    assert_eq!(offsets.committed("PlGroup", "PlNormal"), BTreeMap::from([(0, 20), (1, 19)]));
    let system = offsets.query("CID_RMQ_SYS_TRANS", "RMQ_SYS_TRANS_HALF_TOPIC", 0);
    assert_eq!(system, Some(18));
    let wire = offsets.wrapper_for_slaves();
    assert_eq!(wire.offset_table["PlNormal@PlGroup"], BTreeMap::from([(0, 20), (1, 19)]));
}

/// A reset whose record was not applied is none: an administrator was not told that it is done.
#[test]
fn a_lead_that_comes_back_brings_nothing_of_the_former_one() {
    let (offsets, mut tables) = (offsets(), Tables::default());
    let _not_written = offsets.reset("G", "T", 0, 10);
    let sent = offsets.take_unsent();
    apply(&offsets, &mut tables, &sent);
    offsets.settle(sent, true);
    // The lead goes, and the other leader's record comes.
    offsets.load(&tables);
    offsets.commit("G", "T", 0, 11);
    let change = Change::Offsets { key: "T@G".to_owned(), queues: vec![(0, 500)] };
    tables.apply(&[change], 6, Touched::default());
    offsets.take("T@G", &[(0, 500)], &tables);
    // The lead comes back.
    offsets.load(&tables);
    assert_eq!(offsets.query("G", "T", 0), Some(500));
    assert_eq!(offsets.take_reset("G", "T", 0), None);
    assert!(offsets.take_unsent().is_empty());
    assert_eq!(offsets.commit("G", "T", 0, 501), Commit::Pending);
}

/// The next master tells a reset that the one before it did not, and a lead that comes back does not tell
/// again what was told meanwhile.
#[test]
fn a_reset_waits_under_every_master_until_one_has_told_it() {
    let (first, second, mut tables) = (offsets(), offsets(), Tables::default());
    let mut write = |change: Change| {
        tables.apply(&[change], 5, Touched::default());
        tables.clone()
    };
    let tables = write(first.reset("G", "T", 0, 7));
    second.load(&tables);
    assert_eq!(second.commit("G", "T", 0, 90), Commit::ResetPending);
    assert_eq!(second.query("G", "T", 0), Some(7));
    assert_eq!(second.take_reset("G", "T", 0), Some(7));
    // Another one comes before the journal hears that the first was told.
    let tables = write(second.reset("G", "T", 0, 9));
    second.load(&tables);
    let tables = write(told("G", "T", 0, 7));
    first.load(&tables);
    assert_eq!(first.take_reset("G", "T", 0), Some(9), "nobody was told of this one");
    first.load(&write(told("G", "T", 0, 9)));
    assert_eq!(first.take_reset("G", "T", 0), None);
    assert_eq!(first.commit("G", "T", 0, 8), Commit::Pending);
}
