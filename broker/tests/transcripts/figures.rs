//! What tools are told of timers, groups and queues: codes 28, 303, 308, 315 and 343.

use std::{collections::BTreeMap, time::Duration};

use protocol::{
    Command,
    body::{
        BrokerStatsData, KvTable, QueryConsumeTimeSpanBody, QueryCorrectionOffsetBody, TopicList,
    },
    code::{request, response},
    header::{
        ChangeInvisibleTimeRequest, ConsumerSendMsgBackRequest, QueryConsumeTimeSpanRequest,
        QueryCorrectionOffsetRequest, QueryTopicsByConsumerRequest, ViewBrokerStatsDataRequest,
    },
};

use crate::{
    fixture::{Fixture, LIMIT, pull_header, pull_request},
    pop::{ack, header, pop_some, wait_sent},
    timer::now,
};

async fn runtime_info(fixture: &Fixture) -> BTreeMap<String, String> {
    let answer = fixture.ask(Command::request(request::GET_BROKER_RUNTIME_INFO)).await;
    KvTable::decode(&answer.body).expect("a table").table
}

/// Waits until runtime info is as a test wants it.
async fn wait_info(
    fixture: &Fixture,
    holds: impl Fn(&BTreeMap<String, String>) -> bool,
) -> BTreeMap<String, String> {
    let deadline = tokio::time::Instant::now() + LIMIT;
    loop {
        let info = runtime_info(fixture).await;
        if holds(&info) {
            return info;
        }
        assert!(tokio::time::Instant::now() < deadline, "{info:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn runtime_info_tells_of_timers_that_come_wait_and_go() {
    let fixture = Fixture::new().await;
    let info = wait_info(&fixture, |info| info["brokerActive"] == "true").await;
    for name in ["timerReadBehind", "timerOffsetBehind", "timerCongestNum"] {
        assert_eq!(info[name], "0", "{name}");
    }
    for name in ["timerEnqueueTps", "timerDequeueTps"] {
        assert_eq!(info[name], "0.0", "{name}");
    }
    for body in ["a", "b", "c"] {
        fixture.sent("T", body, "TIMER_DELAY_SEC\u{1}3600").await;
    }
    let info = wait_info(&fixture, |info| info["timerCongestNum"] == "3").await;
    assert_eq!(info["timerOffsetBehind"], "0", "all were looked at");
    assert_eq!(info["timerReadBehind"], "0", "none is due");
    let rate = |info: &BTreeMap<String, String>, name: &str| -> f64 {
        info[name].parse().expect("a number")
    };
    assert!(rate(&info, "timerEnqueueTps") > 0.0, "{info:?}");
    assert_eq!(info["timerDequeueTps"], "0.0");
    fixture.sent("T", "soon", "TIMER_DELAY_MS\u{1}100").await;
    fixture.messages("T", 1, 1).await;
    let info = wait_info(&fixture, |info| info["timerDequeueTps"] != "0.0").await;
    assert!(rate(&info, "timerDequeueTps") < rate(&info, "timerEnqueueTps"), "{info:?}");
    wait_info(&fixture, |info| info["timerCongestNum"] == "3").await;
    let fixture = fixture.restarted("").await;
    wait_info(&fixture, |info| info["timerCongestNum"] == "3").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn runtime_info_tells_the_queues_that_acknowledgements_and_ends_of_transactions_wait_in() {
    let text = "pullThreadPoolQueueCapacity=77\nqueryThreadPoolQueueCapacity=78\n";
    let fixture = Fixture::with(text).await;
    let info = runtime_info(&fixture).await;
    assert_eq!(info["ackThreadPoolQueueCapacity"], "77");
    assert_eq!(info["EndTransactionThreadPoolQueueCapacity"], "78");
    assert_eq!((&*info["ackThreadPoolQueueSize"], &*info["EndTransactionQueueSize"]), ("0", "0"));
}

/// The sum of the last day, where something was counted.
async fn counted(fixture: &Fixture, name: &str, key: &str) -> Option<i64> {
    let header = ViewBrokerStatsDataRequest { stats_name: name.into(), stats_key: key.into() };
    let answer = fixture.ask(Command::request_with(request::VIEW_BROKER_STATS_DATA, &header)).await;
    if answer.code == response::SUCCESS {
        return Some(BrokerStatsData::decode(&answer.body).expect("figures").stats_day.sum);
    }
    assert_eq!(answer.code, response::SYSTEM_ERROR);
    assert_eq!(answer.remark, Some(format!("The stats <{name}> <{key}> not exist")));
    None
}

#[tokio::test(flavor = "multi_thread")]
async fn acknowledgements_check_points_queues_and_dead_letters_are_counted() {
    let fixture = Fixture::new().await;
    for body in ["a", "b", "c"] {
        fixture.sent("T", body, "").await;
    }
    wait_sent(&fixture, 3).await;
    for (name, key) in
        [("GROUP_ACK_NUMS", "T@G"), ("GROUP_CK_NUMS", "T@G"), ("DLQ_PUT_NUMS", "T@G")]
    {
        assert_eq!(counted(&fixture, name, key).await, None, "{name}");
    }
    let popped = pop_some(&fixture, &header()).await;
    assert_eq!(popped.len(), 3);
    assert_eq!(counted(&fixture, "GROUP_CK_NUMS", "T@G").await, Some(1), "one for all of a queue");
    assert_eq!(ack(&fixture, &popped[0]).await.code, 0);
    assert_eq!(ack(&fixture, &popped[1]).await.code, 0);
    assert_eq!(counted(&fixture, "GROUP_ACK_NUMS", "T@G").await, Some(2));
    let change = ChangeInvisibleTimeRequest {
        consumer_group: "G".into(),
        topic: "T".into(),
        queue_id: 0,
        extra_info: popped[2].handle.clone(),
        offset: popped[2].message.queue_offset,
        invisible_time: 60_000,
        ..ChangeInvisibleTimeRequest::default()
    };
    let answer =
        fixture.ask(Command::request_with(request::CHANGE_MESSAGE_INVISIBLETIME, &change)).await;
    assert_eq!(answer.code, 0, "{:?}", answer.remark);
    let back = ConsumerSendMsgBackRequest {
        offset: popped[0].message.physical_offset,
        group: "G".into(),
        delay_level: -1,
        ..ConsumerSendMsgBackRequest::default()
    };
    let answer = fixture.ask(Command::request_with(request::CONSUMER_SEND_MSG_BACK, &back)).await;
    assert_eq!(answer.code, 0, "{:?}", answer.remark);
    let consumed = fixture
        .ask(pull_request(&protocol::header::PullMessageRequest {
            consumer_group: "G".into(),
            ..pull_header("T", 0, 1)
        }))
        .await;
    assert_eq!(consumed.code, 0, "{:?}", consumed.remark);
    for (name, key, sum) in [
        ("GROUP_CK_NUMS", "T@G", Some(2)),
        ("GROUP_ACK_NUMS", "T@G", Some(3)),
        ("BROKER_CK_NUMS", "DefaultCluster", Some(2)),
        ("BROKER_ACK_NUMS", "DefaultCluster", Some(3)),
        ("DLQ_PUT_NUMS", "T@G", Some(1)),
        ("SNDBCK_PUT_NUMS", "T@G", Some(1)),
        ("QUEUE_PUT_NUMS", "T@0", Some(3)),
        ("QUEUE_PUT_NUMS", "T@1", None),
        ("QUEUE_GET_NUMS", "T@0@G", Some(2)),
        ("GROUP_GET_NUMS", "T@G", Some(5)),
        ("COMMERCIAL_SEND_TIMES", "o@T@P@SEND_SUCCESS", None),
    ] {
        assert_eq!(counted(&fixture, name, key).await, sum, "{name} {key}");
    }
    assert!(counted(&fixture, "TOPIC_PUT_LATENCY", "0@T").await.is_some_and(|millis| millis >= 0));
    assert!(counted(&fixture, "GROUP_GET_LATENCY", "0@T@G").await.is_some());
}

async fn commit(fixture: &Fixture, group: &str, (topic, queue): (&str, i32), offset: i64) {
    let made = Command::request(request::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP)
        .with_body(format!("{{\"groupName\":\"{group}\"}}"));
    assert_eq!(fixture.ask(made).await.code, 0);
    let request = Command::request(request::UPDATE_CONSUMER_OFFSET)
        .with_field("consumerGroup", group)
        .with_field("topic", topic)
        .with_field("queueId", queue.to_string())
        .with_field("commitOffset", offset.to_string());
    assert_eq!(fixture.ask(request).await.code, 0);
}

async fn span_of(fixture: &Fixture, group: &str) -> QueryConsumeTimeSpanBody {
    let header = QueryConsumeTimeSpanRequest { topic: "T".into(), group: group.into() };
    let answer =
        fixture.ask(Command::request_with(request::QUERY_CONSUME_TIME_SPAN, &header)).await;
    assert_eq!(answer.code, 0, "{:?}", answer.remark);
    QueryConsumeTimeSpanBody::decode(&answer.body).expect("spans")
}

#[tokio::test(flavor = "multi_thread")]
async fn times_of_a_group_in_a_topic_are_numbers_and_texts() {
    let fixture = Fixture::new().await;
    for body in ["a", "b", "c"] {
        fixture.sent("T", body, "").await;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let stored: Vec<i64> =
        fixture.messages("T", 1, 3).await.iter().map(|record| record.store_timestamp).collect();
    commit(&fixture, "G", ("T", 0), 2).await;
    let before = now();
    let spans = span_of(&fixture, "G").await.consume_time_span_set;
    let span = spans.iter().find(|span| span.message_queue.queue_id == 0).expect("queue 0");
    assert_eq!((&*span.message_queue.topic, &*span.message_queue.broker_name), ("T", "b"));
    let (first, consumed, last) =
        (span.min_time_stamp, span.consume_time_stamp, span.max_time_stamp);
    assert_eq!([first, consumed, last], [stored[0], stored[1], stored[2]]);
    let behind = span.delay_time;
    assert!((before - stored[2]..=now() - stored[2]).contains(&behind), "{behind}");
    for (text, millis) in [
        (&span.min_time_stamp_str, first),
        (&span.consume_time_stamp_str, consumed),
        (&span.max_time_stamp_str, last),
    ] {
        let text = text.as_deref().expect("a text");
        let parts: Vec<&str> = text.split(['-', '#', ':']).collect();
        assert_eq!(parts.iter().map(|part| part.len()).collect::<Vec<_>>(), [4, 2, 2, 2, 2, 2, 3]);
        assert_eq!(parts[6].parse::<i64>().expect("milliseconds"), millis % 1_000, "{text}");
        assert_eq!(parts[5].parse::<i64>().expect("seconds"), millis / 1_000 % 60, "{text}");
    }
    let empty = spans.iter().find(|span| span.message_queue.queue_id == 1).expect("queue 1");
    assert_eq!((empty.min_time_stamp, empty.max_time_stamp, empty.delay_time), (-1, -1, 0));

    commit(&fixture, "G", ("T", 0), 3).await;
    let spans = span_of(&fixture, "G").await.consume_time_span_set;
    assert_eq!((spans[0].consume_time_stamp, spans[0].delay_time), (stored[2], 0));
    let fresh = span_of(&fixture, "H").await.consume_time_span_set;
    assert_eq!(fresh[0].consume_time_stamp, stored[0], "of the first message, as in Java");
    let header = QueryConsumeTimeSpanRequest { topic: "U".into(), group: "G".into() };
    let answer =
        fixture.ask(Command::request_with(request::QUERY_CONSUME_TIME_SPAN, &header)).await;
    assert_eq!(answer.code, response::TOPIC_NOT_EXIST);
    assert_eq!(answer.remark.as_deref(), Some("topic[U] not exist"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_has_the_topics_that_it_has_offsets_for() {
    let fixture = Fixture::new().await;
    for topic in ["T", "U"] {
        fixture.sent(topic, "m", "").await;
        commit(&fixture, "G", (topic, 0), 1).await;
    }
    let topics = async |group: &str| {
        let header = QueryTopicsByConsumerRequest { group: group.into() };
        let answer =
            fixture.ask(Command::request_with(request::QUERY_TOPICS_BY_CONSUMER, &header)).await;
        assert_eq!(answer.code, 0, "{:?}", answer.remark);
        TopicList::decode(&answer.body).expect("topics")
    };
    let told = topics("G").await;
    assert_eq!(told.topic_list, ["T", "U"]);
    assert_eq!(told.broker_addr, Some(fixture.broker.address().to_string()));
    assert!(topics("H").await.topic_list.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn corrections_are_the_least_offsets_of_the_other_groups() {
    let fixture = Fixture::new().await;
    fixture.sent("T", "m", "").await;
    for (group, queue, offset) in
        [("A", 0, 7), ("B", 0, 5), ("B", 1, 4), ("Left", 0, 1), ("C", 0, 6), ("C", 1, 3)]
    {
        commit(&fixture, group, ("T", queue), offset).await;
    }
    let corrections = async |compared: &str, filtered: Option<&str>| {
        let header = QueryCorrectionOffsetRequest {
            filter_groups: filtered.map(str::to_owned),
            compare_group: compared.into(),
            topic: "T".into(),
        };
        let answer =
            fixture.ask(Command::request_with(request::QUERY_CORRECTION_OFFSET, &header)).await;
        assert_eq!(answer.code, 0, "{:?}", answer.remark);
        QueryCorrectionOffsetBody::decode(&answer.body).expect("offsets").correction_offsets
    };
    let all = corrections("A", None).await;
    assert_eq!(all, BTreeMap::from([(0, 1), (1, 3)]));
    let some = corrections("A", Some("Left,C")).await;
    assert_eq!(some, BTreeMap::from([(0, 5), (1, 4)]));
    let nothing_to_do = corrections("C", Some("Left,C,B")).await;
    assert_eq!(nothing_to_do, BTreeMap::from([(0, i64::MAX)]), "it is behind the others already");
}
