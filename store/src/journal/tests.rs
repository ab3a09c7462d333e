//! Random changes, snapshots and crashes: whatever a node starts from, the tables are the same.

use proptest::prelude::*;
use protocol::body::{
    OrderInfo, SetMessageRequestModeRequestBody, SubscriptionGroupConfig, TopicConfig,
};

use super::*;

fn topic(nth: u8, queues: i32) -> TopicConfig {
    TopicConfig {
        topic_name: format!("T{nth}"),
        write_queue_nums: queues,
        ..TopicConfig::default()
    }
}

fn group(nth: u8, times: i32) -> SubscriptionGroupConfig {
    SubscriptionGroupConfig {
        group_name: format!("G{nth}"),
        retry_max_times: times,
        ..SubscriptionGroupConfig::default()
    }
}

fn mode(topic: u8, group: u8, share: i32) -> SetMessageRequestModeRequestBody {
    SetMessageRequestModeRequestBody {
        topic: format!("T{topic}"),
        consumer_group: format!("G{group}"),
        mode: Some(if share % 2 == 0 { "POP" } else { "PULL" }.to_owned()),
        pop_share_queue_num: share,
    }
}

fn any_change() -> impl Strategy<Value = Change> {
    let (few, value) = (0..3_u8, 0..4_i32);
    prop_oneof![
        (few.clone(), value.clone()).prop_map(|(nth, value)| Change::Topic(topic(nth, value))),
        (few.clone(), value.clone()).prop_map(|(nth, value)| Change::NewTopic(topic(nth, value))),
        few.clone().prop_map(|nth| Change::DeleteTopic(format!("T{nth}"))),
        (few.clone(), value.clone()).prop_map(|(nth, value)| Change::Group(group(nth, value))),
        (few.clone(), value.clone()).prop_map(|(nth, value)| Change::NewGroup(group(nth, value))),
        few.clone().prop_map(|nth| Change::DeleteGroup(format!("G{nth}"))),
        (few.clone(), few.clone(), 0..2_i32).prop_map(|(group, topic, bit)| Change::Forbidden {
            group: format!("G{group}"),
            topic: format!("T{topic}"),
            mask: bit * 4,
        }),
        (few.clone(), few.clone(), value.clone())
            .prop_map(|(topic, group, share)| Change::RequestMode(mode(topic, group, share))),
        (few.clone(), few.clone(), value, 0..9_i64).prop_map(|(topic, group, queue, offset)| {
            let key = format!("T{topic}@G{group}");
            Change::Offsets { key, queues: vec![(queue, offset)] }
        }),
        (few.clone(), few.clone(), prop::option::of(0..9_i64)).prop_map(|(topic, queue, time)| {
            let row = |pop_time| OrderInfo { pop_time, ..OrderInfo::default() }.encode();
            let row = time.map(|time| String::from_utf8(row(time).to_vec()).expect("JSON"));
            Change::Order { key: format!("T{topic}@G{topic}"), queue: queue.into(), row }
        }),
        (few.clone(), few.clone(), 0..3_i64, any::<bool>()).prop_map(
            |(topic, queue, offset, told)| {
                let key = format!("T{topic}@G{topic}");
                Change::Reset { key, queue: queue.into(), offset, told }
            }
        ),
        few.prop_map(|nth| Change::DropOffsetsOfGroup(format!("G{nth}"))),
        (1..4_u32, 0..9_u64).prop_map(|(level, offset)| Change::Delays(vec![(level, offset)])),
    ]
}

/// What a leader does in turn.
#[derive(Debug, Clone)]
enum Step {
    Change(Vec<Change>),
    /// A snapshot begins; so many of its records are written before the leader dies, or all.
    Snapshot {
        written: usize,
        between: Vec<Change>,
    },
    Opening,
}

fn any_step() -> impl Strategy<Value = Step> {
    let changes = || prop::collection::vec(any_change(), 1..4);
    prop_oneof![
        4 => changes().prop_map(Step::Change),
        1 => (0..6_usize, changes())
            .prop_map(|(written, between)| Step::Snapshot { written, between }),
        1 => Just(Step::Opening),
    ]
}

