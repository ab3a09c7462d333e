//! Goal: official clients and mqadmin work against a broker without a change to them.
//! Method: one server, one suite at a time; `LEDGERMQ_INTEROP_TARGET=apache` runs the same cases
//! against the Apache broker, so that a failure is the broker's under test.

use anyhow::Result;
use interop::{
    folder,
    node::{Broker, BrokerOptions, NameServer, Product, Standalone},
    suite::{Address, Suite},
    toolchain,
};

/// Runs `suite` against a name server and a broker in two processes.
fn with_broker(name: &str, suite: impl FnOnce() -> Result<Suite>) -> Result<()> {
    let product = Product::under_test()?;
    folder::scenario(name, |folder| {
        let name_server = NameServer::start(product, &folder.join("namesrv"))?;
        let options = BrokerOptions::new(&folder.join("broker").join("store"))?;
        let broker = Broker::start(product, &folder.join("broker"), &options, &name_server)?;
        let address = Address { name_server: name_server.address(), broker: broker.address() };
        suite()?.run(product, folder, &address)?;
        stop(broker, name_server)
    })
}

fn stop(mut broker: Broker, mut name_server: NameServer) -> Result<()> {
    broker.process.stop()?;
    name_server.process.stop()?;
    Ok(())
}

/// Runs `suite` against `ledgermq standalone`, or Apache's two processes.
fn with_standalone(name: &str, suite: impl FnOnce() -> Result<Suite>) -> Result<()> {
    if Product::under_test()? != Product::Ours {
        return with_broker(name, suite);
    }
    folder::scenario(name, |folder| {
        let mut standalone = Standalone::start(folder)?;
        let address = Address {
            name_server: format!("127.0.0.1:{}", standalone.name_server_port),
            broker: format!("127.0.0.1:{}", standalone.port),
        };
        suite()?.run(Product::Ours, folder, &address)?;
        standalone.process.stop()?;
        Ok(())
    })
}

#[test]
#[ignore = "needs a JDK and Maven: cargo xtask ci runs it"]
fn java_5_5_0() -> Result<()> {
    if !toolchain::java()? {
        return Ok(());
    }
    with_standalone("java-5.5.0", || Suite::java("java-5.5.0", "5.5.0"))
}

#[test]
#[ignore = "needs a JDK and Maven: cargo xtask ci --only java-pop runs it"]
fn java_pop() -> Result<()> {
    if !toolchain::java()? {
        return Ok(());
    }
    with_broker("java-pop", Suite::pop)
}

#[test]
#[ignore = "needs a JDK and Maven: cargo xtask ci runs it"]
fn java_4_9_8() -> Result<()> {
    if !toolchain::java()? {
        return Ok(());
    }
    with_broker("java-4.9.8", || Suite::java("java-4.9.8", "4.9.8"))
}

#[test]
#[ignore = "needs Go, and a JDK for the Apache broker: cargo xtask ci runs it"]
fn go() -> Result<()> {
    if !toolchain::go()? {
        return Ok(());
    }
    with_standalone("go", Suite::go)
}

#[test]
#[ignore = "needs a JDK and Maven: cargo xtask ci runs it"]
fn mqadmin() -> Result<()> {
    if !toolchain::java()? {
        return Ok(());
    }
    with_broker("mqadmin", Suite::mqadmin)
}

#[test]
#[ignore = "needs a JDK and Maven: cargo xtask ci runs it"]
fn online_admin() -> Result<()> {
    if !toolchain::java()? {
        return Ok(());
    }
    with_standalone("online-admin", Suite::online_admin)
}
