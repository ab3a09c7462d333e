//! What does not change while a node runs.

use std::collections::BTreeSet;

use crate::types::{EntryId, Life, LogIndex, NodeId, Policy, Provisional, Term, Vote};

/// What does not change while a node runs. Built by [`Config::new`], then changed where needed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// This node.
    pub self_id: NodeId,
    /// All members, this node among them.
    pub members: BTreeSet<NodeId>,
    /// When an entry counts as kept.
    pub policy: Policy,
    /// Where the random part of timings comes from.
    pub seed: u64,
    /// Which run of the node this is: another number at each start, never 0.
    pub life: Life,
    /// The timings while this node leads, or nobody does, and no member is Java.
    pub timings: Timings,
    /// Members that are to lead where they can (`preferredLeaderId`).
    pub preferred: BTreeSet<NodeId>,
    /// Whether a leader only tells who is to lead in its place ([`crate::Node::advised`]), and its
    /// owner hands the lead over: one whose clients wait meanwhile, say.
    pub advises: bool,
    /// Whether an acknowledgement of a Java member, which never waits for a flush, counts where the
    /// policy is [`Policy::Flushed`].
    pub count_java_acks: bool,
    /// Most bytes in flight to one follower.
    pub window_bytes: u64,
    /// Most bytes of one push.
    pub push_bytes: u64,
    /// Most bytes of entries that came before those in front of them and are kept.
    pub early_bytes: u64,
    /// Most entries that are appended and not committed (`maxPendingRequestsNum`).
    pub pending_entries: u64,
    /// Most bytes of them.
    pub pending_bytes: u64,
    /// Which faults are planted.
    #[cfg(feature = "planted")]
    pub planted: Planted,
}

impl Config {
    /// The defaults for a member of a group.
    #[must_use]
    pub fn new(self_id: NodeId, members: BTreeSet<NodeId>) -> Self {
        Self {
            self_id,
            members,
            policy: Policy::Flushed,
            seed: 1,
            life: Life(1),
            timings: Timings::default(),
            preferred: BTreeSet::new(),
            advises: false,
            count_java_acks: true,
            window_bytes: 16 * 1024 * 1024,
            push_bytes: 1024 * 1024,
            early_bytes: 16 * 1024 * 1024,
            pending_entries: 1_000_000,
            pending_bytes: 64 * 1024 * 1024,
            #[cfg(feature = "planted")]
            planted: Planted::default(),
        }
    }
}

/// How long members wait for each other, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timings {
    /// Between two heartbeats of a leader.
    pub heartbeat: u64,
    /// A follower waits at least so long for its leader. A leader is refused no earlier.
    pub election_min: u64,
    /// And at most so long; a leader without a majority steps down then.
    pub election_max: u64,
    /// How long a round of votes waits for answers.
    pub vote_wait: u64,
    /// The shortest pause between two rounds.
    pub vote_min: u64,
    /// The longest.
    pub vote_max: u64,
    /// A push without an answer is sent again after this.
    pub push_wait: u64,
}

impl Timings {
    /// Those of Java (`DLedgerConfig`): a heartbeat each 2 s, three may fail.
    pub const JAVA: Self = Self {
        heartbeat: 2000,
        election_min: 6000,
        election_max: 6700,
        vote_wait: 2000,
        vote_min: 300,
        vote_max: 1000,
        push_wait: 1000,
    };
}

impl Default for Timings {
    fn default() -> Self {
        Self {
            heartbeat: 150,
            election_min: 600,
            election_max: 1200,
            vote_wait: 400,
            vote_min: 50,
            vote_max: 350,
            push_wait: 500,
        }
    }
}

/// What a node knows when it starts, from its disk.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct State {
    /// The highest term it took part in.
    pub term: Term,
    /// Its vote in that term.
    pub vote: Vote,
    /// The first entry that its log holds, or would hold.
    pub first: LogIndex,
    /// The last entry of its log.
    pub last: Option<EntryId>,
    /// Where terms begin in it, ascending: the term and index of the first entry of each run. The
    /// first is at `first`. Where this is empty and the log is not, the whole log counts as one run
    /// of the term of `last`, which is good enough for a group of one only.
    pub terms: Vec<(Term, LogIndex)>,
    /// An entry known to be committed.
    pub committed: Option<LogIndex>,
    /// Why it may lack what it once acknowledged, if so.
    pub provisional: Option<Provisional>,
}

