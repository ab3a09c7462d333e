//! `ledgermq check-config`: what it says about a file, as an operator sees it.
#![expect(
    clippy::expect_used,
    reason = "this is a test; clippy knows only functions marked as tests"
)]

mod process;

use std::{io::Write, path::Path};

use serde_json::Value;

/// A broker.conf in which nothing is to be said but what a test adds. `FOLDER` is a place that can
/// be written, `PORT` the middle one of three that were free a moment ago.
const SOUND: &str = "\
enableDLegerCommitLog=true
brokerName=broker-a
brokerIP1=127.0.0.1
bindAddress=127.0.0.1
listenPort=PORT
namesrvAddr=127.0.0.1:9876
storePathRootDir=FOLDER
flushDiskType=SYNC_FLUSH
autoCreateTopicEnable=false
autoCreateSubscriptionGroup=false
mappedFileSizeCommitLog=65536
diskMaxUsedSpaceRatio=93
diskSpaceCleanForciblyRatio=98
diskSpaceWarningLevelRatio=99
";

struct World {
    folder: tempfile::TempDir,
    port: u16,
}

impl World {
    fn new() -> Self {
        // Both neighbours that the broker takes must be free too, or the file is not sound.
        let port = (20_000..32_000)
            .step_by(17)
            .map(|port| port + u16::try_from(std::process::id() % 16).unwrap_or(0))
            .find(|port| {
                let free = |at: u16| std::net::TcpListener::bind(("127.0.0.1", at)).is_ok();
                free(*port) && free(port - 2) && free(port + 5)
            });
        Self { folder: tempfile::tempdir().expect("a folder"), port: port.expect("free ports") }
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().expect("a name").to_owned()
    }

    fn write(&self, name: &str, text: &str) -> String {
        let text =
            text.replace("FOLDER", &self.path("data")).replace("PORT", &self.port.to_string());
        let mut file = std::fs::File::create(self.path(name)).expect("a file");
        file.write_all(text.as_bytes()).expect("written");
        self.path(name)
    }

    /// The findings about a sound file with more lines: severity, line, key, kind.
    fn more(&self, lines: &str) -> Vec<(String, Option<u64>, String, String)> {
        let file = self.write("broker.conf", &format!("{SOUND}{lines}"));
        let (succeeded, output, errors) = process::ledgermq(&["check-config", &file, "--json"], "");
        let report: Value = serde_json::from_str(&output).expect("a report");
        let errors_found = report["errors"].as_u64().expect("a number");
        assert_eq!(succeeded, errors_found == 0, "{output}{errors}");
        findings(&report)
    }

    /// As `more`, without what depends on the machine: that the folder does not exist yet, and how
    /// full its disk is. Kinds only.
    fn kinds(&self, lines: &str) -> Vec<String> {
        let seen = self.more(lines).into_iter();
        seen.map(|(severity, _, key, kind)| format!("{severity} {key} {kind}"))
            .filter(|kind| {
                !["new-folder", "full-disk", "small-disk"].iter().any(|it| kind.ends_with(it))
            })
            .collect()
    }
}

fn findings(report: &Value) -> Vec<(String, Option<u64>, String, String)> {
    let text = |one: &Value, name: &str| one[name].as_str().expect(name).to_owned();
    let findings = report["findings"].as_array().expect("a list");
    let tuple = |one: &Value| {
        (text(one, "severity"), one["line"].as_u64(), text(one, "key"), text(one, "kind"))
    };
    findings.iter().map(tuple).collect()
}

#[test]
fn about_a_sound_file_nothing_is_said() {
    assert_eq!(World::new().kinds(""), Vec::<String>::new());
}

#[test]
fn names_that_are_not_known_are_told_with_the_nearest() {
    let world = World::new();
    assert_eq!(
        world.kinds("brokerIp1=127.0.0.1\ndLegerPeer=n0-127.0.0.1:1\nnamesrvaddr=x\nfoo=bar\n"),
        [
            "error brokerIp1 misspelt-key",
            "error dLegerPeer misspelt-key",
            "error namesrvaddr misspelt-key",
            "warning foo unknown-key",
        ]
    );
    let file = world.write("broker.conf", "brokerIp1=127.0.0.1\n");
    let (succeeded, output, errors) = process::ledgermq(&["check-config", &file], "");
    assert!(!succeeded);
    assert!(output.contains("names are case sensitive, write brokerIP1"), "{output}");
    assert!(errors.contains("1 errors"), "{errors}");
}