/// A log of the journal's records, each with its position and store time.
#[derive(Default)]
struct Log {
    records: Vec<(u64, i64, Vec<u8>)>,
    leader: Replay,
    states: Vec<(u64, Replay)>,
}

impl Log {
    fn append(&mut self, record: &Record) -> Applied {
        let at = 100 * (self.records.len() as u64 + 1);
        let stored = i64::try_from(at).expect("small") + 7;
        let body = record.encode().expect("a text");
        let applied = self.leader.apply(at, stored, &body).expect("sound");
        self.records.push((at, stored, body));
        self.states.push((at + 1, self.leader.clone()));
        applied
    }

    fn step(&mut self, nth: u64, step: Step) {
        match step {
            Step::Change(changes) => {
                self.append(&Record::Changes { changes });
            }
            Step::Opening => {
                self.append(&Record::Opening { term: nth });
            }
            Step::Snapshot { written, between } => {
                assert_eq!(self.append(&Record::Begin { snapshot: nth }), Applied::Begun(nth));
                let behind = small_parts(nth, self.leader.tables());
                let mut between = Some(between);
                for record in behind.iter().take(written) {
                    self.append(record);
                    if let Some(changes) = between.take() {
                        self.append(&Record::Changes { changes });
                    }
                }
            }
        }
    }

    fn replayed(&self, mut replay: Replay) -> Replay {
        for (at, stored, body) in &self.records {
            replay.apply(*at, *stored, body).expect("sound");
        }
        replay
    }
}

impl Log {
    fn tables_from(&self, replay: Replay) -> Tables {
        self.replayed(replay).tables().clone()
    }
}

/// The records of a snapshot with one row in each part.
fn small_parts(id: u64, tables: &Tables) -> Vec<Record> {
    let (mut records, mut parts) = (Vec::new(), 0);
    for record in snapshot_records(id, tables, Vec::new()).expect("a text") {
        match record {
            Record::Part { rows, .. } => {
                for row in rows {
                    records.push(Record::Part { snapshot: id, nth: parts, rows: vec![row] });
                    parts += 1;
                }
            }
            Record::End { versions, .. } => {
                records.push(Record::End { snapshot: id, parts, versions });
            }
            other => records.push(other),
        }
    }
    records
}

fn log_of(steps: Vec<Step>) -> Log {
    let mut log = Log::default();
    for (nth, step) in (1..).zip(steps) {
        log.step(nth, step);
    }
    log
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn replay_from_any_mark_gives_the_same_tables(
        steps in prop::collection::vec(any_step(), 1..30),
        mixed in prop::collection::vec(any::<bool>(), 7),
    ) {
        let log = log_of(steps);
        prop_assert_eq!(&log.tables_from(Replay::default()), log.leader.tables());
        for (nth, (position, state)) in log.states.iter().enumerate() {
            let marked = Replay::from(state.tables().clone(), *position, true);
            prop_assert_eq!(&log.tables_from(marked), log.leader.tables());
            // Files of a projection that was cut short: some of the mark, some of a later place.
            let later = &log.states[(nth + 3).min(log.states.len() - 1)].1;
            let mut tables = state.tables().clone();
            let newer = Touched {
                topics: mixed[0], groups: mixed[1], offsets: mixed[2], delays: mixed[3],
                request_modes: mixed[4],
                orders: mixed[5],
                resets: mixed[6],
            };
            tables.take(newer, later.tables());
            tables.versions = state.tables().versions.clone();
            let cut_short = Replay::from(tables, *position, true);
            prop_assert_eq!(&log.tables_from(cut_short), log.leader.tables());
        }
    }

    #[test]
    fn a_log_without_its_beginning_gives_the_same_tables_from_a_complete_snapshot(
        before in prop::collection::vec(any_step(), 0..20),
        behind in prop::collection::vec(any_step(), 0..20),
    ) {
        let mut log = log_of(before);
        log.step(1000, Step::Opening);
        let first = log.records.len();
        log.step(1001, Step::Snapshot { written: usize::MAX, between: vec![] });
        for (nth, step) in (2000..).zip(behind) {
            log.step(nth, step);
        }
        let trimmed = Log { records: log.records.split_off(first), ..Log::default() };
        let fresh = trimmed.replayed(Replay::default());
        prop_assert!(fresh.is_whole());
        prop_assert_eq!(fresh.tables(), log.leader.tables());
        prop_assert_eq!(fresh.newest(), log.leader.newest());
        let begin = fresh.newest().expect("one is complete").begin;
        prop_assert!(begin > 0);
        // The newest complete snapshot is enough.
        let kept = trimmed.records.into_iter().filter(|record| record.0 >= begin).collect();
        let kept = Log { records: kept, ..Log::default() };
        prop_assert_eq!(&kept.tables_from(Replay::default()), log.leader.tables());
    }

    #[test]
    fn files_hold_the_tables(steps in prop::collection::vec(any_step(), 1..30)) {
        let log = log_of(steps);
        let mut read = Tables::default();
        for kind in Kind::ALL {
            let text = log.leader.tables().file(kind).expect("a text");
            read.read_file(kind, text.as_bytes()).expect("what was written");
        }
        prop_assert_eq!(&read, log.leader.tables());
    }
}

