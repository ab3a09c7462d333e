//! Every kind of message by official clients while the master is killed: what was acknowledged comes,
//! in order where that is asked for, not before its time, and no more often than the rules allow.
//!
//! `LEDGERMQ_KINDS_KILLS` sets the number of kills.

#![expect(clippy::print_stdout, reason = "figures of a run")]

use anyhow::{Context, Result, ensure};
use failover::kinds::{
    Kind,
    session::{self, GO_KINDS, GRPC_KINDS, KINDS, Outcomes},
};
use interop::{folder::scenario, toolchain};

fn kills() -> Result<usize> {
    let kills = match std::env::var("LEDGERMQ_KINDS_KILLS") {
        Ok(text) => text.parse().with_context(|| format!("LEDGERMQ_KINDS_KILLS is '{text}'"))?,
        Err(_) => 6,
    };
    ensure!(kills > 0, "no kill shows nothing");
    Ok(kills)
}

fn holds(outcomes: &Outcomes, kinds: &[Kind]) -> Result<()> {
    println!("{outcomes}");
    outcomes.hold(kinds)?;
    outcomes.finds_what_is_planted(kinds)
}

#[test]
#[ignore = "takes minutes: cargo xtask ci --long --only kinds"]
fn every_kind_of_the_java_client_outlives_kills_of_the_master() -> Result<()> {
    if !toolchain::java()? {
        return Ok(());
    }
    scenario("kinds", |folder| holds(&session::remoting(kills()?, folder)?, &KINDS))
}

#[test]
#[ignore = "takes minutes: cargo xtask ci --long --only kinds"]
fn grpc_through_apache_s_proxy_outlives_kills_of_the_master() -> Result<()> {
    if !toolchain::java()? {
        return Ok(());
    }
    scenario("kinds-grpc", |folder| holds(&session::grpc(kills()?, folder)?, &GRPC_KINDS))
}

/// Case 101.
#[test]
#[ignore = "takes minutes: cargo xtask ci --long --only kinds"]
fn case_101_queues_in_order_of_the_go_client_go_on_after_each_end_of_the_master() -> Result<()> {
    if !toolchain::go()? {
        return Ok(());
    }
    scenario("kinds-go", |folder| holds(&session::go_in_order(kills()?, folder)?, &GO_KINDS))
}