#[test]
fn keys_of_java_without_effect_are_told_with_the_reason() {
    let world = World::new();
    // The second one says what holds anyway.
    let lines = "warmMapedFileEnable=true\ntransientStorePoolEnable=false\nstorePathCommitLog=/x\n";
    assert_eq!(
        world.kinds(lines),
        ["warning warmMapedFileEnable no-effect", "warning storePathCommitLog no-effect"]
    );
    assert_eq!(world.kinds("brokerRole=SLAVE\n"), ["error brokerRole bad-value"]);
}

#[test]
fn the_form_of_a_line_is_looked_at() {
    let world = World::new();
    let seen = world.more("traceOn=true \nregionId=here # or there\nregionId=\"there\"\n");
    let of_lines: Vec<_> = seen
        .iter()
        .filter(|(_, line, ..)| line.is_some_and(|line| line > 14))
        .map(|(severity, line, key, kind)| (&**severity, line.unwrap_or(0), &**key, &**kind))
        .collect();
    assert_eq!(
        of_lines,
        [
            ("warning", 15, "traceOn", "trailing-blank"),
            ("warning", 16, "regionId", "comment-in-value"),
            ("warning", 17, "regionId", "repeated-key"),
            ("warning", 17, "regionId", "quoted-value"),
        ]
    );
    assert_eq!(world.kinds("regionId=\\u12\n"), ["error  syntax"]);
}

#[test]
fn values_that_cannot_be_are_errors() {
    let world = World::new();
    for (line, key) in [
        ("maxMessageSize=0", "maxMessageSize"),
        ("fileReservedTime=soon", "fileReservedTime"),
        ("bindAddress=localhost", "bindAddress"),
        ("namesrvAddr=127.0.0.1:9876,127.0.0.1:9877", "namesrvAddr"),
        ("namesrvAddr=127.0.0.1", "namesrvAddr"),
    ] {
        let kinds = world.kinds(&format!("{line}\n"));
        assert!(kinds.contains(&format!("error {key} bad-value")), "{line}: {kinds:?}");
    }
}

#[test]
fn risks_are_warned_about() {
    let world = World::new();
    for (line, expected) in [
        ("bindAddress=0.0.0.0", "warning bindAddress open-listener"),
        ("bindAddress=0.0.0.0", "warning brokerIP1 useless-address"),
        ("brokerIP1=0.0.0.0", "error brokerIP1 useless-address"),
        ("brokerIP1=192.0.2.1", "error brokerIP1 useless-address"),
        ("bindAddress=192.0.2.1", "error bindAddress useless-address"),
        ("flushDiskType=ASYNC_FLUSH", "warning flushDiskType weak-durability"),
        ("autoCreateTopicEnable=true", "warning autoCreateTopicEnable automatic-creation"),
        ("fileReservedTime=1", "warning fileReservedTime short-retention"),
        ("diskSpaceWarningLevelRatio=97", "warning diskSpaceWarningLevelRatio order-of-ratios"),
        ("storePathRootDir=data", "warning storePathRootDir relative-path"),
        ("storePathRootDir=/proc/version", "error storePathRootDir bad-path"),
        ("storePathRootDir=/proc/version/x", "error storePathRootDir bad-path"),
        ("tls.server.certPath=/no/such.pem", "error tls.server.certPath bad-path"),
        ("listenPort=2", "error listenPort bad-value"),
        ("listenPort=0", "warning listenPort any-port"),
    ] {
        let kinds = world.kinds(&format!("{line}\n"));
        assert!(kinds.contains(&expected.to_owned()), "{line}: {kinds:?}");
    }
}

#[test]
fn a_port_that_is_taken_is_told() {
    let world = World::new();
    let _other = std::net::TcpListener::bind(("127.0.0.1", world.port - 2)).expect("it was free");
    assert_eq!(world.kinds(""), ["warning listenPort port-taken"]);
}

