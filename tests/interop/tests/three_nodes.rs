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

/// Starts three brokers, and gives `run` the address of the master.
fn with_three(name: &str, run: impl FnOnce(Product, &Path, &Address) -> Result<()>) -> Result<()> {
    let product = Product::under_test()?;
    folder::scenario(name, |folder| {
        let name_server = NameServer::start(product, &folder.join("namesrv"))?;
        let mut group = MixedGroup::new(folder, name_server, FILE_SIZE)?;
        let master = group.start_all(product)?;
        let address = Address { name_server: group.name_server(), broker: group.address(&master)? };
        let outcome = run(product, folder, &address);
        let still = group.wait_master()?;
        outcome
            .with_context(|| format!("{master} was the master at the start, {still} at the end"))?;
        if product == Product::Ours {
            let entries = group.end_alike()?;
            println!("{name}: {still} is the master; {entries} entries are the same in all logs");
        }
        group.kill_all()
    })
}

fn client(name: &str, suite: impl FnOnce() -> Result<Suite>) -> Result<()> {
    with_three(name, |product, folder, address| suite()?.run(product, folder, address))
}

fn through_proxy(name: &str, suite: impl FnOnce() -> Result<Suite>) -> Result<()> {
    let prefix = name.replace('-', "_");
    with_three(name, |product, folder, address| {
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
