//! Making a failing plan smaller: fewer faults, members, clients, and less time.

use crate::{
    batch::{self, Kind},
    invariants::Violation,
    plan::Plan,
    trace::Detail,
};

/// Most runs that are tried.
const TRIES_MAX: u32 = 200;

/// The smallest plan found that breaks the same property.
#[must_use]
pub fn shrink(kind: Kind, plan: &Plan, violation: &Violation) -> (Plan, Violation) {
    let mut best = (plan.clone(), violation.clone());
    let mut tries = 0;
    loop {
        let mut better = None;
        for candidate in smaller(&best.0, &best.1) {
            tries += 1;
            if tries > TRIES_MAX {
                return best;
            }
            let found = batch::run(kind, &candidate, Detail::Hash).violation;
            if let Some(found) = found.filter(|found| found.invariant == violation.invariant) {
                better = Some((candidate, found));
                break;
            }
        }
        match better {
            Some(better) => best = better,
            None => return best,
        }
    }
}

/// Plans that are a step smaller, the largest steps first.
fn smaller(plan: &Plan, violation: &Violation) -> Vec<Plan> {
    let mut plans = Vec::new();
    if plan.members > 3 {
        plans.push(Plan { members: 3, ..plan.clone() });
    }
    for millis in [plan.millis / 4, plan.millis / 2, plan.millis * 3 / 4] {
        if violation.at < plan.millis && millis < violation.at {
            continue;
        }
        plans.push(Plan { millis, ..plan.clone() });
    }
    let on: Vec<_> = plan.faults.iter().collect();
    if on.len() > 3 {
        for half in on.chunks(on.len().div_ceil(2)) {
            plans.push(Plan { faults: half.iter().copied().collect(), ..plan.clone() });
        }
    }
    plans.extend(
        on.iter().map(|fault| Plan { faults: plan.faults.without(*fault), ..plan.clone() }),
    );
    if plan.clients > 1 {
        plans.push(Plan { clients: 1, ..plan.clone() });
    }
    plans.retain(|smaller| smaller.millis >= 500);
    plans
}
