//! A follower of a Java master takes its tables, as Java's slaves do (`SlaveSynchronize.java`).
//!
//! A Java broker writes no journal. What it changes while it leads this node learns by asking it, every
//! two seconds, and once more when it takes over from it; then it writes a snapshot into the journal.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use dledger::{PeerKind, transport::Known};
use protocol::{Command, body::BodyError, code::request, code::response};
use remoting::{CallError, Client, ClientOptions};
use segment::Throttle;
use store::journal::{Kind, Tables};

use super::merge;
use crate::{broker::Broker, group::Group, role::Role, timer::Position};

/// Time between two looks at the tables of a Java master.
const PERIOD: Duration = Duration::from_secs(2);
/// The same until they were taken once in a term: this node could not take over before.
const AGAIN: Duration = Duration::from_millis(200);
/// Time for one answer.
const PATIENCE: Duration = Duration::from_secs(3);
/// Time for the last look at the tables of a master that this node takes over from: clients wait.
const LAST_LOOK: Duration = Duration::from_millis(700);
/// Turns after which the master's address is asked for again, though it answers.
const LOOK_UP_AGAIN: u32 = 15;

/// What is known of Java masters.
pub(crate) struct JavaMaster {
    client: Client,
    seen: Mutex<Seen>,
    warned: Throttle,
}

#[derive(Debug, Default)]
struct Seen {
    /// Whether this node's tables were those of the group when it was looked at last.
    current: bool,
    /// The Java master of this term.
    of_term: Option<OfTerm>,
    /// The newest term in which this node's files counted no more, as a member of ours led.
    mended: Option<u64>,
}

#[derive(Debug, Clone)]
struct OfTerm {
    term: u64,
    leader: String,
    /// Where it serves clients, once it has answered.
    address: Option<String>,
    /// What it said first, where this node had the tables of the group until it led.
    first: Option<Tables>,
    /// Whether `first` is still to be noted.
    follows_on: bool,
    turns: u32,
}

