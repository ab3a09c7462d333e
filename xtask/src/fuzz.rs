//! libFuzzer runs of all targets. The coverage that libFuzzer steers by is a pass of LLVM that a
//! stable compiler runs as well, so that neither cargo-fuzz nor nightly is needed; a sanitizer would
//! need nightly, and finds nothing in safe code that a panic does not tell.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};

/// Seconds for each target, or as many as `LEDGERMQ_FUZZ_SECONDS` says.
const SECONDS: u32 = 120;
/// MiB that a target may take before libFuzzer calls it a fault.
const MEMORY: u32 = 2048;

/// What cargo-fuzz gives to the compiler without a sanitizer.
const FLAGS: &[&str] = &[
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Cllvm-args=-sanitizer-coverage-stack-depth",
    "-Clink-dead-code",
    "-Cdebug-assertions",
    "-Ccodegen-units=1",
    "--cfg=fuzzing",
];

/// Builds and runs every program of `fuzz/`.
pub(crate) fn run(root: &Path) -> Result<()> {
    let seconds = match env::var("LEDGERMQ_FUZZ_SECONDS") {
        Ok(text) => text.parse().context("LEDGERMQ_FUZZ_SECONDS is no number")?,
        Err(_) => SECONDS,
    };
    let programs = build(root)?;
    for name in names(root)? {
        // What libFuzzer finds goes to the first folder.
        let found = root.join("target").join("fuzz").join("found").join(&name);
        fs::create_dir_all(&found).with_context(|| found.display().to_string())?;
        let artifacts = format!("-artifact_prefix={}/broke-", found.display());
        let status = Command::new(programs.join(&name))
            .arg(&found)
            .arg(root.join("tests").join("fuzz").join("corpus").join(&name))
            .args([format!("-max_total_time={seconds}"), format!("-rss_limit_mb={MEMORY}")])
            .args([artifacts, "-print_final_stats=1".to_owned()])
            .status()
            .with_context(|| format!("starting the fuzzer of {name}"))?;
        ensure!(
            status.success(),
            "{name}: put the input, {}/broke-*, into tests/fuzz/corpus/{name} and mend it",
            found.display()
        );
    }
    Ok(())
}

/// Names of the programs.
fn names(root: &Path) -> Result<Vec<String>> {
    let programs = root.join("fuzz").join("fuzz_targets");
    let mut names = Vec::new();
    for entry in fs::read_dir(&programs).with_context(|| programs.display().to_string())? {
        let path = entry.context("a program of fuzz/")?.path();
        names.extend(path.file_stem().map(|name| name.to_string_lossy().into_owned()));
    }
    names.sort();
    Ok(names)
}

/// Builds all programs; gives their folder.
fn build(root: &Path) -> Result<PathBuf> {
    let target = root.join("target").join("fuzz");
    let host = host()?;
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    // The versions that everything else is built with; cargo adds libFuzzer's.
    let lock = root.join("fuzz").join("Cargo.lock");
    fs::copy(root.join("Cargo.lock"), &lock).with_context(|| lock.display().to_string())?;
    // With a target named, what runs in the build is not instrumented.
    let status = Command::new(cargo)
        .args(["build", "--release", "--bins", "--target", &host, "--target-dir"])
        .arg(&target)
        .current_dir(root.join("fuzz"))
        .env("CARGO_ENCODED_RUSTFLAGS", FLAGS.join("\u{1f}"))
        .status()
        .context("building the fuzzers")?;
    ensure!(status.success(), "the fuzzers cannot be built: libFuzzer needs a C++ compiler");
    Ok(target.join(host).join("release"))
}

/// The triple that rustc builds for.
fn host() -> Result<String> {
    let told = Command::new("rustc").arg("-vV").output().context("asking rustc for its host")?;
    let told = String::from_utf8_lossy(&told.stdout).into_owned();
    let host = told.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.with_context(|| format!("rustc names no host: {told}"))?.to_owned())
}
