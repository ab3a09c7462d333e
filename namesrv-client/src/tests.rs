//! Against name servers of our own, and addresses where nobody listens.

use namesrv::{Namesrv, NamesrvOptions};
use protocol::body::{DataVersion, RegisterBrokerBody, TopicConfig};
use remoting::ClientOptions;

use super::*;

const LONG: Duration = Duration::from_secs(30);

fn name_server() -> Namesrv {
    let options = NamesrvOptions {
        listen: "127.0.0.1:0".parse().expect("address"),
        kv_path: None,
        ..NamesrvOptions::default()
    };
    Namesrv::start(options).expect("starts")
}

/// An address that refuses connections.
async fn nobody() -> String {
    let gone = name_server();
    gone.shutdown().await;
    gone.local_addr().to_string()
}

fn of(addresses: Vec<String>) -> NameServers {
    NameServers::new(addresses, Arc::new(Client::new(ClientOptions::default())))
}

fn address(server: &Namesrv) -> String {
    server.local_addr().to_string()
}

fn broker(id: i64, topics: &[&str], counter: i64) -> RegisterBroker {
    let mut body = RegisterBrokerBody::default();
    let wrapper = &mut body.topic_config_serialize_wrapper;
    wrapper.data_version = DataVersion { counter, ..DataVersion::default() };
    for topic in topics {
        let config = TopicConfig { topic_name: (*topic).to_owned(), ..TopicConfig::default() };
        wrapper.topic_config_table.insert((*topic).to_owned(), config);
    }
    RegisterBroker {
        cluster_name: "C".to_owned(),
        broker_name: "a".to_owned(),
        broker_addr: format!("127.0.0.1:{}", 10911 + id),
        broker_id: id,
        ha_server_addr: format!("127.0.0.1:{}", 20911 + id),
        enable_acting_master: Some(false),
        heartbeat_timeout: None,
        zone_name: None,
        body,
    }
}

#[test]
fn lists_are_split_at_semicolons_and_commas() {
    assert_eq!(NameServers::split(" a:1; b:2,c:3 ;"), ["a:1", "b:2", "c:3"]);
    assert!(NameServers::split(" ; ").is_empty());
}

#[tokio::test]
async fn a_broker_registers_at_all_and_each_tells_its_own_outcome() {
    let (first, second) = (name_server(), name_server());
    let servers = of(vec![address(&first), nobody().await, address(&second)]);
    let outcomes = servers.register(&broker(0, &["T", "U"], 1), LONG).await;
    let results: Vec<_> = outcomes.iter().map(|outcome| outcome.result.is_ok()).collect();
    assert_eq!(results, [true, false, true]);
    assert_eq!(outcomes[1].name_server, servers.addresses()[1]);
    for server in [&first, &second] {
        let alone = of(vec![address(server)]);
        let route = alone.route("T").await.expect("an answer").expect("a route");
        assert_eq!(route.broker_datas[0].broker_addrs[&0], "127.0.0.1:10911");
        assert_eq!(route.queue_datas[0].broker_name, "a");
    }
    let outcomes = servers.unregister(&broker(0, &[], 1), LONG).await;
    assert_eq!(outcomes.iter().filter(|(_, result)| result.is_ok()).count(), 2);
    assert_eq!(servers.route("T").await.expect("an answer"), None);
}

#[tokio::test]
async fn a_slave_learns_its_master_and_a_broker_the_queue_orders() {
    let server = name_server();
    let servers = of(vec![address(&server)]);
    let answers = servers.register(&broker(0, &["T", "U"], 1), LONG).await;
    assert_eq!(answers[0].result.as_ref().expect("registered"), &RegisterAnswer::default());
    for (_, result) in servers.put_kv("ORDER_TOPIC_CONFIG", "T", "a:4").await {
        result.expect("written");
    }
    let answers = servers.register(&broker(1, &["T", "U"], 1), LONG).await;
    let expected = RegisterAnswer {
        master_addr: Some("127.0.0.1:10911".to_owned()),
        ha_server_addr: Some("127.0.0.1:20911".to_owned()),
        order_topics: Some([("T".to_owned(), "a:4".to_owned())].into()),
    };
    assert_eq!(answers[0].result.as_ref().expect("registered"), &expected);
    let members = servers.members("C", "a").await.expect("an answer");
    assert_eq!(members.len(), 2);
}

#[tokio::test]
async fn a_refusal_carries_code_and_text() {
    let server = name_server();
    let answers = of(vec![address(&server)]).register(&broker(0, &["T"], 1), LONG).await;
    let error = answers[0].result.as_ref().expect_err("refused").to_string();
    assert!(error.ends_with("answers 1: register broker failed"), "{error}");
}

#[tokio::test]
async fn questions_go_to_the_next_name_server_when_one_does_not_answer() {
    let server = name_server();
    let servers = of(vec![nobody().await, address(&server)]);
    servers.register(&broker(0, &["T", "U"], 1), LONG).await;
    assert!(servers.route("T").await.expect("an answer").is_some());
    assert_eq!(servers.topic_list().await.expect("an answer").topic_list, ["T", "U"]);
    let info = servers.cluster_info().await.expect("an answer");
    assert!(info.cluster_addr_table["C"].contains("a"));
    assert_eq!(servers.topics_of_cluster("C").await.expect("an answer").topic_list.len(), 2);
    let error = of(vec![nobody().await]).route("T").await.expect_err("nobody").to_string();
    assert!(error.contains("cannot connect"), "{error}");
    let error = of(Vec::new()).route("T").await.expect_err("none").to_string();
    assert!(error.contains("namesrvAddr"), "{error}");
}

#[tokio::test]
async fn values_and_permissions_are_changed_at_all() {
    let (first, second) = (name_server(), name_server());
    let both = of(vec![address(&first), address(&second)]);
    both.register(&broker(0, &["T", "U"], 1), LONG).await;
    both.put_kv("ns", "k", "v").await;
    for server in [&first, &second] {
        let alone = of(vec![address(server)]);
        assert_eq!(alone.get_kv("ns", "k").await.expect("an answer").as_deref(), Some("v"));
        assert_eq!(alone.list_kv("ns").await.expect("an answer").len(), 1);
    }
    both.delete_kv("ns", "k").await;
    assert_eq!(both.get_kv("ns", "k").await.expect("an answer"), None);
    assert!(both.list_kv("other").await.expect("an answer").is_empty());
    for (_, count) in both.wipe_write("a").await {
        assert_eq!(count.expect("an answer"), 2);
    }
    assert_eq!(both.route("T").await.expect("an answer").expect("a route").queue_datas[0].perm, 4);
    for (_, count) in both.add_write("a").await {
        assert_eq!(count.expect("an answer"), 2);
    }
    both.delete_topic("T", Some("C")).await;
    assert_eq!(both.route("T").await.expect("an answer"), None);
}
