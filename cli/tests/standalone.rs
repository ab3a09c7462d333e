//! The standalone server as a user has it: one process on free ports in an empty folder, spoken to
//! by the other commands of the same binary.

#![allow(clippy::disallowed_methods, reason = "the test starts processes")]

mod process;

use std::{collections::BTreeSet, fs};

use process::{Server, ledgermq, places};

fn bodies(out: &str) -> BTreeSet<String> {
    out.lines().map(ToOwned::to_owned).collect()
}

#[test]
fn messages_outlive_a_restart_and_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Server::standalone(folder.path());
    let banner = server.output();
    for part in ["ledgermq send", "ledgermq consume", "ledgermq-data", "fsynced"] {
        assert!(banner.contains(part), "{part} is missing in\n{banner}");
    }

    let sent = server.run(&["send", "TopicTest", "Hello", "--tag", "TagA", "--key", "k1"]);
    assert!(sent.contains("SEND_OK"), "{sent}");
    server.run_until(&["consume", "TopicTest"], |seen| {
        ["Hello", "TagA", "keys=k1"].iter().all(|part| seen.contains(part))
    });
    server.stop();

    let mut server = Server::standalone(folder.path());
    server.run_until(&["consume", "TopicTest", "--body"], |seen| seen == "Hello\n");
    let lines: String = (0..200).map(|n| format!("m{n}\n")).collect();
    let told = server.run_with_input(&["send", "TopicTest", "--json"], &lines);
    assert_eq!(told.lines().filter(|line| line.contains("SEND_OK")).count(), 200, "{told}");
    server.kill();

    let server = Server::standalone(folder.path());
    let mut expected = bodies(&lines);
    expected.insert("Hello".to_owned());
    server.run_until(&["consume", "TopicTest", "--body"], |seen| bodies(seen) == expected);
}

#[test]
fn what_was_acknowledged_under_load_is_at_its_place_after_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Server::standalone(folder.path());
    let acknowledged = folder.path().join("acknowledged");
    let mut sender = server
        .command(&["send", "T", "under load", "--count", "100000000", "--json"])
        .stdout(fs::File::create(&acknowledged).unwrap())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let begun = std::time::Instant::now();
    while fs::read_to_string(&acknowledged).unwrap().lines().count() < 2000 {
        assert!(begun.elapsed() < process::LONG, "too few messages were stored");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    server.kill();
    sender.kill().unwrap();
    sender.wait().unwrap();

    let server = Server::standalone(folder.path());
    let expected = places(&fs::read_to_string(&acknowledged).unwrap());
    server.run_until(&["consume", "T", "--json"], |seen| {
        let seen = places(seen);
        expected.is_subset(&seen)
    });
}

#[test]
fn a_group_goes_on_where_it_was_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Server::standalone(folder.path());
    server.run_with_input(&["send", "T"], "a\nb\nc\nd\n");
    server.run_until(&["consume", "T"], |seen| seen.lines().count() == 4);
    let first = server.run(&["consume", "T", "--group", "g", "--count", "3", "--body"]);
    assert_eq!(first.lines().count(), 3);
    server.stop();

    let server = Server::standalone(folder.path());
    let rest = server.run(&["consume", "T", "--group", "g", "--body"]);
    let mut all = bodies(&first);
    all.extend(bodies(&rest));
    assert_eq!(all, bodies("a\nb\nc\nd"));
    assert_eq!(rest.lines().count(), 1, "{rest}");
    let progress = server.run(&["admin", "offsets", "show", "g", "--topic", "T", "--json"]);
    assert!(progress.contains("\"lag\":0"), "{progress}");

    server.run(&["admin", "offsets", "reset", "g", "T", "--to", "first"]);
    let again = server.run(&["consume", "T", "--group", "g", "--body"]);
    assert_eq!(bodies(&again), bodies("a\nb\nc\nd"));
}

#[test]
fn topics_are_made_listed_and_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::standalone(folder.path());
    server.run(&["admin", "topic", "create", "Made", "--queues", "3"]);
    let route = server.run(&["admin", "topic", "route", "Made", "--json"]);
    assert!(route.contains("\"writeQueues\":3"), "{route}");
    assert!(server.run(&["admin", "topic", "list"]).lines().any(|line| line.trim() == "Made"));
    let sent = server.run(&["send", "Made", "x", "--json"]);
    server.run_until(&["admin", "topic", "status", "Made", "--json"], |status| {
        status.contains("\"maxOffset\":1")
    });
    let id = sent.split("\"offsetMsgId\":\"").nth(1).unwrap().split('"').next().unwrap();
    assert!(server.run(&["admin", "message", id]).contains("Made"));
    let cluster = server.run(&["admin", "cluster"]);
    assert!(cluster.contains("DefaultCluster") && cluster.contains("broker-a"), "{cluster}");
    server.run(&["admin", "topic", "delete", "Made"]);
    assert!(!server.run(&["admin", "topic", "list"]).lines().any(|line| line.trim() == "Made"));
}

