//! Appends to a DLedger group over its client protocol and keeps a ledger of what was acknowledged.
//! The protocol is written here anew, so that a fault in our own codec cannot hide itself.

use std::{
    collections::BTreeMap,
    io::{Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpStream},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

/// Bound on an answer, in bytes.
const LIMIT: usize = 16 << 20;
/// Time that one call may take.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Pause after a call that failed.
const PAUSE: Duration = Duration::from_millis(20);

/// Request code METADATA.
const METADATA: i32 = 50_000;
/// Request code APPEND.
const APPEND: i32 = 50_001;
/// Request code GET.
const GET: i32 = 50_002;
/// Request code LEADERSHIP_TRANSFER.
const TRANSFER: i32 = 51_005;
/// Our request code for the status of a member.
const STATUS: i32 = 52_003;

/// The answer of a leader that does not know yet what is committed.
const LEADER_NOT_READY: i64 = 505;
/// The answer of a leader that has no such entry.
const OUT_OF_RANGE: i64 = 410;
/// How often it is asked again.
const NOT_READY_TRIES: u32 = 1500;

/// What a result of 200 in the body means.
const SUCCESS: i64 = 200;

/// The members of a group on this machine.
#[derive(Debug, Clone)]
pub struct Members {
    /// Name of the group.
    pub group: String,
    /// Port of each member, by id.
    pub ports: BTreeMap<String, u16>,
    /// Addresses of those that are not at 127.0.0.1.
    pub hosts: BTreeMap<String, Ipv4Addr>,
}

impl Members {
    /// The group as `dLegerPeers` has it.
    #[must_use]
    pub fn text(&self) -> String {
        let members: Vec<_> =
            self.ports.iter().map(|(id, port)| format!("{id}-{}:{port}", self.host(id))).collect();
        members.join(";")
    }

    /// Where a member is.
    #[must_use]
    pub fn host(&self, id: &str) -> Ipv4Addr {
        self.hosts.get(id).copied().unwrap_or(Ipv4Addr::LOCALHOST)
    }

    /// Whom a member takes for the leader.
    ///
    /// # Errors
    /// Where it does not answer or knows none.
    pub fn leader_by(&self, id: &str) -> Result<String> {
        let answer = self.connect(id)?.ask(METADATA, &self.request(id))?;
        ensure!(answer["code"] == SUCCESS, "{answer}");
        Ok(answer["leaderId"].as_str().context("it knows none")?.to_owned())
    }

    /// The leader that most members name, if it is itself one of them.
    ///
    /// # Errors
    /// Where no leader names itself.
    pub fn leader(&self) -> Result<String> {
        let named = self.ports.keys().find(|id| self.leader_by(id).is_ok_and(|l| l == **id));
        named.cloned().context("no member leads")
    }

    /// What a member of ours says of itself.
    ///
    /// # Errors
    /// Where it does not answer.
    pub fn status(&self, id: &str) -> Result<Value> {
        self.connect(id)?.ask(STATUS, &self.request(id))
    }

    /// Asks the leader to hand over, in the term that it is in.
    ///
    /// # Errors
    /// Where it refuses.
    pub fn transfer(&self, from: &str, to: &str, term: i64) -> Result<()> {
        let mut request = self.request(from);
        request["transferId"] = from.into();
        request["transfereeId"] = to.into();
        request["term"] = term.into();
        let answer = self.connect(from)?.ask(TRANSFER, &request)?;
        ensure!(answer["code"] == SUCCESS, "transfer from {from} to {to}: {answer}");
        Ok(())
    }

    /// Appends a body at a member and returns its index.
    ///
    /// # Errors
    /// Where it is not acknowledged.
    pub fn append(&self, id: &str, body: &[u8]) -> Result<u64> {
        self.connect(id)?.append(self, id, body)
    }

    /// The body of an entry.
    ///
    /// # Errors
    /// Where the member does not give it.
    pub fn get(&self, id: &str, index: u64) -> Result<Vec<u8>> {
        self.connect(id)?.get(self, id, index)
    }

    /// A connection to a member.
    ///
    /// # Errors
    /// Where it does not take one.
    pub fn connect(&self, id: &str) -> Result<Line> {
        let port = *self.ports.get(id).with_context(|| format!("no member {id}"))?;
        let address = SocketAddr::from((self.host(id), port));
        let socket = TcpStream::connect_timeout(&address, TIMEOUT)
            .with_context(|| format!("connecting to {id}"))?;
        socket.set_read_timeout(Some(TIMEOUT)).context("setting a time-out")?;
        socket.set_nodelay(true).context("no delay")?;
        Ok(Line { socket })
    }

    fn request(&self, id: &str) -> Value {
        json!({ "code": 200, "group": self.group, "remoteId": id, "term": -1 })
    }
}

/// A connection to a member, for one call after the other.
#[derive(Debug)]
pub struct Line {
    socket: TcpStream,
}

impl Line {
    /// Sends a request and reads its answer.
    ///
    /// # Errors
    /// Where there is none, or it is no JSON.
    pub fn ask(&mut self, code: i32, body: &Value) -> Result<Value> {
        let head = json!({
            "code": code, "flag": 0, "language": "JAVA", "opaque": 1,
            "serializeTypeCurrentRPC": "JSON", "version": 479,
        });
        let (head, body) = (head.to_string(), body.to_string());
        let total = u32::try_from(4 + head.len() + body.len()).context("the frame is too long")?;
        let mut frame = Vec::from(total.to_be_bytes());
        frame.extend(u32::try_from(head.len()).context("the header is too long")?.to_be_bytes());
        frame.extend(head.as_bytes());
        frame.extend(body.as_bytes());
        self.socket.write_all(&frame).context("sending")?;
        let mut length = [0; 4];
        self.socket.read_exact(&mut length).context("reading the length of the answer")?;
        let length = u32::from_be_bytes(length) as usize;
        ensure!((4..=LIMIT).contains(&length), "an answer of {length} bytes");
        let mut answer = vec![0; length];
        self.socket.read_exact(&mut answer).context("reading the answer")?;
        let (marked, rest) = answer.split_first_chunk::<4>().context("no header")?;
        let (head, body) = rest
            .split_at_checked(u32::from_be_bytes(*marked) as usize)
            .context("the header is cut off")?;
        let head: Value = serde_json::from_slice(head).context("the header is not JSON")?;
        ensure!(head["code"] == SUCCESS, "the frame says {head}");
        serde_json::from_slice(body).context("the body is not JSON")
    }

    fn append(&mut self, members: &Members, id: &str, body: &[u8]) -> Result<u64> {
        let mut request = members.request(id);
        request["body"] = STANDARD.encode(body).into();
        let answer = self.ask(APPEND, &request)?;
        ensure!(answer["code"] == SUCCESS, "append at {id}: {answer}");
        answer["index"].as_u64().with_context(|| format!("an answer without an index: {answer}"))
    }

    fn get(&mut self, members: &Members, id: &str, index: u64) -> Result<Vec<u8>> {
        let mut request = members.request(id);
        request["beginIndex"] = index.into();
        let mut answer = self.ask(GET, &request)?;
        for _ in 0..NOT_READY_TRIES {
            if answer["code"] != LEADER_NOT_READY {
                break;
            }
            thread::sleep(PAUSE);
            answer = self.ask(GET, &request)?;
        }
        ensure!(
            answer["code"] != OUT_OF_RANGE,
            "{id} says INDEX_OUT_OF_RANGE for {index}: {answer}"
        );
        ensure!(answer["code"] == SUCCESS, "get of {index} at {id}: {answer}");
        let body = answer["entries"][0]["body"].as_str();
        STANDARD.decode(body.with_context(|| format!("no entry: {answer}"))?).context("its body")
    }
}

/// What several threads appended and the group acknowledged, by index.
#[derive(Debug)]
pub struct AppendLedger {
    members: Members,
    acknowledged: Mutex<BTreeMap<u64, String>>,
    faults: Mutex<Vec<String>>,
    stop: AtomicBool,
    next: AtomicU64,
    takeovers: Mutex<Takeovers>,
}

/// How long it took from faults to the next acknowledged append.
#[derive(Debug, Default)]
struct Takeovers {
    /// When the fault struck that no acknowledged append has followed yet.
    since: Option<Instant>,
    took: Vec<Duration>,
}

impl AppendLedger {
    /// A ledger that begins empty.
    #[must_use]
    pub fn new(members: Members) -> Self {
        Self {
            members,
            acknowledged: Mutex::default(),
            faults: Mutex::default(),
            stop: AtomicBool::new(false),
            next: AtomicU64::new(0),
            takeovers: Mutex::default(),
        }
    }

    /// A fault has just struck: from here on the next acknowledged append is waited for. One that was
    /// sent before does not count.
    pub fn struck(&self) {
        let mut takeovers = self.takeovers.lock().unwrap_or_else(PoisonError::into_inner);
        takeovers.since = Some(Instant::now());
    }

    /// How long it took from each fault to the next acknowledged append, ascending.
    #[must_use]
    pub fn takeovers(&self) -> Vec<Duration> {
        let takeovers = self.takeovers.lock().unwrap_or_else(PoisonError::into_inner);
        let mut took = takeovers.took.clone();
        took.sort_unstable();
        took
    }

    /// How many appends were acknowledged so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.acknowledged.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Index of the last one that was acknowledged.
    #[must_use]
    pub fn last(&self) -> Option<u64> {
        let acknowledged = self.acknowledged.lock().unwrap_or_else(PoisonError::into_inner);
        acknowledged.keys().next_back().copied()
    }

    /// Whether none was.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends with `writers` threads while `during` runs, each looking for the leader where a call
    /// fails. A body is sent once, so each acknowledged one is in the log once.
    ///
    /// # Errors
    /// That of `during`.
    pub fn under_load<T>(&self, writers: usize, during: impl FnOnce() -> Result<T>) -> Result<T> {
        self.stop.store(false, Ordering::Relaxed);
        thread::scope(|scope| {
            for _ in 0..writers {
                scope.spawn(|| self.write());
            }
            let outcome = during();
            self.stop.store(true, Ordering::Relaxed);
            outcome
        })
    }

    /// The body of an entry, from whoever leads: the lead may change meanwhile.
    fn read(&self, leader: &mut Option<(String, Line)>, index: u64) -> Result<Vec<u8>> {
        let mut outcome = None;
        for _ in 0..NOT_READY_TRIES {
            if leader.is_none() {
                let found = self.members.leader().and_then(|id| {
                    let line = self.members.connect(&id)?;
                    Ok((id, line))
                });
                *leader = found.ok();
            }
            if let Some((id, line)) = leader {
                match line.get(&self.members, id, index) {
                    Ok(body) => return Ok(body),
                    Err(error) if error.to_string().contains("INDEX_OUT_OF_RANGE") => {
                        return Err(error);
                    }
                    Err(error) => outcome = Some(error),
                }
                *leader = None;
            }
            thread::sleep(PAUSE);
        }
        Err(outcome.unwrap_or_else(|| anyhow::anyhow!("no member leads")))
    }

    fn write(&self) {
        let mut line = None;
        while !self.stop.load(Ordering::Relaxed) {
            if line.is_none() {
                let found = self.members.leader().and_then(|id| {
                    let line = self.members.connect(&id)?;
                    Ok((id, line))
                });
                line = found.ok();
            }
            let Some((id, open)) = &mut line else {
                thread::sleep(PAUSE);
                continue;
            };
            let body = format!("body-{}", self.next.fetch_add(1, Ordering::Relaxed));
            let sent = Instant::now();
            match open.append(&self.members, id, body.as_bytes()) {
                Ok(index) => {
                    self.note_time(sent);
                    self.note(index, body);
                }
                Err(_) => {
                    line = None;
                    thread::sleep(PAUSE);
                }
            }
        }
    }

    fn note_time(&self, sent: Instant) {
        let mut takeovers = self.takeovers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(since) = takeovers.since.take_if(|since| *since <= sent) {
            takeovers.took.push(since.elapsed());
        }
    }

    fn note(&self, index: u64, body: String) {
        let mut acknowledged = self.acknowledged.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(other) = acknowledged.get(&index) {
            let fault = format!("index {index} was acknowledged for {other} and for {body}");
            self.faults.lock().unwrap_or_else(PoisonError::into_inner).push(fault);
        }
        acknowledged.insert(index, body);
    }

    /// Reads every acknowledged entry back from the leader.
    ///
    /// # Errors
    /// With the first that is not there, or is another.
    pub fn verify(&self) -> Result<()> {
        let faults = self.faults.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(fault) = faults.first() {
            bail!("{fault}");
        }
        drop(faults);
        let acknowledged = self.acknowledged.lock().unwrap_or_else(PoisonError::into_inner);
        let mut leader = None;
        for (index, body) in acknowledged.iter() {
            let found = self
                .read(&mut leader, *index)
                .with_context(|| format!("acknowledged entry {index} is lost ({body})"))?;
            let found = String::from_utf8_lossy(&found);
            ensure!(*body == found, "entry {index} was acknowledged as {body} and is {found}");
        }
        crate::show(&format!("{} acknowledged entries are there", acknowledged.len()));
        Ok(())
    }
}
