//! What fails over beside messages, as clients see it.

use protocol::{Command, code::request};

use crate::fixture::Fixture;

const JOURNAL: &str = "rmq_sys_LEDGERMQ_JOURNAL";

/// Group G has consumed queue 0 of T up to `offset`.
pub(crate) fn commit(offset: i64) -> Command {
    Command::request(request::UPDATE_CONSUMER_OFFSET)
        .with_field("consumerGroup", "G")
        .with_field("topic", "T")
        .with_field("queueId", "0")
        .with_field("commitOffset", offset.to_string())
}

fn query() -> Command {
    Command::request(request::QUERY_CONSUMER_OFFSET)
        .with_field("consumerGroup", "G")
        .with_field("topic", "T")
        .with_field("queueId", "0")
}

fn field<'a>(answer: &'a Command, name: &str) -> &'a str {
    answer.field(name).unwrap_or_default()
}

fn make_topic(name: &str, queues: i32) -> Command {
    Command::request(request::UPDATE_AND_CREATE_TOPIC)
        .with_field("topic", name)
        .with_field("defaultTopic", "TBW102")
        .with_field("readQueueNums", queues.to_string())
        .with_field("writeQueueNums", queues.to_string())
        .with_field("perm", "6")
        .with_field("topicFilterType", "SINGLE_TAG")
        .with_field("topicSysFlag", "0")
        .with_field("order", "false")
}

async fn topics(fixture: &Fixture) -> String {
    let answer = fixture.ask(Command::request(request::GET_ALL_TOPIC_CONFIG)).await;
    String::from_utf8_lossy(&answer.body).into_owned()
}

/// The files of config/ are a projection: without them the log tells all of it again.
#[tokio::test(flavor = "multi_thread")]
async fn topics_groups_and_offsets_come_back_from_the_log_alone() {
    let fixture = Fixture::new().await;
    fixture.heartbeat("G", "T", "*").await;
    assert_eq!(fixture.ask(make_topic("T", 3)).await.code, 0);
    fixture.sent("T", "m", "").await;
    assert_eq!(fixture.ask(commit(1)).await.code, 0);
    let Fixture { broker, client, directory } = fixture;
    client.close();
    broker.shutdown().await.expect("an orderly stop");
    std::fs::remove_dir_all(directory.path().join("config")).expect("the files are there");
    let fixture = Fixture::on(directory, "").await;
    assert_eq!(field(&fixture.ask(query()).await, "offset"), "1");
    assert!(topics(&fixture).await.contains("\"T\""));
    let groups = fixture.ask(Command::request(request::GET_ALL_SUBSCRIPTIONGROUP_CONFIG)).await;
    assert!(String::from_utf8_lossy(&groups.body).contains("\"G\""));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_topic_is_deleted_in_the_log_and_its_offsets_go_on() {
    let fixture = Fixture::new().await;
    assert_eq!(fixture.ask(make_topic("T", 1)).await.code, 0);
    for _ in 0..3 {
        fixture.sent("T", "old", "").await;
    }
    fixture.messages("T", 1, 3).await;
    let delete = Command::request(request::DELETE_TOPIC_IN_BROKER).with_field("topic", "T");
    assert_eq!(fixture.ask(delete).await.code, 0);
    assert!(!topics(&fixture).await.contains("\"T\""));
    let Fixture { broker, client, directory } = fixture;
    client.close();
    broker.shutdown().await.expect("an orderly stop");
    for gone in ["derived.mark", "config/topics.json", "config/journal.mark"] {
        std::fs::remove_file(directory.path().join(gone)).expect("it is there");
    }
    let fixture = Fixture::on(directory, "").await;
    assert!(!topics(&fixture).await.contains("\"T\""));
    assert_eq!(fixture.ask(make_topic("T", 1)).await.code, 0);
    let sent = fixture.sent("T", "new", "").await;
    assert_eq!(field(&sent, "queueOffset"), "3");
    let found = fixture.messages_from("T", 3, 1).await;
    assert_eq!(found[0].body, "new");
    assert_ne!(fixture.pull("T", 0, 0).await.code, 0, "the old ones are gone");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_journal_is_no_topic_for_clients() {
    let fixture = Fixture::new().await;
    fixture.heartbeat("G", JOURNAL, "*").await;
    assert!(!topics(&fixture).await.contains(JOURNAL));
    assert_eq!(fixture.pull(JOURNAL, 0, 0).await.code, 17, "TOPIC_NOT_EXIST");
    assert_ne!(fixture.send(JOURNAL, "m", "").await.code, 0);
    assert_ne!(fixture.ask(make_topic(JOURNAL, 1)).await.code, 0);
    for code in [request::GET_MAX_OFFSET, request::GET_MIN_OFFSET] {
        let asked = Command::request(code).with_field("topic", JOURNAL).with_field("queueId", "0");
        assert_eq!(field(&fixture.ask(asked).await, "offset"), "0");
    }
    let at = Command::request(request::SEARCH_OFFSET_BY_TIMESTAMP)
        .with_field("topic", JOURNAL)
        .with_field("queueId", "0")
        .with_field("timestamp", "9999999999999");
    assert_eq!(field(&fixture.ask(at).await, "offset"), "0");
    let earliest = Command::request(request::GET_EARLIEST_MSG_STORETIME)
        .with_field("topic", JOURNAL)
        .with_field("queueId", "0");
    assert_eq!(field(&fixture.ask(earliest).await, "timestamp"), "-1");
}
