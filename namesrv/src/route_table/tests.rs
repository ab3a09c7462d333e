//! Transcripts: time, what happens, and what the table says.

use std::fmt::Write;

use protocol::body::{RegisterBrokerBody, TopicConfig};

use super::*;

/// Runs a transcript. A line is `time command -> output`; what is printed must be what stands
/// there. Commands:
///
/// - `register NAME ID ADDRESS VERSION TOPIC=QUEUES... [old] [acting] [zone=Z] [state=N]
///   [timeout=SECONDS] [by=CONNECTION]`; `old` is a broker of 4.x
/// - `unregister NAME ADDRESS`, `heartbeat ADDRESS`, `closed CONNECTION`, `expire`
/// - `route TOPIC` prints `broker{id=address,...} queues/perm`, by broker
/// - `wipe NAME`, `add NAME`, `delete TOPIC [CLUSTER]`, `topics [CLUSTER]`, `members NAME`,
///   `clusters`, `system`, `rules [acting] [delete]`
fn transcript(text: &str) {
    let mut stage = Stage::default();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (step, expected) = line.split_once("->").unwrap_or((line, ""));
        let mut words = step.split_whitespace();
        let time = words.next().and_then(|time| time.strip_suffix('s')).expect("a time");
        stage.now = Duration::from_secs(time.parse().expect("seconds"));
        let words: Vec<&str> = words.collect();
        let printed = stage.run(&words);
        assert_eq!(printed.trim(), expected.trim(), "in the line: {line}");
    }
}

#[derive(Default)]
struct Stage {
    table: RouteTable,
    rules: Rules,
    now: Now,
}

const CLUSTER: &str = "C";

impl Stage {
    fn run(&mut self, words: &[&str]) -> String {
        let argument = |index: usize| words.get(index).copied().unwrap_or_default();
        match words[0] {
            "register" => self.register(&words[1..]),
            "unregister" => {
                self.table.unregister(CLUSTER, argument(1), argument(2));
                String::new()
            }
            "heartbeat" => self.table.touch(CLUSTER, argument(1), self.now).to_string(),
            "closed" => self.table.disconnected(argument(1).parse().expect("a number")).to_string(),
            "expire" => {
                let mut gone: Vec<_> =
                    self.table.expire(self.now).into_iter().map(|gone| gone.address).collect();
                gone.sort();
                gone.join(" ")
            }
            "route" => self.route(argument(1)),
            "wipe" => self.table.wipe_write(argument(1)).to_string(),
            "add" => self.table.add_write(argument(1)).to_string(),
            "delete" => {
                self.table.delete_topic(argument(1), words.get(2).copied());
                String::new()
            }
            "topics" => match words.get(1) {
                Some(cluster) => self.table.topics_of_cluster(cluster).topic_list.join(" "),
                None => self.table.topic_list().topic_list.join(" "),
            },
            "members" => addresses(&self.table.members(argument(1))),
            "clusters" => self.clusters(),
            "system" => {
                let list = self.table.system_topics();
                format!("{} @{}", list.topic_list.join(" "), list.broker_addr.unwrap_or_default())
            }
            "rules" => {
                self.rules.support_acting_master = words.contains(&"acting");
                self.rules.delete_absent_topics = words.contains(&"delete");
                String::new()
            }
            other => panic!("no such command: {other}"),
        }
    }

