//! Clients that change and read keys, and write down what they were told.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use serde_json::json;

use crate::{
    client::{Answer, Client, Patience, Request, fresh_id},
    history::{Action, Operation, Recorder, Value},
};

/// Keys that all clients change.
const SHARED_KEYS: u64 = 5;

/// Pause between two operations of a client, so that a round has no more than can be checked.
const BREATH: Duration = Duration::from_millis(2);

/// A change that was acknowledged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Acknowledged {
    /// When, on the recorder's clock.
    pub at: u64,
    /// By which member, as its address.
    pub by: String,
}

/// What all clients have seen.
#[derive(Debug, Default)]
pub struct Seen {
    /// Operations on keys that clients share, and reads of all keys at the end.
    pub recorder: Recorder,
    /// Keys that were written once, with their values, and acknowledged.
    pub ledger: Mutex<BTreeMap<String, String>>,
    /// Acknowledged changes in the order of their answers.
    pub acknowledged: Mutex<Vec<Acknowledged>>,
    /// Set to end the clients.
    pub stop: AtomicBool,
}

/// From where clients read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reads {
    /// From the leader, confirmed by a majority.
    Linearizable,
    /// From any member, as it is applied there: a history of such reads must be found out.
    Local,
}

/// How long a client of a test goes on with one operation: until it has an answer.
fn patience() -> Patience {
    Patience {
        tries: 1000,
        whole: Duration::from_secs(8),
        each: Duration::from_millis(1500),
        pause: Duration::from_millis(10),
    }
}

/// As [`patience`], but gives up in the middle of a failover: what it asked for stays unknown.
fn impatience() -> Patience {
    Patience { whole: Duration::from_millis(250), each: Duration::from_millis(200), ..patience() }
}

/// A sequence of numbers from a seed (xorshift).
#[derive(Debug, Clone)]
pub struct Numbers(u64);

impl Numbers {
    /// The sequence of `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// The next number, below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound.max(1)
    }
}

/// One client: one operation at a time.
#[derive(Debug)]
pub struct Worker<'a> {
    name: String,
    client: Client,
    numbers: Numbers,
    /// What it last saw under each shared key.
    last: BTreeMap<u64, Value>,
    count: u64,
    reads: Reads,
    seen: &'a Seen,
}

impl<'a> Worker<'a> {
    /// Client `number`. Every other one is impatient.
    #[must_use]
    pub fn new(number: u64, addresses: &[String], reads: Reads, seen: &'a Seen) -> Self {
        let patience = if number % 2 == 1 { impatience() } else { patience() };
        Self {
            name: format!("c{number}"),
            client: Client::new(addresses.to_vec(), patience),
            numbers: Numbers::new(number + 1),
            reads,
            last: BTreeMap::new(),
            count: 0,
            seen,
        }
    }

    /// Goes on until it is told to stop.
    ///
    /// # Errors
    /// An answer that no member may give.
    pub fn run(&mut self) -> anyhow::Result<()> {
        while !self.seen.stop.load(Ordering::Relaxed) {
            let key = self.numbers.below(SHARED_KEYS);
            match self.numbers.below(10) {
                0..3 => self.read(key)?,
                3..6 => self.write(key)?,
                6 => self.delete(key)?,
                7..9 => self.compare_and_set(key)?,
                _ => self.write_once()?,
            }
            std::thread::sleep(BREATH);
        }
        Ok(())
    }

    fn fresh_value(&mut self) -> String {
        self.count += 1;
        format!("{}.{}", self.name, self.count)
    }

    fn read(&mut self, key: u64) -> anyhow::Result<()> {
        if self.reads == Reads::Local {
            self.client.next_member();
        }
        let value = read(&mut self.client, self.seen, (self.reads, &shared(key)))?;
        if let Some(value) = value {
            self.last.insert(key, value);
        }
        Ok(())
    }

    fn write(&mut self, key: u64) -> anyhow::Result<()> {
        let value = self.fresh_value();
        let action = Action::Write(Some(value.clone()));
        self.change(key, ("PUT", &value), |_| Some(action.clone()))?;
        Ok(())
    }

    fn delete(&mut self, key: u64) -> anyhow::Result<()> {
        self.change(key, ("DELETE", ""), |_| Some(Action::Write(None)))?;
        Ok(())
    }

