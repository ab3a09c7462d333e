//! The real engine as a process of the simulated world.

mod disk;
mod files;
mod journal;
mod messages;

use std::{path::PathBuf, sync::Arc, time::Duration};

use bytes::{BufMut, Bytes, BytesMut};
use dledger::{
    AppendFailure, Body, Completed, DiskOptions, Done, ENTRY_HEADER, Engine, EngineConfig,
    EngineError, Entries, Event, Hook, HookError, Job, Tail,
};
use dledger_core::{CallId, Load, Millis, PeerKind, Policy, Provisional, TransferCode};
use segment::Vfs;

pub use self::disk::SimDisk;
use self::files::{FOLDER, Files, hash};
use crate::{
    ghost::{Entry, Log},
    model::Op,
    plan::{Keeping, Plan},
    process::{Answer, Change, Incoming, Parcel, Process, Setup, Shown, Standing, StartFailure},
};

/// Most bytes of one push: small, so that a follower that lacks much needs several.
const PUSH_BYTES: u64 = 8 * 1024;
/// Bytes that may be written ahead of a flush, in data files.
const WINDOW_FILES: u64 = 3;

/// A process that runs the engine.
#[derive(Debug)]
pub struct Member {
    engine: Engine<u64>,
    files: Files,
    answers: Vec<Answer>,
    /// Position of the first entry when it was last looked at.
    seen_min: u64,
    trimmed: bool,
    /// Bodies are messages.
    messages: bool,
    /// The tables over the log.
    journal: Option<journal::Journal>,
    broken: Option<String>,
}

/// Gives each term its opening entry and marks what it stamps.
#[derive(Debug)]
struct MarkingHook {
    /// Position up to which it has seen the log, as the store of a broker has.
    seen: u64,
}

impl Hook for MarkingHook {
    fn elected(&mut self, _term: u64, tail: &mut dyn Tail) -> Result<(), HookError> {
        tail.visit(self.seen, &mut |_, _| Ok(()))
    }

    fn opening(&mut self, term: u64) -> Vec<u8> {
        format!("?opening {term}").into_bytes()
    }

    fn stamp(&mut self, group: &mut [Body<'_>]) -> Result<(), HookError> {
        for body in group {
            if let Some(first) = body.bytes.first_mut() {
                *first = b'#';
            }
        }
        Ok(())
    }

    fn undo(&mut self) {}
}

fn config(setup: &Setup) -> EngineConfig {
    let plan = &setup.plan;
    let members: Vec<String> = (0..plan.members).map(Setup::id).collect();
    let members: Vec<&str> = members.iter().map(String::as_str).collect();
    let disk = DiskOptions {
        index_file_size: 32 * 64,
        hot_ring_bytes: plan.hot_ring,
        unflushed_window: WINDOW_FILES * plan.file_size,
        zero_ahead: plan.zero_ahead,
        ..DiskOptions::new(PathBuf::from(FOLDER), plan.file_size)
    };
    let policy = match plan.keeping {
        Keeping::Flushed => Policy::Flushed,
        Keeping::Written => Policy::Written,
    };
    EngineConfig {
        policy,
        seed: plan.seed ^ setup.life.wrapping_mul(0x9e37_79b9_7f4a_7c15),
        life: setup.life,
        window_bytes: 4 * PUSH_BYTES,
        push_bytes: PUSH_BYTES,
        append_timeout: Duration::from_millis(crate::bare::APPEND_TIMEOUT),
        #[cfg(feature = "planted")]
        planted: plan.planted.clone(),
        ..EngineConfig::new(&Setup::id(setup.member), &members, disk)
    }
}

impl Process for Member {
    type Disk = SimDisk;
    type Job = Job;
    type Done = Done;

    /// Recovery, and a vote and a flush in the way of an election, may each take a slow job.
    const LEADER_SLACK: u64 = 500;

