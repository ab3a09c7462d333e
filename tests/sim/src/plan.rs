//! What a seed draws: the shape of the group, the load, and which faults are on.

use std::{fmt, str::FromStr};

use crate::{java::JavaMembers, random::Random};

/// A kind of fault. Each seed draws which kinds are on (a swarm): a run with few kinds reaches
/// states that a run with all of them never does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Fault {
    /// Messages are lost.
    Loss,
    /// Messages arrive twice.
    Duplicates,
    /// Messages overtake each other.
    Reorder,
    /// Messages are late, some of them very.
    Delay,
    /// A link works in one direction only.
    OneWay,
    /// The group falls into two parts.
    Halves,
    /// One member reaches nobody.
    Isolate,
    /// One member hears nothing but is heard, or the other way round.
    Deaf,
    /// Two parts that one member reaches both.
    Bridge,
    /// Each member reaches a majority, no two the same.
    Ring,
    /// A member's links come and go many times a second.
    Flap,
    /// Messages of a link are held back and then arrive together.
    Hold,
    /// Clocks run at different rates.
    Clocks,
    /// A member is frozen for a while.
    Pause,
    /// A process is killed; its machine goes on.
    Kill,
    /// A machine loses power, and with it any part of what was not synced.
    PowerCut,
    /// All machines lose power at once.
    Blackout,
    /// Power goes in the midst of a write or a rename.
    TornCall,
    /// A write fails.
    WriteError,
    /// A read fails.
    ReadError,
    /// A sync fails, and what it should have kept is lost.
    SyncError,
    /// The disk is full for a while.
    NoSpace,
    /// A job of the disk takes seconds.
    Hang,
    /// A bit of the log flips while the member is down.
    Rot,
    /// A member comes back with an empty disk.
    Wipe,
    /// A member comes back with an older copy of its disk.
    Rollback,
    /// Index files, checkpoint or both are gone when a member starts.
    LostIndex,
    /// The head of a log is deleted by retention.
    Trim,
    /// An administrator hands the lead to another member.
    Transfer,
    /// Power goes in the midst of the next storing of term and vote.
    TornVote,
}

impl Fault {
    /// Every kind that a seed draws from.
    pub const ALL: [Self; 29] = [
        Self::Loss,
        Self::Duplicates,
        Self::Reorder,
        Self::Delay,
        Self::OneWay,
        Self::Halves,
        Self::Isolate,
        Self::Deaf,
        Self::Bridge,
        Self::Ring,
        Self::Flap,
        Self::Hold,
        Self::Clocks,
        Self::Pause,
        Self::Kill,
        Self::PowerCut,
        Self::Blackout,
        Self::TornCall,
        Self::WriteError,
        Self::ReadError,
        Self::SyncError,
        Self::NoSpace,
        Self::Hang,
        Self::Rot,
        Self::Wipe,
        Self::Rollback,
        Self::LostIndex,
        Self::Trim,
        Self::Transfer,
    ];

    /// Kinds that are on only where a plan names them: with them each seed would be another run.
    pub const NAMED: [Self; 1] = [Self::TornVote];

    /// Every kind, in a fixed order.
    pub fn every() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().chain(Self::NAMED)
    }

    fn bit(self) -> u32 {
        1 << self as u8
    }
}

/// A set of kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Faults(u32);

impl Faults {
    /// Whether `fault` is on.
    #[must_use]
    pub fn has(self, fault: Fault) -> bool {
        self.0 & fault.bit() != 0
    }

    /// With `fault` on.
    #[must_use]
    pub fn with(self, fault: Fault) -> Self {
        Self(self.0 | fault.bit())
    }

    /// With `fault` off.
    #[must_use]
    pub fn without(self, fault: Fault) -> Self {
        Self(self.0 & !fault.bit())
    }

    /// Those that are on, in the order of [`Fault::every`].
    pub fn iter(self) -> impl Iterator<Item = Fault> {
        Fault::every().filter(move |fault| self.has(*fault))
    }
}

impl FromIterator<Fault> for Faults {
    fn from_iter<I: IntoIterator<Item = Fault>>(faults: I) -> Self {
        faults.into_iter().fold(Self::default(), Self::with)
    }
}

