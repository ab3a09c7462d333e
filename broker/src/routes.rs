//! The one table of request codes: where each runs, who serves it, and what answers it.
//!
//! A code that Java knows is served or declined with its reason.

use std::sync::Arc;

use protocol::code::request;

use crate::{
    broker::Broker,
    call::{Call, Rejection, Reply},
    handlers::{self, cold_data},
    lanes::Lane,
};

/// Serves one request.
pub(crate) type Serve = fn(&Arc<Broker>, &mut Call) -> Result<Reply, Rejection>;

/// One line of the table.
#[derive(Debug)]
pub(crate) struct Route {
    /// Request code.
    pub(crate) code: i32,
    /// What becomes of it.
    pub(crate) does: Does,
}

/// What becomes of a request.
#[derive(Debug)]
pub(crate) enum Does {
    /// It is served.
    Serve {
        /// Where the handler runs.
        lane: Lane,
        /// Who serves it.
        serves: Serves,
        /// The handler.
        handler: Serve,
    },
    /// It is declined.
    Decline {
        /// Why, and for how long.
        reason: &'static str,
        /// Whether it never will be served.
        for_good: bool,
    },
}

/// Who serves a request, and so what a follower does with it. Without a leader, all but the last are
/// refused as retriable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Serves {
    /// The master; a follower passes it on. All that changes something, and what a follower may know
    /// too late.
    Master,
    /// The master, and a follower with `slaveReadEnable` what is committed there; one without refuses:
    /// a pull may wait long, and hangs on its client's heartbeats.
    Reader,
    /// Any role, from its own tables and connections.
    AnyRole,
}

/// The line of a code.
pub(crate) fn find(code: i32) -> Option<(usize, &'static Route)> {
    let at = ROUTES.binary_search_by_key(&code, |route| route.code).ok()?;
    ROUTES.get(at).map(|route| (at, route))
}

const fn served(code: i32, lane: Lane, serves: Serves, handler: Serve) -> Route {
    Route { code, does: Does::Serve { lane, serves, handler } }
}

const fn for_now(code: i32, reason: &'static str) -> Route {
    Route { code, does: Does::Decline { reason, for_good: false } }
}

const fn for_good(code: i32, reason: &'static str) -> Route {
    Route { code, does: Does::Decline { reason, for_good: true } }
}

/// Codes that a broker never receives from a sound peer.
const fn elsewhere(code: i32, reason: &'static str) -> Route {
    Route { code, does: Does::Decline { reason, for_good: false } }
}

const NAME_SERVER: &str = "this is a name server's code";
const CONTROLLER: &str = "this is a controller's code; a DLedger group has none";
const CLIENT: &str = "a broker sends this code, a client receives it";
const UNUSED: &str = "no Java broker serves it";
const FILTER_SERVER: &str = "filter servers run code of clients";
const ROCKSDB: &str = "consume queues are files here";
const TIMERS: &str = "there is one engine of timers: they follow from the log";
const CONTROLLER_MODE: &str = "controller mode does not exist; a DLedger group elects its master";
const CONTAINER: &str = "there is no broker container; start one process for each broker";
const ACCESS: &str = "access control does not exist yet";
const LITE: &str = "lite topics do not exist yet";
const STATIC_TOPICS: &str = "static topics do not exist yet";

