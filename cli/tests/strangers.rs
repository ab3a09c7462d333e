//! The process among strangers: few files, little memory, no rights, floods at each port.
//!
//! Goal: whoever reaches a port can neither end the process nor make it leave its bounds. Method: a
//! standalone under `prlimit`, `setpriv` or `strace`, hostile peers beside the commands of the same
//! binary. What a machine lacks is left out with a line on the output.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "these are parts of tests, which start processes; clippy knows only functions marked as tests"
)]

#[path = "strangers/peer_port.rs"]
mod peer_port;
mod process;

use std::{
    io::{Read, Write},
    net::TcpStream,
    os::unix::fs::{PermissionsExt, chown},
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use bytes::BytesMut;
use process::{LONG, Server, ledgermq, memory_group::MemoryGroup};
use protocol::{code::request, frame};

fn has(program: &str) -> bool {
    let found = Command::new("sh").args(["-c", &format!("command -v {program}")]).output();
    let found = found.is_ok_and(|output| output.status.success());
    if !found {
        println!("left out: there is no {program}");
    }
    found
}

fn works(server: &Server, message: &str) {
    let begun = Instant::now();
    loop {
        let words = ["send", "T", message, "--namesrv", &server.address("namesrv")];
        let (succeeded, sent, errors) = ledgermq(&words, "");
        if succeeded && sent.contains("SEND_OK") {
            return;
        }
        // A flood may have taken this one's turn.
        assert!(begun.elapsed() < LONG, "{sent}\n{errors}\nserver:\n{}", server.errors());
    }
}

/// A peer that writes what the other side takes, and gives up after a while.
fn peer(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream
}

fn bytes_of(command: &protocol::Command) -> BytesMut {
    let mut bytes = BytesMut::new();
    frame::encode(command, &mut bytes);
    bytes
}

/// Processor time of a process, in ticks of 10 ms.
fn ticks(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

#[test]
fn s_16_with_256_files_a_flood_of_connections_is_refused_and_costs_no_time() {
    if !has("prlimit") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let by = ["prlimit", "--nofile=256:256", "--"];
    let arguments = Server::standalone_arguments(folder.path());
    let mut server = Server::start_by(&by, folder.path(), &arguments);
    works(&server, "before");
    let mut flood = Vec::new();
    for _ in 0..300 {
        for name in ["broker", "namesrv", "http"] {
            flood.push(TcpStream::connect(server.address(name)).unwrap());
        }
    }
    let before = ticks(server.pid());
    std::thread::sleep(Duration::from_secs(2));
    let spent = ticks(server.pid()) - before;
    assert!(spent < 150, "{spent} ticks of 10 ms in 2 s without work");
    let errors = server.errors();
    assert!(errors.contains("connection refused: the limit of"), "{errors}");
    assert!(!errors.contains("cannot accept connections"), "the limit is below that of files");
    drop(flood);
    works(&server, "after");
    server.stop();
}

/// The budget of connections is a quarter of the group's memory without a word in the configuration;
/// files that are written count for the group as well, and the kernel takes them back.
#[test]
fn s_17_in_a_control_group_of_256_mib_floods_do_not_end_the_process() {
    let Some(group) = MemoryGroup::new(256 << 20) else { return };
    let folder = tempfile::tempdir().unwrap();
    let by = group.enter();
    let by: Vec<&str> = by.iter().map(String::as_str).collect();
    let mut arguments = Server::standalone_arguments(folder.path());
    for key in ["maxIndexNum=1000", "maxHashSlotNum=1000"] {
        arguments.extend(["--set".to_owned(), key.to_owned()]);
    }
    let mut server = Server::start_by(&by, folder.path(), &arguments);
    works(&server, "before");
    // Sends of the largest size, more at a time than the budget has room for.
    let words = "bench produce --topic large --senders 8 --connections 4 --window 11";
    let words = format!("{words} --body 4000000 --warmup 0 --duration 5s --json");
    let mut load = server
        .command(&words.split_whitespace().collect::<Vec<_>>())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let peers = flood(&server.address("broker"));
    // Some of its sends were answered that the broker is busy, or all of them.
    load.wait().unwrap();
    works(&server, "after");
    assert!(!server.errors().contains("panicked"), "{}", server.errors());
    drop(peers);
    server.stop();
    assert_eq!(group.killed(), 0, "the kernel ended it");
}

/// Frames without their ends, and requests whose answers nobody reads.
fn flood(broker: &str) -> Vec<TcpStream> {
    let part = vec![b'x'; 1 << 20];
    let mut peers = Vec::new();
    // 120 frames of 15 MiB.
    for _ in 0..120 {
        let mut stream = peer(broker);
        let mut sent = stream.write_all(&[0, 0xF0, 0, 0, 0, 0, 0, 10]);
        for _ in 0..14 {
            if sent.is_err() {
                break;
            }
            sent = stream.write_all(&part);
        }
        peers.push(stream);
    }
    let question = bytes_of(&protocol::Command::request(request::GET_ALL_TOPIC_CONFIG));
    let burst: Vec<u8> = question.iter().copied().cycle().take(question.len() * 20_000).collect();
    for _ in 0..20 {
        let mut stream = peer(broker);
        // It is not read to the end, so that the rest of the burst cannot be written.
        drop(stream.write_all(&burst));
        peers.push(stream);
    }
    peers
}

#[test]
fn s_17_with_little_memory_floods_of_frames_and_deaf_readers_do_not_end_the_process() {
    if !has("prlimit") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let by = ["prlimit", "--data=536870912", "--"];
    let mut arguments = Server::standalone_arguments(folder.path());
    for key in ["networkMemoryBytes=67108864", "maxIndexNum=1000", "maxHashSlotNum=1000"] {
        arguments.extend(["--set".to_owned(), key.to_owned()]);
    }
    let mut server = Server::start_by(&by, folder.path(), &arguments);
    works(&server, "before");
    let peers = flood(&server.address("broker"));
    works(&server, "after");
    let errors = server.errors();
    assert!(errors.contains("more than their budget"), "{errors}");
    assert!(!errors.contains("panicked"), "{errors}");
    drop(peers);
    server.stop();
}

#[test]
fn s_22_the_page_listens_on_loopback_unless_told_otherwise_and_tells_no_message() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("ledgermq-data").to_str().unwrap().to_owned();
    let any = ["--broker-listen", "0.0.0.0:0", "--namesrv-listen", "0.0.0.0:0"];
    let arguments = [&["standalone", "--data", &data], &any[..]].concat();
    let mut server = Server::start(folder.path(), &arguments);
    let page = server.address("http");
    assert!(page.starts_with("127.0.0.1:"), "{page}");
    let port = server.address("namesrv").rsplit_once(':').unwrap().1.to_owned();
    let namesrv = format!("127.0.0.1:{port}");
    let words = ["send", "planted-topic", "planted-body", "--key", "planted-key", "--namesrv"];
    let (succeeded, _, errors) = ledgermq(&[&words[..], &[&namesrv]].concat(), "");
    assert!(succeeded, "{errors}");
    for path in ["/metrics", "/", "/log", "/readyz"] {
        let text = server.get(path);
        assert!(!text.contains("planted-body") && !text.contains("planted-key"), "{path}: {text}");
    }
    server.stop();
}

#[test]
fn s_23_random_bytes_at_each_port_end_their_connection_and_nothing_else() {
    random_bytes(300, Duration::ZERO);
}

#[test]
#[ignore = "takes a minute: cargo xtask ci --long --only strangers runs it"]
fn s_23_random_bytes_for_a_minute_end_nothing_in_the_long_run() {
    random_bytes(300, Duration::from_secs(60));
}

/// So many rounds at each port, and on for so long.
fn random_bytes(rounds: usize, time: Duration) {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Server::standalone(folder.path());
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let begun = Instant::now();
    let mut round = 0;
    while round < rounds || begun.elapsed() < time {
        for name in ["broker", "namesrv", "http"] {
            // Half of them begin as a frame, or as a hello of TLS.
            let begin: &[u8] = match round % 4 {
                0 => &[0, 0, 0, 64, 0, 0, 0, 32],
                1 => &[0x16, 3, 1, 0, 200],
                _ => &[],
            };
            let answer = answer_to(&server.address(name), &[begin, &random.bytes(512)].concat());
            assert!(answer.len() < 2000, "{name}: {} bytes", answer.len());
        }
        round += 1;
    }
    println!("{round} rounds");
    works(&server, "after");
    assert!(server.get("/livez").contains("ok"));
    assert!(!server.errors().contains("panicked"), "{}", server.errors());
    let lines = server.errors().lines().count();
    assert!(lines < 600.max(2 * round), "{lines} lines of the log for {} connections", 3 * round);
    server.stop();
}

/// A linear congruence (Knuth's MMIX), of which the upper bytes are used.
struct Random(u64);

impl Random {
    fn bytes(&mut self, count: usize) -> Vec<u8> {
        let mut byte = || {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            self.0.to_be_bytes()[0]
        };
        (0..count).map(|_| byte()).collect()
    }
}

/// What comes back for these bytes until the other side closes; it may do so before it has all.
fn answer_to(address: &str, bytes: &[u8]) -> Vec<u8> {
    let mut stream = peer(address);
    drop(stream.write_all(bytes));
    drop(stream.shutdown(std::net::Shutdown::Write));
    let mut answer = Vec::new();
    drop(stream.read_to_end(&mut answer));
    answer
}

/// Makes a folder that nobody else may look into open for all, down to it.
fn open_to_all(folder: &Path) {
    std::fs::set_permissions(folder, PermissionsExt::from_mode(0o755)).unwrap();
}

#[test]
fn s_27_it_runs_as_nobody_with_only_its_data_folder_writable() {
    if !has("setpriv") || !has("prlimit") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("ledgermq-data");
    std::fs::create_dir(&data).unwrap();
    if chown(&data, Some(65_534), Some(65_534)).is_err() {
        println!("left out: only root can give a folder away");
        return;
    }
    open_to_all(folder.path());
    // The binary may lie where nobody may look.
    let binary = folder.path().join("ledgermq");
    std::fs::copy(env!("CARGO_BIN_EXE_ledgermq"), &binary).unwrap();
    let mut arguments = Server::standalone_arguments(folder.path());
    arguments.extend(["--ready-file".to_owned(), data.join("ready").display().to_string()]);
    let id = ["--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs"];
    let mut child = Command::new("setpriv")
        .args(id)
        .args(["--bounding-set=-all", "--inh-caps=-all", "--"])
        .arg(&binary)
        .args(&arguments)
        .env("HOME", "/nonexistent")
        .stdin(std::process::Stdio::null())
        .stdout(std::fs::File::create(folder.path().join("out")).unwrap())
        .stderr(std::fs::File::create(folder.path().join("err")).unwrap())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    let addresses = loop {
        if let Ok(text) = std::fs::read_to_string(data.join("ready")) {
            break text;
        }
        let errors = std::fs::read_to_string(folder.path().join("err")).unwrap();
        assert!(child.try_wait().unwrap().is_none() && begun.elapsed() < LONG, "{errors}");
        std::thread::sleep(Duration::from_millis(20));
    };
    let line = addresses.lines().find_map(|line| line.strip_prefix("namesrv=")).unwrap();
    let (succeeded, sent, errors) = ledgermq(&["send", "T", "as nobody", "--namesrv", line], "");
    assert!(succeeded && sent.contains("SEND_OK"), "{errors}");
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let capabilities = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap();
    assert_eq!(capabilities.trim().trim_matches('0'), "", "it has capabilities");
    let ended = Command::new("kill").args(["-s", "TERM", &child.id().to_string()]).status();
    assert!(ended.unwrap().success());
    assert!(child.wait().unwrap().success());
    let mut names: Vec<_> = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["err", "ledgermq", "ledgermq-data", "out"]);
}

