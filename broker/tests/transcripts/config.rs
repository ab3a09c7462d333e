//! Codes 25 and 26, and what stops a start.

use broker::{Broker, BrokerOptions, StartError, config::BrokerConfig};
use protocol::{
    Command,
    code::{request, response},
};

use crate::fixture::Fixture;

fn update(text: &'static str) -> Command {
    Command::request(request::UPDATE_BROKER_CONFIG).with_body(text)
}

#[tokio::test(flavor = "multi_thread")]
async fn every_effective_key_is_told_and_hot_keys_are_changed() {
    let fixture = Fixture::new().await;
    let text = async || {
        let answer = fixture.ask(Command::request(request::GET_BROKER_CONFIG)).await;
        assert!(answer.field("version").is_some_and(|version| version.contains("counter")));
        String::from_utf8(answer.body.to_vec()).expect("text")
    };
    let before = text().await;
    for line in [
        "brokerName=b",
        "brokerIP1=127.0.0.1",
        "flushDiskType=SYNC_FLUSH",
        "brokerRole=ASYNC_MASTER",
        "brokerId=0",
    ] {
        assert!(before.lines().any(|found| found == line), "{line} is not in {before}");
    }
    let answer = fixture.ask(update("traceOn=false\n")).await;
    assert_eq!(answer.code, 0, "{:?}", answer.remark);
    assert!(text().await.contains("\ntraceOn=false\n"));
    let answer = fixture.sent("T", "m", "").await;
    assert_eq!(answer.field("TRACE_ON"), Some("false"));
}

#[tokio::test(flavor = "multi_thread")]
async fn fixed_keys_and_bad_values_change_nothing() {
    let fixture = Fixture::new().await;
    for text in [
        "traceOn=false\nstorePathRootDir=/elsewhere",
        "brokerConfigPath=/x",
        "rocketmqHome=/x",
        "traceOn=false\nunknownKey=1",
        "configStorePath=/x\nrocketmqHome=/y",
    ] {
        let answer = fixture.ask(update(text)).await;
        assert_eq!(answer.code, response::NO_PERMISSION, "{text}");
    }
    let answer = fixture.ask(update("traceOn=maybe")).await;
    assert_eq!(answer.code, response::SYSTEM_ERROR);
    let answer = fixture.sent("T", "m", "").await;
    assert_eq!(answer.field("TRACE_ON"), Some("true"));
}

#[tokio::test(flavor = "multi_thread")]
async fn several_members_without_the_key_for_a_group_are_refused() {
    let config = BrokerConfig::read("dLegerPeers=n0-a:1;n1-b:1;n2-c:1").expect("a text").config;
    let options = BrokerOptions { config, namesrv: None, listen: None, data_dir: None };
    match Broker::start(options).await {
        Err(StartError::Config(text)) => {
            assert!(text.contains("3 members, and enableDLegerCommitLog"), "{text}");
        }
        other => panic!("started: {other:?}"),
    }
}
