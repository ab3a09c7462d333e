//! What an unset key takes from the host.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};

/// The host's name (`BrokerConfig.localHostName`), or Java's name for a host without one.
pub(super) fn name() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname")
        .ok()
        .map(|name| name.trim().to_owned())
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "DEFAULT_BROKER".to_owned())
}

/// The address from which this host reaches others; loopback where it reaches none.
///
/// Java walks the interfaces (`NetworkUtil.getLocalAddress`); the route gives the same answer on a
/// host with one, and the useful one on a host with several. Nothing is sent.
pub(super) fn address() -> String {
    let elsewhere = SocketAddr::from((Ipv4Addr::new(192, 0, 2, 1), 9));
    let source = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))
        .and_then(|socket| socket.connect(elsewhere).and_then(|()| socket.local_addr()));
    match source.map(|address| address.ip()) {
        Ok(ip) if !ip.is_unspecified() => ip.to_string(),
        _ => IpAddr::from(Ipv4Addr::LOCALHOST).to_string(),
    }
}

/// The default folder of all data (`MessageStoreConfig.storePathRootDir`).
pub(super) fn store_root() -> String {
    let home = std::env::var("HOME").unwrap_or_else(|_| ".".to_owned());
    format!("{home}/store")
}
