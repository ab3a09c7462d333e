use std::sync::Arc;

use segment::SimVfs;

use super::*;

fn config() -> BrokerConfig {
    let mut config = BrokerConfig { broker_name: "b".into(), ..BrokerConfig::default() };
    config.complete();
    config
}

fn open(disk: &Arc<SimVfs>, config: &BrokerConfig) -> Topics {
    let file = ConfigFile::new(Arc::clone(disk) as Arc<_>, "config/topics.json");
    Topics::open(file, config).expect("a sound disk")
}

fn wanted<'a>(topic: &'a str, template: &'a str) -> Wanted<'a> {
    Wanted { topic, template, queues: 4, unit_mode: false }
}

#[test]
fn a_fresh_broker_has_its_system_topics() {
    let topics = open(&Arc::default(), &config());
    assert_eq!(topics.get("TBW102").expect("template").perm, 7);
    assert_eq!(topics.get(SCHEDULE_TOPIC).expect("delays").read_queue_nums, 18);
    assert_eq!(topics.get("DefaultCluster").expect("cluster").read_queue_nums, 16);
    assert!(topics.get("RMQ_SYS_TRACE_TOPIC").is_none());
    assert!(topics.is_system("RMQ_SYS_TRACE_TOPIC") && topics.is_system("b"));
    assert!(!topics.is_system("T"));
}

#[test]
fn changes_are_kept_and_counted() {
    let disk = Arc::default();
    let topics = open(&disk, &config());
    let before = topics.version().counter;
    assert!(topics.put(read_write("T", 4, false)).expect("written"));
    assert!(!topics.put(read_write("T", 4, false)).expect("unchanged"));
    let (present, made) =
        topics.get_or_make(read_write("T", 9, false), 0).expect("exists, whatever the bound");
    assert_eq!((present.write_queue_nums, made), (4, false));
    assert_eq!(topics.version().counter, before + 1);
    let again = open(&disk, &config());
    assert_eq!(again.version(), topics.version());
    assert_eq!(again.get("T").expect("kept").write_queue_nums, 4);
    assert!(again.remove("T").expect("written"));
    assert!(!again.remove("T").expect("gone already"));
}

#[test]
fn automatic_creation_follows_the_template_and_the_bound() {
    let topics = open(&Arc::default(), &config());
    let made = topics.by_template(&wanted("T", "TBW102"), &config()).expect("a template");
    assert_eq!((made.read_queue_nums, made.write_queue_nums, made.perm), (4, 4, 6));
    assert!(topics.by_template(&wanted("T", "BenchmarkTest"), &config()).is_none());
    assert!(topics.by_template(&wanted("T", "missing"), &config()).is_none());
    assert!(topics.by_template(&wanted("rmq_sys_LEDGERMQ_JOURNAL", "TBW102"), &config()).is_none());
    let trace = topics.by_template(&wanted("RMQ_SYS_TRACE_TOPIC", "TBW102"), &config());
    assert!(trace.is_some(), "clients with tracing on make their topic by sending, as in Java");
    let off = BrokerConfig { auto_create_topic_enable: false, ..config() };
    assert!(topics.by_template(&wanted("T", "TBW102"), &off).is_none());
    topics.get_or_make(made, 5).expect_err("more than five topics exist");
}

#[test]
fn the_template_goes_where_creation_is_off() {
    let disk = Arc::default();
    assert!(open(&disk, &config()).get("TBW102").is_some());
    let off = BrokerConfig { auto_create_topic_enable: false, ..config() };
    assert!(open(&disk, &off).get("TBW102").is_none());
    assert!(open(&disk, &config()).get("TBW102").is_some());
}

#[test]
fn a_java_brokers_table_is_read_and_its_other_kinds_of_topics_are_named() {
    let disk: Arc<SimVfs> = Arc::default();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../store/testdata/topics.json");
    let text = std::fs::read(path).expect("a sample");
    let file = ConfigFile::new(Arc::clone(&disk) as Arc<_>, "config/topics.json");
    file.store(&text).expect("written");
    let topics = open(&disk, &config());
    assert_eq!(topics.get("DlDelay").map(|topic| topic.read_queue_nums), Some(4));
    let batch = topics.get("PlBcq").expect("in the sample");
    assert_eq!(check_kind(&batch), Err("queue.type=BatchCQ".to_owned()));
    let file = ConfigFile::new(Arc::clone(&disk) as Arc<_>, "config/topics.json");
    let kept = file.load(|bytes| String::from_utf8(bytes.to_vec())).expect("sound").expect("one");
    assert!(kept.starts_with("{\n\t\"dataVersion\":{\n\t\t\"counter\":"), "{kept}");
}

#[test]
fn pages_cover_the_table() {
    let topics = open(&Arc::default(), &config());
    let (first, total) = topics.page(0, 5);
    let (rest, _) = topics.page(5, 1000);
    assert_eq!(first.topic_config_table.len(), 5);
    assert_eq!(first.topic_config_table.len() + rest.topic_config_table.len(), total);
}
