//! Runs one suite of cases and judges it by its closing line.

use std::{collections::BTreeSet, env, fs, path::Path, process::Command, time::Duration};

use anyhow::{Context, Result, bail, ensure};

use crate::{TOOLS, folder, libraries, node::Product, process::Process};

/// Sources of the suite of the Java client.
const SUITE: [&str; 9] = [
    "Suite.java",
    "Runner.java",
    "Checks.java",
    "Scene.java",
    "Sending.java",
    "Consuming.java",
    "Redelivery.java",
    "Popping.java",
    "Queries.java",
];

/// Sources of the cases of POP.
const POP_SUITE: [&str; 5] =
    ["PopSuite.java", "Runner.java", "Checks.java", "Scene.java", "Popping.java"];

/// Sources of the suite of the Java client for gRPC.
const GRPC_SUITE: [&str; 5] =
    ["GrpcSuite.java", "Runner.java", "GrpcScene.java", "GrpcSending.java", "GrpcConsuming.java"];

/// Versions of the gRPC clients.
pub const GRPC_JAVA: &str = "5.2.0";
const GRPC_PYTHON: &str = "rocketmq-python-client==5.1.2";
const GRPC_NODE: &str = "rocketmq-client-nodejs@1.0.8";

/// Time for all cases of a gRPC client, of which some wait for messages that come again.
const GRPC_LIMIT: Duration = Duration::from_secs(600);

/// Where a suite finds what it talks to.
#[derive(Debug, Clone)]
pub struct Address {
    /// The name server.
    pub name_server: String,
    /// The broker.
    pub broker: String,
}

impl Address {
    /// The broker's port.
    ///
    /// # Errors
    /// Where the address has none.
    pub fn broker_port(&self) -> Result<u16> {
        let port = self.broker.rsplit(':').next().and_then(|port| port.parse().ok());
        port.with_context(|| format!("{} is no address with a port", self.broker))
    }
}

/// A program that runs cases of a client and prints `N passed, N failed, N skipped` at its end.
#[derive(Debug)]
pub struct Suite {
    /// Its name in left-out.txt and in environment variables.
    name: &'static str,
    command: Command,
    limit: Duration,
}

impl Suite {
    /// The Java client of `version`, named `java-<version>`.
    ///
    /// # Errors
    /// Where the client cannot be fetched or the suite not compiled.
    pub fn java(name: &'static str, version: &str) -> Result<Self> {
        let class_path = libraries::class_path("rocketmq-client", version)?;
        let class_path = libraries::compile(name, &SUITE, &class_path)?;
        let command = java(&class_path, "Suite");
        Ok(Self { name, command, limit: Duration::from_secs(300) })
    }

    /// POP by the Java client 5.5.0.
    ///
    /// # Errors
    /// Where the client cannot be fetched or the suite not compiled.
    pub fn pop() -> Result<Self> {
        let class_path = libraries::class_path("rocketmq-client", "5.5.0")?;
        let class_path = libraries::compile("java-pop", &POP_SUITE, &class_path)?;
        let command = java(&class_path, "PopSuite");
        Ok(Self { name: "java-pop", command, limit: Duration::from_secs(300) })
    }

    /// The commands of mqadmin.
    ///
    /// # Errors
    /// Where the tools cannot be fetched or the suite not compiled.
    pub fn mqadmin() -> Result<Self> {
        let class_path = libraries::class_path("rocketmq-tools", TOOLS)?;
        let class_path = libraries::compile("mqadmin", &["MqAdmin.java"], &class_path)?;
        let mut command = java(&class_path, "MqAdmin");
        command.arg(folder::sources().join("mqadmin").join("cases.txt"));
        Ok(Self { name: "mqadmin", command, limit: Duration::from_secs(300) })
    }

    /// The admin interface behind mqadmin, on consumers that are online.
    ///
    /// # Errors
    /// Where the tools cannot be fetched or the suite not compiled.
    pub fn online_admin() -> Result<Self> {
        let class_path = libraries::class_path("rocketmq-tools", TOOLS)?;
        let class_path = libraries::compile("admin", &["OnlineAdmin.java"], &class_path)?;
        let command = java(&class_path, "OnlineAdmin");
        Ok(Self { name: "online-admin", command, limit: Duration::from_secs(300) })
    }

