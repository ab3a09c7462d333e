//! Three brokers of one group, started with the samples of conf/, and name servers.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::TcpListener,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};

use serde_json::Value;

use super::{LONG, Server, ledgermq, places};

/// How many brokers.
pub(crate) const MEMBERS: usize = 3;

/// Broker ids and addresses by what the name server says.
pub(crate) type Route = BTreeMap<i64, String>;

/// A port that is free, with the fast port two below it, and is given once. The system gives those of
/// this range to no connection, so that it is free still where a member comes back to it.
pub(crate) fn free_port() -> u16 {
    static GIVEN: AtomicU32 = AtomicU32::new(0);
    let free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
    for _ in 0..1000 {
        let number = GIVEN.fetch_add(4, Ordering::Relaxed);
        let place = std::process::id().wrapping_mul(128).wrapping_add(number) % 20_000;
        let port = 11_000 + u16::try_from(place).expect("below 20,000");
        if free(port) && free(port - 2) {
            return port;
        }
    }
    panic!("no port is free");
}

/// All of them, and their ports.
pub(crate) struct World {
    /// Name servers.
    pub(crate) names: Vec<Server>,
    /// Those that run.
    pub(crate) nodes: Vec<Option<Server>>,
    /// Ports for clients, then for members.
    ports: Vec<u16>,
    folder: tempfile::TempDir,
    extra: Box<ExtraOf>,
}

/// Gives it for each member, by its number and folder.
type ExtraOf = dyn Fn(usize, &Path) -> Extra;

/// How a member is started beside the sample.
#[derive(Default)]
pub(crate) struct Extra {
    /// A command that runs what follows it.
    pub(crate) by: Vec<String>,
    /// Keys, `name=value`.
    pub(crate) sets: Vec<String>,
}

impl World {
    /// Starts them; they are not yet elected.
    pub(crate) fn new(name_servers: usize) -> Self {
        Self::with(name_servers, |_, _| Extra::default())
    }

