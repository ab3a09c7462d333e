//! What an observer who sees every disk knows: the log of each member as it lies in its files, and
//! what has ever been committed.

use dledger_core::Load;

/// An entry as it lies in a log file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Entry {
    /// Its number.
    pub index: u64,
    /// The term that wrote it.
    pub term: u64,
    /// Position of its header in the log.
    pub position: u64,
    /// Bytes of header and body.
    pub size: u32,
    /// Its chain checksum.
    pub chain: u32,
    /// A number that stands for all of its bytes.
    pub hash: u64,
    /// The submission that its body names; 0 for none.
    pub token: u64,
    /// Whether its body is that by which a leader opens a term.
    pub opening: bool,
    /// The queue and the offset there of a body that is a message.
    pub place: Option<(u32, u64)>,
}

impl Entry {
    /// Position behind it.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.position + u64::from(self.size)
    }
}

/// Consecutive entries.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Log {
    entries: Vec<Entry>,
}

impl Log {
    /// The entry of this index, if the log has it.
    #[must_use]
    pub fn get(&self, index: u64) -> Option<&Entry> {
        let nth = index.checked_sub(self.first()?)?;
        self.entries.get(usize::try_from(nth).ok()?)
    }

    /// Index of the first entry that is kept.
    #[must_use]
    pub fn first(&self) -> Option<u64> {
        self.entries.first().map(|entry| entry.index)
    }

    /// The last entry.
    #[must_use]
    pub fn last(&self) -> Option<&Entry> {
        self.entries.last()
    }

    /// Index of the last entry.
    #[must_use]
    pub fn last_index(&self) -> Option<u64> {
        self.last().map(|entry| entry.index)
    }

    /// All entries.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Adds an entry at the end.
    pub fn push(&mut self, entry: Entry) {
        self.entries.push(entry);
    }

    /// Removes entry `from` and all behind it.
    pub fn truncate(&mut self, from: u64) {
        self.entries.retain(|entry| entry.index < from);
    }

    /// Removes what lies before entry `first`.
    pub fn trim(&mut self, first: u64) {
        self.entries.retain(|entry| entry.index >= first);
    }

    /// Index of the last entry that ends at or before `position`.
    #[must_use]
    pub fn index_before(&self, position: u64) -> Option<u64> {
        let count = self.entries.partition_point(|entry| entry.end() <= position);
        self.entries.get(count.checked_sub(1)?).map(|entry| entry.index)
    }
}

impl FromIterator<Entry> for Log {
    fn from_iter<I: IntoIterator<Item = Entry>>(entries: I) -> Self {
        Self { entries: entries.into_iter().collect() }
    }
}

/// How the life before this one ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ended {
    /// There was none.
    #[default]
    Never,
    /// The process was killed; the page cache stayed.
    Killed,
    /// The machine lost power.
    PowerCut,
    /// The disk was replaced by an empty one.
    Wiped,
    /// The disk was replaced by an older copy.
    RolledBack,
    /// Killed, and then bits of the log flipped.
    Rotten,
    /// Killed, and then files that can be derived were deleted.
    LostIndex,
}

impl Ended {
    /// Whether the member may have forgotten what it vouched for.
    #[must_use]
    pub fn forgets(self) -> bool {
        matches!(self, Self::Wiped | Self::RolledBack)
    }
}

/// What is known of a member.
#[derive(Debug, Clone, Default)]
pub struct Member {
    /// Its log.
    pub log: Log,
    /// Its term.
    pub term: u64,
    /// The term that it leads, if it leads.
    pub leads: Option<u64>,
    /// The last entry that it holds for committed, in this life of its process.
    pub commit: Option<u64>,
    /// How the life before ended.
    pub before: Ended,
    /// What was committed in the group when it started, as a number of entries.
    pub committed_at_start: u64,
}

/// An entry that was committed, and the term in which.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Committed {
    /// The entry.
    pub entry: Entry,
    /// The term of the first member that held it for committed.
    pub term: u64,
}

/// The whole group.
#[derive(Debug, Clone, Default)]
pub struct Ghost {
    /// Its members.
    pub members: Vec<Member>,
    /// Everything that was ever committed, from entry 0.
    pub committed: Vec<Committed>,
    /// A group in which a power cut may have taken what a majority acknowledged from memory.
    pub may_lose: bool,
}

