//! Subscription groups: codes 200, 201, 207, 225, 352, 353 (`AdminBrokerProcessor.java`).

use std::sync::Arc;

use protocol::{
    body::{
        DataVersion, GroupForbidden, SubscriptionGroupConfig, SubscriptionGroupList,
        SubscriptionGroupWrapper,
    },
    code::response,
    header::{
        DeleteSubscriptionGroupRequest, GetAllSubscriptionGroupRequest,
        GetAllSubscriptionGroupResponse, GetSubscriptionGroupConfigRequest,
        UpdateGroupForbiddenRequest,
    },
    name,
};
use store::journal::Change;

use crate::{
    broadcast::least_group,
    broker::Broker,
    call::{Call, Rejection, Reply},
    compat::java_slave::as_changes,
    groups::UpdateError,
};

/// The most groups of one page (`maxPageSizeInGetMetadata`).
const MAX_PAGE: usize = 2_000;

/// Code 200.
pub(crate) fn update(broker: &Arc<Broker>, call: &mut Call) -> Result<Reply, Rejection> {
    let wanted = SubscriptionGroupConfig::decode(&call.command.body)?;
    tracing::info!(group = wanted.group_name, peer = %call.client, "subscription group is updated");
    broker.change_blocking(|| {
        let change = broker.groups.update(wanted).map_err(refused)?;
        Ok((change.into_iter().collect(), ()))
    })?;
    Reply::done(call)
}

/// Code 225. Either all groups are taken or none.
pub(crate) fn update_list(broker: &Arc<Broker>, call: &mut Call) -> Result<Reply, Rejection> {
    let wanted = SubscriptionGroupList::decode(&call.command.body)?.group_config_list;
    broker.change_blocking(|| {
        let mut changes = Vec::new();
        for group in wanted {
            changes.extend(broker.groups.update(group).map_err(refused)?);
        }
        Ok((changes, ()))
    })?;
    Reply::done(call)
}

/// Code 201. A page of groups by name where the request asks for one, else all.
pub(crate) fn all(broker: &Arc<Broker>, call: &mut Call) -> Result<Reply, Rejection> {
    let header: GetAllSubscriptionGroupRequest = call.header()?;
    let groups = broker.groups.all();
    let version = broker.groups.version();
    let total = i32::try_from(groups.len()).unwrap_or(i32::MAX);
    let (first, limit) = match header.group_seq {
        None => (0, usize::MAX),
        Some(first) if is_version(header.data_version.as_deref(), &version) => {
            (usize::try_from(first).unwrap_or(0), page_size(header.max_group_num))
        }
        // The table has changed since the first page, so that the client starts again.
        Some(_) => (0, page_size(header.max_group_num)),
    };
    let page = groups.into_iter().skip(first).take(limit);
    let mut wrapper = SubscriptionGroupWrapper {
        subscription_group_table: page
            .map(|(name, group)| (name, SubscriptionGroupConfig::clone(&group)))
            .collect(),
        forbidden_table: broker.groups.all_forbidden(),
        data_version: version,
    };
    if broker.is_for_changes(call) {
        wrapper
            .subscription_group_table
            .values_mut()
            .for_each(|group| as_changes(&mut group.attributes));
    }
    broker.note_java_slave(call);
    let header = GetAllSubscriptionGroupResponse { total_group_num: Some(total) };
    Ok(Reply::Now(call.success().with_header(&header).with_body(wrapper.encode())))
}

/// Code 207.
pub(crate) fn delete(broker: &Arc<Broker>, call: &mut Call) -> Result<Reply, Rejection> {
    let header: DeleteSubscriptionGroupRequest = call.header()?;
    let group = &header.group_name;
    let there = broker.change_blocking(|| {
        let mut changes: Vec<_> = broker.groups.remove(group).into_iter().collect();
        let there = !changes.is_empty();
        if header.clean_offset && !broker.offsets.topics_of(group).is_empty() {
            changes.push(Change::DropOffsetsOfGroup(group.clone()));
        }
        let least = least_group(group);
        if broker.offsets.has_group(&least) {
            changes.push(Change::DropOffsetsOfGroup(least));
        }
        Ok((changes, there))
    })?;
    tracing::info!(group, there, header.clean_offset, peer = %call.client, "subscription group is deleted");
    broker.stats.forget_group(group);
    broker.offsets.broadcast.forget_where(|_, of| of == group);
    Reply::done(call)
}

/// Code 352. Creates the group where use creates groups.
pub(crate) fn one(broker: &Arc<Broker>, call: &mut Call) -> Result<Reply, Rejection> {
    let header: GetSubscriptionGroupConfigRequest = call.header()?;
    let group = broker.consumer_group(&header.group).ok_or_else(|| {
        Rejection::new(response::SUBSCRIPTION_GROUP_NOT_EXIST, "No group in this broker")
    })?;
    Reply::body(call, group.encode())
}

/// Code 353. Takes or gives the right of a group to read a topic, and says what holds.
pub(crate) fn forbidden(broker: &Arc<Broker>, call: &mut Call) -> Result<Reply, Rejection> {
    let header: UpdateGroupForbiddenRequest = call.header()?;
    if let Some(readable) = header.readable {
        if broker.consumer_group(&header.group).is_none() {
            let remark =
                format!("group {} does not exist; create it with updateSubGroup", header.group);
            return Err(Rejection::new(response::SUBSCRIPTION_GROUP_NOT_EXIST, remark));
        }
        // Giving a right back needs no topic: it may be gone since.
        if !readable && broker.topics.get(&header.topic).is_none() {
            let topic: String = header.topic.chars().take(name::MAX_RETRY_TOPIC).collect();
            let remark = format!("topic {topic} does not exist; nobody reads it");
            return Err(Rejection::new(response::TOPIC_NOT_EXIST, remark));
        }
        broker.change_blocking(|| {
            let change = broker.groups.set_may_read(&header.group, &header.topic, readable);
            Ok((change.into_iter().collect(), ()))
        })?;
    }
    let readable = broker.groups.may_read(&header.group, &header.topic);
    let body =
        GroupForbidden { group: header.group, topic: header.topic, readable: Some(readable) };
    Reply::body(call, body.encode())
}

fn is_version(asked: Option<&str>, version: &DataVersion) -> bool {
    match asked {
        None | Some("") => true,
        Some(text) => DataVersion::decode(text.as_bytes()).is_ok_and(|asked| asked == *version),
    }
}

fn page_size(asked: Option<i32>) -> usize {
    asked
        .and_then(|size| usize::try_from(size).ok())
        .filter(|size| *size > 0)
        .map_or(MAX_PAGE, |size| size.min(MAX_PAGE))
}

fn refused(error: UpdateError) -> Rejection {
    Rejection::new(response::INVALID_PARAMETER, error.to_string())
}