    fn register(&mut self, words: &[&str]) -> String {
        let mut registration = Registration {
            cluster: CLUSTER.to_owned(),
            broker_name: words[0].to_owned(),
            address: words[2].to_owned(),
            broker_id: words[1].parse().expect("an id"),
            ha_address: format!("{}/ha", words[2]),
            zone: None,
            timeout: None,
            acting_master: Some(false),
            body: RegisterBrokerBody::default(),
            connection: 0,
        };
        let wrapper = &mut registration.body.topic_config_serialize_wrapper;
        wrapper.data_version.counter = words[3].parse().expect("a version");
        for word in &words[4..] {
            match word.split_once('=') {
                None if *word == "old" => registration.acting_master = None,
                None if *word == "acting" => registration.acting_master = Some(true),
                Some(("zone", zone)) => registration.zone = Some(zone.to_owned()),
                Some(("state", state)) => {
                    wrapper.data_version.state_version = state.parse().expect("a number");
                }
                Some(("timeout", seconds)) => {
                    let seconds = seconds.parse().expect("seconds");
                    registration.timeout = Some(Duration::from_secs(seconds));
                }
                Some(("by", connection)) => {
                    registration.connection = connection.parse().expect("a number");
                }
                Some((topic, queues)) => {
                    let queues = queues.parse().expect("queues");
                    let config = TopicConfig {
                        topic_name: topic.to_owned(),
                        read_queue_nums: queues,
                        write_queue_nums: queues,
                        perm: 6,
                        ..TopicConfig::default()
                    };
                    wrapper.topic_config_table.insert(topic.to_owned(), config);
                }
                None => panic!("no such word: {word}"),
            }
        }
        match self.table.register(registration, self.now, self.rules) {
            Ok(Registered { master_address: Some(master), ha_address }) => {
                format!("master {master} {}", ha_address.unwrap_or_default())
            }
            Ok(_) => "ok".to_owned(),
            Err(_) => "refused".to_owned(),
        }
    }

    fn route(&self, topic: &str) -> String {
        let Some(route) = self.table.route(topic, self.rules) else { return "none".to_owned() };
        let mut text = String::new();
        for broker in &route.broker_datas {
            let name = &broker.broker_name;
            write!(text, "{name}{{{}}} ", addresses(&broker.broker_addrs)).expect("memory");
            for queue in route.queue_datas.iter().filter(|queue| queue.broker_name == *name) {
                write!(text, "{}/{} ", queue.write_queue_nums, queue.perm).expect("memory");
            }
        }
        text.trim_end().to_owned()
    }

    fn clusters(&self) -> String {
        let info = self.table.cluster_info();
        let clusters = info.cluster_addr_table.iter().map(|(cluster, names)| {
            let names: Vec<_> = names.iter().map(String::as_str).collect();
            format!("{cluster}[{}]", names.join(","))
        });
        clusters.collect::<Vec<_>>().join(" ")
    }
}

fn addresses(addresses: &BTreeMap<i64, String>) -> String {
    let pairs = addresses.iter().map(|(id, address)| format!("{id}={address}"));
    pairs.collect::<Vec<_>>().join(",")
}

#[test]
fn a_master_brings_its_topics_and_takes_them_along() {
    transcript(
        "0s route T                              -> none
         0s clusters                             ->
         0s register a 0 h:1 1 T=4 U=8         -> ok
         0s route T                              -> a{0=h:1} 4/6
         0s topics                               -> T U
         0s topics C                             -> T U
         0s topics D                             ->
         0s clusters                             -> C[a]
         0s system                               -> C a @h:1
         0s unregister a h:1                     ->
         0s route T                              -> none
         0s topics                               ->
         0s clusters                             ->
         0s system                               -> @",
    );
}

#[test]
fn a_topic_is_on_several_brokers() {
    transcript(
        "0s register a 0 h:1 1 T=4 U=8   -> ok
         0s register b 0 h:2 1 T=2 V=8   -> ok
         0s route T                      -> a{0=h:1} 4/6 b{0=h:2} 2/6
         0s unregister a h:1             ->
         0s route T                      -> b{0=h:2} 2/6
         0s topics                       -> T V",
    );
}

