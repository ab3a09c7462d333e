//! Brokers in a group of several, in one process.

use std::{
    collections::BTreeMap,
    net::TcpListener,
    sync::{Arc, Mutex},
    time::Duration,
};

use broker::Group;
use protocol::{
    Command,
    body::{BrokerData, ClusterInfo, QueryAssignmentRequestBody, RegisterBrokerBody},
    code::{request, response},
    header::{NotificationRequest, PopMessageRequest, PullMessageRequest, RecallMessageRequest},
    message::{properties, record::MessageRecord},
};
use remoting::{Connection, Handler, Responder, Server, ServerOptions};
use tokio::time::Instant;

use crate::{
    assignment::{modes, query, set_mode},
    fixture::{Fixture, pull_header, pull_request, records},
    peer::Peer,
    pop,
    transaction::{COMMIT, EAGER, HALF, answer_to, end_of, refused, request as request_of},
};

/// A name server that leaves an address under its former id, and takes whatever has an id away when
/// that id is unregistered, as those before 4.5 do.
#[derive(Default)]
pub(crate) struct OldNames(Mutex<BTreeMap<i64, Registered>>);

/// What stands under an id.
#[derive(Debug, Clone, PartialEq)]
struct Registered {
    address: String,
    /// `DataVersion.stateVersion`.
    state: i64,
}

impl OldNames {
    pub(crate) fn start() -> (Arc<Self>, Server) {
        let names = Arc::new(Self::default());
        let any = "127.0.0.1:0".parse().expect("an address");
        let handler = Arc::<Self>::clone(&names);
        (names, Server::bind(any, ServerOptions::default(), handler).expect("a free port"))
    }

    fn table(&self) -> BTreeMap<i64, Registered> {
        self.0.lock().expect("nobody panics").clone()
    }
}

impl Handler for OldNames {
    fn handle(&self, _connection: &Arc<Connection>, command: Command, responder: Responder) {
        let text = |name| command.field(name).unwrap_or_default().to_owned();
        let id = text("brokerId").parse().unwrap_or(-1);
        let mut table = self.0.lock().expect("nobody panics");
        let mut answer = Command::request(0).response(response::SUCCESS);
        match command.code {
            request::REGISTER_BROKER => {
                let state = state_version(&command);
                drop(table.insert(id, Registered { address: text("brokerAddr"), state }));
            }
            request::UNREGISTER_BROKER => drop(table.remove(&id)),
            request::GET_BROKER_CLUSTER_INFO => {
                let broker_addrs =
                    table.iter().map(|(id, there)| (*id, there.address.clone())).collect();
                let group = BrokerData { broker_addrs, ..BrokerData::default() };
                let info = ClusterInfo {
                    broker_addr_table: [("b".to_owned(), group)].into_iter().collect(),
                    ..ClusterInfo::default()
                };
                answer = answer.with_body(info.encode());
            }
            other => answer.remark = Some(format!("code {other} is not needed")),
        }
        responder.send(answer);
    }
}

fn state_version(command: &Command) -> i64 {
    let compressed = command.field("compressed") == Some("true");
    let body = RegisterBrokerBody::decode_for(&command.body, compressed, command.version, 1 << 20);
    body.expect("a body").topic_config_serialize_wrapper.data_version.state_version
}

/// Ten times and more what an election takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

/// Members of a group whose peer ports were free a moment ago.
pub(crate) fn members(names: &Server) -> Vec<String> {
    let held: Vec<_> = (0..3).map(|_| TcpListener::bind("127.0.0.1:0").expect("a port")).collect();
    let peers: Vec<_> = held
        .iter()
        .enumerate()
        .map(|(n, held)| format!("n{n}-{}", held.local_addr().expect("an address")))
        .collect();
    let text = |n| {
        format!(
            "enableDLegerCommitLog=true\ndLegerSelfId=n{n}\ndLegerPeers={}\nnamesrvAddr={}\n\
             registerNameServerPeriod=10000\nbindAddress=127.0.0.1\n",
            peers.join(";"),
            names.local_addr()
        )
    };
    (0..3).map(text).collect()
}

fn group(fixture: &Fixture) -> Arc<Group> {
    fixture.broker.shared().group().expect("a group of several")
}

