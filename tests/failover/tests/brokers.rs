//! Three brokers whose master is killed, stopped, paused and cut off under load: what was
//! acknowledged is held by all of them at its offset, all of them have the same tables, and the
//! clients go on.
//!
//! `LEDGERMQ_FAILOVER_ROUNDS` sets the number of kills of the long run.

#![expect(clippy::print_stdout, reason = "figures of a run")]

#[path = "brokers/transactions.rs"]
mod transactions;

use anyhow::{Context, Result, ensure};
use crash::loop_disk;
use failover::{
    brokers::Product,
    failovers::{Plan, run, two_groups},
    faults::Fault,
    foreign::Language,
    network,
    traffic::Habits,
};
use interop::{folder::scenario, toolchain};

fn under(name: &str, habits: Habits, faults: &[Fault]) -> Result<()> {
    // Apache's name server is not in the network that is cut.
    let cuts = faults.iter().any(|fault| fault.cuts());
    let apache_name_server = !cuts && toolchain::java()?;
    let plan = Plan { product: Product::Ours, apache_name_server, habits, faults: faults.to_vec() };
    scenario(name, |folder| {
        let outcomes = run(&plan, folder)?;
        println!("{outcomes}");
        outcomes.hold()
    })
}

/// With an official client for a sender.
fn by(language: Language) -> Habits {
    Habits { client: Some(language), ..Habits::default() }
}

#[test]
#[ignore = "starts processes: cargo xtask ci --only failover"]
fn short_three_kills_and_a_stop() -> Result<()> {
    let faults = [Fault::KillMaster, Fault::StopMaster, Fault::KillMaster, Fault::KillMaster];
    under("failover-kills", Habits::default(), &faults)
}

#[test]
#[ignore = "starts processes: cargo xtask ci --only failover"]
fn short_a_master_that_is_cut_off() -> Result<()> {
    network::within("short_a_master_that_is_cut_off", || {
        under("failover-cut", Habits::default(), &[Fault::CutOffMaster, Fault::Ring])
    })
}

#[test]
#[ignore = "starts processes: cargo xtask ci --only failover"]
fn short_a_kill_under_the_java_client() -> Result<()> {
    if !toolchain::java()? {
        return Ok(());
    }
    under("failover-java", by(Language::Java), &[Fault::KillMasterAndRestart])
}

#[test]
#[ignore = "takes minutes: cargo xtask ci --long --only failover-rounds"]
fn long_rounds_of_each_fault() -> Result<()> {
    let kills = match std::env::var("LEDGERMQ_FAILOVER_ROUNDS") {
        Ok(text) => {
            text.parse().with_context(|| format!("LEDGERMQ_FAILOVER_ROUNDS is '{text}'"))?
        }
        Err(_) => 30,
    };
    ensure!(kills > 0, "no kill shows nothing");
    let mut faults = vec![Fault::KillMaster; kills];
    faults.extend(Fault::OTHERS.iter().flat_map(|fault| [*fault; 5]));
    under("failover-rounds", Habits::default(), &faults)
}

#[test]
#[ignore = "takes minutes: cargo xtask ci --long --only failover-rounds"]
fn long_rounds_of_the_java_client() -> Result<()> {
    if !toolchain::java()? {
        return Ok(());
    }
    under("failover-java-rounds", by(Language::Java), &[Fault::KillMasterAndRestart; 10])
}

#[test]
#[ignore = "takes minutes: cargo xtask ci --long --only failover-rounds"]
fn long_rounds_of_the_go_client() -> Result<()> {
    if !toolchain::go()? {
        return Ok(());
    }
    under("failover-go-rounds", by(Language::Go), &[Fault::KillMasterAndRestart; 5])
}

#[test]
#[ignore = "takes minutes: cargo xtask ci --long --only failover-rounds"]
fn long_partitions() -> Result<()> {
    network::within("long_partitions", || {
        under("failover-partitions", Habits::default(), &Fault::CUTS.repeat(3))
    })
}

#[test]
#[ignore = "takes minutes: cargo xtask ci --long --only failover-rounds"]
fn long_disks_that_hang() -> Result<()> {
    if !loop_disk::can_mount()? {
        return Ok(());
    }
    under("failover-hanging-disks", Habits::default(), &[Fault::HangDisk; 3])
}

#[test]
#[ignore = "takes minutes: cargo xtask ci --long --only failover-rounds"]
fn long_two_groups_of_one_cluster() -> Result<()> {
    scenario("failover-two-groups", |folder| {
        for outcomes in two_groups(2, folder)? {
            println!("{outcomes}");
            outcomes.hold()?;
        }
        Ok(())
    })
}
