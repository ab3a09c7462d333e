use std::sync::Arc;

use segment::SimVfs;
use store::config_file::ConfigFile;

use super::*;

fn file(disk: &SimVfs) -> ConfigFile {
    ConfigFile::new(Arc::new(disk.clone()), "config/subscriptionGroup.json")
}

fn groups() -> Groups {
    Groups::open(file(&SimVfs::new())).unwrap()
}

#[test]
fn built_in_groups_exist_and_others_come_by_use() {
    let groups = groups();
    assert_eq!(groups.all().len(), BUILT_IN.len());
    assert!(groups.find("G").is_none());
    assert!(groups.find_or_create("G", false, 100).is_none());
    let group = groups.find_or_create("G", true, 100).unwrap();
    assert_eq!((group.retry_max_times, group.retry_queue_nums), (16, 1));
    assert!(group.consume_enable && group.notify_consumer_ids_changed_enable);
    assert!(groups.take_changed());
    assert!(groups.find("G").is_some());
    assert!(groups.find_or_create("CID_RMQ_SYS_X", false, 100).is_some());
    assert_eq!(groups.version().counter, 2);
}

#[test]
fn a_bad_name_is_never_created() {
    let groups = groups();
    for name in ["", "bad/name", "a b", "x".repeat(121).as_str()] {
        assert!(groups.find_or_create(name, true, 100).is_none(), "{name}");
        let wanted = SubscriptionGroupConfig { group_name: name.to_owned(), ..Default::default() };
        assert!(matches!(groups.update(wanted), Err(UpdateError::Name(_))), "{name}");
    }
    assert!(!groups.take_changed());
}

#[test]
fn an_update_that_changes_nothing_keeps_the_version() {
    let groups = groups();
    let wanted = || SubscriptionGroupConfig { retry_max_times: 5, ..defaults("G") };
    groups.update(wanted()).unwrap();
    let version = groups.version();
    groups.update(wanted()).unwrap();
    assert_eq!(groups.version(), version);
    assert_eq!(groups.find("G").unwrap().retry_max_times, 5);
    assert!(groups.remove("G"));
    assert!(!groups.remove("G"));
    assert!(groups.find("G").is_none());
}

#[test]
fn attributes_are_set_and_removed_by_sign() {
    let groups = groups();
    let with = |key: &str| {
        let attributes = BTreeMap::from([(key.to_owned(), "1".to_owned())]);
        SubscriptionGroupConfig { attributes, ..defaults("G") }
    };
    groups.update(with("+a")).unwrap();
    groups.update(with("+b")).unwrap();
    assert_eq!(groups.find("G").unwrap().attributes.len(), 2);
    groups.update(with("-a")).unwrap();
    assert!(groups.find("G").unwrap().attributes.contains_key("b"));
    assert_eq!(groups.update(with("c")), Err(UpdateError::Attribute("c".to_owned())));
}

#[test]
fn the_right_to_read_is_taken_and_given_back() {
    let groups = groups();
    assert!(groups.may_read("G", "T"));
    groups.set_may_read("G", "T", false);
    assert!(!groups.may_read("G", "T"));
    assert!(groups.may_read("G", "U"));
    assert_eq!(groups.all_forbidden()["G"]["T"], 4);
    groups.set_may_read("G", "T", true);
    assert!(groups.all_forbidden().is_empty());
}

#[test]
fn the_bound_holds_for_use_and_not_for_the_administrator() {
    let groups = groups();
    assert!(groups.find_or_create("G", true, BUILT_IN.len()).is_none());
    groups.update(defaults("G")).unwrap();
    assert!(groups.find_or_create("G", true, BUILT_IN.len()).is_some());
}

#[test]
fn the_table_survives_in_its_file() {
    let disk = SimVfs::new();
    let groups = Groups::open(file(&disk)).unwrap();
    groups.update(SubscriptionGroupConfig { retry_max_times: 3, ..defaults("G") }).unwrap();
    groups.set_may_read("G", "T", false);
    groups.flush().unwrap();
    let again = Groups::open(file(&disk)).unwrap();
    assert_eq!(again.find("G").unwrap().retry_max_times, 3);
    assert!(!again.may_read("G", "T"));
    assert_eq!(again.version(), groups.version());
    assert_eq!(again.all().len(), BUILT_IN.len() + 1);
}

#[test]
fn a_table_that_java_wrote_is_read() {
    let disk = SimVfs::new();
    file(&disk).store(include_bytes!("../../../store/testdata/subscriptionGroup.json")).unwrap();
    let groups = Groups::open(file(&disk)).unwrap();
    assert!(groups.find("PlGroup").unwrap().consume_enable);
    assert_eq!(groups.version().timestamp, 1_795_963_067_130);
}
