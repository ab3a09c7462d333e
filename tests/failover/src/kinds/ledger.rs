//! What a client did and met, one event a line, as `tests/interop/java/Noted.java` writes it.
//!
//! ```text
//! sent plain.0.1 once 10..20 ok                     also: refused, unknown
//! got plain.0.1 30..31 A T/0@0:4096 0 10 took whole also: refused; spoilt
//! acked grpc.0.1 30..35 ok                          also: unknown
//! trouble 100..200                                  a broker was killed, until all went on
//! ready                                             all consumers have their share
//! ended                                             all senders have ended
//! ```
//!
//! Times are milliseconds of one clock.

use std::fmt;

use crate::queues::{Queue, Span};

/// A kind of message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Plain ones, consumed by push consumers.
    Plain,
    /// Those of a sender to one queue, consumed in order.
    Orderly,
    /// Those of transactions.
    Transaction,
    /// With a delay level.
    Delay,
    /// With a time of their own.
    Timer,
    /// Consumed by push consumers in POP mode.
    Pop,
    /// Refused by their consumer, once or always.
    Retry,
    /// Sent by gRPC, received by a simple consumer.
    Grpc,
}

impl Kind {
    /// All of them with their names.
    const NAMES: [(Self, &'static str); 8] = [
        (Self::Plain, "plain"),
        (Self::Orderly, "orderly"),
        (Self::Transaction, "transaction"),
        (Self::Delay, "delay"),
        (Self::Timer, "timer"),
        (Self::Pop, "pop"),
        (Self::Retry, "retry"),
        (Self::Grpc, "grpc"),
    ];
}

/// A message: no two have the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Its kind.
    pub kind: Kind,
    /// Who sent it.
    pub sender: u32,
    /// Which of the sender's, in the order in which they were sent.
    pub number: u64,
}

/// What is to become of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It comes.
    Once,
    /// Its transaction is committed, at once or when it is asked about.
    Commit,
    /// Its transaction is rolled back, at once or when it is asked about.
    Rollback,
    /// It comes so many milliseconds after it was made.
    After(u64),
    /// It comes at this time.
    At(u64),
    /// Its consumer refuses it so many times.
    Refuse(u32),
    /// Its first consumer leaves it alone, so that it comes again after so many milliseconds.
    Leave(u64),
    /// Its consumer refuses it always: it becomes a dead letter.
    Dead,
}

/// What a sender was told of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It is stored.
    Stored,
    /// It is not stored and never will be.
    Refused,
    /// Nothing: it may be stored.
    Unknown,
}

/// One attempt to send a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sent {
    /// The message.
    pub key: Key,
    /// What is to become of it.
    pub fate: Fate,
    /// When.
    pub span: Span,
    /// What came of it.
    pub outcome: Outcome,
}

/// Where a delivered message lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Its queue.
    pub queue: Queue,
    /// Its offset there.
    pub offset: i64,
    /// Its place in the commit log: each copy has another one.
    pub position: u64,
}

impl Place {
    /// Whether it is with the dead letters of a group.
    #[must_use]
    pub fn is_dead(&self) -> bool {
        self.queue.topic.starts_with("%DLQ%")
    }
}

/// A message that came to a listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Got {
    /// The message.
    pub key: Key,
    /// While the listener had it.
    pub span: Span,
    /// Whose listener.
    pub by: String,
    /// Where it lies.
    pub place: Place,
    /// How often it came before by its own account.
    pub tries: u32,
    /// When it was made by its own account.
    pub born: u64,
    /// Whether the listener took it; else it is to come again.
    pub took: bool,
    /// Whether it is byte for byte what was sent.
    pub whole: bool,
}

/// An acknowledgement by a consumer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Acked {
    /// Of which message.
    pub key: Key,
    /// When.
    pub span: Span,
    /// Whether the broker confirmed it; else nothing is known.
    pub confirmed: bool,
}

/// All that was done and seen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ledger {
    /// Attempts to send, in the order of their ends.
    pub sent: Vec<Sent>,
    /// Deliveries, in the order of their ends.
    pub got: Vec<Got>,
    /// Acknowledgements by consumers.
    pub acked: Vec<Acked>,
    /// From each kill of a broker until all went on.
    pub troubles: Vec<Span>,
    /// Whether all consumers have their share.
    pub ready: bool,
    /// Whether all senders have ended.
    pub ended: bool,
}

