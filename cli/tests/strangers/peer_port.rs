//! The peer port of members that run as `ledgermq dledger server`: members, clients of the log and
//! strangers reach it alike.

use std::{
    fs::File,
    io::{Read, Write},
    net::TcpStream,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::Value;

use super::{Random, answer_to, bytes_of, peer};
use crate::process::{LONG, ledgermq, world::free_port};

/// Requests of members and clients (`DLedgerRequestCode.java`), ours, and one of nobody.
const CODES: [i32; 14] = [
    50_000, 50_001, 50_002, 51_001, 51_002, 51_003, 51_004, 51_005, 51_006, 52_001, 52_002, 52_003,
    52_004, 52_005,
];

/// Three members, killed when the test ends.
struct Group {
    members: Vec<Child>,
    peers: String,
    ports: Vec<u16>,
    folder: tempfile::TempDir,
}

impl Group {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let ports: Vec<u16> = (0..3).map(|_| free_port()).collect();
        let name = |(nth, port): (usize, &u16)| format!("n{nth}-127.0.0.1:{port}");
        let peers = ports.iter().enumerate().map(name).collect::<Vec<_>>().join(";");
        let mut group = Self { members: Vec::new(), peers, ports, folder };
        for nth in 0..3 {
            let id = format!("n{nth}");
            let data = group.folder.path().join(&id);
            let words = ["dledger", "server", "--file-size", "1048576", "--bind", "127.0.0.1"];
            let member = Command::new(env!("CARGO_BIN_EXE_ledgermq"))
                .args(words)
                .args(["--id", &id, "--group", "g", "--peers", &group.peers])
                .arg("--dir")
                .arg(&data)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(File::create(group.log(nth)).unwrap())
                .spawn()
                .unwrap();
            group.members.push(member);
        }
        group
    }

    fn log(&self, nth: usize) -> std::path::PathBuf {
        self.folder.path().join(format!("err{nth}"))
    }

    fn errors(&self) -> String {
        let read = |nth| std::fs::read_to_string(self.log(nth)).unwrap();
        (0..3).map(read).collect::<Vec<_>>().join("\n--\n")
    }

    /// A command against the group: whether it succeeded, and what it printed.
    fn run(&self, words: &[&str]) -> (bool, String) {
        let group = ["--group", "g", "--peers", &self.peers];
        let (succeeded, output, errors) = ledgermq(&[&["dledger"], words, &group].concat(), "");
        (succeeded, output + &errors)
    }

    /// The same until it succeeds with what is wanted: the group may be electing.
    fn run_until(&self, words: &[&str], wanted: impl Fn(&str) -> bool) -> String {
        let begun = Instant::now();
        loop {
            let (succeeded, output) = self.run(words);
            if succeeded && wanted(&output) {
                return output;
            }
            assert!(begun.elapsed() < LONG, "{words:?}: {output}\nmembers:\n{}", self.errors());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn append(&self, body: &str) {
        self.run_until(&["append", body], |_| true);
    }

    /// The bodies of all entries that were appended as a test does it.
    fn bodies(&self) -> Vec<String> {
        let text = self.run_until(&["get", "0", "--count", "1000", "--body"], |_| true);
        text.lines().filter(|line| line.starts_with("m-")).map(str::to_owned).collect()
    }

    /// All members, once one leads and all know it.
    fn members(&self) -> Vec<Value> {
        let read = |text: &str| -> Vec<Value> {
            text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
        };
        let whole = |text: &str| {
            let members = read(text);
            let leader = members.iter().find(|one| one["role"] == "LEADER");
            leader.is_some_and(|leader| {
                members.len() == 3 && members.iter().all(|one| one["leader"] == leader["id"])
            })
        };
        read(&self.run_until(&["status", "--json"], whole))
    }

    /// The number of the member that leads.
    fn leader(&self) -> usize {
        self.members().iter().position(|member| member["role"] == "LEADER").unwrap()
    }

    fn address(&self, nth: usize) -> String {
        format!("127.0.0.1:{}", self.ports[nth])
    }

    /// Bytes of a member that are in memory and belong to no file.
    fn memory(&self, nth: usize) -> u64 {
        let path = format!("/proc/{}/status", self.members[nth].id());
        let text = std::fs::read_to_string(path).unwrap();
        let line = text.lines().find(|line| line.starts_with("RssAnon:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
    }

    /// Nothing was lost or doubled, and nobody has panicked or gone.
    fn is_sound(&mut self, appended: &[String]) {
        // An append whose answer was lost may be there twice.
        let mut bodies = self.bodies();
        bodies.dedup();
        assert_eq!(bodies, appended, "{}", self.errors());
        assert!(!self.errors().contains("panicked"), "{}", self.errors());
        for member in &mut self.members {
            assert!(member.try_wait().unwrap().is_none(), "a member has ended");
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for member in &mut self.members {
            drop(member.kill());
            drop(member.wait());
        }
    }
}

/// Bytes that are no frames, and frames of members and clients whose bodies are none.
#[test]
fn s_23_random_bytes_at_the_peer_ports_end_their_connection_and_nothing_else() {
    let mut group = Group::start();
    let mut appended = vec!["m-before".to_owned()];
    group.append("m-before");
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    for round in 0..60 {
        for nth in 0..3 {
            let mut bytes = match round % 4 {
                0 => vec![0, 0, 0, 64, 0, 0, 0, 32],
                1 => vec![0x16, 3, 1, 0, 200],
                2 => Vec::new(),
                _ => CODES
                    .iter()
                    .flat_map(|code| {
                        let body = random.bytes(64);
                        bytes_of(&protocol::Command::request(*code).with_body(body))
                    })
                    .collect(),
            };
            bytes.extend(random.bytes(512));
            let answer = answer_to(&group.address(nth), &bytes);
            // A status is an answer to whoever asks for one.
            assert!(answer.len() < 64 << 10, "{} bytes", answer.len());
        }
        if round % 20 == 0 {
            let body = format!("m-{round}");
            group.append(&body);
            appended.push(body);
        }
    }
    group.append("m-after");
    appended.push("m-after".to_owned());
    group.members();
    group.is_sound(&appended);
    let lines = group.errors().lines().count();
    assert!(lines < 2_000, "{lines} lines of the logs for 180 connections");
}

/// A length alone takes no memory, and its connection ends by the deadline of a frame, 10 s.
#[test]
fn s_13_claims_at_a_leaders_peer_port_cost_little_and_end() {
    let mut group = Group::start();
    group.append("m-before");
    let leader = group.leader();
    let before = group.memory(leader);
    let mut claims: Vec<TcpStream> = Vec::new();
    for _ in 0..200 {
        let mut stream = peer(&group.address(leader));
        stream.write_all(&16_777_000_u32.to_be_bytes()).unwrap();
        claims.push(stream);
    }
    group.append("m-beside");
    let grown = group.memory(leader).saturating_sub(before);
    assert!(grown < 32 << 20, "{grown} bytes for 200 connections");
    for mut claim in claims {
        let mut answer = Vec::new();
        // Closed, or reset: not a time-out.
        let read = claim.read_to_end(&mut answer);
        let timed_out = read.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock);
        assert!(!timed_out && answer.is_empty(), "open still, or answered: {answer:?}");
    }
    group.append("m-after");
    group.is_sound(&["m-before", "m-beside", "m-after"].map(str::to_owned));
}

/// `status --events` shows the flight recorders: who was elected by whom, whom the others follow,
/// and a hand-over on both sides.
#[test]
fn the_flight_recorders_of_all_members_are_shown_by_a_command() {
    let group = Group::start();
    group.append("m-1");
    // One that lacks something, or a group that elects, refuses.
    let begun = Instant::now();
    let (from, old, to) = loop {
        let from = group.leader();
        let (old, to) = (format!("n{from}"), format!("n{}", (from + 1) % 3));
        let (succeeded, output) = group.run(&["transfer", "--to", &to]);
        if succeeded {
            break (from, old, to);
        }
        assert!(begun.elapsed() < LONG, "{output}\nmembers:\n{}", group.errors());
    };
    let told = |text: &str, id: &str, what: &str| {
        text.lines().any(|line| {
            let Some((who, event)) = line.split_once("  ") else { return false };
            let time = event.split_whitespace().next().and_then(|word| word.parse::<u64>().ok());
            who == id && time.is_some_and(|time| time > 1_600_000_000_000) && event.contains(what)
        })
    };
    let turns = [
        (&old, "elected by".to_owned()),
        (&old, format!("hands the lead to {to}")),
        (&to, format!("is asked by {old} to lead")),
        (&to, "elected by".to_owned()),
        (&old, format!("follows {to}")),
    ];
    let text = group.run_until(&["status", "--events"], |text| {
        turns.iter().all(|(id, what)| told(text, id, what))
    });
    assert!(text.lines().any(|line| line.contains("LEADER")), "{text}");
    // Without the flag they are left out; as JSON they are there.
    let (_, plain) = group.run(&["status"]);
    assert!(!plain.contains("elected by"), "{plain}");
    let members = group.members();
    let events = members[from]["events"].as_array().unwrap();
    assert!(events.iter().any(|event| event.as_str().unwrap().contains("elected by")));
}