    fn start(disk: &SimDisk, setup: &Setup) -> Result<Self, StartFailure> {
        let vfs: Arc<dyn Vfs> = Arc::new(disk.vfs().clone());
        let mut engine = Engine::open(&vfs, config(setup)).map_err(|error| match error {
            EngineError::Recover(dledger::RecoverError::Rot(rot)) => {
                StartFailure::Rot(rot.to_string())
            }
            other => StartFailure::Other(other.to_string()),
        })?;
        let seen = engine.log().bounds().committed;
        let messages = setup.plan.messages;
        engine.start(if messages {
            Box::new(messages::QueueHook::new(&setup.plan))
        } else {
            Box::new(MarkingHook { seen })
        });
        let min = engine.log().bounds().min;
        let journal = setup
            .plan
            .journal
            .then(|| journal::Journal::start(&vfs, (engine.log(), disk.files()), &setup.plan));
        let journal = journal.transpose().map_err(StartFailure::Other)?;
        Ok(Self {
            engine,
            files: disk.files().clone(),
            answers: Vec::new(),
            seen_min: min,
            trimmed: false,
            messages,
            journal,
            broken: None,
        })
    }

    fn handle(&mut self, now: Millis, incoming: Incoming<Done>) {
        if std::mem::take(&mut self.trimmed) {
            self.engine.handle(now, Event::Trimmed);
        }
        let event = match incoming {
            Incoming::Tick => Event::Tick,
            Incoming::Message { from, call, message, entries } => Event::Received {
                from: Setup::id(from),
                call: CallId(call),
                message,
                entries: (!entries.is_empty()).then_some(entries),
            },
            Incoming::Gone { member } => {
                Event::Peer { id: Setup::id(member), kind: PeerKind::Gone }
            }
            Incoming::Submit { token, bodies } if self.journal.is_some() => {
                match self.asked(token, bodies) {
                    Some(entries) => Event::Submitted(vec![entries]),
                    None => {
                        self.answers.push(Answer::Refused { token });
                        Event::Tick
                    }
                }
            }
            Incoming::Submit { token, bodies } if self.messages => {
                Event::Submitted(vec![messages::entries(token, &bodies)])
            }
            Incoming::Submit { token, bodies } => Event::Submitted(vec![entries(token, &bodies)]),
            Incoming::Done(done) => Event::Done(done),
            Incoming::Transfer { to } => Event::Transfer { call: CallId(0), to: to.map(Setup::id) },
            Incoming::ReadIndex { call } => Event::ReadIndex { call: CallId(call) },
        };
        self.engine.handle(now, event);
        self.take_completed(now);
        self.go_on_with_tables(now);
    }

    fn poll_send(&mut self) -> Option<Parcel> {
        let outgoing = self.engine.poll_send()?;
        let mut entries = BytesMut::new();
        for part in &outgoing.entries {
            entries.put_slice(part);
        }
        Some(Parcel {
            to: Setup::number(&outgoing.to)?,
            call: outgoing.call.map(|call| call.0),
            message: outgoing.message,
            entries: entries.freeze(),
        })
    }

    fn poll_job(&mut self) -> Option<Job> {
        self.engine.poll_job()
    }

    fn run_job(&self, job: Job) -> Done {
        self.engine.run_job(job)
    }

    fn is_flush(job: &Job) -> bool {
        matches!(job, Job::Flush { .. })
    }

    fn is_vote(job: &Job) -> bool {
        matches!(job, Job::StoreVote { .. })
    }

    fn write_behind(&mut self, now: Millis) {
        if let Err(error) = self.engine.write_behind(now) {
            let text = format!("index or checkpoint could not be written: {error}");
            self.engine.handle(now, Event::Done(Done::Failed(text)));
            self.take_completed(now);
        }
        if let Some(journal) = &mut self.journal {
            journal.job_ended(&self.files);
        }
    }

    fn take_answers(&mut self) -> Vec<Answer> {
        std::mem::take(&mut self.answers)
    }

    fn timeout(&self) -> Option<Millis> {
        self.engine.timeout()
    }

    fn standing(&self) -> Standing {
        let status = self.engine.status();
        Standing {
            role: status.role,
            term: status.term,
            opened: status.opened,
            failed: status.failure.is_some() || self.broken.is_some(),
        }
    }

    fn failure(&self) -> Option<String> {
        self.engine.status().failure.clone().or_else(|| self.broken.clone())
    }

    fn doubt(&self) -> Option<Provisional> {
        self.engine.status().doubt.map(Into::into)
    }

