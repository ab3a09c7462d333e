//! `ledgermq bench` against the standalone server: what it counts, not how fast that is.
#![expect(
    clippy::expect_used,
    reason = "this is a test; clippy knows only functions marked as tests"
)]

mod process;

use process::Server;
use serde_json::Value;

struct World {
    server: Server,
    _folder: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        Self { server: Server::standalone(folder.path()), _folder: folder }
    }

    /// With these keys.
    fn with(keys: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut arguments = Server::standalone_arguments(folder.path());
        arguments.extend(keys.iter().flat_map(|key| ["--set".to_owned(), (*key).to_owned()]));
        Self { server: Server::start(folder.path(), &arguments), _folder: folder }
    }

    /// The lines of a run with `--json`.
    fn bench(&self, words: &str) -> Vec<Value> {
        let words: Vec<&str> = words.split_whitespace().collect();
        let output = self.server.run(&[&["bench"], &words[..], &["--json"]].concat());
        output.lines().map(|line| serde_json::from_str(line).expect("an object")).collect()
    }

    /// Sends a number of messages in a minute at most; all must succeed.
    fn produce(&self, words: &str) -> Value {
        let limits = "--duration 60s --warmup 0 --timeout 30s";
        let mut lines = self.bench(&format!("produce {words} {limits}"));
        assert_eq!(lines.len(), 1);
        let line = lines.remove(0);
        assert_eq!(
            (&line["failed"], &line["errorsOutside"]),
            (&0.into(), &Value::Object([].into_iter().collect())),
            "{line}"
        );
        line
    }
}

#[test]
fn what_is_produced_in_any_style_is_consumed() {
    let world = World::new();
    let styles = [
        "--style sync --senders 4 --messages 200",
        "--style async --window 50 --senders 2 --connections 2 --messages 300",
        "--style batch --batch 10 --messages 100",
    ];
    for (style, messages) in styles.into_iter().zip([200, 300, 100]) {
        let line = world.produce(&format!("--body 100 --queues 4 {style}"));
        assert_eq!(line["acknowledged"], messages, "{line}");
        assert!(line["latencyMs"]["max"].as_f64() >= line["latencyMs"]["p50"].as_f64(), "{line}");
    }
    let line = world.produce("--body 100 --style oneway --messages 50");
    assert_eq!((&line["sent"], &line["storedInAll"]), (&50.into(), &50.into()), "{line}");

    let lines = world.bench("consume --repeat 2");
    assert_eq!(lines.len(), 2);
    for line in lines {
        assert_eq!((&line["received"], &line["complete"]), (&650.into(), &true.into()), "{line}");
        let seconds = line["seconds"].as_f64().expect("a number");
        let mib = line["mibPerSecond"].as_f64().expect("a number") * seconds;
        assert!((mib - 65_000.0 / 1_048_576.0).abs() < 1e-6, "{line}");
    }
}

#[test]
fn several_topics_take_turns() {
    let world = World::new();
    let line = world.produce("--topic T --topics 3 --queues 2 --style sync --messages 30");
    assert_eq!(line["acknowledged"], 30);
    for topic in ["T-0", "T-1", "T-2"] {
        // An acknowledged message reaches its queue a moment later.
        let begun = std::time::Instant::now();
        let namesrv = world.server.address("namesrv");
        let arguments = ["bench", "consume", "--topic", topic, "--json", "-n", &namesrv];
        loop {
            let (_, output, errors) = process::ledgermq(&arguments, "");
            if output.contains("\"received\":10,") {
                break;
            }
            assert!(begun.elapsed() < process::LONG, "{topic}: {output}{errors}");
        }
    }
}

#[test]
fn every_message_of_a_steady_rate_is_received() {
    let world = World::new();
    // Twice, so that the second run has messages of another one before it.
    for _ in 0..2 {
        let lines = world.bench(
            "e2e --rate 200 --duration 500ms --repeat 2 --warmup 200ms --body 64 --timeout 30s",
        );
        assert_eq!(lines.len(), 2);
        for line in lines {
            assert_eq!((&line["received"], &line["failed"]), (&100.into(), &0.into()), "{line}");
            assert_eq!((&line["sentInAll"], &line["missing"]), (&240.into(), &0.into()), "{line}");
        }
    }
}

#[test]
fn every_message_is_popped_and_acknowledged_once() {
    let world = World::new();
    world.produce("--topic P --queues 2 --body 100 --style sync --senders 8 --messages 300");
    let words = "pop --topic P --workers 4 --connections 2 --batch 8 --warmup 0 --duration 60s";
    let line = world.bench(words).remove(0);
    assert_eq!((&line["acknowledged"], &line["failed"]), (&300.into(), &0.into()), "{line}");
    // Nothing is left for the group, and all for another one.
    let namesrv = world.server.address("namesrv");
    for (group, left) in [("ledgermq_bench_pop", 0), ("other", 300)] {
        let words = format!("bench {words} --group {group} --json -n {namesrv}");
        let arguments: Vec<&str> = words.split_whitespace().collect();
        let (succeeded, output, errors) = process::ledgermq(&arguments, "");
        assert_eq!(succeeded, left > 0, "{output}{errors}");
        assert!(output.contains(&format!("\"acknowledged\":{left},")), "{output}{errors}");
    }
}