#[test]
fn the_page_tells_that_it_is_ready() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::standalone(folder.path());
    assert_eq!(server.get("/livez"), "ok\n");
    assert_eq!(server.get("/readyz"), "ok\n");
    server.run(&["send", "T", "x"]);
    let metrics = server.get("/metrics");
    let line = metrics.lines().find(|line| line.starts_with("rocketmq_messages_in_total"));
    assert!(line.unwrap().ends_with(" 1"), "{line:?}");
}

#[test]
fn a_second_start_on_the_same_folder_is_refused_with_the_pid() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::standalone(folder.path());
    let (status, _, errors) = ledgermq(&Server::standalone_arguments(folder.path()), "");
    assert!(!status);
    let holder = format!("process {}", server.pid());
    assert!(errors.contains(&holder) && errors.contains("--data"), "{errors}");
}

#[test]
fn a_port_in_use_is_named_with_its_flag() {
    let folder = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for flag in ["--broker-listen", "--namesrv-listen", "--http-listen"] {
        let mut arguments = Server::standalone_arguments(folder.path());
        let at = arguments.iter().position(|argument| argument == flag).unwrap();
        arguments[at + 1].clone_from(&address);
        let (status, _, errors) = ledgermq(&arguments, "");
        assert!(!status, "{flag}");
        assert!(errors.contains(&address) && errors.contains(flag), "{flag}: {errors}");
        // The next start finds the data as the last stop left it.
        assert!(!folder.path().join("ledgermq-data/abort").exists(), "{flag} left abort behind");
    }
}

#[test]
fn mqbroker_takes_the_flags_of_javas_program() {
    let folder = tempfile::tempdir().unwrap();
    let link = folder.path().join("mqbroker");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_ledgermq"), &link).unwrap();
    let file = folder.path().join("broker.conf");
    fs::File::create(&file).unwrap();
    let run = |arguments: &[&str]| {
        let output = std::process::Command::new(&link).args(arguments).output().unwrap();
        (output.status.success(), String::from_utf8(output.stdout).unwrap())
    };
    let (fine, printed) = run(&["-c", file.to_str().unwrap(), "-n", "n1:9876;n2:9876", "-p"]);
    assert!(fine);
    assert!(printed.lines().any(|line| line == "namesrvAddr=n1:9876;n2:9876"), "{printed}");
    assert!(printed.lines().any(|line| line == "listenPort=10911"), "{printed}");
    let (fine, important) = run(&["-c", file.to_str().unwrap(), "-m"]);
    assert!(fine);
    assert!(important.lines().count() < printed.lines().count());
    assert!(run(&["-h"]).1.contains("--configFile"));
}

#[test]
fn a_broker_and_a_name_server_run_apart() {
    let folder = tempfile::tempdir().unwrap();
    let of = |name: &str| {
        let path = folder.path().join(name);
        fs::create_dir(&path).unwrap();
        path
    };
    let namesrv = Server::start(&of("namesrv"), &["namesrv", "--listen", "127.0.0.1:0"]);
    assert!(namesrv.output().contains("The Name Server boot success."));

    let broker_folder = of("broker");
    let conf = broker_folder.join("broker.conf");
    let text = format!(
        "brokerName = b1\r\nbrokerIP1=127.0.0.1\nbindAddress=127.0.0.1\nlistenPort=0\n\
         storePathRootDir={}\nflushDisktype=SYNC_FLUSH\n",
        broker_folder.join("store").display()
    );
    std::io::Write::write_all(&mut fs::File::create(&conf).unwrap(), text.as_bytes()).unwrap();
    let address = namesrv.address("namesrv");
    let broker =
        Server::start(&broker_folder, &["broker", "-c", conf.to_str().unwrap(), "-n", &address]);
    assert!(broker.output().contains("boot success"), "{}", broker.output());
    assert!(broker.errors().contains("did you mean flushDiskType"), "{}", broker.errors());

    assert!(namesrv.run(&["send", "T", "x"]).contains("b1/"));
    namesrv.run_until(&["consume", "T", "--body"], |seen| seen == "x\n");
    let metrics = broker.get("/metrics");
    assert!(metrics.contains("node_id=\"b1\""), "{metrics}");
}
