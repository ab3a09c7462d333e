//! Routes within a zone (`ZoneRouteRPCHook.java`).

use protocol::Command;
use protocol::body::TopicRouteData;

use crate::route_table::MASTER_ID;

/// The zone that the request wants to stay in, if it wants that.
pub(crate) fn wanted(request: &Command) -> Option<&str> {
    let mode = request.field("__ZONE_MODE")?;
    let zone = request.field("__ZONE_NAME")?.trim();
    (mode.eq_ignore_ascii_case("true") && !zone.is_empty()).then_some(zone)
}

/// Keeps the brokers of a zone, and those without a master: their messages are to be consumed
/// from wherever that is possible.
pub(crate) fn keep(route: &mut TopicRouteData, zone: &str) {
    let (kept, removed): (Vec<_>, Vec<_>) =
        std::mem::take(&mut route.broker_datas).into_iter().partition(|broker| {
            !broker.broker_addrs.contains_key(&MASTER_ID)
                || broker.zone_name.as_ref().is_some_and(|name| name.eq_ignore_ascii_case(zone))
        });
    route.broker_datas = kept;
    route
        .queue_datas
        .retain(|queue| removed.iter().all(|broker| broker.broker_name != queue.broker_name));
    for address in removed.iter().flat_map(|broker| broker.broker_addrs.values()) {
        route.filter_server_table.remove(address);
    }
}
