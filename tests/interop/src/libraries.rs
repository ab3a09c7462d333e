//! Official clients and brokers from Maven Central, and our programs built against them.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Mutex, PoisonError},
    time::SystemTime,
};

use anyhow::{Context, Result, ensure};

use crate::folder;

/// Flags that Java 17 needs for the way in which RocketMQ reaches into `java.nio`.
pub const OPENS: [&str; 2] =
    ["--add-opens=java.base/java.nio=ALL-UNNAMED", "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED"];

/// Class path of `artifact` (of group org.apache.rocketmq) and all that it needs. Fetched once.
///
/// # Errors
/// Where Maven cannot be run or fails.
pub fn class_path(artifact: &str, version: &str) -> Result<String> {
    let folder = folder::interop()?.join("lib").join(format!("{artifact}-{version}"));
    let done = folder.join(".done");
    if !done.exists() {
        let mut command = Command::new("mvn");
        command.args(["-q", "-B", "-f"]).arg(folder::sources().join("pom.xml"));
        command.arg("dependency:copy-dependencies");
        command.arg(format!("-Dartifact={artifact}")).arg(format!("-Dv={version}"));
        command.arg(format!("-DoutputDirectory={}", folder.display()));
        run(&mut command)?;
        fs::File::create(&done).with_context(|| format!("creating {}", done.display()))?;
    }
    Ok(folder.join("*").display().to_string())
}

/// Compiles the Java sources of `java/` named `sources` against `class_path` and returns the whole
/// class path to run them with.
///
/// # Errors
/// Where javac cannot be run or fails.
pub fn compile(name: &str, sources: &[&str], class_path: &str) -> Result<String> {
    let sources: Vec<PathBuf> =
        sources.iter().map(|source| folder::sources().join("java").join(source)).collect();
    let out = folder::interop()?.join("classes").join(name);
    let whole = format!("{}:{class_path}", out.display());
    let done = out.join(".done");
    if is_newer(&done, &sources)? {
        return Ok(whole);
    }
    fs::create_dir_all(&out).with_context(|| format!("creating {}", out.display()))?;
    let mut command = Command::new("javac");
    command.args(["-nowarn", "-Xlint:-options", "-encoding", "UTF-8", "-cp", class_path, "-d"]);
    command.arg(&out).args(&sources);
    run(&mut command)?;
    fs::File::create(&done).with_context(|| format!("creating {}", done.display()))?;
    Ok(whole)
}

/// The command of a server of Java's DLedger library, which `rocketmq-broker` brings; what is missing
/// are its arguments.
///
/// # Errors
/// Where Maven or the compiler fails.
pub fn dledger_server(version: &str) -> Result<Command> {
    let class_path = class_path("rocketmq-broker", version)?;
    let class_path = compile("dledger-server", &["DledgerServer.java"], &class_path)?;
    let mut command = Command::new("java");
    command.args(OPENS).args(["-server", "-Xms1g", "-Xmx1g"]);
    command.arg(format!("-Duser.home={}", std::env::temp_dir().display()));
    command.args(["-Djava.net.preferIPv4Stack=true", "-cp", &class_path, "DledgerServer"]);
    Ok(command)
}

/// Builds the Go program in `go/` and returns its path.
///
/// # Errors
/// Where Go cannot be run or fails.
pub fn go_program() -> Result<PathBuf> {
    let out = folder::interop()?.join("go").join("suite");
    let source = folder::sources().join("go");
    run(Command::new("go").args(["build", "-o"]).arg(&out).arg(".").current_dir(source))?;
    Ok(out)
}

/// A Python environment with `package` (`name==version`) in it, as the path of its interpreter. Fetched
/// once.
///
/// # Errors
/// Where Python cannot be run or the package not be fetched.
pub fn python(package: &str) -> Result<PathBuf> {
    let folder = folder::interop()?.join("python").join(package);
    let (interpreter, done) = (folder.join("bin").join("python"), folder.join(".done"));
    if !done.exists() {
        run(Command::new("python3").args(["-m", "venv"]).arg(&folder))?;
        let mut command = Command::new(&interpreter);
        run(command.args(["-m", "pip", "install", "--quiet", package]))?;
        fs::File::create(&done).with_context(|| format!("creating {}", done.display()))?;
    }
    Ok(interpreter)
}

/// A folder in whose `node_modules` there is `package` (`name@version`). Fetched once.
///
/// # Errors
/// Where npm cannot be run or fails.
pub fn node(package: &str) -> Result<PathBuf> {
    let folder = folder::interop()?.join("node").join(package);
    let done = folder.join(".done");
    if !done.exists() {
        fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
        let mut command = Command::new("npm");
        run(command.args(["install", "--silent", "--prefix"]).arg(&folder).arg(package))?;
        fs::File::create(&done).with_context(|| format!("creating {}", done.display()))?;
    }
    Ok(folder)
}

/// Builds our own binary and returns its path; or the one that `LEDGERMQ_BIN` names. It is built once: a
/// server that is started again does not wait for cargo, nor for whoever else builds.
///
/// # Errors
/// Where cargo cannot be run or fails.
pub fn ledgermq() -> Result<PathBuf> {
    static BUILT: Mutex<Option<PathBuf>> = Mutex::new(None);
    if let Some(binary) = std::env::var_os("LEDGERMQ_BIN") {
        return Ok(binary.into());
    }
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(binary) = &*built {
        return Ok(binary.clone());
    }
    let target = folder::target()?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command
        .args(["build", "--quiet", "--package", "ledgermq", "--bin", "ledgermq", "--target-dir"])
        .arg(&target);
    run(command.current_dir(folder::sources()))?;
    Ok(built.insert(target.join("debug").join("ledgermq")).clone())
}

fn is_newer(done: &Path, sources: &[PathBuf]) -> Result<bool> {
    let modified = |path: &Path| -> Result<SystemTime> {
        let metadata = fs::metadata(path).with_context(|| path.display().to_string())?;
        metadata.modified().context("the time of a file")
    };
    if !done.exists() {
        return Ok(false);
    }
    let built = modified(done)?;
    for source in sources {
        if modified(source)? > built {
            return Ok(false);
        }
    }
    Ok(true)
}

fn run(command: &mut Command) -> Result<()> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("starting {command:?}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "{command:?} ended with {}:\n{text}{complaint}",
        output.status
    );
    Ok(())
}
