//! Whether a history is linearizable: whether each operation can be given one moment between its
//! beginning and its end so that, done in the order of these moments, all answers are right.
//!
//! Registers do not touch each other, so each key is looked at alone. The search goes along the
//! history (Lowe, "Testing for linearizability": just-in-time). It keeps all *worlds* in which the
//! register can be: its value, and which of the operations that are under way have happened. When
//! an operation ends, each world is continued, by operations under way in any order, until that one
//! has happened; worlds in which it cannot happen are dropped. When no world is left, the history
//! is wrong, and the operation that ended there says where.
//!
//! Four things keep the worlds few: equal ones are kept once; an operation that changes nothing
//! happens as soon as it can; an operation without an answer is left out if nobody saw what it wrote;
//! and of two worlds that differ only in such operations, the one in which fewer have happened can do
//! all that the other can.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fmt,
};

use crate::history::{Action, Operation, Value};

/// Worlds that may be looked at for one key before the search gives up.
pub const WORLDS: usize = 2_000_000;

/// What the search found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// There is an order that explains all answers.
    Linearizable,
    /// There is none.
    Wrong(Box<Contradiction>),
    /// The search gave up.
    Undecided {
        /// The key that it was looking at.
        key: String,
        /// Why.
        reason: String,
    },
}

/// Where a history cannot be explained.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contradiction {
    /// The operation whose answer no order explains, given what came before.
    pub operation: Operation,
    /// What the register could hold when it ended, before it is taken into account.
    pub possible: Vec<Value>,
    /// The operations of that key that ended or began last before.
    pub before: Vec<Operation>,
}

/// Operations shown in front of a contradiction.
const SHOWN: usize = 12;

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Linearizable => f.write_str("linearizable"),
            Self::Undecided { key, reason } => write!(f, "undecided at key {key}: {reason}"),
            Self::Wrong(contradiction) => {
                let Contradiction { operation, possible, before } = &**contradiction;
                writeln!(f, "not linearizable: no order explains\n  {operation}")?;
                writeln!(f, "which may hold {possible:?}, after")?;
                before.iter().try_for_each(|operation| writeln!(f, "  {operation}"))
            }
        }
    }
}

/// Looks for an order, key by key, in at most `worlds` steps for each.
#[must_use]
pub fn check(history: &[Operation], worlds: usize) -> Verdict {
    let mut keys: BTreeMap<&str, Vec<&Operation>> = BTreeMap::new();
    for operation in history {
        keys.entry(&operation.key).or_default().push(operation);
    }
    for (key, operations) in keys {
        let operations = relevant(operations);
        let verdict = match Search::new(&operations, worlds) {
            Ok(search) => search.run(),
            Err(reason) => Err(Stop::GaveUp(reason)),
        };
        match verdict {
            Ok(()) => {}
            Err(Stop::GaveUp(reason)) => {
                return Verdict::Undecided { key: key.to_owned(), reason };
            }
            Err(Stop::Wrong(contradiction)) => return Verdict::Wrong(contradiction),
        }
    }
    Verdict::Linearizable
}

/// Leaves out operations without an answer that nobody can have noticed: reads, and those whose
/// value was never seen. If such a one happened, the next that happened has overwritten it.
fn relevant(operations: Vec<&Operation>) -> Vec<&Operation> {
    let mut seen: HashSet<&Value> = HashSet::new();
    for operation in &operations {
        match &operation.action {
            Action::Read(found) | Action::Mismatch { found, .. } => drop(seen.insert(found)),
            Action::CompareAndSet { expect, .. } => drop(seen.insert(expect)),
            Action::Write(_) => {}
        }
    }
    let matters = |operation: &&Operation| match (&operation.to, &operation.action) {
        (Some(_), _) => true,
        (None, Action::Write(value) | Action::CompareAndSet { value, .. }) => seen.contains(value),
        (None, Action::Read(_) | Action::Mismatch { .. }) => false,
    };
    operations.into_iter().filter(matters).collect()
}