impl Ghost {
    /// A group of `members` without any history.
    #[must_use]
    pub fn new(members: usize) -> Self {
        Self { members: vec![Member::default(); members], ..Self::default() }
    }

    /// How many make a majority.
    #[must_use]
    pub fn quorum(&self) -> usize {
        self.members.len() / 2 + 1
    }

    /// The member of this number.
    #[must_use]
    pub fn member(&self, member: usize) -> Option<&Member> {
        self.members.get(member)
    }

    /// The committed entry of this index.
    #[must_use]
    pub fn committed(&self, index: u64) -> Option<&Committed> {
        self.committed.get(usize::try_from(index).ok()?)
    }

    /// Whether a member's log has the first `count` committed entries, or had them and deleted some
    /// at its head.
    #[must_use]
    pub fn holds(&self, member: &Member, count: u64) -> bool {
        let Some(last) = count.checked_sub(1) else { return true };
        match member.log.first() {
            Some(first) if first > last => true,
            _ => member.log.get(last) == self.committed(last).map(|committed| &committed.entry),
        }
    }

    /// Takes over what was seen, after it has been checked.
    pub fn learn(&mut self, seen: &Seen) {
        let committed_count = self.committed.len() as u64;
        let Some(member) = seen.member().and_then(|member| self.members.get_mut(member)) else {
            return;
        };
        match seen {
            Seen::Started { log, term, before, .. } => {
                *member = Member {
                    log: log.clone(),
                    term: *term,
                    before: *before,
                    committed_at_start: committed_count,
                    ..Member::default()
                };
            }
            Seen::Stopped { .. } => member.leads = None,
            Seen::Term { term, .. } => member.term = *term,
            Seen::Led { term, .. } => member.leads = Some(*term),
            Seen::Deposed { .. } => member.leads = None,
            Seen::Appended { entry, .. } => member.log.push(*entry),
            Seen::Truncated { from, .. } => member.log.truncate(*from),
            Seen::Trimmed { first, .. } => member.log.trim(*first),
            Seen::Committed { upto, .. } => {
                member.commit = Some(*upto);
                let term = member.term;
                let new = (committed_count..=*upto).map_while(|index| member.log.get(index));
                let new = new.map(|entry| Committed { entry: *entry, term });
                self.committed.extend(new);
            }
            Seen::Spoke { .. }
            | Seen::Granted { .. }
            | Seen::Refused { .. }
            | Seen::Vouched { .. }
            | Seen::Kept { .. }
            | Seen::DiskFailed { .. }
            | Seen::Read { .. }
            | Seen::Asked { .. }
            | Seen::Told { .. }
            | Seen::Stuck { .. }
            | Seen::Freed { .. }
            | Seen::Queued { .. }
            | Seen::Submitted { .. }
            | Seen::Resolved { .. }
            | Seen::Healed { .. }
            | Seen::Opened { .. }
            | Seen::Unelectable
            | Seen::Undisturbed
            | Seen::Passed { .. } => {}
        }
    }
}