/// What a run is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scenario {
    /// Faults of the drawn kinds, then a quorum heals, then all heal.
    Swarm,
    /// One member that does not lead is cut off, deaf, flapping or slow, and nothing else happens:
    /// the lead must not move.
    Disturbed,
}

/// When an entry counts as kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keeping {
    /// Fsynced on a majority.
    Flushed,
    /// In the page cache of a majority.
    Written,
}

/// All that a run is drawn from. Two runs of equal plans are equal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The seed of every draw.
    pub seed: u64,
    /// Members.
    pub members: usize,
    /// What it is about.
    pub scenario: Scenario,
    /// When an entry counts as kept.
    pub keeping: Keeping,
    /// Which faults are on.
    pub faults: Faults,
    /// Virtual milliseconds of faults.
    pub millis: u64,
    /// Usual time between two faults in milliseconds.
    pub fault_gap: u64,
    /// Clients that submit.
    pub clients: u64,
    /// Usual time between two submissions of a client in milliseconds.
    pub client_gap: u64,
    /// Bytes of a data file.
    pub file_size: u64,
    /// Zeros written ahead of the log in bytes.
    pub zero_ahead: u64,
    /// Bytes of recent entries that are kept in memory.
    pub hot_ring: usize,
    /// Longest body in bytes.
    pub body_most: u64,
    /// Milliseconds that a job of the disk usually takes.
    pub disk_usual: u64,
    /// Bodies are messages with places in queues: see [`Plan::of_messages`].
    pub messages: bool,
    /// Beside messages there are tables: see [`Plan::of_journal`].
    pub journal: bool,
    /// Members that are taken for Java's: see [`Plan::of_java`].
    pub java: JavaMembers,
    /// Which faults of the product are switched on.
    #[cfg(feature = "planted")]
    pub planted: dledger_core::Planted,
}

impl Plan {
    /// What `seed` draws.
    #[must_use]
    pub fn draw(seed: u64) -> Self {
        let mut random = Random::stream(seed, 1);
        let scenario = if random.chance(120) { Scenario::Disturbed } else { Scenario::Swarm };
        // Few kinds in most runs, many in some.
        let share = [120, 250, 400, 600][index(random.below(4), 3)];
        let mut faults: Faults = Fault::ALL.into_iter().filter(|_| random.chance(share)).collect();
        if scenario == Scenario::Disturbed {
            faults = Faults::default();
        }
        Self {
            seed,
            members: if random.chance(600) { 3 } else { 5 },
            scenario,
            keeping: if random.chance(750) { Keeping::Flushed } else { Keeping::Written },
            faults,
            millis: random.between(8_000, 40_000),
            fault_gap: random.between(200, 3_000),
            clients: random.between(1, 4),
            client_gap: random.between(10, 400),
            file_size: [4096, 8192, 16_384, 65_536][index(random.below(4), 3)],
            zero_ahead: [0, 0, 1024, 8192][index(random.below(4), 3)],
            hot_ring: [0, 2048, 1 << 20][index(random.below(3), 2)],
            body_most: random.between(40, 900),
            disk_usual: random.between(1, 12),
            messages: false,
            journal: false,
            java: JavaMembers::default(),
            #[cfg(feature = "planted")]
            planted: dledger_core::Planted::default(),
        }
    }

    /// The same with messages for bodies. The head of a log stays: the queues are counted from 0.
    #[must_use]
    pub fn of_messages(self) -> Self {
        Self { messages: true, faults: self.faults.without(Fault::Trim), ..self }
    }
}

impl Plan {
    /// The same with messages and tables. A record of the journal must fit into a data file.
    #[must_use]
    pub fn of_journal(self) -> Self {
        let file_size = self.file_size.max(8192);
        Self { messages: true, journal: true, file_size, ..self }
    }
}

fn index(drawn: u64, most: usize) -> usize {
    usize::try_from(drawn).unwrap_or(0).min(most)
}

