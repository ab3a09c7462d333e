use super::*;

fn id(term: u64, index: u64) -> EntryId {
    EntryId { term: Term(term), index: LogIndex(index) }
}

/// Entries 0 to 3 of term 1, 4 and 5 of term 3.
fn ledger() -> Ledger {
    let state = State {
        last: Some(id(3, 5)),
        terms: vec![(Term(1), LogIndex(0)), (Term(3), LogIndex(4))],
        committed: Some(LogIndex(2)),
        ..State::default()
    };
    Ledger::recovered(&state).unwrap()
}

/// Case 2 of the known faults: the term of the end is that of the last entry, however it came there.
#[test]
fn the_end_is_the_last_entry_with_its_own_term() {
    let mut ledger = ledger();
    assert_eq!(ledger.last(), Some(id(3, 5)));
    ledger.extend(Term(3), 2);
    assert_eq!(ledger.last(), Some(id(3, 7)));
    ledger.cut(LogIndex(4));
    assert_eq!(ledger.last(), Some(id(1, 3)));
    ledger.extend(Term(9), 1);
    assert_eq!(ledger.last(), Some(id(9, 4)));
    ledger.cut(LogIndex(0));
    assert_eq!((ledger.last(), ledger.next_index()), (None, LogIndex(0)));
}

/// Case 10: a bookmark beyond the end.
#[test]
fn a_commit_index_beyond_the_end_falls_to_the_end() {
    let state = State {
        last: Some(id(3, 5)),
        terms: vec![(Term(3), LogIndex(0))],
        committed: Some(LogIndex(105)),
        ..State::default()
    };
    let mut ledger = Ledger::recovered(&state).unwrap();
    assert_eq!(ledger.committed(), Some(LogIndex(5)));
    assert!(!ledger.commit(LogIndex(6)));
    assert_eq!(ledger.committed(), Some(LogIndex(5)));
    ledger.extend(Term(3), 1);
    assert!(!ledger.commit(LogIndex(6)), "it is not written");
    ledger.note_written(id(3, 6));
    assert!(ledger.commit(LogIndex(6)));
}

#[test]
fn marks_follow_the_log_and_not_what_is_said_of_entries_that_are_gone() {
    let mut ledger = ledger();
    ledger.extend(Term(3), 2);
    assert_eq!(ledger.kept(Policy::Written), Some(LogIndex(5)));
    ledger.note_written(id(3, 7));
    assert_eq!((ledger.written(), ledger.flushed()), (Some(LogIndex(7)), Some(LogIndex(5))));
    ledger.cut(LogIndex(4));
    assert_eq!((ledger.written(), ledger.flushed()), (Some(LogIndex(3)), Some(LogIndex(3))));
    ledger.extend(Term(4), 9);
    ledger.note_flushed(id(3, 7));
    ledger.note_flushed(id(4, 13));
    assert_eq!(ledger.flushed(), Some(LogIndex(3)));
    assert_eq!(ledger.written(), Some(LogIndex(3)));
    ledger.note_flushed(id(4, 12));
    assert_eq!((ledger.written(), ledger.flushed()), (Some(LogIndex(12)), Some(LogIndex(12))));
}

#[test]
fn a_log_can_begin_anew_and_lose_its_front() {
    let mut ledger = ledger();
    ledger.trim(LogIndex(4));
    assert_eq!((ledger.first(), ledger.term_at(LogIndex(3))), (LogIndex(4), None));
    ledger.trim(LogIndex(2));
    assert_eq!(ledger.first(), LogIndex(4));
    ledger.restart(LogIndex(40));
    assert_eq!((ledger.last(), ledger.next_index()), (None, LogIndex(40)));
    ledger.extend(Term(7), 1);
    assert_eq!((ledger.first(), ledger.last()), (LogIndex(40), Some(id(7, 40))));
}

#[test]
fn terms_that_do_not_lead_to_the_last_entry_are_refused() {
    for (terms, last) in [
        (vec![(Term(2), LogIndex(0))], Some(id(3, 5))),
        (vec![(Term(3), LogIndex(1))], Some(id(3, 5))),
        (vec![(Term(1), LogIndex(0)), (Term(3), LogIndex(6))], Some(id(3, 5))),
        (vec![(Term(1), LogIndex(0))], None),
    ] {
        let state = State { terms, last, ..State::default() };
        assert!(matches!(Ledger::recovered(&state), Err(ConfigError::Terms { .. })), "{state:?}");
    }
}

/// A flush that was under way when the end was cut off made durable what is left; no other one comes.
#[test]
fn a_flush_of_entries_that_were_cut_off_counts_for_those_that_are_left() {
    let mut ledger = ledger();
    ledger.extend(Term(3), 10);
    ledger.note_written(id(3, 15));
    ledger.cut(LogIndex(12));
    ledger.extend(Term(4), 20);
    ledger.cut(LogIndex(14));
    assert_eq!(ledger.flushed(), Some(LogIndex(5)));
    ledger.note_flushed(id(3, 15));
    assert_eq!(ledger.flushed(), Some(LogIndex(11)));
    ledger.note_flushed(id(4, 13));
    assert_eq!(ledger.flushed(), Some(LogIndex(13)));
    ledger.restart(LogIndex(8));
    ledger.extend(Term(4), 9);
    ledger.note_flushed(id(3, 15));
    assert_eq!(ledger.flushed(), None);
}

/// Two flushes had been asked for when the end was cut off: that the first ends says nothing of the
/// second, which is the last that comes.
#[test]
fn the_second_flush_that_a_cut_overtook_counts_too() {
    let mut ledger = ledger();
    ledger.extend(Term(3), 10);
    ledger.note_written(id(3, 15));
    ledger.cut(LogIndex(12));
    ledger.note_flushed(id(3, 8));
    assert_eq!(ledger.flushed(), Some(LogIndex(8)));
    ledger.note_flushed(id(3, 15));
    assert_eq!(ledger.flushed(), Some(LogIndex(11)));
}
