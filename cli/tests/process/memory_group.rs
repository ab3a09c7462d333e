//! Control groups with little memory.
#![allow(clippy::print_stdout, reason = "who runs the test must see what is left out")]

use std::{
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

/// A control group that allows so many bytes; it is removed when it is dropped.
pub(crate) struct MemoryGroup(PathBuf);

impl MemoryGroup {
    /// Of version 2 or 1, whichever this machine has for memory; `None`, with a line on the output,
    /// where it has none that can be written.
    pub(crate) fn new(bytes: u64) -> Option<Self> {
        static MADE: AtomicU64 = AtomicU64::new(0);
        let root = Path::new("/sys/fs/cgroup");
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("ledgermq-test-{}-{number}", std::process::id());
        let of_two = std::fs::read_to_string(root.join("cgroup.controllers"));
        let (parent, limit) = match of_two {
            Ok(controllers) if controllers.contains("memory") => {
                // Where it is allowed already, or may not be, the limit below tells.
                drop(std::fs::write(root.join("cgroup.subtree_control"), "+memory"));
                (root.to_owned(), "memory.max")
            }
            _ => (root.join("memory"), "memory.limit_in_bytes"),
        };
        let group = Self(parent.join(name));
        let made = std::fs::create_dir(&group.0)
            .and_then(|()| std::fs::write(group.0.join(limit), bytes.to_string()));
        if let Err(error) = made {
            println!("left out: no control group for memory: {error}");
            return None;
        }
        Some(group)
    }

    /// The words that start what follows them in it.
    pub(crate) fn enter(&self) -> Vec<String> {
        let script = format!("echo $$ > {}/cgroup.procs && exec \"$@\"", self.0.display());
        ["sh", "-c", &script, "sh"].map(str::to_owned).to_vec()
    }

    /// How often the kernel ended a process of it for want of memory.
    pub(crate) fn killed(&self) -> u64 {
        let counts = ["memory.events", "memory.oom_control"]
            .into_iter()
            .find_map(|name| std::fs::read_to_string(self.0.join(name)).ok());
        let counts = counts.unwrap();
        let line = counts.lines().find_map(|line| line.strip_prefix("oom_kill "));
        line.unwrap_or("0").trim().parse().unwrap()
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        drop(std::fs::remove_dir(&self.0));
    }
}