/// Number of a value among those of a key; 0 is the key that is not there.
type ValueId = u32;

/// An operation by the numbers of its values.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// Right if the value is this; changes nothing.
    Is(ValueId),
    /// Sets it.
    Set(ValueId),
    /// Right if the value is the first; sets the second.
    Swap(ValueId, ValueId),
    /// Can never be right: a mismatch that found what it expected.
    Never,
}

impl Step {
    /// The value behind it; `None` where it cannot happen.
    fn apply(self, value: ValueId) -> Option<ValueId> {
        match self {
            Self::Is(expected) => (value == expected).then_some(value),
            Self::Set(new) => Some(new),
            Self::Swap(expected, new) => (value == expected).then_some(new),
            Self::Never => None,
        }
    }
}

/// What the register may hold, and what has happened of that which is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct World {
    value: ValueId,
    /// Operations with an answer, by place.
    known: u64,
    /// Operations without one, by number.
    unknown: u128,
}

/// A beginning or an end of an operation, by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Moment {
    /// At equal times, beginnings come first: operations that touch are taken to overlap.
    Begin(usize),
    End(usize),
}

enum Stop {
    GaveUp(String),
    Wrong(Box<Contradiction>),
}

struct Search<'a> {
    operations: &'a [&'a Operation],
    steps: Vec<Step>,
    moments: Vec<(u64, Moment)>,
    values: Vec<&'a Value>,
    /// Operation with an answer that has a place, by place.
    places: Vec<Option<usize>>,
    /// Operations without an answer that have begun.
    unknown: Vec<usize>,
    worlds: HashSet<World>,
    looked_at: usize,
    limit: usize,
}