#[test]
fn members_of_a_group_are_checked() {
    let world = World::new();
    let port = world.port;
    for (peers, expected) in [
        ("n0-127.0.0.1".to_owned(), "error dLegerPeers bad-peers"),
        ("n1-127.0.0.1:1;n2-127.0.0.1:2;n3-127.0.0.1:3".to_owned(), "error dLegerPeers bad-peers"),
        ("n0-127.0.0.1:9;n1-127.0.0.1:9;n2-127.0.0.1:8".to_owned(), "error dLegerPeers bad-peers"),
        ("n0-127.0.0.1:29991;n1-127.0.0.1:29992".to_owned(), "warning dLegerPeers even-group"),
        (
            format!("n0-127.0.0.1:{port};n1-127.0.0.1:29992;n2-127.0.0.1:29993"),
            "error dLegerPeers port-twice",
        ),
    ] {
        let kinds = world.kinds(&format!("dLegerPeers={peers}\n"));
        assert!(kinds.contains(&expected.to_owned()), "{peers}: {kinds:?}");
    }
    let kinds = world.kinds("enableDLegerCommitLog=false\ndLegerPeers=n0-a:1;n1-b:1;n2-c:1\n");
    assert!(kinds.contains(&"warning dLegerPeers group-not-enabled".to_owned()), "{kinds:?}");
}

