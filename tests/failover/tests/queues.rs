//! Hand-made histories of queues: each bad one must be found out by its rule, with a text that names
//! the messages; the good ones must pass.

#![expect(
    clippy::unwrap_used,
    reason = "this is a test; clippy knows only functions marked as tests"
)]

use failover::queues::{Findings, Rule, check, parse};

/// Two messages, acknowledged, on all three nodes.
const SOUND: &str = "
    send c1 k1=b1 T/0 10..20 at 0
    send c1 k2=b2 T/0 21..30 at 1
    holds n0 T/0 0..2 0:k1=b1@100 1:k2=b2@200
    holds n1 T/0 0..2 0:k1=b1@100 1:k2=b2@200
    holds n2 T/0 0..2 0:k1=b1@100 1:k2=b2@200";

fn of(text: &str) -> Findings {
    check(&parse(text).unwrap())
}

#[track_caller]
fn good(text: &str) {
    let findings = of(text);
    assert!(findings.is_empty(), "{text}\n{findings}");
}

/// `with` is added to [`SOUND`].
#[track_caller]
fn good_with(with: &str) {
    good(&format!("{SOUND}\n{with}"));
}

/// The history breaks this rule, and of the others none but those in `also`.
#[track_caller]
fn bad(text: &str, rule: Rule, words: &[&str], also: &[Rule]) {
    let findings = of(text);
    let found: Vec<&str> = findings
        .violations
        .iter()
        .filter(|one| one.rule == rule)
        .map(|one| one.text.as_str())
        .collect();
    let names_all = |text: &&&str| words.iter().all(|word| text.contains(word));
    assert!(
        found.iter().any(|text| names_all(&text)),
        "{words:?} for {rule} in\n{text}\n{findings}"
    );
    for other in findings.rules().filter(|other| *other != rule) {
        assert!(also.contains(&other), "{other} is broken too in\n{text}\n{findings}");
    }
}

#[track_caller]
fn bad_with(with: &str, rule: Rule, words: &[&str], also: &[Rule]) {
    bad(&format!("{SOUND}\n{with}"), rule, words, also);
}

/// [`SOUND`] with one text in place of another.
#[track_caller]
fn bad_where(from: &str, to: &str, rule: Rule, words: &[&str], also: &[Rule]) {
    assert!(SOUND.contains(from), "{from}");
    bad(&SOUND.replace(from, to), rule, words, also);
}

#[test]
fn what_was_acknowledged_and_is_held_by_all_is_sound() {
    good(SOUND);
    good("");
    // Readers see it, at any time after it was sent, and the end rises.
    good_with(
        "seen c9 T/0 15..25 0:k1=b1@100
         range c9 T/0 15..16 0..1
         range c9 T/0 31..32 0..2
         range c8 T/0 11..12 0..0",
    );
}

#[test]
fn an_attempt_without_an_answer_may_be_there_or_not() {
    good_with("send c2 k3=b3 T/0 10..20 unknown");
    let stored = |place: &str| {
        SOUND.replace("0..2", "0..3").replace("1:k2=b2@200", &format!("1:k2=b2@200 {place}"))
    };
    good(&format!("{}\nsend c2 k3=b3 T/0 10..20 unknown", stored("2:k3=b3@300")));
    // It was repeated, and both attempts were stored, the first one late.
    good(&format!(
        "{}\nsend c1 k2=b2 T/0 15..19 unknown",
        stored("2:k2=b2@300").replace("21..30", "22..30")
    ));
    good_with("send c2 k3=b3 T/0 10..20 refused");
}

#[test]
fn messages_at_the_same_time_lie_in_any_order() {
    good(
        "send c1 k1=b1 T/0 10..30 at 1
         send c2 k2=b2 T/0 15..20 at 0
         holds n0 T/0 0..2 0:k2=b2@100 1:k1=b1@200",
    );
    // Queues know nothing of each other.
    good(
        "send c1 k1=b1 T/0 10..11 at 5
         send c1 k2=b2 T/1 12..13 at 0
         holds n0 T/0 5..6 5:k1=b1@900
         holds n0 T/1 0..1 0:k2=b2@950",
    );
}

#[test]
fn progress_rises_and_a_reset_may_set_it_back() {
    good_with(
        "commit g T/0 40..41 1 ok
         progress c9 g T/0 39..40 -
         progress c9 g T/0 42..43 1
         commit g T/0 44..45 2 unknown
         progress c9 g T/0 46..47 1
         progress c9 g T/0 48..49 2
         commit g T/0 50..51 2 ok
         reset g T/0 52..53 0 ok
         progress n0 g T/0 54..55 0
         commit g T/0 56..57 1 ok
         progress n0 g T/0 58..59 1",
    );
    // Whether an unanswered reset was done, nobody knows.
    good_with(
        "commit g T/0 40..41 2 ok
         reset g T/0 42..43 0 unknown
         progress c9 g T/0 44..45 2
         progress c9 g T/0 46..47 0",
    );
}

