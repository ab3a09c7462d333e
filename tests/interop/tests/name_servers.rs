//! Goal: name servers of both products serve brokers of both.
//! Method: mqadmin and the Java client look at a pair of unlike servers.

use anyhow::Result;
use interop::{
    APACHE, folder,
    node::{Broker, BrokerOptions, NameServer, Product},
    suite::{Address, Suite},
    toolchain,
};

fn pair(name: &str, name_server: Product, broker: Product) -> Result<()> {
    if !toolchain::java()? {
        return Ok(());
    }
    folder::scenario(name, |folder| {
        let mut name_server = NameServer::start(name_server, &folder.join("namesrv"))?;
        let options = BrokerOptions::new(&folder.join("broker").join("store"))?;
        let product = broker;
        let mut broker = Broker::start(product, &folder.join("broker"), &options, &name_server)?;
        let address = Address { name_server: name_server.address(), broker: broker.address() };
        let commands = ["clusterList", "updateTopic", "topicList", "topicRoute", "KvConfig"];
        Suite::mqadmin()?.only(&commands).run(product, folder, &address)?;
        let cases = ["send_sync", "push_concurrent", "no_such_topic"];
        Suite::java("java-5.5.0", "5.5.0")?.only(&cases).run(product, folder, &address)?;
        broker.process.stop()?;
        assert!(!name_server.lists_master(options.port), "a stopped broker is still listed");
        name_server.process.stop()?;
        Ok(())
    })
}

#[test]
#[ignore = "needs a JDK and Maven: cargo xtask ci runs it"]
fn our_broker_at_a_java_name_server() -> Result<()> {
    pair("java-name-server", Product::Apache(APACHE), Product::Ours)
}

#[test]
#[ignore = "needs a JDK and Maven: cargo xtask ci runs it"]
fn a_java_broker_at_our_name_server() -> Result<()> {
    pair("our-name-server", Product::Ours, Product::Apache(APACHE))
}
