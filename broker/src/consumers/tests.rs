use super::*;
use protocol::Language;

fn member(id: u64, client: &str) -> Member<u64> {
    Member {
        id,
        handle: id,
        client_id: client.to_owned(),
        address: format!("127.0.0.1:{id}"),
        language: Language::Java,
        version: 513,
        last_heartbeat: Instant::now(),
    }
}

fn subscription(topic: &str, version: i64) -> SubscriptionData {
    SubscriptionData {
        topic: topic.to_owned(),
        sub_string: version.to_string(),
        sub_version: version,
        ..SubscriptionData::default()
    }
}

fn clustering(group: &str, topics: &[(&str, i64)]) -> Registration {
    Registration {
        group: group.to_owned(),
        profile: Profile::from_names("CONSUME_PASSIVELY", "CLUSTERING", ""),
        subscriptions: Some(topics.iter().map(|(topic, v)| subscription(topic, *v)).collect()),
        fingerprint: 0,
    }
}

fn changed(consumers: &Consumers<u64>, registration: Registration, member: Member<u64>) -> bool {
    consumers.register(registration, member).unwrap().changed
}

#[test]
fn a_new_member_or_topic_is_a_change_and_a_repeat_is_none() {
    let consumers = Consumers::default();
    assert!(changed(&consumers, clustering("G", &[("T", 1)]), member(1, "c1")));
    assert!(!changed(&consumers, clustering("G", &[("T", 1)]), member(1, "c1")));
    assert!(changed(&consumers, clustering("G", &[("T", 1)]), member(2, "c2")));
    assert!(changed(&consumers, clustering("G", &[("T", 1), ("U", 1)]), member(2, "c2")));
    assert!(changed(&consumers, clustering("G", &[("U", 1)]), member(2, "c2")));
    assert_eq!(consumers.subscription("G", "T"), None);
    let mut ids = consumers.client_ids("G");
    ids.sort();
    assert_eq!(ids, ["c1", "c2"]);
}

#[test]
fn only_a_higher_version_replaces_a_subscription() {
    let consumers = Consumers::default();
    changed(&consumers, clustering("G", &[("T", 5)]), member(1, "c1"));
    assert!(!changed(&consumers, clustering("G", &[("T", 4)]), member(1, "c1")));
    assert_eq!(consumers.subscription("G", "T").unwrap().sub_version, 5);
    assert!(!changed(&consumers, clustering("G", &[("T", 6)]), member(1, "c1")));
    assert_eq!(consumers.subscription("G", "T").unwrap().sub_string, "6");
}

#[test]
fn members_are_connections_and_ids_are_listed_once() {
    let consumers = Consumers::default();
    changed(&consumers, clustering("G", &[("T", 1)]), member(1, "same"));
    changed(&consumers, clustering("G", &[("T", 1)]), member(2, "same"));
    assert_eq!(consumers.members("G").len(), 2);
    assert_eq!(consumers.client_ids("G"), ["same"]);
    assert_eq!(consumers.member("G", "same").unwrap().id, 2);
    assert_eq!(consumers.groups_of_topic("T"), ["G"]);
    assert_eq!(consumers.counts(), (1, 2));
}

#[test]
fn the_end_of_a_connection_takes_it_out_of_all_groups() {
    let consumers = Consumers::default();
    changed(&consumers, clustering("G", &[("T", 1)]), member(1, "c1"));
    changed(&consumers, clustering("H", &[("T", 1)]), member(1, "c1"));
    changed(&consumers, clustering("G", &[("T", 1)]), member(2, "c2"));
    let mut lost = consumers.closed(1);
    lost.sort_by(|a, b| a.group.cmp(&b.group));
    assert_eq!(lost.len(), 2);
    assert_eq!((lost[0].group.as_str(), lost[0].remaining.as_slice()), ("G", &[2][..]));
    assert!(lost[1].remaining.is_empty());
    assert!(consumers.view("H").is_none(), "an empty group is forgotten");
    assert!(consumers.closed(1).is_empty());
    assert!(consumers.unregister("G", 1).is_none());
    assert!(consumers.unregister("G", 2).is_some());
    assert_eq!(consumers.counts(), (0, 0));
    assert!(consumers.of_connection.is_empty());
}

#[test]
fn nobody_is_told_in_a_broadcasting_group() {
    let consumers = Consumers::default();
    for id in [1, 2] {
        let mut registration = clustering("B", &[("T", 1)]);
        registration.profile = Profile::from_names("CONSUME_PASSIVELY", "BROADCASTING", "");
        changed(&consumers, registration, member(id, "c"));
    }
    assert!(consumers.profile("B").unwrap().is_broadcasting());
    assert!(consumers.unregister("B", 1).unwrap().remaining.is_empty());
}

