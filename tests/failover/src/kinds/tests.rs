//! Hand-made ledgers: each bad one must be found out by its rule, with a text that names the message;
//! the good ones must pass.

use super::{Findings, Ledger, Rule, check, missing};

fn of(text: &str) -> Findings {
    check(&Ledger::parse(text).unwrap())
}

#[track_caller]
fn good(text: &str) {
    let findings = of(text);
    assert!(findings.is_empty(), "{text}\n{findings}");
}

/// The ledger breaks this rule alone, by this message.
#[track_caller]
fn bad(text: &str, rule: Rule, words: &[&str]) {
    let findings = of(text);
    let named = |text: &str| words.iter().all(|word| text.contains(word));
    assert!(
        findings.violations.iter().any(|one| one.rule == rule && named(&one.text)),
        "{rule} by {words:?} in {text}\n{findings}"
    );
    assert!(findings.violations.iter().all(|one| one.rule == rule), "{text}\n{findings}");
}

#[test]
fn what_was_acknowledged_and_came_is_sound() {
    good("");
    good(
        "sent plain.0.1 once 10..20 unknown
         sent plain.0.1 once 21..30 ok
         sent plain.0.2 once 31..40 refused
         got plain.0.1 25..26 A T/0@0:100 0 10 took whole
         got plain.0.1 35..36 A T/0@1:200 0 21 took whole",
    );
}

#[test]
fn what_was_acknowledged_and_did_not_come_is_lost() {
    bad("sent plain.0.1 once 10..20 ok", Rule::AtLeastOnce, &["plain.0.1"]);
    bad("sent orderly.0.1 once 10..20 ok", Rule::AtLeastOnce, &["orderly.0.1"]);
    bad("sent delay.0.1 after:10 10..20 ok", Rule::Delays, &["delay.0.1"]);
    bad("sent timer.0.1 at:10 10..20 ok", Rule::Delays, &["timer.0.1"]);
    bad("sent pop.0.1 once 10..20 ok", Rule::Pops, &["pop.0.1"]);
    bad("sent grpc.0.1 once 10..20 ok", Rule::Pops, &["grpc.0.1"]);
    bad("sent retry.0.1 once 10..20 ok", Rule::Retries, &["retry.0.1"]);
    bad("sent transaction.0.1 commit 10..20 ok", Rule::Transactions, &["transaction.0.1"]);
    bad("sent transaction.0.1 check-commit 10..20 ok", Rule::Transactions, &["transaction.0.1"]);
    // It was refused, and did not come again.
    bad(
        "sent pop.0.1 refuse:1 10..20 ok
         got pop.0.1 25..26 A T/0@0:100 0 10 refused whole",
        Rule::Pops,
        &["pop.0.1", "did not come"],
    );
    let ledger = Ledger::parse("sent plain.0.1 once 10..20 ok").unwrap();
    assert_eq!(missing(&ledger).len(), 1);
}

#[test]
fn what_was_not_sent_or_is_spoilt_is_found() {
    let phantom = "got plain.0.1 25..26 A T/0@0:100 0 10 took whole";
    bad(phantom, Rule::NoPhantom, &["plain.0.1"]);
    bad(&format!("sent plain.0.1 once 10..20 refused\n{phantom}"), Rule::NoPhantom, &["plain.0.1"]);
    bad(
        "sent plain.0.1 once 10..20 ok
         got plain.0.1 25..26 A T/0@0:100 0 10 took spoilt",
        Rule::EqualBytes,
        &["plain.0.1"],
    );
}

#[test]
fn copies_have_a_bound() {
    let twice = "got K 25..26 A T/0@0:100 0 10 took whole
                 got K 35..36 A T/0@1:200 0 10 took whole";
    for (key, fate, rule) in [
        ("plain.0.1", "once", Rule::Duplicates),
        ("transaction.0.1", "commit", Rule::Transactions),
        ("delay.0.1", "after:5", Rule::Delays),
        ("timer.0.1", "at:5", Rule::Delays),
    ] {
        let twice = twice.replace('K', key);
        bad(&format!("sent {key} {fate} 10..20 ok\n{twice}"), rule, &[key, "2 times"]);
        good(&format!("sent {key} {fate} 1..9 unknown\nsent {key} {fate} 10..20 ok\n{twice}"));
    }
}

