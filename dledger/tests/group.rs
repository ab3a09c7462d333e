//! Goal: engines of one group keep one log through the death and the return of its members.
//!
//! Method: three real engines on simulated disks in one thread; messages are passed by hand, time
//! goes on by tens of milliseconds.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by a panic")]

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::{BufMut, Bytes, BytesMut};
use dledger::{
    AnyBodies, AppendFailure, Body, CallId, Completed, DiskOptions, Doubt, ENTRY_HEADER, Engine,
    EngineConfig, Entries, Event, Hook, HookError, Job, Policy, Role, Tail,
};
use dledger_core::{Life, Message, Millis};
use segment::{Call, SimVfs, Vfs};

const FILE: u64 = 4096;
const IDS: [&str; 3] = ["n0", "n1", "n2"];

struct Letter {
    from: String,
    to: String,
    call: CallId,
    message: Message,
    entries: Option<Bytes>,
}

#[derive(Default)]
struct Group {
    engines: BTreeMap<String, Engine<u64>>,
    disks: BTreeMap<String, SimVfs>,
    letters: VecDeque<Letter>,
    /// Pairs of which the first cannot reach the second.
    cut: BTreeSet<(String, String)>,
    outcomes: BTreeMap<u64, Result<(), AppendFailure>>,
    /// Acknowledge what is in the page cache of a majority (`ASYNC_FLUSH`).
    unsynced: bool,
    /// The log position from which on the owners need all entries, plus 1; 0 where they need none.
    needs: Arc<AtomicU64>,
    /// Members whose disk hangs, and the jobs that wait for it.
    hung: BTreeMap<String, VecDeque<Job>>,
    now: u64,
    calls: u64,
    /// The life that the sender of each push knew.
    known: BTreeMap<CallId, Option<Life>>,
    lives: u64,
}

/// As [`AnyBodies`], but with needs.
struct Owner(Arc<AtomicU64>);

impl Hook for Owner {
    fn elected(&mut self, term: u64, tail: &mut dyn Tail) -> Result<(), HookError> {
        AnyBodies.elected(term, tail)
    }

    fn opening(&mut self, term: u64) -> Vec<u8> {
        AnyBodies.opening(term)
    }

    fn stamp(&mut self, group: &mut [Body<'_>]) -> Result<(), HookError> {
        AnyBodies.stamp(group)
    }

    fn undo(&mut self) {
        AnyBodies.undo();
    }

    fn needed_from(&mut self) -> u64 {
        self.0.load(Ordering::Relaxed).checked_sub(1).unwrap_or(u64::MAX)
    }
}

impl Group {
    fn new() -> Self {
        Self::with(false)
    }

    fn with(unsynced: bool) -> Self {
        let mut group = Self { unsynced, ..Self::default() };
        for id in IDS {
            group.disks.insert(id.to_owned(), SimVfs::new());
            group.start(id);
        }
        group
    }

    fn start(&mut self, id: &str) {
        self.lives += 1;
        let vfs: Arc<dyn Vfs> = Arc::new(self.disks[id].clone());
        let disk = DiskOptions {
            index_file_size: 32 * 16,
            hot_ring_bytes: 3000,
            unflushed_window: 8 * FILE,
            ..DiskOptions::new("log".into(), FILE)
        };
        let config = EngineConfig {
            seed: self.lives,
            life: self.lives,
            append_timeout: Duration::from_secs(20),
            push_bytes: 2000,
            policy: if self.unsynced { Policy::Written } else { Policy::Flushed },
            ..EngineConfig::new(id, &IDS, disk)
        };
        let mut engine = Engine::open(&vfs, config).unwrap();
        engine.start(Box::new(Owner(Arc::clone(&self.needs))));
        self.engines.insert(id.to_owned(), engine);
    }

    /// The process is gone; its page cache is not.
    fn kill(&mut self, id: &str) {
        self.engines.remove(id).unwrap();
    }

    fn isolate(&mut self, id: &str) {
        for other in IDS.iter().filter(|other| **other != id) {
            self.cut.insert((id.to_owned(), (*other).to_owned()));
            self.cut.insert(((*other).to_owned(), id.to_owned()));
        }
    }

    fn hang(&mut self, id: &str) {
        self.hung.insert(id.to_owned(), VecDeque::new());
    }

    fn unhang(&mut self, id: &str) {
        for job in self.hung.remove(id).unwrap() {
            let done = self.engines[id].run_job(job);
            self.event(id, Event::Done(done));
        }
    }

