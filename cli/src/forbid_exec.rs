//! `--forbid-exec`: a process that can start no program, whatever was sent to it.
//!
//! The server starts none by itself (clippy forbids it). This holds also for code that an attacker
//! brought into the process: the kernel refuses.

use std::collections::BTreeMap;

use anyhow::Context;
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch};

/// The calls that start a program.
const CALLS: &[i64] = &[
    libc::SYS_execve,
    libc::SYS_execveat,
    #[cfg(target_arch = "x86_64")]
    (X32 | libc::SYS_execve),
    #[cfg(target_arch = "x86_64")]
    (X32 | libc::SYS_execveat),
    #[cfg(target_arch = "x86_64")]
    (X32 | 520),
    #[cfg(target_arch = "x86_64")]
    (X32 | 545),
];

/// Bit of a call by the x32 table (Linux: `__X32_SYSCALL_BIT`), which has numbers of its own for the
/// two.
#[cfg(target_arch = "x86_64")]
const X32: i64 = 0x4000_0000;

/// From now on no thread of this process, nor of one that it forks, can start a program: the call is
/// refused as not permitted. There is no way back.
///
/// # Errors
/// Where the kernel has no such filters, or another one forbids to set them.
pub(crate) fn forbid() -> anyhow::Result<()> {
    seccompiler::apply_filter_all_threads(&program()?)
        .context("--forbid-exec: the kernel takes no seccomp filter; start without the flag")?;
    tracing::info!("no program can be started by this process");
    Ok(())
}

fn program() -> anyhow::Result<BpfProgram> {
    let arch = TargetArch::try_from(std::env::consts::ARCH)
        .context("--forbid-exec is not known for this processor; start without the flag")?;
    let rules: BTreeMap<_, _> = CALLS.iter().map(|number| (*number, Vec::new())).collect();
    let refuse = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refuse, arch)
        .context("the filter of --forbid-exec")?;
    filter.try_into().context("the filter of --forbid-exec")
}

#[cfg(test)]
mod tests {
    use std::{io::ErrorKind, process::Command, thread};

    use super::*;

    /// On a thread of its own: the filter stays with it, and the other tests start programs.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "the test shows that it does not work")]
    fn s_02_a_filtered_thread_starts_no_program_and_all_else_goes_on() {
        let filtered = thread::spawn(|| {
            Command::new("true").status().unwrap();
            seccompiler::apply_filter(&program().unwrap()).unwrap();
            let refused = Command::new("true").status().unwrap_err();
            // A file is read, and a thread started from here is bound as well.
            std::fs::read_to_string("/proc/self/status").unwrap();
            let below = thread::spawn(|| Command::new("true").status().unwrap_err().kind());
            (refused.kind(), below.join().unwrap())
        });
        assert_eq!(
            filtered.join().unwrap(),
            (ErrorKind::PermissionDenied, ErrorKind::PermissionDenied)
        );
        Command::new("true").status().unwrap();
    }
}