#[test]
fn lost_at_the_end_of_one_node() {
    bad_where(
        "holds n2 T/0 0..2 0:k1=b1@100 1:k2=b2@200",
        "holds n2 T/0 0..1 0:k1=b1@100",
        Rule::AtLeastOnce,
        &["k2", "T/0@1", "n2 ends T/0 at 1"],
        &[Rule::OneMessage],
    );
}

#[test]
fn lost_on_all_nodes() {
    bad(
        "send c1 k1=b1 T/0 10..20 at 0
         send c1 k2=b2 T/0 21..30 at 1
         holds n0 T/0 0..1 0:k1=b1
         holds n1 T/0 0..1 0:k1=b1",
        Rule::AtLeastOnce,
        &["k2", "n0", "21..30"],
        &[],
    );
}

#[test]
fn lost_in_a_hole() {
    bad_where(
        "holds n1 T/0 0..2 0:k1=b1@100 1:k2=b2@200",
        "holds n1 T/0 0..2 1:k2=b2@200",
        Rule::AtLeastOnce,
        &["k1", "n1 has a hole"],
        &[Rule::Dense],
    );
}

#[test]
fn lost_below_the_oldest_offset() {
    bad(
        "send c1 k1=b1 T/0 10..20 at 0
         holds n0 T/0 1..1",
        Rule::AtLeastOnce,
        &["k1", "n0 begins T/0 at 1"],
        &[],
    );
}

#[test]
fn a_whole_queue_is_lost() {
    bad_with(
        "send c1 k3=b3 U/0 31..40 at 0
         holds n0 U/0 0..1 0:k3=b3@300
         holds n1 U/0 0..1 0:k3=b3@300",
        Rule::AtLeastOnce,
        &["k3", "n2 has no U/0"],
        &[Rule::OneMessage],
    );
}

#[test]
fn a_history_that_no_node_confirms_shows_nothing() {
    bad("send c1 k1=b1 T/0 10..20 at 0", Rule::AtLeastOnce, &["k1", "no node was read"], &[]);
}

#[test]
fn a_message_that_nobody_sent() {
    bad_where(
        "send c1 k2=b2 T/0 21..30 at 1",
        "",
        Rule::NoPhantom,
        &["k2", "T/0@1 of n0", "never sent"],
        &[],
    );
}

#[test]
fn a_message_that_was_refused() {
    bad_where("at 1", "refused", Rule::NoPhantom, &["k2", "refused"], &[]);
}

#[test]
fn a_message_in_another_queue() {
    bad_with(
        "send c1 k3=b3 T/0 31..40 unknown
         holds n0 T/1 0..1 0:k3=b3@300
         holds n1 T/1 0..1 0:k3=b3@300
         holds n2 T/1 0..1 0:k3=b3@300",
        Rule::NoPhantom,
        &["k3", "T/1@0", "was sent to T/0"],
        &[],
    );
}

#[test]
fn a_message_seen_before_it_was_sent() {
    bad_with("seen c9 T/0 3..5 0:k1=b1", Rule::NoPhantom, &["k1", "c9", "sent at 10 only"], &[]);
}

#[test]
fn other_bytes_on_one_node() {
    bad_where(
        "n1 T/0 0..2 0:k1=b1",
        "n1 T/0 0..2 0:k1=ff",
        Rule::EqualBytes,
        &["k1", "n1", "ff"],
        &[],
    );
}

#[test]
fn other_bytes_for_a_reader() {
    bad_with("seen c9 T/0 30..31 0:k1=0", Rule::EqualBytes, &["k1", "c9 at 30..31"], &[]);
}

#[test]
fn acknowledged_at_an_offset_where_another_lies() {
    bad_where(
        "send c1 k1=b1 T/0 10..20 at 0",
        "send c1 k1=b1 T/0 10..20 unknown
         send c3 k3=b3 T/0 10..20 at 0",
        Rule::OneMessage,
        &["k3", "T/0@0", "n0 has k1"],
        &[],
    );
}

#[test]
fn two_nodes_with_two_orders() {
    bad(
        "send c1 k1=b1 T/0 10..20 unknown
         send c2 k2=b2 T/0 10..20 unknown
         holds n0 T/0 0..2 0:k1=b1@100 1:k2=b2@200
         holds n1 T/0 0..2 0:k2=b2@100 1:k1=b1@200",
        Rule::OneMessage,
        &["T/0@0", "k1 for n0", "k2 for n1"],
        &[],
    );
}

