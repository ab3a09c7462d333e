//! Pulls of members of broadcasting groups, whose offsets the broker remembers beside them
//! (`PullMessageProcessor.queryBroadcastPullInitOffset`, `updateBroadcastPulledOffset`).

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use protocol::header::PullMessageRequest;
use remoting::Connection;

use super::{Pull, signed};
use crate::{
    broadcast::{Begin, Expiry, Puller, least_group},
    broker::Broker,
    handlers::clients::MAX_CLIENT_ID,
    offsets::Commit,
    role::Role,
};

/// `requestSource` of a pull that a proxy makes for a member of a broadcasting group
/// (`RequestSource.java`).
const PROXY_FOR_BROADCAST: i32 = 1;

/// The member of a broadcasting group that a pull is of.
#[derive(Debug)]
pub(super) struct Receiver {
    client: String,
    by_proxy: bool,
}

impl Receiver {
    /// Who pulls; `None` where no offset is remembered: the group does not broadcast, the client is
    /// not known, a slave serves the pull, or the configuration says so.
    pub(super) fn of(
        broker: &Broker,
        request: &PullMessageRequest,
        connection: &Connection,
    ) -> Option<Self> {
        let by_proxy = request.request_source == Some(PROXY_FOR_BROADCAST);
        let client = if by_proxy {
            let named = request.proxy_froward_client_id.as_ref();
            named.filter(|client| client.len() <= MAX_CLIENT_ID).cloned()
        } else {
            broker.consumers.broadcast_client(&request.consumer_group, connection.id())
        };
        let remembers = broker.config().enable_broadcast_offset_store;
        client
            .filter(|_| remembers && broker.with_role(Role::is_master))
            .map(|client| Self { client, by_proxy })
    }
}

impl Pull {
    /// Where the member is to begin, where that is not the offset that it asks for.
    pub(super) fn broadcast_begin(&self, broker: &Broker) -> Option<i64> {
        let puller = self.puller()?;
        let (topic, queue) = (&*self.request.topic, self.request.queue_id);
        match broker.offsets.broadcast.begin(puller, queue, self.request.queue_offset) {
            Begin::Asked => None,
            Begin::Known(offset) => Some(offset),
            Begin::Group => {
                let group = least_group(&self.request.consumer_group);
                let known = broker.offsets.query(&group, topic, queue);
                Some(known.unwrap_or_else(|| first_of_a_group(broker, topic, self.queue)))
            }
        }
    }

    /// Remembers from where on the member pulls.
    pub(super) fn remember_broadcast(&self, broker: &Broker, offset: i64) {
        if let Some(puller) = self.puller()
            && offset >= 0
        {
            broker.offsets.broadcast.pulled(
                puller,
                (self.request.queue_id, offset),
                Instant::now(),
            );
        }
    }

    fn puller(&self) -> Option<Puller<'_>> {
        let Receiver { client, by_proxy } = self.receiver.as_ref()?;
        let (topic, group) = (&*self.request.topic, &*self.request.consumer_group);
        Some(Puller { topic, group, client, by_proxy: *by_proxy })
    }
}

/// A group that is new begins with the first message of a young queue, else with the next one.
fn first_of_a_group(broker: &Broker, topic: &str, queue: u32) -> i64 {
    let store = &broker.store;
    if store.min_offset(topic, queue) == 0 && store.is_recent(topic, queue, 0) {
        return 0;
    }
    signed(store.max_offset(topic, queue))
}

/// Gives each broadcasting group the offsets of its member that is furthest behind, and forgets
/// members that are gone. A master that is new may lack that member, and lets no offset rise yet. To be
/// called every few seconds.
pub(crate) fn keep_least(broker: &Arc<Broker>) {
    if !broker.with_role(Role::is_master) {
        return;
    }
    let config = broker.config();
    let expiry = Expiry {
        offline: Duration::from_secs(config.broadcast_offset_expire_second),
        online: Duration::from_secs(config.broadcast_offset_expire_max_second),
    };
    let is_online = |group: &str, client: &str| broker.consumers.member(group, client).is_some();
    let (table, now) = (&broker.offsets.broadcast, Instant::now());
    let lacks = table.may_lack_members(now, expiry);
    for least in table.scan(now, expiry, is_online) {
        let (group, topic, queue) = (least_group(&least.group), &*least.topic, least.queue);
        if broker.topics.get(topic).is_none() {
            continue;
        }
        let known = || broker.offsets.query(&group, topic, queue);
        if lacks && known().is_some_and(|known| known < least.offset) {
            continue;
        }
        if broker.offsets.commit(&group, topic, queue, least.offset) == Commit::Meaningless {
            tracing::debug!(group, topic, queue, least.offset, "an offset says nothing");
        }
    }
}