#[test]
fn s_25_a_second_process_and_one_of_another_node_are_refused_the_data() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Server::standalone(folder.path());
    works(&server, "before");
    let arguments = Server::standalone_arguments(folder.path());
    let (succeeded, _, errors) = ledgermq(&arguments, "");
    let holder = format!("is in use by process {}", server.pid());
    assert!(!succeeded && errors.contains(&holder), "{errors}");
    works(&server, "after");
    server.stop();
    for other in ["dLegerSelfId=n7", "brokerClusterName=other"] {
        let swapped = [&arguments[..], &["--set".to_owned(), other.to_owned()]].concat();
        let (succeeded, _, errors) = ledgermq(&swapped, "");
        assert!(!succeeded && errors.contains("storePathRootDir"), "{other}: {errors}");
    }
    let mut server = Server::standalone(folder.path());
    works(&server, "again");
    server.stop();
}

/// Requests of HTTP that are too long, never end, or are none.
#[test]
fn s_23_hostile_requests_to_the_page_end_their_connection_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Server::standalone(folder.path());
    let long = "x".repeat(1 << 20);
    let many: String = (0..20_000).map(|number| format!("h{number}: v\r\n")).collect();
    let endless = format!("{:x}\r\n{long}\r\n", long.len());
    let end = "host: localhost\r\n\r\n";
    let requests = [
        format!("GET /{long} HTTP/1.1\r\n{end}"),
        format!("GET /metrics HTTP/1.1\r\nx: {long}\r\n{end}"),
        format!("GET /metrics HTTP/1.1\r\n{many}{end}"),
        format!("{long} / HTTP/1.1\r\n{end}"),
        format!("PUT /log?level={long} HTTP/1.1\r\n{end}"),
        format!("PUT /log?level=%00%ff%fe HTTP/1.1\r\n{end}"),
        format!("PUT /log?level=debug&level=%s%n HTTP/1.1\r\n{end}"),
        format!("GET /../../etc/passwd HTTP/1.1\r\n{end}"),
        format!("PUT /log HTTP/1.1\r\ncontent-length: 18446744073709551615\r\n{end}"),
        format!("PUT /log HTTP/1.1\r\ncontent-length: -1\r\ncontent-length: 7\r\n{end}"),
        format!("PUT /log HTTP/1.1\r\ntransfer-encoding: chunked\r\n{end}{}", endless.repeat(8)),
        format!("GET /livez HTTP/9.9\r\n{end}"),
        format!("GET /livez HTTP/1.1\r\nconnection: upgrade\r\nupgrade: h2c\r\n{end}"),
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(),
        format!("GET /livez HTTP/1.1\r\n{end}").repeat(5_000),
    ];
    for request in requests {
        let begin: String = request.chars().take(60).collect();
        let mut stream = peer(&server.address("http"));
        // It may be closed before all was written.
        drop(stream.write_all(request.as_bytes()));
        drop(stream.shutdown(std::net::Shutdown::Write));
        let mut answer = Vec::new();
        drop(stream.read_to_end(&mut answer));
        let text = String::from_utf8_lossy(&answer);
        assert!(answer.len() < 4 << 20, "{begin}: {} bytes", answer.len());
        assert!(!text.contains("root:"), "{begin}: {text}");
    }
    assert!(server.get("/livez").contains("ok"));
    assert_eq!(server.get("/log"), "info\n", "the level is as it was");
    works(&server, "after");
    assert!(!server.errors().contains("panicked"), "{}", server.errors());
    server.stop();
}