    fn heal(&mut self) {
        self.cut.clear();
    }

    fn event(&mut self, id: &str, event: Event<u64>) {
        let Some(engine) = self.engines.get_mut(id) else { return };
        engine.handle(Millis(self.now), event);
        while let Some(mut outgoing) = engine.poll_send() {
            let call = outgoing.call.unwrap_or_else(|| {
                self.calls += 1;
                CallId(self.calls)
            });
            match &mut outgoing.message {
                Message::Push(push) => {
                    self.known.insert(call, push.known);
                }
                Message::PushReply(reply) => reply.known = self.known.remove(&call).flatten(),
                _ => {}
            }
            let entries = (!outgoing.entries.is_empty()).then(|| outgoing.entries.concat().into());
            let (from, to) = (id.to_owned(), outgoing.to);
            self.letters.push_back(Letter { from, to, call, message: outgoing.message, entries });
        }
        for Completed { token, result } in engine.take_completed() {
            let before = self.outcomes.insert(token, result.map(|_| ()));
            assert!(before.is_none(), "token {token} completed twice");
        }
    }

    /// Jobs are done, letters arrive.
    fn round(&mut self) {
        for id in IDS {
            self.event(id, Event::Tick);
            for _ in 0..100 {
                let Some(engine) = self.engines.get_mut(id) else { break };
                let Some(job) = engine.poll_job() else { break };
                if let Some(waiting) = self.hung.get_mut(id) {
                    waiting.push_back(job);
                    continue;
                }
                let done = engine.run_job(job);
                self.event(id, Event::Done(done));
            }
        }
        for _ in 0..self.letters.len() {
            let Some(letter) = self.letters.pop_front() else { break };
            let Letter { from, to, call, message, entries } = letter;
            if !self.cut.contains(&(from.clone(), to.clone())) {
                self.event(&to, Event::Received { from, call, message, entries });
            }
        }
    }

    /// Ten milliseconds.
    fn step(&mut self) {
        self.now += 10;
        self.round();
        for engine in self.engines.values() {
            assert_eq!(engine.status().failure, None);
        }
    }

    /// Lets time pass until `reached`, at most a minute.
    fn until(&mut self, what: &str, reached: impl Fn(&Self) -> bool) {
        for _ in 0..6000 {
            if reached(self) {
                return;
            }
            self.step();
        }
        let states: Vec<_> = self
            .engines
            .iter()
            .map(|(id, engine)| (id, engine.status().clone(), engine.last(), engine.committed()))
            .collect();
        panic!("not reached: {what}; {states:#?}");
    }

    fn leader(&self) -> Option<String> {
        let leads = |engine: &&Engine<u64>| engine.status().opened;
        let mut leaders: Vec<_> = self.engines.iter().filter(|(_, engine)| leads(engine)).collect();
        leaders.sort_by_key(|(_, engine)| engine.status().term);
        leaders.last().map(|(id, _)| (*id).clone())
    }

    fn elect(&mut self) -> String {
        self.until("a leader", |group| group.leader().is_some());
        self.leader().unwrap()
    }

    fn submit(&mut self, id: &str, tokens: std::ops::Range<u64>) {
        for token in tokens {
            let mut buffer = BytesMut::zeroed(ENTRY_HEADER);
            let length = 100 + token % 7 * 60;
            buffer.put_bytes(u8::try_from(token % 251).unwrap(), usize::try_from(length).unwrap());
            let lengths = vec![u32::try_from(length).unwrap()];
            self.event(id, Event::Submitted(vec![Entries { buffer, lengths, token }]));
        }
    }

    fn append(&mut self, tokens: std::ops::Range<u64>) {
        let leader = self.elect();
        self.submit(&leader, tokens.clone());
        self.until("appends to be answered", |group| {
            tokens.clone().all(|token| group.outcomes.contains_key(&token))
        });
        for token in tokens {
            assert_eq!(self.outcomes[&token], Ok(()), "token {token}");
        }
    }

