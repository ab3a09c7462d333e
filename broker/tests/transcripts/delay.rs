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
    assert_eq!((kept.get("DELAY"), kept.get("REAL_TOPIC")), (None, None));
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