#[test]
fn what_was_consumed_long_ago_does_not_come_again() {
    let text = |again: u64, trouble: &str| {
        format!(
            "sent plain.0.1 once 10..20 ok
             got plain.0.1 25..26 A T/0@0:100 0 10 took whole
             got plain.0.1 {again}..{again} B T/0@0:100 0 10 took whole
             {trouble}"
        )
    };
    good(&text(14_000, ""));
    bad(&text(16_000, ""), Rule::Duplicates, &["plain.0.1"]);
    good(&text(26_000, "trouble 2000..18000"));
    bad(&text(36_000, "trouble 2000..18000"), Rule::Duplicates, &["plain.0.1"]);
}

#[test]
fn what_is_rolled_back_never_comes() {
    for fate in ["rollback", "check-rollback"] {
        good(&format!("sent transaction.0.1 {fate} 10..20 ok"));
        bad(
            &format!(
                "sent transaction.0.1 {fate} 10..20 ok
                 got transaction.0.1 25..26 A T/0@0:100 0 10 took whole"
            ),
            Rule::Transactions,
            &["transaction.0.1", "rolled back"],
        );
    }
}

#[test]
fn nothing_comes_more_than_a_second_early() {
    let came = |fate: &str, at: u64| {
        format!(
            "sent timer.0.1 {fate} 990..1020 ok
             got timer.0.1 {at}..{at} A T/0@0:100 0 1000 took whole"
        )
    };
    for fate in ["after:5000", "at:6000"] {
        good(&came(fate, 5_000));
        good(&came(fate, 60_000));
        bad(&came(fate, 4_999), Rule::Delays, &["timer.0.1", "1001 ms before"]);
    }
}

/// One queue, in which number 2 is refused once.
const IN_ORDER: &str = "
    sent orderly.0.1 once 10..11 ok
    sent orderly.0.2 refuse:1 12..13 ok
    sent orderly.0.3 once 14..15 ok
    got orderly.0.1 20..21 A T/0@0:100 0 10 took whole
    got orderly.0.2 22..23 A T/0@1:200 0 10 refused whole
    got orderly.0.2 24..25 A T/0@1:200 1 10 took whole
    got orderly.0.3 26..27 A T/0@2:300 0 10 took whole";

#[test]
fn a_queue_may_go_back_and_never_leaves_out() {
    good(IN_ORDER);
    // Another consumer has it from where the first one committed.
    good(&format!(
        "{IN_ORDER}
         got orderly.0.2 30..31 B T/0@1:200 0 10 refused whole
         got orderly.0.2 32..33 B T/0@1:200 1 10 took whole
         got orderly.0.3 34..35 B T/0@2:300 0 10 took whole"
    ));
    let without = |line: &str| {
        assert!(IN_ORDER.contains(line), "{line}");
        IN_ORDER.replace(line, "")
    };
    // The refused one is passed over, and comes later.
    bad(
        &format!(
            "{}\ngot orderly.0.2 30..31 A T/0@1:200 1 10 took whole",
            without("got orderly.0.2 24..25 A T/0@1:200 1 10 took whole")
        ),
        Rule::InOrder,
        &["orderly.0.3", "before what is at 1"],
    );
    // The first one comes last.
    bad(
        &format!(
            "{}\ngot orderly.0.1 30..31 A T/0@0:100 0 10 took whole",
            without("got orderly.0.1 20..21 A T/0@0:100 0 10 took whole")
        ),
        Rule::InOrder,
        &["orderly.0.2", "before what is at 0"],
    );
}

#[test]
fn a_queue_is_one_consumers_at_a_time() {
    bad(
        &format!("{IN_ORDER}\ngot orderly.0.3 26..29 B T/0@2:300 0 10 took whole"),
        Rule::InOrder,
        &["orderly.0.3", "at the same time"],
    );
}