#[test]
fn timers_that_are_due_are_received_and_those_far_ahead_wait() {
    let world = World::new();
    let line = world.bench("timers --waiting 100 --due 60 --rate 30 --lead 3s").remove(0);
    let seen = ["delivered", "failed", "early", "missing"].map(|name| line[name].as_u64());
    assert_eq!(seen, [60, 0, 0, 0].map(Some), "{line}");
    assert_eq!(line["acknowledgedInAll"], 160, "{line}");
    let line = world.bench("timers --waiting 50").remove(0);
    assert_eq!(line["acknowledged"], 50, "{line}");
}

#[test]
fn every_light_queue_has_its_messages() {
    let world = World::with(&["enableLmq=true", "enableMultiDispatch=true"]);
    let line = world.bench("light --queues 50 --fan-out 7 --each 3").remove(0);
    assert_eq!((&line["received"], &line["failed"]), (&150.into(), &0.into()), "{line}");
    assert_eq!(line["queuesWithMissingMessages"], 0, "{line}");
}

#[test]
fn a_broker_that_stands_still_is_a_gap_and_loses_nothing() {
    let mut world = World::new();
    let namesrv = world.server.address("namesrv");
    let words = "bench failover --rate 200 --duration 6s --body 64 --timeout 1s --gap 300ms";
    let arguments: Vec<&str> = words.split_whitespace().chain(["--json", "-n", &namesrv]).collect();
    let failover = std::thread::scope(|scope| {
        let running = scope.spawn(|| process::ledgermq(&arguments, ""));
        std::thread::sleep(std::time::Duration::from_secs(2));
        world.server.pause(std::time::Duration::from_secs(2));
        running.join().expect("it ran")
    });
    let (succeeded, output, errors) = failover;
    assert!(succeeded, "{output}{errors}");
    let line: Value = serde_json::from_str(&output).expect("an object");
    let number = |name: &str| line[name].as_f64().unwrap_or(-1.0);
    assert!(number("gaps") >= 1.0 && number("gapLongestMs") >= 1_000.0, "{line}");
    assert_eq!((&line["readBack"], &line["lost"]), (&true.into(), &0.into()), "{line}");
    assert!(number("acknowledgedInAll") > 200.0, "{line}");
}

#[test]
fn what_comes_meanwhile_is_read_live() {
    let world = World::new();
    world.produce("--topic L --queues 2 --body 100 --style sync --messages 1");
    let namesrv = world.server.address("namesrv");
    let live: Vec<&str> = "bench consume --topic L --live --duration 8s --json -n"
        .split_whitespace()
        .chain([namesrv.as_str()])
        .collect();
    let (succeeded, output, errors) = std::thread::scope(|scope| {
        let reading = scope.spawn(|| process::ledgermq(&live, ""));
        // The reader has begun when its first offsets are known; what was there is not counted.
        std::thread::sleep(std::time::Duration::from_secs(3));
        world.produce("--topic L --body 100 --style sync --messages 40");
        reading.join().expect("it ran")
    });
    assert!(succeeded, "{errors}");
    let line: Value = serde_json::from_str(&output).expect("an object");
    assert_eq!((&line["received"], &line["live"]), (&40.into(), &true.into()), "{line}");
}

#[test]
fn a_table_is_for_people() {
    let world = World::new();
    let output = world.server.run(&[
        "bench",
        "produce",
        "--messages",
        "10",
        "--style",
        "sync",
        "--warmup",
        "0",
    ]);
    let lines: Vec<Vec<&str>> =
        output.lines().map(|line| line.split_whitespace().collect()).collect();
    assert!(lines[0].contains(&"style=sync") && lines[0].contains(&"body=1024"), "{output}");
    assert_eq!(lines[1][..4], ["WINDOW", "SECONDS", "ACKNOWLEDGED", "FAILED"], "{output}");
    assert_eq!((lines[2][0], lines[2][2], lines[2][3]), ("1", "10", "0"), "{output}");
}

#[test]
fn a_run_without_a_success_fails_with_its_figures() {
    let world = World::new();
    let namesrv = world.server.address("namesrv");
    // The broker takes 4 MiB, properties included.
    let arguments = [
        "bench",
        "produce",
        "--style",
        "sync",
        "--body",
        "4194304",
        "--messages",
        "3",
        "--warmup",
        "0",
        "--json",
        "-n",
        &namesrv,
    ];
    let (succeeded, output, errors) = process::ledgermq(&arguments, "");
    assert!(!succeeded);
    let line: Value = serde_json::from_str(&output).expect("the figures");
    assert_eq!((&line["acknowledged"], &line["failed"]), (&0.into(), &3.into()), "{line}");
    assert!(errors.contains("no message was acknowledged: "), "{errors}");
}

#[test]
fn a_cluster_must_be_named() {
    let (succeeded, _, errors) = process::ledgermq(&["bench", "produce"], "");
    assert!(!succeeded);
    assert!(errors.contains("there is no default"), "{errors}");
}