    /// All that run hold the same committed log.
    fn converge(&mut self) {
        self.until("one log everywhere", |group| {
            let mut ends = group.engines.values().map(|engine| (engine.last(), engine.committed()));
            let first = ends.next().unwrap();
            first.0.map(|last| last.index) == first.1 && ends.all(|end| end == first)
        });
        let logs: Vec<_> = self.engines.values().map(entries).collect();
        let longest = logs.iter().max_by_key(|log| log.len()).unwrap();
        for log in &logs {
            assert!(longest.ends_with(log), "logs differ");
        }
    }
}

/// Positions and bodies of all committed entries.
fn entries(engine: &Engine<u64>) -> Vec<(u64, Bytes)> {
    let log = engine.log();
    let mut from = log.bounds().min;
    let mut all = Vec::new();
    while from < log.bounds().committed {
        let run = log.read_forward(from, 5000).unwrap();
        from = run.next;
        all.extend(run.entries);
    }
    all
}

fn other_than(leader: &str) -> Vec<String> {
    IDS.iter().filter(|id| **id != leader).map(|id| (*id).to_owned()).collect()
}

#[test]
fn a_new_group_elects_a_leader_and_commits_on_all() {
    let mut group = Group::new();
    group.append(0..50);
    group.converge();
    let leader = group.elect();
    let count = entries(&group.engines[&leader]).len();
    assert_eq!(count, 51, "the opening entry and 50 others");
    group.until("no doubt left", |group| {
        group.engines.values().all(|engine| engine.status().doubt.is_none())
    });
}

#[test]
fn a_killed_leader_is_replaced_and_comes_back_as_a_follower() {
    let mut group = Group::new();
    group.append(0..20);
    let first = group.elect();
    group.kill(&first);
    group.append(20..40);
    let second = group.elect();
    assert_ne!(first, second);
    group.start(&first);
    group.converge();
    assert_eq!(group.engines[&first].status().role, Role::Follower);
    group.append(40..60);
    group.converge();
}

#[test]
fn a_divergent_tail_is_cut_off_and_its_submitters_are_told() {
    let mut group = Group::new();
    group.append(0..10);
    let old = group.elect();
    group.isolate(&old);
    group.submit(&old, 100..110);
    group.until("another leader", |group| group.leader().is_some_and(|id| id != old));
    let new = group.leader().unwrap();
    group.submit(&new, 10..30);
    group.until("appends on the new leader", |group| group.outcomes.contains_key(&29));
    assert!(!group.outcomes.contains_key(&100), "an append outlives the lead");
    group.heal();
    group.converge();
    for token in 100..110 {
        let failure = group.outcomes[&token].clone().unwrap_err();
        assert!(matches!(failure, AppendFailure::Truncated { .. }), "{token}: {failure}");
    }
    group.append(30..40);
    group.converge();
}

#[test]
fn an_append_of_a_deposed_leader_succeeds_where_the_next_one_commits_it() {
    let mut group = Group::new();
    group.append(0..10);
    let old = group.elect();
    // Its pushes arrive, no answer does.
    for other in other_than(&old) {
        group.cut.insert((other, old.clone()));
    }
    group.submit(&old, 100..105);
    group.until("another leader", |group| group.leader().is_some_and(|id| id != old));
    assert!(!group.outcomes.contains_key(&100));
    group.heal();
    group.converge();
    for token in 100..105 {
        assert_eq!(group.outcomes[&token], Ok(()), "token {token}");
    }
}

#[test]
fn a_wiped_follower_is_refilled_without_new_traffic() {
    let mut group = Group::new();
    group.append(0..60);
    group.converge();
    let leader = group.elect();
    let wiped = other_than(&leader).remove(0);
    group.kill(&wiped);
    group.disks.insert(wiped.clone(), SimVfs::new());
    group.start(&wiped);
    assert_eq!(group.engines[&wiped].status().doubt, Some(Doubt::Empty));
    group.converge();
    group.until("the doubt to be settled", |group| group.engines[&wiped].status().doubt.is_none());
    // It is settled on the disk, too.
    group.step();
    group.kill(&wiped);
    group.start(&wiped);
    assert_eq!(group.engines[&wiped].status().doubt, None);
    group.append(60..70);
    group.converge();
}

#[test]
fn a_follower_behind_the_leaders_first_entry_starts_there() {
    let mut group = Group::new();
    group.append(0..10);
    group.converge();
    let leader = group.elect();
    let behind = other_than(&leader).remove(0);
    group.kill(&behind);
    group.append(10..80);
    group.converge();
    for id in IDS.iter().filter(|id| **id != behind) {
        let log = Arc::clone(group.engines[*id].log());
        let committed = log.bounds().committed;
        assert!(log.trim(committed).unwrap() > 0, "{id} has one file only");
        group.event(id, Event::Trimmed);
    }
    group.start(&behind);
    group.append(80..90);
    group.converge();
    assert!(group.engines[&behind].log().bounds().min > 0);
    // It knows where it stands after a restart.
    group.kill(&behind);
    group.start(&behind);
    group.append(90..100);
    group.converge();
}

#[test]
fn power_cuts_of_all_members_lose_nothing_that_was_acknowledged() {
    let mut group = Group::new();
    group.append(0..30);
    let before = entries(&group.engines[&group.leader().unwrap()]);
    for id in IDS {
        group.kill(id);
        let after = group.disks[id].crash(&mut |_| segment::Fate::Drop);
        group.disks.insert(id.to_owned(), after);
    }
    group.letters.clear();
    for id in IDS {
        group.start(id);
    }
    group.append(30..40);
    group.converge();
    let after = entries(&group.engines[&group.leader().unwrap()]);
    assert!(after.starts_with(&before));
}

#[test]
fn a_rotten_entry_is_fetched_from_another_member_and_no_leader_has_one() {
    for leads in [false, true] {
        let mut group = Group::new();
        group.append(0..30);
        group.converge();
        let leader = group.elect();
        let rotten = if leads { leader.clone() } else { other_than(&leader).remove(1) };
        // The index tells what was there; it is written about once a second.
        group.engines[&rotten].write_behind(Millis(group.now)).unwrap();
        group.kill(&rotten);
        let end = group.engines.values().next().unwrap().end();
        let file = format!("log/data/{:020}", end / FILE * FILE);
        group.disks[&rotten].flip_bit(Path::new(&file), 70).unwrap();
        group.start(&rotten);
        assert_eq!(group.engines[&rotten].log().rotten().len(), 1);
        group.until("the rot to be mended", |group| {
            assert!(group.engines[&rotten].status().role != Role::Leader);
            group.engines[&rotten].log().rotten().is_empty()
        });
        group.converge();
        group.append(30..40);
        group.converge();
        assert!(group.engines[&rotten].status().healthy);
    }
}

#[test]
fn a_leader_hands_over_when_asked_and_readers_learn_how_far_to_read() {
    let mut group = Group::new();
    group.append(0..10);
    group.converge();
    let old = group.elect();
    let to = other_than(&old).remove(0);
    let call = CallId(7);
    group.event(&old, Event::ReadIndex { call });
    let answer = std::cell::RefCell::new(None);
    for _ in 0..100 {
        group.step();
        if let Some(found) = group.engines.get_mut(&old).unwrap().poll_answer() {
            answer.replace(Some(found));
            break;
        }
    }
    let end = group.engines[&old].log().bounds().committed;
    assert_eq!(answer.take(), Some(dledger::Answer::ReadIndex { call, end: Ok(end) }));
    group.event(&old, Event::Transfer { call, to: Some(to.clone()) });
    group.until("the other one to lead", |group| group.leader().is_some_and(|id| id == to));
    group.append(10..20);
    group.converge();
}

#[test]
fn a_leader_whose_disk_hangs_gives_up_the_lead_until_it_goes_on() {
    let mut group = Group::new();
    group.append(0..10);
    let old = group.elect();
    group.hang(&old);
    group.submit(&old, 100..101);
    group.until("another leader", |group| group.leader().is_some_and(|id| id != old));
    assert!(!group.engines[&old].status().healthy);
    group.append(10..20);
    group.unhang(&old);
    group.converge();
    assert!(group.engines[&old].status().healthy);
    // Its own flush was late, those of the others were not.
    assert_eq!(group.outcomes[&100], Ok(()));
}

#[test]
fn a_full_disk_of_a_follower_is_no_hindrance_and_it_catches_up() {
    let mut group = Group::new();
    group.append(0..10);
    group.converge();
    let leader = group.elect();
    let full = other_than(&leader).remove(0);
    group.disks[&full].set_room(Some(0));
    group.append(10..60);
    assert!(!group.engines[&full].status().healthy);
    group.disks[&full].set_room(None);
    group.converge();
    assert!(group.engines[&full].status().healthy);
}

#[test]
fn a_failed_flush_stops_the_member_and_leaves_it_in_doubt() {
    let mut group = Group::new();
    group.append(0..10);
    group.converge();
    let leader = group.elect();
    let broken = other_than(&leader).remove(0);
    group.disks[&broken].fail(Call::Sync, 0, 1, 5);
    group.submit(&leader, 10..11);
    for _ in 0..200 {
        group.now += 10;
        group.round();
        if group.engines[&broken].status().failure.is_some() {
            break;
        }
    }
    let failure = group.engines[&broken].status().failure.clone().unwrap();
    assert!(failure.starts_with("log could not be synced"), "{failure}");
    group.kill(&broken);
    group.start(&broken);
    assert_eq!(group.engines[&broken].status().doubt, Some(Doubt::FailedFlush));
    group.append(20..30);
    group.converge();
    group.until("the doubt to be settled", |group| {
        group.engines.values().all(|engine| engine.status().doubt.is_none())
    });
}

#[test]
fn rot_that_a_reader_meets_is_mended() {
    let mut group = Group::new();
    group.append(0..40);
    group.converge();
    let leader = group.elect();
    let other = other_than(&leader).remove(0);
    let sound = entries(&group.engines[&other]);
    let (position, body) = &sound[5];
    let file = format!("log/data/{:020}", position / FILE * FILE);
    let offset = position % FILE + ENTRY_HEADER as u64 + 3;
    group.disks[&other].flip_bit(Path::new(&file), offset).unwrap();
    let log = Arc::clone(group.engines[&other].log());
    let length = u32::try_from(body.len()).unwrap();
    assert!(log.read(*position, length).is_err());
    // A reader that asks for a place where no entry begins convicts nobody.
    assert!(log.read(position + 1, 20).is_err());
    group.until("the rot to be mended", |_| log.read(*position, length).is_ok());
    group.converge();
    assert_eq!(entries(&group.engines[&other]), sound);
    assert_eq!(log.rotten(), []);
}

#[test]
fn what_is_submitted_while_the_lead_changes_hands_is_taken_or_refused_but_not_lost() {
    let mut group = Group::new();
    group.append(0..10);
    group.converge();
    let old = group.elect();
    let to = other_than(&old).remove(0);
    group.event(&old, Event::Transfer { call: CallId(7), to: Some(to.clone()) });
    for token in 10..40 {
        group.submit(&old, token..token + 1);
        group.step();
    }
    group.until("all to be answered", |group| {
        (10..40).all(|token| group.outcomes.contains_key(&token))
    });
    group.converge();
    let lengths: Vec<usize> = entries(&group.engines[&to]).iter().map(|(_, b)| b.len()).collect();
    let opening = lengths.iter().filter(|length| **length < 100).count();
    let taken = (0..40).filter(|token| group.outcomes[token].is_ok()).count();
    assert_eq!(lengths.len() - opening, taken);
    for token in 10..40 {
        if let Err(failure) = &group.outcomes[&token] {
            assert!(matches!(failure, AppendFailure::Refused(_)), "{token}: {failure}");
        }
    }
    assert_eq!(group.leader(), Some(to));
}

#[test]
fn a_power_cut_of_all_under_async_flush_leaves_members_in_doubt_that_agree_on_what_is_left() {
    for fate in [segment::Fate::Drop, segment::Fate::Keep] {
        let mut group = Group::with(true);
        group.append(0..30);
        group.converge();
        group.until("no doubt left", |group| {
            group.engines.values().all(|engine| engine.status().doubt.is_none())
        });
        // All of that is flushed behind the acknowledgements; what comes now is not.
        for _ in 0..60 {
            group.step();
        }
        group.append(30..40);
        let before = entries(&group.engines[&group.leader().unwrap()]);
        // What was not flushed is lost with two of the members.
        let kept = group.leader().unwrap();
        for id in IDS {
            group.kill(id);
            let own = if id == kept { segment::Fate::Keep } else { fate };
            let after = group.disks[id].crash(&mut |_| own);
            group.disks.insert(id.to_owned(), after);
        }
        group.letters.clear();
        for id in IDS {
            group.start(id);
            assert_eq!(group.engines[id].status().doubt, Some(Doubt::UncleanBoot));
        }
        group.append(40..50);
        group.converge();
        group.until("the doubts to be settled", |group| {
            group.engines.values().all(|engine| engine.status().doubt.is_none())
        });
        // All had to agree, so the one that kept everything was asked.
        let after = entries(&group.engines[&group.leader().unwrap()]);
        assert!(after.starts_with(&before), "{} of {}", after.len(), before.len());
    }
}

/// The data files of a member, byte by byte.
fn files(group: &Group, id: &str) -> Vec<(String, Vec<u8>)> {
    let disk = &group.disks[id];
    let mut paths = disk.paths();
    paths.retain(|path| path.starts_with("log/data"));
    paths.sort();
    let read = |path: &std::path::PathBuf| {
        let file = disk.open(path).unwrap();
        let mut bytes = vec![0; usize::try_from(file.length().unwrap()).unwrap()];
        segment::read_exact_at(&*file, &mut bytes, 0).unwrap();
        (path.display().to_string(), bytes)
    };
    paths.iter().map(read).collect()
}

/// Fields of a header by an offset that lies in each: magic, size, index, term, position, channel,
/// chainCrc, bodyCrc, bodySize.
const FIELDS: [u64; 9] = [3, 7, 15, 23, 31, 35, 37, 41, 47];

/// Flips a bit of an entry that is in no member's hot ring.
fn rot_in(group: &Group, id: &str, index: u64, offset: u64) {
    let log = group.engines[id].log();
    let at = log.get(index).unwrap().position + offset;
    let file = format!("log/data/{:020}", at / FILE * FILE);
    group.disks[id].flip_bit(Path::new(&file), at % FILE).unwrap();
}

#[test]
fn rot_in_any_field_of_a_followers_header_is_mended_once_it_is_read() {
    for field in FIELDS {
        let mut group = Group::new();
        group.append(0..40);
        group.converge();
        let leader = group.elect();
        let other = other_than(&leader).remove(0);
        let sound = group.engines[&other].log().get(7).unwrap();
        rot_in(&group, &other, 7, field);
        let log = Arc::clone(group.engines[&other].log());
        assert!(log.get(7).is_err(), "byte {field}");
        group.until("the rot to be mended", |_| log.rotten().is_empty() && log.get(7).is_ok());
        assert_eq!(log.get(7).unwrap(), sound, "byte {field}");
        group.append(40..50);
        group.converge();
        assert_eq!(files(&group, &other), files(&group, &leader), "byte {field}");
    }
}

#[test]
fn a_leader_with_rot_in_any_field_of_a_header_hands_over_and_all_logs_are_equal_in_the_end() {
    for field in FIELDS {
        let mut group = Group::new();
        group.append(0..10);
        group.converge();
        group.until("no doubt left", |group| {
            group.engines.values().all(|engine| engine.status().doubt.is_none())
        });
        let leader = group.elect();
        let behind = other_than(&leader).remove(0);
        group.kill(&behind);
        group.append(10..60);
        group.converge();
        // It is one that the third member lacks, so that the leader must read it.
        rot_in(&group, &leader, 20, field);
        group.start(&behind);
        group.until("the rot to be mended", |group| {
            let log = group.engines[&leader].log();
            log.rotten().is_empty() && log.get(20).is_ok()
        });
        group.converge();
        group.append(60..70);
        group.converge();
        for id in other_than(&leader) {
            assert_eq!(files(&group, &id), files(&group, &leader), "byte {field}: {id}");
        }
    }
}

#[test]
fn rot_that_no_other_member_has_any_more_is_given_up_unless_its_owner_needs_it() {
    let mut group = Group::new();
    group.append(0..60);
    group.converge();
    group.until("no doubt left", |group| {
        group.engines.values().all(|engine| engine.status().doubt.is_none())
    });
    let leader = group.elect();
    let rotten = other_than(&leader).remove(0);
    rot_in(&group, &rotten, 2, 60);
    let log = Arc::clone(group.engines[&rotten].log());
    assert!(log.get(2).is_err());
    let mut begin = 0;
    for id in other_than(&rotten) {
        let log = Arc::clone(group.engines[&id].log());
        begin = log.trim(log.bounds().committed).unwrap();
        assert!(begin > 0, "{id} has one file only");
        group.event(&id, Event::Trimmed);
    }
    group.needs.store(1, Ordering::Relaxed);
    for _ in 0..400 {
        group.step();
    }
    assert_eq!((log.rotten().len(), log.bounds().min), (1, 0), "its owner needs it");
    group.needs.store(0, Ordering::Relaxed);
    group.until("the rot to be given up", |_| log.rotten().is_empty());
    assert_eq!(log.bounds().min, begin);
    group.until("it to be healthy", |group| group.engines[&rotten].status().healthy);
    // The leader hears of that by heartbeats.
    group.append(60..70);
    group.converge();
    for _ in 0..100 {
        group.step();
    }
    group.event(&leader, Event::Transfer { call: CallId(7), to: Some(rotten.clone()) });
    group.until("it to lead", |group| group.leader().is_some_and(|id| id == rotten));
    group.append(70..80);
    group.converge();
}
