use bytes::BytesMut;

use super::*;
use crate::fixture::{FILE, Fixture};

#[test]
fn sound_entries_are_taken_with_their_terms() {
    let mut leader = Fixture::new(0);
    leader.append(1, &[100, 200]);
    leader.append(3, &[2000, 2000, 5]);
    let range = CheckedRange::check(leader.sent(0), FILE).unwrap();
    assert_eq!(range.runs(), [(Term(1), LogIndex(0)), (Term(3), LogIndex(2))]);
    assert_eq!(range.first().unwrap().index, 0);
    assert_eq!(EntryId::from(range.last().unwrap()), id_of(3, 4));
    let rest = range.part(3, 2).unwrap();
    assert_eq!(rest.first().unwrap().index, 3);
    assert_eq!(*rest.bytes(), leader.sent(3));
    assert!(range.part(3, 3).is_none());
}

#[test]
fn every_bit_is_covered() {
    let mut leader = Fixture::new(0);
    leader.append(1, &[20, 30]);
    leader.append(2, &[10]);
    let sent = leader.sent(0);
    for bit in 0..sent.len() * 8 {
        let mut damaged = BytesMut::from(&sent[..]);
        damaged[bit / 8] ^= 1 << (bit % 8);
        // What the first entry is tied to is looked at when it is appended.
        let sound = CheckedRange::check(damaged.freeze(), FILE).is_ok_and(|range| {
            let first = range.first().unwrap();
            first.chain_crc == first.chain_behind(entry::Previous::Start)
        });
        assert!(!sound, "bit {bit} is not covered");
    }
}

#[test]
fn what_is_cut_or_out_of_order_is_refused_with_the_place() {
    let mut leader = Fixture::new(0);
    leader.append(1, &[20, 30, 40]);
    let sent = leader.sent(0);
    let text = |bytes: Bytes| CheckedRange::check(bytes, FILE).unwrap_err().to_string();
    assert_eq!(text(Bytes::new()), "0 sound entries, then byte 0 of 0: its header is cut");
    assert_eq!(
        text(sent.slice(..sent.len() - 1)),
        "2 sound entries, then byte 146 of 233: its body is cut"
    );
    let mut gap = BytesMut::from(&sent[..68]);
    gap.extend_from_slice(&sent[146..]);
    assert_eq!(
        text(gap.freeze()),
        "1 sound entries, then byte 68 of 156: its position is not behind the entry before"
    );
    // Bytes that lie otherwise in a file of another size.
    let refused = CheckedRange::check(sent, 100).unwrap_err().to_string();
    assert!(refused.contains("file sizes differ") || refused.contains("position"), "{refused}");
}