    fn lacks_head(&self) -> bool {
        self.engine.log().bounds().min > 0
    }

    fn is_violation(reason: &str) -> bool {
        // The texts of `dledger_core::Violation`.
        [
            "wants the log to be cut at",
            "leads in term",
            "after a cut behind",
            "contradict each",
            "was to be appended",
        ]
        .iter()
        .any(|text| reason.contains(text))
    }

    fn push_bound(_plan: &Plan) -> u64 {
        PUSH_BYTES + 4096
    }

    fn queue_ends(&self) -> Vec<u64> {
        let log = self.engine.log();
        let bounds = log.bounds();
        let entries = self.files.entries(bounds.min, bounds.committed);
        messages::ends(entries.filter_map(|entry| log.read_unsized(entry.position).ok()))
    }

    fn loads(&self) -> Vec<Load> {
        self.engine.loads()
    }

    fn committed(&self, log: &Log) -> Option<u64> {
        let committed = self.engine.committed()?.0;
        log.get(committed).map(|entry| entry.index)
    }

    fn changes(&mut self, log: &Log) -> Vec<Change> {
        let end = self.engine.end();
        let min = self.engine.log().bounds().min;
        let mut from = log.last().map_or(min, Entry::end);
        let is_same = from == end && log.last().is_none_or(|last| !self.files.header_differs(last));
        if is_same && min == self.seen_min {
            return Vec::new();
        }
        let mut changes = Vec::new();
        if min > self.seen_min && self.begins_anew(log, (min, end)) {
            // All of it went, and it begins further on.
            let first = match self.files.known_at(min) {
                Some(entry) if end > min => entry.index,
                // A member that came back may not know what is committed yet.
                _ => {
                    let behind = log.last_index().map_or(0, |last| last + 1);
                    self.engine.committed().map_or(behind, |it| behind.max(it.0 + 1))
                }
            };
            changes.push(Change::Trimmed(first));
            from = min;
        } else {
            if let Some(cut) = self.cut(log, end) {
                changes.push(Change::Truncated(cut.index));
                from = cut.position;
            }
            if min > self.seen_min
                && let Some(first) = self.files.known_at(min)
            {
                changes.push(Change::Trimmed(first.index));
            }
        }
        changes.extend(self.files.entries(from, end).map(Change::Appended));
        self.seen_min = min;
        changes
    }

    fn read(&self, entry: &Entry) -> Option<u64> {
        let bounds = self.engine.log().bounds();
        if entry.position < bounds.min || entry.end() > bounds.committed {
            return None;
        }
        let log = self.engine.log();
        // By position, as the store of a broker reads, and by number, which ties an entry to the one
        // before it. The chain checksum of the first one is told by the one behind.
        log.get(entry.index + 1).ok();
        let body = log.read_unsized(entry.position).ok()?;
        let known = log.get(entry.index).ok()?;
        (known.body == body).then(|| self.files.hash_with_body(entry, &body))
    }

    fn trim(&mut self, _now: Millis) {
        let bounds = self.engine.log().bounds();
        let before = bounds.min + (bounds.committed - bounds.min) / 2;
        let needed = self.journal.as_ref().map_or(u64::MAX, journal::Journal::needed_from);
        let before = before.min(needed);
        if let Err(error) = self.engine.log().trim(before) {
            self.broken.get_or_insert_with(|| error.to_string());
        }
        self.trimmed = true;
    }

    fn shown(&self) -> Option<Shown> {
        self.journal.as_ref().map(journal::Journal::shown)
    }

    fn close(&mut self) {
        if let Some(journal) = &mut self.journal {
            journal.project(&self.files);
        }
        if let Err(error) = self.engine.close() {
            self.broken.get_or_insert_with(|| error.to_string());
        }
    }
}

impl Member {
    /// Whether a log that begins at `min` now is another one than the `log` that was known, and not what
    /// is left of that: a file begins there in both, for what either holds.
    fn begins_anew(&self, log: &Log, (min, end): (u64, u64)) -> bool {
        let same = log.entries().iter().find(|entry| entry.position == min);
        end <= min || same.is_none_or(|entry| self.files.header_differs(entry))
    }

