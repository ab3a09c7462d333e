//! The producers and consumers of a client, and the requests that brokers send to them.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use protocol::{
    Command,
    body::{ConsumerData, HeartbeatData, ProducerData},
    code::{request, response},
    header::NotifyConsumerIdsChangedRequest,
};
use remoting::{Connection, Handler, Responder};
use tokio::sync::Notify;

/// Groups that this client is a member of.
#[derive(Debug, Default)]
pub(crate) struct Members(Mutex<Groups>);

#[derive(Debug, Default)]
struct Groups {
    /// Producers of each group; several may share one.
    producers: HashMap<String, usize>,
    consumers: HashMap<String, Consumer>,
}

/// What a heartbeat tells of a consumer, and how it is woken.
#[derive(Debug)]
struct Consumer {
    data: ConsumerData,
    changed: Arc<Notify>,
}

impl Members {
    /// A producer joins its group.
    pub(crate) fn producer_joins(&self, group: &str) {
        *self.lock().producers.entry(group.to_owned()).or_insert(0) += 1;
    }

    /// A producer leaves its group; says whether it was the last one.
    pub(crate) fn producer_leaves(&self, group: &str) -> bool {
        let mut groups = self.lock();
        let Some(count) = groups.producers.get_mut(group) else {
            return false;
        };
        *count -= 1;
        let last = *count == 0;
        if last {
            groups.producers.remove(group);
        }
        last
    }

    /// A consumer joins its group; `changed` is woken when members of the group come or go. False
    /// if the group has a consumer already.
    pub(crate) fn consumer_joins(&self, data: ConsumerData, changed: Arc<Notify>) -> bool {
        let mut groups = self.lock();
        let group = data.group_name.clone();
        if groups.consumers.contains_key(&group) {
            return false;
        }
        groups.consumers.insert(group, Consumer { data, changed });
        true
    }

    /// A consumer leaves its group.
    pub(crate) fn consumer_leaves(&self, group: &str) {
        self.lock().consumers.remove(group);
    }

    /// The body of a heartbeat; `None` without members.
    pub(crate) fn heartbeat(&self, client_id: &str) -> Option<HeartbeatData> {
        let groups = self.lock();
        if groups.producers.is_empty() && groups.consumers.is_empty() {
            return None;
        }
        Some(HeartbeatData {
            client_id: client_id.to_owned(),
            producer_data_set: groups
                .producers
                .keys()
                .map(|group| ProducerData { group_name: group.clone() })
                .collect(),
            consumer_data_set: groups.consumers.values().map(|c| c.data.clone()).collect(),
            ..HeartbeatData::default()
        })
    }

    /// Wakes the consumer of a group, or those of all groups.
    fn wake(&self, group: Option<&str>) {
        for (name, consumer) in &self.lock().consumers {
            if group.is_none_or(|group| group == name) {
                consumer.changed.notify_one();
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Groups> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Handler for Members {
    fn handle(&self, connection: &Arc<Connection>, request: Command, responder: Responder) {
        match request.code {
            request::NOTIFY_CONSUMER_IDS_CHANGED => {
                match request.header::<NotifyConsumerIdsChangedRequest>() {
                    Ok(header) => self.wake(Some(&header.consumer_group)),
                    Err(error) => {
                        tracing::warn!(%error, peer = %connection.remote_addr(), "notice of a changed group");
                        self.wake(None);
                    }
                }
                responder.send(request.response(response::SUCCESS));
            }
            code => {
                let name = crate::request::code_name(code);
                tracing::debug!(code, name, peer = %connection.remote_addr(), "request not served");
                let remark = format!("this client does not serve request code {code} {name}");
                responder.send(
                    request.response(response::REQUEST_CODE_NOT_SUPPORTED).with_remark(remark),
                );
            }
        }
    }

    fn closed(&self, _connection: &Arc<Connection>) {
        // The broker has forgotten this client with its connection; rebalancing announces it again.
        self.wake(None);
    }
}
