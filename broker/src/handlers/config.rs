//! Configuration over the wire: codes 25 and 26.

use std::{net::IpAddr, sync::Arc};

use protocol::{body::DataVersion, code::response, header::GetBrokerConfigResponse};

use crate::{
    broker::Broker,
    call::{Call, Rejection, Reply},
    config::{ConfigError, Printed},
};

/// 25: changes hot keys, all that are named or none. Nothing is ever executed or written to a path
/// that a request names.
pub(crate) fn update(broker: &Arc<Broker>, call: &mut Call) -> Result<Reply, Rejection> {
    let (peer, own) = (call.connection.remote_addr().ip(), call.connection.local_addr().ip());
    if !is_own_host(peer, own) && !broker.config().update_config_from_anywhere {
        return Err(Rejection::new(
            response::NO_PERMISSION,
            "configuration is changed from the broker's own host only: connect to 127.0.0.1, or set updateConfigFromAnywhere=true in its configuration file",
        ));
    }
    let text = std::str::from_utf8(&call.command.body).map_err(|error| {
        Rejection::new(response::SYSTEM_ERROR, format!("configuration is not UTF-8: {error}"))
    })?;
    let (before, now) = broker.settings.change(text).map_err(refusal)?;
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
    let id = broker.registration.broker_id();
    text.push_str(&format!("brokerRole={}\nbrokerId={id}\n", role.name()));
    // `mqadmin exportMetrics` shows this key as the number of processors, exportConfigs the other.
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let tls = broker.config().tls_enable;
    text.push_str(&format!("clientCallbackExecutorThreads={processors}\nuseTLS={tls}\n"));
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

/// Whether a connection from `peer` to `own` comes from this host.
fn is_own_host(peer: IpAddr, own: IpAddr) -> bool {
    peer.to_canonical().is_loopback() || peer == own
}

fn refusal(error: ConfigError) -> Rejection {
    match error {
        ConfigError::Fixed(_) | ConfigError::Unknown(_) | ConfigError::Many(_) => Rejection::new(
            response::NO_PERMISSION,
            format!("Can not update config in black list. {error}"),
        ),
        other => Rejection::new(response::SYSTEM_ERROR, other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s_01_only_this_host_may_change_the_configuration_unless_told_otherwise() {
        let address = |text: &str| text.parse::<IpAddr>().expect("an address");
        for (peer, own, is_own) in [
            ("127.0.0.1", "127.0.0.1", true),
            ("::1", "::1", true),
            ("::ffff:127.0.0.1", "::ffff:127.0.0.1", true),
            ("192.0.2.1", "192.0.2.1", true),
            ("192.0.2.7", "192.0.2.1", false),
            ("2001:db8::7", "2001:db8::1", false),
        ] {
            assert_eq!(is_own_host(address(peer), address(own)), is_own, "{peer} to {own}");
        }
    }
}
