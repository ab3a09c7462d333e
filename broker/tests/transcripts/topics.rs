//! Codes 17, 18, 21, 202, 215, 305 and 351.

use std::sync::Arc;

use protocol::{
    Command,
    body::{CreateTopicListRequestBody, TopicConfig, TopicConfigSerializeWrapper, TopicList},
    code::{request, response},
    header::{
        CreateTopicRequest, DeleteTopicRequest, GetAllTopicConfigRequest, GetTopicConfigRequest,
        GetTopicStatsInfoRequest,
    },
};

use crate::fixture::{Fixture, LIMIT, field};

fn create(topic: &str, queues: i32) -> CreateTopicRequest {
    CreateTopicRequest {
        topic: topic.into(),
        default_topic: Some("TBW102".into()),
        read_queue_nums: queues,
        write_queue_nums: queues,
        perm: 6,
        topic_filter_type: Some("SINGLE_TAG".into()),
        topic_sys_flag: Some(0),
        order: false,
        attributes: None,
        force: None,
    }
}

fn created(header: &CreateTopicRequest) -> Command {
    Command::request_with(request::UPDATE_AND_CREATE_TOPIC, header)
}

fn one(topic: &str) -> Command {
    let header = GetTopicConfigRequest { topic: topic.into(), lo: Some(true) };
    Command::request_with(request::GET_TOPIC_CONFIG, &header)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_is_made_changed_shown_and_deleted() {
    let fixture = Fixture::new().await;
    let header =
        CreateTopicRequest { attributes: Some("+message.type=FIFO".into()), ..create("T", 3) };
    let answer = fixture.ask(created(&header)).await;
    assert_eq!(answer.code, 0, "{:?}", answer.remark);
    let answer = fixture.ask(one("T")).await;
    let topic = TopicConfig::decode(&answer.body).expect("a topic");
    assert_eq!((topic.read_queue_nums, topic.perm), (3, 6));
    assert_eq!(topic.attributes.get("message.type").map(String::as_str), Some("FIFO"));
    fixture.sent("T", "m", "").await;
    fixture.messages("T", 1, 1).await;

    let fixture = fixture.restarted("").await;
    assert_eq!(fixture.ask(one("T")).await.code, 0, "it is kept");
    let header = DeleteTopicRequest { topic: "T".into() };
    let answer = fixture.ask(Command::request_with(request::DELETE_TOPIC_IN_BROKER, &header)).await;
    assert_eq!(answer.code, 0, "{:?}", answer.remark);
    let answer = fixture.ask(one("T")).await;
    assert_eq!(answer.code, response::TOPIC_NOT_EXIST);
    assert_eq!(answer.remark.as_deref(), Some("No topic in this broker. topic: T"));
}

/// What README says is declined: no topic is made, and the answer says why and what to do.
#[tokio::test(flavor = "multi_thread")]
async fn kinds_of_topics_that_are_not_served_are_refused_in_words() {
    let fixture = Fixture::new().await;
    let error = response::SYSTEM_ERROR;
    for (attribute, code, remark) in [
        (
            "cleanup.policy=COMPACTION",
            error,
            "topics with cleanup.policy=COMPACTION are not served here: messages are kept until retention takes them; leave the attribute out",
        ),
        (
            "queue.type=BatchCQ",
            error,
            "topics with queue.type=BatchCQ are not served here: queues are SimpleCQ; leave the attribute out",
        ),
        (
            "message.type=LITE",
            error,
            "topics with message.type=LITE are not served here: light queues (INNER_MULTI_DISPATCH) are, with enableLmq",
        ),
        ("message.type=MIXED", response::INVALID_PARAMETER, "MIXED message type is not supported."),
    ] {
        let attributes = Some(format!("+{attribute}"));
        let answer = fixture.ask(created(&CreateTopicRequest { attributes, ..create("T", 1) }));
        let answer = answer.await;
        assert_eq!((answer.code, answer.remark.as_deref()), (code, Some(remark)), "{attribute}");
        assert_eq!(fixture.ask(one("T")).await.code, response::TOPIC_NOT_EXIST, "{attribute}");
    }
    for (code, reason) in std::iter::once((5_001, "there is one engine of timers"))
        .chain((200_070..=200_079).map(|code| (code, "lite topics do not exist yet")))
    {
        let answer = fixture.ask(Command::request(code)).await;
        assert_eq!(answer.code, response::REQUEST_CODE_NOT_SUPPORTED, "{code}");
        let remark = answer.remark.expect("a reason");
        let begins = format!(" request type {code} not supported: {reason}");
        assert!(remark.starts_with(&begins), "{remark}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn several_topics_are_made_at_once_or_none() {
    let fixture = Fixture::new().await;
    let topic = |name: &str, queues: i32, attributes: &[(&str, &str)]| TopicConfig {
        topic_name: name.to_owned(),
        read_queue_nums: queues,
        write_queue_nums: queues,
        attributes: attributes
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect(),
        ..TopicConfig::default()
    };
    let make = |topics: Vec<TopicConfig>| {
        let body = CreateTopicListRequestBody { topic_config_list: topics };
        Command::request(request::UPDATE_AND_CREATE_TOPIC_LIST).with_body(body.encode())
    };
    let fifo = topic("U", 2, &[("+message.type", "FIFO")]);
    let answer = fixture.ask(make(vec![topic("T", 3, &[]), fifo])).await;
    assert_eq!(answer.code, 0, "{:?}", answer.remark);
    let read = async |name: &str| {
        TopicConfig::decode(&fixture.ask(one(name)).await.body).expect("a topic")
    };
    assert_eq!(read("T").await.read_queue_nums, 3);
    let made = read("U").await;
    assert_eq!(made.attributes.get("message.type").map(String::as_str), Some("FIFO"));

    // Java's broker takes none of a list in which one is as it is wanted.
    let plain = topic("U", 5, &[("-message.type", "")]);
    let answer = fixture.ask(make(vec![topic("T", 3, &[]), plain])).await;
    assert_eq!(answer.code, 0, "{:?}", answer.remark);
    let made = read("U").await;
    assert_eq!((made.write_queue_nums, made.attributes.len()), (5, 0));

    for wrong in [topic("bad/name", 1, &[]), topic("TBW102", 1, &[]), topic("W", -1, &[])] {
        let answer = fixture.ask(make(vec![topic("V", 1, &[]), wrong])).await;
        assert_eq!(answer.code, response::INVALID_PARAMETER, "{:?}", answer.remark);
        assert_eq!(fixture.ask(one("V")).await.code, response::TOPIC_NOT_EXIST, "none is made");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn system_topics_are_neither_changed_nor_deleted() {
    let fixture = Fixture::new().await;
    for topic in ["TBW102", "b", "DefaultCluster", "rmq_sys_x"] {
        let answer = fixture.ask(created(&create(topic, 1))).await;
        assert_eq!(answer.code, response::INVALID_PARAMETER, "{topic}");
        let text = format!("The topic[{topic}] is conflict with system topic.");
        assert_eq!(answer.remark, Some(text));
        let header = DeleteTopicRequest { topic: topic.into() };
        let answer =
            fixture.ask(Command::request_with(request::DELETE_TOPIC_IN_BROKER, &header)).await;
        assert_eq!(answer.code, response::INVALID_PARAMETER, "{topic}");
    }
    let answer = fixture.ask(Command::request(request::GET_SYSTEM_TOPIC_LIST_FROM_BROKER)).await;
    let list = TopicList::decode(&answer.body).expect("a list").topic_list;
    for topic in ["TBW102", "b", "DefaultCluster", "SCHEDULE_TOPIC_XXXX"] {
        assert!(list.iter().any(|name| name == topic), "{topic} is not in {list:?}");
    }
    assert!(!list.iter().any(|name| name.contains("JOURNAL")));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_table_comes_whole_or_by_pages() {
    let fixture = Fixture::new().await;
    for n in 0..5 {
        fixture.ask(created(&create(&format!("T{n}"), 1))).await;
    }
    let answer = fixture.ask(Command::request(request::GET_ALL_TOPIC_CONFIG)).await;
    let whole = TopicConfigSerializeWrapper::decode(&answer.body).expect("a table");
    let total = whole.topic_config_table.len();
    assert_eq!(field(&answer, "totalTopicNum"), total.to_string());
    let version = String::from_utf8(whole.data_version.encode().to_vec()).expect("text");
    let page = async |seq: i32, version: &str| {
        let header = GetAllTopicConfigRequest {
            topic_seq: Some(seq),
            data_version: Some(version.to_owned()),
            max_topic_num: Some(7),
        };
        let answer =
            fixture.ask(Command::request_with(request::GET_ALL_TOPIC_CONFIG, &header)).await;
        TopicConfigSerializeWrapper::decode(&answer.body).expect("a page").topic_config_table
    };
    let first = page(0, &version).await;
    let second = page(7, &version).await;
    assert_eq!(first.len(), 7);
    assert!(second.keys().all(|name| !first.contains_key(name)));
    let stale = page(7, "{\"counter\":-1,\"timestamp\":1}").await;
    assert_eq!(stale, first, "a stale reader starts again");
}

#[tokio::test(flavor = "multi_thread")]
async fn offsets_of_a_topic_are_keyed_by_queue() {
    let fixture = Fixture::new().await;
    fixture.ask(created(&create("T", 1))).await;
    fixture.sent("T", "m", "").await;
    fixture.messages("T", 1, 1).await;
    let header = GetTopicStatsInfoRequest { topic: "T".into() };
    let answer = fixture.ask(Command::request_with(request::GET_TOPIC_STATS_INFO, &header)).await;
    let text = String::from_utf8(answer.body.to_vec()).expect("text");
    let key = "{\"offsetTable\":{{\"brokerName\":\"b\",\"queueId\":0,\"topic\":\"T\"}:{\"lastUpdateTimestamp\":";
    assert!(text.starts_with(key), "{text}");
    assert!(text.contains("\"maxOffset\":1,\"minOffset\":0"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn name_servers_know_a_topic_before_its_maker_does() {
    let server = namesrv::Namesrv::start(namesrv::NamesrvOptions {
        listen: "127.0.0.1:0".parse().expect("an address"),
        ..namesrv::NamesrvOptions::default()
    })
    .expect("a name server");
    let address = server.local_addr().to_string();
    let fixture = Fixture::with(&format!("namesrvAddr={address}\n")).await;
    fixture.ask(created(&create("T", 3))).await;
    let calls = namesrv_client::NameServers::new(
        vec![address],
        Arc::new(remoting::Client::new(remoting::ClientOptions::default())),
    )
    .with_timeout(LIMIT);
    let route = calls.route("T").await.expect("an answer").expect("a route");
    assert_eq!(route.queue_datas[0].write_queue_nums, 3);
    let master = route.broker_datas[0].broker_addrs.get(&0).cloned();
    assert_eq!(master, Some(fixture.broker.address().to_string()));
    assert!(calls.route("TBW102").await.expect("an answer").is_some());
    fixture.broker.shutdown().await.expect("an orderly stop");
    assert_eq!(calls.route("T").await.expect("an answer"), None, "unregistered on stop");
    server.shutdown().await;
}
