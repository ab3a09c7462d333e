//! Transactions while the master is killed: whatever was acknowledged, and whoever ends it, each
//! committed message is there once, and none that was rolled back.
//!
//! One producer sends half messages and ends them, one after the other, and does not mind what it is
//! answered. The master is killed under it. Then the producer is asked for those that have not ended,
//! by whichever broker leads.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use failover::brokers::{Brokers, Places, Product, SERVES};
use interop::folder::scenario;
use protocol::{
    Command, ExtFields,
    body::{HeartbeatData, ProducerData},
    code::request,
    header::{
        CheckTransactionStateRequest, EndTransactionRequest, PullMessageRequest, SendMessageRequest,
    },
    message::{id::parse_offset_message_id, properties, record},
};
use remoting::{Client, ClientOptions, Connection, Handler, Responder};

#[expect(clippy::expect_used, reason = "a lock of a test that has panicked")]
mod keys {
    use std::sync::{Mutex, MutexGuard};

    /// Unique keys, taken from a lock.
    pub(super) fn of(keys: &Mutex<Vec<String>>) -> MutexGuard<'_, Vec<String>> {
        keys.lock().expect("nobody panics")
    }
}

const TOPIC: &str = "FailoverTestTransactions";
const GROUP: &str = "P";
const PATIENCE: Duration = Duration::from_secs(3);
/// Kills of the master.
const KILLS: usize = 3;
/// Half messages between two kills, at least.
const BETWEEN: usize = 60;

/// Whether the producer commits the transaction of a unique key: every third is rolled back.
fn commits(unique: &str) -> bool {
    unique
        .strip_prefix('U')
        .and_then(|number| number.parse().ok())
        .is_some_and(|n: u64| !n.is_multiple_of(3))
}

fn end(unique: &str, place: (i64, i64), asked: bool) -> Command {
    let header = EndTransactionRequest {
        topic: Some(TOPIC.to_owned()),
        producer_group: GROUP.to_owned(),
        tran_state_table_offset: place.0,
        commit_log_offset: place.1,
        commit_or_rollback: if commits(unique) { 8 } else { 12 },
        from_transaction_check: asked,
        msg_id: unique.to_owned(),
        transaction_id: Some(unique.to_owned()),
    };
    Command::request_with(request::END_TRANSACTION, &header)
}

/// Answers what brokers ask.
struct Answers;

impl Handler for Answers {
    fn handle(&self, connection: &Arc<Connection>, command: Command, responder: Responder) {
        drop(responder);
        let Ok(asked) = command.header::<CheckTransactionStateRequest>() else { return };
        let place = (asked.tran_state_table_offset, asked.commit_log_offset);
        connection.oneway(end(&asked.msg_id.unwrap_or_default(), place, true));
    }
}

/// The producer and what it knows.
struct Rig {
    client: Client,
    /// Unique keys whose half message was acknowledged.
    acknowledged: Mutex<Vec<String>>,
    killing: AtomicBool,
}

impl Rig {
    async fn ask(&self, address: &str, command: Command) -> Result<Command> {
        Ok(self.client.call(address, command, PATIENCE).await?)
    }

    async fn heartbeat(&self, address: &str) -> Result<()> {
        let heartbeat = HeartbeatData {
            client_id: "producer".to_owned(),
            producer_data_set: vec![ProducerData { group_name: GROUP.to_owned() }],
            ..HeartbeatData::default()
        };
        let beat = Command::request(request::HEART_BEAT).with_body(heartbeat.encode());
        ensure!(self.ask(address, beat).await?.code == 0, "a heartbeat was refused");
        Ok(())
    }

    /// Sends a half message and ends its transaction; the end may be lost.
    async fn transaction(&self, address: &str, number: usize) -> Result<()> {
        let unique = format!("U{number}");
        let header = SendMessageRequest {
            producer_group: GROUP.to_owned(),
            topic: TOPIC.to_owned(),
            default_topic: "TBW102".to_owned(),
            default_topic_queue_nums: 1,
            queue_id: 0,
            born_timestamp: now(),
            properties: Some(format!(
                "TRAN_MSG\u{1}true\u{2}PGROUP\u{1}{GROUP}\u{2}UNIQ_KEY\u{1}{unique}\u{2}"
            )),
            ..SendMessageRequest::default()
        };
        let mut send =
            Command::request(request::SEND_MESSAGE_V2).with_body(Bytes::from_static(b"m"));
        let mut fields = ExtFields::new();
        header.encode_v2(&mut fields);
        send.ext_fields = Some(fields);
        let answer = self.ask(address, send).await?;
        ensure!(answer.code == 0, "{:?}", answer.remark);
        keys::of(&self.acknowledged).push(unique.clone());
        let id = answer.field("msgId").context("a message id")?;
        let (_, physical) = parse_offset_message_id(id).context("a message id")?;
        let offset = answer.field("queueOffset").context("an offset")?.parse()?;
        // Every fifth is left to the question.
        if !number.is_multiple_of(5) {
            let ended = self.ask(address, end(&unique, (offset, physical), false)).await?;
            ensure!(ended.code == 0, "{:?}", ended.remark);
        }
        Ok(())
    }

