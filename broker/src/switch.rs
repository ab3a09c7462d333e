//! Who serves a request while the lead changes: this node, the leader, or nobody yet.
//!
//! A node that is not the master never answers from what it happens to have where that could be
//! older than what the client has seen: it passes such a request on, waits for the moment in which
//! this node takes over or hands over, or refuses with a code at which clients try again.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use dledger::{PeerKind, transport::Known};
use protocol::{code::response, version};
use tokio::sync::watch;

use crate::{
    broker::Broker,
    call::Rejection,
    role::{Role, slave_id},
    routes::Serves,
};

/// How a request came to this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    /// From its client.
    Client,
    /// Passed on by the member of this id, which takes this node for the leader.
    Member(String),
}

/// Where a request is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Way {
    /// Here and now.
    Here,
    /// At the leader of this id.
    Leader(String),
    /// It will be known soon: a change of the master is under way.
    Soon,
    /// Nowhere at this time.
    Nowhere,
}

/// What counts beside the role.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Facts {
    /// `slaveReadEnable`.
    pub(crate) slave_reads: bool,
    /// The lead is being handed over.
    pub(crate) handing: bool,
    /// The role has changed only a moment ago: in a planned switch the next leader is known at once.
    pub(crate) recent: bool,
    /// A stop has come so far that nothing is taken any more.
    pub(crate) stopping: bool,
}

/// Where a request is served.
pub(crate) fn way(role: &Role, serves: Serves, origin: &Origin, facts: Facts) -> Way {
    let reads = serves == Serves::Reader;
    match (role, origin) {
        _ if serves == Serves::AnyRole => Way::Here,
        (Role::Master { .. }, _) if facts.handing && !reads => Way::Soon,
        (Role::Master { .. }, _) if facts.stopping => Way::Nowhere,
        (Role::Master { .. }, _) => Way::Here,
        (Role::TakingOver { .. }, _) => Way::Soon,
        (Role::Slave { .. } | Role::Candidate, _) if reads && facts.slave_reads => Way::Here,
        (Role::Slave { .. } | Role::Candidate, _) if reads => Way::Nowhere,
        (Role::Slave { leader, .. }, Origin::Client) => Way::Leader(leader.clone()),
        // It hands over to this node, and knows of that before this node does.
        (Role::Slave { leader, .. }, Origin::Member(from)) if from == leader => Way::Soon,
        // One hop: what this node knows may be as old as what the other one knew.
        (Role::Slave { .. }, Origin::Member(_)) => Way::Nowhere,
        (Role::Candidate, Origin::Client) if !facts.handing && !facts.recent => Way::Nowhere,
        (Role::Candidate, _) => Way::Soon,
    }
}

/// What a change of the master asks of requests.
#[derive(Debug)]
pub(crate) struct Switch {
    changes: watch::Sender<u64>,
    handing: AtomicBool,
    leaving: AtomicBool,
    /// When the role changed last.
    changed: Mutex<Option<Instant>>,
}

/// For how long after a change of its role a node that knows no leader lets clients wait for one.
pub(crate) const RECENT: Duration = Duration::from_millis(500);

impl Switch {
    /// Nothing is changing.
    pub(crate) fn new() -> Self {
        Self {
            changes: watch::Sender::new(0),
            handing: AtomicBool::new(false),
            leaving: AtomicBool::new(false),
            changed: Mutex::new(None),
        }
    }

    /// The role has changed.
    pub(crate) fn role_changed(&self) {
        *self.changed.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        self.tell();
    }

    /// Begins or ends a hand-over: what only the master serves waits meanwhile.
    pub(crate) fn set_handing(&self, handing: bool) {
        self.handing.store(handing, Ordering::Release);
        self.tell();
    }

    /// Whether the lead is being handed over.
    pub(crate) fn is_handing(&self) -> bool {
        self.handing.load(Ordering::Acquire)
    }

    /// From now on clients that understand it are told to go elsewhere.
    pub(crate) fn leave(&self) {
        self.leaving.store(true, Ordering::Release);
    }

    /// Whether a client of this version is told to go elsewhere (Java:
    /// `NettyRemotingAbstract.processRequestCommand`).
    pub(crate) fn sends_away(&self, version: i32) -> bool {
        version > version::V5_3_1 && self.leaving.load(Ordering::Acquire)
    }

    /// Tells of every change of the role and of a hand-over.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    fn is_recent(&self) -> bool {
        let changed = self.changed.lock().unwrap_or_else(PoisonError::into_inner);
        changed.is_some_and(|changed| changed.elapsed() < RECENT)
    }

    fn tell(&self) {
        self.changes.send_modify(|number| *number = number.wrapping_add(1));
    }
}

impl Broker {
    /// Where a request is served that came by `origin`.
    pub(crate) fn way(&self, serves: Serves, origin: &Origin) -> Way {
        self.with_role(|role| way(role, serves, origin, self.facts(role)))
    }

    fn facts(&self, role: &Role) -> Facts {
        Facts {
            slave_reads: !role.is_master() && self.config().slave_read_enable,
            handing: self.switch.handing.load(Ordering::Acquire),
            recent: *role == Role::Candidate && self.switch.is_recent(),
            stopping: self.stopping.load(Ordering::Acquire),
        }
    }

    /// Why this node does not serve what the master serves, and the next step.
    pub(crate) fn not_served(&self) -> Rejection {
        let reason = self.with_role(|role| self.reason(role));
        unavailable(format!("service not available now: {reason}"))
    }

