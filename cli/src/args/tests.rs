use clap::CommandFactory;

use super::*;

fn parse(words: &[&str]) -> Command {
    Cli::try_parse_from([&["ledgermq"], words].concat()).unwrap().command
}

fn refusal(words: &[&str]) -> String {
    Cli::try_parse_from([&["ledgermq"], words].concat()).unwrap_err().to_string()
}

#[test]
fn the_definitions_are_sound() {
    Cli::command().debug_assert();
    JavaBrokerArgs::command().debug_assert();
    JavaNamesrvArgs::command().debug_assert();
}

#[test]
fn standalone_needs_no_flags() {
    let Command::Standalone(args) = parse(&["standalone"]) else { panic!() };
    assert_eq!(args.namesrv_listen.to_string(), "127.0.0.1:9876");
    assert_eq!(args.broker_listen, None);
    assert!(args.set.is_empty());
}

#[test]
fn standalone_takes_keys_and_addresses() {
    let Command::Standalone(args) = parse(&[
        "standalone",
        "--set",
        "flushDiskType = SYNC_FLUSH",
        "--set",
        "empty=",
        "--broker-listen",
        "127.0.0.1:0",
        "--http-listen",
        "off",
    ]) else {
        panic!()
    };
    let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    assert_eq!(args.set, [pair("flushDiskType", "SYNC_FLUSH"), pair("empty", "")]);
    assert_eq!(args.broker_listen.unwrap().port(), 0);
    assert_eq!(args.page.http_listen, Some(HttpListen::Off));
    assert!(refusal(&["standalone", "--set", "flushDiskType"]).contains("give KEY=VALUE"));
    assert!(refusal(&["standalone", "--http-listen", "10916"]).contains("or `off`"));
}

#[test]
fn java_broker_flags_mean_the_same_under_both_names() {
    let words = ["-c", "broker.conf", "-n", "a:9876;b:9876", "-p"];
    let Command::Broker(ours) = parse(&[&["broker"], &words[..]].concat()) else { panic!() };
    let java =
        JavaBrokerArgs::try_parse_from([&["mqbroker"], &words[..]].concat()).unwrap().into_broker();
    for args in [ours, java] {
        assert_eq!(args.config.unwrap().to_str(), Some("broker.conf"));
        assert_eq!(args.namesrv.as_deref(), Some("a:9876;b:9876"));
        assert!(args.print.all && !args.print.important);
    }
    let long = ["mqbroker", "--configFile", "b.conf", "--namesrvAddr", "x:1", "-m"];
    let args = JavaBrokerArgs::try_parse_from(long).unwrap().into_broker();
    assert_eq!(args.namesrv.as_deref(), Some("x:1"));
    assert!(args.print.important);
}

#[test]
fn java_leftover_words_do_not_stop_a_start_script() {
    let words = ["mqbroker", "-n", "localhost:9876", "autoCreateTopicEnable=true"];
    let args = JavaBrokerArgs::try_parse_from(words).unwrap();
    assert_eq!(args.rest, ["autoCreateTopicEnable=true"]);
    let args = JavaNamesrvArgs::try_parse_from(["mqnamesrv", "-c", "n.conf", "-p"]).unwrap();
    let args = args.into_namesrv();
    assert_eq!(args.config.unwrap().to_str(), Some("n.conf"));
    assert!(args.print);
}

#[test]
fn a_beginning_is_a_word_a_time_or_an_age() {
    let from = |text: &str| {
        let Command::Consume(args) = parse(&["consume", "T", "--from", text]) else { panic!() };
        args.from
    };
    assert_eq!(from("first"), Beginning::First);
    assert_eq!(from("last"), Beginning::Last);
    assert_eq!(from("1795968000000"), Beginning::Time(1_795_968_000_000));
    assert_eq!(from("2026-11-29T16:00:00Z"), Beginning::Time(1_795_968_000_000));
    let Beginning::Time(ago) = from("10m") else { panic!() };
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let age = i64::try_from(now.as_millis()).unwrap() - ago;
    assert!((600_000..700_000).contains(&age), "{age}");
    for wrong in ["2026", "yesterday", "-5", "1795968000"] {
        assert!(
            Cli::try_parse_from(["ledgermq", "consume", "T", &format!("--from={wrong}")]).is_err(),
            "{wrong}"
        );
    }
}

#[test]
fn admin_flags_may_stand_at_the_end() {
    let Command::Admin(args) = parse(&["admin", "topic", "list", "-n", "x:9876", "--json"]) else {
        panic!()
    };
    assert!(args.json);
    assert_eq!(args.namesrv.addresses(), "x:9876");
    assert!(matches!(args.command, AdminCommand::Topic(TopicCommand::List)));
}

#[test]
fn offsets_are_reset_to_a_place() {
    let reset = |to: &str| {
        let words = ["admin", "offsets", "reset", "g", "T", "--to", to, "--queue", "1"];
        let Command::Admin(args) = parse(&words) else { panic!() };
        let AdminCommand::Offsets(OffsetsCommand::Reset { to, .. }) = args.command else {
            panic!()
        };
        to
    };
    assert_eq!(reset("first"), ResetTo::First);
    assert_eq!(reset("offset:12"), ResetTo::Offset(12));
    assert!(
        refusal(&["admin", "offsets", "reset", "g", "T", "--to", "offset:-1"])
            .contains("is not an offset")
    );
}

#[test]
fn a_load_is_bounded_and_has_defaults() {
    let bench = |words: &[&str]| {
        let Command::Bench(args) = parse(&[&["bench"], words].concat()) else { panic!() };
        args
    };
    let args = bench(&["produce", "-n", "x:9876", "--json"]);
    assert_eq!((args.namesrv.as_deref(), args.json), (Some("x:9876"), true));
    let BenchCommand::Produce(produce) = args.command else { panic!() };
    assert_eq!((produce.style, produce.senders, produce.window), (Style::Async, 1, 1000));
    assert_eq!((produce.body, produce.queues, produce.measure.repeat), (1024, None, 1));
    let args = bench(&["e2e", "--rate", "5000", "--warmup", "0", "--duration", "1m"]);
    let BenchCommand::E2e(e2e) = args.command else { panic!() };
    assert_eq!(
        (e2e.rate, e2e.measure.warmup.as_secs(), e2e.measure.duration.as_secs()),
        (5000, 0, 60)
    );
    assert!(refusal(&["bench", "e2e", "--body", "15"]).contains("15 is not in 16"));
    assert!(refusal(&["bench", "produce", "--duration", "0s"]).contains("above zero"));
    assert!(refusal(&["bench", "produce", "--style", "fast"]).contains("oneway"));
}