#[test]
fn thresholds_are_told_with_where_they_come_from() {
    let world = World::new();
    let file = world.write("broker.conf", &format!("{SOUND}maxMessageSize=1000\n"));
    let (_, output, _) = process::ledgermq(&["check-config", &file], "");
    let row = |key: &str| {
        let line = output.lines().find(|line| line.starts_with(key));
        let words = line.unwrap_or_default().split_whitespace();
        words.take(5).map(str::to_owned).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(row("maxMessageSize"), "maxMessageSize 1000 bytes line 15", "{output}");
    assert_eq!(row("fileReservedTime"), "fileReservedTime 72 hours default Age", "{output}");
    assert_eq!(row("deleteWhen"), "deleteWhen 04 default Hours of", "{output}");
    let durable = "Durability: an acknowledged message is fsynced of a group of one node";
    assert!(output.contains(durable), "{output}");
}

#[test]
fn the_file_of_a_name_server_is_known_by_its_keys() {
    let world = World::new();
    let kv = world.path("kv.json");
    let file = world.write(
        "namesrv.conf",
        &format!(
            "listenPort=PORT\nbindAddress=127.0.0.1\nkvConfigPath={kv}\norderMessageEnable=true \n\
             scanNotActiveBrokerInterval=1\nserverWorkerThreads=4\norderMesageEnable=true\n"
        ),
    );
    let (succeeded, output, _) = process::ledgermq(&["check-config", &file, "--json"], "");
    assert!(!succeeded);
    let report: Value = serde_json::from_str(&output).expect("a report");
    assert_eq!(report["server"], "namesrv");
    let kinds: Vec<String> =
        findings(&report).iter().map(|(s, _, key, kind)| format!("{s} {key} {kind}")).collect();
    assert_eq!(
        kinds,
        [
            "error scanNotActiveBrokerInterval bad-value",
            "error orderMesageEnable misspelt-key",
            "warning orderMessageEnable trailing-blank",
            "warning serverWorkerThreads no-effect",
        ]
    );
}

#[test]
fn warnings_are_errors_where_that_is_asked_for() {
    let world = World::new();
    let file = world.write("broker.conf", &format!("{SOUND}foo=bar\n"));
    assert!(process::ledgermq(&["check-config", &file], "").0);
    let (succeeded, _, errors) = process::ledgermq(&["check-config", &file, "--strict"], "");
    assert!(!succeeded);
    assert!(errors.contains("--strict"), "{errors}");
    assert!(Path::new(&world.path("data")).read_dir().is_err(), "it makes nothing");
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let (succeeded, _, errors) = process::ledgermq(&["check-config", "/no/such.conf"], "");
    assert!(!succeeded);
    assert!(errors.contains("/no/such.conf"), "{errors}");
}

/// Three files of one group on one host, in which nothing is to be said.
struct Trio {
    world: World,
    files: [String; 3],
}

impl Trio {
    /// `change` gets the number and the text of each file.
    fn new(change: impl Fn(usize, String) -> String) -> Self {
        let world = World::new();
        let base = usize::from(world.port);
        let files = [0, 1, 2].map(|n| {
            let text = SOUND
                .replace("listenPort=PORT", &format!("listenPort={}", base + 20 * n))
                .replace("FOLDER", &world.path(&format!("data-{n}")));
            let peers = [0, 1, 2].map(|n| format!("n{n}-127.0.0.1:{}", base + 100 + n)).join(";");
            let text = format!("{text}dLegerPeers={peers}\ndLegerSelfId=n{n}\n");
            world.write(&format!("n{n}.conf"), &change(n, text))
        });
        Self { world, files }
    }

    /// Findings about the group as severity, key, kind; and what is said of durability.
    fn group(&self) -> (Vec<String>, String) {
        let files = self.files.each_ref().map(String::as_str);
        let arguments = [["check-config"].as_slice(), &files, &["--json"]].concat();
        let (_, output, _) = process::ledgermq(&arguments, "");
        let report: Value = serde_json::from_str(&output).expect("a report");
        let group = &report["group"];
        let kinds =
            findings(group).into_iter().map(|(s, _, key, kind)| format!("{s} {key} {kind}"));
        (kinds.collect(), group["durability"].as_str().expect("a text").to_owned())
    }

    fn kinds(change: impl Fn(usize, String) -> String) -> Vec<String> {
        Self::new(change).group().0
    }
}

#[test]
fn about_three_files_that_fit_together_nothing_is_said() {
    let trio = Trio::new(|_, text| text);
    let (kinds, durability) = trio.group();
    assert_eq!(kinds, Vec::<String>::new());
    assert_eq!(durability, "an acknowledged message is fsynced on 2 of 3 nodes");
    let files = trio.files.each_ref().map(String::as_str);
    let arguments = [["check-config"].as_slice(), &files].concat();
    let (succeeded, output, errors) = process::ledgermq(&arguments, "");
    assert!(succeeded, "{output}{errors}");
    assert!(output.contains("Group of 3 files: 0 errors, 0 warnings"), "{output}");
    assert!(output.contains(&trio.world.path("n2.conf")), "{output}");
}

#[test]
fn what_does_not_fit_together_is_told() {
    let third = |from: &'static str, to: &'static str| {
        move |n: usize, text: String| if n == 2 { text.replace(from, to) } else { text }
    };
    for (from, to, expected) in [
        ("n0-127.0.0.1", "n0-127.0.0.2", "error dLegerPeers unequal-peers"),
        ("dLegerSelfId=n2", "dLegerSelfId=n1", "error dLegerSelfId duplicate-id"),
        ("dLegerSelfId=n2", "dLegerSelfId=n1", "warning dLegerPeers missing-member"),
        ("brokerName=broker-a", "brokerName=b", "error brokerName unequal-key"),
        ("=65536", "=131072", "error mappedFileSizeCommitLog unequal-key"),
        ("data-2", "data-1", "error storePathRootDir shared-folder"),
        ("data-2", "data-1/inside", "error storePathRootDir shared-folder"),
        ("SYNC_FLUSH", "ASYNC_FLUSH", "warning flushDiskType mixed-durability"),
        (
            "flushDiskType",
            "fileReservedTime=48\nflushDiskType",
            "warning fileReservedTime unequal-key",
        ),
    ] {
        let kinds = Trio::kinds(third(from, to));
        assert!(kinds.contains(&expected.to_owned()), "{from} -> {to}: {kinds:?}");
    }
    let (_, durability) = Trio::new(third("SYNC_FLUSH", "ASYNC_FLUSH")).group();
    assert!(
        durability.ends_with("of 2 of 3 nodes, and fsynced on 1 of them at least"),
        "{durability}"
    );
}

#[test]
fn members_that_share_a_place_on_the_network_are_told() {
    let moved = |n: usize, text: String| {
        let port = |line: &str| line.split_once('=').and_then(|(_, p)| p.parse::<u16>().ok());
        let line = text.lines().find(|line| line.starts_with("listenPort")).map(str::to_owned);
        let line = line.expect("a port");
        let own = port(&line).expect("a number");
        match n {
            // The fast port of the third one is the port of the second one's clients.
            2 => text.replace(&line, &format!("listenPort={}", own - 18)),
            _ => text,
        }
    };
    assert_eq!(Trio::kinds(moved), ["error listenPort port-twice"]);
    let same = |n: usize, text: String| {
        let line = text.lines().find(|line| line.starts_with("listenPort")).map(str::to_owned);
        let line = line.expect("a port");
        let own: u16 = line.trim_start_matches("listenPort=").parse().expect("a number");
        if n == 2 { text.replace(&line, &format!("listenPort={}", own - 20)) } else { text }
    };
    assert_eq!(Trio::kinds(same), ["error listenPort duplicate-address"]);
}

#[test]
fn members_on_loopback_whose_clients_are_elsewhere_are_warned_about() {
    let world = World::new();
    let lines = "dLegerPeers=n0-127.0.0.1:29991;n1-127.0.0.1:29992;n2-127.0.0.1:29993\n\
                 bindAddress=0.0.0.0\nbrokerIP1=192.0.2.1\n";
    let kinds = world.kinds(lines);
    assert!(kinds.contains(&"warning dLegerPeers loopback-peers".to_owned()), "{kinds:?}");
}
