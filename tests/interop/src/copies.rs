//! Copies of a store in another form, by `ledgermq store`.

use std::{path::Path, process::Command};

use anyhow::{Context, Result, ensure};

use crate::libraries;

/// Which way a store is copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Copying {
    /// From DLedger to the commit log of a plain Java broker.
    Export,
    /// From the commit log of a plain Java broker to DLedger.
    Import,
}

/// Copies the store in `from` to `to`, which must not exist.
///
/// # Errors
/// Where the command fails, with what it printed.
pub fn copy(way: Copying, from: &Path, to: &Path) -> Result<()> {
    let name = match way {
        Copying::Export => "export",
        Copying::Import => "import",
    };
    let mut command = Command::new(libraries::ledgermq()?);
    command.args(["store", name]).arg(from).arg("--to").arg(to).arg("--json");
    let output = command.output().with_context(|| format!("starting {command:?}"))?;
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    let (out, errors) = (text(&output.stdout), text(&output.stderr));
    ensure!(output.status.success(), "{name}: {}\n{out}{errors}", output.status);
    crate::show(&format!("{name}: {}", out.trim()));
    Ok(())
}