    /// The Go client.
    ///
    /// # Errors
    /// Where it cannot be built.
    pub fn go() -> Result<Self> {
        let command = Command::new(libraries::go_program()?);
        Ok(Self { name: "go", command, limit: Duration::from_secs(300) })
    }

    /// The Java client for gRPC.
    ///
    /// # Errors
    /// Where the client cannot be fetched or the suite not compiled.
    pub fn grpc_java() -> Result<Self> {
        let class_path = libraries::class_path("rocketmq-client-java", GRPC_JAVA)?;
        let class_path = libraries::compile("java-grpc", &GRPC_SUITE, &class_path)?;
        let command = java(&class_path, "GrpcSuite");
        Ok(Self { name: "java-grpc", command, limit: GRPC_LIMIT })
    }

    /// The Python client for gRPC.
    ///
    /// # Errors
    /// Where it cannot be fetched.
    pub fn grpc_python() -> Result<Self> {
        let mut command = Command::new(libraries::python(GRPC_PYTHON)?);
        command.arg("-B").arg(folder::sources().join("python").join("suite.py"));
        Ok(Self { name: "python-grpc", command, limit: GRPC_LIMIT })
    }

    /// The Node client for gRPC.
    ///
    /// # Errors
    /// Where it cannot be fetched.
    pub fn grpc_node() -> Result<Self> {
        let modules = libraries::node(GRPC_NODE)?.join("node_modules");
        let mut command = Command::new("node");
        command.arg(folder::sources().join("node").join("suite.js")).env("NODE_PATH", modules);
        Ok(Self { name: "node-grpc", command, limit: GRPC_LIMIT })
    }

    /// Through the proxy at an address, on topics and groups with this prefix.
    #[must_use]
    pub fn through(mut self, proxy: &str, prefix: &str) -> Self {
        self.command.env("PROXY_ADDR", proxy).env("PREFIX", prefix);
        self
    }

    /// Only the cases whose name holds one of `cases`.
    #[must_use]
    pub fn only(mut self, cases: &[&str]) -> Self {
        self.command.args(cases);
        self
    }

    /// With these flags for the JVM.
    #[must_use]
    pub fn with_properties(mut self, properties: &[String]) -> Self {
        if !properties.is_empty() {
            self.command.env("JAVA_TOOL_OPTIONS", properties.join(" "));
        }
        self
    }

    /// With `run` in all names that it makes, and what each case prints kept in `folder`.
    ///
    /// # Errors
    /// Where the folder cannot be made.
    pub fn keeping_outputs(mut self, run: &str, folder: &Path) -> Result<Self> {
        fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        self.command.env("RUN", run).env("OUTPUTS", folder);
        Ok(self)
    }

    /// With little time for each case: for those that must fail.
    #[must_use]
    pub fn quick(mut self) -> Self {
        self.command.env("CASE_TIMEOUT_S", "15");
        self
    }

    /// Runs the suite with its files in `folder` against `address`. `LEDGERMQ_INTEROP_CASES` may
    /// name the cases to run, parted by commas.
    ///
    /// # Errors
    /// Where a case failed, or none ran.
    pub fn run(mut self, product: Product, folder: &Path, address: &Address) -> Result<()> {
        let folder = folder.join(self.name);
        fs::create_dir_all(folder.join("conf")).context("creating the suite's folder")?;
        let left_out = left_out(self.name, product)?;
        self.command
            .env("NAMESRV_ADDR", &address.name_server)
            .env("BROKER_ADDR", &address.broker)
            .env("BROKER_NAME", "broker-a")
            .env("CLUSTER", "DefaultCluster")
            .env("ROCKETMQ_HOME", &folder)
            .env("HOME", &folder)
            .env("LEFT_OUT", Vec::from_iter(left_out).join(","));
        if let Ok(cases) = env::var("LEDGERMQ_INTEROP_CASES") {
            self.command.args(cases.split(',').filter(|case| !case.is_empty()));
        }
        let mut process = Process::start(self.name, &mut self.command, &folder)?;
        let ended = process.wait(self.limit);
        let output = process.output()?;
        crate::show(&output);
        let status = ended?;
        let (passed, failed) = closing_line(&output).context("the suite has no closing line")?;
        ensure!(failed == 0 && status.success(), "{}: {failed} cases failed, {status}", self.name);
        ensure!(passed > 0, "{}: no case ran", self.name);
        Ok(())
    }
}

