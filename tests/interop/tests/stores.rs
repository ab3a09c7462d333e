//! Goal: a store directory can be handed to a Java DLedger broker and back, at any time.
//! Method: one directory and one ledger; brokers of both products take turns on it. Each first
//! serves all that is in the ledger, then adds to it, and is stopped or killed.

use anyhow::{Context, Result};
use interop::{
    APACHE_STORE, folder,
    ledger::{Ledger, LookUp},
    node::{Broker, BrokerOptions, NameServer, Product},
    toolchain,
};

const JAVA: Product = Product::Apache(APACHE_STORE);

/// Bytes of a log file: small, so that a few thousand messages fill several.
const FILE_SIZE: u32 = 1 << 20;

/// Messages that each broker adds: 1 KiB on average.
const EACH: u32 = 1500;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Stop,
    Kill,
}

fn take_turns(name: &str, turns: &[(Product, End)]) -> Result<()> {
    if !toolchain::java()? {
        return Ok(());
    }
    folder::scenario(name, |folder| {
        // Against Apache, Java takes turns with itself.
        let target = Product::under_test()?;
        let name_server = NameServer::start(target, &folder.join("namesrv"))?;
        let ours = if target == Product::Ours { Product::Ours } else { JAVA };
        let options = BrokerOptions::shared(&folder.join("store"), FILE_SIZE)?;
        let ledger = Ledger::new(folder, "turns")?;
        let address = name_server.address();
        let killed = turns.iter().any(|(_, end)| *end == End::Kill);
        let look_up = if killed { LookUp::Ids } else { LookUp::KeysAndIds };
        for (turn, (product, end)) in turns.iter().enumerate() {
            let product = if *product == Product::Ours { ours } else { *product };
            let home = folder.join(format!("broker-{turn}"));
            let serve = || -> Result<()> {
                let mut broker = Broker::start(product, &home, &options, &name_server)?;
                if !ledger.is_empty()? {
                    ledger.verify(&address, look_up).context("what earlier turns wrote")?;
                }
                ledger.produce(&address, EACH)?;
                ledger.verify(&address, look_up).context("with what this turn wrote")?;
                match end {
                    End::Stop => broker.process.stop().map(drop),
                    End::Kill => broker.process.kill(),
                }
            };
            serve().with_context(|| format!("turn {turn}, {product:?}, {end:?}"))?;
        }
        Ok(())
    })
}

#[test]
#[ignore = "needs a JDK and Maven: cargo xtask ci runs it"]
fn java_opens_what_we_wrote_and_we_open_what_it_wrote() -> Result<()> {
    take_turns(
        "stores-stopped",
        &[(Product::Ours, End::Stop), (JAVA, End::Stop), (Product::Ours, End::Stop)],
    )
}

#[test]
#[ignore = "needs a JDK and Maven: cargo xtask ci runs it"]
fn so_they_do_after_kill_9() -> Result<()> {
    take_turns("stores-killed", &[(JAVA, End::Kill), (Product::Ours, End::Kill), (JAVA, End::Stop)])
}