/// Why a line is no event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotAnEvent(pub String);

impl fmt::Display for NotAnEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}' is no event of a ledger of kinds", self.0)
    }
}

impl std::error::Error for NotAnEvent {}

impl Ledger {
    /// Reads a ledger.
    ///
    /// # Errors
    /// The first line that is no event.
    pub fn parse(text: &str) -> Result<Self, NotAnEvent> {
        let mut ledger = Self::default();
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            ledger.note(line)?;
        }
        Ok(ledger)
    }

    /// Notes the event of a line.
    ///
    /// # Errors
    /// Where it is none.
    pub fn note(&mut self, line: &str) -> Result<(), NotAnEvent> {
        self.event(line).ok_or_else(|| NotAnEvent(line.to_owned()))
    }

    fn event(&mut self, line: &str) -> Option<()> {
        let words: Vec<&str> = line.split_whitespace().collect();
        match *words.as_slice() {
            ["sent", key, fate, when, outcome] => {
                let outcome = match outcome {
                    "ok" => Outcome::Stored,
                    "refused" => Outcome::Refused,
                    "unknown" => Outcome::Unknown,
                    _ => return None,
                };
                let (key, fate, span) = (key_of(key)?, fate_of(fate)?, span_of(when)?);
                self.sent.push(Sent { key, fate, span, outcome });
            }
            ["got", key, when, by, place, tries, born, did, state] => self.got.push(Got {
                key: key_of(key)?,
                span: span_of(when)?,
                by: by.to_owned(),
                place: place_of(place)?,
                tries: tries.parse().ok()?,
                born: born.parse().ok()?,
                took: either(did, "took", "refused")?,
                whole: either(state, "whole", "spoilt")?,
            }),
            ["acked", key, when, answer] => {
                let (key, span) = (key_of(key)?, span_of(when)?);
                self.acked.push(Acked { key, span, confirmed: either(answer, "ok", "unknown")? });
            }
            ["trouble", when] => self.troubles.push(span_of(when)?),
            ["ready"] => self.ready = true,
            ["ended"] => self.ended = true,
            _ => return None,
        }
        Some(())
    }
}

fn either(word: &str, yes: &str, no: &str) -> Option<bool> {
    (word == yes || word == no).then_some(word == yes)
}

fn key_of(text: &str) -> Option<Key> {
    let words: Vec<&str> = text.split('.').collect();
    let [name, sender, number] = words.as_slice() else { return None };
    let (kind, _) = Kind::NAMES.into_iter().find(|(_, its)| its == name)?;
    Some(Key { kind, sender: sender.parse().ok()?, number: number.parse().ok()? })
}

fn fate_of(text: &str) -> Option<Fate> {
    Some(match text.split_once(':').unwrap_or((text, "")) {
        ("once", "") => Fate::Once,
        ("commit" | "check-commit", "") => Fate::Commit,
        ("rollback" | "check-rollback", "") => Fate::Rollback,
        ("dead", "") => Fate::Dead,
        ("after", millis) => Fate::After(millis.parse().ok()?),
        ("at", time) => Fate::At(time.parse().ok()?),
        ("refuse", times) => Fate::Refuse(times.parse().ok()?),
        ("leave", millis) => Fate::Leave(millis.parse().ok()?),
        _ => return None,
    })
}

fn span_of(text: &str) -> Option<Span> {
    let (from, to) = text.split_once("..")?;
    Some(Span { from: from.parse().ok()?, to: to.parse().ok()? })
}

fn place_of(text: &str) -> Option<Place> {
    let (rest, position) = text.rsplit_once(':')?;
    let (queue, offset) = rest.rsplit_once('@')?;
    let (topic, id) = queue.rsplit_once('/')?;
    let queue = Queue { topic: topic.to_owned(), id: id.parse().ok()? };
    Some(Place { queue, offset: offset.parse().ok()?, position: position.parse().ok()? })
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::NAMES.into_iter().find(|(kind, _)| kind == self);
        f.write_str(name.map_or("", |(_, name)| name))
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.kind, self.sender, self.number)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}:{}", self.queue, self.offset, self.position)
    }
}
