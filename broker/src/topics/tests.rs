use store::journal::{Kind, Touched};

use super::*;

fn config() -> BrokerConfig {
    let mut config = BrokerConfig { broker_name: "b".into(), ..BrokerConfig::default() };
    config.complete();
    config
}

fn fresh(config: &BrokerConfig) -> (Tables, Topics) {
    let mut tables = Tables::default();
    Topics::complete(&mut tables, config);
    let topics = Topics::new(&tables, config);
    (tables, topics)
}

/// Does what the journal does with a change.
fn apply(topics: &Topics, tables: &mut Tables, change: Change) {
    tables.apply(&[change], 5, Touched::default());
    topics.load(tables);
}

fn wanted<'a>(topic: &'a str, template: &'a str) -> Wanted<'a> {
    Wanted { topic, template, queues: 4, unit_mode: false }
}

#[test]
fn a_fresh_broker_has_its_system_topics() {
    let topics = fresh(&config()).1;
    assert_eq!(topics.get("TBW102").expect("template").perm, 7);
    assert_eq!(topics.get(SCHEDULE_TOPIC).expect("delays").read_queue_nums, 18);
    assert_eq!(topics.get("DefaultCluster").expect("cluster").read_queue_nums, 16);
    assert!(topics.get("RMQ_SYS_TRACE_TOPIC").is_none());
    assert!(topics.is_system("RMQ_SYS_TRACE_TOPIC") && topics.is_system("b"));
    assert!(!topics.is_system("T"));
}

#[test]
fn changes_hold_once_they_are_applied() {
    let (mut tables, topics) = fresh(&config());
    let before = topics.version().counter;
    let change = topics.put(read_write("T", 4, false)).expect("a change");
    assert!(topics.get("T").is_none(), "not applied yet");
    apply(&topics, &mut tables, change);
    assert!(topics.put(read_write("T", 4, false)).is_none(), "it is so already");
    let again = topics.make(read_write("T", 9, false), 0).expect("exists, whatever the bound");
    assert_eq!(again, None);
    assert_eq!(topics.version().counter, before + 1);
    assert_eq!(topics.get("T").expect("kept").write_queue_nums, 4);
    tables.apply(&[Change::DeleteTopic("T".to_owned())], 6, Touched::default());
    topics.take("T", &tables);
    assert!(topics.get("T").is_none());
    assert_eq!(topics.version().timestamp, 6);
}

#[test]
fn automatic_creation_follows_the_template_and_the_bound() {
    let topics = fresh(&config()).1;
    let made = topics.by_template(&wanted("T", "TBW102"), &config()).expect("a template");
    assert_eq!((made.read_queue_nums, made.write_queue_nums, made.perm), (4, 4, 6));
    assert!(topics.by_template(&wanted("T", "BenchmarkTest"), &config()).is_none());
    assert!(topics.by_template(&wanted("T", "missing"), &config()).is_none());
    assert!(topics.by_template(&wanted("rmq_sys_LEDGERMQ_JOURNAL", "TBW102"), &config()).is_none());
    let trace = topics.by_template(&wanted("RMQ_SYS_TRACE_TOPIC", "TBW102"), &config());
    assert!(trace.is_some(), "clients with tracing on make their topic by sending, as in Java");
    let off = BrokerConfig { auto_create_topic_enable: false, ..config() };
    assert!(topics.by_template(&wanted("T", "TBW102"), &off).is_none());
    topics.make(made, 5).expect_err("more than five topics exist");
}

#[test]
fn the_template_goes_where_creation_is_off() {
    let (mut tables, topics) = fresh(&config());
    assert!(topics.get("TBW102").is_some());
    let off = BrokerConfig { auto_create_topic_enable: false, ..config() };
    Topics::complete(&mut tables, &off);
    assert!(Topics::new(&tables, &off).get("TBW102").is_none());
    Topics::complete(&mut tables, &config());
    assert!(Topics::new(&tables, &config()).get("TBW102").is_some());
}

#[test]
fn a_java_brokers_table_is_read_and_its_other_kinds_of_topics_are_named() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../store/testdata/topics.json");
    let text = std::fs::read(path).expect("a sample");
    let mut tables = Tables::default();
    tables.read_file(Kind::Topics, &text).expect("Java wrote it");
    let topics = Topics::new(&tables, &config());
    assert_eq!(topics.get("DlDelay").map(|topic| topic.read_queue_nums), Some(4));
    let batch = topics.get("PlBcq").expect("in the sample");
    assert_eq!(check_kind(&batch), Err("queue.type=BatchCQ".to_owned()));
    let kept = tables.file(Kind::Topics).expect("a text");
    assert!(kept.starts_with("{\n\t\"dataVersion\":{\n\t\t\"counter\":"), "{kept}");
}

#[test]
fn pages_cover_the_table() {
    let topics = fresh(&config()).1;
    let (first, total) = topics.page(0, 5);
    let (rest, _) = topics.page(5, 1000);
    assert_eq!(first.topic_config_table.len(), 5);
    assert_eq!(first.topic_config_table.len() + rest.topic_config_table.len(), total);
}
