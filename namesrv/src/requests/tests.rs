//! What Apache's name server 5.5.0 answered to official clients, and what this one answers.
//!
//! `testdata/frames.jsonl` holds whole frames as they were captured.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::BytesMut;
use protocol::body::DataVersion;
use protocol::frame;

use super::*;
use crate::config::NamesrvOptions;
use crate::kv::KvConfig;

const FRAMES: &str = include_str!("../../testdata/frames.jsonl");

/// A captured request with its answer.
struct Pair {
    request: Command,
    response: Command,
}

/// The `nth` pair of a code and a kind of client.
fn pair(code: i32, client: &str, nth: usize) -> Pair {
    let documents =
        FRAMES.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"));
    let mut chosen =
        documents.filter(|document| document["code"] == code && document["client"] == client);
    let document = chosen.nth(nth).expect("a captured pair");
    let command = |key: &str| command(document[key].as_str().expect("a frame"));
    Pair { request: command("request_hex"), response: command("response_hex") }
}

fn command(hex: &str) -> Command {
    let digits = hex.as_bytes().chunks(2);
    let bytes: Vec<u8> = digits
        .map(|pair| std::str::from_utf8(pair).expect("ASCII"))
        .map(|pair| u8::from_str_radix(pair, 16).expect("hex"))
        .collect();
    frame::decode(&mut BytesMut::from(&bytes[..]), frame::DEFAULT_LIMIT)
        .expect("a frame")
        .expect("a whole frame")
}

fn core() -> Core {
    let options = NamesrvOptions { kv_path: None, ..NamesrvOptions::default() };
    Core::new(options, KvConfig::default())
}

/// A name server at which the captured master has registered.
fn with_master() -> Core {
    let core = core();
    same(&core, pair(103, "broker", 1));
    core
}

/// And a slave of it.
fn with_slave() -> Core {
    let core = with_master();
    let mut registration = pair(103, "broker", 1).request;
    let fields = registration.ext_fields.as_mut().expect("fields");
    fields.insert("brokerId", "1");
    fields.insert("brokerAddr", "127.0.0.1:10921");
    assert_eq!(answer(&core, &registration).code, response::SUCCESS);
    core
}

fn answer(core: &Core, request: &Command) -> Command {
    core.answer(&Call { request, connection: 1, now: Duration::from_secs(1) })
}

/// Asks what was captured; the answer must be what was captured.
fn same(core: &Core, pair: Pair) {
    let Pair { request, mut response } = pair;
    let given = answer(core, &request);
    // Java answers JSON to whatever it is asked in; we answer in the form of the request.
    response.encoding = request.encoding;
    assert_eq!(given, response, "the answer to {request:?}");
    let texts = [&given.body, &response.body].map(|body| String::from_utf8_lossy(body));
    assert_eq!(texts[0], texts[1]);
}

