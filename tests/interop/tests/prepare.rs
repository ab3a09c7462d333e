//! Goal: what the other tests fetch and build is there, so that their time is their own.

use anyhow::Result;
use interop::{APACHE, APACHE_STORE, folder, ledger::Ledger, libraries, suite::Suite, toolchain};

#[test]
#[ignore = "needs a JDK, Maven and Go: cargo xtask ci runs it"]
fn libraries_are_fetched_and_programs_built() -> Result<()> {
    if toolchain::java()? {
        for version in [APACHE, APACHE_STORE] {
            libraries::class_path("rocketmq-namesrv", version)?;
            libraries::class_path("rocketmq-broker", version)?;
        }
        Suite::java("java-5.5.0", "5.5.0")?;
        Suite::java("java-4.9.8", "4.9.8")?;
        Suite::mqadmin()?;
        Suite::online_admin()?;
        Ledger::new(&folder::interop()?.join("run"), "none")?;
    }
    if toolchain::go()? {
        Suite::go()?;
    }
    libraries::ledgermq()?;
    Ok(())
}
