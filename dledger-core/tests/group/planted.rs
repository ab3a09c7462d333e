//! Each planted fault is seen: by the conversation that shows the rule it breaks, or by a storm. What
//! finds nothing in the product can find something.

use std::panic::catch_unwind;

use dledger_core::{Bug, Planted};

use crate::{elections, harness::PLANTED, replication, storm::storm_of};

fn is_seen(bug: Bug, by: fn()) -> bool {
    PLANTED.set(Planted::only(bug));
    let seen = catch_unwind(by).is_err();
    PLANTED.set(Planted::default());
    seen
}

#[test]
fn every_planted_fault_is_seen() {
    let table: [(Bug, fn()); 16] = [
        (Bug::P1, elections::a_vote_is_told_when_it_is_durable_and_given_once),
        (Bug::P2, elections::a_vote_is_told_when_it_is_durable_and_given_once),
        (
            Bug::P3,
            replication::an_entry_of_an_older_term_is_committed_only_with_one_of_the_leaders_own,
        ),
        (Bug::P4, replication::a_follower_commits_no_more_than_it_has_in_common_with_its_leader),
        (Bug::P5, || storm_of(1)),
        (Bug::P6, elections::a_lagging_member_with_a_large_term_never_leads_and_nobody_cuts_for_it),
        (Bug::P7, replication::a_cut_that_comes_late_cuts_nothing),
        (Bug::P8, replication::an_acknowledgement_of_an_older_term_does_not_count),
        (Bug::P9, || storm_of(8)),
        (Bug::P10, elections::votes_are_answered_as_the_table_says),
        (Bug::P19, replication::an_entry_is_committed_by_the_flushes_of_a_majority),
        (Bug::P20, elections::the_vote_of_a_wiped_member_does_not_count_for_a_log),
        (Bug::P30, elections::a_leader_whose_disk_hangs_steps_down_within_an_election_timeout),
        (Bug::P31, elections::a_member_that_comes_back_behind_a_java_leader_keeps_its_term),
        (Bug::P32, replication::an_entry_that_is_not_durable_is_not_told_to_a_java_leader_as_equal),
        (Bug::P33, replication::what_a_java_leader_pushed_before_it_compares_is_not_answered),
    ];
    for (bug, by) in table {
        assert!(!is_seen_without(by), "{bug:?}: what should see it fails without it");
        assert!(is_seen(bug, by), "{bug:?} is not seen");
    }
}

fn is_seen_without(by: fn()) -> bool {
    catch_unwind(by).is_err()
}
