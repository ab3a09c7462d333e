//! Histories made by hand, good and bad, and the verdict on each.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::format_push_string,
    reason = "helpers of tests, which clippy takes for the product"
)]

use failover::{
    history::parse,
    linearizable::{Verdict, WORLDS, check},
};

fn verdict(text: &str) -> Verdict {
    check(&parse(text).unwrap(), WORLDS)
}

/// The history is in order.
fn good(text: &str) {
    let verdict = verdict(text);
    assert_eq!(verdict, Verdict::Linearizable, "{verdict}");
}

/// The history is wrong, and that shows at the operation `at`.
fn bad(text: &str, at: &str) {
    match verdict(text) {
        Verdict::Wrong(contradiction) => assert_eq!(contradiction.operation.to_string(), at),
        other => panic!("{other}"),
    }
}

#[test]
fn nothing_happened() {
    good("");
}

#[test]
fn a_key_is_not_there_at_first() {
    good("1..2 x read -");
    bad("1..2 x read a", "1..2 x read a");
}

#[test]
fn one_after_another() {
    good(
        "1..2 x write a
         3..4 x read a
         5..6 x write b
         7..8 x read b",
    );
}

#[test]
fn a_stale_read() {
    bad(
        "1..2 x write a
         3..4 x write b
         5..6 x read a",
        "5..6 x read a",
    );
}

#[test]
fn a_stale_read_of_the_key_that_was_not_there() {
    bad(
        "1..2 x write a
         3..4 x read -",
        "3..4 x read -",
    );
}

#[test]
fn a_read_beside_a_write_sees_either() {
    good("1..2 x write a\n3..6 x write b\n4..5 x read a");
    good("1..2 x write a\n3..6 x write b\n4..5 x read b");
    bad("1..2 x write a\n3..6 x write b\n4..5 x read -", "4..5 x read -");
}

#[test]
fn the_new_value_and_then_the_old_one() {
    bad(
        "1..2   x write a
         3..20  x write b
         4..6   x read b
         7..9   x read a",
        "7..9 x read a",
    );
}

#[test]
fn two_readers_that_overlap_may_disagree_on_the_new_value() {
    good(
        "1..2   x write a
         3..20  x write b
         4..9   x read a
         5..8   x read b",
    );
}

#[test]
fn a_read_from_the_future() {
    bad(
        "1..2 x read a
         3..4 x write a",
        "1..2 x read a",
    );
}

#[test]
fn a_lost_update() {
    bad(
        "1..2 x write 0
         3..4 x cas 0 1
         5..6 x cas 1 2
         7..8 x read 1",
        "7..8 x read 1",
    );
}

#[test]
fn both_compare_and_sets_win() {
    bad(
        "1..2 x write a
         3..6 x cas a b
         4..7 x cas a c",
        "4..7 x cas a c",
    );
}

#[test]
fn one_compare_and_set_wins_and_the_other_says_what_it_found() {
    good(
        "1..2 x write a
         3..6 x cas a b
         4..7 x cas a c found b
         8..9 x read b",
    );
}

#[test]
fn a_mismatch_that_nothing_explains() {
    bad(
        "1..2 x write a
         3..4 x cas a b found c",
        "3..4 x cas a b found c",
    );
}

#[test]
fn a_mismatch_that_found_what_it_expected() {
    bad(
        "1..2 x write a
         3..4 x cas a b found a",
        "3..4 x cas a b found a",
    );
}

#[test]
fn a_mismatch_changes_nothing() {
    bad(
        "1..2 x write a
         3..4 x cas z b found a
         5..6 x read b",
        "5..6 x read b",
    );
}

#[test]
fn a_compare_and_set_makes_a_key_that_was_not_there() {
    good(
        "1..2 x cas - a
         3..4 x cas - b found a
         5..6 x delete
         7..8 x cas - b
         9..9 x read b",
    );
    bad("1..2 x cas - a\n3..4 x cas - b", "3..4 x cas - b");
}

#[test]
fn a_deleted_key_that_comes_back() {
    bad(
        "1..2 x write a
         3..4 x delete
         5..6 x read a",
        "5..6 x read a",
    );
}

#[test]
fn a_chain_of_compare_and_sets_in_one_order_only() {
    good(
        "1..2   x write 0
         3..20  x cas 2 3
         3..20  x cas 0 1
         3..20  x cas 1 2
         21..22 x read 3",
    );
}

#[test]
fn a_chain_of_compare_and_sets_with_a_missing_link() {
    bad(
        "1..2   x write 0
         3..20  x cas 2 3
         3..21  x cas 0 1
         22..23 x read 3",
        "3..20 x cas 2 3",
    );
}

#[test]
fn an_unknown_write_that_happened() {
    good(
        "1..2 x write a
         3..? x write b
         5..6 x read b",
    );
}

#[test]
fn an_unknown_write_that_did_not() {
    good(
        "1..2 x write a
         3..? x write b
         5..6 x read a",
    );
}

#[test]
fn an_unknown_write_that_happens_much_later() {
    good(
        "1..2   x write a
         3..?   x write b
         5..6   x read a
         7..8   x write c
         9..10  x read c
         11..12 x read b",
    );
}

#[test]
fn an_unknown_write_is_seen_and_then_not_again() {
    bad(
        "1..2 x write a
         3..? x write b
         5..6 x read b
         7..8 x read a",
        "7..8 x read a",
    );
}

