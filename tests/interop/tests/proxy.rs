//! Goal: whoever consumes by gRPC can put LedgerMQ behind the proxy that runs today.
//! Method: Apache's proxy in cluster mode in front of a name server and a broker of the product under
//! test, and the official gRPC clients; `LEDGERMQ_INTEROP_TARGET=apache` runs the same cases against
//! the Apache broker.

use anyhow::Result;
use interop::{
    folder,
    node::{Broker, BrokerOptions, NameServer, Product},
    proxy,
    suite::{Address, Suite},
    toolchain,
};

/// Runs `suite` through a proxy in front of one broker.
fn through_proxy(name: &str, suite: impl FnOnce() -> Result<Suite>) -> Result<()> {
    let product = Product::under_test()?;
    folder::scenario(name, |folder| {
        let mut name_server = NameServer::start(product, &folder.join("namesrv"))?;
        let options = BrokerOptions::new(&folder.join("broker").join("store"))?;
        let mut broker = Broker::start(product, &folder.join("broker"), &options, &name_server)?;
        let address = Address { name_server: name_server.address(), broker: broker.address() };
        proxy::run(suite()?, &name.replace('-', "_"), product, folder, &address)?;
        broker.process.stop()?;
        name_server.process.stop()?;
        Ok(())
    })
}

#[test]
#[ignore = "needs a JDK and Maven: cargo xtask ci --only proxy runs it"]
fn java_grpc() -> Result<()> {
    if !toolchain::java()? {
        return Ok(());
    }
    through_proxy("java-grpc", Suite::grpc_java)
}

#[test]
#[ignore = "needs a JDK, Maven and Python: cargo xtask ci --only proxy runs it"]
fn python_grpc() -> Result<()> {
    if !toolchain::java()? || !toolchain::python()? {
        return Ok(());
    }
    through_proxy("python-grpc", Suite::grpc_python)
}

#[test]
#[ignore = "needs a JDK, Maven and Node: cargo xtask ci --only proxy runs it"]
fn node_grpc() -> Result<()> {
    if !toolchain::java()? || !toolchain::node()? {
        return Ok(());
    }
    through_proxy("node-grpc", Suite::grpc_node)
}