impl<'a> Search<'a> {
    fn new(operations: &'a [&'a Operation], limit: usize) -> Result<Self, String> {
        let unknown = operations.iter().filter(|operation| operation.to.is_none()).count();
        if unknown > u128::BITS as usize {
            return Err(format!("{unknown} operations without an answer are more than 128"));
        }
        let mut numbers = HashMap::from([(&NOTHING, 0)]);
        let mut values = vec![&NOTHING];
        let mut number = |value: &'a Value| -> ValueId {
            *numbers.entry(value).or_insert_with(|| {
                values.push(value);
                values.len() as ValueId - 1
            })
        };
        let steps = operations.iter().map(|operation| match &operation.action {
            Action::Read(found) => Step::Is(number(found)),
            Action::Write(value) => Step::Set(number(value)),
            Action::CompareAndSet { expect, value } => Step::Swap(number(expect), number(value)),
            Action::Mismatch { expect, found, .. } if expect == found => Step::Never,
            Action::Mismatch { found, .. } => Step::Is(number(found)),
        });
        let steps = steps.collect();
        let mut moments = Vec::new();
        for (at, operation) in operations.iter().enumerate() {
            moments.push((operation.from, Moment::Begin(at)));
            moments.extend(operation.to.map(|to| (to, Moment::End(at))));
        }
        moments.sort_unstable();
        let worlds = HashSet::from([World { value: 0, known: 0, unknown: 0 }]);
        let (places, unknown) = (Vec::new(), Vec::new());
        Ok(Self {
            operations,
            steps,
            moments,
            values,
            places,
            unknown,
            worlds,
            looked_at: 0,
            limit,
        })
    }

    fn run(mut self) -> Result<(), Stop> {
        for (_, moment) in std::mem::take(&mut self.moments) {
            match moment {
                Moment::Begin(at) => self.begin(at)?,
                Moment::End(at) => self.end(at)?,
            }
        }
        Ok(())
    }

    fn begin(&mut self, at: usize) -> Result<(), Stop> {
        if self.operations[at].to.is_none() {
            self.unknown.push(at);
            return Ok(());
        }
        if let Some(free) = self.places.iter_mut().find(|place| place.is_none()) {
            *free = Some(at);
        } else if self.places.len() < u64::BITS as usize {
            self.places.push(Some(at));
        } else {
            return Err(Stop::GaveUp("more than 64 operations are under way at once".to_owned()));
        }
        Ok(())
    }

    /// Continues all worlds until the operation has happened in them.
    fn end(&mut self, at: usize) -> Result<(), Stop> {
        let Some(place) = self.places.iter().position(|place| *place == Some(at)) else {
            return Err(Stop::GaveUp("an operation ends before it begins".to_owned()));
        };
        let own = 1_u64 << place;
        let mut seen: HashSet<World> =
            self.worlds.iter().map(|world| self.settled(*world)).collect();
        let mut open: Vec<World> = seen.iter().copied().collect();
        let mut happened = Vec::new();
        while let Some(world) = open.pop() {
            self.looked_at += 1;
            if self.looked_at > self.limit {
                let reason = format!("more than {} worlds had to be looked at", self.limit);
                return Err(Stop::GaveUp(reason));
            }
            if world.known & own != 0 {
                happened.push(World { known: world.known & !own, ..world });
                continue;
            }
            self.next_worlds(world, |next| {
                if seen.insert(next) {
                    open.push(next);
                }
            });
        }
        if happened.is_empty() {
            return Err(Stop::Wrong(Box::new(self.contradiction(at, &seen))));
        }
        self.worlds = fewest(happened);
        self.places[place] = None;
        Ok(())
    }

    /// Each world that follows when one more operation happens.
    fn next_worlds(&self, world: World, mut visit: impl FnMut(World)) {
        for (place, at) in self.places.iter().enumerate() {
            let bit = 1_u64 << place;
            if let Some(at) = at
                && world.known & bit == 0
                && let Some(value) = self.steps[*at].apply(world.value)
            {
                visit(self.settled(World { value, known: world.known | bit, ..world }));
            }
        }
        for (number, at) in self.unknown.iter().enumerate() {
            let bit = 1_u128 << number;
            if world.unknown & bit == 0
                && let Some(value) = self.steps[*at].apply(world.value)
            {
                visit(self.settled(World { value, unknown: world.unknown | bit, ..world }));
            }
        }
    }

    /// Lets all happen that changes nothing and can: it forbids nothing that comes later.
    fn settled(&self, mut world: World) -> World {
        for (place, at) in self.places.iter().enumerate() {
            if let Some(at) = at
                && matches!(self.steps[*at], Step::Is(value) if value == world.value)
            {
                world.known |= 1 << place;
            }
        }
        world
    }

    fn contradiction(&self, at: usize, seen: &HashSet<World>) -> Contradiction {
        let operation = self.operations[at].clone();
        let mut possible: Vec<Value> =
            seen.iter().map(|world| self.values[world.value as usize].clone()).collect();
        possible.sort();
        possible.dedup();
        let end = operation.to.unwrap_or(u64::MAX);
        let mut before: Vec<Operation> = self
            .operations
            .iter()
            .filter(|other| other.from <= end && ***other != operation)
            .map(|other| (*other).clone())
            .collect();
        before.sort_by_key(|other| (other.to.map_or(other.from, |to| to.min(end)), other.from));
        let before = before.split_off(before.len().saturating_sub(SHOWN));
        Contradiction { operation, possible, before }
    }
}

/// The key that is not there.
static NOTHING: Value = None;

/// Drops each world in which more operations without an answer have happened than in another that is
/// equal otherwise.
fn fewest(worlds: Vec<World>) -> HashSet<World> {
    let mut alike: HashMap<(ValueId, u64), Vec<u128>> = HashMap::new();
    for World { value, known, unknown } in worlds {
        let kept = alike.entry((value, known)).or_default();
        if kept.iter().any(|fewer| fewer & unknown == *fewer) {
            continue;
        }
        kept.retain(|more| more & unknown != unknown);
        kept.push(unknown);
    }
    let worlds = alike.into_iter().flat_map(|((value, known), kept)| {
        kept.into_iter().map(move |unknown| World { value, known, unknown })
    });
    worlds.collect()
}