/// The attacks of CVE-2023-33246 and CVE-2023-37582 on a process whose every execve is recorded.
#[test]
fn s_02_nothing_that_is_sent_starts_a_program() {
    if !has("strace") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace");
    let by = ["strace", "-D", "-f", "-qq", "-e", "trace=execve", "-o", trace.to_str().unwrap()];
    let arguments = Server::standalone_arguments(folder.path());
    let mut server = Server::start_by(&by, folder.path(), &arguments);
    let mark = folder.path().join("mark");
    let path = mark.display();
    for (name, code) in
        [("broker", request::UPDATE_BROKER_CONFIG), ("namesrv", request::UPDATE_NAMESRV_CONFIG)]
    {
        for text in [
            format!("filterServerNums=1\nrocketmqHome=-c $@|sh . echo touch {path};"),
            format!("configStorePath={path}\nproductEnvName=x"),
            format!("kvConfigPath={path}"),
            format!("brokerConfigPath={path}\nx=* * * * * root touch {path}"),
        ] {
            let mut stream = peer(&server.address(name));
            let update = protocol::Command::request(code).with_body(text.clone().into_bytes());
            stream.write_all(&bytes_of(&update)).unwrap();
            let mut buffer = BytesMut::new();
            let answer = loop {
                if let Some(answer) = frame::decode(&mut buffer, frame::DEFAULT_LIMIT).unwrap() {
                    break answer;
                }
                let mut bytes = [0; 4096];
                let count = stream.read(&mut bytes).unwrap();
                assert!(count > 0, "closed without an answer");
                buffer.extend_from_slice(&bytes[..count]);
            };
            assert_eq!(answer.code, protocol::code::response::NO_PERMISSION, "{text}: {answer:?}");
        }
    }
    works(&server, "after");
    // Java looks for its filter servers every 30 s; here nothing waits for a time to run.
    server.stop();
    let text = std::fs::read_to_string(&trace).unwrap();
    assert_eq!(text.matches("execve(").count(), 1, "only the server itself: {text}");
    assert!(!mark.exists(), "a file was written");
    assert!(server.errors().contains("audit"), "the attempts are told");
}

/// A filter of the kernel, on each thread from the first on; `forbid_exec` shows what it refuses.
#[test]
fn s_02_told_to_the_kernel_refuses_each_thread_of_the_server_any_program() {
    let folder = tempfile::tempdir().unwrap();
    let arguments =
        [&["--forbid-exec".to_owned()], &Server::standalone_arguments(folder.path())[..]];
    let mut server = Server::start(folder.path(), &arguments.concat());
    works(&server, "under the filter");
    let mut threads = 0;
    for task in std::fs::read_dir(format!("/proc/{}/task", server.pid())).unwrap() {
        // A thread may end meanwhile.
        let Ok(status) = std::fs::read_to_string(task.unwrap().path().join("status")) else {
            continue;
        };
        // Mode 2 is SECCOMP_MODE_FILTER.
        assert!(status.contains("\nSeccomp:\t2\n"), "{status}");
        assert!(status.contains("\nNoNewPrivs:\t1\n"), "{status}");
        threads += 1;
    }
    assert!(threads > 4, "{threads} threads");
    server.stop();
    assert!(server.errors().contains("no program can be started"), "{}", server.errors());
}
