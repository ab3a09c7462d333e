//! Clients that come and go, and who is told (`ClientHousekeepingService.java`,
//! `DefaultConsumerIdsChangeListener.java`).

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use protocol::{
    Command, body::SubscriptionGroupConfig, code::request, header::NotifyConsumerIdsChangedRequest,
};
use remoting::Connection;
use store::journal::Change;

use crate::{broker::Broker, consumers::Lost, groups::Groups, role::Role};

impl Broker {
    /// The group of this name, made where use makes groups. Only the master makes one: a slave takes
    /// it as it would be made, until it hears of it.
    pub(crate) fn consumer_group(&self, name: &str) -> Option<Arc<SubscriptionGroupConfig>> {
        self.groups.find(name).or_else(|| {
            let config = self.config();
            if config.enable_lmq && name.starts_with(protocol::name::LMQ_PREFIX) {
                // Groups of light queues are in no table (`LmqSubscriptionGroupManager.java`).
                return Groups::unmade(name, true);
            }
            if !self.with_role(Role::is_master) {
                return Groups::unmade(name, config.auto_create_subscription_group);
            }
            let bound = config.max_subscription_groups as usize;
            let auto = config.auto_create_subscription_group;
            let (group, made) = self.groups.find_or_create(name, auto, bound)?;
            if made {
                self.journal.soon(Change::NewGroup(SubscriptionGroupConfig::clone(&group)));
            }
            Some(group)
        })
    }

    /// Whether there is a group of this name; groups of light queues are in no table.
    pub(crate) fn has_group(&self, name: &str) -> bool {
        self.groups.find(name).is_some()
            || (self.config().enable_lmq && name.starts_with(protocol::name::LMQ_PREFIX))
    }

    /// A connection has ended: its client leaves all groups at once, and those who share queues
    /// with it are told.
    pub(crate) fn client_gone(&self, connection: &Connection) {
        self.producers.closed(connection.id());
        self.unannounced.closed(connection.id());
        for lost in self.consumers.closed(connection.id()) {
            self.tell_lost(&lost);
        }
    }

    /// Drops clients that were silent too long. Their connections are closed, so that a client
    /// that lives after all makes a new one and sends a heartbeat.
    pub(crate) fn expire_clients(&self, now: Instant) {
        let limit = Duration::from_millis(self.config().channel_expired_timeout);
        let mut silent = self.consumers.silent(now, limit);
        silent.extend(self.producers.silent(now, limit));
        for member in silent {
            tracing::warn!(
                client = member.client_id,
                address = member.address,
                "client sent no heartbeat for too long, its connection is closed"
            );
            member.handle.close();
            self.client_gone(&member.handle);
        }
        self.locks.sweep(now);
        if self.locks.knows_members(now) {
            self.unannounced.forget();
        }
    }

    /// Tells all members of a group that it has other members or topics, unless the group does
    /// not want to be told or shares no queues.
    pub(crate) fn tell_changed(&self, group: &str) {
        let broadcasting =
            self.consumers.profile(group).is_none_or(|found| found.is_broadcasting());
        if broadcasting || !self.wants_to_be_told(group) {
            return;
        }
        let members = self.consumers.members(group);
        notify(group, members.iter().map(|member| &member.handle));
    }

    /// Tells those who are left in a group.
    pub(crate) fn tell_lost(&self, lost: &Lost<Arc<Connection>>) {
        if self.wants_to_be_told(&lost.group) {
            notify(&lost.group, lost.remaining.iter());
        }
    }

    fn wants_to_be_told(&self, group: &str) -> bool {
        self.groups.find(group).is_none_or(|config| config.notify_consumer_ids_changed_enable)
    }
}

fn notify<'a>(group: &str, connections: impl Iterator<Item = &'a Arc<Connection>>) {
    let header = NotifyConsumerIdsChangedRequest { consumer_group: group.to_owned() };
    let request = Command::request_with(request::NOTIFY_CONSUMER_IDS_CHANGED, &header);
    for connection in connections {
        connection.oneway(request.clone());
    }
}
