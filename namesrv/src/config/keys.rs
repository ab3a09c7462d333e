//! The one table of keys.

use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use super::NamesrvOptions;

/// One key.
#[derive(Debug)]
pub(super) struct Key {
    pub(super) name: &'static str,
    /// Whether it may change while the name server runs.
    pub(super) hot: bool,
    pub(super) get: fn(&NamesrvOptions) -> String,
    pub(super) set: fn(&mut NamesrvOptions, &str) -> Result<(), Cause>,
}

/// Why a value is not taken.
#[derive(Debug)]
pub(super) enum Cause {
    /// What may be written.
    Allowed(&'static str),
    /// What to do instead.
    Instead(&'static str),
}

/// A hot key that is true or false.
macro_rules! switch {
    ($name:literal, $field:ident) => {
        Key {
            name: $name,
            hot: true,
            get: |options| options.settings.$field.to_string(),
            set: |options, value| boolean(value).map(|value| options.settings.$field = value),
        }
    };
}

pub(super) static KEYS: &[Key] = &[
    Key {
        name: "listenPort",
        hot: false,
        get: |options| options.listen.port().to_string(),
        set: |options, value| {
            parsed(value, "a port, 0 to 65535").map(|port| options.listen.set_port(port))
        },
    },
    Key {
        name: "bindAddress",
        hot: false,
        get: |options| options.listen.ip().to_string(),
        set: |options, value| {
            parsed::<IpAddr>(value, "an IP address").map(|ip| options.listen.set_ip(ip))
        },
    },
    Key {
        name: "kvConfigPath",
        hot: false,
        get: |options| {
            options.kv_path.as_ref().map(|path| path.display().to_string()).unwrap_or_default()
        },
        set: |options, value| {
            options.kv_path = (!value.is_empty()).then(|| PathBuf::from(value));
            Ok(())
        },
    },
    Key {
        name: "serverChannelMaxIdleTimeSeconds",
        hot: false,
        get: |options| options.idle.as_secs().to_string(),
        set: |options, value| seconds(value).map(|idle| options.idle = idle),
    },
    Key {
        name: "maxConnections",
        hot: false,
        get: |options| options.max_connections.to_string(),
        set: |options, value| count(value).map(|most| options.max_connections = most),
    },
    Key {
        name: "maxConnectionsOfAddress",
        hot: false,
        get: |options| options.max_connections_of_address.to_string(),
        set: |options, value| count(value).map(|most| options.max_connections_of_address = most),
    },
    Key {
        name: "updateConfigFromAnywhere",
        hot: false,
        get: |options| options.update_from_anywhere.to_string(),
        set: |options, value| boolean(value).map(|all| options.update_from_anywhere = all),
    },
    Key {
        name: "tls.config.file",
        hot: false,
        get: |options| options.tls_file.display().to_string(),
        set: |options, value| {
            options.tls_file = PathBuf::from(value);
            Ok(())
        },
    },
    switch!("orderMessageEnable", order_message_enable),
    switch!("returnOrderTopicConfigToBroker", return_order_topic_config),
    switch!("enableAllTopicList", enable_all_topic_list),
    switch!("supportActingMaster", support_acting_master),
    switch!("deleteTopicWithBrokerRegistration", delete_absent_topics),
    switch!("needWaitForService", need_wait_for_service),
    Key {
        name: "waitSecondsForService",
        hot: true,
        get: |options| options.settings.wait_for_service.as_secs().to_string(),
        set: |options, value| seconds(value).map(|time| options.settings.wait_for_service = time),
    },
    Key {
        name: "scanNotActiveBrokerInterval",
        hot: true,
        get: |options| options.settings.scan_interval.as_millis().to_string(),
        set: |options, value| {
            let millis: u64 = parsed(value, MILLIS)?;
            if !(100..=600_000).contains(&millis) {
                return Err(Cause::Allowed(MILLIS));
            }
            options.settings.scan_interval = Duration::from_millis(millis);
            Ok(())
        },
    },
    Key {
        name: "enableControllerInNamesrv",
        hot: false,
        get: |_| "false".to_owned(),
        set: |_, value| {
            if boolean(value)? {
                return Err(Cause::Instead(
                    "groups of this broker elect their leader by themselves; run Apache's controller for others",
                ));
            }
            Ok(())
        },
    },
];

/// Keys of Java's name server that mean nothing here, most of them sizes of its thread pools.
pub(super) const NO_EFFECT: &[&str] = &[
    "rocketmqHome",
    "productEnvName",
    "configStorePath",
    "clusterTest",
    "notifyMinBrokerIdChanged",
    "clientRequestThreadPoolNums",
    "defaultThreadPoolNums",
    "clientRequestThreadPoolQueueCapacity",
    "defaultThreadPoolQueueCapacity",
    "unRegisterBrokerQueueCapacity",
    "configBlackList",
    "serverWorkerThreads",
    "serverCallbackExecutorThreads",
    "serverSelectorThreads",
    "serverOnewaySemaphoreValue",
    "serverAsyncSemaphoreValue",
    "serverSocketSndBufSize",
    "serverSocketRcvBufSize",
    "serverSocketBacklog",
    "writeBufferHighWaterMark",
    "writeBufferLowWaterMark",
    "serverNettyWorkerGroupEnable",
    "serverPooledByteBufAllocatorEnable",
    "enableShutdownGracefully",
    "shutdownWaitTimeSeconds",
    "useEpollNativeSelector",
];

/// Those of them that name what Java's name server runs, writes or lets through
/// (CVE-2023-37582): no request changes them, with effect or without.
pub(super) const NEVER_CHANGED: &[&str] =
    &["rocketmqHome", "productEnvName", "configStorePath", "configBlackList"];

const MILLIS: &str = "milliseconds, 100 to 600000";

fn boolean(value: &str) -> Result<bool, Cause> {
    match value {
        _ if value.eq_ignore_ascii_case("true") => Ok(true),
        _ if value.eq_ignore_ascii_case("false") => Ok(false),
        _ => Err(Cause::Allowed("true or false")),
    }
}

fn count(value: &str) -> Result<usize, Cause> {
    let allowed = "connections, 1 to 1000000";
    match parsed(value, allowed)? {
        count @ 1..=1_000_000 => Ok(count),
        _ => Err(Cause::Allowed(allowed)),
    }
}

fn seconds(value: &str) -> Result<Duration, Cause> {
    let allowed = "seconds, 1 to 86400";
    match parsed(value, allowed)? {
        count @ 1..=86_400 => Ok(Duration::from_secs(count)),
        _ => Err(Cause::Allowed(allowed)),
    }
}

fn parsed<T: FromStr>(value: &str, allowed: &'static str) -> Result<T, Cause> {
    value.parse().map_err(|_not_parsed| Cause::Allowed(allowed))
}