#[test]
fn a_slave_is_told_its_master_and_its_topics_do_not_count() {
    transcript(
        "0s register a 1 h:2 1 T=9 X=9   -> ok
         0s topics                       -> T X
         0s unregister a h:2             ->
         0s register a 0 h:1 1 T=4 U=8   -> ok
         0s register a 1 h:2 1 T=9 X=9   -> master h:1 h:1/ha
         0s route T                      -> a{0=h:1,1=h:2} 4/6
         0s topics                       -> T U
         0s unregister a h:2             ->
         0s route T                      -> a{0=h:1} 4/6",
    );
}

#[test]
fn a_slave_of_4_x_brings_no_topics() {
    transcript(
        "0s register a 1 h:2 1 T=9 X=9 old   -> ok
         0s topics                           ->
         0s members a                        -> 1=h:2",
    );
}

#[test]
fn an_address_that_moves_to_another_id_leaves_the_old_one() {
    transcript(
        "0s register a 0 h:1 1 T=4 U=8   -> ok
         0s register a 1 h:2 1 T=4 U=8   -> master h:1 h:1/ha
         0s register a 0 h:2 2 T=4 U=8   -> ok
         0s members a                    -> 0=h:2
         0s register a 2 h:1 2 T=4 U=8   -> master h:2 h:2/ha
         0s members a                    -> 0=h:2,2=h:1",
    );
}

#[test]
fn a_leader_of_an_earlier_term_is_passed_over() {
    transcript(
        "0s register a 0 h:1 5 T=4 U=8 state=7   -> ok
         0s register a 0 h:2 9 T=1 U=1 state=6   -> ok
         0s members a                            -> 0=h:1
         0s route T                              -> a{0=h:1} 4/6
         0s register a 0 h:2 9 T=1 U=1 state=8   -> ok
         0s members a                            -> 0=h:2
         0s route T                              -> a{0=h:2} 1/6",
    );
}

#[test]
fn a_single_topic_does_not_come_before_all_of_them() {
    transcript(
        "0s register a 0 h:1 1 T=4       -> refused
         0s clusters                     ->
         0s register a 0 h:1 1 T=4 U=8   -> ok
         0s register a 0 h:1 2 V=2       -> ok
         0s topics                       -> T U V
         0s register a 1 h:2 1 T=4       -> refused
         0s members a                    -> 0=h:1",
    );
}

#[test]
fn topics_are_taken_again_only_when_their_version_changed() {
    transcript(
        "0s register a 0 h:1 1 T=4 U=8       -> ok
         0s register a 0 h:1 1 T=5 U=8 V=1   -> ok
         0s route T                          -> a{0=h:1} 4/6
         0s topics                           -> T U V
         0s register a 0 h:1 2 T=5 U=8       -> ok
         0s route T                          -> a{0=h:1} 5/6
         0s topics                           -> T U V
         0s rules delete                     ->
         0s register a 0 h:1 3 T=5 U=8       -> ok
         0s topics                           -> T U",
    );
}

#[test]
fn a_silent_broker_is_removed_after_its_time() {
    transcript(
        "0s   register a 0 h:1 1 T=4 U=8             -> ok
         0s   register b 0 h:2 1 T=4 U=8 timeout=10  -> ok
         10s  expire                                 ->
         11s  expire                                 -> h:2
         11s  route T                                -> a{0=h:1} 4/6
         100s heartbeat h:1                          -> true
         100s heartbeat h:2                          -> false
         220s expire                                 ->
         221s expire                                 -> h:1
         221s topics                                 ->",
    );
}

#[test]
fn a_closed_connection_takes_its_brokers_along() {
    transcript(
        "0s register a 0 h:1 1 T=4 U=8 by=7   -> ok
         0s register b 0 h:2 1 T=4 U=8 by=7   -> ok
         0s register c 0 h:3 1 T=4 U=8 by=8   -> ok
         0s register b 0 h:2 1 T=4 U=8 by=9   -> ok
         0s closed 7                          -> 1
         0s route T                           -> b{0=h:2} 4/6 c{0=h:3} 4/6
         0s closed 7                          -> 0",
    );
}