/// Every request code that Java knows, in ascending order.
pub(crate) static ROUTES: &[Route] = &[
    served(request::SEND_MESSAGE, Lane::Inline, Serves::Master, handlers::send::send),
    served(request::PULL_MESSAGE, Lane::Inline, Serves::Reader, handlers::pull::pull),
    served(request::QUERY_MESSAGE, Lane::Query, Serves::Master, handlers::query::by_key),
    for_now(request::QUERY_BROKER_OFFSET, UNUSED),
    served(request::QUERY_CONSUMER_OFFSET, Lane::Query, Serves::Master, handlers::offsets::query),
    served(
        request::UPDATE_CONSUMER_OFFSET,
        Lane::Inline,
        Serves::Master,
        handlers::offsets::commit,
    ),
    served(request::UPDATE_AND_CREATE_TOPIC, Lane::Admin, Serves::Master, handlers::topics::update),
    served(
        request::UPDATE_AND_CREATE_TOPIC_LIST,
        Lane::Admin,
        Serves::Master,
        handlers::topics::update_list,
    ),
    served(request::GET_ALL_TOPIC_CONFIG, Lane::Admin, Serves::AnyRole, handlers::topics::all),
    for_now(request::GET_TOPIC_CONFIG_LIST, UNUSED),
    for_now(request::GET_TOPIC_NAME_LIST, UNUSED),
    served(request::UPDATE_BROKER_CONFIG, Lane::Admin, Serves::AnyRole, handlers::config::update),
    served(request::GET_BROKER_CONFIG, Lane::Admin, Serves::AnyRole, handlers::config::get),
    for_now(request::TRIGGER_DELETE_FILES, UNUSED),
    served(request::GET_BROKER_RUNTIME_INFO, Lane::Admin, Serves::AnyRole, handlers::runtime::info),
    served(
        request::SEARCH_OFFSET_BY_TIMESTAMP,
        Lane::Query,
        Serves::Master,
        handlers::offsets::search,
    ),
    served(request::GET_MAX_OFFSET, Lane::Inline, Serves::Master, handlers::offsets::max),
    served(request::GET_MIN_OFFSET, Lane::Inline, Serves::Master, handlers::offsets::min),
    served(
        request::GET_EARLIEST_MSG_STORETIME,
        Lane::Query,
        Serves::Master,
        handlers::offsets::earliest,
    ),
    served(request::VIEW_MESSAGE_BY_ID, Lane::Query, Serves::AnyRole, handlers::query::by_position),
    served(request::HEART_BEAT, Lane::Inline, Serves::AnyRole, handlers::clients::heartbeat),
    served(
        request::UNREGISTER_CLIENT,
        Lane::Inline,
        Serves::AnyRole,
        handlers::clients::unregister,
    ),
    served(
        request::CONSUMER_SEND_MSG_BACK,
        Lane::Query,
        Serves::Master,
        handlers::send_back::send_back,
    ),
    served(request::END_TRANSACTION, Lane::Query, Serves::Master, handlers::transaction::end),
    served(
        request::GET_CONSUMER_LIST_BY_GROUP,
        Lane::Inline,
        Serves::AnyRole,
        handlers::clients::list,
    ),
    elsewhere(request::CHECK_TRANSACTION_STATE, CLIENT),
    elsewhere(request::NOTIFY_CONSUMER_IDS_CHANGED, CLIENT),
    served(request::LOCK_BATCH_MQ, Lane::Inline, Serves::Master, handlers::locks::lock),
    served(request::UNLOCK_BATCH_MQ, Lane::Inline, Serves::Master, handlers::locks::unlock),
    served(request::GET_ALL_CONSUMER_OFFSET, Lane::Admin, Serves::Master, handlers::offsets::all),
    served(
        request::GET_ALL_DELAY_OFFSET,
        Lane::Admin,
        Serves::Master,
        handlers::admin::delay_offsets,
    ),
    served(
        request::CHECK_CLIENT_CONFIG,
        Lane::Inline,
        Serves::AnyRole,
        handlers::pull::check_client_config,
    ),
    for_now(request::GET_CLIENT_CONFIG, UNUSED),
    served(
        request::GET_TIMER_CHECK_POINT,
        Lane::Admin,
        Serves::AnyRole,
        handlers::admin::timer_check_point,
    ),
    served(
        request::GET_TIMER_METRICS,
        Lane::Admin,
        Serves::AnyRole,
        handlers::admin::timer_metrics,
    ),
    elsewhere(request::PUT_KV_CONFIG, NAME_SERVER),
    elsewhere(request::GET_KV_CONFIG, NAME_SERVER),
    elsewhere(request::DELETE_KV_CONFIG, NAME_SERVER),
    elsewhere(request::REGISTER_BROKER, NAME_SERVER),
    elsewhere(request::UNREGISTER_BROKER, NAME_SERVER),
    elsewhere(request::GET_ROUTEINFO_BY_TOPIC, NAME_SERVER),
    elsewhere(request::GET_BROKER_CLUSTER_INFO, NAME_SERVER),
    served(
        request::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
        Lane::Admin,
        Serves::Master,
        handlers::groups::update,
    ),
    served(
        request::GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
        Lane::Admin,
        Serves::AnyRole,
        handlers::groups::all,
    ),
    served(request::GET_TOPIC_STATS_INFO, Lane::Admin, Serves::AnyRole, handlers::topics::stats),
    served(
        request::GET_CONSUMER_CONNECTION_LIST,
        Lane::Admin,
        Serves::AnyRole,
        handlers::connections::of_consumers,
    ),
    served(
        request::GET_PRODUCER_CONNECTION_LIST,
        Lane::Admin,
        Serves::AnyRole,
        handlers::connections::of_producers,
    ),
    elsewhere(request::WIPE_WRITE_PERM_OF_BROKER, NAME_SERVER),
    elsewhere(request::GET_ALL_TOPIC_LIST_FROM_NAMESERVER, NAME_SERVER),
    served(
        request::DELETE_SUBSCRIPTIONGROUP,
        Lane::Admin,
        Serves::Master,
        handlers::groups::delete,
    ),
    served(request::GET_CONSUME_STATS, Lane::Admin, Serves::Master, handlers::stats::of_group),
    for_now(request::SUSPEND_CONSUMER, UNUSED),
    for_now(request::RESUME_CONSUMER, UNUSED),
    for_now(request::RESET_CONSUMER_OFFSET_IN_CONSUMER, UNUSED),
    for_now(request::RESET_CONSUMER_OFFSET_IN_BROKER, UNUSED),
    for_now(request::ADJUST_CONSUMER_THREAD_POOL, UNUSED),
    for_now(request::WHO_CONSUME_THE_MESSAGE, UNUSED),
    served(request::DELETE_TOPIC_IN_BROKER, Lane::Admin, Serves::Master, handlers::topics::delete),
    elsewhere(request::DELETE_TOPIC_IN_NAMESRV, NAME_SERVER),
    elsewhere(request::REGISTER_TOPIC_IN_NAMESRV, NAME_SERVER),
    elsewhere(request::GET_KVLIST_BY_NAMESPACE, NAME_SERVER),
    elsewhere(request::RESET_CONSUMER_CLIENT_OFFSET, CLIENT),
    elsewhere(request::GET_CONSUMER_STATUS_FROM_CLIENT, CLIENT),
    served(
        request::INVOKE_BROKER_TO_RESET_OFFSET,
        Lane::Admin,
        Serves::Master,
        handlers::reset::reset,
    ),
    served(
        request::INVOKE_BROKER_TO_GET_CONSUMER_STATUS,
        Lane::Inline,
        Serves::AnyRole,
        handlers::relay::status,
    ),
    elsewhere(request::GET_TOPICS_BY_CLUSTER, NAME_SERVER),
    served(
        request::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST,
        Lane::Admin,
        Serves::Master,
        handlers::groups::update_list,
    ),
    served(
        request::QUERY_TOPIC_CONSUME_BY_WHO,
        Lane::Admin,
        Serves::AnyRole,
        handlers::stats::groups_of_topic,
    ),
    for_good(request::REGISTER_FILTER_SERVER, FILTER_SERVER),
    for_good(request::REGISTER_MESSAGE_FILTER_CLASS, FILTER_SERVER),
    served(
        request::QUERY_CONSUME_TIME_SPAN,
        Lane::Admin,
        Serves::Master,
        handlers::stats::time_span,
    ),
    elsewhere(request::GET_SYSTEM_TOPIC_LIST_FROM_NS, NAME_SERVER),
    served(
        request::GET_SYSTEM_TOPIC_LIST_FROM_BROKER,
        Lane::Admin,
        Serves::AnyRole,
        handlers::topics::system,
    ),
    served(
        request::CLEAN_EXPIRED_CONSUMEQUEUE,
        Lane::Admin,
        Serves::AnyRole,
        handlers::admin::clean_expired_queues,
    ),
    served(
        request::GET_CONSUMER_RUNNING_INFO,
        Lane::Inline,
        Serves::AnyRole,
        handlers::relay::running_info,
    ),
    served(
        request::QUERY_CORRECTION_OFFSET,
        Lane::Admin,
        Serves::Master,
        handlers::offsets::correction,
    ),
    served(
        request::CONSUME_MESSAGE_DIRECTLY,
        Lane::Query,
        Serves::AnyRole,
        handlers::relay::consume_directly,
    ),
    served(request::SEND_MESSAGE_V2, Lane::Inline, Serves::Master, handlers::send::send),
    elsewhere(request::GET_UNIT_TOPIC_LIST, NAME_SERVER),
    elsewhere(request::GET_HAS_UNIT_SUB_TOPIC_LIST, NAME_SERVER),
    elsewhere(request::GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST, NAME_SERVER),
    served(request::CLONE_GROUP_OFFSET, Lane::Admin, Serves::Master, handlers::offsets::clone),
    served(request::VIEW_BROKER_STATS_DATA, Lane::Inline, Serves::AnyRole, handlers::stats::view),
    served(
        request::CLEAN_UNUSED_TOPIC,
        Lane::Admin,
        Serves::Master,
        handlers::admin::clean_unused_topics,
    ),
    served(
        request::GET_BROKER_CONSUME_STATS,
        Lane::Admin,
        Serves::Master,
        handlers::stats::of_all_groups,
    ),
    elsewhere(request::UPDATE_NAMESRV_CONFIG, NAME_SERVER),
    elsewhere(request::GET_NAMESRV_CONFIG, NAME_SERVER),
    served(request::SEND_BATCH_MESSAGE, Lane::Inline, Serves::Master, handlers::send::send),
    served(request::QUERY_CONSUME_QUEUE, Lane::Query, Serves::AnyRole, handlers::query::units),
    elsewhere(request::QUERY_DATA_VERSION, NAME_SERVER),
    served(
        request::RESUME_CHECK_HALF_MESSAGE,
        Lane::Query,
        Serves::Master,
        handlers::transaction::resume,
    ),
    served(request::SEND_REPLY_MESSAGE, Lane::Inline, Serves::Master, handlers::send::respond),
    served(request::SEND_REPLY_MESSAGE_V2, Lane::Inline, Serves::Master, handlers::send::respond),
    elsewhere(request::PUSH_REPLY_MESSAGE_TO_CLIENT, CLIENT),
    elsewhere(request::ADD_WRITE_PERM_OF_BROKER, NAME_SERVER),
    served(
        request::GET_ALL_PRODUCER_INFO,
        Lane::Admin,
        Serves::AnyRole,
        handlers::connections::all_producers,
    ),
    served(
        request::DELETE_EXPIRED_COMMITLOG,
        Lane::Inline,
        Serves::AnyRole,
        handlers::admin::delete_expired,
    ),
    served(
        request::QUERY_TOPICS_BY_CONSUMER,
        Lane::Admin,
        Serves::AnyRole,
        handlers::stats::topics_of_group,
    ),
    served(
        request::QUERY_SUBSCRIPTION_BY_CONSUMER,
        Lane::Admin,
        Serves::AnyRole,
        handlers::connections::subscription,
    ),
    served(request::GET_TOPIC_CONFIG, Lane::Admin, Serves::AnyRole, handlers::topics::one),
    served(
        request::GET_SUBSCRIPTIONGROUP_CONFIG,
        Lane::Admin,
        Serves::Master,
        handlers::groups::one,
    ),
    served(
        request::UPDATE_AND_GET_GROUP_FORBIDDEN,
        Lane::Admin,
        Serves::Master,
        handlers::groups::forbidden,
    ),
    for_good(request::CHECK_ROCKSDB_CQ_WRITE_PROGRESS, ROCKSDB),
    for_good(request::EXPORT_ROCKSDB_CONFIG_TO_JSON, ROCKSDB),
    served(request::LITE_PULL_MESSAGE, Lane::Inline, Serves::Reader, handlers::pull::pull),
    served(request::RECALL_MESSAGE, Lane::Inline, Serves::Master, handlers::recall::recall),
    served(request::QUERY_ASSIGNMENT, Lane::Inline, Serves::AnyRole, handlers::assignment::query),
    served(
        request::SET_MESSAGE_REQUEST_MODE,
        Lane::Admin,
        Serves::Master,
        handlers::assignment::set_mode,
    ),
    served(
        request::GET_ALL_MESSAGE_REQUEST_MODE,
        Lane::Admin,
        Serves::AnyRole,
        handlers::assignment::modes,
    ),
    for_now(request::UPDATE_AND_CREATE_STATIC_TOPIC, STATIC_TOPICS),
    elsewhere(request::GET_BROKER_MEMBER_GROUP, NAME_SERVER),
    for_now(request::ADD_BROKER, CONTAINER),
    for_now(request::REMOVE_BROKER, CONTAINER),
    elsewhere(request::BROKER_HEARTBEAT, NAME_SERVER),
    served(
        request::NOTIFY_MIN_BROKER_ID_CHANGE,
        Lane::Admin,
        Serves::AnyRole,
        handlers::replicas::least_id,
    ),
    served(
        request::EXCHANGE_BROKER_HA_INFO,
        Lane::Admin,
        Serves::AnyRole,
        handlers::replicas::exchange,
    ),
    served(
        request::GET_BROKER_HA_STATUS,
        Lane::Admin,
        Serves::AnyRole,
        handlers::runtime::ha_status,
    ),
    served(
        request::RESET_MASTER_FLUSH_OFFSET,
        Lane::Admin,
        Serves::AnyRole,
        handlers::replicas::reset_flush_offset,
    ),
    elsewhere(request::CONTROLLER_ALTER_SYNC_STATE_SET, CONTROLLER),
    elsewhere(request::CONTROLLER_ELECT_MASTER, CONTROLLER),
    elsewhere(request::CONTROLLER_REGISTER_BROKER, CONTROLLER),
    elsewhere(request::CONTROLLER_GET_REPLICA_INFO, CONTROLLER),
    elsewhere(request::CONTROLLER_GET_METADATA_INFO, CONTROLLER),
    elsewhere(request::CONTROLLER_GET_SYNC_STATE_DATA, CONTROLLER),
    for_now(request::GET_BROKER_EPOCH_CACHE, CONTROLLER_MODE),
    for_now(request::NOTIFY_BROKER_ROLE_CHANGED, CONTROLLER_MODE),
    elsewhere(request::UPDATE_CONTROLLER_CONFIG, CONTROLLER),
    elsewhere(request::GET_CONTROLLER_CONFIG, CONTROLLER),
    elsewhere(request::CLEAN_BROKER_DATA, CONTROLLER),
    elsewhere(request::CONTROLLER_GET_NEXT_BROKER_ID, CONTROLLER),
    elsewhere(request::CONTROLLER_APPLY_BROKER_ID, CONTROLLER),
    elsewhere(request::BROKER_CLOSE_CHANNEL_REQUEST, CONTROLLER),
    elsewhere(request::CHECK_NOT_ACTIVE_BROKER_REQUEST, CONTROLLER),
    elsewhere(request::GET_BROKER_LIVE_INFO_REQUEST, CONTROLLER),
    elsewhere(request::GET_SYNC_STATE_DATA_REQUEST, CONTROLLER),
    elsewhere(request::RAFT_BROKER_HEART_BEAT_EVENT_REQUEST, CONTROLLER),
    served(
        request::UPDATE_COLD_DATA_FLOW_CTR_CONFIG,
        Lane::Admin,
        Serves::AnyRole,
        cold_data::update,
    ),
    served(
        request::REMOVE_COLD_DATA_FLOW_CTR_CONFIG,
        Lane::Admin,
        Serves::AnyRole,
        cold_data::remove,
    ),
    served(request::GET_COLD_DATA_FLOW_CTR_INFO, Lane::Admin, Serves::AnyRole, cold_data::info),
    served(request::SET_COMMITLOG_READ_MODE, Lane::Admin, Serves::AnyRole, cold_data::read_ahead),
    for_now(request::AUTH_CREATE_USER, ACCESS),
    for_now(request::AUTH_UPDATE_USER, ACCESS),
    for_now(request::AUTH_DELETE_USER, ACCESS),
    for_now(request::AUTH_GET_USER, ACCESS),
    for_now(request::AUTH_LIST_USER, ACCESS),
    for_now(request::AUTH_CREATE_ACL, ACCESS),
    for_now(request::AUTH_UPDATE_ACL, ACCESS),
    for_now(request::AUTH_DELETE_ACL, ACCESS),
    for_now(request::AUTH_GET_ACL, ACCESS),
    for_now(request::AUTH_LIST_ACL, ACCESS),
    for_now(request::SWITCH_TIMER_ENGINE, TIMERS),
    served(request::POP_MESSAGE, Lane::Inline, Serves::Master, handlers::pop::pop),
    served(request::ACK_MESSAGE, Lane::Inline, Serves::Master, handlers::pop::ack),
    served(request::PEEK_MESSAGE, Lane::Pull, Serves::Master, handlers::pop::peek),
    served(
        request::CHANGE_MESSAGE_INVISIBLETIME,
        Lane::Inline,
        Serves::Master,
        handlers::pop::change,
    ),
    served(request::NOTIFICATION, Lane::Inline, Serves::Master, handlers::pop::notify),
    served(request::POLLING_INFO, Lane::Inline, Serves::Master, handlers::pop::polling_info),
    served(request::POP_ROLLBACK, Lane::Admin, Serves::AnyRole, handlers::pop::rollback),
    for_now(request::POP_LITE_MESSAGE, LITE),
    for_now(request::LITE_SUBSCRIPTION_CTL, LITE),
    for_now(request::ACK_LITE_MESSAGE, LITE),
    for_now(request::NOTIFY_UNSUBSCRIBE_LITE, LITE),
    for_now(request::GET_BROKER_LITE_INFO, LITE),
    for_now(request::GET_PARENT_TOPIC_INFO, LITE),
    for_now(request::GET_LITE_TOPIC_INFO, LITE),
    for_now(request::GET_LITE_CLIENT_INFO, LITE),
    for_now(request::GET_LITE_GROUP_INFO, LITE),
    for_now(request::TRIGGER_LITE_DISPATCH, LITE),
    served(request::BATCH_ACK_MESSAGE, Lane::Inline, Serves::Master, handlers::pop::acks),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_that_java_knows_is_served_or_declined() {
        let ours: Vec<i32> = ROUTES.iter().map(|route| route.code).collect();
        let java: Vec<i32> = request::ALL.iter().map(|(code, _)| *code).collect();
        assert_eq!(ours, java, "in the same, ascending order");
    }

    #[test]
    fn only_four_codes_are_declined_for_good() {
        let for_good: Vec<i32> = ROUTES
            .iter()
            .filter(|route| matches!(route.does, Does::Decline { for_good: true, .. }))
            .map(|route| route.code)
            .collect();
        assert_eq!(for_good, [301, 302, 354, 355]);
    }

    /// Every code that is served has its decision here, made by hand: a new one has to be thought
    /// about before this test is green again.
    #[test]
    fn what_a_follower_does_with_each_code() {
        let of = |wanted: Serves| -> Vec<i32> {
            let code = |route: &Route| match route.does {
                Does::Serve { serves, .. } if serves == wanted => Some(route.code),
                _ => None,
            };
            ROUTES.iter().filter_map(code).collect()
        };
        let passed_on = [
            10, 12, 14, 15, 17, 18, 29, 30, 31, 32, 36, 37, 41, 42, 43, 45, 200, 207, 208, 215,
            222, 225, 303, 308, 310, 314, 316, 317, 320, 323, 324, 325, 352, 353, 370, 401,
            200_050, 200_051, 200_052, 200_053, 200_054, 200_055, 200_151,
        ];
        assert_eq!(of(Serves::Master), passed_on);
        assert_eq!(of(Serves::Reader), [11, 361], "served with slaveReadEnable, else refused");
        let own = [
            21, 25, 26, 28, 33, 34, 35, 38, 46, 60, 61, 201, 202, 203, 204, 223, 300, 305, 306,
            307, 309, 315, 321, 328, 329, 343, 345, 351, 400, 402, 905, 906, 907, 908, 2001, 2002,
            2003, 2004, 200_056,
        ];
        assert_eq!(of(Serves::AnyRole), own, "by its own tables and connections");
    }

    #[test]
    fn a_line_is_found_by_its_code() {
        for (at, route) in ROUTES.iter().enumerate() {
            assert_eq!(find(route.code).map(|(found, _)| found), Some(at));
        }
        assert!(find(4711).is_none());
    }
}