impl fmt::Display for Plan {
    /// The line of a `.seed` file; what it leaves out is as [`Plan::draw`] has it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let drawn = Self::draw(self.seed);
        write!(f, "seed={}", self.seed)?;
        if self.members != drawn.members {
            write!(f, " members={}", self.members)?;
        }
        if self.millis != drawn.millis {
            write!(f, " millis={}", self.millis)?;
        }
        if self.clients != drawn.clients {
            write!(f, " clients={}", self.clients)?;
        }
        if self.keeping != drawn.keeping {
            write!(f, " keeping={:?}", self.keeping)?;
        }
        if self.scenario != drawn.scenario {
            write!(f, " scenario={:?}", self.scenario)?;
        }
        if self.faults != drawn.faults {
            let names: Vec<_> = self.faults.iter().map(|fault| format!("{fault:?}")).collect();
            write!(f, " faults={}", names.join(","))?;
        }
        if !self.java.is_empty() {
            write!(f, " java={}", self.java)?;
        }
        Ok(())
    }
}

/// Why a line is no plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanError(pub String);

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: write seed=N, then members=, millis=, clients=, keeping=, faults=, java=",
            self.0
        )
    }
}

impl std::error::Error for PlanError {}

impl FromStr for Plan {
    type Err = PlanError;

    fn from_str(line: &str) -> Result<Self, PlanError> {
        let mut pairs = line.split_whitespace().map(|word| {
            word.split_once('=').ok_or_else(|| PlanError(format!("{word} is no key=value")))
        });
        let number = |value: &str| {
            value.parse::<u64>().map_err(|error| PlanError(format!("{value}: {error}")))
        };
        let mut plan = match pairs.next() {
            Some(Ok(("seed", value))) => Self::draw(number(value)?),
            _ => return Err(PlanError("the line does not begin with a seed".to_owned())),
        };
        for pair in pairs {
            match pair? {
                ("members", "3") => plan.members = 3,
                ("members", "5") => plan.members = 5,
                ("millis", value) => plan.millis = number(value)?,
                ("clients", value) => plan.clients = number(value)?,
                ("keeping", "Flushed") => plan.keeping = Keeping::Flushed,
                ("keeping", "Written") => plan.keeping = Keeping::Written,
                ("scenario", "Swarm") => plan.scenario = Scenario::Swarm,
                ("scenario", "Disturbed") => plan.scenario = Scenario::Disturbed,
                ("faults", names) => plan.faults = faults_of(names)?,
                ("java", numbers) => plan.java = numbers.parse().map_err(PlanError)?,
                (key, value) => return Err(PlanError(format!("{key}={value} is unknown"))),
            }
        }
        Ok(plan)
    }
}

fn faults_of(names: &str) -> Result<Faults, PlanError> {
    names
        .split(',')
        .filter(|name| !name.is_empty())
        .map(|name| {
            let named = Fault::every().find(|fault| format!("{fault:?}") == name);
            named.ok_or_else(|| PlanError(format!("{name} is no fault")))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_read_as_it_is_printed() {
        for seed in 0..50 {
            let mut plan = Plan::draw(seed);
            assert_eq!(plan.to_string(), format!("seed={seed}"));
            plan.members = 8 - plan.members;
            plan.millis /= 2;
            plan.faults = plan.faults.with(Fault::Rot).without(Fault::Kill);
            assert_eq!(plan.to_string().parse::<Plan>().unwrap(), plan);
        }
    }

    #[test]
    fn a_line_that_is_no_plan_says_what_is_wrong() {
        let wrong = |line: &str| line.parse::<Plan>().unwrap_err().to_string();
        assert!(wrong("members=3").contains("does not begin with a seed"));
        assert!(wrong("seed=1 faults=Fire").contains("Fire is no fault"));
        assert!(wrong("seed=1 colour=red").contains("colour=red is unknown"));
    }

    #[test]
    fn over_many_seeds_each_kind_is_on_and_off() {
        for fault in Fault::ALL {
            let on = (0..400).filter(|seed| Plan::draw(*seed).faults.has(fault)).count();
            assert!((40..360).contains(&on), "{fault:?} is on in {on} of 400");
        }
    }
}