#[test]
fn write_permission_is_taken_and_given_until_the_broker_changes_its_topics() {
    transcript(
        "0s register a 0 h:1 1 T=4 U=8   -> ok
         0s register b 0 h:2 1 T=4       -> refused
         0s wipe a                       -> 2
         0s wipe nobody                  -> 0
         0s route T                      -> a{0=h:1} 4/4
         0s register a 0 h:1 1 T=4 U=8   -> ok
         0s route T                      -> a{0=h:1} 4/4
         0s add a                        -> 2
         0s route T                      -> a{0=h:1} 4/6
         0s wipe a                       -> 2
         0s register a 0 h:1 2 T=4 U=8   -> ok
         0s route T                      -> a{0=h:1} 4/6",
    );
}

#[test]
fn a_slave_stands_in_for_its_master_read_only() {
    transcript(
        "0s rules acting                        ->
         0s register a 0 h:1 1 T=4 U=8 acting   -> ok
         0s register a 2 h:3 1 T=4 U=8 acting   -> master h:1 h:1/ha
         0s unregister a h:1                    ->
         0s route T                             -> a{0=h:3} 4/4
         0s members a                           -> 2=h:3
         0s register a 2 h:3 2 T=4 U=8 acting   -> ok
         0s route T                             -> a{0=h:3} 4/4
         0s rules                               ->
         0s route T                             -> a{2=h:3} 4/4
         0s register a 0 h:1 3 T=4 U=8 acting   -> ok
         0s route T                             -> a{0=h:1,2=h:3} 4/6",
    );
}

#[test]
fn topics_are_deleted_everywhere_or_in_one_cluster() {
    transcript(
        "0s register a 0 h:1 1 T=4 U=8   -> ok
         0s delete T D                   ->
         0s topics                       -> T U
         0s delete T C                   ->
         0s delete U                     ->
         0s topics                       ->",
    );
}

#[test]
fn a_topic_is_registered_for_known_brokers_only() {
    let mut stage = Stage::default();
    stage.run(&["register", "a", "0", "h:1", "1", "T=4", "U=8"]);
    let queue = |name: &str| QueueData {
        broker_name: name.to_owned(),
        read_queue_nums: 1,
        write_queue_nums: 1,
        perm: 6,
        ..QueueData::default()
    };
    assert_eq!(stage.table.register_topic("V", vec![queue("a")]), Ok(()));
    let unknown = stage.table.register_topic("W", vec![queue("nobody")]);
    assert_eq!(unknown, Err("nobody".to_owned()));
    assert_eq!(stage.run(&["topics"]), "T U V");
}

#[test]
fn unit_flags_choose_topics() {
    let mut stage = Stage::default();
    stage.run(&["register", "a", "0", "h:1", "1", "T=4", "U=8"]);
    for (topic, flag) in [("unit", 1), ("sub", 2), ("both", 3)] {
        let queue =
            QueueData { broker_name: "a".to_owned(), topic_sys_flag: flag, ..QueueData::default() };
        stage.table.register_topic(topic, vec![queue]).expect("a known broker");
    }
    assert_eq!(stage.table.unit_topics().topic_list, ["both", "unit"]);
    assert_eq!(stage.table.unit_sub_topics().topic_list, ["both", "sub"]);
    assert_eq!(stage.table.unit_sub_ununit_topics().topic_list, ["sub"]);
}

#[test]
fn topics_have_a_bound_and_those_that_go_make_room() {
    let mut table = RouteTable::new();
    table.topics.extend((0..1_000_000).map(|number| (format!("T{number}"), BTreeMap::new())));
    let refused = table.check_room_for_topic("one more").unwrap_err();
    assert!(refused.to_string().contains("1000000 topics are known, one more"), "{refused}");
    assert_eq!(table.check_room_for_topic("T7"), Ok(()), "it is known");
    table.topics.remove("T8");
    assert_eq!(table.check_room_for_topic("one more"), Ok(()));
}
