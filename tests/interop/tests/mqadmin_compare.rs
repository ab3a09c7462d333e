//! Goal: mqadmin shows of our broker what it shows of Apache's, on the same data.
//! Method: the same cases with the same names against both, one after the other; outputs are
//! compared after the masks of `mqadmin/masks.txt`, each of which has its reason.
#![allow(clippy::disallowed_methods, reason = "this is no server: it writes a file of a test")]

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};
use interop::{
    APACHE, folder,
    node::{Broker, BrokerOptions, NameServer, Product},
    suite::{self, Address, Suite},
    toolchain,
};

/// Part of all names that the cases make.
const RUN: &str = "same";

/// What each case prints on a broker of `product` with a name server of the same.
fn outputs(product: Product, folder: &Path) -> Result<PathBuf> {
    let name_server = NameServer::start(product, &folder.join("namesrv"))?;
    let options = BrokerOptions::new(&folder.join("broker").join("store"))?;
    let mut broker = Broker::start(product, &folder.join("broker"), &options, &name_server)?;
    let address = Address { name_server: name_server.address(), broker: broker.address() };
    let outputs = folder.join("outputs");
    // What is left out of ours cannot be compared.
    Suite::mqadmin()?.keeping_outputs(RUN, &outputs)?.run(Product::Ours, folder, &address)?;
    let mut name_server = name_server;
    broker.process.stop()?;
    name_server.process.stop()?;
    Ok(outputs)
}

#[test]
#[ignore = "needs a JDK and Maven: cargo xtask ci --long runs it"]
fn mqadmin_shows_the_same_as_of_apache() -> Result<()> {
    if !toolchain::java()? {
        return Ok(());
    }
    folder::scenario("mqadmin-compare", |folder| {
        let theirs = outputs(Product::Apache(APACHE), &folder.join("apache"))?;
        let ours = outputs(Product::Ours, &folder.join("ours"))?;
        let (text, equal) = suite::compare_outputs(&theirs, &ours)?;
        ensure!(equal, "outputs differ (- Apache, + ours):\n{text}");

        // A planted difference is found, and so is a case that one of them did not run.
        let planted = ours.join("topicRoute");
        let text = fs::read_to_string(&planted).context("what topicRoute printed")?;
        fs::write(&planted, text.replace("\"perm\":6", "\"perm\":4"))?;
        fs::remove_file(ours.join("topicList"))?;
        let (text, equal) = suite::compare_outputs(&theirs, &ours)?;
        ensure!(!equal, "planted differences were not found");
        for case in ["FAIL topicRoute ", "FAIL topicList "] {
            ensure!(text.contains(case), "{case} is not in:\n{text}");
        }
        Ok(())
    })
}