    /// The same, with more for each member, by its number and folder.
    pub(crate) fn with(
        name_servers: usize,
        extra: impl Fn(usize, &Path) -> Extra + 'static,
    ) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let ports = (0..MEMBERS * 2).map(|_| free_port()).collect();
        let name_server = |number| {
            let home = folder.path().join(format!("namesrv-{number}"));
            std::fs::create_dir(&home).expect("a folder");
            Server::start(&home, &["namesrv", "--listen", "127.0.0.1:0"])
        };
        let names = (0..name_servers).map(name_server).collect();
        let nodes = (0..MEMBERS).map(|_| None).collect();
        let mut world = Self { names, nodes, ports, folder, extra: Box::new(extra) };
        (0..MEMBERS).for_each(|node| world.spawn(node));
        world.nodes.iter_mut().flatten().for_each(Server::wait_ready);
        world
    }

    /// Starts a member that does not run.
    pub(crate) fn spawn(&mut self, node: usize) {
        self.nodes[node] = Some(self.started(node, &[]));
    }

    /// Starts a member, without keeping it, with more keys.
    pub(crate) fn started(&self, node: usize, sets: &[&str]) -> Server {
        let home = self.home(node);
        std::fs::create_dir_all(home.join("store")).expect("a folder");
        let Extra { by, .. } = (self.extra)(node, &home);
        let by: Vec<&str> = by.iter().map(String::as_str).collect();
        Server::spawn_by(&by, &home, &self.arguments(node, sets))
    }

    /// The words that start a member.
    pub(crate) fn arguments(&self, node: usize, sets: &[&str]) -> Vec<String> {
        let namesrv: Vec<String> = self.names.iter().map(|one| one.address("namesrv")).collect();
        let namesrv = namesrv.join(";");
        let words = ["broker", "-n", &namesrv, "--http-listen", "127.0.0.1:0"];
        let words = words.into_iter().map(str::to_owned);
        words.chain(self.configuration(node, sets)).collect()
    }

    /// The words that give its configuration.
    pub(crate) fn configuration(&self, node: usize, sets: &[&str]) -> Vec<String> {
        let sample = format!("{}/../conf/dledger/broker-n{node}.conf", env!("CARGO_MANIFEST_DIR"));
        let home = self.home(node);
        let mut arguments = vec!["-c".to_owned(), sample];
        let Extra { sets: extra, .. } = (self.extra)(node, &home);
        let own = [
            format!("dLegerPeers={}", self.peers()),
            format!("listenPort={}", self.ports[node]),
            format!("storePathRootDir={}", home.join("store").display()),
            "mappedFileSizeCommitLog=16777216".to_owned(),
            "diskSpaceWarningLevelRatio=99".to_owned(),
            "cleanFileForciblyEnable=false".to_owned(),
        ];
        let sets = sets.iter().map(|set| (*set).to_owned());
        for set in own.into_iter().chain(extra).chain(sets) {
            arguments.extend(["--set".to_owned(), set]);
        }
        arguments
    }

    /// Folder of a member; its data is in `store` there.
    pub(crate) fn home(&self, node: usize) -> PathBuf {
        self.folder.path().join(format!("n{node}"))
    }

    /// What each member says of itself; nothing where none answers.
    pub(crate) fn status(&self) -> Vec<Value> {
        let peers = self.peers();
        let words = ["admin", "group", "status", "--group", "RaftNode00", "--json", "--peers"];
        let (_, out, _) = ledgermq(&[&words[..], &[peers.as_str()]].concat(), "");
        serde_json::from_str(&out).unwrap_or_default()
    }

    /// Waits until every member is whole and well and has all: then any two of them are enough.
    pub(crate) fn wait_whole(&self) {
        let begun = Instant::now();
        loop {
            let members = self.status();
            let whole = |told: &Value| {
                told["doubt"].is_null()
                    && told["healthy"] == true
                    && !told["end"].is_null()
                    && told["end"] == members[0]["end"]
            };
            if members.len() == MEMBERS && members.iter().all(whole) {
                return;
            }
            assert!(begun.elapsed() < LONG, "{members:?}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Hands the lead to a member, again and again until it takes it.
    pub(crate) fn hand_to(&self, node: usize) {
        let (to, peers) = (format!("n{node}"), self.peers());
        let words = ["admin", "group", "transfer", "--group", "RaftNode00", "--to", &to, "--peers"];
        let begun = Instant::now();
        loop {
            let (done, _, errors) = ledgermq(&[&words[..], &[peers.as_str()]].concat(), "");
            if done {
                break;
            }
            assert!(begun.elapsed() < LONG, "{errors}");
            std::thread::sleep(Duration::from_millis(100));
        }
        while self.settled(&[0, 1, 2]) != node {
            assert!(begun.elapsed() < LONG, "{to} is not the master at the name server");
        }
    }

    /// The members as dLegerPeers has them.
    pub(crate) fn peers(&self) -> String {
        let peer = |node| format!("n{node}-127.0.0.1:{}", self.ports[MEMBERS + node]);
        (0..MEMBERS).map(peer).collect::<Vec<_>>().join(";")
    }

    /// Where a member serves clients.
    pub(crate) fn address(&self, node: usize) -> String {
        format!("127.0.0.1:{}", self.ports[node])
    }

    /// Who is registered at a name server.
    pub(crate) fn route(names: &Server) -> Route {
        let told = names.run(&["admin", "cluster", "--json"]);
        let rows: Value = serde_json::from_str(&told).expect("JSON");
        let row = |row: &Value| {
            let address = row["address"].as_str().expect("an address").to_owned();
            (row["id"].as_i64().expect("an id"), address)
        };
        rows.as_array().expect("a list").iter().map(row).collect()
    }

    /// Waits until the first name server knows these members, as [`World::settled_at`] has it.
    pub(crate) fn settled(&self, members: &[usize]) -> usize {
        self.settled_at(&self.names[0], members)
    }

    /// Waits until a name server knows these members, one of them as master and each other one by
    /// the number of its id; gives the master.
    pub(crate) fn settled_at(&self, names: &Server, members: &[usize]) -> usize {
        let address = |node: usize| self.address(node);
        let begun = Instant::now();
        loop {
            let route = Self::route(names);
            let master = members.iter().find(|node| route.get(&0) == Some(&address(**node)));
            if let Some(master) = master {
                let slaves = members.iter().filter(|node| *node != master);
                let mut expected: Route = slaves
                    .map(|node| (i64::try_from(*node).expect("small") + 1, address(*node)))
                    .collect();
                expected.insert(0, address(*master));
                if route == expected {
                    return *master;
                }
            }
            if begun.elapsed() > LONG {
                let logs: Vec<_> = self.nodes.iter().flatten().map(Server::errors).collect();
                panic!("{members:?} are not there: {route:?}\n{}", logs.join("\n"));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Ends a member by SIGKILL.
    pub(crate) fn kill(&mut self, node: usize) {
        self.nodes[node].take().expect("a node that runs").kill();
    }

    /// Sends so many messages; gives where each of them is.
    pub(crate) fn send(&self, topic: &str, count: usize) -> BTreeSet<(i64, i64, String)> {
        let lines: String = (0..count).map(|n| format!("m{n}\n")).collect();
        let told = self.names[0].run_with_input(&["send", topic, "--json"], &lines);
        let sent = places(&told);
        assert_eq!(sent.len(), count, "{told}");
        sent
    }

    /// Waits until all of these can be consumed.
    pub(crate) fn wait_readable(&self, topic: &str, expected: &BTreeSet<(i64, i64, String)>) {
        self.names[0]
            .run_until(&["consume", topic, "--json"], |seen| expected.is_subset(&places(seen)));
    }
}