/// One thing that an observer saw. Indexes are those of entries; times are virtual milliseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    /// A process started and recovered this.
    Started {
        /// Which member.
        member: usize,
        /// Its log.
        log: Log,
        /// Its term.
        term: u64,
        /// How its life before ended.
        before: Ended,
    },
    /// A process ended.
    Stopped {
        /// Which member.
        member: usize,
    },
    /// A member is in another term.
    Term {
        /// Which member.
        member: usize,
        /// Its term.
        term: u64,
    },
    /// A member leads.
    Led {
        /// Which member.
        member: usize,
        /// In which term.
        term: u64,
    },
    /// A member leads no more.
    Deposed {
        /// Which member.
        member: usize,
    },
    /// A member sent a message that names its term.
    Spoke {
        /// Which member.
        member: usize,
        /// The term.
        term: u64,
    },
    /// A member granted its vote.
    Granted {
        /// Which member.
        member: usize,
        /// In which term.
        term: u64,
        /// To whom.
        candidate: usize,
        /// Whether a power cut that drops everything unsynced would leave this vote.
        stored: bool,
        /// Whether it said that it is provisional.
        provisional: bool,
    },
    /// A member refused its vote because its own log is better.
    Refused {
        /// Which member.
        member: usize,
        /// The term it is in.
        term: u64,
        /// The term of the request.
        asked: u64,
    },
    /// A member has an entry more.
    Appended {
        /// Which member.
        member: usize,
        /// The entry.
        entry: Entry,
    },
    /// A member cut the end of its log.
    Truncated {
        /// Which member.
        member: usize,
        /// The first entry that went.
        from: u64,
    },
    /// A member deleted the head of its log.
    Trimmed {
        /// Which member.
        member: usize,
        /// The first entry that is left.
        first: u64,
    },
    /// A member holds entries for committed.
    Committed {
        /// Which member.
        member: usize,
        /// The last of them.
        upto: u64,
    },
    /// A member told its leader, or itself, that it keeps everything up to an entry.
    Vouched {
        /// Which member.
        member: usize,
        /// The last entry.
        upto: u64,
    },
    /// What the member's disk holds in truth, as the policy counts it.
    Kept {
        /// Which member.
        member: usize,
        /// The last entry; `None` where it holds none.
        upto: Option<u64>,
    },
    /// A write or a sync of a member failed.
    DiskFailed {
        /// Which member.
        member: usize,
    },
    /// A member gave a committed entry to a reader.
    Read {
        /// Which member.
        member: usize,
        /// Its index.
        index: u64,
        /// What stands for its bytes.
        hash: u64,
    },
    /// A reader asks a member how far it must read.
    Asked {
        /// Which member.
        member: usize,
        /// The number of the question.
        call: u64,
    },
    /// It is told.
    Told {
        /// By which member.
        member: usize,
        /// The number of the question.
        call: u64,
        /// How many entries; `None` where the member does not know.
        entries: Option<u64>,
    },
    /// A sync of a member's log has begun and may take long.
    Stuck {
        /// Which member.
        member: usize,
        /// Since when.
        since: u64,
    },
    /// It ended.
    Freed {
        /// Which member.
        member: usize,
    },
    /// How much of something waits in a member.
    Queued {
        /// Which member.
        member: usize,
        /// What, how much, and how much may.
        load: Load,
    },
    /// A client submitted something to a member.
    Submitted {
        /// Which member.
        member: usize,
        /// Its number.
        token: u64,
        /// When it must have been answered.
        deadline: u64,
    },
    /// It was answered.
    Resolved {
        /// By which member.
        member: usize,
        /// Its number.
        token: u64,
        /// Where it was acknowledged: the entry's index, and what stands for its bytes.
        acknowledged: Option<(u64, u64)>,
        /// Whether the client was told that it will never be committed.
        gone: bool,
    },
    /// A quorum, or all, is whole again and must have a leader by `limit`.
    Healed {
        /// Until when.
        limit: u64,
    },
    /// A leader has committed the entry that opens its term.
    Opened {
        /// Which member.
        member: usize,
    },
    /// By the rule of votes no member of the healed quorum can be elected: it waits for the others.
    Unelectable,
    /// From here on at most one member is disturbed, and it does not lead.
    Undisturbed,
    /// Time.
    Passed {
        /// Now.
        at: u64,
    },
}

impl Seen {
    /// Whom it is about.
    #[must_use]
    pub fn member(&self) -> Option<usize> {
        match self {
            Self::Started { member, .. }
            | Self::Stopped { member }
            | Self::Term { member, .. }
            | Self::Led { member, .. }
            | Self::Deposed { member }
            | Self::Spoke { member, .. }
            | Self::Granted { member, .. }
            | Self::Refused { member, .. }
            | Self::Appended { member, .. }
            | Self::Truncated { member, .. }
            | Self::Trimmed { member, .. }
            | Self::Committed { member, .. }
            | Self::Vouched { member, .. }
            | Self::Kept { member, .. }
            | Self::DiskFailed { member }
            | Self::Read { member, .. }
            | Self::Asked { member, .. }
            | Self::Told { member, .. }
            | Self::Stuck { member, .. }
            | Self::Freed { member }
            | Self::Queued { member, .. }
            | Self::Submitted { member, .. }
            | Self::Resolved { member, .. }
            | Self::Opened { member } => Some(*member),
            Self::Healed { .. } | Self::Unelectable | Self::Undisturbed | Self::Passed { .. } => {
                None
            }
        }
    }
}