/// Waits until this member is the master and all others are slaves.
pub(crate) async fn wait_master(fixtures: &[Fixture], wanted: impl Fn(usize) -> bool) -> usize {
    let deadline = Instant::now() + LIMIT;
    loop {
        let roles: Vec<_> =
            fixtures.iter().map(|fixture| fixture.broker.shared().figures().role).collect();
        let master = roles.iter().position(|role| *role == "master");
        let slaves = roles.iter().filter(|role| **role == "slave").count();
        if let Some(master) = master.filter(|master| slaves == 2 && wanted(*master)) {
            return master;
        }
        assert!(Instant::now() < deadline, "{roles:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Case 85: without a majority there is no leader, and whoever asks is told why.
#[tokio::test(flavor = "multi_thread")]
async fn a_member_alone_registers_nowhere_and_says_whom_it_lacks() {
    let (names, server) = OldNames::start();
    let fixture = Fixture::with(&members(&server)[0]).await;
    let answer = fixture.send("T", "m", "").await;
    assert_eq!(answer.code, response::SERVICE_NOT_AVAILABLE);
    let remark = answer.remark.unwrap_or_default();
    assert!(remark.contains("reaches 1 of 3 members, itself among them, and 2 are"), "{remark}");
    assert!(remark.contains("n1 at 127.0.0.1:"), "{remark}");
    assert!(fixture.broker.shared().unready().is_some());
    assert_eq!(group(&fixture).leader_client_address(), None);
    assert_eq!(names.table(), BTreeMap::new(), "it stands nowhere before it has a role");
    fixture.broker.shutdown().await.expect("an orderly stop");
}

/// Cases 64 and 101: what clients take for a fact is not told by a node that does not know it. They
/// ask again at this code, and go on where they were.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_known_yet_is_refused_and_not_answered_with_nothing() {
    let (_names, server) = OldNames::start();
    let fixture = Fixture::with(&members(&server)[0]).await;
    let of_queue = |code: i32| {
        let command = Command::request(code).with_field("consumerGroup", "G");
        command.with_field("topic", "T").with_field("queueId", "0").with_field("timestamp", "0")
    };
    let watch = NotificationRequest {
        consumer_group: "G".into(),
        topic: "T".into(),
        ..NotificationRequest::default()
    };
    let assignment = QueryAssignmentRequestBody {
        client_id: "c".into(),
        consumer_group: "G".into(),
        message_model: Some("CLUSTERING".into()),
        strategy_name: Some("AVG".into()),
        topic: "%LMQ%x".into(),
    };
    let lock = r#"{"consumerGroup":"G","clientId":"c","mqSet":[{"topic":"T","brokerName":"b","queueId":0}]}"#;
    for request in [
        of_queue(request::QUERY_CONSUMER_OFFSET),
        of_queue(request::GET_MAX_OFFSET),
        of_queue(request::SEARCH_OFFSET_BY_TIMESTAMP),
        of_queue(request::UPDATE_CONSUMER_OFFSET).with_field("commitOffset", "7"),
        of_queue(request::GET_CONSUMER_LIST_BY_GROUP),
        Command::request(request::LOCK_BATCH_MQ).with_body(lock),
        Command::request_with(request::POP_MESSAGE, &pop::header()),
        Command::request_with(request::NOTIFICATION, &watch),
        query(&assignment),
    ] {
        let code = request.code;
        let answer = fixture.ask(request).await;
        assert_eq!(answer.code, response::SERVICE_NOT_AVAILABLE, "{code}: {:?}", answer.remark);
        assert!(answer.body.is_empty(), "{code}");
    }
    let pulled = fixture.pull("T", 0, 5).await;
    assert_eq!(pulled.code, response::SERVICE_NOT_AVAILABLE, "{:?}", pulled.remark);
    // A Java slave keeps what it has at these answers.
    for (code, remark) in [
        (request::GET_TIMER_CHECK_POINT, "The checkpoint is null"),
        (request::GET_TIMER_METRICS, "The timer message store is null"),
    ] {
        refused(&fixture.ask(Command::request(code)).await, response::SYSTEM_ERROR, remark);
    }
    fixture.broker.shutdown().await.expect("an orderly stop");
}

/// Cases 49 and 56: after each of many changes of the leader the routes have each address once and
/// the master under id 0, and the master takes messages.
#[tokio::test(flavor = "multi_thread")]
async fn routes_follow_rapid_changes_of_the_leader() {
    let (names, server) = OldNames::start();
    let mut fixtures = Vec::new();
    for text in members(&server) {
        fixtures.push(Fixture::with(&text).await);
    }
    let mut master = wait_master(&fixtures, |_| true).await;
    let mut before = 0;
    for _round in 0..6 {
        let next = (master + 1) % 3;
        let deadline = Instant::now() + LIMIT;
        loop {
            let handed = group(&fixtures[master]).transfer(Some(format!("n{next}"))).await;
            if handed.is_ok_and(|code| code.code() == 200) {
                break;
            }
            // A member that has just started is not whole yet.
            assert!(Instant::now() < deadline, "n{next} does not take over");
            tokio::time::sleep(Duration::from_millis(50)).await;
            master = wait_master(&fixtures, |_| true).await;
        }
        master = wait_master(&fixtures, |master| master == next).await;
        let address = |n: usize| fixtures[n].broker.address().to_string();
        // Name servers of 5.x pass an older term over.
        let term = group(&fixtures[master]).status().borrow().term;
        let state = i64::try_from(term).expect("a small term");
        assert!(state > before, "{state} follows {before}");
        before = state;
        let registered = |n| Registered { address: address(n), state };
        let mut expected: BTreeMap<i64, Registered> = (1..).zip((0..3).map(registered)).collect();
        let moved = expected.remove(&(i64::try_from(master).expect("small") + 1));
        expected.insert(0, moved.expect("a member"));
        while names.table() != expected {
            assert!(Instant::now() < deadline, "{:?} is not {expected:?}", names.table());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        for properties in ["", "DELAY\u{1}1"] {
            fixtures[master].sent("T", "m", properties).await;
        }
        for fixture in &fixtures {
            let told = group(fixture).leader_client_address();
            assert_eq!(told, Some(address(master)), "each member knows where the master serves");
        }
    }
    end(fixtures).await;
}

pub(crate) async fn end(fixtures: Vec<Fixture>) {
    for Fixture { broker, client, .. } in fixtures {
        client.close();
        broker.shutdown().await.expect("an orderly stop");
    }
}

/// Gives the lead to another member; returns its number.
pub(crate) async fn hand_on(fixtures: &[Fixture], master: usize) -> usize {
    let next = (master + 1) % 3;
    let deadline = Instant::now() + LIMIT;
    let mut master = master;
    while master != next {
        let handed = group(&fixtures[master]).transfer(Some(format!("n{next}"))).await;
        if handed.is_ok_and(|code| code.code() == 200) {
            return wait_master(fixtures, |master| master == next).await;
        }
        // A member that has just started is not whole yet.
        assert!(Instant::now() < deadline, "n{next} does not take over");
        tokio::time::sleep(Duration::from_millis(50)).await;
        master = wait_master(fixtures, |_| true).await;
    }
    master
}

/// Case 55, and B-10 of reliability: timers are delivered once by whoever leads when they are due,
/// and what was taken back stays so.
#[tokio::test(flavor = "multi_thread")]
async fn case_55_timers_come_once_from_the_master_of_the_moment() {
    let (_names, server) = OldNames::start();
    let mut fixtures = Vec::new();
    for text in members(&server) {
        let text = format!("{text}recallMessageEnable=true\nenablePropertyFilter=true\n");
        fixtures.push(Fixture::with(&text).await);
    }
    let mut master = wait_master(&fixtures, |_| true).await;
    let mut handle = String::new();
    for number in 0..60_i64 {
        let properties = format!(
            "TIMER_DELAY_MS\u{1}{}\u{2}UNIQ_KEY\u{1}K{number}\u{2}a\u{1}{number}\u{2}TAGS\u{1}{}",
            500 + number * 100,
            if number % 10 == 0 { "E" } else { "O" }
        );
        let answer = fixtures[master].sent("T", "timer", &properties).await;
        if number == 59 {
            handle = answer.field("recallHandle").expect("a handle").to_owned();
        }
    }
    let recall =
        RecallMessageRequest { topic: "T".into(), recall_handle: handle, ..Default::default() };
    let recall = Command::request_with(request::RECALL_MESSAGE, &recall);
    let answer = fixtures[master].ask(recall).await;
    assert_eq!(answer.code, 0, "{:?}", answer.remark);
    for _switch in 0..3 {
        tokio::time::sleep(Duration::from_millis(700)).await;
        master = hand_on(&fixtures, master).await;
    }
    fixtures[master].messages_from("T", 31, 28).await;
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    let mut keys = Vec::new();
    for offset in [0, 32] {
        for record in fixtures[master].messages_from("T", offset, 27).await {
            let found = properties::find(&record.properties, "UNIQ_KEY").map(str::to_owned);
            keys.push(found.expect("a key"));
        }
    }
    keys.sort_by_key(|key| key[1..].parse::<u32>().expect("a number"));
    let expected: Vec<String> = (0..59).map(|number| format!("K{number}")).collect();
    assert_eq!(keys, expected, "each once, and not the one that was taken back");
    // The new master filters by what a consumer's heartbeat told it.
    let by = ("a BETWEEN 3 AND 5", 1);
    fixtures[master].heartbeat_by_expression("G", "T", by).await;
    let pull = PullMessageRequest {
        consumer_group: "G".into(),
        sys_flag: 0,
        subscription: None,
        sub_version: 1,
        ..pull_header("T", 0, 0)
    };
    let answer = fixtures[master].ask(pull_request(&pull)).await;
    assert_eq!(records(&answer).len(), 3);
    tags_and_pops_filter(&fixtures[master], pull).await;
    end(fixtures).await;
}

/// The same by tags, and by what a pop asks for itself.
async fn tags_and_pops_filter(fixture: &Fixture, pull: PullMessageRequest) {
    fixture.heartbeat("H", "T", "E").await;
    let pull = PullMessageRequest { consumer_group: "H".into(), ..pull };
    let answer = fixture.ask(pull_request(&pull)).await;
    let number = |record: &MessageRecord| {
        properties::find(&record.properties, "a").map(|number| number.parse::<i32>().ok())
    };
    let found: Vec<_> = records(&answer).iter().filter_map(number).flatten().collect();
    assert_eq!(found, [0, 10, 20, 30, 40, 50]);
    let asked = PopMessageRequest {
        exp_type: Some("SQL92".into()),
        exp: Some("a > 8 AND TAGS = 'E'".into()),
        consumer_group: "P".into(),
        ..pop::header()
    };
    let mut found = Vec::new();
    for _turn in 0..3 {
        let taken = pop::popped(&pop::pop(fixture, &asked).await);
        found.extend(taken.iter().filter_map(|one| number(&one.message)).flatten());
    }
    found.sort_unstable();
    found.dedup();
    assert_eq!(found, [10, 20, 30, 40, 50]);
}

/// A transaction that was begun under one master ends once under the next, by whoever ends it.
#[tokio::test(flavor = "multi_thread")]
async fn transactions_end_once_over_a_change_of_the_leader() {
    let (_names, server) = OldNames::start();
    let mut fixtures = Vec::new();
    for text in members(&server) {
        fixtures.push(Fixture::with(&format!("{text}{EAGER}")).await);
    }
    let old = wait_master(&fixtures, |_| true).await;
    let mut sent = Vec::new();
    for unique in ["U1", "U2", "U3"] {
        let half = HALF.replace("U1", unique);
        sent.push(fixtures[old].sent("T", "m", &half).await);
    }
    let [before, after, asked] = &sent[..] else { panic!("three were sent") };
    let end = |answer: &Command, end: i32| request_of(&end_of(answer, end));
    assert_eq!(fixtures[old].ask(end(before, COMMIT)).await.code, 0);

    let next = (old + 1) % 3;
    let deadline = Instant::now() + LIMIT;
    loop {
        let handed = group(&fixtures[old]).transfer(Some(format!("n{next}"))).await;
        if handed.is_ok_and(|code| code.code() == 200) {
            break;
        }
        assert!(Instant::now() < deadline, "n{next} does not take over");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let new = wait_master(&fixtures, |master| master != old).await;
    // The producer has not heard of the new master: the old one passes its end on.
    assert_eq!(fixtures[old].ask(end(after, COMMIT)).await.code, 0);
    let late = fixtures[old].ask(end(before, COMMIT + 4)).await;
    refused(&late, response::SYSTEM_ERROR, "its outcome stays");

    let producer = Peer::producer(&fixtures[new].broker.address().to_string(), "1").await;
    let question = producer.heard(request::CHECK_TRANSACTION_STATE, 0).await;
    let answer = producer.ask(request_of(&answer_to(&question, COMMIT))).await;
    assert_eq!(answer.code, 0, "{:?}", answer.remark);
    let late = fixtures[new].ask(end(asked, COMMIT)).await;
    refused(&late, response::SYSTEM_ERROR, "its outcome stays");
    fixtures[new].sent("T", "last", "").await;
    let found = fixtures[new].messages("T", 1, 4).await;
    let unique = |record: &MessageRecord| {
        properties::find(&record.properties, "UNIQ_KEY").unwrap_or_default().to_owned()
    };
    let found: Vec<_> = found.iter().take(3).map(unique).collect();
    assert_eq!(found, ["U1", "U2", "U3"], "each once");
    for Fixture { broker, client, .. } in fixtures {
        client.close();
        broker.shutdown().await.expect("an orderly stop");
    }
}

/// Case 89: offsets in light queues are contiguous over a change of the master, and the same on all
/// members.
#[tokio::test(flavor = "multi_thread")]
async fn case_89_light_queues_go_on_under_the_next_master() {
    let (_names, server) = OldNames::start();
    let mut fixtures = Vec::new();
    for text in members(&server) {
        let text =
            format!("{text}enableLmq=true\nenableMultiDispatch=true\nslaveReadEnable=true\n");
        fixtures.push(Fixture::with(&text).await);
    }
    let mut master = wait_master(&fixtures, |_| true).await;
    for _turn in 0..3 {
        for queues in ["%LMQ%a,%LMQ%b", "%LMQ%a"] {
            let properties = format!("INNER_MULTI_DISPATCH\u{1}{queues}");
            fixtures[master].sent("T", "m", &properties).await;
        }
        master = hand_on(&fixtures, master).await;
    }
    for fixture in &fixtures {
        for (queue, count) in [("%LMQ%a", 6), ("%LMQ%b", 3)] {
            let found = fixture.messages_from(queue, 0, count).await;
            let offsets: Vec<_> = found.iter().map(|record| record.queue_offset).collect();
            assert_eq!(offsets, (0..6).take(count).collect::<Vec<i64>>(), "{queue}");
        }
    }
    end(fixtures).await;
}

/// How groups consume is the same for every member, and a slave that lacks most of a group does not
/// divide its queues.
#[tokio::test(flavor = "multi_thread")]
async fn request_modes_go_on_under_the_next_master() {
    let (_names, server) = OldNames::start();
    let mut fixtures = Vec::new();
    for text in members(&server) {
        fixtures.push(Fixture::with(&text).await);
    }
    let master = wait_master(&fixtures, |_| true).await;
    fixtures[master].sent("T", "m", "").await;
    let slave = (master + 2) % 3;
    let set = fixtures[slave].ask(set_mode("T", "G", "POP", 3)).await;
    assert_eq!(set.code, 0, "passed on: {:?}", set.remark);
    let asked = QueryAssignmentRequestBody {
        client_id: "127.0.0.1@1".into(),
        consumer_group: "G".into(),
        message_model: Some("CLUSTERING".into()),
        strategy_name: Some("AVG".into()),
        topic: "%LMQ%x".into(),
    };
    let answer = fixtures[slave].ask(query(&asked)).await;
    assert_eq!(answer.code, response::SERVICE_NOT_AVAILABLE, "{:?}", answer.remark);
    fixtures[slave].heartbeat("G", "T", "*").await;
    let answer = fixtures[slave].ask(query(&asked)).await;
    assert_eq!(answer.code, 0, "the member is online here, too: {:?}", answer.remark);
    let master = hand_on(&fixtures, master).await;
    let all = Command::request(request::GET_ALL_MESSAGE_REQUEST_MODE);
    assert_eq!(modes(&fixtures[master].ask(all).await), ["T G POP 3"]);
    end(fixtures).await;
}
