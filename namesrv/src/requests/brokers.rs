//! Brokers: codes 103, 104, 106, 205, 322, 327, 901, 904.

use std::time::Duration;

use protocol::body::{
    BrokerMemberGroup, DataVersion, GetBrokerMemberGroupResponseBody, KvTable, RegisterBrokerBody,
    register_body_crc32,
};
use protocol::frame;
use protocol::header::{
    AddWritePermOfBrokerRequest, AddWritePermOfBrokerResponse, BrokerHeartbeatRequest,
    GetBrokerMemberGroupRequest, QueryDataVersionRequest, QueryDataVersionResponse,
    RegisterBrokerRequest, RegisterBrokerResponse, UnRegisterBrokerRequest,
    WipeWritePermOfBrokerRequest, WipeWritePermOfBrokerResponse,
};

use super::{Answer, Rejection, success};
use crate::core::{Call, Core};
use crate::kv::ORDER_TOPIC_CONFIG;
use crate::route_table::Registration;

pub(super) fn register(core: &Core, call: &Call<'_>) -> Answer {
    let header: RegisterBrokerRequest = call.request.header()?;
    let body = &call.request.body;
    if header.body_crc32 != 0 && header.body_crc32 != register_body_crc32(body) {
        return Err(Rejection::error("crc32 not match"));
    }
    let registration = Registration {
        body: RegisterBrokerBody::decode_for(
            body,
            header.compressed,
            call.request.version,
            frame::DEFAULT_LIMIT,
        )?,
        cluster: header.cluster_name,
        broker_name: header.broker_name,
        address: header.broker_addr,
        broker_id: header.broker_id,
        ha_address: header.ha_server_addr,
        zone: header.zone_name,
        timeout: header
            .heartbeat_timeout_millis
            .and_then(|millis| u64::try_from(millis).ok())
            .map(Duration::from_millis),
        acting_master: header.enable_acting_master,
        connection: call.connection,
    };
    let name = registration.broker_name.clone();
    let mut table = core.table_mut();
    table.check_room(&registration)?;
    let registered = table.register(registration, call.now, core.rules()).map_err(|refused| {
        tracing::warn!(%refused, "registration refused");
        Rejection::error("register broker failed")
    })?;
    drop(table);
    tracing::debug!(broker = name, "registered");
    let header = RegisterBrokerResponse {
        ha_server_addr: registered.ha_address,
        master_addr: registered.master_address,
    };
    let response = success(call).with_header(&header);
    let orders = core
        .settings()
        .return_order_topic_config
        .then(|| core.kv().namespace(ORDER_TOPIC_CONFIG).cloned())
        .flatten();
    Ok(match orders {
        Some(orders) => {
            response.with_body(KvTable { table: orders.into_iter().collect() }.encode())
        }
        None => response,
    })
}

pub(super) fn unregister(core: &Core, call: &Call<'_>) -> Answer {
    let header: UnRegisterBrokerRequest = call.request.header()?;
    core.table_mut().unregister(&header.cluster_name, &header.broker_name, &header.broker_addr);
    tracing::info!(
        broker = header.broker_name,
        address = header.broker_addr,
        id = header.broker_id,
        "a broker has left"
    );
    Ok(success(call))
}

pub(super) fn cluster_info(core: &Core, call: &Call<'_>) -> Answer {
    Ok(success(call).with_body(core.table().cluster_info().encode()))
}

pub(super) fn wipe_write(core: &Core, call: &Call<'_>) -> Answer {
    let header: WipeWritePermOfBrokerRequest = call.request.header()?;
    let count = core.table_mut().wipe_write(&header.broker_name);
    tracing::info!(broker = header.broker_name, count, "write permission wiped by a request");
    let header = WipeWritePermOfBrokerResponse { wipe_topic_count: number(count) };
    Ok(success(call).with_header(&header))
}

pub(super) fn add_write(core: &Core, call: &Call<'_>) -> Answer {
    let header: AddWritePermOfBrokerRequest = call.request.header()?;
    let count = core.table_mut().add_write(&header.broker_name);
    tracing::info!(broker = header.broker_name, count, "write permission given by a request");
    let header = AddWritePermOfBrokerResponse { add_topic_count: number(count) };
    Ok(success(call).with_header(&header))
}

/// Tells a broker whether it has to register its topics again, and counts as a sign of life.
pub(super) fn query_version(core: &Core, call: &Call<'_>) -> Answer {
    let header: QueryDataVersionRequest = call.request.header()?;
    let theirs = DataVersion::decode(&call.request.body)?;
    let mut table = core.table_mut();
    let ours = table.version(&header.cluster_name, &header.broker_addr).cloned();
    table.touch(&header.cluster_name, &header.broker_addr, call.now);
    drop(table);
    let changed = ours.as_ref() != Some(&theirs);
    let response = success(call).with_header(&QueryDataVersionResponse { changed });
    Ok(match ours {
        Some(ours) => response.with_body(ours.encode()),
        None => response,
    })
}

pub(super) fn members(core: &Core, call: &Call<'_>) -> Answer {
    let header: GetBrokerMemberGroupRequest = call.request.header()?;
    let broker_addrs = core.table().members(&header.broker_name);
    let body = GetBrokerMemberGroupResponseBody {
        broker_member_group: Some(BrokerMemberGroup {
            cluster: header.cluster_name,
            broker_name: header.broker_name,
            broker_addrs,
        }),
    };
    Ok(success(call).with_body(body.encode()))
}

pub(super) fn heartbeat(core: &Core, call: &Call<'_>) -> Answer {
    let header: BrokerHeartbeatRequest = call.request.header()?;
    core.table_mut().touch(&header.cluster_name, &header.broker_addr, call.now);
    Ok(success(call))
}

fn number(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}