#[test]
fn a_sender_s_messages_lie_in_its_order() {
    bad(
        "sent orderly.0.1 once 10..11 ok
         sent orderly.0.2 once 12..13 ok
         got orderly.0.2 20..21 A T/0@0:100 0 10 took whole
         got orderly.0.1 22..23 A T/0@1:200 0 10 took whole",
        Rule::InOrder,
        &["orderly.0.2", "before number 1"],
    );
    // Of one whose first attempt had no answer the first copy counts; another sender's do not matter.
    good(
        "sent orderly.0.1 once 10..11 unknown
         sent orderly.0.1 once 12..13 ok
         sent orderly.0.2 once 14..15 ok
         sent orderly.1.1 once 10..11 ok
         got orderly.1.1 18..19 A T/0@0:50 0 10 took whole
         got orderly.0.1 20..21 A T/0@1:100 0 10 took whole
         got orderly.0.2 22..23 A T/0@2:200 0 10 took whole
         got orderly.0.1 24..25 A T/0@3:300 0 10 took whole",
    );
}

/// A message that is refused until it is a dead letter.
const DEAD: &str = "
    sent retry.0.1 dead 10..11 ok
    got retry.0.1 20..21 A T/0@0:100 0 10 refused whole
    got retry.0.1 1020..1021 A %RETRY%g/0@0:200 1 10 refused whole
    got retry.0.1 2020..2021 B %RETRY%g/0@1:300 2 10 refused whole
    got retry.0.1 3020..3021 A %RETRY%g/0@2:400 3 10 refused whole
    got retry.0.1 3030..3031 A %DLQ%g/0@0:500 3 10 took whole";

#[test]
fn what_is_refused_is_tried_and_given_up_once() {
    good(DEAD);
    let last = "got retry.0.1 3030..3031 A %DLQ%g/0@0:500 3 10 took whole";
    bad(&DEAD.replace(last, ""), Rule::Retries, &["retry.0.1", "did not come"]);
    let again = last.replace("@0:500", "@1:600");
    bad(&format!("{DEAD}\n{again}"), Rule::Retries, &["retry.0.1", "5 times"]);
    // A client whose return was not answered makes a copy.
    good(&format!("{DEAD}\n{again}\ntrouble 3000..4000"));
    let third = "got retry.0.1 3020..3021 A %RETRY%g/0@2:400 3 10 refused whole";
    bad(&DEAD.replace(third, ""), Rule::Retries, &["retry.0.1", "try 3"]);
    let second = "got retry.0.1 2020..2021 B %RETRY%g/0@1:300 2 10 refused whole";
    bad(&DEAD.replace(second, ""), Rule::Retries, &["retry.0.1", "try 2"]);
}

/// A message in order that is refused until it is a dead letter, and the one behind it.
const DEAD_IN_ORDER: &str = "
    sent orderly.0.1 dead 10..11 ok
    sent orderly.0.2 once 12..13 ok
    got orderly.0.1 20..21 A T/0@0:100 0 10 refused whole
    got orderly.0.1 320..321 A T/0@0:100 1 10 refused whole
    got orderly.0.1 620..621 A T/0@0:100 2 10 refused whole
    got orderly.0.1 920..921 A T/0@0:100 3 10 refused whole
    got orderly.0.2 930..931 A T/0@1:200 0 10 took whole
    got orderly.0.1 940..941 A %DLQ%g/0@0:500 3 10 took whole";

#[test]
fn what_is_refused_in_order_is_given_up_once_and_only_then_the_next_one_comes() {
    good(DEAD_IN_ORDER);
    let letter = "got orderly.0.1 940..941 A %DLQ%g/0@0:500 3 10 took whole";
    bad(&DEAD_IN_ORDER.replace(letter, ""), Rule::AtLeastOnce, &["orderly.0.1", "did not come"]);
    let again = letter.replace("@0:500", "@1:600");
    bad(&format!("{DEAD_IN_ORDER}\n{again}"), Rule::Retries, &["orderly.0.1", "2 times, 1 may be"]);
    good(&format!("{DEAD_IN_ORDER}\n{again}\ntrouble 900..4000"));
    // The next one comes while it is still to be tried.
    let last = "got orderly.0.1 920..921 A T/0@0:100 3 10 refused whole";
    let without = DEAD_IN_ORDER.replace(last, "").replace(letter, "");
    let findings = of(&without);
    let broken = |rule| findings.violations.iter().any(|one| one.rule == rule);
    assert!(broken(Rule::InOrder) && broken(Rule::AtLeastOnce), "{findings}");
    // A new holder of the queue counts from the beginning.
    let moved = "got orderly.0.1 320..321 B T/0@0:100 0 10 refused whole
        got orderly.0.1 340..341 B T/0@0:100 1 10 refused whole";
    let first = "got orderly.0.1 320..321 A T/0@0:100 1 10 refused whole";
    good(&DEAD_IN_ORDER.replace(first, moved));
}

