use super::*;

#[test]
fn names_are_spelt_once() {
    let mut names: Vec<_> = nearest::names().filter(|name| *name != "brokerRole").collect();
    names.sort_unstable();
    let all = names.len();
    names.dedup();
    assert_eq!(names.len(), all, "a key stands in two tables");
}

#[test]
fn every_default_is_printed_and_read_back() {
    let mut config = BrokerConfig::default();
    config.complete();
    let read = BrokerConfig::read(&config.print(Printed::All)).expect("what we print");
    assert_eq!(read.config, config);
    assert_eq!(read.warnings, Vec::<String>::new());
}

#[test]
fn every_default_is_within_its_own_range() {
    let defaults = BrokerConfig::default();
    for key in KEYS {
        if let (Some((low, high)), Some(number)) = (key.range, (key.number)(&defaults)) {
            assert!((low..=high).contains(&number), "{} = {number}", key.name);
        }
    }
}

#[test]
fn blanks_line_ends_and_mark_are_taken() {
    let text = "\u{feff}# comment\r\nenableDLegerCommitLog=true \r\nbrokerName : b-1\r\nlistenPort 20911\t\r\n";
    let loaded = BrokerConfig::read(text).expect("a file from another system");
    assert!(loaded.config.enable_dleger_commit_log);
    assert_eq!(loaded.config.broker_name, "b-1");
    assert_eq!(loaded.config.listen_port, 20_911);
}

#[test]
fn a_bad_value_names_key_value_and_what_is_allowed() {
    let error = BrokerConfig::read("listenPort=70000").expect_err("no such port");
    assert_eq!(error.to_string(), "listenPort=70000: allowed is a whole number from 0 to 65535");
    let error = BrokerConfig::read("flushDiskType=SYNC").expect_err("no such type");
    assert_eq!(error.to_string(), "flushDiskType=SYNC: allowed is SYNC_FLUSH or ASYNC_FLUSH");
    let error = BrokerConfig::read("brokerIP1=192.0.2.1 #lan").expect_err("a comment");
    assert!(error.to_string().starts_with("brokerIP1=192.0.2.1 #lan: allowed is"), "{error}");
}

#[test]
fn unset_flush_type_means_sync() {
    let loaded = BrokerConfig::read("").expect("empty");
    assert_eq!(loaded.config.flush_disk_type, FlushDiskType::Sync);
    let loaded = BrokerConfig::read("flushDiskType=ASYNC_FLUSH").expect("said");
    assert_eq!(loaded.config.flush_disk_type, FlushDiskType::Async);
}

#[test]
fn unknown_and_idle_keys_are_warned_about() {
    let loaded = BrokerConfig::read("brokerIp1=127.0.0.1\nfoo=bar\nwarmMapedFileEnable=true\n")
        .expect("only warnings");
    assert_eq!(loaded.warnings.len(), 3, "{:?}", loaded.warnings);
    assert_eq!(
        loaded.warnings.first().map(String::as_str),
        Some("unknown key brokerIp1 is ignored: did you mean brokerIP1?")
    );
}

#[test]
fn other_modes_are_refused_with_the_way_to_do_it_here() {
    for text in [
        "brokerRole=SLAVE",
        "haMasterAddress=a:1",
        "enableControllerMode=true",
        "aclEnable=true",
        "authenticationEnabled=TRUE",
        "authorizationEnabled=true",
    ] {
        let error = BrokerConfig::read(text).expect_err(text);
        assert!(matches!(error, ConfigError::Refused { .. }), "{text}: {error}");
    }
    BrokerConfig::read("brokerRole=SYNC_MASTER\nenableControllerMode=false").expect("no effect");
}

#[test]
fn only_hot_keys_are_changed_over_the_wire_and_all_or_none() {
    let config = BrokerConfig::default();
    let changed = config.changed("traceOn=false").expect("hot");
    config.changed("msgTraceTopicName=RMQ_SYS_TRACE_TOPIC").expect("what it is already");
    assert!(!changed.config.trace_on);
    for text in [
        "traceOn=false\nstorePathRootDir=/",
        "brokerConfigPath=/x",
        "rocketmqHome=/x",
        "traceOn=false\nunknownKey=1",
        "traceOn=maybe",
    ] {
        config.changed(text).expect_err(text);
    }
}

#[test]
fn s_09_a_password_is_in_no_dump_and_may_be_written_back_as_it_was_printed() {
    let config =
        BrokerConfig::read("tls.server.keyPassword=planted\ntls.client.keyPassword=planted2")
            .expect("passwords")
            .config;
    for text in
        [config.print(Printed::All), config.print(Printed::Important), format!("{config:?}")]
    {
        assert!(!text.contains("planted"), "{text}");
    }
    assert!(config.print(Printed::All).contains("tls.server.keyPassword=******\n"));
    assert_eq!(config.tls_server_key_password.expose(), "planted");
    config.changed("tls.server.keyPassword=******").expect("what was read");
    let error = config.changed("tls.server.keyPassword=guess").expect_err("fixed").to_string();
    assert!(!error.contains("guess"), "{error}");
}

#[test]
fn the_document_is_in_step_with_the_table() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/config.md");
    let written = std::fs::read_to_string(path).expect("docs/config.md");
    assert!(
        written == markdown(),
        "docs/config.md is stale: cargo run -p broker --example config_md > docs/config.md"
    );
}

#[test]
fn the_samples_are_read_without_a_warning() {
    for name in [
        "standalone.conf",
        "dledger/broker-n0.conf",
        "dledger/broker-n1.conf",
        "dledger/broker-n2.conf",
    ] {
        let path = format!("{}/../conf/{name}", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(&path).expect("a sample");
        let loaded = BrokerConfig::read(&text).expect("a sample is sound");
        assert_eq!(loaded.warnings, Vec::<String>::new(), "{name}");
        assert!(loaded.config.enable_dleger_commit_log, "{name}");
    }
}

/// `\r` and `\n` of a file of properties are line ends, as in a path that was written for Windows.
#[test]
fn a_value_with_a_line_end_is_refused() {
    for text in [r"storePathRootDir=c:\rocketmq", r"brokerClusterName=a\nb"] {
        let error = BrokerConfig::read(text).unwrap_err().to_string();
        assert!(error.contains("one line") && !error.contains(['\r', '\n']), "{error}");
    }
    assert!(BrokerConfig::read("storePathRootDir=c:\\\\rocketmq\n").is_ok());
}
