//! One consumer group that is online.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
    time::Instant,
};

use protocol::{Language, body::SubscriptionData};

use crate::keeping::subscription;

/// A connection that takes part in a group.
#[derive(Debug, Clone)]
pub(crate) struct Member<C> {
    /// Number of the connection.
    pub(crate) id: u64,
    /// Handle of the connection.
    pub(crate) handle: C,
    /// What the client calls itself.
    pub(crate) client_id: String,
    /// Address it comes from, `ip:port`.
    pub(crate) address: String,
    /// Language of its latest heartbeat.
    pub(crate) language: Language,
    /// Version of its latest heartbeat.
    pub(crate) version: i32,
    /// When the latest heartbeat came.
    pub(crate) last_heartbeat: Instant,
}

/// How a group consumes, as its latest heartbeat said it: names of Java's enums.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Profile {
    /// `ConsumeType`.
    pub(crate) consume_type: &'static str,
    /// `MessageModel`.
    pub(crate) message_model: &'static str,
    /// `ConsumeFromWhere`.
    pub(crate) from_where: &'static str,
}

impl Profile {
    /// A profile from names that a client sent; an unknown name counts as the default of Java's
    /// consumers, so that a newer client is served.
    pub(crate) fn from_names(consume_type: &str, message_model: &str, from_where: &str) -> Self {
        let pick = |given: &str, known: &[&'static str]| {
            known.iter().find(|name| given == **name).unwrap_or(&known[0]).to_owned()
        };
        Self {
            consume_type: pick(
                consume_type,
                &["CONSUME_PASSIVELY", "CONSUME_ACTIVELY", "CONSUME_POP"],
            ),
            message_model: pick(message_model, &["CLUSTERING", "BROADCASTING"]),
            from_where: pick(
                from_where,
                &[
                    "CONSUME_FROM_LAST_OFFSET",
                    "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST",
                    "CONSUME_FROM_MIN_OFFSET",
                    "CONSUME_FROM_MAX_OFFSET",
                    "CONSUME_FROM_FIRST_OFFSET",
                    "CONSUME_FROM_TIMESTAMP",
                ],
            ),
        }
    }

    /// Whether each member gets every message.
    pub(crate) fn is_broadcasting(self) -> bool {
        self.message_model == "BROADCASTING"
    }

    /// Whether its members are pushed to, as their applications see it.
    pub(crate) fn is_passive(self) -> bool {
        self.consume_type == "CONSUME_PASSIVELY"
    }
}

/// A group as it is at one moment.
#[derive(Debug, Clone)]
pub(crate) struct GroupView<C> {
    /// How it consumes.
    pub(crate) profile: Profile,
    /// Its members.
    pub(crate) members: Vec<Member<C>>,
    /// Its subscriptions by topic.
    pub(crate) subscriptions: BTreeMap<String, Arc<SubscriptionData>>,
}

/// Members and subscriptions of a group.
#[derive(Debug)]
pub(super) struct ConsumerGroup<C> {
    profile: Profile,
    members: HashMap<u64, Member<C>>,
    subscriptions: HashMap<String, Arc<SubscriptionData>>,
    /// Fingerprint of the latest heartbeat that carried one.
    fingerprint: Option<i32>,
}

impl<C: Clone> ConsumerGroup<C> {
    pub(super) fn new(profile: Profile) -> Self {
        Self { profile, members: HashMap::new(), subscriptions: HashMap::new(), fingerprint: None }
    }

    pub(super) fn profile(&self) -> Profile {
        self.profile
    }

    pub(super) fn len(&self) -> usize {
        self.members.len()
    }

    pub(super) fn has(&self, id: u64) -> bool {
        self.members.contains_key(&id)
    }

    pub(super) fn members(&self) -> impl Iterator<Item = &Member<C>> {
        self.members.values()
    }

    pub(super) fn subscription(&self, topic: &str) -> Option<Arc<SubscriptionData>> {
        self.subscriptions.get(topic).cloned()
    }

    pub(super) fn has_subscriptions(&self) -> bool {
        !self.subscriptions.is_empty()
    }

    pub(super) fn view(&self) -> GroupView<C> {
        let subscriptions =
            self.subscriptions.iter().map(|(topic, data)| (topic.clone(), Arc::clone(data)));
        GroupView {
            profile: self.profile,
            members: self.members.values().cloned().collect(),
            subscriptions: subscriptions.collect(),
        }
    }

    /// Whether the client must send its subscriptions again. A client sends them once for each
    /// fingerprint, so it must hear that the group has another one meanwhile, or that this broker
    /// has none because it was restarted.
    pub(super) fn wants_subscriptions(&mut self, fingerprint: i32, given: bool) -> bool {
        if fingerprint == 0 {
            return false;
        }
        let former = self.fingerprint.replace(fingerprint);
        former.is_some_and(|former| former != fingerprint)
            || (!given && self.subscriptions.is_empty())
    }

    /// Adds or refreshes a member; whether it is new.
    pub(super) fn join(&mut self, member: Member<C>, profile: Profile) -> bool {
        self.profile = profile;
        self.members.insert(member.id, member).is_none()
    }

    /// Removes a member; `None` where it was none.
    pub(super) fn leave(&mut self, id: u64) -> Option<Member<C>> {
        self.members.remove(&id)
    }

    pub(super) fn member(&self, id: u64) -> Option<&Member<C>> {
        self.members.get(&id)
    }

    /// What the subscriptions take once these have taken their place.
    pub(super) fn bytes_with(&self, given: &[SubscriptionData]) -> usize {
        let of = |data: &SubscriptionData| match self.subscriptions.get(&data.topic) {
            Some(kept) if data.sub_version <= kept.sub_version => subscription(kept),
            _ => subscription(data),
        };
        given.iter().map(of).sum()
    }

    /// What the subscriptions take.
    pub(super) fn subscribed_bytes(&self) -> usize {
        self.subscriptions.values().map(|data| subscription(data)).sum()
    }

    /// Replaces the subscriptions; whether the set of topics changed. A subscription that is
    /// there yields only to one with a higher version, so that a client with an old expression
    /// does not undo a newer one of its group.
    pub(super) fn subscribe(&mut self, given: Vec<SubscriptionData>) -> bool {
        let topics: HashSet<String> = given.iter().map(|data| data.topic.clone()).collect();
        let before = self.subscriptions.len();
        self.subscriptions.retain(|topic, _| topics.contains(topic));
        let mut changed = self.subscriptions.len() != before;
        for data in given {
            match self.subscriptions.get_mut(&data.topic) {
                None => {
                    changed = true;
                    self.subscriptions.insert(data.topic.clone(), Arc::new(data));
                }
                Some(kept) if data.sub_version > kept.sub_version => *kept = Arc::new(data),
                Some(_) => {}
            }
        }
        changed
    }
}
