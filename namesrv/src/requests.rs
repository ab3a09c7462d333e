//! The requests that a name server serves: one table, and what their answers have in common.

mod brokers;
mod routes;
mod settings;
mod values;

use protocol::Command;
use protocol::body::BodyError;
use protocol::code::{request as codes, response};
use protocol::header::HeaderError;

use crate::core::{Call, Core};
use crate::route_table::Full;

/// Serves one request.
pub(crate) type Serve = fn(&Core, &Call<'_>) -> Answer;
pub(crate) type Answer = Result<Command, Rejection>;

/// A request that is answered with an error.
#[derive(Debug)]
pub(crate) struct Rejection {
    pub(crate) code: i32,
    pub(crate) remark: String,
}

impl Rejection {
    fn new(code: i32, remark: impl Into<String>) -> Self {
        Self { code, remark: remark.into() }
    }

    /// `SYSTEM_ERROR`, Java's answer to whatever it has no code for.
    fn error(remark: impl Into<String>) -> Self {
        Self::new(response::SYSTEM_ERROR, remark)
    }
}

impl From<HeaderError> for Rejection {
    fn from(error: HeaderError) -> Self {
        Self::error(error.to_string())
    }
}

impl From<BodyError> for Rejection {
    fn from(error: BodyError) -> Self {
        Self::error(error.to_string())
    }
}

impl From<Full> for Rejection {
    fn from(full: Full) -> Self {
        tracing::warn!(%full, "a registration is refused");
        Self::error(full.to_string())
    }
}

/// Every code that is served (`DefaultRequestProcessor.java`, `ClientRequestProcessor.java`).
static ROUTES: &[(i32, Serve)] = &[
    (codes::PUT_KV_CONFIG, values::put),
    (codes::GET_KV_CONFIG, values::get),
    (codes::DELETE_KV_CONFIG, values::delete),
    (codes::REGISTER_BROKER, brokers::register),
    (codes::UNREGISTER_BROKER, brokers::unregister),
    (codes::GET_ROUTEINFO_BY_TOPIC, routes::route),
    (codes::GET_BROKER_CLUSTER_INFO, brokers::cluster_info),
    (codes::WIPE_WRITE_PERM_OF_BROKER, brokers::wipe_write),
    (codes::GET_ALL_TOPIC_LIST_FROM_NAMESERVER, routes::all_topics),
    (codes::DELETE_TOPIC_IN_NAMESRV, routes::delete_topic),
    (codes::REGISTER_TOPIC_IN_NAMESRV, routes::register_topic),
    (codes::GET_KVLIST_BY_NAMESPACE, values::list),
    (codes::GET_TOPICS_BY_CLUSTER, routes::topics_of_cluster),
    (codes::GET_SYSTEM_TOPIC_LIST_FROM_NS, routes::system_topics),
    (codes::GET_UNIT_TOPIC_LIST, routes::unit_topics),
    (codes::GET_HAS_UNIT_SUB_TOPIC_LIST, routes::unit_sub_topics),
    (codes::GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST, routes::unit_sub_ununit_topics),
    (codes::UPDATE_NAMESRV_CONFIG, settings::update),
    (codes::GET_NAMESRV_CONFIG, settings::get),
    (codes::QUERY_DATA_VERSION, brokers::query_version),
    (codes::ADD_WRITE_PERM_OF_BROKER, brokers::add_write),
    (codes::GET_BROKER_MEMBER_GROUP, brokers::members),
    (codes::BROKER_HEARTBEAT, brokers::heartbeat),
];

pub(crate) fn route(code: i32) -> Option<Serve> {
    ROUTES.iter().find(|route| route.0 == code).map(|route| route.1)
}

/// Whether serving it writes to disk, so that it must not run in the task of a connection.
pub(crate) fn blocks(code: i32) -> bool {
    matches!(code, codes::PUT_KV_CONFIG | codes::DELETE_KV_CONFIG)
}

/// Whether others depend on what it changes, so that the log tells who did it. Registrations are
/// told where they change something.
pub(crate) fn is_audited(code: i32) -> bool {
    matches!(
        code,
        codes::PUT_KV_CONFIG
            | codes::DELETE_KV_CONFIG
            | codes::WIPE_WRITE_PERM_OF_BROKER
            | codes::ADD_WRITE_PERM_OF_BROKER
            | codes::DELETE_TOPIC_IN_NAMESRV
            | codes::REGISTER_TOPIC_IN_NAMESRV
            | codes::UPDATE_NAMESRV_CONFIG
    )
}

/// What such a request is about, for the log: bounded, on one line, without values.
pub(crate) fn subject(request: &Command) -> String {
    let fields = ["namespace", "key", "topic", "brokerName"];
    let fields = fields.iter().filter_map(|name| Some((name, request.field(name)?)));
    let told = |text: &str| -> String {
        text.chars().map(|c| if c.is_control() { '?' } else { c }).take(128).collect()
    };
    fields.map(|(name, value)| format!("{name}={} ", told(value))).collect()
}

/// Java's answer to a code that it does not serve; the leading blank is its own.
pub(crate) fn unsupported(request: &Command) -> Command {
    request
        .response(response::REQUEST_CODE_NOT_SUPPORTED)
        .with_remark(format!(" request type {} not supported", request.code))
}

fn success(call: &Call<'_>) -> Command {
    call.request.response(response::SUCCESS)
}

#[cfg(test)]
mod tests;