/// Why its tables were not taken.
#[derive(Debug, thiserror::Error)]
enum TakeError {
    #[error("name servers do not tell its address yet")]
    NoAddress,
    #[error("{0}")]
    Call(#[from] CallError),
    #[error("it answered request {code} with {answer}: {remark}")]
    Refused { code: i32, answer: i32, remark: String },
    #[error("its answer to request {code} cannot be read: {reason}")]
    Unreadable { code: i32, reason: BodyError },
}

/// The request by which each table is asked for.
const QUESTIONS: [(i32, Kind); 5] = [
    (request::GET_ALL_TOPIC_CONFIG, Kind::Topics),
    (request::GET_ALL_CONSUMER_OFFSET, Kind::Offsets),
    (request::GET_ALL_DELAY_OFFSET, Kind::Delays),
    (request::GET_ALL_SUBSCRIPTIONGROUP_CONFIG, Kind::Groups),
    (request::GET_ALL_MESSAGE_REQUEST_MODE, Kind::RequestModes),
];

impl JavaMaster {
    /// None was seen.
    pub(crate) fn new() -> Self {
        let options = ClientOptions { connect_timeout: PATIENCE, ..ClientOptions::default() };
        Self { client: Client::new(options), seen: Mutex::default(), warned: Throttle::new() }
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The master of a term, as it is known; what was known of an earlier one is forgotten.
    fn of_term(&self, leader: &str, term: u64) -> OfTerm {
        let mut seen = self.seen();
        let known = seen.of_term.take_if(|known| known.term == term && known.leader == leader);
        let now = known.unwrap_or_else(|| OfTerm {
            term,
            leader: leader.to_owned(),
            address: None,
            first: None,
            follows_on: seen.current,
            turns: 0,
        });
        seen.of_term = Some(now.clone());
        now
    }

    /// A node of ours leads, whose records say everything.
    fn ours_leads(&self) {
        let mut seen = self.seen();
        (seen.current, seen.of_term) = (true, None);
    }

    /// Asks a broker for all its tables.
    async fn ask(&self, address: &str, patience: Duration) -> Result<Tables, TakeError> {
        let mut tables = Tables::default();
        for (code, kind) in QUESTIONS {
            let answer = self.client.call(address, Command::request(code), patience).await?;
            if kind == Kind::RequestModes && answer.code == response::REQUEST_CODE_NOT_SUPPORTED {
                // Java before 5.0 has no such table.
                continue;
            }
            if answer.code != response::SUCCESS {
                let remark = answer.remark.unwrap_or_default();
                return Err(TakeError::Refused { code, answer: answer.code, remark });
            }
            read(&mut tables, kind, &answer.body)
                .map_err(|reason| TakeError::Unreadable { code, reason })?;
        }
        Position::put(None, &mut tables.delays);
        merge::plain_attributes(&mut tables);
        Ok(tables)
    }

    /// The same of a Java broker, and how far it has delivered timers.
    async fn ask_java(&self, address: &str, patience: Duration) -> Result<Tables, TakeError> {
        let mut tables = self.ask(address, patience).await?;
        Position::put(self.ask_for_timers(address, patience).await?, &mut tables.delays);
        Ok(tables)
    }

    /// Asks a Java broker how far it has delivered timers; `None` where it has none.
    async fn ask_for_timers(
        &self,
        address: &str,
        patience: Duration,
    ) -> Result<Option<Position>, TakeError> {
        let question = Command::request(request::GET_TIMER_CHECK_POINT);
        let answer = self.client.call(address, question, patience).await?;
        let told = answer.code == response::SUCCESS;
        Ok(told.then(|| Position::of_java(&answer.body)).flatten())
    }
}

/// Reads one table; Java answers 45 with nothing where no message was ever delayed.
fn read(tables: &mut Tables, kind: Kind, body: &Bytes) -> Result<(), BodyError> {
    if body.is_empty() && kind == Kind::Delays {
        return Ok(());
    }
    tables.read_file(kind, body)
}

fn is_ours(group: &Group, id: &str) -> bool {
    let ours = |member: &Known| member.id == id && matches!(member.kind, PeerKind::Own(_));
    group.known().iter().any(ours)
}

/// Takes the tables of Java masters until it is dropped.
pub(crate) async fn follow(broker: std::sync::Arc<Broker>) {
    let Some(group) = broker.group() else { return };
    let mut changes = broker.switch.changes();
    loop {
        let pause = if broker.has_group_tables() { PERIOD } else { AGAIN };
        drop(tokio::time::timeout(pause, changes.changed()).await);
        match broker.role() {
            Role::Slave { leader, term } if group.is_java(&leader) => {
                broker.take_java_tables(&leader, term).await;
            }
            Role::Slave { leader, term } => {
                broker.java_master.ours_leads();
                broker.take_for_edited(&leader, term).await;
            }
            Role::Master { .. } => broker.java_master.ours_leads(),
            Role::Candidate | Role::TakingOver { .. } => {}
        }
    }
}

impl Broker {
    /// Whether the tables are those of the group: a member of ours leads, or they were taken from the
    /// Java master of this term.
    pub(crate) fn has_group_tables(&self) -> bool {
        let (Role::Slave { leader, term }, Some(group)) = (self.role(), &self.group) else {
            return true;
        };
        let taken = |seen: &OfTerm| seen.term == term && seen.address.is_some();
        if is_ours(group, &leader) {
            return !self.is_edited(term);
        }
        self.java_master.seen().of_term.as_ref().is_some_and(taken)
    }

    /// Whether this node's tables are as somebody else wrote their files, though a member of ours leads
    /// and says what holds.
    fn is_edited(&self, term: u64) -> bool {
        self.journal.is_decided_by_files() && self.java_master.seen().mended != Some(term)
    }

    /// Takes the tables of a leader of ours in the place of those that somebody else wrote here: what
    /// a Java slave had copied, or a person changed at this member alone.
    async fn take_for_edited(&self, leader: &str, term: u64) {
        let Some(group) = &self.group else { return };
        if !is_ours(group, leader) || !self.is_edited(term) {
            return;
        }
        let Some(address) = group.leader_client_address() else { return };
        match self.java_master.ask(&address, PATIENCE).await {
            Ok(tables) => {
                let follows =
                    |role: &Role| *role == Role::Slave { leader: leader.to_owned(), term };
                if self.take_tables(tables, None, follows) {
                    self.java_master.seen().mended = Some(term);
                    tracing::warn!(
                        leader,
                        "files of config/ that somebody else wrote count no more: the tables are those of the leader"
                    );
                }
            }
            Err(error) => self.warn_not_taken(leader, &error),
        }
    }

