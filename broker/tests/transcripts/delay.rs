//! Delay levels.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use protocol::message::properties;

use crate::fixture::Fixture;

#[tokio::test(flavor = "multi_thread")]
async fn a_delayed_message_comes_when_it_is_due_and_not_before() {
    let fixture = Fixture::with("messageDelayLevel=1s 2s\n").await;
    let begun = Instant::now();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970");
    let sent = i64::try_from(now.as_millis()).expect("a clock before the end of time");
    fixture.sent("T", "late", "DELAY\u{1}1\u{2}KEYS\u{1}k\u{2}UNIQ_KEY\u{1}U").await;
    tokio::time::sleep(Duration::from_millis(700)).await;
    assert_ne!(fixture.pull("T", 0, 0).await.code, 0, "before its time");
    let stored = fixture.messages("T", 1, 1).await;
    assert!(begun.elapsed() >= Duration::from_secs(1), "{:?}", begun.elapsed());
    let late = stored[0].store_timestamp - sent - 1_000;
    assert!((0..1_000).contains(&late), "stored {late} ms after it was due");
    let kept = properties::decode(&stored[0].properties);
    assert_eq!((kept.get("KEYS"), kept.get("UNIQ_KEY")), (Some("k"), Some("U")));
    for own in ["DELAY", "REAL_TOPIC", "LEDGERMQ_DELAY_MS"] {
        assert_eq!(kept.get(own), None, "{own}");
    }
    assert_eq!((stored[0].topic.as_str(), stored[0].queue_id), ("T", 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn delayed_messages_survive_a_restart_and_come_once() {
    let text = "messageDelayLevel=1s 3s\n";
    let fixture = Fixture::with(text).await;
    fixture.sent("T", "soon", "DELAY\u{1}1").await;
    fixture.messages("T", 1, 1).await;
    fixture.sent("T", "later", "DELAY\u{1}2").await;
    let fixture = fixture.restarted(text).await;
    let stored = fixture.messages("T", 1, 2).await;
    assert_eq!(stored[1].body, "later");
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(fixture.messages("T", 1, 2).await.len(), 2, "none is delivered twice");
}

/// The bodies of topic `T`, in order, once there are so many.
async fn bodies(fixture: &Fixture, count: usize) -> Vec<String> {
    let found = fixture.messages("T", 1, count).await;
    found.iter().map(|record| String::from_utf8_lossy(&record.body).into_owned()).collect()
}

/// What waits in a level that was shortened comes after the level's new delay, and holds up nothing
/// that comes later for longer than that.
#[tokio::test(flavor = "multi_thread")]
async fn messages_of_a_shortened_level_come_after_its_new_delay() {
    let fixture = Fixture::with("messageDelayLevel=1h\n").await;
    fixture.sent("T", "old", "DELAY\u{1}1").await;
    fixture.sent("T", "old, too", "DELAY\u{1}1").await;
    let begun = Instant::now();
    let fixture = fixture.restarted("messageDelayLevel=1s\n").await;
    fixture.sent("T", "new", "DELAY\u{1}1").await;
    assert_eq!(bodies(&fixture, 3).await, ["old", "old, too", "new"]);
    assert!(begun.elapsed() >= Duration::from_secs(1), "{:?}", begun.elapsed());
}

/// What was stored before a level was made longer comes as it was promised.
#[tokio::test(flavor = "multi_thread")]
async fn messages_of_a_lengthened_level_keep_their_time() {
    let fixture = Fixture::with("messageDelayLevel=1s\n").await;
    fixture.sent("T", "old", "DELAY\u{1}1").await;
    let fixture = fixture.restarted("messageDelayLevel=1h\n").await;
    fixture.sent("T", "new", "DELAY\u{1}1").await;
    assert_eq!(bodies(&fixture, 1).await, ["old"]);
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    assert_eq!(bodies(&fixture, 1).await, ["old"], "the new one waits for an hour");
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_of_levels_that_are_no_more_are_delivered() {
    let fixture = Fixture::with("messageDelayLevel=1s 1s 1h 1s\n").await;
    fixture.sent("T", "an hour", "DELAY\u{1}3").await;
    fixture.sent("T", "a second", "DELAY\u{1}4").await;
    let fixture = fixture.restarted("messageDelayLevel=1s 1s\n").await;
    let mut found = bodies(&fixture, 2).await;
    found.sort();
    assert_eq!(found, ["a second", "an hour"]);
    // A level above the table counts as its last one.
    fixture.sent("T", "above", "DELAY\u{1}4").await;
    assert_eq!(bodies(&fixture, 3).await[2], "above");
    let fixture = fixture.restarted("messageDelayLevel=1h 1h 1s 1h 1s\n").await;
    fixture.sent("T", "third", "DELAY\u{1}3").await;
    fixture.sent("T", "new level", "DELAY\u{1}5").await;
    let mut found = bodies(&fixture, 5).await.split_off(3);
    found.sort();
    assert_eq!(found, ["new level", "third"], "nothing came twice");
}

/// Starts the broker anew with this configuration and without its queues, which it derives again.
async fn rebuilt(fixture: Fixture, text: &str) -> Fixture {
    let Fixture { broker, client, directory } = fixture;
    client.close();
    broker.shutdown().await.expect("an orderly stop");
    std::fs::remove_dir_all(directory.path().join("consumequeue")).expect("it is there");
    std::fs::remove_file(directory.path().join("derived.mark")).expect("it is there");
    Fixture::on(directory, text).await
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_of_a_shortened_level_that_is_built_anew_come_after_its_new_delay() {
    let fixture = Fixture::with("messageDelayLevel=1s 1h\n").await;
    fixture.sent("T", "done", "DELAY\u{1}1").await;
    bodies(&fixture, 1).await;
    fixture.sent("T", "waits", "DELAY\u{1}2").await;
    let fixture = rebuilt(fixture, "messageDelayLevel=1s 1s\n").await;
    fixture.sent("T", "new", "DELAY\u{1}2").await;
    assert_eq!(bodies(&fixture, 3).await, ["done", "waits", "new"]);
}

/// The times of messages are those that the table of their time promised, also where the queue is
/// derived under another one: else this node would deliver an hour later than its peers.
#[tokio::test(flavor = "multi_thread")]
async fn messages_of_a_lengthened_level_that_is_built_anew_keep_their_time() {
    let fixture = Fixture::with("messageDelayLevel=3s\n").await;
    let begun = Instant::now();
    fixture.sent("T", "old", "DELAY\u{1}1").await;
    let fixture = rebuilt(fixture, "messageDelayLevel=1h\n").await;
    fixture.sent("T", "new", "DELAY\u{1}1").await;
    assert_eq!(bodies(&fixture, 1).await, ["old"]);
    assert!(begun.elapsed() >= Duration::from_secs(3), "{:?}", begun.elapsed());
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    assert_eq!(bodies(&fixture, 1).await, ["old"], "the new one waits for an hour");
}