/// Compares what the cases of mqadmin printed on two brokers, kept in one folder each, after what
/// masks.txt hides. Gives what the comparison says, and whether all is equal.
///
/// # Errors
/// Where the comparison cannot be run.
pub fn compare_outputs(theirs: &Path, ours: &Path) -> Result<(String, bool)> {
    let class_path = libraries::compile("compared", &["Compared.java"], ".")?;
    let mut command = java(&class_path, "Compared");
    command.arg(folder::sources().join("mqadmin").join("masks.txt")).arg(theirs).arg(ours);
    let output = command.output().context("starting the comparison")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let complaint = String::from_utf8_lossy(&output.stderr);
    let (passed, failed) = closing_line(&text)
        .with_context(|| format!("the comparison has no closing line: {text}{complaint}"))?;
    Ok((text, passed > 0 && failed == 0 && output.status.success()))
}

/// The command of a Java program on this class path.
#[must_use]
pub fn java(class_path: &str, main: &str) -> Command {
    let mut command = Command::new("java");
    command.args(libraries::OPENS).args(["-Xmx512m", "-XX:TieredStopAtLevel=1"]);
    command.args(["-XX:+UseSerialGC", "-Djava.net.preferIPv4Stack=true"]);
    command.args(["-Drocketmq.client.logRoot=logs", "-Duser.home=."]);
    command.args(["-cp", class_path, main]);
    command
}

/// The numbers in the last `N passed, N failed`.
fn closing_line(output: &str) -> Option<(u32, u32)> {
    output.lines().rev().find_map(|line| {
        let mut parts = line.split(", ");
        let passed = parts.next()?.strip_suffix(" passed")?.parse().ok()?;
        let failed = parts.next()?.strip_suffix(" failed")?.parse().ok()?;
        Some((passed, failed))
    })
}

/// Cases of `suite` that left-out.txt excuses for `product`.
fn left_out(suite: &str, product: Product) -> Result<BTreeSet<String>> {
    let path = folder::sources().join("left-out.txt");
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    excused(&text, suite, product)
}

fn excused(text: &str, suite: &str, product: Product) -> Result<BTreeSet<String>> {
    let mut cases = BTreeSet::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let columns: Vec<&str> = line.split('|').map(str::trim).collect();
        let [suites, case, whose, reason] = columns[..] else {
            bail!("left-out.txt: `{line}` must be suites | case | whose | reason");
        };
        ensure!(!reason.is_empty(), "left-out.txt: `{line}` gives no reason");
        let whose = match whose {
            "any" => true,
            "ours" => product == Product::Ours,
            _ => bail!("left-out.txt: `{whose}` in `{line}` must be `any` or `ours`"),
        };
        if whose && suites.split(' ').any(|part| part == suite) {
            cases.insert(case.to_owned());
        }
    }
    Ok(cases)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closing_line_is_found() {
        assert_eq!(closing_line("x PASS\n34 passed, 1 failed, 2 skipped\n"), Some((34, 1)));
        assert_eq!(closing_line("3 passed, 0 failed\nbye\n"), Some((3, 0)));
        assert_eq!(closing_line("nothing passed, 0 failed\n"), None);
    }

    #[test]
    fn a_case_is_left_out_by_suite_and_product() {
        let text = "# why\ngo java | tx | ours | later\ngo | rpc | any | broken in the client\n";
        let all = |suite, product| Vec::from_iter(excused(text, suite, product).unwrap());
        assert_eq!(all("go", Product::Ours), ["rpc", "tx"]);
        assert_eq!(all("java", Product::Ours), ["tx"]);
        assert_eq!(all("go", Product::Apache("5.5.0")), ["rpc"]);
        assert!(excused("go | tx | ours |\n", "go", Product::Ours).is_err());
        assert!(excused("go | tx | theirs | x\n", "go", Product::Ours).is_err());
    }
}
