//! The search against one that tries every order, on small histories; and histories that a single
//! register has given, with one answer changed.

use failover::{
    history::{Action, Operation, Value},
    linearizable::{Verdict, WORLDS, check},
};
use proptest::{collection::vec, prelude::*, strategy::ValueTree, test_runner::TestRunner};

/// Whether some order of `rest` explains all answers, from a register that holds `value`: every
/// order is tried.
fn some_order(value: &Value, rest: &[Operation]) -> bool {
    if rest.iter().all(|operation| operation.to.is_none()) {
        return true;
    }
    (0..rest.len()).any(|first| {
        let operation = &rest[first];
        let too_late = rest.iter().any(|other| other.to.is_some_and(|to| to < operation.from));
        if too_late {
            return false;
        }
        let next = match &operation.action {
            Action::Read(found) if found == value || operation.to.is_none() => value.clone(),
            Action::Write(new) => new.clone(),
            Action::CompareAndSet { expect, value: new } if expect == value => new.clone(),
            Action::Mismatch { expect, found, .. } if found == value && expect != value => {
                value.clone()
            }
            _ => return false,
        };
        let mut rest = rest.to_vec();
        rest.remove(first);
        some_order(&next, &rest)
    })
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![Just(None), (0..3_u8).prop_map(|n| Some(n.to_string()))]
}

fn operation() -> impl Strategy<Value = Operation> {
    let action = prop_oneof![
        3 => value().prop_map(Action::Read),
        3 => value().prop_map(Action::Write),
        2 => (value(), value()).prop_map(|(expect, value)| Action::CompareAndSet { expect, value }),
        1 => (value(), value(), value())
            .prop_map(|(expect, value, found)| Action::Mismatch { expect, value, found }),
    ];
    let span = (0..12_u64, 0..6_u64, prop::bool::weighted(0.8));
    (action, span).prop_map(|(action, (from, length, known))| {
        let to = known.then_some(from + length);
        Operation { key: "x".to_owned(), from, to, action }
    })
}

/// A history of a real register: each operation happens at a moment of its own, and spans it.
fn real_history() -> impl Strategy<Value = Vec<Operation>> {
    let one = (0..4_u8, 0..4_u8, 0..4_u8, (0..30_u64, 0..30_u64), prop::bool::weighted(0.9));
    vec(one, 1..60).prop_map(|all| {
        let mut holds: Value = None;
        let text = |n: u8| (n > 0).then(|| n.to_string());
        let mut history = Vec::new();
        for (at, (kind, a, b, (early, late), known)) in all.into_iter().enumerate() {
            let moment = 100 + at as u64 * 10;
            let (expect, value) = (text(a), text(b));
            let action = match kind {
                0 => Action::Read(holds.clone()),
                1 => {
                    holds.clone_from(&value);
                    Action::Write(value)
                }
                _ if holds == expect => {
                    holds.clone_from(&value);
                    Action::CompareAndSet { expect, value }
                }
                _ => Action::Mismatch { expect, value, found: holds.clone() },
            };
            let to = known.then_some(moment + late);
            history.push(Operation { key: "x".to_owned(), from: moment - early, to, action });
        }
        history
    })
}

#[test]
fn small_histories_are_of_both_kinds() {
    let mut runner = TestRunner::deterministic();
    let good = (0..500)
        .filter(|_| {
            let history = vec(operation(), 1..7).new_tree(&mut runner).unwrap().current();
            some_order(&None, &history)
        })
        .count();
    assert!((50..450).contains(&good), "{good} of 500 are linearizable");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_search_agrees_with_one_that_tries_every_order(history in vec(operation(), 0..7)) {
        let expected = some_order(&None, &history);
        let verdict = check(&history, WORLDS);
        prop_assert_eq!(matches!(verdict, Verdict::Linearizable), expected, "{}", verdict);
        prop_assert!(!matches!(verdict, Verdict::Undecided { .. }), "{}", verdict);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_a_real_register_gave_is_linearizable(history in real_history()) {
        let verdict = check(&history, WORLDS);
        prop_assert!(matches!(verdict, Verdict::Linearizable), "{}", verdict);
    }

    #[test]
    fn a_value_that_nobody_wrote_is_found(mut history in real_history()) {
        history.push(Operation { key: "x".to_owned(), from: 5000, to: Some(5001), action: Action::Read(Some("9".to_owned())) });
        prop_assert!(matches!(check(&history, WORLDS), Verdict::Wrong(_)));
    }

    #[test]
    fn the_order_of_recording_says_nothing(history in real_history(), seed in 0..1000_usize) {
        let mut other = history.clone();
        let length = other.len();
        other.rotate_left(seed % length);
        prop_assert_eq!(check(&history, WORLDS), check(&other, WORLDS));
    }
}