#[test]
fn a_snapshot_without_its_end_or_with_a_missing_part_is_ignored() {
    let mut leader = Replay::default();
    let changes = vec![Change::Topic(topic(1, 4)), Change::Group(group(1, 3))];
    let mut at = 0;
    let mut apply = |replay: &mut Replay, record: &Record| {
        at += 100;
        replay.apply(at, 5, &record.encode().unwrap()).unwrap()
    };
    apply(&mut leader, &Record::Changes { changes });
    let parts = small_parts(7, leader.tables());
    for missing in 0..parts.len() {
        let mut fresh = Replay::default();
        apply(&mut fresh, &Record::Begin { snapshot: 7 });
        for (nth, part) in parts.iter().enumerate() {
            if nth != missing {
                apply(&mut fresh, part);
            }
        }
        assert_eq!((fresh.newest(), fresh.is_whole()), (None, false), "without {missing}");
        assert_eq!(fresh.tables(), &Tables::default());
    }
    let mut fresh = Replay::default();
    apply(&mut fresh, &Record::Begin { snapshot: 7 });
    apply(&mut fresh, &parts[0]);
    apply(&mut fresh, &Record::Opening { term: 9 });
    for part in &parts[1..] {
        apply(&mut fresh, part);
    }
    assert_eq!(fresh.newest(), None, "its leader is gone");
    assert_eq!(fresh.term(), 9);
}

#[test]
fn tables_of_files_stand_against_older_records() {
    let mut tables = Tables::default();
    tables.apply(&[Change::Topic(topic(1, 9))], 1, Touched::default());
    let settled = Touched { topics: true, ..Touched::default() };
    let mut replay = Replay::from(tables, 0, false).settled(settled, 500);
    let both = |queues| Record::Changes {
        changes: vec![Change::Topic(topic(1, queues)), Change::Group(group(1, queues))],
    };
    replay.apply(400, 5, &both(2).encode().unwrap()).unwrap();
    assert_eq!(replay.tables().topics["T1"].write_queue_nums, 9);
    assert_eq!(replay.tables().groups["G1"].retry_max_times, 2);
    replay.apply(500, 5, &both(3).encode().unwrap()).unwrap();
    assert_eq!(replay.tables().topics["T1"].write_queue_nums, 3);
    assert!(!replay.is_whole());
}

#[test]
fn parts_have_a_bound() {
    let queues = (0..40_000).map(|id| QueueRange { id, min: 10, next: 1 << 40 }).collect();
    let records = snapshot_records(3, &Tables::default(), vec![("T".to_owned(), queues)]).unwrap();
    assert!(records.len() > 3, "{}", records.len());
    let mut named = 0;
    for record in &records {
        let body = record.encode().unwrap();
        assert!(body.len() <= PART_BYTES, "{} bytes", body.len());
        let Record::Part { rows, .. } = decode(&body).unwrap() else { continue };
        for row in rows {
            let Change::Queues { queues, .. } = row else { panic!("{row:?}") };
            named += queues.len();
        }
    }
    assert_eq!(named, 40_000);
}

