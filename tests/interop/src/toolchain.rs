//! The programs that the tests need beside Rust.

use std::{
    env,
    process::{Command, Stdio},
};

use anyhow::{Result, bail};

/// Whether JDK and Maven are there. Without them a test says so and passes; where `CI` is `true`
/// it fails, so that a CI machine cannot skip by accident.
///
/// # Errors
/// In CI, the name of what is missing.
pub fn java() -> Result<bool> {
    all(&[("javac", "-version"), ("java", "-version"), ("mvn", "-v")])
}

/// Whether the Go toolchain is there; see [`java`].
///
/// # Errors
/// In CI, the name of what is missing.
pub fn go() -> Result<bool> {
    all(&[("go", "version")])
}

/// Whether Python can make environments of its own; see [`java`].
///
/// # Errors
/// In CI, the name of what is missing.
pub fn python() -> Result<bool> {
    all(&[("python3", "-cimport ensurepip, venv")])
}

/// Whether Node and its package manager are there; see [`java`].
///
/// # Errors
/// In CI, the name of what is missing.
pub fn node() -> Result<bool> {
    all(&[("node", "--version"), ("npm", "--version")])
}

/// Whether a process can be given an `/etc/hosts` of its own, which takes root; see [`java`].
///
/// # Errors
/// In CI, that it cannot.
pub fn own_names() -> Result<bool> {
    let mut command = Command::new("unshare");
    command.args(["--mount", "true"]).stdin(Stdio::null()).stderr(Stdio::null());
    if command.status().is_ok_and(|status| status.success()) {
        return Ok(true);
    }
    if env::var("CI").as_deref() == Ok("true") {
        bail!("unshare --mount is refused, and CI=true: run it as root");
    }
    println!("skipped: unshare --mount is refused");
    Ok(false)
}

fn all(tools: &[(&str, &str)]) -> Result<bool> {
    for (tool, question) in tools {
        if !answers(tool, question) {
            if env::var("CI").as_deref() == Ok("true") {
                bail!("{tool} is missing, and CI=true: .ci/run installs it");
            }
            println!("skipped: {tool} is missing");
            return Ok(false);
        }
    }
    Ok(true)
}

fn answers(tool: &str, question: &str) -> bool {
    let mut command = Command::new(tool);
    command.arg(question).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
