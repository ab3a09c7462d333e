//! The folder of the data, and the disk below it.

use std::path::Path;

use broker::config::BrokerConfig;
use rustix::fs::{Access, access, statvfs};

use super::finding::Finding;

/// Checks the folder of all data.
pub(super) fn check(config: &BrokerConfig, findings: &mut Vec<Finding>) {
    let path = Path::new(&config.store_path_root_dir);
    if path.is_relative() {
        let text = format!(
            "{} is relative: it depends on the folder in which the broker is started",
            path.display()
        );
        findings.push(Finding::warning("relative-path", KEY, text));
    }
    // A path without a slash has the empty one as its parent.
    let above =
        path.ancestors().map(|one| if one.as_os_str().is_empty() { Path::new(".") } else { one });
    let Some(there) = above.into_iter().find(|one| one.exists()) else { return };
    if !there.is_dir() {
        let text = format!("{} is a file: name a folder", there.display());
        findings.push(Finding::error("bad-path", KEY, text));
        return;
    }
    if let Err(error) = access(there, Access::WRITE_OK | Access::EXEC_OK) {
        let text = format!("{} cannot be written by this user: {error}", there.display());
        findings.push(Finding::error("bad-path", KEY, text));
        return;
    }
    if there != path && path != Path::new(".") {
        let text = format!("{} does not exist yet; the broker makes it", path.display());
        findings.push(Finding::note("new-folder", KEY, text));
    }
    fullness(config, there, findings);
}

fn fullness(config: &BrokerConfig, there: &Path, findings: &mut Vec<Finding>) {
    let Some(used) = used_percent(there) else { return };
    let steps = [
        ("diskSpaceWarningLevelRatio", config.disk_space_warning_level_ratio, "sends are refused"),
        (
            "diskSpaceCleanForciblyRatio",
            config.disk_space_clean_forcibly_ratio,
            "the oldest messages are deleted before their time",
        ),
        (
            "diskMaxUsedSpaceRatio",
            config.disk_max_used_space_ratio,
            "old messages are deleted at any hour",
        ),
    ];
    if let Some((key, ratio, what)) = steps.into_iter().find(|(_, ratio, _)| used > *ratio) {
        let text = format!("the disk is {used} % full, more than {ratio} %: {what}");
        findings.push(Finding::warning("full-disk", key, text));
    }
    let free = free_bytes(there).unwrap_or(u64::MAX);
    if free < 2 * config.mapped_file_size_commit_log {
        let text = format!(
            "{} MiB are free, less than two files of the log ({} MiB each)",
            free >> 20,
            config.mapped_file_size_commit_log >> 20
        );
        findings.push(Finding::warning("small-disk", KEY, text));
    }
}

/// Use of the disk as `df` shows it.
pub(super) fn used_percent(path: &Path) -> Option<u32> {
    let disk = statvfs(path).ok()?;
    let used = disk.f_blocks.checked_sub(disk.f_bfree)?;
    let usable = used + disk.f_bavail;
    u32::try_from((used * 100).checked_div(usable)?).ok()
}

fn free_bytes(path: &Path) -> Option<u64> {
    let disk = statvfs(path).ok()?;
    disk.f_bavail.checked_mul(disk.f_frsize)
}

const KEY: &str = "storePathRootDir";
