//! The client's message ids and its address.

use std::{
    hash::{BuildHasher, Hasher, RandomState},
    net::{IpAddr, Ipv4Addr},
    sync::LazyLock,
    time::{SystemTime, UNIX_EPOCH},
};

use protocol::message::id::UniqueIds;

static IDS: LazyLock<UniqueIds> = LazyLock::new(|| {
    let [_, _, high, low] = std::process::id().to_be_bytes();
    // Java has a hash of its class loader here: it tells processes of one pid (containers) apart.
    let [a, b, c, d, ..] = random().to_be_bytes();
    let salt = u32::from_be_bytes([a, b, c, d]);
    UniqueIds::new(local_address(), u16::from_be_bytes([high, low]), salt)
});

/// A random number, from the seed that the standard library has for its tables.
pub(crate) fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// A new message id.
pub(crate) fn next() -> String {
    IDS.next(now_millis())
}

/// Milliseconds since 1970.
pub(crate) fn now_millis() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// The address by which this machine reaches others, or loopback. Nothing is sent.
pub(crate) fn local_address() -> IpAddr {
    let found = std::net::UdpSocket::bind(("0.0.0.0", 0)).and_then(|socket| {
        // An address of the documentation range: only the routing table is asked.
        socket.connect(("192.0.2.1", 9))?;
        socket.local_addr()
    });
    match found {
        Ok(address) if !address.ip().is_unspecified() => address.ip(),
        _ => IpAddr::V4(Ipv4Addr::LOCALHOST),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn ids_differ() {
        let ids: HashSet<String> = (0..10_000).map(|_| next()).collect();
        assert_eq!(ids.len(), 10_000);
    }
}
