use bytes::{Bytes, BytesMut};

use super::*;
use crate::{
    ENTRY_HEADER,
    fixture::{FILE, Fixture},
};

fn checked(bytes: Bytes) -> CheckedRange {
    CheckedRange::check(bytes, FILE).unwrap()
}

fn unfit(follower: &mut Fixture, range: &CheckedRange) -> String {
    match follower.writer.append_range(range, 0) {
        Err(AppendError::Unfit(reason)) => reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_follower_holds_the_leaders_bytes_files_and_padding() {
    let mut leader = Fixture::new(0);
    for nth in 0..9 {
        leader.append(1 + nth / 4, &[700, 50]);
    }
    let mut follower = Fixture::new(1 << 20);
    follower.writer.append_range(&checked(leader.sent(0)), 0).unwrap();
    leader.append(7, &[900]);
    follower.writer.append_range(&checked(leader.sent(18)), 0).unwrap();
    assert_eq!(follower.last(), Some((7, 18)));
    assert_eq!(follower.writer.end(), leader.writer.end());
    for (leaders, followers) in (0..leader.writer.end() / FILE + 1).map(|nth| {
        let end = FILE.min(leader.writer.end() - nth * FILE) as usize;
        let of = |log: &crate::DiskLog| log.read_raw(nth * FILE, end).unwrap();
        (of(&leader.log), of(&follower.log))
    }) {
        assert_eq!(leaders, followers);
    }
    // The ring serves them on, and so does a restart.
    assert_eq!(follower.log.range_in_memory(3, 18, 1 << 20).unwrap().last.index.0, 18);
    let again = Fixture::open(follower.disk, 0);
    assert_eq!(again.last(), Some((7, 18)));
    assert_eq!(again.sent(0), leader.sent(0));
}

#[test]
fn what_does_not_follow_is_not_written() {
    let mut leader = Fixture::new(0);
    leader.append(2, &[100, 200, 300]);
    let mut other = Fixture::new(0);
    other.append(2, &[101, 200, 300]);
    let mut follower = Fixture::new(0);
    assert_eq!(unfit(&mut follower, &checked(leader.sent(1))), "entry 1 was sent, entry 0 is next");
    follower.writer.append_range(&checked(leader.sent(0).slice(..148)), 0).unwrap();
    let refused = unfit(&mut follower, &checked(other.sent(1)));
    assert!(refused.starts_with("entry 1 lies at 149 with the leader and belongs at 148"));
    let mut twin = Fixture::new(0);
    twin.append(3, &[100, 200]);
    let refused = unfit(&mut follower, &checked(twin.sent(1)));
    assert!(refused.contains("does not follow from the entry before"), "{refused}");
    assert_eq!((follower.last(), follower.writer.end()), (Some((2, 0)), 148));
    follower.writer.append_range(&checked(leader.sent(1)), 0).unwrap();
    assert_eq!(follower.last(), Some((2, 2)));
}

/// Entries as Java sends them: both checksums 0.
fn without_checksums(bytes: &Bytes) -> Bytes {
    let mut bytes = BytesMut::from(&bytes[..]);
    let mut at = 0;
    while at < bytes.len() {
        let size = entry::be_u32(&bytes, at + 4).unwrap() as usize;
        bytes[at + 36..at + 44].fill(0);
        assert!(size > ENTRY_HEADER);
        at += size;
    }
    bytes.freeze()
}

#[test]
fn javas_entries_are_taken_and_a_term_does_not_get_its_checksums_back() {
    let mut leader = Fixture::new(0);
    leader.append(2, &[100]);
    let java = without_checksums(&leader.sent(0));
    let mut follower = Fixture::new(0);
    follower.writer.append_range(&checked(java), 0).unwrap();
    leader.append(2, &[10]);
    let refused = unfit(&mut follower, &checked(leader.sent(1)));
    assert_eq!(refused, "entry 1 has checksums, the one before has lost them");
    let java = without_checksums(&leader.sent(1));
    follower.writer.append_range(&checked(java), 0).unwrap();
    // A new term of ours goes on behind them.
    follower.append(3, &[10]);
    assert_eq!(Fixture::open(follower.disk, 0).last(), Some((3, 2)));
}

#[test]
fn a_full_disk_leaves_nothing_of_the_range() {
    let mut leader = Fixture::new(0);
    leader.append(1, &[1000, 1000, 1000, 1000]);
    let mut follower = Fixture::new(0);
    follower.append(1, &[1000]);
    let first = follower.writer.end();
    follower.disk.set_room(Some(1024));
    let range = checked(leader.sent(1));
    assert!(matches!(follower.writer.append_range(&range, 0), Err(AppendError::Full(_))));
    follower.disk.set_room(None);
    assert_eq!(follower.writer.end(), first);
    follower.writer.append_range(&range, 0).unwrap();
    assert_eq!(Fixture::open(follower.disk, 0).last(), Some((1, 3)));
}
