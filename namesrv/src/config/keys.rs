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

const MILLIS: &str = "milliseconds, 100 to 600000";

fn boolean(value: &str) -> Result<bool, Cause> {
    match value {
        _ if value.eq_ignore_ascii_case("true") => Ok(true),
        _ if value.eq_ignore_ascii_case("false") => Ok(false),
        _ => Err(Cause::Allowed("true or false")),
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
