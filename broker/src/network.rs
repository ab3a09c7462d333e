//! What the listeners of a broker take: TLS, connections, memory.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use remoting::{Budget, Limits, ServerOptions, TlsClient, TlsServer};

use crate::{StartError, config::BrokerConfig};

/// Options of the two listeners, which share one budget of memory.
#[derive(Debug, Clone)]
pub(crate) struct Listeners {
    /// Of `listenPort`.
    pub(crate) main: ServerOptions,
    /// Of the fast port.
    pub(crate) fast: ServerOptions,
}

impl Listeners {
    /// As configured, within what the process may open.
    pub(crate) fn of(config: &BrokerConfig) -> Result<Self, StartError> {
        let tls = config.tls().map_err(refused)?;
        let tls = TlsServer::new(&tls.of_server()).map_err(refused)?;
        let wanted = config.max_connections as usize;
        let files = connection_files();
        // Half to the port that all clients use, a quarter to the other, and the rest to places that
        // are reserved and to a name server in this process.
        let (main, fast) = (wanted.min(files / 2), wanted.min(files / 4));
        if main < wanted {
            tracing::warn!(
                maxConnections = wanted,
                main,
                fast,
                "fewer connections are taken than configured: the process may not open as many files (ulimit -n)"
            );
        }
        let options = ServerOptions {
            limits: Limits {
                idle: Duration::from_secs(config.server_channel_max_idle_time_seconds),
                budget: Some(Budget::new(memory(config))),
                ..Limits::default()
            },
            max_connections: main,
            max_connections_of_address: config.max_connections_of_address as usize,
            reserved_connections: (config.reserved_connections as usize).min(files / 16),
            reserved_for: trusted_hosts(config),
            backlog: config.server_socket_backlog,
            tls,
            ..ServerOptions::default()
        };
        Ok(Self { fast: ServerOptions { max_connections: fast, ..options.clone() }, main: options })
    }
}

/// How the broker speaks to name servers.
pub(crate) fn tls_to_name_servers(
    config: &BrokerConfig,
) -> Result<Option<Arc<TlsClient>>, StartError> {
    let tls = config.tls().map_err(refused)?;
    TlsClient::new(&tls.of_client()).map_err(refused)
}

fn refused(error: impl std::fmt::Display) -> StartError {
    StartError::Config(error.to_string())
}

/// This machine, and the members and name servers that are named by address.
fn trusted_hosts(config: &BrokerConfig) -> Vec<IpAddr> {
    let members = config.dleger_peers.split(';').filter_map(|peer| peer.split_once('-'));
    let members = members.map(|(_, address)| address);
    let servers = config.namesrv_addr.split(';');
    let named = members.chain(servers).filter_map(|address| {
        let (host, _) = address.trim().rsplit_once(':')?;
        host.trim_start_matches('[').trim_end_matches(']').parse().ok()
    });
    let own = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
    own.into_iter().chain(named).collect()
}

/// Files that the log, the queues and the tables need beside connections.
const OWN_FILES: u64 = 128;

/// Files that may be connections: all that the process may open but for its own.
fn connection_files() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let limit = limit.unwrap_or(u64::MAX);
    let own = OWN_FILES.max(limit / 8);
    usize::try_from(limit.saturating_sub(own)).unwrap_or(usize::MAX).max(16)
}

/// Bytes that connections may hold.
fn memory(config: &BrokerConfig) -> usize {
    if config.network_memory_bytes > 0 {
        return usize::try_from(config.network_memory_bytes).unwrap_or(usize::MAX);
    }
    let quarter = machine_memory() / 4;
    usize::try_from(quarter.clamp(LEAST_MEMORY, MOST_MEMORY)).unwrap_or(usize::MAX)
}

/// `configured` bytes, but at most `1 / part` of the memory there is: a broker in a small control
/// group must not be ended by the kernel because its defaults are made for a whole host.
pub(crate) fn within_memory(configured: u64, part: u64) -> u64 {
    configured.min((machine_memory() / part).max(LEAST_PART))
}

/// Room for a message of the largest size, whatever the memory is.
const LEAST_PART: u64 = 16 << 20;

/// Below it a single large frame might not fit.
const LEAST_MEMORY: u64 = 32 << 20;
const MOST_MEMORY: u64 = 8 << 30;

/// Memory of the host, or of the control group where that has less.
fn machine_memory() -> u64 {
    let host = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| total(&text));
    let group = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"]
        .into_iter()
        .map(PathBuf::from)
        .chain(own_group())
        .filter_map(|path| std::fs::read_to_string(path).ok()?.trim().parse::<u64>().ok())
        .min();
    let data = rustix::process::getrlimit(rustix::process::Resource::Data).current;
    [host, group, data].into_iter().flatten().min().unwrap_or(1 << 30)
}

fn total(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find(|line| line.starts_with("MemTotal:"))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kib| kib << 10)
}

/// The files of this process's group, of either version, where it is not the root of the tree.
fn own_group() -> Vec<PathBuf> {
    let text = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    text.lines()
        .filter_map(|line| {
            let mut parts = line.splitn(3, ':');
            let (controllers, path) = (parts.nth(1)?, parts.next()?.trim_start_matches('/'));
            if controllers.is_empty() {
                Some(Path::new("/sys/fs/cgroup").join(path).join("memory.max"))
            } else if controllers.split(',').any(|name| name == "memory") {
                let folder = Path::new("/sys/fs/cgroup/memory").join(path);
                Some(folder.join("memory.limit_in_bytes"))
            } else {
                None
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_and_name_servers_have_reserved_places() {
        let text = "dLegerPeers=n0-192.0.2.1:40911;n1-host:40911\nnamesrvAddr=[2001:db8::1]:9876";
        let config = BrokerConfig::read(text).expect("a sound text").config;
        let hosts = trusted_hosts(&config);
        let named = ["127.0.0.1", "::1", "192.0.2.1", "2001:db8::1"];
        assert_eq!(hosts, named.map(|host| host.parse::<IpAddr>().expect("an address")));
    }

    #[test]
    fn the_budget_follows_the_memory_unless_it_is_set() {
        let config = BrokerConfig::default();
        assert!(memory(&config) as u64 >= LEAST_MEMORY);
        let config = BrokerConfig { network_memory_bytes: 1 << 20, ..config };
        assert_eq!(memory(&config), 1 << 20);
        assert_eq!(total("MemTotal:  1024 kB\nMemFree: 1 kB"), Some(1 << 20));
    }

    #[test]
    fn a_share_of_the_memory_bounds_what_is_configured() {
        assert_eq!(within_memory(4096, 8), 4096);
        assert_eq!(within_memory(u64::MAX, u64::MAX), LEAST_PART);
        assert!(within_memory(u64::MAX, 8) <= machine_memory() / 8);
    }

    #[test]
    fn s_11_a_mode_that_cannot_be_kept_stops_the_start() {
        let refused = |text: &str| {
            let config = BrokerConfig::read(text).expect("a sound text").config;
            Listeners::of(&config).expect_err(text).to_string()
        };
        let text = refused("tls.server.mode=enforcing\ntls.config.file=/no/such");
        assert!(text.contains("tls.server.certPath is not set"), "{text}");
        let text = refused(
            "tls.server.certPath=/no/such\ntls.server.keyPath=/no/such\ntls.config.file=/no/such",
        );
        assert!(text.contains("tls.server.certPath=/no/such"), "{text}");
    }
}
