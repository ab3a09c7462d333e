//! Where builds and servers keep their files, and what is shown of them when a test fails.

use std::{
    env, fs,
    io::ErrorKind,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

/// Lines shown of each log.
const TAIL: usize = 12;

/// Cargo's target folder, of which the running test is part.
///
/// # Errors
/// Where the test does not lie where cargo puts it.
pub fn target() -> Result<PathBuf> {
    let test = env::current_exe().context("the path of this test")?;
    // target/debug/deps/test
    let folder = test.ancestors().nth(3).context("a test lies in target/debug/deps")?;
    Ok(folder.to_path_buf())
}

/// The folder for libraries, builds and runs of these tests.
///
/// # Errors
/// See [`target`].
pub fn interop() -> Result<PathBuf> {
    Ok(target()?.join("interop"))
}

/// Our own sources: `tests/interop`.
#[must_use]
pub fn sources() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Runs `test` in a fresh folder. It is removed if the test passes; if it fails, it is kept and the
/// ends of all logs in it are printed.
///
/// # Errors
/// That of `test`.
pub fn scenario(name: &str, test: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let folder = interop()?.join("run").join(name);
    remove(&folder)?;
    fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
    let outcome = test(&folder);
    if outcome.is_ok() {
        return remove(&folder);
    }
    for log in logs(&folder) {
        let text = fs::read(&log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let text = text.unwrap_or_else(|error| format!("cannot be read: {error}"));
        println!("---- end of {}\n{}", log.display(), tail(&text));
    }
    outcome.with_context(|| format!("{name}; its files are kept in {}", folder.display()))
}

fn remove(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("removing {}", folder.display()))
        }
        _ => Ok(()),
    }
}

fn tail(text: &str) -> String {
    // Netty reports each connection that comes and goes, logback its own start.
    let noise = |line: &str| line.contains("NETTY ") || line.contains(" |-INFO in ");
    let lines: Vec<&str> = text.lines().filter(|line| !noise(line)).collect();
    lines[lines.len().saturating_sub(TAIL)..].join("\n")
}

/// Logs that are worth a look: what servers print, and the log files of brokers.
fn logs(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_path_buf()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let name = entry.file_name().to_string_lossy().into_owned();
            if path.is_dir() {
                open.push(path);
            } else if name == "out.log" || matches!(name.as_str(), "broker.log" | "namesrv.log") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use anyhow::bail;

    use super::*;

    #[test]
    fn a_failed_scenario_keeps_its_folder_and_a_passed_one_does_not() {
        let mut at = PathBuf::new();
        let failed = scenario("folder-test-failed", |folder| {
            at = folder.to_path_buf();
            fs::create_dir(folder.join("node"))?;
            fs::File::create(folder.join("node/out.log"))?;
            assert_eq!(logs(folder), [folder.join("node/out.log")]);
            bail!("on purpose")
        });
        assert!(failed.is_err());
        assert!(at.is_dir());
        let passed = scenario("folder-test-failed", |folder| {
            assert!(!folder.join("node").exists(), "a run starts with an empty folder");
            Ok(())
        });
        assert!(passed.is_ok());
        assert!(!at.exists());
    }
}
