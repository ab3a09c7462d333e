//! Faults that users of other brokers met, by their numbers in the project's list of cases.

use std::path::Path;

use broker::{Broker, BrokerOptions, StartError, config::BrokerConfig};
use bytes::Bytes;
use protocol::{
    Command,
    body::KvTable,
    code::{request, response},
    frame,
    message::{id::parse_offset_message_id, properties},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::fixture::{Fixture, LIMIT, field, records, send_header, v2};

/// Case 31: figures of the disk are figures, also before the first message.
#[tokio::test(flavor = "multi_thread")]
async fn a_fresh_broker_tells_sane_figures_of_its_disk() {
    let fixture = Fixture::new().await;
    let answer = fixture.ask(Command::request(request::GET_BROKER_RUNTIME_INFO)).await;
    let table = KvTable::decode(&answer.body).expect("a table").table;
    let ratios: Vec<_> = table.iter().filter(|(name, _)| name.contains("DiskRatio")).collect();
    assert!(ratios.len() >= 2, "{table:?}");
    for (name, text) in ratios {
        let ratio: f64 = text.parse().expect("a number");
        assert!((0.0..=1.0).contains(&ratio), "{name}={text}");
    }
    // The hours of `mqadmin clusterList` are the time since then.
    let earliest: i64 = table["earliestMessageTimeStamp"].parse().expect("a number");
    let since_1970 = std::time::SystemTime::UNIX_EPOCH.elapsed().expect("a time after 1970");
    let age = i64::try_from(since_1970.as_millis()).expect("a time") - earliest;
    assert!((0..3_600_000).contains(&age), "a fresh log is {age} ms old");
}

/// What a power cut can make of a file: nothing, half of it, or blanks of its length.
#[expect(clippy::disallowed_methods, reason = "the test damages files that the broker has closed")]
fn damage(path: &Path, kind: usize) {
    let content = std::fs::read(path).expect("a file");
    let left = match kind {
        0 => Vec::new(),
        1 => content[..content.len() / 2].to_vec(),
        _ => vec![0; content.len()],
    };
    std::fs::write(path, left).expect("written");
}

/// Case 32: a damaged table is read from its backup; with both damaged the start names the file.
#[tokio::test(flavor = "multi_thread")]
async fn damaged_tables_are_read_from_their_backups_or_named() {
    let mut fixture = Fixture::new().await;
    let admin =
        ["topics.json", "subscriptionGroup.json", "consumerOffset.json", "delayOffset.json"];
    // Each table is written at least twice, so that it has a backup.
    for round in 0..2 {
        fixture.heartbeat(&format!("G{round}"), "T", "*").await;
        fixture.sent("T", "m", "DELAY\u{1}1").await;
        let commit = Command::request(request::UPDATE_CONSUMER_OFFSET)
            .with_field("consumerGroup", "G0")
            .with_field("topic", "T")
            .with_field("queueId", "0")
            .with_field("commitOffset", format!("{}", round + 1));
        assert_eq!(fixture.ask(commit).await.code, 0);
        fixture.messages("T", 1, round + 1).await;
        fixture = fixture.restarted("").await;
    }
    let config = fixture.directory.path().join("config");
    for kind in 0..3 {
        let Fixture { broker, client, directory } = fixture;
        client.close();
        broker.shutdown().await.expect("an orderly stop");
        for name in admin {
            damage(&config.join(name), kind);
        }
        fixture = Fixture::on(directory, "").await;
        fixture.sent("T", "still here", "").await;
        let groups = fixture.ask(Command::request(request::GET_ALL_SUBSCRIPTIONGROUP_CONFIG)).await;
        assert!(String::from_utf8_lossy(&groups.body).contains("\"G0\""), "damage {kind}");
        let query = Command::request(request::QUERY_CONSUMER_OFFSET)
            .with_field("consumerGroup", "G0")
            .with_field("topic", "T")
            .with_field("queueId", "0");
        let offset = fixture.ask(query).await;
        assert!(["1", "2"].contains(&field(&offset, "offset")), "damage {kind}: {offset:?}");
    }
    let Fixture { broker, client, directory } = fixture;
    client.close();
    broker.shutdown().await.expect("an orderly stop");
    damage(&config.join("topics.json"), 1);
    damage(&config.join("topics.json.bak"), 1);
    let text = refused(directory.path()).await;
    assert!(text.contains("topics.json"), "{text}");
}

/// The text of a start that is refused.
async fn refused(directory: &Path) -> String {
    let text = "brokerIP1=127.0.0.1\nmappedFileSizeCommitLog=16777216\n";
    let options = BrokerOptions {
        config: BrokerConfig::read(text).expect("a text").config,
        namesrv: None,
        listen: Some("127.0.0.1:0".parse().expect("an address")),
        data_dir: Some(directory.to_owned()),
    };
    match Broker::start(options).await {
        Err(StartError::Data(text)) => text,
        other => panic!("started: {other:?}"),
    }
}

/// Case 23: strays beside the log's files are left alone, a last file that is empty or
/// half as long as the others is cut off as a tail, and a file that lacks what lies before others stops
/// the start.
#[tokio::test(flavor = "multi_thread")]
async fn stray_and_empty_files_of_the_log_do_not_stop_the_start() {
    const SIZE: u64 = 16 << 20;
    let mut fixture = Fixture::new().await;
    fixture.sent("T", "first", "").await;
    let data = fixture.directory.path().join("dledger-n0").join("data");
    let with_length = |name: &str, length: u64| {
        let mut options = std::fs::OpenOptions::new();
        let file = options.create(true).write(true).truncate(false).open(data.join(name));
        file.and_then(|file| file.set_len(length)).expect("a file");
    };
    let next = format!("{SIZE:020}");
    let changes =
        [("readme.txt", 0), (".nfs0001", 9), (next.as_str(), 0), (next.as_str(), SIZE / 2)];
    for (round, (name, length)) in changes.iter().enumerate() {
        let Fixture { broker, client, directory } = fixture;
        client.close();
        broker.shutdown().await.expect("a clean stop");
        with_length(name, *length);
        fixture = Fixture::on(directory, "").await;
        fixture.sent("T", "more", "").await;
        assert_eq!(fixture.messages("T", 1, round + 2).await.len(), round + 2, "{name} {length}");
    }
    // What lay behind the end of the log is cut off.
    assert!(!data.join(&next).exists(), "{next} is left");
    let Fixture { broker, client, directory } = fixture;
    client.close();
    broker.shutdown().await.expect("a clean stop");
    with_length(&next, SIZE);
    with_length(&format!("{:020}", 0), SIZE / 2);
    let text = refused(directory.path()).await;
    for part in [format!("{:020}", 0), (SIZE / 2).to_string(), SIZE.to_string()] {
        assert!(text.contains(&part), "{part} is not in {text}");
    }
}

/// Case 38: key, unique key and id find a message after a restart as before.
#[tokio::test(flavor = "multi_thread")]
async fn keys_and_ids_find_messages_after_a_restart() {
    let mut fixture = Fixture::new().await;
    let sent = fixture.sent("T", "m", "KEYS\u{1}k1\u{2}UNIQ_KEY\u{1}U1").await;
    let (_, physical) = parse_offset_message_id(field(&sent, "msgId")).expect("an id");
    fixture.messages("T", 1, 1).await;
    for restart in [false, true] {
        if restart {
            fixture = fixture.restarted("").await;
        }
        for (key, unique) in [("k1", false), ("U1", true)] {
            let found = fixture.found("T", key, unique).await;
            assert_eq!(found.len(), 1, "{key} after restart {restart}: {found:?}");
        }
        let view = Command::request(request::VIEW_MESSAGE_BY_ID)
            .with_field("offset", physical.to_string());
        assert_eq!(records(&fixture.ask(view).await)[0].body, "m");
    }
}

/// Case 41: properties end with or without a separator, and a broken one refuses its own send.
#[tokio::test(flavor = "multi_thread")]
async fn properties_of_any_shape_are_kept_or_refused_alone() {
    let fixture = Fixture::new().await;
    for text in ["DELAY\u{1}1", "DELAY\u{1}1\u{2}"] {
        fixture.sent("D", "late", text).await;
    }
    let odd = ["", "a\u{1}", "\u{1}b", "a\u{1}b\u{1}c", "\u{2}\u{2}", "\u{1}", "k\u{1}v"];
    for text in odd {
        fixture.sent("T", "m", text).await;
    }
    let refused = fixture.send("T", "m", "DELAY\u{1}4abc\u{1}0").await;
    assert_eq!(refused.code, response::SYSTEM_ERROR);
    assert!(refused.remark.is_some_and(|remark| remark.contains("DELAY")));
    let stored = fixture.messages("T", 1, odd.len()).await;
    assert_eq!(stored.len(), odd.len());
    assert_eq!(properties::find(&stored[odd.len() - 1].properties, "k"), Some("v"));
    assert_eq!(fixture.messages("D", 1, 2).await.len(), 2);
}

/// Case 44: an id carries the address that clients are told, not the one that is bound.
#[tokio::test(flavor = "multi_thread")]
async fn an_id_carries_the_advertised_address() {
    let fixture = Fixture::with("brokerIP1=127.0.0.9\n").await;
    let answer = fixture.sent("T", "m", "").await;
    let (host, _) = parse_offset_message_id(field(&answer, "msgId")).expect("an id");
    assert_eq!(host.ip().to_string(), "127.0.0.9");
    assert_eq!(host.port(), fixture.broker.address().port());
}

/// Case 67: unknown languages, versions and fields are served.
#[tokio::test(flavor = "multi_thread")]
async fn headers_of_unknown_clients_are_served() {
    let fixture = Fixture::new().await;
    fixture.sent("T", "m", "").await;
    let fields = r#""extFields":{"topic":"T","queueId":"0","sometimes":"later"}"#;
    let mut stream = TcpStream::connect(fixture.broker.address()).await.expect("connects");
    for header in [
        format!(r#"{{"code":31,"language":"GO","version":0,"opaque":7,"flag":0,{fields}}}"#),
        format!(r#"{{"code":31,"language":"XYZ","version":9999,"opaque":7,"flag":0,{fields}}}"#),
        format!(r#"{{"code":31,"version":-1,"opaque":7,"flag":0,"remark":null,{fields}}}"#),
        format!(
            r#"{{"code":31,"language":"RUST","opaque":7,"serializeTypeCurrentRPC":"JSON",{fields}}}"#
        ),
        format!(r#"{{"code":31,"language":"NODEJS","opaque":7,"flag":0,{fields},"new":[{{}}]}}"#),
    ] {
        let mut bytes = Vec::new();
        let length = u32::try_from(header.len()).expect("short");
        bytes.extend_from_slice(&(length + 4).to_be_bytes());
        bytes.extend_from_slice(&length.to_be_bytes());
        bytes.extend_from_slice(header.as_bytes());
        stream.write_all(&bytes).await.expect("written");
        let mut buffer = bytes::BytesMut::new();
        let answer = loop {
            if let Some(answer) = frame::decode(&mut buffer, frame::DEFAULT_LIMIT).expect("a frame")
            {
                break answer;
            }
            let read = tokio::time::timeout(LIMIT, stream.read_buf(&mut buffer)).await;
            assert_ne!(read.expect("in time").expect("bytes"), 0, "closed by {header}");
        };
        assert_eq!((answer.code, answer.opaque), (0, 7), "{header}: {answer:?}");
        assert_eq!(field(&answer, "offset"), "0");
    }
}

/// Case 70, and S-18: the broker never looks into a body, whatever its flags say.
#[tokio::test(flavor = "multi_thread")]
async fn s_18_a_body_that_is_called_compressed_is_kept_as_it_came() {
    let fixture = Fixture::new().await;
    let flags = [0x1, 0x1 | 0x1 << 8, 0x1 | 0x2 << 8, 0x1 | 0x3 << 8, 0x1 | 0x7 << 8];
    for sys_flag in flags {
        let header =
            protocol::header::SendMessageRequest { sys_flag, ..send_header("T", "KEYS\u{1}k") };
        let send = v2(&header, request::SEND_MESSAGE_V2, Bytes::from_static(b"plain"));
        let answer = fixture.ask(send).await;
        assert_eq!(answer.code, 0, "{:?}", answer.remark);
    }
    let stored = fixture.messages("T", 1, flags.len()).await;
    for (record, sys_flag) in stored.iter().zip(flags) {
        assert_eq!((record.body.as_ref(), record.sys_flag & 0x701), (&b"plain"[..], sys_flag));
    }
}

/// Case 83: a megabyte of keys is refused as a whole, and at once.
#[tokio::test(flavor = "multi_thread")]
async fn a_megabyte_of_keys_changes_nothing() {
    let fixture = Fixture::new().await;
    let mut text = String::from("traceOn=false\n");
    for n in 0..80_000 {
        text.push_str(&format!("madeUpKey{n}=1\n"));
    }
    assert!(text.len() > 1 << 20);
    let answer = fixture.ask(Command::request(request::UPDATE_BROKER_CONFIG).with_body(text)).await;
    assert_eq!(answer.code, response::NO_PERMISSION, "{:?}", answer.remark);
    let remark = answer.remark.unwrap_or_default();
    assert!(remark.len() < 4096, "a remark of {} bytes", remark.len());
    let answer = fixture.sent("T", "m", "").await;
    assert_eq!(answer.field("TRACE_ON"), Some("true"));
}

/// Case 88: the key has no effect in DLedger mode, which is said, and the data lies under the root.
#[test]
fn store_path_commit_log_is_named_as_without_effect() {
    let loaded = BrokerConfig::read("storePathCommitLog=/elsewhere").expect("a text");
    let [warning] = &loaded.warnings[..] else { panic!("{:?}", loaded.warnings) };
    assert!(
        warning.contains("storePathCommitLog") && warning.contains("storePathRootDir/dledger-"),
        "{warning}"
    );
}
