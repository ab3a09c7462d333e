//! Addresses and ports.

use std::{
    collections::BTreeMap,
    io::ErrorKind,
    net::{IpAddr, Ipv4Addr, TcpListener, ToSocketAddrs},
};

use broker::config::BrokerConfig;

use super::{finding::Finding, peers};

/// Checks where the broker listens and what it tells clients.
pub(super) fn check(
    config: &BrokerConfig,
    has_tls: bool,
    members: usize,
    findings: &mut Vec<Finding>,
) {
    let ip = match config.bind_address.0.as_str() {
        "" => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        text => match text.parse() {
            Ok(ip) => ip,
            Err(_no_ip) => {
                let text = format!("{text} is no IP address: write one, or leave the key out");
                findings.push(Finding::error("bad-value", BIND, text));
                return;
            }
        },
    };
    if !ip.is_loopback() && !has_tls {
        let which = if ip.is_unspecified() { "every address of this host" } else { "this address" };
        let text = format!(
            "the broker listens on {which} ({ip}) without TLS: whoever reaches the port can read, \
             write and administer; bind a private address, or enforce TLS"
        );
        findings.push(Finding::warning("open-listener", BIND, text));
    }
    certificates(config, findings);
    advertised(config, ip, findings);
    name_servers(&config.namesrv_addr, findings);
    ports(config, ip, members, findings);
}

/// Files of TLS that cannot be read.
fn certificates(config: &BrokerConfig, findings: &mut Vec<Finding>) {
    let files = [
        ("tls.server.certPath", &config.tls_server_cert_path),
        ("tls.server.keyPath", &config.tls_server_key_path),
        ("tls.server.trustCertPath", &config.tls_server_trust_cert_path),
    ];
    for (key, path) in files.into_iter().filter(|(_, path)| !path.is_empty()) {
        if let Err(error) = std::fs::File::open(path) {
            findings.push(Finding::error("bad-path", key, format!("{path}: {error}")));
        }
    }
}

/// The address that clients are told.
fn advertised(config: &BrokerConfig, bound: IpAddr, findings: &mut Vec<Finding>) {
    let key = "brokerIP1";
    let text = config.broker_ip1.0.as_str();
    let Ok(told) = text.parse::<IpAddr>() else {
        if (text, config.listen_port).to_socket_addrs().is_err() {
            let text = format!("{text} is no address, and no host has this name here");
            findings.push(Finding::error("bad-value", key, text));
        }
        return;
    };
    if told.is_unspecified() {
        let text = "0.0.0.0 is no address that clients can connect to, and message ids carry it: \
                    write the address of this host";
        findings.push(Finding::error("useless-address", key, text));
    } else if told.is_loopback() && !bound.is_loopback() {
        let text = format!(
            "clients of other hosts are told {told}, where they find themselves: write the address \
             of this host, or bind 127.0.0.1 if it is for this host alone"
        );
        findings.push(Finding::warning("useless-address", key, text));
    } else if bound.is_loopback() && !told.is_loopback() {
        let text = format!("clients are told {told}, but only {bound} is listened on");
        findings.push(Finding::error("useless-address", key, text));
    }
}

fn name_servers(text: &str, findings: &mut Vec<Finding>) {
    let key = "namesrvAddr";
    let servers: Vec<&str> = text.split(';').map(str::trim).filter(|one| !one.is_empty()).collect();
    if servers.is_empty() {
        let text = "no name server: no client finds the broker unless NAMESRV_ADDR or -n gives one";
        findings.push(Finding::note("no-name-server", key, text));
    }
    for server in servers {
        let sound = server.rsplit_once(':').is_some_and(|(host, port)| {
            let blank = |c: char| c.is_whitespace() || matches!(c, ',' | '#' | '/');
            !host.is_empty() && !host.contains(blank) && port.parse::<u16>().is_ok_and(|p| p > 0)
        });
        if !sound {
            let text = format!("`{server}` is not host:port; several are separated by ';'");
            findings.push(Finding::error("bad-value", key, text));
        }
    }
}

/// Ports of this broker, and whether they are free.
fn ports(config: &BrokerConfig, ip: IpAddr, members: usize, findings: &mut Vec<Finding>) {
    let main = config.listen_port;
    if main == 0 {
        let text = "a free port is chosen at each start: message ids do not find it again";
        findings.push(Finding::warning("any-port", PORT, text));
        return;
    }
    if main <= 2 {
        let text = "the fast port is two below: it does not exist";
        findings.push(Finding::error("bad-value", PORT, text));
        return;
    }
    let mut wanted = vec![
        ("clients", PORT, ip, main),
        ("the fast port", PORT, ip, main - 2),
        ("the HTTP page", PORT, IpAddr::V4(Ipv4Addr::LOCALHOST), main.saturating_add(5)),
    ];
    if let Some(port) = peers::own_port(config).filter(|_| members > 1) {
        wanted.push(("members of the group", "dLegerPeers", ip, port));
    }
    let mut seen: BTreeMap<u16, &str> = BTreeMap::new();
    for (what, key, ip, port) in wanted {
        if let Some(other) = seen.insert(port, what) {
            let text = format!("port {port} is for {other} and for {what}: change one of them");
            findings.push(Finding::error("port-twice", key, text));
        } else if let Err(error) = TcpListener::bind((ip, port)) {
            findings.push(not_bound(key, what, (ip, port), &error));
        }
    }
}

fn not_bound(key: &str, what: &str, (ip, port): (IpAddr, u16), error: &std::io::Error) -> Finding {
    match error.kind() {
        ErrorKind::AddrInUse => Finding::warning(
            "port-taken",
            key,
            format!("port {port} ({what}) is in use on {ip} now: by this broker, if it runs"),
        ),
        ErrorKind::AddrNotAvailable => {
            Finding::error("useless-address", BIND, format!("{ip} is no address of this host"))
        }
        _ => Finding::error(
            "port-refused",
            key,
            format!("port {port} ({what}) cannot be listened on at {ip}: {error}"),
        ),
    }
}

const BIND: &str = "bindAddress";
const PORT: &str = "listenPort";