#[test]
fn what_was_popped_and_acknowledged_does_not_come_again() {
    let text = |more: &str| {
        format!(
            "sent pop.0.1 once 10..20 ok
             got pop.0.1 25..26 A T/0@0:100 0 10 took whole
             {more}"
        )
    };
    let again = "got pop.0.1 10030..10031 B %RETRY%g_T/0@0:200 1 10 took whole";
    good(&text(""));
    bad(&text(again), Rule::Pops, &["pop.0.1", "after it was acknowledged at 26"]);
    // The acknowledgement may have been lost.
    good(&text(&format!("{again}\ntrouble 100..4000")));
    // That of the second time was not.
    bad(
        &text(&format!(
            "{again}\ngot pop.0.1 20030..20031 B %RETRY%g_T/0@1:300 2 10 took whole\ntrouble 100..4000"
        )),
        Rule::Pops,
        &["pop.0.1", "at 10031"],
    );
    good(&text(&format!("{again}\nsent pop.0.1 once 5..9 unknown")));
    good(
        "sent pop.0.1 refuse:1 10..20 ok
         got pop.0.1 25..26 A T/0@0:100 0 10 refused whole
         got pop.0.1 10025..10026 A %RETRY%g_T/0@0:200 1 10 took whole",
    );
}

#[test]
fn a_confirmed_acknowledgement_holds_in_trouble_too() {
    let text = |more: &str| {
        format!(
            "trouble 5000..9000
             sent grpc.0.1 once 10..20 ok
             got grpc.0.1 5025..5026 A grpc/0@0:0 1 10 took whole
             {more}"
        )
    };
    let again = "got grpc.0.1 20030..20031 A grpc/0@0:0 2 10 took whole";
    good(&text(&format!("acked grpc.0.1 5026..5040 unknown\n{again}")));
    bad(
        &text(&format!("acked grpc.0.1 5026..5040 ok\n{again}")),
        Rule::Pops,
        &["grpc.0.1", "at 5040"],
    );
    // The client repeats sends by itself, and tells nothing of it.
    good(&text(&format!("acked grpc.0.1 5026..5040 ok\n{again}")).replace("10..20", "6000..6020"));
}

#[test]
fn what_is_left_alone_comes_again_after_its_time() {
    let text = |again: u64| {
        format!(
            "sent grpc.0.1 leave:15000 10..20 ok
             got grpc.0.1 25..26 A grpc/0@0:0 1 10 refused whole
             got grpc.0.1 {again}..{again} A grpc/0@0:0 2 10 took whole
             acked grpc.0.1 {again}..{again} ok"
        )
    };
    good(&text(15_030));
    bad(&text(5_030), Rule::Pops, &["grpc.0.1", "5005 ms of 15000"]);
}

#[test]
fn a_line_that_is_no_event_is_named() {
    for line in [
        "sent plain.0 once 10..20 ok",
        "sent plane.0.1 once 10..20 ok",
        "sent plain.0.1 twice 10..20 ok",
        "sent plain.0.1 once 10..20 perhaps",
        "sent timer.0.1 after: 10..20 ok",
        "got plain.0.1 25..26 A T/0@0 0 10 took whole",
        "got plain.0.1 25..26 A T/0@0:100 0 10 took half",
        "acked grpc.0.1 10..20 no",
        "trouble 10",
        "rea",
    ] {
        let error = Ledger::parse(line).unwrap_err();
        assert!(error.to_string().contains(line), "{error}");
    }
    assert!(Ledger::parse("ready\nended").unwrap().ended);
}