    /// Unique keys of all messages of the topic, with how often each is there.
    async fn visible(&self, address: &str) -> Result<BTreeMap<String, usize>> {
        let mut found = BTreeMap::new();
        let mut offset = 0;
        loop {
            let header = PullMessageRequest {
                consumer_group: "TOOLS_CONSUMER".into(),
                topic: TOPIC.into(),
                queue_id: 0,
                queue_offset: offset,
                max_msg_nums: 32,
                sys_flag: 4,
                subscription: Some("*".into()),
                ..PullMessageRequest::default()
            };
            let pull = Command::request_with(request::PULL_MESSAGE, &header);
            let answer = self.ask(address, pull).await?;
            match answer.code {
                0 => {}
                19 => return Ok(found),
                code => bail!("a pull was answered {code}: {:?}", answer.remark),
            }
            for view in record::records(&answer.body) {
                let view = view.context("a record")?;
                let unique = view.property(properties::key::UNIQ_KEY).context("UNIQ_KEY")?;
                *found.entry(unique.into_owned()).or_insert(0) += 1;
                offset = view.queue_offset() + 1;
            }
        }
    }
}

fn now() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// Lets each broker ask early and for ever.
async fn ask_early(rig: &Rig, brokers: &Brokers) -> Result<()> {
    let keys = "transactionTimeOut=0\ntransactionCheckInterval=300\ntransactionCheckMax=1000000\n";
    for number in 0..brokers.size() {
        let update = Command::request(request::UPDATE_BROKER_CONFIG).with_body(keys);
        let answer = rig.ask(&brokers.address(number), update).await?;
        ensure!(answer.code == 0, "n{number}: {:?}", answer.remark);
    }
    Ok(())
}

async fn load(rig: &Rig, addresses: &[String], first: usize) -> usize {
    let mut number = first;
    let mut after = 0;
    let deadline = Instant::now() + SERVES;
    while Instant::now() < deadline {
        let address = &addresses[number % addresses.len()];
        // What fails is asked about later, or was not taken.
        if rig.transaction(address, number).await.is_err() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        number += 1;
        if rig.killing.load(Ordering::Acquire) {
            after += 1;
        }
        if after >= 20 {
            break;
        }
    }
    number
}

async fn run(brokers: &mut Brokers) -> Result<()> {
    let client =
        Client::new(ClientOptions { handler: Some(Arc::new(Answers)), ..Default::default() });
    let rig =
        Arc::new(Rig { client, acknowledged: Mutex::default(), killing: AtomicBool::default() });
    let mut master = brokers.wait_master(None)?;
    // A majority serves; the third may have been started a moment later.
    brokers.listed_once()?;
    ask_early(&rig, brokers).await?;
    let mut number = 1;
    for _kill in 0..KILLS {
        rig.killing.store(false, Ordering::Release);
        let addresses: Vec<_> = (0..brokers.size()).map(|node| brokers.address(node)).collect();
        let (it, from) = (Arc::clone(&rig), number);
        let loading = tokio::spawn(async move { load(&it, &addresses, from).await });
        let wanted = keys::of(&rig.acknowledged).len() + BETWEEN;
        let deadline = Instant::now() + SERVES;
        while keys::of(&rig.acknowledged).len() < wanted {
            ensure!(Instant::now() < deadline, "too few half messages were acknowledged");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        brokers.kill(master)?;
        rig.killing.store(true, Ordering::Release);
        number = loading.await.context("the load")?;
        let killed = master;
        master = brokers.wait_master(Some(killed))?;
        brokers.restart(killed)?;
        brokers.caught_up()?;
        ask_early(&rig, brokers).await?;
    }
    settle(&rig, brokers).await
}

/// Waits until all transactions have ended, and looks at the outcome on the master.
async fn settle(rig: &Rig, brokers: &Brokers) -> Result<()> {
    let acknowledged = keys::of(&rig.acknowledged).clone();
    let expected = |unique: &&String| commits(unique);
    let deadline = Instant::now() + SERVES;
    loop {
        let master = brokers.address(brokers.wait_master(None)?);
        rig.heartbeat(&master).await?;
        let visible = rig.visible(&master).await?;
        for (unique, times) in &visible {
            ensure!(*times == 1, "{unique} is there {times} times");
            ensure!(commits(unique), "{unique} was rolled back and is there");
        }
        let missing: Vec<_> =
            acknowledged.iter().filter(expected).filter(|it| !visible.contains_key(*it)).collect();
        if missing.is_empty() {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "these have not ended: {missing:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[test]
#[ignore = "starts processes: cargo xtask ci --only failover"]
fn short_transactions_end_once() -> Result<()> {
    scenario("failover-transactions", |folder| {
        let mut brokers = Brokers::start(Product::Ours, &Places::default(), false, folder)?;
        let runtime = tokio::runtime::Runtime::new().context("a runtime")?;
        runtime.block_on(run(&mut brokers))
    })
}