#[test]
fn a_reader_saw_another_message_there() {
    bad_with(
        "send c2 k3=b3 T/0 10..20 unknown
         seen c9 T/0 22..25 1:k3=b3",
        Rule::OneMessage,
        &["T/0@1", "k2 for n0", "k3 for c9"],
        &[],
    );
}

#[test]
fn a_message_at_two_places_of_the_log() {
    bad_where(
        "n2 T/0 0..2 0:k1=b1@100",
        "n2 T/0 0..2 0:k1=b1@101",
        Rule::OneMessage,
        &["k1", "at 100 for n0", "at 101 for n2"],
        &[],
    );
}

#[test]
fn a_node_with_a_longer_queue() {
    bad_where(
        "n1 T/0 0..2 0:k1=b1@100 1:k2=b2@200",
        "n1 T/0 0..3 0:k1=b1@100 1:k2=b2@200 2:k3=b3@300\nsend c2 k3=b3 T/0 5..9 unknown",
        Rule::OneMessage,
        &["ends at 2 on n0", "at 3 on n1"],
        &[Rule::InOrder],
    );
}

#[test]
fn a_hole_between_offsets() {
    bad(
        "send c1 k1=b1 T/0 10..20 at 0
         send c1 k2=b2 T/0 21..30 at 2
         holds n0 T/0 0..3 0:k1=b1@100 2:k2=b2@200",
        Rule::Dense,
        &["n0", "k2 at 2 where 1 is next"],
        &[],
    );
}

#[test]
fn an_offset_twice() {
    bad(
        "send c1 k1=b1 T/0 10..20 at 0
         send c1 k2=b2 T/0 21..30 unknown
         holds n0 T/0 0..1 0:k2=b2@200 0:k1=b1@100",
        Rule::Dense,
        &["an offset twice", "k1 at 0"],
        &[Rule::OneMessage, Rule::InOrder],
    );
}

#[test]
fn offsets_against_the_order_of_the_log() {
    bad(
        "send c1 k1=b1 T/0 10..20 at 0
         send c1 k2=b2 T/0 21..30 at 1
         holds n0 T/0 0..2 0:k1=b1@200 1:k2=b2@100",
        Rule::Dense,
        &["k1", "k2", "200 and 100"],
        &[],
    );
}

#[test]
fn an_end_that_no_message_has() {
    bad_where("n0 T/0 0..2", "n0 T/0 0..3", Rule::Dense, &["T/0 ends at 3"], &[Rule::OneMessage]);
}

#[test]
fn the_end_of_a_queue_goes_back() {
    bad_with(
        "range c9 T/0 30..31 0..2
         range c9 T/0 32..33 0..1",
        Rule::Dense,
        &["c9", "ends at 2", "at 1 at 32..33"],
        &[],
    );
}

#[test]
fn the_beginning_of_a_queue_goes_back() {
    bad_with(
        "range c9 T/0 30..31 1..2
         range c9 T/0 32..33 0..2",
        Rule::Dense,
        &["c9", "begins at 1", "at 0 at 32..33"],
        &[],
    );
}

#[test]
fn a_queue_that_begins_behind_its_end() {
    bad_with("range c9 T/0 30..31 7..2", Rule::Dense, &["begins at 7 and ends at 2"], &[]);
}

#[test]
fn two_messages_of_a_sender_in_the_wrong_order() {
    bad(
        "send c1 k1=b1 T/0 10..20 at 1
         send c1 k2=b2 T/0 21..30 at 0
         holds n0 T/0 0..2 0:k2=b2@100 1:k1=b1@200",
        Rule::InOrder,
        &["k1 of c1", "k2 of c1", "T/0@0"],
        &[],
    );
}

#[test]
fn a_later_message_of_another_sender_lies_before() {
    bad(
        "send c1 k1=b1 T/0 10..20 at 1
         send c2 k2=b2 T/0 25..30 at 0
         holds n0 T/0 0..2 0:k2=b2@100 1:k1=b1@200",
        Rule::InOrder,
        &["k1 of c1", "k2 of c2"],
        &[],
    );
}

#[test]
fn a_copy_without_an_answer_lies_before_it_was_sent() {
    bad(
        "send c1 k1=b1 T/0 10..20 at 1
         send c1 k2=b2 T/0 25..30 unknown
         holds n0 T/0 0..2 0:k2=b2@100 1:k1=b1@200",
        Rule::InOrder,
        &["k1 of c1", "k2 of c1", "T/0@0"],
        &[],
    );
}

#[test]
fn two_acknowledgements_at_one_offset() {
    bad(
        "send c1 k1=b1 T/0 10..20 at 0
         send c1 k2=b2 T/0 21..30 at 0
         holds n0 T/0 0..1 0:k1=b1@100",
        Rule::InOrder,
        &["k1", "k2", "T/0@0"],
        &[Rule::OneMessage],
    );
}

