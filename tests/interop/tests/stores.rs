//! Goal: a store directory can be handed to a Java DLedger broker and back, at any time.
//! Method: one directory and one ledger; brokers of both products take turns on it. Each first
//! serves all that is in the ledger, then adds to it, and is stopped or killed. In between it may be
//! copied to the form of a plain Java broker, and back.

use std::path::Path;

use anyhow::{Context, Result};
use interop::{
    APACHE, APACHE_STORE,
    copies::{Copying, copy},
    folder,
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

/// Brokers take turns on one store, or on copies of it.
struct Travels<'a> {
    folder: &'a Path,
    ledger: Ledger,
    name_server: NameServer,
    /// One port for all, as a message id names it.
    options: BrokerOptions,
    look_up: LookUp,
    turn: u32,
}

impl<'a> Travels<'a> {
    fn new(folder: &'a Path, topic: &str, look_up: LookUp) -> Result<Self> {
        let name_server = NameServer::start(Product::Ours, &folder.join("namesrv"))?;
        let ledger = Ledger::new(folder, topic)?;
        let options = BrokerOptions::shared(folder, FILE_SIZE)?;
        Ok(Self { folder, ledger, name_server, options, look_up, turn: 0 })
    }

    /// A broker of `product` serves what the ledger has, adds to it, and stops in order.
    fn serve(&mut self, product: Product, store: &Path, dledger: bool) -> Result<()> {
        self.turn += 1;
        let options = BrokerOptions { store: store.to_path_buf(), dledger, ..self.options.clone() };
        let home = self.folder.join(format!("broker-{}", self.turn));
        let mut broker = Broker::start(product, &home, &options, &self.name_server)?;
        let address = self.name_server.address();
        if !self.ledger.is_empty()? {
            self.ledger.verify(&address, self.look_up).context("what was there")?;
        }
        let before = self.ledger.len()?;
        self.ledger.produce(&address, EACH / 2)?;
        self.ledger.verify(&address, self.look_up).context("with what was added")?;
        // Group and progress go along: only what was added comes.
        let added = self.ledger.len()? - before;
        self.ledger.consume(&address, "traveller", added).context("consumer progress")?;
        broker.process.stop().map(drop)
    }
}

#[test]
#[ignore = "needs a JDK and Maven: cargo xtask ci runs it"]
fn a_store_becomes_that_of_a_plain_java_broker_and_comes_back() -> Result<()> {
    if !toolchain::java()? || Product::under_test()? != Product::Ours {
        return Ok(());
    }
    folder::scenario("stores-copied", |folder| {
        let mut travels = Travels::new(folder, "travels", LookUp::MovedIds)?;
        let mut store = folder.join("store-0");
        travels.serve(Product::Ours, &store, true).context("before any copy")?;
        let plain = [Product::Apache(APACHE), Product::Apache(APACHE_STORE)];
        for (round, java) in plain.into_iter().enumerate() {
            let there = folder.join(format!("plain-{round}"));
            copy(Copying::Export, &store, &there)?;
            travels.serve(java, &there, false).with_context(|| format!("{java:?} on a copy"))?;
            store = folder.join(format!("back-{round}"));
            copy(Copying::Import, &there, &store)?;
            let ours = travels.serve(Product::Ours, &store, true);
            ours.with_context(|| format!("ours on a copy of {java:?}"))?;
        }
        Ok(())
    })
}

#[test]
#[ignore = "needs a JDK and Maven: cargo xtask ci runs it"]
fn a_plain_java_store_goes_on_with_a_dledger_log_behind_its_own() -> Result<()> {
    if !toolchain::java()? || Product::under_test()? != Product::Ours {
        return Ok(());
    }
    folder::scenario("stores-divided", |folder| {
        let mut travels = Travels::new(folder, "divided", LookUp::KeysAndIds)?;
        let store = folder.join("store");
        travels.serve(Product::Apache(APACHE), &store, false).context("a plain Java broker")?;
        travels.serve(Product::Ours, &store, true).context("ours behind its log")?;
        travels.serve(Product::Ours, &store, true).context("ours again")
    })
}
