use store::journal::{Kind, Touched};

use super::*;

/// A table and what the journal has for it.
struct Rig {
    tables: Tables,
    groups: Groups,
}

impl Rig {
    fn new() -> Self {
        let mut tables = Tables::default();
        Groups::complete(&mut tables);
        let groups = Groups::new(&tables);
        Self { tables, groups }
    }

    /// Does what the journal does with a change.
    fn apply(&mut self, change: Option<Change>) {
        let change = change.expect("a change");
        self.tables.apply(&[change], 5, Touched::default());
        self.groups.load(&self.tables);
    }
}

#[test]
fn built_in_groups_exist_and_others_come_by_use() {
    let groups = Rig::new().groups;
    assert_eq!(groups.all().len(), BUILT_IN.len());
    assert!(groups.find("G").is_none());
    assert!(groups.find_or_create("G", false, 100).is_none());
    let (group, made) = groups.find_or_create("G", true, 100).unwrap();
    assert_eq!((group.retry_max_times, group.retry_queue_nums, made), (16, 1, true));
    assert!(group.consume_enable && group.notify_consumer_ids_changed_enable);
    assert!(groups.find("G").is_some());
    let (_, made_again) = groups.find_or_create("G", true, 100).unwrap();
    assert!(!made_again);
    assert!(groups.find_or_create("CID_RMQ_SYS_X", false, 100).is_some());
}

#[test]
fn a_bad_name_is_never_created() {
    let groups = Rig::new().groups;
    for name in ["", "bad/name", "a b", "x".repeat(121).as_str()] {
        assert!(groups.find_or_create(name, true, 100).is_none(), "{name}");
        let wanted = SubscriptionGroupConfig { group_name: name.to_owned(), ..Default::default() };
        assert!(matches!(groups.update(wanted), Err(UpdateError::Name(_))), "{name}");
    }
}

#[test]
fn an_update_holds_once_it_is_applied_and_one_that_changes_nothing_is_none() {
    let mut rig = Rig::new();
    let wanted = || SubscriptionGroupConfig { retry_max_times: 5, ..defaults("G") };
    let change = rig.groups.update(wanted()).unwrap();
    assert!(rig.groups.find("G").is_none(), "not applied yet");
    rig.apply(change);
    assert_eq!(rig.groups.update(wanted()), Ok(None));
    assert_eq!(rig.groups.version().counter, 1);
    assert_eq!(rig.groups.find("G").unwrap().retry_max_times, 5);
    let change = rig.groups.remove("G");
    rig.apply(change);
    assert_eq!(rig.groups.remove("G"), None);
    assert!(rig.groups.find("G").is_none());
}

/// A node that lost the lead forgets what its use made and nobody committed.
#[test]
fn a_load_forgets_what_the_journal_does_not_have() {
    let rig = Rig::new();
    rig.groups.find_or_create("G", true, 100).unwrap();
    rig.groups.load(&rig.tables);
    assert!(rig.groups.find("G").is_none());
    assert_eq!(rig.groups.all().len(), BUILT_IN.len());
}

#[test]
fn attributes_are_set_and_removed_by_sign() {
    let mut rig = Rig::new();
    let with = |key: &str| {
        let attributes = BTreeMap::from([(key.to_owned(), "1".to_owned())]);
        SubscriptionGroupConfig { attributes, ..defaults("G") }
    };
    for sign in ["+a", "+b"] {
        let change = rig.groups.update(with(sign)).unwrap();
        rig.apply(change);
    }
    assert_eq!(rig.groups.find("G").unwrap().attributes.len(), 2);
    let change = rig.groups.update(with("-a")).unwrap();
    rig.apply(change);
    assert!(rig.groups.find("G").unwrap().attributes.contains_key("b"));
    assert_eq!(rig.groups.update(with("c")), Err(UpdateError::Attribute("c".to_owned())));
}

#[test]
fn a_factor_of_priority_is_a_share_of_a_hundred() {
    let with = |key: &str, value: &str| {
        let attributes = BTreeMap::from([(key.to_owned(), value.to_owned())]);
        Groups::check(&SubscriptionGroupConfig { attributes, ..defaults("G") })
    };
    assert_eq!(with("+priority.factor", "50"), Ok(()));
    assert_eq!(with("-priority.factor", ""), Ok(()));
    let error = with("+priority.factor", "101").unwrap_err().to_string();
    assert!(error.contains("priority.factor") && error.contains("range(0, 100)"), "{error}");
}

#[test]
fn the_right_to_read_is_taken_and_given_back() {
    let mut rig = Rig::new();
    assert!(rig.groups.may_read("G", "T"));
    let change = rig.groups.set_may_read("G", "T", false);
    rig.apply(change);
    assert!(!rig.groups.may_read("G", "T"));
    assert!(rig.groups.may_read("G", "U"));
    assert_eq!(rig.groups.all_forbidden()["G"]["T"], 4);
    assert_eq!(rig.groups.set_may_read("G", "T", false), None);
    let change = rig.groups.set_may_read("G", "T", true);
    rig.apply(change);
    assert!(rig.groups.all_forbidden().is_empty());
}

#[test]
fn the_bound_holds_for_use_and_not_for_the_administrator() {
    let mut rig = Rig::new();
    assert!(rig.groups.find_or_create("G", true, BUILT_IN.len()).is_none());
    let change = rig.groups.update(defaults("G")).unwrap();
    rig.apply(change);
    assert!(rig.groups.find_or_create("G", true, BUILT_IN.len()).is_some());
}

#[test]
fn a_table_that_java_wrote_is_read() {
    let mut tables = Tables::default();
    let java = include_bytes!("../../../store/testdata/subscriptionGroup.json");
    tables.read_file(Kind::Groups, java).unwrap();
    let groups = Groups::new(&tables);
    assert!(groups.find("PlGroup").unwrap().consume_enable);
    assert_eq!(groups.version().timestamp, 1_795_963_067_130);
}
