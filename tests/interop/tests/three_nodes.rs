//! Goal: what clients and mqadmin can do with one broker they can do with a replicated group.
//! Method: the suites of one broker, case by case the same, against three brokers on one log, of which
//! one is the master. At the end all members must hold the same entries.
//! `LEDGERMQ_INTEROP_TARGET=apache` runs the same against three of Apache's brokers on DLedger.
#![expect(clippy::print_stdout, reason = "tests report on standard output")]

use std::path::Path;

use anyhow::{Context, Result};
use interop::{
    folder,
    mixed::MixedGroup,
    node::{NameServer, Product},
    proxy,
    suite::{Address, Suite},
    toolchain,
};

/// Bytes of a data file.
const FILE_SIZE: u32 = 32 << 20;

/// How often a suite is run where the master changed under it.
const ATTEMPTS: u32 = 3;

/// What a suite does with the group whose master is at the address.
type Run<'a> = &'a dyn Fn(Product, &Path, &Address) -> Result<()>;

/// Runs a suite against three brokers. Its cases want one master, as they have it with one broker; a
/// machine that is so busy that the members elect another one meanwhile says nothing of them, and
/// they run again with a new group.
fn with_three(name: &str, run: Run<'_>) -> Result<()> {
    for _ in 1..ATTEMPTS {
        let mut steady = true;
        let outcome = folder::scenario(name, |folder| once(name, folder, run, &mut steady));
        match outcome {
            Err(error) if !steady => println!("{name} runs again: {error:#}"),
            outcome => return outcome,
        }
    }
    folder::scenario(name, |folder| once(name, folder, run, &mut true))
}

/// `steady` says whether the master stayed the same in one term.
fn once(name: &str, folder: &Path, run: Run<'_>, steady: &mut bool) -> Result<()> {
    let product = Product::under_test()?;
    let name_server = NameServer::start(product, &folder.join("namesrv"))?;
    let mut group = MixedGroup::new(folder, name_server, FILE_SIZE)?;
    let master = group.start_all(product)?;
    let before = reign(&group, &master);
    let address = Address { name_server: group.name_server(), broker: group.address(&master)? };
    let outcome = run(product, folder, &address);
    let after = reign(&group, &group.wait_master()?);
    *steady = before == after;
    outcome.with_context(|| format!("master at the start: {before}, at the end: {after}"))?;
    if product == Product::Ours {
        let entries = group.end_alike()?;
        println!("{name}: {after} is the master; {entries} entries are the same in all logs");
    }
    group.kill_all()
}

/// Who is the master, and in which term where that is told.
fn reign(group: &MixedGroup, master: &str) -> String {
    let term = group.members.status(master).map(|status| status["term"].to_string());
    format!("{master} in term {}", term.unwrap_or_else(|_| "unknown".to_owned()))
}

fn client(name: &str, suite: impl Fn() -> Result<Suite>) -> Result<()> {
    with_three(name, &|product, folder, address| suite()?.run(product, folder, address))
}

fn through_proxy(name: &str, suite: impl Fn() -> Result<Suite>) -> Result<()> {
    let prefix = name.replace('-', "_");
    with_three(name, &|product, folder, address| {
        proxy::run(suite()?, &prefix, product, folder, address)
    })
}

#[test]
#[ignore = "needs a JDK and Maven: cargo xtask ci --only three-clients runs it"]
fn client_java_5_5_0() -> Result<()> {
    if !toolchain::java()? {
        return Ok(());
    }
    client("three-java-5.5.0", || Suite::java("java-5.5.0", "5.5.0"))
}

#[test]
#[ignore = "needs a JDK and Maven: cargo xtask ci --only three-clients runs it"]
fn client_java_4_9_8() -> Result<()> {
    if !toolchain::java()? {
        return Ok(());
    }
    client("three-java-4.9.8", || Suite::java("java-4.9.8", "4.9.8"))
}

#[test]
#[ignore = "needs a JDK and Maven: cargo xtask ci --only three-clients runs it"]
fn client_java_pop() -> Result<()> {
    if !toolchain::java()? {
        return Ok(());
    }
    client("three-java-pop", Suite::pop)
}

#[test]
#[ignore = "needs Go, and a JDK for the Apache broker: cargo xtask ci --only three-clients runs it"]
fn client_go() -> Result<()> {
    if !toolchain::go()? {
        return Ok(());
    }
    client("three-go", Suite::go)
}

#[test]
#[ignore = "needs a JDK and Maven: cargo xtask ci --only three-clients runs it"]
fn client_mqadmin() -> Result<()> {
    if !toolchain::java()? {
        return Ok(());
    }
    client("three-mqadmin", Suite::mqadmin)
}

#[test]
#[ignore = "needs a JDK and Maven: cargo xtask ci --only three-clients runs it"]
fn client_online_admin() -> Result<()> {
    if !toolchain::java()? {
        return Ok(());
    }
    client("three-online-admin", Suite::online_admin)
}

#[test]
#[ignore = "needs a JDK and Maven: cargo xtask ci --only three-proxy runs it"]
fn proxy_java_grpc() -> Result<()> {
    if !toolchain::java()? {
        return Ok(());
    }
    through_proxy("three-java-grpc", Suite::grpc_java)
}

#[test]
#[ignore = "needs a JDK, Maven and Python: cargo xtask ci --only three-proxy runs it"]
fn proxy_python_grpc() -> Result<()> {
    if !toolchain::java()? || !toolchain::python()? {
        return Ok(());
    }
    through_proxy("three-python-grpc", Suite::grpc_python)
}

#[test]
#[ignore = "needs a JDK, Maven and Node: cargo xtask ci --only three-proxy runs it"]
fn proxy_node_grpc() -> Result<()> {
    if !toolchain::java()? || !toolchain::node()? {
        return Ok(());
    }
    through_proxy("three-node-grpc", Suite::grpc_node)
}