#[test]
fn progress_falls_back() {
    bad_with(
        "commit g T/0 40..41 1 ok
         commit g T/0 42..43 2 ok
         progress c9 g T/0 44..45 1",
        Rule::Progress,
        &["g is at 1 in T/0", "2 was acknowledged at 42..43"],
        &[],
    );
}

#[test]
fn progress_is_forgotten_on_a_node() {
    bad_with(
        "commit g T/0 40..41 1 ok
         progress n2 g T/0 44..45 -",
        Rule::Progress,
        &["n2", "g is at none"],
        &[],
    );
}

#[test]
fn progress_that_nobody_made() {
    bad_with(
        "commit g T/0 40..41 1 ok
         progress c9 g T/0 44..45 2
         commit g T/0 46..47 2 ok",
        Rule::Progress,
        &["g is at 2", "nobody"],
        &[],
    );
}

#[test]
fn a_commit_after_a_reset_is_forgotten() {
    bad_with(
        "commit g T/0 40..41 2 ok
         reset g T/0 42..43 0 ok
         commit g T/0 44..45 1 ok
         progress c9 g T/0 46..47 0",
        Rule::Progress,
        &["g is at 0", "1 was acknowledged at 44..45"],
        &[],
    );
}

#[test]
fn a_message_was_shown_and_is_gone() {
    bad_with(
        "send c2 k3=b3 T/0 31..35 unknown
         seen c9 T/0 36..37 2:k3=b3@300",
        Rule::Committed,
        &["k3", "T/0@2 of c9 at 36..37", "n0 ends T/0 at 2"],
        &[],
    );
}

#[test]
fn a_queue_was_shown_that_nobody_has() {
    bad_with(
        "send c2 k3=b3 U/7 31..35 unknown
         seen c9 U/7 36..37 0:k3=b3",
        Rule::Committed,
        &["k3", "n1 has no such queue"],
        &[],
    );
}

#[test]
fn one_attempt_is_stored_twice() {
    let twice = SOUND.replace("0..2", "0..3").replace("1:k2=b2@200", "1:k2=b2@200 2:k2=b2@300");
    bad(&twice, Rule::Duplicates, &["n0 has k2 2 times (T/0@1, T/0@2)", "1 attempts"], &[]);
}

/// A delayed message on all three nodes; its offset was not known when it was acknowledged.
const DELAYED: &str = "
    send c1 k1=b1 T/0 10..20 later
    holds n0 T/0 0..1 0:k1=b1@100
    holds n1 T/0 0..1 0:k1=b1@100
    holds n2 T/0 0..1 0:k1=b1@100";

#[test]
fn a_delayed_message_comes_once_to_each_node() {
    good(DELAYED);
}

#[test]
fn a_delayed_message_never_came() {
    let text = DELAYED.replace("n1 T/0 0..1 0:k1=b1@100", "n1 T/0 0..0");
    bad(&text, Rule::AtLeastOnce, &["k1", "T/0 later", "n1 has none"], &[Rule::OneMessage]);
}

#[test]
fn a_delayed_message_came_to_another_queue() {
    let text = DELAYED.replace("n0 T/0 ", "n0 T/1 ").replace("n1 T/0 ", "n1 T/1 ");
    bad(
        &text.replace("n2 T/0 ", "n2 T/1 "),
        Rule::AtLeastOnce,
        &["k1", "n0 has none"],
        &[Rule::NoPhantom],
    );
}

#[test]
fn a_delayed_message_came_again_after_a_switch() {
    let twice = DELAYED.replace("0..1 0:k1=b1@100", "0..2 0:k1=b1@100 1:k1=b1@200");
    bad(&twice, Rule::Duplicates, &["n0 has k1 2 times", "1 attempts"], &[]);
}

#[test]
fn a_refused_repeat_is_stored_all_the_same() {
    let twice = SOUND.replace("0..2", "0..3").replace("1:k2=b2@200", "1:k2=b2@200 2:k2=b2@300");
    let text = format!("{twice}\nsend c1 k2=b2 T/0 18..20 refused");
    bad(&text, Rule::Duplicates, &["k2", "2 times"], &[]);
}

#[test]
fn many_violations_are_counted_and_some_are_told() {
    let sends: String = (0..1000)
        .map(|n| format!("send c1 k{n}=b T/0 {}..{} at {n}\n", n * 2, n * 2 + 1))
        .collect();
    let findings = of(&format!("{sends}holds n0 T/0 0..0"));
    assert_eq!(findings.rules().collect::<Vec<_>>(), [Rule::AtLeastOnce]);
    assert_eq!(findings.violations.len(), 20);
    assert!(findings.to_string().starts_with("B-1: 1000 violations\n"), "{findings}");
}
