//! What processes cost, from /proc.

use std::fs;

use anyhow::{Context, Result};

/// Ticks of processor time in a second, `USER_HZ` of every Linux that Rust supports.
const TICKS: f64 = 100.0;

/// Memory of a process in KiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// Anonymous and shared memory: what it needs for itself.
    pub own: u64,
    /// All that is resident, mapped files included, which the system can take back.
    pub resident: u64,
}

/// Memory of a process now.
///
/// # Errors
/// Where the process is gone.
pub fn memory(pid: u32) -> Result<Memory> {
    let path = format!("/proc/{pid}/status");
    read_memory(&fs::read_to_string(&path).context(path)?)
}

/// Seconds of processor time that a process has used.
///
/// # Errors
/// Where the process is gone.
pub fn cpu_seconds(pid: u32) -> Result<f64> {
    let path = format!("/proc/{pid}/stat");
    // Fields 14 and 15 of proc_pid_stat(5).
    stat_seconds(&fs::read_to_string(&path).context(path)?, 14)
}

/// Seconds of processor time of all children of this process that have ended.
///
/// # Errors
/// Where /proc is not there.
pub fn children_cpu_seconds() -> Result<f64> {
    // Fields 16 and 17.
    stat_seconds(&fs::read_to_string("/proc/self/stat").context("/proc/self/stat")?, 16)
}

/// Seconds of processor time that the whole machine has used.
///
/// # Errors
/// Where /proc is not there.
pub fn machine_cpu_seconds() -> Result<f64> {
    machine_seconds(&fs::read_to_string("/proc/stat").context("/proc/stat")?)
}

/// Files that a process has open.
///
/// # Errors
/// Where the process is gone.
pub fn open_files(pid: u32) -> Result<usize> {
    let path = format!("/proc/{pid}/fd");
    Ok(fs::read_dir(&path).context(path)?.count())
}

/// How many programs wanted to run in the last minute.
///
/// # Errors
/// Where /proc is not there.
pub fn load_average() -> Result<f64> {
    let text = fs::read_to_string("/proc/loadavg").context("/proc/loadavg")?;
    let first = text.split(' ').next().unwrap_or_default();
    first.parse().with_context(|| format!("/proc/loadavg: {text}"))
}

fn read_memory(status: &str) -> Result<Memory> {
    let field = |name: &str| -> Result<u64> {
        let mut lines = status.lines();
        let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let value = value.with_context(|| format!("{name} is missing in a process's status"))?;
        value.trim().trim_end_matches(" kB").parse().with_context(|| format!("{name}:{value}"))
    };
    Ok(Memory { own: field("RssAnon")? + field("RssShmem")?, resident: field("VmRSS")? })
}

/// Sum of two fields of a stat file, counted from 1.
fn stat_seconds(stat: &str, first: usize) -> Result<f64> {
    // The name, field 2, may hold blanks and brackets.
    let (_, rest) = stat.rsplit_once(')').context("a stat file has a name in brackets")?;
    let fields = rest.split_whitespace().skip(first - 3).take(2);
    let ticks: Result<Vec<u64>, _> = fields.map(str::parse).collect();
    Ok(ticks.context("a stat file has numbers")?.iter().sum::<u64>() as f64 / TICKS)
}

fn machine_seconds(stat: &str) -> Result<f64> {
    let line = stat.lines().next().and_then(|line| line.strip_prefix("cpu "));
    let fields = line.context("/proc/stat begins with the line of all processors")?;
    let ticks: Result<Vec<u64>, _> = fields.split_whitespace().map(str::parse).collect();
    let ticks = ticks.context("/proc/stat has numbers")?;
    // user, nice, system, then idle and iowait, then irq and softirq.
    let busy = ticks.iter().take(3).chain(ticks.iter().skip(5).take(2)).sum::<u64>();
    Ok(busy as f64 / TICKS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_from_a_status() {
        let status = "Name:\tx\nVmRSS:\t    900 kB\nRssAnon:\t     700 kB\nRssFile:\t     150 kB\nRssShmem:\t      50 kB\n";
        assert_eq!(read_memory(status).unwrap(), Memory { own: 750, resident: 900 });
        assert!(read_memory("VmRSS: 1 kB\n").is_err());
        assert!(memory(std::process::id()).unwrap().own > 0);
    }

    #[test]
    fn processor_time_is_read_behind_a_name_with_brackets() {
        let stat = "7 (a) b) S 1 1 1 0 -1 0 0 0 0 0 150 50 20 5 20 0 3 0 99";
        assert_eq!(stat_seconds(stat, 14).unwrap(), 2.0);
        assert_eq!(stat_seconds(stat, 16).unwrap(), 0.25);
        assert!(stat_seconds("7", 14).is_err());
    }

    #[test]
    fn idle_time_of_the_machine_does_not_count() {
        assert_eq!(machine_seconds("cpu  100 20 30 4000 500 6 44 9 0 0\ncpu0 1\n").unwrap(), 2.0);
        assert!(machine_cpu_seconds().unwrap() > 0.0);
        assert!(load_average().unwrap() >= 0.0);
        assert!(open_files(std::process::id()).unwrap() > 0);
    }
}
