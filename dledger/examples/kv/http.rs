//! Requests of clients over HTTP, so that `curl` is a client.

use std::sync::Arc;

use axum::{
    Router,
    extract::{DefaultBodyLimit, Path, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use dledger::Peers;
use serde::Deserialize;
use serde_json::json;

use crate::{
    client::fresh_id,
    command::{Change, Command, CommandError, LONGEST_VALUE, Outcome, check_key},
    replica::{Fault, Replica},
};

/// What handlers need.
#[derive(Clone)]
pub(crate) struct Member {
    pub(crate) id: String,
    pub(crate) replica: Arc<Replica>,
    /// Where each member listens for clients.
    pub(crate) addresses: Arc<Peers>,
}

/// Body of a compare-and-set.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Comparison {
    /// Absent or null: the key must not be there.
    expect: Option<String>,
    value: String,
}

/// The table of requests.
pub(crate) fn routes(member: Member) -> Router {
    Router::new()
        .route("/kv/{key}", get(read).put(put).delete(delete).post(compare_and_set))
        .route("/local/{key}", get(read_local))
        .route("/status", get(status))
        // A value in JSON may be six times as long as itself.
        .layer(DefaultBodyLimit::max(12 * LONGEST_VALUE))
        .with_state(member)
}

/// What this member has applied. It may be old.
async fn read_local(State(member): State<Member>, Path(key): Path<String>) -> Response {
    value_of(&key, member.replica.local(&key))
}

fn value_of(key: &str, value: Option<String>) -> Response {
    match value {
        Some(value) => value.into_response(),
        None => (StatusCode::NOT_FOUND, format!("there is no key {key}")).into_response(),
    }
}

async fn read(State(member): State<Member>, Path(key): Path<String>) -> Response {
    if let Err(error) = check_key(&key) {
        return wrong(&error);
    }
    match member.replica.get(&key).await {
        Ok(value) => value_of(&key, value),
        Err(fault) => member.fault(&key, fault),
    }
}

async fn put(
    State(member): State<Member>,
    Path(key): Path<String>,
    headers: HeaderMap,
    value: String,
) -> Response {
    member.change(&headers, &key, Change::Put { value }).await
}

async fn delete(
    State(member): State<Member>,
    Path(key): Path<String>,
    headers: HeaderMap,
) -> Response {
    member.change(&headers, &key, Change::Delete).await
}

async fn compare_and_set(
    State(member): State<Member>,
    Path(key): Path<String>,
    headers: HeaderMap,
    body: String,
) -> Response {
    match serde_json::from_str(&body) {
        Ok(Comparison { expect, value }) => {
            member.change(&headers, &key, Change::CompareAndSet { expect, value }).await
        }
        Err(error) => {
            let text =
                format!(r#"the body is not {{"expect": TEXT or null, "value": TEXT}}: {error}"#);
            (StatusCode::BAD_REQUEST, text).into_response()
        }
    }
}

async fn status(State(member): State<Member>) -> Response {
    let status = member.replica.status();
    let (committed, applied, keys) = member.replica.figures();
    let figures = json!({
        "id": member.id, "role": status.role.to_string(), "term": status.term,
        "leader": status.leader, "serves": status.opened, "whole": status.doubt.is_none(), "failure": status.failure,
        "committed": committed, "applied": applied, "keys": keys,
    });
    ([(header::CONTENT_TYPE, "application/json")], figures.to_string()).into_response()
}

impl Member {
    async fn change(&self, headers: &HeaderMap, key: &str, change: Change) -> Response {
        let id = headers.get("request-id").and_then(|id| id.to_str().ok());
        let id = id.map_or_else(fresh_id, str::to_owned);
        let command = match Command::new(id, key, change) {
            Ok(command) => command,
            Err(error) => return wrong(&error),
        };
        match self.replica.change(&command).await {
            Ok(Outcome::Done) => "done".into_response(),
            Ok(Outcome::Mismatch { found }) => {
                let found = json!({ "found": found }).to_string();
                (StatusCode::PRECONDITION_FAILED, found).into_response()
            }
            Err(fault) => self.fault(key, fault),
        }
    }

    /// 307: the leader is elsewhere. 503: nothing was done. 504: it may have been done.
    fn fault(&self, key: &str, fault: Fault) -> Response {
        let text = fault.to_string();
        match fault {
            Fault::NotLeader { leader } => {
                let leader = leader.filter(|leader| *leader != self.id);
                let address = leader.and_then(|id| Some(self.addresses.get(&id)?.address.clone()));
                let Some(address) = address else {
                    return (StatusCode::SERVICE_UNAVAILABLE, text).into_response();
                };
                let location = format!("http://{address}/kv/{key}");
                let headers = [(header::LOCATION, location)];
                (StatusCode::TEMPORARY_REDIRECT, headers, text).into_response()
            }
            Fault::Busy(_) | Fault::Stopped(_) => {
                (StatusCode::SERVICE_UNAVAILABLE, text).into_response()
            }
            Fault::Unknown(_) => (StatusCode::GATEWAY_TIMEOUT, text).into_response(),
        }
    }
}

fn wrong(error: &CommandError) -> Response {
    (StatusCode::BAD_REQUEST, error.to_string()).into_response()
}