#[test]
fn an_unknown_write_happens_once() {
    bad(
        "1..2 x write a
         3..? x write b
         5..6 x read b
         7..8 x write c
         9..10 x read b",
        "9..10 x read b",
    );
}

#[test]
fn an_unknown_write_does_not_happen_before_it_is_asked_for() {
    bad(
        "1..2 x write a
         3..4 x read b
         5..? x write b",
        "3..4 x read b",
    );
}

#[test]
fn an_unknown_compare_and_set_happens_only_on_what_it_expects() {
    good("1..2 x write a\n3..? x cas a b\n5..6 x read b");
    bad("1..2 x write a\n3..? x cas z b\n5..6 x read b", "5..6 x read b");
}

#[test]
fn unknown_compare_and_sets_make_a_chain() {
    good(
        "1..2 x write a
         3..? x cas b c
         3..? x cas a b
         5..6 x read c",
    );
}

#[test]
fn an_unknown_compare_and_set_that_another_win_excludes() {
    bad(
        "1..2 x write a
         3..? x cas a b
         5..6 x cas a c
         7..8 x read b",
        "7..8 x read b",
    );
}

#[test]
fn an_unknown_delete() {
    good("1..2 x write a\n3..? x delete\n5..6 x read -");
    good("1..2 x write a\n3..? x delete\n5..6 x read a\n7..8 x read -");
    bad("1..2 x write a\n3..? x delete\n5..6 x read -\n7..8 x read a", "7..8 x read a");
}

#[test]
fn an_unknown_read_says_nothing() {
    good("1..2 x write a\n3..? x read z");
}

#[test]
fn an_unknown_write_is_the_one_explanation_of_a_mismatch() {
    good(
        "1..2 x write a
         3..? x write b
         5..6 x cas a c found b",
    );
    bad("1..2 x write a\n5..6 x cas a c found b", "5..6 x cas a c found b");
}

#[test]
fn a_repeat_that_was_applied_twice() {
    bad(
        "1..10  x write a
         3..4   x read a
         5..6   x write b
         7..8   x read b
         11..12 x read a",
        "11..12 x read a",
    );
}

#[test]
fn an_acknowledged_write_is_gone_after_a_failover() {
    bad(
        "1..2   x write a
         3..4   x write b
         5..?   x write c
         9..10  x read a",
        "9..10 x read a",
    );
}

#[test]
fn two_leaders_at_once() {
    bad(
        "1..2   x write a
         3..4   x cas a b
         3..9   x read a
         5..6   x read b
         7..8   x read a",
        "7..8 x read a",
    );
}

#[test]
fn keys_do_not_touch_each_other() {
    good(
        "1..2 x write a
         3..4 y write b
         5..6 x read a
         7..8 y read b",
    );
    bad("1..2 x write a\n3..4 y read a", "3..4 y read a");
}

#[test]
fn operations_that_touch_are_taken_to_overlap() {
    good("1..3 x write a\n3..4 x read -");
    bad("1..2 x write a\n3..4 x read -", "3..4 x read -");
}

#[test]
fn two_writers_at_once_leave_one_value_for_all() {
    good("1..5 x write a\n1..5 x write b\n6..7 x read a\n8..9 x read a");
    good("1..5 x write a\n1..5 x write b\n6..7 x read b\n8..9 x read b");
    bad("1..5 x write a\n1..5 x write b\n6..7 x read a\n8..9 x read b", "8..9 x read b");
}

#[test]
fn readers_see_writes_in_one_order() {
    bad(
        "1..40  x write a
         1..40  x write b
         2..4   x read a
         5..7   x read b
         8..10  x read a",
        "8..10 x read a",
    );
}

#[test]
fn a_contradiction_is_shown_with_what_came_before() {
    let text = verdict("1..2 x write a\n3..4 x write b\n5..6 x read a").to_string();
    assert_eq!(
        text,
        "not linearizable: no order explains\n  5..6 x read a\nwhich may hold [Some(\"b\")], after\n  1..2 x write a\n  3..4 x write b\n"
    );
}

#[test]
fn a_search_that_is_too_long_is_given_up() {
    let writes = (0..20).map(|n| format!("1..100 x write {n}\n"));
    let reads = (0..20).map(|n| format!("{}..{} x read {n}\n", 200 + n * 2, 201 + n * 2));
    let text: String = writes.chain(reads).collect();
    let verdict = check(&parse(&text).unwrap(), 10_000);
    assert!(matches!(verdict, Verdict::Undecided { .. }), "{verdict}");
}

#[test]
fn a_long_history_with_many_unknown_writes_is_decided() {
    let mut text = String::new();
    for n in 0..3000 {
        let at = n * 10;
        // Every hundredth has no answer; every other one of those is seen.
        if n % 100 == 0 {
            text.push_str(&format!("{}..? x write u{n}\n", at + 1));
            if n % 200 == 0 {
                text.push_str(&format!("{}..{} x read u{n}\n", at + 2, at + 3));
            }
        }
        text.push_str(&format!("{}..{} x write {n}\n", at + 4, at + 7));
        text.push_str(&format!("{}..{} x read {n}\n", at + 5, at + 8));
    }
    good(&text);
    text.push_str("40000..40001 x read u400\n");
    bad(&text, "40000..40001 x read u400");
}