    fn warn_not_taken(&self, leader: &str, error: &TakeError) {
        if let Some(held_back) = self.java_master.warned.tell(std::time::Instant::now()) {
            tracing::warn!(
                leader,
                %error,
                held_back,
                "topics, groups and offsets of the master are not taken; trying again"
            );
        }
    }

    async fn take_java_tables(&self, leader: &str, term: u64) {
        let of_term = self.java_master.of_term(leader, term);
        match self.try_to_take(of_term).await {
            Ok(()) => {
                if self.java_master.warned.over() {
                    tracing::info!(leader, "the tables of the Java master are taken again");
                }
            }
            Err(error) => {
                let mut seen = self.java_master.seen();
                if let Some(of_term) = &mut seen.of_term {
                    of_term.address = None;
                }
                drop(seen);
                self.warn_not_taken(leader, &error);
            }
        }
    }

    async fn try_to_take(&self, mut of_term: OfTerm) -> Result<(), TakeError> {
        let known = of_term.address.clone();
        let address = match known {
            Some(known) if !of_term.turns.is_multiple_of(LOOK_UP_AGAIN) => Some(known),
            known => self.look_for_master().await.or(known),
        };
        let address = address.ok_or(TakeError::NoAddress)?;
        let tables = self.java_master.ask_java(&address, PATIENCE).await?;
        of_term.turns += 1;
        of_term.address = Some(address);
        if std::mem::take(&mut of_term.follows_on) {
            of_term.first = Some(tables.clone());
        }
        let is_follower = |role: &Role| {
            matches!(role, Role::Slave { leader, term }
                if *leader == of_term.leader && *term == of_term.term)
        };
        if self.take_tables(tables, of_term.first.as_ref(), is_follower) {
            let mut seen = self.java_master.seen();
            (seen.current, seen.of_term) = (true, Some(of_term));
        }
        Ok(())
    }

    /// Where the master serves clients, as a name server tells it.
    async fn look_for_master(&self) -> Option<String> {
        let address = self.ask_for_master().await?;
        if let Some(group) = &self.group {
            group.note_master(address.clone());
        }
        Some(address)
    }

    /// Takes what a Java master that this node has followed changed since the last look at it, before
    /// this node serves. It must have led in the term before: whoever led since then knows more.
    pub(crate) async fn last_look_at_java(&self) {
        let Role::TakingOver { term } = self.role() else { return };
        let of_term = self.java_master.seen().of_term.clone();
        let Some(of_term) = of_term.filter(|seen| seen.term + 1 == term) else { return };
        let Some(address) = &of_term.address else { return };
        let asking = self.java_master.ask_java(address, LAST_LOOK);
        match tokio::time::timeout(LAST_LOOK, asking).await {
            Ok(Ok(tables)) => {
                let takes_over = |role: &Role| *role == Role::TakingOver { term };
                self.take_tables(tables, of_term.first.as_ref(), takes_over);
                tracing::info!(address, "the tables of the Java master before this one are taken");
            }
            Ok(Err(error)) => {
                tracing::info!(address, %error, "the Java master before this one tells no more");
            }
            Err(_elapsed) => {
                tracing::info!(address, "the Java master before this one does not answer in time");
            }
        }
    }

    /// Takes tables while the role is as `holds` says; gives whether it was.
    fn take_tables(
        &self,
        master: Tables,
        first: Option<&Tables>,
        holds: impl Fn(&Role) -> bool,
    ) -> bool {
        self.journal_adopt(|ours| merge::merged(ours, master, first), || self.with_role(holds))
    }
}

impl std::fmt::Debug for JavaMaster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JavaMaster").field("seen", &*self.seen()).finish_non_exhaustive()
    }
}
