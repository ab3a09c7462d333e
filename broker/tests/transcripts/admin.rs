//! Codes 905, 906, 908 and 2001 to 2004.

use protocol::{
    Command,
    code::{request, response},
    header::{
        ExchangeHaInfoRequest, NotifyMinBrokerIdChangeRequest, ResetMasterFlushOffsetRequest,
    },
};

use crate::fixture::Fixture;

async fn cold_data(fixture: &Fixture) -> String {
    let answer = fixture.ask(Command::request(request::GET_COLD_DATA_FLOW_CTR_INFO)).await;
    assert_eq!(answer.code, 0, "{:?}", answer.remark);
    String::from_utf8(answer.body.to_vec()).expect("text")
}

#[tokio::test(flavor = "multi_thread")]
async fn thresholds_of_cold_reads_are_kept_and_given_back_with_their_effect() {
    let fixture = Fixture::new().await;
    let before = cold_data(&fixture).await;
    for part in [
        "\"configTable\":{}",
        "\"runtimeTable\":{}",
        "\"cgColdReadThreshold\":3145728",
        "\"globalColdReadThreshold\":104857600",
        "\"effect\":\"none: ",
    ] {
        assert!(before.contains(part), "{part} is not in {before}");
    }
    let update = |text: &'static str| {
        Command::request(request::UPDATE_COLD_DATA_FLOW_CTR_CONFIG).with_body(text)
    };
    assert_eq!(fixture.ask(update("g=1048576\nh=2\n")).await.code, 0);
    let refused = fixture.ask(update("i=1\ng=lots\n")).await;
    assert_eq!(refused.code, response::SYSTEM_ERROR);
    let remark = refused.remark.expect("a remark");
    assert!(remark.contains("group g is `lots`"), "{remark}");
    let text = cold_data(&fixture).await;
    assert!(text.contains("\"configTable\":{\"g\":1048576,\"h\":2}"), "{text}");

    let remove = Command::request(request::REMOVE_COLD_DATA_FLOW_CTR_CONFIG).with_body("g");
    assert_eq!(fixture.ask(remove).await.code, 0);
    let text = cold_data(&fixture).await;
    assert!(text.contains("\"configTable\":{\"h\":2}"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_mode_of_reading_ahead_is_kept_and_told() {
    let fixture = Fixture::new().await;
    let set = |mode: &str| {
        Command::request(request::SET_COMMITLOG_READ_MODE).with_field("READ_AHEAD_MODE", mode)
    };
    let answer = fixture.ask(set("1")).await;
    assert_eq!(answer.code, 0, "{:?}", answer.remark);
    let remark = answer.remark.expect("mqadmin prints it");
    assert!(remark.starts_with("set commitlog readahead mode success, mode: 1"), "{remark}");
    assert!(cold_data(&fixture).await.contains("\"dataReadAheadEnable\":false"));
    for request in [set("2"), set("x"), Command::request(request::SET_COMMITLOG_READ_MODE)] {
        let answer = fixture.ask(request).await;
        assert_eq!(answer.code, response::SYSTEM_ERROR);
        let remark = answer.remark.expect("a remark");
        assert!(remark.contains("READ_AHEAD_MODE"), "{remark}");
    }
    assert_eq!(fixture.ask(set("0")).await.code, 0);
    assert!(cold_data(&fixture).await.contains("\"dataReadAheadEnable\":true"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_java_brokers_tell_each_other_is_answered_as_by_a_dledger_broker() {
    let fixture = Fixture::with("haListenPort=10912\n").await;
    let least = NotifyMinBrokerIdChangeRequest {
        min_broker_id: Some(1),
        broker_name: Some("b".into()),
        min_broker_addr: Some("192.0.2.1:10911".into()),
        ..NotifyMinBrokerIdChangeRequest::default()
    };
    let answer =
        fixture.ask(Command::request_with(request::NOTIFY_MIN_BROKER_ID_CHANGE, &least)).await;
    assert_eq!(answer.code, 0, "{:?}", answer.remark);
    let offset = ResetMasterFlushOffsetRequest { master_flush_offset: 7 };
    let answer =
        fixture.ask(Command::request_with(request::RESET_MASTER_FLUSH_OFFSET, &offset)).await;
    assert_eq!(answer.code, 0, "{:?}", answer.remark);

    let exchange = |header: &ExchangeHaInfoRequest| {
        Command::request_with(request::EXCHANGE_BROKER_HA_INFO, header)
    };
    let asked = fixture.ask(exchange(&ExchangeHaInfoRequest::default())).await;
    assert_eq!(asked.code, 0, "{:?}", asked.remark);
    assert_eq!(asked.field("masterAddress"), Some(&*fixture.broker.address().to_string()));
    assert_eq!(asked.field("masterHaAddress"), Some("127.0.0.1:10912"));
    assert!(asked.field("masterFlushOffset").is_some_and(|offset| offset.parse::<u64>().is_ok()));
    let told = fixture
        .ask(exchange(&ExchangeHaInfoRequest {
            master_ha_address: Some("192.0.2.1:10912".into()),
            master_flush_offset: Some(0),
            master_address: Some("192.0.2.1:10911".into()),
        }))
        .await;
    assert_eq!((told.code, told.field("masterAddress")), (0, None));
    fixture.sent("T", "it is the master still", "").await;
}
