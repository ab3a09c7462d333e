//! A small ext4 of its own, which can be filled, cut off and mounted again.

use std::{
    env,
    fs::{self, File},
    io::{self, Write},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use rustix::{
    fs::FallocateFlags,
    io::Errno,
    ioctl::{Setter, ioctl},
};

/// `EXT4_IOC_SHUTDOWN`, `_IOR('X', 125, __u32)`: from now on no call reaches the disk.
const SHUTDOWN: rustix::ioctl::Opcode = 0x8004_587D;
/// `EXT4_GOING_FLAGS_NOLOGFLUSH`: not even the journal is written, as where the power fails.
const NO_LOG_FLUSH: u32 = 2;
/// How long mounting and unmounting are tried again: another process may take the same loop device,
/// or one that was killed may still have a file open.
const BUSY: Duration = Duration::from_secs(30);
/// Bytes that one step of filling up takes at least without writing them.
const STRIDE: u64 = 64 << 10;

/// Whether this machine lets the test mount. Without it the test says so and passes; where `CI` is
/// `true` it fails.
///
/// # Errors
/// In CI, what is missing.
pub fn can_mount() -> Result<bool> {
    let missing = if !rustix::process::geteuid().is_root() {
        Some("not root")
    } else if !answers("mkfs.ext4", "-V") {
        Some("mkfs.ext4 is missing")
    } else if !Path::new("/dev/loop-control").exists() {
        Some("there are no loop devices")
    } else {
        None
    };
    decide(missing)
}

/// Passes, says that the test is skipped or, in CI, fails.
///
/// # Errors
/// In CI, what is missing.
#[expect(clippy::print_stdout, reason = "who runs the test must see that it did nothing")]
pub fn decide(missing: Option<&str>) -> Result<bool> {
    let Some(missing) = missing else { return Ok(true) };
    if env::var("CI").as_deref() == Ok("true") {
        bail!("{missing}, and CI=true: see docs/testing.md");
    }
    println!("skipped: {missing}");
    Ok(false)
}

/// Whether a program can be run.
#[must_use]
pub fn answers(program: &str, question: &str) -> bool {
    let mut command = Command::new(program);
    command.arg(question).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// An ext4 in a file. Dropped, it is unmounted.
#[derive(Debug)]
pub struct LoopDisk {
    folder: tempfile::TempDir,
}

impl LoopDisk {
    /// Makes and mounts one of `mebibytes`.
    ///
    /// # Errors
    /// Where the system refuses.
    pub fn new(mebibytes: u64) -> Result<Self> {
        let disk = Self { folder: tempfile::tempdir().context("a folder for the disk")? };
        let image = File::create(disk.image()).context("the image")?;
        // All of it now: a host that is full must be told here, not as a fault of the small disk.
        let bytes = mebibytes << 20;
        let allocated = match rustix::fs::fallocate(&image, FallocateFlags::empty(), 0, bytes) {
            Err(Errno::OPNOTSUPP) => image.set_len(bytes),
            other => other.map_err(io::Error::from),
        };
        allocated
            .with_context(|| format!("{mebibytes} MiB for the image {}", disk.image().display()))?;
        let flags = ["-q", "-F", "-m", "0", "-E", "nodiscard"];
        run(Command::new("mkfs.ext4").args(flags).arg(disk.image()))?;
        fs::create_dir(disk.root()).context("the mount point")?;
        disk.mount()?;
        Ok(disk)
    }

    fn image(&self) -> PathBuf {
        self.folder.path().join("image")
    }

    /// Where it is mounted.
    #[must_use]
    pub fn root(&self) -> PathBuf {
        self.folder.path().join("root")
    }

    /// Mounts it; the file system then replays its journal.
    ///
    /// # Errors
    /// Where the system refuses.
    pub fn mount(&self) -> Result<()> {
        patiently(|| {
            run(Command::new("mount")
                .args(["-t", "ext4", "-o", "loop,errors=remount-ro"])
                .arg(self.image())
                .arg(self.root()))
        })
    }

    /// Unmounts it. No process may have anything open on it.
    ///
    /// # Errors
    /// Where the system refuses.
    pub fn unmount(&self) -> Result<()> {
        patiently(|| run(Command::new("umount").arg(self.root())))
    }

    /// Cuts the power: nothing that is not on the disk by now will ever be. All calls fail until it
    /// was unmounted and mounted again.
    ///
    /// # Errors
    /// Where the system refuses.
    pub fn cut_power(&self) -> Result<()> {
        let root = File::open(self.root()).context("opening the mount point")?;
        #[expect(unsafe_code, reason = "this ioctl has no wrapper; its argument is one u32")]
        // SAFETY: the number is that of an ioctl which reads a u32 through its argument.
        unsafe { ioctl(&root, Setter::<SHUTDOWN, u32>::new(NO_LOG_FLUSH)) }
            .context("EXT4_IOC_SHUTDOWN")
    }

    /// Lets the file system find a fault: it turns read-only.
    ///
    /// # Errors
    /// Where the system refuses.
    pub fn fault(&self) -> Result<()> {
        let number = fs::metadata(self.root()).context("the mount point")?.dev();
        let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
        let device = fs::read_link(format!("/sys/dev/block/{major}:{minor}"));
        let device = device.context("finding the loop device")?;
        let name = device.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let trigger = format!("/sys/fs/ext4/{name}/trigger_fs_error");
        let mut file = File::options().write(true).open(&trigger).context(trigger)?;
        file.write_all(b"tested").context("a fault of the file system")
    }

    /// Lets all that would write hang, or go on: a disk that does not answer.
    ///
    /// # Errors
    /// Where the system refuses.
    pub fn freeze(&self, freeze: bool) -> Result<()> {
        let flag = if freeze { "--freeze" } else { "--unfreeze" };
        run(Command::new("fsfreeze").arg(flag).arg(self.root()))
    }

    /// Bytes that are free.
    ///
    /// # Errors
    /// Where the system refuses.
    pub fn free(&self) -> Result<u64> {
        let found = rustix::fs::statvfs(self.root()).context("statvfs")?;
        Ok(found.f_bavail * found.f_frsize)
    }

    /// Lets a foreign file grow until `leave` bytes are free.
    ///
    /// # Errors
    /// Where the system refuses for another reason than want of room.
    pub fn fill(&self, leave: u64) -> Result<()> {
        let mut filler = File::options()
            .create(true)
            .append(true)
            .open(self.root().join("filler"))
            .context("the foreign file")?;
        // Most of it without a write: to sync thousands of blocks takes minutes on a slow disk.
        loop {
            let room = self.free()?.saturating_sub(leave);
            let end = filler.metadata().context("the length of the foreign file")?.len();
            if room < STRIDE {
                break;
            }
            match rustix::fs::fallocate(&filler, FallocateFlags::empty(), end, room) {
                Err(Errno::NOSPC) => break,
                other => other.context("filling the disk")?,
            }
        }
        let block = [7_u8; 4096];
        while self.free()? > leave {
            match filler.write_all(&block).and_then(|()| filler.sync_data()) {
                Err(error) if error.kind() == io::ErrorKind::StorageFull => break,
                other => other.context("filling the disk")?,
            }
        }
        Ok(())
    }

    /// Removes the foreign file.
    ///
    /// # Errors
    /// Where the system refuses.
    pub fn empty(&self) -> Result<()> {
        fs::remove_file(self.root().join("filler")).context("removing the foreign file")
    }
}

impl Drop for LoopDisk {
    fn drop(&mut self) {
        // One that is frozen would keep who writes to it for ever.
        let mut thaw = Command::new("fsfreeze");
        drop(thaw.arg("--unfreeze").arg(self.root()).stderr(Stdio::null()).status());
        let mut command = Command::new("umount");
        command.arg("-l").arg(self.root()).stderr(Stdio::null());
        drop(command.status());
    }
}

/// Tries until it succeeds, at most for [`BUSY`].
fn patiently(mut attempt: impl FnMut() -> Result<()>) -> Result<()> {
    let begun = Instant::now();
    loop {
        match attempt() {
            Err(_) if begun.elapsed() < BUSY => thread::sleep(Duration::from_millis(200)),
            outcome => return outcome,
        }
    }
}

fn run(command: &mut Command) -> Result<()> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("starting {command:?}"))?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?} ended with {}: {complaint}", output.status);
    Ok(())
}
