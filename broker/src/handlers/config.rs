//! Configuration over the wire: codes 25 and 26.

use std::sync::Arc;

use protocol::{body::DataVersion, code::response, header::GetBrokerConfigResponse};

use crate::{
    broker::Broker,
    call::{Call, Rejection, Reply},
    config::{ConfigError, Printed},
};

/// 25: changes hot keys, all that are named or none. Nothing is ever executed or written to a path
/// that a request names.
pub(crate) fn update(broker: &Arc<Broker>, call: &mut Call) -> Result<Reply, Rejection> {
    let text = std::str::from_utf8(&call.command.body).map_err(|error| {
        Rejection::new(response::SYSTEM_ERROR, format!("configuration is not UTF-8: {error}"))
    })?;
    let (before, now) = broker.settings.change(text).map_err(refusal)?;
    tracing::info!(peer = %call.connection.remote_addr(), "configuration was changed");
    if before.broker_permission == now.broker_permission && before.namesrv_addr == now.namesrv_addr
    {
        return Reply::done(call);
    }
    let broker = Arc::clone(broker);
    let answer = call.success();
    call.answer_with(async move {
        broker.register().await;
        Ok(answer)
    })
}

/// 26: every effective key, as a properties text.
pub(crate) fn get(broker: &Arc<Broker>, call: &mut Call) -> Result<Reply, Rejection> {
    let role = broker.role();
    let mut text = broker.config().print(Printed::All);
    // The role is no key here; tools look for it among them.
    text.push_str(&format!(
        "brokerRole={}\nbrokerId={}\n",
        role.name(),
        i32::from(!role.is_master())
    ));
    let version = DataVersion {
        counter: broker.settings.changes(),
        timestamp: broker.started_millis,
        ..DataVersion::default()
    };
    let header = GetBrokerConfigResponse {
        version: String::from_utf8_lossy(&version.encode()).into_owned(),
    };
    Ok(Reply::Now(call.success().with_header(&header).with_body(text.into_bytes())))
}

fn refusal(error: ConfigError) -> Rejection {
    match error {
        ConfigError::Fixed(key) => Rejection::new(
            response::NO_PERMISSION,
            format!("Can not update config in black list. {}", ConfigError::Fixed(key)),
        ),
        other => Rejection::new(response::SYSTEM_ERROR, other.to_string()),
    }
}