#[test]
fn silent_connections_are_found() {
    let consumers = Consumers::default();
    changed(&consumers, clustering("G", &[("T", 1)]), member(1, "c1"));
    let now = Instant::now();
    let limit = Duration::from_secs(120);
    assert!(consumers.silent(now + Duration::from_secs(100), limit).is_empty());
    let silent = consumers.silent(now + Duration::from_secs(121), limit);
    assert_eq!(silent.iter().map(|member| member.id).collect::<Vec<_>>(), [1]);
}

#[test]
fn a_fingerprint_that_changed_or_came_without_subscriptions_asks_for_them() {
    let consumers = Consumers::default();
    let heartbeat = |fingerprint, with: bool| {
        let mut registration = clustering("G", &[("T", 1)]);
        registration.fingerprint = fingerprint;
        if !with {
            registration.subscriptions = None;
        }
        consumers.register(registration, member(1, "c1")).unwrap().subscriptions_wanted
    };
    assert!(heartbeat(7, false), "a broker that was restarted has no subscriptions");
    assert!(!heartbeat(7, true));
    assert!(!heartbeat(7, false));
    assert!(consumers.subscription("G", "T").is_some(), "left out is not removed");
    assert!(heartbeat(8, false));
    assert!(!heartbeat(8, true));
}

#[test]
fn too_many_topics_are_refused_whole() {
    let consumers = Consumers::default();
    let mut registration = clustering("G", &[]);
    registration.subscriptions =
        Some((0..=MAX_TOPICS).map(|number| subscription(&format!("T{number}"), 1)).collect());
    let error = consumers.register(registration, member(1, "c1")).unwrap_err();
    assert!(error.to_string().contains("at most 10000"), "{error}");
    assert!(consumers.view("G").is_none());
}

#[test]
fn unknown_enum_names_count_as_the_defaults() {
    let profile = Profile::from_names("CONSUME_SIDEWAYS", "", "CONSUME_FROM_TIMESTAMP");
    assert_eq!(profile.consume_type, "CONSUME_PASSIVELY");
    assert_eq!(profile.message_model, "CLUSTERING");
    assert_eq!(profile.from_where, "CONSUME_FROM_TIMESTAMP");
}

#[test]
fn what_is_kept_has_a_bound_in_bytes_and_is_given_back() {
    let consumers = Consumers { keeping: Keeping::new(100_000), ..Consumers::default() };
    let fat = |group: &str, length: usize, version: i64| Registration {
        subscriptions: Some(vec![SubscriptionData {
            sub_string: "x".repeat(length),
            ..subscription("T", version)
        }]),
        ..clustering(group, &[])
    };
    changed(&consumers, fat("G", 40_000, 1), member(1, "c1"));
    let alone = consumers.keeping.kept();
    assert!((40_000..42_000).contains(&alone), "{alone}");
    // The same again, a newer one, an older one: it is counted once, and as it is kept.
    for (length, version, kept) in [(40_000, 1, 40_000), (30_000, 2, 30_000), (9, 1, 30_000)] {
        changed(&consumers, fat("G", length, version), member(1, "c1"));
        assert_eq!(consumers.keeping.kept(), alone - 40_000 + kept);
    }
    let refused = consumers.register(fat("H", 90_000, 1), member(2, "c2")).unwrap_err();
    assert!(matches!(refused, RegisterError::Bytes(_)), "{refused}");
    assert_eq!(consumers.counts(), (1, 1));
    assert_eq!(consumers.keeping.kept(), alone - 10_000);
    changed(&consumers, fat("H", 50_000, 1), member(2, "c2"));
    changed(&consumers, fat("H", 50_000, 1), member(3, "c3"));
    consumers.closed(2);
    consumers.closed(1);
    consumers.unregister("H", 3);
    assert_eq!((consumers.counts(), consumers.keeping.kept()), ((0, 0), 0));
}

#[test]
fn groups_that_are_online_have_a_bound_and_those_that_go_make_room() {
    let consumers = Consumers::default();
    for number in 0..MAX_GROUPS as u64 {
        changed(&consumers, clustering(&format!("G{number}"), &[]), member(number, "c"));
    }
    let more = || consumers.register(clustering("one more", &[]), member(1, "c"));
    assert!(more().unwrap_err().to_string().contains("100000 consumer groups are online"));
    assert!(!changed(&consumers, clustering("G7", &[]), member(7, "c")), "it is known");
    consumers.closed(7);
    assert!(more().is_ok());
}