#[test]
fn a_newer_record_stops_and_an_unknown_text_is_named() {
    let mut replay = Replay::default();
    let error = replay.apply(5, 1, br#"{"version":4,"kind":"changes","rows":[]}"#).unwrap_err();
    assert_eq!(error.reason, DecodeError::Newer { version: 4 });
    assert!(error.to_string().contains("version 4"), "{error}");
    for body in [&b"{"[..], br#"{"version":1,"kind":"dance"}"#, br#"{"kind":"opening","term":1}"#] {
        let error = replay.apply(5, 1, body).unwrap_err();
        assert!(matches!(error.reason, DecodeError::Damaged(_)), "{error}");
    }
}

/// A node of an older version stops where it cannot read on, and not before.
#[test]
fn a_record_has_the_oldest_version_that_can_say_it() {
    let version = |record: &Record| {
        let body: serde_json::Value = serde_json::from_slice(&record.encode().unwrap()).unwrap();
        body["version"].as_u64()
    };
    let changes = |changes: Vec<Change>| Record::Changes { changes };
    assert_eq!(version(&changes(vec![Change::Topic(topic(1, 4))])), Some(1));
    let newer = vec![Change::Topic(topic(1, 4)), Change::RequestMode(mode(1, 1, 2))];
    assert_eq!(version(&changes(newer.clone())), Some(2));
    assert_eq!(version(&Record::Part { snapshot: 1, nth: 0, rows: newer }), Some(2));
    let key = "T@G".to_owned();
    let reset = Change::Reset { key, queue: 0, offset: 7, told: false };
    assert_eq!(version(&changes(vec![reset, Change::Topic(topic(1, 4))])), Some(3));
    assert_eq!(version(&Record::Opening { term: 4 }), Some(1));
}

#[test]
fn modes_go_with_their_topic_and_with_their_group() {
    let mut tables = Tables::default();
    let all = (0..2).flat_map(|topic| (0..2).map(move |group| mode(topic, group, 8)));
    let all: Vec<_> = all.map(Change::RequestMode).collect();
    tables.apply(&all, 1, Touched::default());
    tables.apply(&[Change::DeleteTopic("T0".into())], 1, Touched::default());
    tables.apply(&[Change::DeleteGroup("G0".into())], 1, Touched::default());
    let left = [("T1".to_owned(), [("G1".to_owned(), mode(1, 1, 8))].into())].into();
    assert_eq!(tables.request_modes, left);
    let text = tables.file(Kind::RequestModes).unwrap();
    assert!(text.contains("\"popShareQueueNum\":8"), "{text}");
    let mut read = Tables::default();
    let java =
        br#"{"messageRequestModeMap":{"T1":{"G1":{"mode":"POP","popShareQueueNum":8}},"T2":{}}}"#;
    read.read_file(Kind::RequestModes, java).unwrap();
    assert_eq!(read.request_modes, tables.request_modes, "names are those of the map");
}

/// Logs that were written before the journal held more than openings stay readable.
#[test]
fn the_opening_record_of_older_nodes_is_read() {
    let mut replay = Replay::default();
    let body = br#"{"version":1,"kind":"opening","term":7}"#;
    assert_eq!(replay.apply(0, 1, body), Ok(Applied::Nothing));
    assert_eq!(replay.term(), 7);
    assert_eq!(Record::Opening { term: 7 }.encode().unwrap(), body);
}

#[test]
fn a_mark_knows_its_files_and_those_of_a_projection_that_was_cut_short() {
    let mut mark = Mark { position: 9, term: 2, whole: true, ..Mark::default() };
    mark.files.insert("topics.json".to_owned(), FileMark::of(b"old"));
    mark.upcoming.insert("topics.json".to_owned(), FileMark::of(b"new"));
    let read = Mark::decode(&mark.encode().unwrap()).unwrap();
    assert_eq!(read, Mark { version: 1, ..mark });
    assert!(read.knows("topics.json", b"old") && read.knows("topics.json", b"new"));
    assert!(!read.knows("topics.json", b"other") && !read.knows("x", b"old"));
    let newer = br#"{"version":2,"position":0,"term":0,"whole":true,"snapshot":null}"#;
    assert!(Mark::decode(newer).is_err());
}