fn ask(core: &Core, code: i32, fields: &[(&'static str, &str)]) -> Command {
    let mut request = Command::request(code);
    for (name, value) in fields {
        request = request.with_field(name, *value);
    }
    answer(core, &request)
}

#[test]
fn a_master_registers_and_its_routes_are_given_in_the_form_that_the_client_reads() {
    let core = with_master();
    same(&core, pair(105, "java-5.5.0", 0));
    same(&core, pair(105, "java-4.9.8", 0));
    // Version 317: bare keys.
    same(&core, pair(105, "go", 0));
}

#[test]
fn go_gets_quoted_keys_when_it_asks_for_standard_json() {
    let core = with_master();
    let request = pair(105, "go", 0).request.with_field("acceptStandardJsonOnly", "true");
    let body = answer(&core, &request).body;
    assert!(String::from_utf8_lossy(&body).contains(r#"{"0":"127.0.0.1:10911"}"#));
}

#[test]
fn an_unknown_topic_has_no_route() {
    let core = with_master();
    same(&core, pair(105, "java-rocketmq-header", 0));
    same(&core, pair(105, "mqadmin", 0));
}

#[test]
fn groups_and_members_are_listed_with_bare_keys() {
    let core = with_slave();
    same(&core, pair(106, "mqadmin", 0));
    let members = answer(&core, &pair(901, "java-5.5.0", 0).request);
    assert_eq!(
        String::from_utf8_lossy(&members.body),
        r#"{"brokerMemberGroup":{"brokerAddrs":{0:"127.0.0.1:10911",1:"127.0.0.1:10921"},"brokerName":"broker-a","cluster":"DefaultCluster"}}"#
    );
    assert_eq!(answer(&core, &pair(104, "broker", 0).request).code, response::SUCCESS);
    let Pair { request, response } = pair(901, "java-5.5.0", 0);
    assert_eq!(answer(&core, &request).body, response.body);
}

#[test]
fn a_slave_is_told_its_master_and_the_queue_orders() {
    let core = with_slave();
    let fields = [("namespace", ORDER), ("key", "ExtraA"), ("value", "broker-a:1")];
    ask(&core, 100, &fields);
    same(&core, pair(103, "broker", 0));
    same(&core, pair(104, "broker", 0));
}

const ORDER: &str = crate::kv::ORDER_TOPIC_CONFIG;

#[test]
fn a_topic_is_added_by_an_incremental_registration() {
    let core = with_master();
    let fields = [("namespace", ORDER), ("key", "ExtraOrder"), ("value", "broker-a:1")];
    ask(&core, 100, &fields);
    same(&core, pair(103, "broker", 2));
    same(&core, pair(101, "mqadmin", 0));
    assert_eq!(ask(&core, 105, &[("topic", "ExtraOrder")]).code, response::SUCCESS);
    let body = |core: &Core| {
        let body = ask(core, 105, &[("topic", "ExtraOrder")]).body;
        String::from_utf8_lossy(&body).into_owned()
    };
    assert!(!body(&core).contains("orderTopicConf"));
    core.options(|options| options.settings.order_message_enable = true);
    assert!(body(&core).contains(r#""orderTopicConf":"broker-a:1""#), "{}", body(&core));
}

#[test]
fn a_damaged_registration_is_refused() {
    let core = core();
    let mut registration = pair(103, "broker", 1).request;
    let mut body = registration.body.to_vec();
    body[5] ^= 1;
    registration.body = body.into();
    let refused = answer(&core, &registration);
    assert_eq!((refused.code, refused.remark.as_deref()), (1, Some("crc32 not match")));
    let single = answer(&core, &pair(103, "broker", 2).request);
    assert_eq!((single.code, single.remark.as_deref()), (1, Some("register broker failed")));
}

#[test]
fn values_are_kept_by_namespace() {
    let core = core();
    same(&core, pair(100, "java-rocketmq-header", 0));
    same(&core, pair(101, "java-rocketmq-header", 0));
    same(&core, pair(101, "java-5.5.0", 0));
    same(&core, pair(219, "java-5.5.0", 1));
    ask(&core, 100, &[("namespace", "ExtraNs"), ("key", "k"), ("value", "v")]);
    same(&core, pair(219, "java-5.5.0", 0));
    same(&core, pair(100, "mqadmin", 0));
    same(&core, pair(102, "mqadmin", 0));
    let missing = ask(&core, 100, &[("key", "k"), ("value", "v")]);
    assert_eq!((missing.code, missing.remark.as_deref()), (1, Some("namespace or key is null")));
}

fn topics(command: &Command) -> BTreeSet<String> {
    let list = protocol::body::TopicList::decode(&command.body).expect("a list");
    list.topic_list.into_iter().collect()
}

#[test]
fn topics_are_listed() {
    let core = with_master();
    for pair in [pair(206, "mqadmin", 0), pair(304, "java-5.5.0", 0)] {
        let given = answer(&core, &pair.request);
        assert_eq!(topics(&given), topics(&pair.response));
    }
    let all = topics(&ask(&core, 206, &[]));
    assert_eq!(topics(&ask(&core, 224, &[("cluster", "DefaultCluster")])), all);
    assert!(topics(&ask(&core, 224, &[("cluster", "other")])).is_empty());
    for code in [311, 312, 313] {
        assert!(topics(&ask(&core, code, &[])).is_empty());
    }
    core.options(|options| options.settings.enable_all_topic_list = false);
    let disabled = ask(&core, 206, &[]);
    assert_eq!((disabled.code, disabled.remark.as_deref()), (1, Some("disable")));
}

#[test]
fn write_permission_is_taken_and_given() {
    let core = with_master();
    let count = topics(&ask(&core, 206, &[])).len().to_string();
    let wiped = answer(&core, &pair(205, "mqadmin", 0).request);
    assert_eq!(wiped.field("wipeTopicCount"), Some(count.as_str()));
    let body = ask(&core, 105, &[("topic", "TBW102")]).body;
    assert!(String::from_utf8_lossy(&body).contains(r#""perm":5"#));
    let given = answer(&core, &pair(327, "mqadmin", 0).request);
    assert_eq!(given.field("addTopicCount"), Some(count.as_str()));
    let unknown = ask(&core, 205, &[("brokerName", "nobody")]);
    assert_eq!((unknown.code, unknown.field("wipeTopicCount")), (0, Some("0")));
}

#[test]
fn a_topic_is_deleted() {
    let core = with_master();
    same(&core, pair(216, "mqadmin", 0));
    ask(&core, 216, &[("topic", "TBW102"), ("clusterName", "other")]);
    assert_eq!(ask(&core, 105, &[("topic", "TBW102")]).code, response::SUCCESS);
    ask(&core, 216, &[("topic", "TBW102"), ("clusterName", "DefaultCluster")]);
    assert_eq!(ask(&core, 105, &[("topic", "TBW102")]).code, response::TOPIC_NOT_EXIST);
}

#[test]
fn a_broker_learns_whether_it_has_to_register_again() {
    let core = with_master();
    let Pair { mut request, response } = pair(322, "java-5.5.0", 0);
    let changed = answer(&core, &request);
    assert_eq!(changed.ext_fields, response.ext_fields);
    let ours = DataVersion::decode(&changed.body).expect("a version");
    assert_eq!(ours.timestamp, 1_795_969_693_553);
    request.body = changed.body;
    assert_eq!(answer(&core, &request).field("changed"), Some("false"));
    request.ext_fields.as_mut().expect("fields").insert("brokerAddr", "127.0.0.1:1");
    let unknown = answer(&core, &request);
    assert_eq!((unknown.field("changed"), unknown.body.len()), (Some("true"), 0));
}

#[test]
fn a_sign_of_life_keeps_a_broker() {
    let core = with_master();
    let fields = [
        ("clusterName", "DefaultCluster"),
        ("brokerAddr", "127.0.0.1:10911"),
        ("brokerName", "broker-a"),
    ];
    let request = fields
        .iter()
        .fold(Command::request(904), |request, (name, value)| request.with_field(name, *value));
    let later = Call { request: &request, connection: 1, now: Duration::from_secs(100) };
    assert_eq!(core.answer(&later).code, response::SUCCESS);
    assert!(core.table_mut().expire(Duration::from_secs(200)).is_empty());
    assert_eq!(core.table_mut().expire(Duration::from_secs(221)).len(), 1);
}

#[test]
fn a_client_in_a_zone_is_shown_the_brokers_there() {
    let core = core();
    for (zone, name) in [("east", "broker-a"), ("west", "broker-b")] {
        let mut registration = pair(103, "broker", 1).request.with_field("__ZONE_NAME", zone);
        let fields = registration.ext_fields.as_mut().expect("fields");
        fields.insert("brokerName", name);
        fields.insert("brokerAddr", format!("{name}:10911"));
        assert_eq!(answer(&core, &registration).code, response::SUCCESS);
    }
    let body = |fields: &[(&'static str, &str)]| {
        let mut all = vec![("topic", "TBW102")];
        all.extend_from_slice(fields);
        String::from_utf8_lossy(&ask(&core, 105, &all).body).into_owned()
    };
    let east = body(&[("__ZONE_MODE", "true"), ("__ZONE_NAME", "EAST")]);
    assert!(east.contains("broker-a:10911") && !east.contains("broker-b"), "{east}");
    assert!(east.contains("{0:"), "bare keys, as in Java: {east}");
    let off = body(&[("__ZONE_MODE", "false"), ("__ZONE_NAME", "east")]);
    assert!(off.contains("broker-a") && off.contains("broker-b"), "{off}");
}

#[test]
fn routes_wait_for_brokers_where_that_is_asked_for() {
    let core = with_master();
    core.options(|options| options.settings.need_wait_for_service = true);
    let early = ask(&core, 105, &[("topic", "TBW102")]);
    assert_eq!((early.code, early.remark.as_deref()), (1, Some("name server not ready")));
}

#[test]
fn the_configuration_is_shown_and_only_harmless_keys_are_changed() {
    let core = core();
    same(&core, pair(318, "mqadmin", 0));
    let change = |text: &'static str| answer(&core, &Command::request(318).with_body(text));
    assert_eq!(change("orderMessageEnable=true\n").code, response::SUCCESS);
    let shown = ask(&core, 319, &[]).body;
    let shown = String::from_utf8_lossy(&shown);
    assert!(shown.contains("orderMessageEnable=true\n"), "{shown}");
    assert!(shown.contains("listenPort=9876\n"), "{shown}");
    for refused in ["kvConfigPath=/etc/cron.d/x\n", "configStorePath2=/x\n", "listenPort=1\n"] {
        assert_eq!(change(refused).code, response::NO_PERMISSION, "{refused}");
    }
    assert_eq!(change("orderMessageEnable=perhaps\n").code, response::SYSTEM_ERROR);
}

#[test]
fn what_is_not_served_is_declined_in_the_words_of_java() {
    let core = core();
    for code in [10, 1001, 1013, 4711] {
        let declined = ask(&core, code, &[]);
        let remark = format!(" request type {code} not supported");
        assert_eq!((declined.code, declined.remark), (3, Some(remark)));
    }
    let missing = ask(&core, 105, &[]);
    assert_eq!(missing.code, response::SYSTEM_ERROR);
    assert!(missing.remark.expect("a remark").contains("topic"));
}
