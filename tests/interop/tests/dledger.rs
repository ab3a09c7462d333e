//! Goal: a DLedger group keeps what it acknowledged while its members are killed, halted and
//! started again, and a node of ours is a member like any other in a group of Java brokers.
//! Method: real processes on loopback. Bodies that were acknowledged are read back; the data files
//! of all members are compared entry by entry by a parser of the tests' own.
#![expect(clippy::print_stdout, reason = "tests report on standard output")]

use std::{
    env,
    fs::File,
    io::Write,
    net::Ipv4Addr,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use interop::{
    APACHE, APACHE_STORE,
    answers::LossyAnswers,
    appender::AppendLedger,
    folder,
    group::{Group, Runs},
    ledger::{Ledger, LookUp},
    log_files,
    node::{NameServer, Product},
    process::wait_until,
    records, toolchain,
};
use serde_json::Value;

/// Bytes of a data file: small, so that runs go over the ends of files.
const FILE_SIZE: u32 = 1 << 20;
/// Time within which a group goes on after a fault. Two JVMs that start at once on a loaded machine
/// take a minute of it.
const HEALED: Duration = Duration::from_secs(150);

/// Rounds of faults: 3, or as many as the variable says.
fn rounds() -> Result<u32> {
    match env::var("LEDGERMQ_DLEDGER_ROUNDS") {
        Ok(text) => text.parse().context("LEDGERMQ_DLEDGER_ROUNDS is no number"),
        Err(_) => Ok(3),
    }
}

/// Compares the data files of all members, which must not run.
fn compare(group: &Group, least: usize) -> Result<()> {
    let ids = group.ids();
    let mut logs = Vec::new();
    for id in &ids {
        logs.push((id.as_str(), log_files::entries(&group.data(id)?)?));
    }
    let common = log_files::compare(&logs)?;
    ensure!(common >= least, "only {common} entries are in all logs, {least} were expected");
    println!("{common} entries are the same in all logs");
    Ok(())
}

#[derive(Debug, Clone, Copy)]
enum Fault {
    KillLeader,
    HaltLeader,
    KillFollower,
    HaltFollower,
}

fn harm(group: &mut Group, ledger: &AppendLedger, fault: Fault) -> Result<()> {
    group.wait_whole()?;
    let leader = group.leader()?;
    let ids = group.ids();
    let follower = ids.iter().find(|id| **id != leader).context("a group of several")?.clone();
    let victim = match fault {
        Fault::KillLeader | Fault::HaltLeader => leader,
        Fault::KillFollower | Fault::HaltFollower => follower,
    };
    match fault {
        Fault::KillLeader | Fault::KillFollower => group.kill(&victim)?,
        Fault::HaltLeader | Fault::HaltFollower => group.process(&victim)?.halt()?,
    }
    if matches!(fault, Fault::KillLeader) {
        ledger.struck();
    }
    go_on(ledger).with_context(|| format!("{fault:?}: {victim} is away"))?;
    match fault {
        Fault::KillLeader | Fault::KillFollower => group.start(&victim)?,
        Fault::HaltLeader | Fault::HaltFollower => group.process(&victim)?.go_on()?,
    }
    wait_until(&format!("{victim} is back"), HEALED, || group.members.leader_by(&victim).is_ok())?;
    go_on(ledger).with_context(|| format!("{fault:?}: {victim} is back"))
}

/// Prints how long it took from the kill of a leader to the next acknowledged append.
fn tell_takeovers(ledger: &AppendLedger) {
    let took = ledger.takeovers();
    let at = |percent: usize| {
        let rank = (took.len() * percent).div_ceil(100).max(1);
        took.get(rank - 1).map_or(0, Duration::as_millis)
    };
    println!(
        "from kill of the leader to the next acknowledged append: {} kills, p50 {} ms, p99 {} ms, longest {} ms",
        took.len(),
        at(50),
        at(99),
        at(100)
    );
}

/// Waits for more acknowledged appends.
fn go_on(ledger: &AppendLedger) -> Result<()> {
    let before = ledger.len();
    wait_until("200 more acknowledged appends", HEALED, || ledger.len() >= before + 200)
}

#[test]
#[ignore = "starts servers: cargo xtask ci runs it"]
fn nothing_acknowledged_is_lost_by_kills_and_halts() -> Result<()> {
    kills_and_halts("dledger-rounds", rounds()?)
}

#[test]
#[ignore = "takes long: cargo xtask ci --long runs it"]
fn thirty_rounds_of_kills_and_halts_lose_nothing() -> Result<()> {
    kills_and_halts("dledger-thirty-rounds", 30)
}

fn kills_and_halts(name: &str, rounds: u32) -> Result<()> {
    folder::scenario(name, |folder| {
        let mut group = Group::new(folder, &[Runs::Server; 3], FILE_SIZE, None)?;
        group.start_all()?;
        group.leader()?;
        let ledger = AppendLedger::new(group.members.clone());
        let faults =
            [Fault::KillLeader, Fault::HaltLeader, Fault::KillFollower, Fault::HaltFollower];
        for round in 1..=rounds {
            ledger.under_load(4, || {
                go_on(&ledger)?;
                faults.iter().try_for_each(|fault| harm(&mut group, &ledger, *fault))
            })?;
            group.leader()?;
            ledger.verify().with_context(|| format!("round {round}"))?;
        }
        tell_takeovers(&ledger);
        catch_up(&group)?;
        group.stop_all()?;
        compare(&group, ledger.len())
    })
}

#[test]
#[ignore = "starts servers: cargo xtask ci runs it"]
fn a_group_that_is_killed_at_once_keeps_what_it_acknowledged() -> Result<()> {
    folder::scenario("dledger-all-killed", |folder| {
        let mut group = Group::new(folder, &[Runs::Server; 3], FILE_SIZE, None)?;
        let ledger = AppendLedger::new(group.members.clone());
        for round in 1..=2 {
            group.start_all()?;
            group.leader()?;
            ledger.under_load(4, || go_on(&ledger))?;
            for id in group.ids() {
                group.kill(&id)?;
            }
            group.start_all()?;
            group.leader()?;
            ledger.verify().with_context(|| format!("after kill {round}"))?;
            // A majority has everything; the third may have been started too late for that.
            catch_up(&group)?;
            group.stop_all()?;
        }
        compare(&group, ledger.len())
    })
}

/// Known fault: a follower that the answers of were lost got the same push again and again for hours.
#[test]
#[ignore = "starts servers: cargo xtask ci runs it"]
fn lost_answers_keep_no_follower_from_what_is_acknowledged() -> Result<()> {
    folder::scenario("dledger-lost-answers", |folder| {
        let mut group = Group::new(folder, &[Runs::Server; 3], FILE_SIZE, None)?;
        let way = LossyAnswers::to(group.members.ports["n1"])?;
        let mut seen = group.members.clone();
        seen.ports.insert("n1".to_owned(), way.port);
        group.tell("n0", seen.text(), &[])?;
        group.start_all()?;
        group.leader()?;
        group.wait_whole()?;
        let leader = group.leader()?;
        if leader != "n0" {
            let term = group.members.status(&leader)?["term"].as_i64().context("its term")?;
            group.members.transfer(&leader, "n0", term)?;
        }
        group.wait_leader("n0")?;
        let ledger = AppendLedger::new(group.members.clone());
        ledger.under_load(4, || {
            go_on(&ledger)?;
            way.lose(true);
            // Pushes are repeated, the logs compared again, the connection is given up: no answer.
            wait_until("the leader has not heard of n1 for 5 s", HEALED, || {
                seen_by_leader(&group, "n1")
                    .is_ok_and(|seen| seen["silentMs"].as_u64() > Some(5_000) && way.lost() > 20)
            })?;
            go_on(&ledger).context("by the leader and the third member")?;
            way.lose(false);
            group.kill("n2")?;
            go_on(&ledger).context("by the leader and the member whose answers were lost")
        })?;
        group.wait_leader("n0").context("the leader must have stayed")?;
        let end = group.members.status("n0")?["end"].as_u64().context("the leader has no end")?;
        wait_until("the leader knows that n1 has all", HEALED, || {
            seen_by_leader(&group, "n1").is_ok_and(|seen| seen["match"] == end)
        })?;
        group.start("n2")?;
        catch_up(&group)?;
        ledger.verify()?;
        group.stop_all()?;
        compare(&group, ledger.len())
    })
}

/// What n0, which leads, knows of another member.
fn seen_by_leader(group: &Group, id: &str) -> Result<Value> {
    let status = group.members.status("n0")?;
    let others = status["others"].as_array().context("it knows of no others")?;
    others.iter().find(|other| other["id"] == id).cloned().context("it does not know that one")
}

/// Runs a program with `hosts` as its `/etc/hosts` and without a name server.
fn with_hosts(hosts: &Path, nobody: &Path) -> Vec<String> {
    let mounts = format!(
        "mount --bind {} /etc/hosts && mount --bind {} /etc/resolv.conf && exec \"$0\" \"$@\"",
        hosts.display(),
        nobody.display()
    );
    ["unshare", "--mount", "sh", "-c", &mounts].map(str::to_owned).to_vec()
}

/// Known fault: the name of a member was looked up once, so that a group never came together where
/// a name was published late, and lost a member that got another address.
#[test]
#[ignore = "needs root: cargo xtask ci runs it"]
fn members_whose_names_come_late_and_move_keep_what_they_acknowledged() -> Result<()> {
    if !toolchain::own_names()? {
        return Ok(());
    }
    folder::scenario("dledger-names", |folder| {
        let mut group = Group::new(folder, &[Runs::Server; 3], FILE_SIZE, None)?;
        let (hosts, nobody) = (folder.join("hosts"), folder.join("resolv.conf"));
        let early = "127.0.0.1 localhost ledger-0.svc-a ledger-1.svc-a\n";
        write(&hosts, early)?;
        write(&nobody, "")?;
        let members = group.members.ports.iter();
        let names: Vec<_> = members
            .map(|(id, port)| format!("{id}-ledger-{}.svc-a:{port}", id.trim_start_matches('n')))
            .collect();
        for id in group.ids() {
            group.tell(&id, names.join(";"), &with_hosts(&hosts, &nobody))?;
        }
        for id in ["n0", "n1"] {
            group.start(id)?;
            wait_until("it answers", HEALED, || group.members.status(id).is_ok())?;
        }
        // A new group counts votes only where all agree.
        ensure!(group.members.leader().is_err(), "two of three lead a new group");
        let moved = |group: &mut Group, last: u8| -> Result<()> {
            let host = Ipv4Addr::new(127, 0, 0, last);
            write(&hosts, &format!("{early}{host} ledger-2.svc-a\n"))?;
            group.members.hosts.insert("n2".to_owned(), host);
            group.start("n2")
        };
        moved(&mut group, 2)?;
        group.leader()?;
        group.wait_whole()?;
        let before = AppendLedger::new(group.members.clone());
        before.under_load(4, || go_on(&before))?;
        group.kill("n2")?;
        before.under_load(4, || go_on(&before))?;
        moved(&mut group, 3)?;
        catch_up(&group).context("n2 has another address")?;
        before.verify()?;
        group.stop_all()?;
        compare(&group, before.len())
    })
}

fn write(path: &Path, text: &str) -> Result<()> {
    let mut file = File::create(path).with_context(|| path.display().to_string())?;
    file.write_all(text.as_bytes()).with_context(|| path.display().to_string())
}

/// Waits until all members of ours hold what the leader holds.
fn catch_up(group: &Group) -> Result<()> {
    let leader = group.leader()?;
    let end = group.members.status(&leader)?["end"].as_u64().context("the leader has no end")?;
    group.ids().iter().try_for_each(|id| group.wait_end(id, end))
}

/// Our node n0 with two Java brokers n1 (5.3.3) and n2 (5.5.0).
fn mixed(name: &str, test: impl FnOnce(&Path, &mut Group, &Ledger) -> Result<()>) -> Result<()> {
    if !toolchain::java()? {
        return Ok(());
    }
    folder::scenario(name, |folder| {
        let name_server = NameServer::start(Product::Ours, &folder.join("namesrv"))?;
        let ours = Runs::RecordNode(env!("CARGO_BIN_EXE_record-node"));
        let runs = [ours, Runs::Java(APACHE_STORE), Runs::Java(APACHE)];
        let mut group = Group::new(folder, &runs, FILE_SIZE, Some(name_server))?;
        let ledger = Ledger::new(folder, "mixed")?;
        test(folder, &mut group, &ledger)
    })
}

/// The Java member that leads, and the other one.
fn java_leader(group: &Group) -> Result<(String, String)> {
    let mut found = None;
    wait_until("a Java member leads", HEALED, || {
        found = ["n1", "n2"]
            .into_iter()
            .find(|id| group.members.leader_by(id).is_ok_and(|leader| leader == *id));
        found.is_some()
    })?;
    match found {
        Some("n1") => Ok(("n1".to_owned(), "n2".to_owned())),
        _ => Ok(("n2".to_owned(), "n1".to_owned())),
    }
}

/// Appends `count` records at our node, which leads. It may have to win once more in between: a JVM
/// that starts takes both cores from its followers for seconds.
fn append_records(group: &Group, count: usize) -> Result<u64> {
    let mut last = 0;
    for number in 0..count {
        let body = records::draft(&format!("ours {number}"));
        let begun = Instant::now();
        let mut outcome = group.members.append("n0", &body);
        while outcome.is_err() && begun.elapsed() < HEALED {
            thread::sleep(Duration::from_millis(100));
            outcome = group.members.append("n0", &body);
        }
        last = outcome.with_context(|| format!("record {number}"))?;
    }
    Ok(last)
}

#[test]
#[ignore = "needs a JDK and Maven: cargo xtask ci runs it"]
fn follower_of_java_brokers() -> Result<()> {
    mixed("dledger-java-follower", |_, group, ledger| {
        group.start("n1")?;
        group.start("n2")?;
        java_leader(group)?;
        let name_server = group.name_server()?;
        ledger.produce(&name_server, 500).context("before our node is there")?;
        group.start("n0")?;
        ledger.produce(&name_server, 500).context("with our node")?;
        follow(group)?;
        group.kill("n0")?;
        ledger.produce(&name_server, 500).context("while our node is away")?;
        group.start("n0")?;
        follow(group)?;
        ledger.verify(&name_server, LookUp::Ids)?;
        // A majority has everything; the third member may lag behind it.
        all_have(group, &["n1", "n2"])?;
        group.kill_all()?;
        compare(group, ledger.len()?)
    })
}

/// Waits until our node's log ends where that of the leader does, and its commit index is its end.
fn follow(group: &Group) -> Result<()> {
    wait_until("our node has caught up", HEALED, || follows(group).unwrap_or(false))
}

fn follows(group: &Group) -> Result<bool> {
    let leader = group.members.leader_by("n0")?;
    let status = group.members.status("n0")?;
    let (end, committed) = (status["end"].as_u64(), status["committed"].as_u64());
    let of_leader = if leader == "n0" {
        end
    } else {
        log_files::entries(&group.data(&leader)?)?.into_keys().next_back()
    };
    Ok(end.is_some() && end == committed && end == of_leader)
}

/// Starts a group of three with 100 messages of a Java leader, and kills the other Java member;
/// then 50 more, so that our node must win the next election. Returns the leader and the other.
/// Members are killed, not halted: a halted one would find in its sockets what it missed.
fn our_node_has_most(group: &mut Group, ledger: &Ledger) -> Result<(String, String)> {
    group.start("n1")?;
    group.start("n2")?;
    let name_server = group.name_server()?;
    let (leader, other) = java_leader(group)?;
    // Not before: with the first of the two that is up our node could win the lead.
    group.start("n0")?;
    ledger.produce(&name_server, 100)?;
    follow(group)?;
    group.kill(&other)?;
    ledger.produce(&name_server, 50).context("committed by the leader and our node")?;
    follow(group)?;
    Ok((leader, other))
}

#[test]
#[ignore = "needs a JDK and Maven: cargo xtask ci runs it"]
fn candidate_and_leader_of_java_brokers() -> Result<()> {
    mixed("dledger-java-leader", |_, group, ledger| {
        let (leader, other) = our_node_has_most(group, ledger)?;
        group.kill(&leader)?;
        group.start(&other)?;
        group.wait_leader("n0").context("our node must win: its log is the longest")?;
        append_records(group, 100).context("our node leads one Java broker")?;
        group.start(&leader)?;
        append_records(group, 100).context("our node leads two Java brokers")?;
        follow(group)?;
        all_have(group, &[&leader, &other])?;
        group.kill_all()?;
        compare(group, ledger.len()? + 200)
    })
}

#[test]
#[ignore = "needs a JDK and Maven: cargo xtask ci runs it"]
fn a_tail_that_java_wrote_alone_is_cut() -> Result<()> {
    mixed("dledger-java-tail", |_, group, ledger| {
        let (leader, other) = our_node_has_most(group, ledger)?;
        // The producer is at work before the leader is alone, for that gives up the lead soon.
        let name_server = group.name_server()?;
        let before = ledger.len()?;
        let mut lonely = ledger.start_producing(&name_server, 1_000_000)?;
        wait_until("more acknowledged messages", HEALED, || {
            ledger.len().is_ok_and(|acknowledged| acknowledged > before)
        })?;
        group.kill("n0")?;
        // What the leader writes now is never committed.
        let last = |id: &str| -> Result<Option<u64>> {
            Ok(log_files::entries(&group.data(id)?)?.into_keys().next_back())
        };
        let common = last("n0")?;
        wait_until("the lonely leader writes", HEALED, || {
            last(&leader).is_ok_and(|alone| alone > common)
        })?;
        group.kill(&leader)?;
        lonely.kill()?;
        group.start("n0")?;
        group.start(&other)?;
        group.wait_leader("n0").context("our node must win: its log is the longest")?;
        append_records(group, 50)?;
        group.start(&leader)?;
        append_records(group, 50)?;
        follow(group)?;
        all_have(group, &[&leader, &other])?;
        group.kill_all()?;
        compare(group, 250)
    })
}

#[test]
#[ignore = "needs a JDK and Maven: cargo xtask ci runs it"]
fn a_tail_that_we_wrote_alone_is_cut_by_java() -> Result<()> {
    mixed("dledger-our-tail", |_, group, ledger| {
        let (leader, other) = our_node_has_most(group, ledger)?;
        group.kill(&leader)?;
        group.start(&other)?;
        group.wait_leader("n0")?;
        let committed = append_records(group, 20)?;
        all_have(group, &[&other])?;
        // Our node is alone now: what it writes is never committed.
        group.kill(&other)?;
        let lonely = group.members.append("n0", &records::draft("alone"));
        ensure!(lonely.is_err(), "one member of three acknowledged an append");
        group.kill("n0")?;
        let alone = log_files::entries(&group.data("n0")?)?;
        ensure!(alone.keys().any(|index| *index > committed), "our lonely node wrote nothing");
        group.start(&leader)?;
        group.start(&other)?;
        java_leader(group)?;
        let name_server = group.name_server()?;
        ledger.produce(&name_server, 100)?;
        group.start("n0")?;
        follow(group)?;
        let end = end_of(group)?;
        ensure!(end > committed, "our node has {end}, {committed} was committed before");
        // The key index of a killed Java broker has holes, so only the logs are looked at.
        group.kill_all()?;
        compare(group, ledger.len()? + 20)
    })
}

/// The last entry of our node.
fn end_of(group: &Group) -> Result<u64> {
    group.members.status("n0")?["end"].as_u64().context("our node has no entry")
}

/// Waits until the data files of Java members hold what our node holds.
fn all_have(group: &Group, ids: &[&str]) -> Result<()> {
    let end = end_of(group)?;
    for id in ids {
        let data = group.data(id)?;
        wait_until(&format!("{id} has entry {end}"), HEALED, || {
            log_files::entries(&data).is_ok_and(|entries| entries.contains_key(&end))
        })?;
    }
    Ok(())
}
