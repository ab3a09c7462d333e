//! Whether a Java member has the tables of a leader of ours, which it would go on with.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use client::{Admin, AdminError};

use super::{Seen, plan::Product};

/// How long copies are waited for: a Java slave that knows its master takes one every ten seconds, or up
/// to thirteen.
const PATIENCE: Duration = Duration::from_secs(14);
/// Time between two looks.
const PAUSE: Duration = Duration::from_millis(500);

/// What must be there before a member leads.
#[derive(Debug, Default)]
struct Tables {
    topics: BTreeSet<String>,
    groups: BTreeSet<String>,
    /// By `topic@group` and queue.
    offsets: BTreeMap<String, BTreeMap<i32, i64>>,
}

impl Tables {
    async fn of(admin: &Admin, address: &str) -> Result<Self, AdminError> {
        Ok(Self {
            topics: admin.topic_table(address).await?.topic_config_table.into_keys().collect(),
            groups: admin
                .group_table(address)
                .await?
                .subscription_group_table
                .into_keys()
                .collect(),
            offsets: admin.offset_table(address).await?.offset_table,
        })
    }

    /// What a member lacks of these tables, where it does. More than what is here is no harm: clients go
    /// on meanwhile.
    fn lacking(&self, member: &Self) -> Option<String> {
        let lost = |wanted: &BTreeSet<String>, has: &BTreeSet<String>| {
            wanted.difference(has).next().cloned()
        };
        if let Some(topic) = lost(&self.topics, &member.topics) {
            return Some(format!("it does not know topic {topic}"));
        }
        if let Some(group) = lost(&self.groups, &member.groups) {
            return Some(format!("it does not know group {group}"));
        }
        for (key, queues) in &self.offsets {
            for (queue, wanted) in queues {
                let has = member.offsets.get(key).and_then(|queues| queues.get(queue));
                if has.is_none_or(|has| has < wanted) {
                    let has = has.map_or("none".to_owned(), i64::to_string);
                    return Some(format!(
                        "the offset of {key} in queue {queue} is {has} there, and was {wanted} at the leader"
                    ));
                }
            }
        }
        None
    }
}

/// Takes the tables of a leader of ours as they are now, and waits, for a bounded time, until every Java
/// member has them. What one lacks is noted with it.
pub(super) async fn compare(admin: &Admin, all: &mut [Seen]) {
    let is_ours = |seen: &&Seen| seen.member.leads() && seen.member.product == Some(Product::Ours);
    let leader = all.iter().find(is_ours);
    let Some(address) = leader.and_then(|leader| leader.client.clone()) else { return };
    let wanted = Tables::of(admin, &address).await;
    let begun = Instant::now();
    loop {
        let mut whole = true;
        for seen in all.iter_mut().filter(|seen| seen.member.product == Some(Product::Java)) {
            let Some(address) = &seen.client else { continue };
            seen.member.lacks = match &wanted {
                Ok(wanted) => match Tables::of(admin, address).await {
                    Ok(has) => wanted.lacking(&has),
                    Err(error) => Some(format!("it does not tell its tables: {error}")),
                },
                Err(error) => Some(format!("the leader does not tell its tables: {error}")),
            };
            whole &= seen.member.lacks.is_none();
        }
        if whole || wanted.is_err() || begun.elapsed() >= PATIENCE {
            return;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tables(topics: &[&str], offsets: &[(&str, i32, i64)]) -> Tables {
        let mut tables = Tables {
            topics: topics.iter().map(ToString::to_string).collect(),
            ..Tables::default()
        };
        for (key, queue, offset) in offsets {
            tables.offsets.entry((*key).to_owned()).or_default().insert(*queue, *offset);
        }
        tables
    }

    #[test]
    fn a_member_that_has_as_much_or_more_lacks_nothing() {
        let leader = tables(&["T"], &[("T@G", 0, 5), ("T@G", 1, 7)]);
        assert_eq!(leader.lacking(&tables(&["T"], &[("T@G", 0, 5), ("T@G", 1, 7)])), None);
        let more = tables(&["T", "New"], &[("T@G", 0, 6), ("T@G", 1, 7), ("New@G", 0, 1)]);
        assert_eq!(leader.lacking(&more), None);
    }

    #[test]
    fn what_it_lacks_is_named() {
        let leader = tables(&["T", "U"], &[("T@G", 0, 5), ("T@G", 1, 7)]);
        let told = |member: &Tables| leader.lacking(member).expect("it lacks something");
        assert!(told(&tables(&["T"], &[])).contains("topic U"));
        let behind = told(&tables(&["T", "U"], &[("T@G", 0, 5), ("T@G", 1, 6)]));
        assert!(behind.contains("T@G in queue 1 is 6 there, and was 7"), "{behind}");
        let none = told(&tables(&["T", "U"], &[("T@G", 1, 7)]));
        assert!(none.contains("queue 0 is none there"), "{none}");
        let mut group = tables(&[], &[]);
        group.groups.insert("G".to_owned());
        assert!(group.lacking(&leader).expect("a group").contains("group G"));
    }
}