    fn compare_and_set(&mut self, key: u64) -> anyhow::Result<()> {
        let expect = self.last.get(&key).cloned().flatten();
        let value = Some(self.fresh_value());
        let body = json!({ "expect": expect, "value": value }).to_string();
        self.change(key, ("POST", &body), |answer| {
            let (expect, value) = (expect.clone(), value.clone());
            match answer {
                Some(answer) if answer.status == 412 => {
                    let found: serde_json::Value = serde_json::from_str(&answer.body).ok()?;
                    let found = found["found"].as_str().map(str::to_owned);
                    Some(Action::Mismatch { expect, value, found })
                }
                _ => Some(Action::CompareAndSet { expect, value }),
            }
        })
    }

    /// Makes a change to a shared key; `action` says what it was, given the answer.
    fn change(
        &mut self,
        key: u64,
        (method, body): (&str, &str),
        action: impl Fn(Option<&Answer>) -> Option<Action>,
    ) -> anyhow::Result<()> {
        let from = self.seen.recorder.now();
        let (id, key_text) = (fresh_id(), shared(key));
        let path = format!("/kv/{key_text}");
        let answer = self.client.ask(Request { method, path: &path, id: &id, body });
        let to = self.seen.recorder.now();
        let (action, to) = match answer {
            Ok(answer) if answer.status == 200 || answer.status == 412 => {
                self.acknowledged(to);
                (action(Some(&answer)), Some(to))
            }
            Ok(answer) => anyhow::bail!("{method} {path}: {} {}", answer.status, answer.body),
            Err(crate::client::Failure::Refused(_)) => return Ok(()),
            Err(crate::client::Failure::Unknown(_)) => (action(None), None),
        };
        let Some(action) = action else { anyhow::bail!("{method} {path}: an odd answer") };
        let now = match &action {
            Action::Read(value) | Action::Write(value) | Action::CompareAndSet { value, .. } => {
                value
            }
            Action::Mismatch { found, .. } => found,
        };
        if to.is_some() {
            self.last.insert(key, now.clone());
        }
        self.seen.recorder.add(Operation { key: key_text, from, to, action });
        Ok(())
    }

    /// Writes a key that nobody else writes, and never again.
    fn write_once(&mut self) -> anyhow::Result<()> {
        let value = self.fresh_value();
        let key = format!("once.{value}");
        let (id, path) = (fresh_id(), format!("/kv/{key}"));
        let request = Request { method: "PUT", path: &path, id: &id, body: &value };
        if let Ok(answer) = self.client.ask(request) {
            anyhow::ensure!(answer.status == 200, "PUT {path}: {} {}", answer.status, answer.body);
            let now = self.seen.recorder.now();
            self.acknowledged(now);
            lock(&self.seen.ledger).insert(key, value);
        }
        Ok(())
    }

    fn acknowledged(&self, at: u64) {
        let by = self.client.member().to_owned();
        lock(&self.seen.acknowledged).push(Acknowledged { at, by });
    }
}

/// Reads a key and writes that down; `None` where no member answered.
///
/// # Errors
/// An answer that no member may give.
fn read(
    client: &mut Client,
    seen: &Seen,
    (reads, key): (Reads, &str),
) -> anyhow::Result<Option<Value>> {
    let from = seen.recorder.now();
    let path = match reads {
        Reads::Linearizable => format!("/kv/{key}"),
        Reads::Local => format!("/local/{key}"),
    };
    let answer = client.ask(Request { method: "GET", path: &path, id: "read", body: "" });
    let to = Some(seen.recorder.now());
    let value = match answer {
        Ok(Answer { status: 200, body, .. }) => Some(body),
        Ok(Answer { status: 404, .. }) => None,
        Ok(answer) => anyhow::bail!("GET {path}: {} {}", answer.status, answer.body),
        Err(_) => return Ok(None),
    };
    let action = Action::Read(value.clone());
    seen.recorder.add(Operation { key: key.to_owned(), from, to, action });
    Ok(Some(value))
}

/// Reads each shared key.
///
/// # Errors
/// Where no member answers.
pub fn read_all(addresses: &[String], seen: &Seen) -> anyhow::Result<()> {
    let mut client = Client::new(addresses.to_vec(), patience());
    for key in 0..SHARED_KEYS {
        let value = read(&mut client, seen, (Reads::Linearizable, &shared(key)))?;
        anyhow::ensure!(value.is_some(), "{} cannot be read though all members run", shared(key));
    }
    Ok(())
}

fn shared(key: u64) -> String {
    format!("shared.{key}")
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