    fn reason(&self, role: &Role) -> String {
        match role {
            Role::Master { .. } if self.facts(role).handing => {
                "this broker is handing over the lead; send again".to_owned()
            }
            Role::Master { .. } => {
                "this broker is stopping; ask the one that takes over".to_owned()
            }
            Role::Slave { leader, .. } => match self.leader_address() {
                Some(at) => {
                    format!("this broker is a slave, the master is {leader} at {at}; ask there")
                }
                None => format!("this broker is a slave, the master is {leader}; ask there"),
            },
            Role::TakingOver { term } => {
                format!("this broker is taking over in term {term}; ask again in a moment")
            }
            Role::Candidate => {
                let why = self.group.as_ref().map(|group| group.why_no_leader());
                let why = why.unwrap_or_else(|| "it has not been elected yet".to_owned());
                format!(
                    "this broker is a slave that knows no master: {why}; ask again in a moment, or another broker"
                )
            }
        }
    }

    /// Why clients should not use this node as the master, if so.
    pub(crate) fn require_master(&self) -> Result<(), Rejection> {
        match self.way(Serves::Master, &Origin::Client) {
            Way::Here => Ok(()),
            Way::Leader(_) | Way::Soon | Way::Nowhere => Err(self.not_served()),
        }
    }
}

impl Broker {
    /// Where the leader serves its own clients, where that is known.
    pub(crate) fn leader_address(&self) -> Option<String> {
        self.group.as_ref()?.leader_client_address()
    }

    /// The broker ids of slaves that are connected with this master.
    pub(crate) fn live_slaves(&self) -> Vec<i64> {
        let known = self.group.as_ref().map(|group| group.known()).unwrap_or_default();
        let lives = |member: &Known| matches!(member.kind, PeerKind::Own(_) | PeerKind::Java);
        known.iter().filter(|member| lives(member)).map(|member| slave_id(&member.id)).collect()
    }
}

/// A refusal at which every client tries again.
pub(crate) fn unavailable(remark: impl Into<String>) -> Rejection {
    Rejection::new(response::SERVICE_NOT_AVAILABLE, remark)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVES: [Serves; 3] = [Serves::Master, Serves::Reader, Serves::AnyRole];

    fn slave() -> Role {
        Role::Slave { leader: "n1".to_owned(), term: 1 }
    }

    fn ways(role: &Role, origin: &Origin, facts: Facts) -> [Way; 3] {
        SERVES.map(|serves| way(role, serves, origin, facts))
    }

    #[test]
    fn a_master_serves_all_and_a_follower_passes_on_what_is_not_its_own() {
        let (calm, client) = (Facts::default(), Origin::Client);
        let master = Role::Master { term: 1 };
        assert_eq!(ways(&master, &client, calm), [Way::Here, Way::Here, Way::Here]);
        let leader = Way::Leader("n1".to_owned());
        assert_eq!(ways(&slave(), &client, calm), [leader, Way::Nowhere, Way::Here]);
        let reads = Facts { slave_reads: true, ..calm };
        assert_eq!(way(&slave(), Serves::Reader, &client, reads), Way::Here);
        assert_eq!(way(&Role::Candidate, Serves::Reader, &client, reads), Way::Here);
    }

    #[test]
    fn without_a_leader_a_client_is_answered_at_once() {
        let answered = [Way::Nowhere, Way::Nowhere, Way::Here];
        assert_eq!(ways(&Role::Candidate, &Origin::Client, Facts::default()), answered);
        let recent = Facts { recent: true, ..Facts::default() };
        assert_eq!(way(&Role::Candidate, Serves::Master, &Origin::Client, recent), Way::Soon);
    }

    #[test]
    fn a_request_takes_one_hop() {
        let calm = Facts::default();
        let from = |id: &str| Origin::Member(id.to_owned());
        assert_eq!(way(&slave(), Serves::Master, &from("n2"), calm), Way::Nowhere);
        // The leader hands over to this node, which has not heard of it yet.
        assert_eq!(way(&slave(), Serves::Master, &from("n1"), calm), Way::Soon);
        assert_eq!(way(&Role::Candidate, Serves::Master, &from("n1"), calm), Way::Soon);
        let master = Role::Master { term: 2 };
        assert_eq!(way(&master, Serves::Master, &from("n1"), calm), Way::Here);
    }

    #[test]
    fn while_the_lead_changes_hands_requests_wait() {
        let (handing, client) = (Facts { handing: true, ..Facts::default() }, Origin::Client);
        let soon = [Way::Soon, Way::Here, Way::Here];
        assert_eq!(ways(&Role::Master { term: 1 }, &client, handing), soon);
        assert_eq!(way(&Role::Candidate, Serves::Master, &client, handing), Way::Soon);
        let taking = Role::TakingOver { term: 2 };
        assert_eq!(way(&taking, Serves::Reader, &client, Facts::default()), Way::Soon);
        assert_eq!(way(&taking, Serves::AnyRole, &client, Facts::default()), Way::Here);
    }

    #[test]
    fn only_clients_that_understand_it_are_sent_away() {
        let switch = Switch::new();
        assert!(!switch.sends_away(version::CURRENT));
        switch.leave();
        assert!(switch.sends_away(version::CURRENT));
        assert!(!switch.sends_away(version::V5_3_1));
    }
}
