//! Goal: nothing that was acknowledged is lost by a restart, however the broker ended, and what is
//! derived from the log is made again from it.
//! Method: the Java client keeps a ledger of acknowledged messages; the broker is killed under
//! load, or its derived files are damaged; then every message of the ledger is read back.

use std::{fs, path::Path, time::Duration};

use anyhow::{Context, Result, ensure};
use interop::{
    folder,
    ledger::{Ledger, LookUp},
    node::{Broker, BrokerOptions, NameServer, Product},
    process::wait_until,
    toolchain,
};

/// What is derived from the log, in the store directory.
const DERIVED: [&str; 3] = ["consumequeue", "index", "checkpoint"];

/// How derived files are damaged.
#[derive(Debug, Clone, Copy)]
enum Damage {
    Deleted,
    Emptied,
    Cut,
}

/// A broker on one store, started anew as often as wanted.
struct Scene<'a> {
    folder: &'a Path,
    options: BrokerOptions,
    name_server: NameServer,
    starts: u32,
}

impl<'a> Scene<'a> {
    fn new(folder: &'a Path) -> Result<Self> {
        let name_server = NameServer::start(Product::under_test()?, &folder.join("namesrv"))?;
        let options = BrokerOptions::shared(&folder.join("store"), 4 << 20)?;
        Ok(Self { folder, options, name_server, starts: 0 })
    }

    fn start(&mut self) -> Result<Broker> {
        self.starts += 1;
        let home = self.folder.join(format!("broker-{}", self.starts));
        Broker::start(Product::under_test()?, &home, &self.options, &self.name_server)
    }

    fn address(&self) -> String {
        self.name_server.address()
    }
}

#[test]
#[ignore = "needs a JDK and Maven: cargo xtask ci runs it"]
fn kill_9_under_load_loses_nothing() -> Result<()> {
    if !toolchain::java()? {
        return Ok(());
    }
    folder::scenario("kill-under-load", |folder| {
        let mut scene = Scene::new(folder)?;
        let ledger = Ledger::new(folder, "load")?;
        for round in 1..=3 {
            let mut broker = scene.start()?;
            let target = ledger.len()? + 1000;
            let mut producer = ledger.start_producing(&scene.address(), 1_000_000)?;
            wait_until("1000 acknowledged messages", Duration::from_secs(90), || {
                ledger.len().is_ok_and(|acknowledged| acknowledged >= target)
            })?;
            broker.process.kill()?;
            producer.kill()?;
            let mut broker = scene.start()?;
            ledger
                .verify(&scene.address(), LookUp::KeysAndIds)
                .with_context(|| format!("after kill {round}"))?;
            broker.process.kill()?;
        }
        Ok(())
    })
}

#[test]
#[ignore = "needs a JDK and Maven: cargo xtask ci runs it"]
fn derived_files_are_made_again() -> Result<()> {
    if !toolchain::java()? {
        return Ok(());
    }
    folder::scenario("derived-files", |folder| {
        let mut scene = Scene::new(folder)?;
        let ledger = Ledger::new(folder, "derived")?;
        for damage in [Damage::Deleted, Damage::Emptied, Damage::Cut] {
            let mut broker = scene.start()?;
            ledger.produce(&scene.address(), 500)?;
            match damage {
                Damage::Emptied => broker.process.kill()?,
                Damage::Deleted | Damage::Cut => broker.process.stop().map(drop)?,
            }
            for name in DERIVED {
                let path = scene.options.store.join(name);
                ensure!(path.exists(), "{} is not there to be damaged", path.display());
                harm(&path, damage)?;
            }
            let mut broker = scene.start().with_context(|| format!("after {damage:?}"))?;
            ledger
                .verify(&scene.address(), LookUp::KeysAndIds)
                .with_context(|| format!("after {damage:?}"))?;
            broker.process.stop()?;
        }
        Ok(())
    })
}

fn harm(path: &Path, damage: Damage) -> Result<()> {
    if path.is_dir() {
        if matches!(damage, Damage::Deleted) {
            return fs::remove_dir_all(path).with_context(|| path.display().to_string());
        }
        for entry in fs::read_dir(path).with_context(|| path.display().to_string())? {
            harm(&entry.context("an entry of a folder")?.path(), damage)?;
        }
        return Ok(());
    }
    if matches!(damage, Damage::Deleted) {
        return fs::remove_file(path).with_context(|| path.display().to_string());
    }
    let file = fs::File::options().write(true).open(path);
    let file = file.with_context(|| path.display().to_string())?;
    // No multiple of a unit's length.
    let kept = if matches!(damage, Damage::Cut) { file.metadata()?.len() / 2 + 7 } else { 0 };
    file.set_len(kept).with_context(|| path.display().to_string())
}

#[test]
#[ignore = "needs a JDK and Maven: cargo xtask ci runs it"]
fn consumer_offsets_are_kept() -> Result<()> {
    if !toolchain::java()? {
        return Ok(());
    }
    folder::scenario("offsets-kept", |folder| {
        let mut scene = Scene::new(folder)?;
        let ledger = Ledger::new(folder, "offsets")?;
        let mut broker = scene.start()?;
        ledger.produce(&scene.address(), 100)?;
        ledger.consume(&scene.address(), "keeper", ledger.len()?)?;
        broker.process.stop()?;
        let mut broker = scene.start()?;
        let before = ledger.len()?;
        ledger.produce(&scene.address(), 10)?;
        let new = ledger.len()? - before;
        ledger.consume(&scene.address(), "keeper", new).context("only what is new")?;
        broker.process.stop()?;
        Ok(())
    })
}
