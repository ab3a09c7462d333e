//! Questions that ask for as much as can be, and names that are no names.

use bytes::Bytes;
use protocol::{
    Command,
    code::{request, response},
    header::{PopMessageRequest, PullMessageRequest},
};

use crate::rig::{LIMIT, Rig, pull_header, send_header, v2};

/// Bytes that one answer may have, whatever is asked for: a query's 8 MiB and its last message.
const ANSWER: usize = 13 << 20;

#[tokio::test(flavor = "multi_thread")]
async fn s_20_answers_have_a_bound_whatever_is_asked_for() {
    let rig = Rig::new("").await;
    let body = Bytes::from(vec![b'x'; 1 << 20]);
    for _ in 0..16 {
        let send = v2(&send_header("large", "KEYS\u{1}k"), body.clone());
        assert_eq!(rig.ask(send).await.code, 0);
    }
    rig.pulled("large", 15).await;
    let most = i32::MAX.to_string();
    let pull = PullMessageRequest { max_msg_nums: i32::MAX, ..pull_header("large", 0) };
    let mut pull = Command::request_with(request::PULL_MESSAGE, &pull);
    if let Some(fields) = pull.ext_fields.as_mut() {
        fields.insert("maxMsgBytes", most.as_str());
    }
    let of_queue =
        |code: i32| Command::request(code).with_field("topic", "large").with_field("queueId", "0");
    let questions = [
        ("pull", pull, 2 << 20),
        (
            "query by key",
            of_queue(request::QUERY_MESSAGE)
                .with_field("key", "k")
                .with_field("maxNum", most.as_str())
                .with_field("beginTimestamp", "0")
                .with_field("endTimestamp", i64::MAX.to_string()),
            ANSWER,
        ),
        (
            "units of a queue",
            of_queue(request::QUERY_CONSUME_QUEUE)
                .with_field("index", "0")
                .with_field("count", most.as_str()),
            1 << 20,
        ),
        ("topics", Command::request(request::GET_ALL_TOPIC_CONFIG), 1 << 20),
        ("groups", Command::request(request::GET_ALL_SUBSCRIPTIONGROUP_CONFIG), 1 << 20),
        ("figures", Command::request(request::GET_BROKER_RUNTIME_INFO), 64 << 10),
        ("producers", Command::request(request::GET_ALL_PRODUCER_INFO), 1 << 20),
    ];
    for (what, question, bound) in questions {
        let answer = rig.ask(question).await;
        assert!(answer.body.len() <= bound, "{what}: {} bytes", answer.body.len());
    }
    rig.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s_20_one_request_acknowledges_a_bounded_number_of_pops() {
    let rig = Rig::new("").await;
    let acks = |count: usize| {
        let entry = r#"{"c":"G","t":"T","r":"0","so":0,"q":0,"rq":0,"pt":1,"it":1000,"b":"AQ=="}"#;
        let body = format!(r#"{{"acks":[{}]}}"#, vec![entry; count].join(","));
        Command::request(request::BATCH_ACK_MESSAGE).with_body(body)
    };
    let answer = rig.ask(acks(4097)).await;
    assert_eq!(answer.code, response::MESSAGE_ILLEGAL);
    let remark = answer.remark.expect("a remark");
    assert!(remark.contains("4097 entries, at most 4096"), "{remark}");
    let answer = rig.ask(acks(4096)).await;
    assert!(!answer.remark.unwrap_or_default().contains("entries"), "as many as may be");
    rig.end().await;
}

/// The least bound that can be set; what is open is counted now and then.
#[tokio::test(flavor = "multi_thread")]
async fn s_17_pops_that_nobody_acknowledges_stop_at_their_bound() {
    let rig = Rig::new("maxOpenCheckPoints=1000\n").await;
    let sends = (0..1_200).map(|_| v2(&send_header("P", ""), Bytes::from_static(b"m"))).collect();
    assert!(rig.ask_all(sends).await.iter().all(|answer| answer.code == 0));
    rig.pulled("P", 1_199).await;
    let pop = Command::request_with(
        request::POP_MESSAGE,
        &PopMessageRequest {
            consumer_group: "G".into(),
            topic: "P".into(),
            queue_id: -1,
            max_msg_nums: 1,
            invisible_time: 600_000,
            ..PopMessageRequest::default()
        },
    );
    let deadline = tokio::time::Instant::now() + LIMIT;
    let refused = loop {
        let answers = rig.ask_all(vec![pop.clone(); 100]).await;
        if let Some(refused) = answers.into_iter().find(|it| it.code == response::SYSTEM_BUSY) {
            break refused.remark.unwrap_or_default();
        }
        assert!(tokio::time::Instant::now() < deadline, "all are taken");
    };
    assert!(refused.contains("(maxOpenCheckPoints)"), "{refused}");
    rig.end().await;
}

fn hostile_names() -> Vec<String> {
    let mut names: Vec<String> = [
        "../../x",
        "..",
        "a/b",
        "a\\b",
        "%2e%2e%2fx",
        "a\0b",
        "a\nb",
        "a b",
        "\u{202e}x",
        "t\u{e9}",
        "\u{6d88}\u{606f}",
        "$(touch x)",
        "`x`",
        "a;b",
        "x'\"",
        "{}",
        "*",
        "~",
        "C:\\x",
        "\u{feff}x",
    ]
    .map(str::to_owned)
    .into();
    names.push("x".repeat(10_000));
    names.push("x".repeat(128));
    names
}

/// `%2e%2e%2fx` and their kin are names like others for Java; here they only must be no paths. What
/// is refused is refused in words, and [`Rig::end`] looks at every name in the folder.
#[tokio::test(flavor = "multi_thread")]
async fn s_03_names_that_are_no_names_are_refused_wherever_they_would_be_kept() {
    let rig = Rig::new("").await;
    for name in hostile_names() {
        let topic = Command::request(request::UPDATE_AND_CREATE_TOPIC)
            .with_field("topic", name.as_str())
            .with_field("defaultTopic", "TBW102")
            .with_field("readQueueNums", "1")
            .with_field("writeQueueNums", "1")
            .with_field("perm", "6")
            .with_field("topicFilterType", "SINGLE_TAG")
            .with_field("topicSysFlag", "0")
            .with_field("order", "false");
        let text = serde_json::to_string(&name).expect("JSON");
        let group = Command::request(request::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP)
            .with_body(format!(r#"{{"groupName":{text},"consumeEnable":true}}"#));
        let send = v2(&send_header(&name, ""), Bytes::from_static(b"m"));
        let allowed = name.bytes().all(|b| b.is_ascii_alphanumeric() || b"%|-_".contains(&b));
        for (what, question, longest) in
            [("topic", topic, 127), ("group", group, 120), ("send", send, 127)]
        {
            let answer = rig.ask(question).await;
            let sound = allowed && name.len() <= longest;
            assert_eq!(answer.code == response::SUCCESS, sound, "{what} {name:.40}: {answer:?}");
            let remark = answer.remark.unwrap_or_default();
            assert!(sound || (!remark.is_empty() && remark.len() < 1000), "{what}: {remark:.100}");
        }
    }
    rig.end().await;
}

/// Deep and long expressions are refused as short ones are, whether expressions are served or not.
#[tokio::test(flavor = "multi_thread")]
async fn s_19_deep_and_long_expressions_are_refused_like_short_ones() {
    let deep = format!("{}a = 1{}", "(".repeat(40_000), ")".repeat(40_000));
    let deep_and_short = format!("{}a = 1{}", "(".repeat(8_000), ")".repeat(8_000));
    let long = format!("a IN ('{}')", vec!["x"; 20_000].join("','"));
    let like = format!("a LIKE '{}'", "%x".repeat(4_000));
    let expressions = ["a >".to_owned(), deep, deep_and_short, long, like];
    for (text, code) in [
        ("", response::SYSTEM_ERROR),
        ("enablePropertyFilter=true\n", response::SUBSCRIPTION_PARSE_FAILED),
    ] {
        let rig = Rig::new(text).await;
        rig.others_are_served().await;
        for expression in &expressions {
            let pull = PullMessageRequest {
                subscription: Some(expression.clone()),
                expression_type: Some("SQL92".into()),
                ..pull_header("alive", 0)
            };
            let answer = rig.ask(Command::request_with(request::PULL_MESSAGE, &pull)).await;
            assert_eq!(answer.code, code, "{:?}", answer.remark);
            let remark = answer.remark.expect("a remark");
            assert!(remark.len() < 300, "{remark}");
        }
        rig.end().await;
    }
}
