//! F8: configuration texts, their changes over the wire, and bodies of JSON.

use broker::config::{BrokerConfig, Change, KEYS, Printed};
use namesrv::NamesrvOptions;
use protocol::{
    body::{
        ConsumerOffsetSerializeWrapper, DelayOffsetSerializeWrapper, HeartbeatData,
        LockBatchRequestBody, ResetOffsetBody, SubscriptionGroupWrapper,
        TopicConfigSerializeWrapper, TopicRouteData,
    },
    json::{self, Style},
};

/// The bytes are a configuration, a change of one, and a body.
pub(crate) fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if let Ok(loaded) = BrokerConfig::read(&text) {
        let printed = loaded.config.print(Printed::All);
        // A value with a line end would forge a line; none can be set.
        let mut again = BrokerConfig::read(&printed).unwrap();
        // A secret is printed as stars.
        again.config.tls_server_key_password = loaded.config.tls_server_key_password.clone();
        assert_eq!(again.config, loaded.config, "what is printed is read otherwise");
    }
    changed(&text);
    if let Ok((options, _)) = NamesrvOptions::parse(&text) {
        let printed = options.print();
        assert_eq!(NamesrvOptions::parse(&printed).unwrap().0.print(), printed);
    }
    bodies(data);
}

/// What is read of a body is written so that it is read back.
fn bodies(data: &[u8]) {
    if let Ok(value) = json::parse(data) {
        let written = json::to_vec(&value, Style::Bare);
        assert_eq!(json::parse(&written).unwrap(), value, "a value is read back otherwise");
    }
    macro_rules! bodies {
        ($($class:ident)*) => { $(
            if let Ok(body) = $class::decode(data) {
                let written = body.encode();
                assert_eq!($class::decode(&written).unwrap(), body);
            }
        )* };
    }
    bodies! {
        TopicConfigSerializeWrapper SubscriptionGroupWrapper ConsumerOffsetSerializeWrapper
        DelayOffsetSerializeWrapper HeartbeatData LockBatchRequestBody ResetOffsetBody
        TopicRouteData
    }
}

/// A running broker takes hot keys only, whatever else the text names.
fn changed(text: &str) {
    let before = BrokerConfig::default();
    let Ok(loaded) = before.changed(text) else { return };
    for key in KEYS.iter().filter(|key| key.change == Change::Fixed) {
        assert_eq!((key.write)(&loaded.config), (key.write)(&before), "{} was changed", key.name);
    }
}
