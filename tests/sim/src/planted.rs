//! Faults that are planted in the product: the simulator must find each, by a seed that is fixed.
#![expect(
    clippy::print_stdout,
    reason = "reports on standard output, as the command that calls it"
)]

use dledger_core::{Bug, Planted};

use crate::{
    batch::{self, Kind},
    invariants::Violation,
    plan::Plan,
    trace::Detail,
};

/// Most seeds that a search tries.
const SEARCH_MAX: u64 = 3000;

/// Each fault with the plan that finds it.
const KNOWN: &[(Bug, Kind, &str)] = &[
    (Bug::P1, Kind::Bare, "seed=0"),
    (Bug::P2, Kind::Bare, "seed=0"),
    (Bug::P3, Kind::Bare, "seed=0"),
    (Bug::P4, Kind::Bare, "seed=0"),
    (Bug::P5, Kind::Bare, "seed=91"),
    (Bug::P6, Kind::Bare, "seed=80"),
    (Bug::P7, Kind::Bare, "seed=1006"),
    (Bug::P8, Kind::Bare, "seed=0"),
    (Bug::P9, Kind::Bare, "seed=0"),
    (Bug::P10, Kind::Bare, "seed=6"),
    (Bug::P11, Kind::Engine, "seed=0"),
    (Bug::P12, Kind::Engine, "seed=1"),
    (Bug::P13, Kind::Engine, "seed=11"),
    (Bug::P14, Kind::Engine, "seed=56"),
    (Bug::P15, Kind::Engine, "seed=0"),
    (Bug::P16, Kind::Engine, "seed=7"),
    (Bug::P17, Kind::Engine, "seed=0"),
    (Bug::P18, Kind::Engine, "seed=0 faults=Loss,Isolate,Kill,TornVote"),
    (Bug::P19, Kind::Bare, "seed=0"),
    (Bug::P20, Kind::Bare, "seed=1"),
    (Bug::P22, Kind::Journal, "seed=0"),
    (Bug::P23, Kind::Journal, "seed=0"),
    (Bug::P24, Kind::Journal, "seed=0"),
    (Bug::P26, Kind::Messages, "seed=17"),
    (Bug::P30, Kind::Bare, "seed=0"),
    (Bug::P31, Kind::Java, "seed=14"),
    (Bug::P32, Kind::Java, "seed=49"),
    (Bug::P33, Kind::Java, "seed=6110088"),
    (Bug::T1, Kind::Journal, "seed=3 members=3 scenario=Swarm faults=Loss,Kill"),
];

/// All faults of the log.
const ALL: &[(Bug, Kind)] = &[
    (Bug::P1, Kind::Bare),
    (Bug::P2, Kind::Bare),
    (Bug::P3, Kind::Bare),
    (Bug::P4, Kind::Bare),
    (Bug::P5, Kind::Bare),
    (Bug::P6, Kind::Bare),
    (Bug::P7, Kind::Bare),
    (Bug::P8, Kind::Bare),
    (Bug::P9, Kind::Bare),
    (Bug::P10, Kind::Bare),
    (Bug::P11, Kind::Engine),
    (Bug::P12, Kind::Engine),
    (Bug::P13, Kind::Engine),
    (Bug::P14, Kind::Engine),
    (Bug::P15, Kind::Engine),
    (Bug::P16, Kind::Engine),
    (Bug::P17, Kind::Engine),
    (Bug::P18, Kind::Engine),
    (Bug::P19, Kind::Bare),
    (Bug::P20, Kind::Bare),
    (Bug::P22, Kind::Journal),
    (Bug::P23, Kind::Journal),
    (Bug::P24, Kind::Journal),
    (Bug::P26, Kind::Messages),
    (Bug::T1, Kind::Journal),
    (Bug::P30, Kind::Bare),
    (Bug::P31, Kind::Java),
    (Bug::P32, Kind::Java),
    (Bug::P33, Kind::Java),
];

/// Words for the plans of a search, where what a seed draws meets the fault too seldom.
fn words(bug: Bug) -> &'static str {
    match bug {
        // Elections one after another, with power cuts while votes are stored.
        Bug::P18 => " members=3 keeping=Flushed scenario=Swarm faults=Loss,Isolate,Kill,TornVote",
        // Restarts from the files, and little else.
        Bug::T1 => " members=3 scenario=Swarm faults=Loss,Kill",
        _ => "",
    }
}

/// Tries the known plans, or looks for new ones.
///
/// # Errors
/// Which faults were not found.
pub fn run(search: bool, only: &[String]) -> Result<(), String> {
    let wanted = |bug: Bug| only.is_empty() || only.contains(&format!("{bug:?}"));
    let mut missed = Vec::new();
    if search {
        for (bug, kind) in ALL.iter().filter(|(bug, _)| wanted(*bug)) {
            match look_for(*bug, *kind) {
                Some((plan, found)) => {
                    println!("    (Bug::{bug:?}, Kind::{kind:?}, \"{plan}\"), // {found}");
                }
                None => missed.push(format!("{bug:?}")),
            }
        }
    } else {
        for (bug, kind, line) in KNOWN.iter().filter(|(bug, _, _)| wanted(*bug)) {
            let plan: Plan = line.parse().map_err(|error| format!("{line}: {error}"))?;
            match try_one(*bug, *kind, plan) {
                Some(found) => println!("{bug:?}: {found}"),
                None => missed.push(format!("{bug:?}")),
            }
        }
    }
    if missed.is_empty() { Ok(()) } else { Err(format!("not found: {}", missed.join(", "))) }
}

fn look_for(bug: Bug, kind: Kind) -> Option<(Plan, Violation)> {
    (0..SEARCH_MAX).find_map(|seed| {
        let plan: Plan = format!("seed={seed}{}", words(bug)).parse().ok()?;
        let found = try_one(bug, kind, plan.clone())?;
        Some((plan, found))
    })
}

/// What the plan breaks with the fault in, if it breaks nothing without it.
fn try_one(bug: Bug, kind: Kind, mut plan: Plan) -> Option<Violation> {
    plan.planted = Planted::only(bug);
    let found = batch::run(kind, &plan, Detail::Hash).violation?;
    plan.planted = Planted::default();
    let without = batch::run(kind, &plan, Detail::Hash).violation;
    without.is_none().then_some(found)
}