    /// The first entry that was cut, if any was.
    fn cut(&self, log: &Log, end: u64) -> Option<Entry> {
        let same = |entry: &&Entry| entry.end() > end || self.files.header_differs(entry);
        log.entries().iter().rev().take_while(same).last().copied()
    }

    /// What a client's submission writes: messages, or what it asks of the tables. Only a leader
    /// that has opened its term is asked for those, as a broker serves then.
    fn asked(&mut self, token: u64, mut bodies: Vec<Vec<u8>>) -> Option<Entries<u64>> {
        let leads = self.engine.status().opened;
        let (Some(journal), Some(op)) = (&mut self.journal, Op::of(token)) else {
            return Some(messages::entries(token, &bodies));
        };
        if !leads {
            return None;
        }
        bodies.truncate(1);
        let record = journal.record(&op);
        if record.is_some() && !matches!(op, Op::Delay { .. }) {
            bodies.clear();
        } else if record.is_none() && matches!(op, Op::Delay { .. }) {
            bodies.extend(bodies.first().cloned());
        }
        Some(messages::with_record(token, &bodies, record.as_ref()))
    }

    /// Applies what is committed, and goes on with a snapshot where this member leads.
    fn go_on_with_tables(&mut self, now: Millis) {
        let Some(journal) = &mut self.journal else { return };
        journal.follow(self.engine.log(), &self.files);
        let status = self.engine.status();
        let leads = (status.opened && status.failure.is_none()).then_some(status.term);
        let Some((token, record)) = journal.next_record(leads, now.0) else { return };
        let entries = messages::with_record(token, &[], Some(&record));
        self.engine.handle(now, Event::Submitted(vec![entries]));
        self.take_completed(now);
    }

    fn take_completed(&mut self, now: Millis) {
        for Completed { token, result } in self.engine.take_completed() {
            if token >= journal::OWN {
                if let Some(journal) = &mut self.journal {
                    journal.submitted(token, result.is_ok(), now.0);
                }
                continue;
            }
            self.answers.push(match result {
                Ok(appended) => {
                    let last = appended.entries().last().map(|(position, _)| position);
                    let position = last.unwrap_or(u64::MAX);
                    let hash = hash_of_last(&appended.bytes, &appended.lengths);
                    Answer::Acknowledged { token, position, hash }
                }
                Err(AppendFailure::Truncated { .. }) => Answer::CutOff { token },
                Err(AppendFailure::TimedOut { .. } | AppendFailure::Unconfirmed(_)) => {
                    Answer::TimedOut { token }
                }
                Err(_) => Answer::Refused { token },
            });
        }
        while let Some(answer) = self.engine.poll_answer() {
            self.answers.push(match answer {
                dledger::Answer::TransferDone { code, .. } => {
                    Answer::Transferred { success: code == TransferCode::Success }
                }
                dledger::Answer::ReadIndex { call, end } => {
                    let entries = end.ok().and_then(|end| self.entries_before(end));
                    Answer::Read { call: call.0, entries }
                }
                // Nobody asks for marks here.
                dledger::Answer::Marks { .. } => continue,
            });
        }
    }

    /// How many entries end at or before a log position.
    fn entries_before(&self, end: u64) -> Option<u64> {
        let min = self.engine.log().bounds().min;
        self.files.entries(min, end).last().map(|entry| entry.index + 1)
    }
}

fn entries(token: u64, bodies: &[Vec<u8>]) -> Entries<u64> {
    let mut buffer = BytesMut::new();
    for body in bodies {
        buffer.put_bytes(0, ENTRY_HEADER);
        buffer.put_slice(body);
    }
    let lengths = bodies.iter().map(|body| u32::try_from(body.len()).unwrap_or(0)).collect();
    Entries { buffer, lengths, token }
}

/// What stands for the bytes of the last of these entries.
fn hash_of_last(bytes: &Bytes, lengths: &[u32]) -> u64 {
    let last = lengths.last().map_or(0, |length| *length as usize + ENTRY_HEADER);
    let start = bytes.len().saturating_sub(last);
    hash(bytes.get(start..).unwrap_or_default())
}
