//! What the machine itself can do, measured in the same run as the brokers.

use std::{
    fs,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    path::Path,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow};

/// MiB a second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bandwidth {
    /// From one thread to another over a TCP connection of 127.0.0.1, in pieces of 64 KiB.
    pub loopback: f64,
    /// Of a file that is written in pieces of 1 MiB and flushed at its end.
    pub disk: f64,
}

/// Measures both, the disk in a folder.
///
/// # Errors
/// Where a socket or the file fails.
pub fn bandwidth(folder: &Path, time: Duration) -> Result<Bandwidth> {
    Ok(Bandwidth { loopback: loopback(time)?, disk: disk(folder, time)? })
}

/// The machine and the commit, for people.
#[must_use]
pub fn about() -> String {
    let cores = thread::available_parallelism().map_or(0, usize::from);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let commit = Command::new("git").args(["rev-parse", "--short", "HEAD"]).output();
    let commit = commit.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    format!(
        "{cores} processors, Linux {}, commit {}",
        kernel.trim(),
        commit.unwrap_or_else(|_unknown| "unknown".to_owned())
    )
}

fn loopback(time: Duration) -> Result<f64> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).context("a port for the loopback")?;
    let address = listener.local_addr().context("the address of a listener")?;
    let reader = thread::spawn(move || -> std::io::Result<(u64, Duration)> {
        let (mut stream, _) = listener.accept()?;
        let mut piece = vec![0; PIECE];
        let (begun, mut bytes) = (Instant::now(), 0);
        loop {
            match stream.read(&mut piece)? {
                0 => return Ok((bytes, begun.elapsed())),
                more => bytes += more as u64,
            }
        }
    });
    let mut stream = TcpStream::connect(address).context("connecting over the loopback")?;
    let piece = vec![7; PIECE];
    let begun = Instant::now();
    while begun.elapsed() < time {
        stream.write_all(&piece).context("writing over the loopback")?;
    }
    drop(stream);
    let (bytes, took) = reader
        .join()
        .map_err(|_panic| anyhow!("the reader of the loopback ended early"))?
        .context("reading over the loopback")?;
    Ok(mib_per_second(bytes, took))
}

fn disk(folder: &Path, time: Duration) -> Result<f64> {
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let path = folder.join("bandwidth");
    let mut file = fs::File::create(&path).with_context(|| path.display().to_string())?;
    let piece = vec![7; 1 << 20];
    let (begun, mut bytes) = (Instant::now(), 0);
    while begun.elapsed() < time && bytes < DISK_MAX {
        file.write_all(&piece).with_context(|| path.display().to_string())?;
        bytes += piece.len() as u64;
    }
    file.sync_data().with_context(|| format!("flushing {}", path.display()))?;
    let took = begun.elapsed();
    fs::remove_file(&path).with_context(|| path.display().to_string())?;
    Ok(mib_per_second(bytes, took))
}

fn mib_per_second(bytes: u64, took: Duration) -> f64 {
    bytes as f64 / f64::from(1 << 20) / took.as_secs_f64().max(1e-9)
}

const PIECE: usize = 64 << 10;
/// Bytes of the file at most.
const DISK_MAX: u64 = 4 << 30;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_are_measured_and_nothing_is_left() {
        let folder = crate::folder::target().unwrap().join("tmp-bandwidth");
        let found = bandwidth(&folder, Duration::from_millis(20)).unwrap();
        assert!(found.loopback > 0.0 && found.disk > 0.0, "{found:?}");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
        fs::remove_dir(&folder).unwrap();
    }
}
