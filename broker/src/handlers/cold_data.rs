//! Settings for reads of cold data: codes 2001 to 2004 (`AdminBrokerProcessor.java`).

use std::sync::Arc;

use protocol::{code::response, properties_text};

use crate::{
    broker::Broker,
    call::{Call, Rejection, Reply},
    cold_data::{EFFECT, ReadAhead},
};

/// The field of 2004 (`FIleReadaheadMode.java`).
const MODE: &str = "READ_AHEAD_MODE";

/// 2001: thresholds of groups, as `group=bytes` lines.
pub(crate) fn update(broker: &Arc<Broker>, call: &mut Call) -> Result<Reply, Rejection> {
    let pairs = properties_text::parse(text(call)?)
        .map_err(|error| refused(format!("thresholds cannot be read: {error}")))?;
    broker.cold_data.put(&pairs).map_err(|error| refused(error.to_string()))?;
    let groups = pairs.len();
    tracing::info!(groups, peer = %call.client, effect = EFFECT, "thresholds of cold reads are kept");
    Reply::done(call)
}

/// 2002: the group that shall have none any more.
pub(crate) fn remove(broker: &Arc<Broker>, call: &mut Call) -> Result<Reply, Rejection> {
    let group = text(call)?;
    broker.cold_data.remove(group);
    tracing::info!(peer = %call.client, "a threshold of cold reads is removed");
    Reply::done(call)
}

/// 2003: what is set.
pub(crate) fn info(broker: &Arc<Broker>, call: &mut Call) -> Result<Reply, Rejection> {
    Reply::body(call, broker.cold_data.info())
}

/// 2004: whether the log is to be read ahead. mqadmin prints the remark.
pub(crate) fn read_ahead(broker: &Arc<Broker>, call: &mut Call) -> Result<Reply, Rejection> {
    let wanted = call.command.field(MODE);
    let mode = match wanted.map(str::trim) {
        Some("0") => ReadAhead::Normal,
        Some("1") => ReadAhead::Random,
        Some(other) => {
            let other: String = other.chars().take(32).collect();
            return Err(refused(format!(
                "set commitlog readahead mode param value error: {MODE} is `{other}`; it is 0 to read ahead or 1 not to"
            )));
        }
        None => {
            return Err(refused(format!(
                "set commitlog readahead mode param error: field {MODE} is missing"
            )));
        }
    };
    broker.cold_data.read_ahead(mode);
    let number = i32::from(mode == ReadAhead::Random);
    let remark =
        format!("set commitlog readahead mode success, mode: {number} (kept; effect {EFFECT})");
    Ok(Reply::Now(call.success().with_remark(remark)))
}

fn text(call: &Call) -> Result<&str, Rejection> {
    std::str::from_utf8(&call.command.body)
        .map_err(|error| refused(format!("the body is not UTF-8: {error}")))
}

fn refused(remark: String) -> Rejection {
    Rejection::new(response::SYSTEM_ERROR, remark)
}
