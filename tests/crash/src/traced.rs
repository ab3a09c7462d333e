//! Processes whose system calls are made to fail, or to be their last, by `strace`.

use std::{ffi::OsStr, process::Command};

use anyhow::Result;

use crate::loop_disk;

/// Whether `strace` is there; see [`loop_disk::can_mount`].
///
/// # Errors
/// In CI, that it is missing.
pub fn can_trace() -> Result<bool> {
    let missing = (!loop_disk::answers("strace", "-V")).then_some("strace is missing");
    loop_disk::decide(missing)
}

/// `program` under `strace` with this injection, as in `fdatasync:error=EIO:when=3`, or by itself
/// where that is empty.
#[must_use]
pub fn traced(injection: &str, program: impl AsRef<OsStr>) -> Command {
    if injection.is_empty() {
        return Command::new(program);
    }
    let mut command = Command::new("strace");
    // Not with --seccomp-bpf: strace 6.1 then miscounts for `when`.
    let calls = injection.split(':').next().unwrap_or_default();
    // With -D the process itself is the child, and signals reach it.
    command.args(["-D", "-f", "-qq", "-o", "/dev/null"]);
    command.arg("-e").arg(format!("trace={calls}"));
    command.arg("-e").arg(format!("inject={injection}"));
    command.arg(program);
    command
}
