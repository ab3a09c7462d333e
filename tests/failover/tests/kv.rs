//! The key-value servers under kill -9, SIGSTOP and restarts: nothing acknowledged is lost, and what
//! clients saw is linearizable.
//!
//! `LEDGERMQ_KV_ROUNDS` sets the number of rounds of three members, `LEDGERMQ_KV` names the program
//! where it is not to be built.

#![expect(clippy::print_stdout, reason = "figures of a run")]

use anyhow::{Context, Result, ensure};
use failover::{
    cluster::{Ask, Cluster},
    linearizable::Verdict,
    load::Reads,
    rounds::{Fault, Plan, run},
};
use interop::folder::scenario;

fn rounds(default: usize) -> Result<usize> {
    match std::env::var("LEDGERMQ_KV_ROUNDS") {
        Ok(text) => text.parse().with_context(|| format!("LEDGERMQ_KV_ROUNDS is '{text}'")),
        Err(_) => Ok(default),
    }
}

fn under(name: &str, size: usize, faults: &[Fault], rounds: usize) -> Result<()> {
    let faults = faults.iter().copied().cycle().take(rounds).collect();
    let plan = Plan { size, clients: 5, reads: Reads::Linearizable, faults };
    scenario(name, |folder| {
        let findings = run(&plan, folder)?;
        println!("{size} members, {rounds} rounds: {findings}");
        ensure!(findings.verdict == Verdict::Linearizable, "{}", findings.verdict);
        ensure!(findings.kept > 0, "no change was acknowledged: nothing was shown");
        Ok(())
    })
}

#[test]
#[ignore = "starts processes: cargo xtask ci --only kv"]
fn one_member() -> Result<()> {
    under("kv-one", 1, &[Fault::KillLeader, Fault::PauseLeader], 2)
}

#[test]
#[ignore = "starts processes: cargo xtask ci --only kv"]
fn three_members() -> Result<()> {
    under("kv-three", 3, &Fault::ALL, rounds(3)?)
}

#[test]
#[ignore = "takes minutes: cargo xtask ci --long --only kv-long"]
fn thirty_rounds() -> Result<()> {
    under("kv-thirty", 3, &Fault::ALL, rounds(30)?)
}

/// The clients read whatever a member has: if the checker did not see that, it would see nothing.
#[test]
#[ignore = "starts processes: cargo xtask ci --only kv"]
fn old_values_of_members_are_found_out() -> Result<()> {
    let faults = vec![Fault::PauseFollower];
    let plan = Plan { size: 3, clients: 5, reads: Reads::Local, faults };
    scenario("kv-local", |folder| {
        let findings = run(&plan, folder)?;
        let found = matches!(findings.verdict, Verdict::Wrong(_));
        ensure!(found, "reads without a majority: {}", findings.verdict);
        Ok(())
    })
}

#[test]
#[ignore = "starts processes: cargo xtask ci --only kv"]
fn a_repeat_at_another_member_is_applied_once() -> Result<()> {
    scenario("kv-repeat", |folder| {
        let mut cluster = Cluster::start(3, folder)?;
        let leader = cluster.leader(None)?;
        cluster.whole()?;
        let put = Ask { method: "PUT", key: "colour", id: "first", body: "blue" };
        ensure!(cluster.ask(leader, put)?.status == 200);
        let put = Ask { id: "second", body: "green", ..put };
        ensure!(cluster.ask(leader, put)?.status == 200);

        let follower = (leader + 1) % 3;
        let told = cluster.ask(follower, put)?;
        let place = format!("http://{}/kv/colour", cluster.addresses()[leader]);
        ensure!((told.status, told.location.as_ref()) == (307, Some(&place)), "{told:?}");

        cluster.kill(leader)?;
        let next = cluster.leader(Some(leader))?;
        // The client of the first change has had no answer, it thinks, and asks again.
        let put = Ask { id: "first", body: "blue", ..put };
        ensure!(cluster.ask(next, put)?.status == 200);
        let told = cluster.ask(next, Ask { method: "GET", id: "get", body: "", ..put })?;
        ensure!((told.status, told.body.as_str()) == (200, "green"), "{told:?}");
        Ok(())
    })
}
