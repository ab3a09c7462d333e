//! What a crash leaves where it cuts a commit in two: the message, without the record that takes the
//! half message off. Method: a broker in a folder of its own, whose log is given the message alone.

use std::{path::Path, time::Duration};

use protocol::message::properties;
use tokio::time::Instant;

use super::*;
use crate::{BrokerOptions, RunningBroker, config::BrokerConfig};

const LIMIT: Duration = Duration::from_secs(30);

async fn start(folder: &Path, keys: &str) -> RunningBroker {
    let text = format!(
        "brokerName=b\nbrokerIP1=127.0.0.1\nmappedFileSizeCommitLog=4194304\n\
         diskSpaceWarningLevelRatio=99\ncleanFileForciblyEnable=false\n{keys}"
    );
    let options = BrokerOptions {
        config: BrokerConfig::read(&text).expect("a sound text").config,
        namesrv: None,
        listen: Some("127.0.0.1:0".parse().expect("an address")),
        data_dir: Some(folder.to_owned()),
    };
    Broker::start(options).await.expect("a broker")
}

async fn append(broker: &Broker, records: &[MessageRecord]) -> Placed {
    let committed = broker.submit_inside(records).expect("taken");
    committed.await.expect("told").expect("committed")
}

/// A half message in the log.
async fn half(broker: &Broker, unique: &str) -> Half {
    let now = clock::now_millis();
    let text = format!("TRAN_MSG\u{1}true\u{2}PGROUP\u{1}P\u{2}UNIQ_KEY\u{1}{unique}\u{2}");
    let mut properties = properties::decode(&text);
    let mut record = op::record(&[], broker.store_host(), now);
    (record.topic, record.body) = ("T".to_owned(), "m".into());
    prepare(&mut record, &mut properties);
    record.properties = properties::encode(&properties);
    let placed = append(broker, &[record]).await;
    Half::read(placed.records().next().expect("one record")).expect("a half message")
}

/// Waits until the op topic has so many records.
async fn taken_off(broker: &Broker, count: u64) {
    let deadline = Instant::now() + LIMIT;
    while broker.store.max_offset(name::TRANS_OP_HALF_TOPIC, 0) < count {
        assert!(Instant::now() < deadline, "fewer than {count} half messages are taken off");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_was_cut_in_two_is_not_done_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let running = start(folder.path(), "").await;
    let broker = running.shared();
    let mut halves = Vec::new();
    for unique in ["U1", "U2"] {
        let half = half(&broker, unique).await;
        let ending = broker.end_transaction(&half, End::Commit).expect("open");
        assert_eq!(ending.records.len(), 2, "the message, and the record behind it");
        append(&broker, &ending.records[..1]).await;
        halves.push(half);
    }
    drop(broker);
    running.shutdown().await.expect("an orderly stop");

    let running = start(folder.path(), "").await;
    let broker = running.shared();
    let ending = broker.end_transaction(&halves[0], End::Commit).expect("it may end");
    assert_eq!(ending.records.len(), 1, "the message is there");
    assert_eq!(ending.records[0].topic, name::TRANS_OP_HALF_TOPIC);
    broker.transaction_refused(&ending);
    let refused = broker.end_transaction(&halves[0], End::Rollback).expect_err("it is committed");
    assert!(refused.remark.contains("its outcome stays"), "{}", refused.remark);
    taken_off(&broker, 1).await;
    drop(broker);
    running.shutdown().await.expect("an orderly stop");

    let eager = "transactionTimeOut=0\ntransactionCheckInterval=20\n";
    let running = start(folder.path(), eager).await;
    let broker = running.shared();
    taken_off(&broker, 2).await;
    assert_eq!(broker.store.max_offset("T", 0), 2, "each message is there once");
    assert_eq!(broker.store.max_offset(HALF_TOPIC, 0), 2, "nobody was asked");
    drop(broker);
    running.shutdown().await.expect("an orderly stop");
}