/// Why a node cannot be built from its configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// It would be no member of its own group.
    #[error("self id {self_id} is not among the members {members}: add it to dLegerPeers")]
    NotAMember {
        /// This node.
        self_id: NodeId,
        /// The members.
        members: String,
    },
    /// More members than a group may have.
    #[error("the group has {count} members: it may have {most}")]
    TooManyMembers {
        /// How many.
        count: usize,
        /// The most.
        most: usize,
    },
    /// A preferred leader is no member.
    #[error("preferred leader {id} is not among the members {members}: correct preferredLeaderId")]
    PreferredUnknown {
        /// Which one.
        id: NodeId,
        /// The members.
        members: String,
    },
    /// Timings that cannot work.
    #[error(
        "heartbeat {heartbeat} ms, election timeout {min} to {max} ms: the first must be less than half of the second, and the third more than that"
    )]
    Timings {
        /// Between two heartbeats.
        heartbeat: u64,
        /// The shortest election timeout.
        min: u64,
        /// The longest.
        max: u64,
    },
    /// The terms of the log do not lead up to its last entry.
    #[error("terms {terms:?} do not describe a log from {first} to {last:?}")]
    Terms {
        /// What was given.
        terms: Vec<(Term, LogIndex)>,
        /// The first entry.
        first: LogIndex,
        /// The last.
        last: Option<EntryId>,
    },
}

#[cfg(feature = "planted")]
pub use self::planting::{Bug, Planted};

/// Whether a fault is planted: never, in the product.
#[cfg(feature = "planted")]
macro_rules! planted {
    ($config:expr, $bug:ident) => {
        $config.planted.has($crate::config::Bug::$bug)
    };
}
#[cfg(not(feature = "planted"))]
macro_rules! planted {
    ($config:expr, $bug:ident) => {
        false
    };
}
pub(crate) use planted;

#[cfg(feature = "planted")]
mod planting {
    /// A fault that can be turned on; P11 to P18 are the engine's.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Bug {
        /// A vote is answered before it is durable.
        P1,
        /// The term is stored without the vote.
        P2,
        /// Entries of older terms are committed by counting.
        P3,
        /// A follower's commit index passes the end of its log.
        P4,
        /// The commit index stays above the end after a cut.
        P5,
        /// The term of the last entry is taken from the node's own term.
        P6,
        /// A cut is made on a request that comes late.
        P7,
        /// An acknowledgement of an older term counts.
        P8,
        /// A new leader appends no opening entry.
        P9,
        /// The log is looked at before the term in votes.
        P10,
        /// An entry is acknowledged before it is flushed.
        P11,
        /// An error of a flush is passed over.
        P12,
        /// A failed flush is tried again and believed.
        P13,
        /// Recovery cuts the log at rot.
        P14,
        /// The checksum of a body is not checked.
        P15,
        /// Stale bytes stay valid behind a cut.
        P16,
        /// The directory is not synced after a rename.
        P17,
        /// The file of term and vote is deleted before it is renamed.
        P18,
        /// What is applied is saved ahead of what is committed.
        P19,
        /// A wiped or rolled-back node votes at once.
        P20,
        /// Offsets of groups are kept by the leader and not in the log. As the three that follow, only
        /// the tables that tests/sim puts on the log have it.
        P22,
        /// A topic is made on the leader alone.
        P23,
        /// Progress of delayed messages is not in the log.
        P24,
        /// The mark of the tables' files names what they do not hold yet.
        T1,
        /// Queue offsets are given out by tails that are not the log's: they outlive the lead. Only
        /// the owner of the log that tests/sim puts on top has it.
        P26,
        /// A leader with a hung disk goes on.
        P30,
        /// Beside Java members the term is raised without asking.
        P31,
        /// A Java leader is told of an entry that is not durable that it is equal.
        P32,
        /// Pushes that came early are kept when a Java leader compares.
        P33,
    }

    /// Which faults are on.
    #[derive(Debug, Clone, PartialEq, Eq, Default)]
    pub struct Planted(Vec<Bug>);

    impl Planted {
        /// One fault.
        #[must_use]
        pub fn only(bug: Bug) -> Self {
            Self(vec![bug])
        }

        /// Whether this one is on.
        #[must_use]
        pub fn has(&self, bug: Bug) -> bool {
            self.0.contains(&bug)
        }
    }
}
