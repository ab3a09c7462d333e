//! Members of the group.

use std::{collections::BTreeSet, net::IpAddr};

use broker::config::BrokerConfig;
use dledger::Peers;

use super::finding::Finding;

/// Checks `dLegerPeers` and `dLegerSelfId`; gives the number of members.
pub(super) fn check(config: &BrokerConfig, findings: &mut Vec<Finding>) -> usize {
    let key = "dLegerPeers";
    if config.dleger_peers.trim().is_empty() {
        return 1;
    }
    let peers = match Peers::parse(&config.dleger_peers) {
        Ok(peers) => peers,
        Err(error) => {
            findings.push(Finding::error("bad-peers", key, error.to_string()));
            return 1;
        }
    };
    let members = peers.iter().count();
    let own = &config.dleger_self_id;
    if peers.get(own).is_none() {
        let text = format!("dLegerSelfId={own} is not among the members: add it or name another");
        findings.push(Finding::error("bad-peers", key, text));
    }
    let addresses: BTreeSet<&str> = peers.iter().map(|peer| peer.address.as_str()).collect();
    if addresses.len() < members {
        let text = "two members have the same address: each needs a port of its own";
        findings.push(Finding::error("bad-peers", key, text));
    }
    if members > 1 && members.is_multiple_of(2) {
        let text = format!(
            "{members} members survive the loss of {} only, as {} would: take an odd number",
            members / 2 - 1,
            members - 1
        );
        findings.push(Finding::warning("even-group", key, text));
    }
    if members > 1 && !config.enable_dleger_commit_log {
        let text = format!("has {members} members, and enableDLegerCommitLog is not true: set it");
        findings.push(Finding::warning("group-not-enabled", key, text));
    }
    members
}

/// Members that find each other on this host only, while clients come from others.
pub(super) fn loopback(config: &BrokerConfig, findings: &mut Vec<Finding>) {
    let loops = |host: &str| {
        let ip = host.trim_matches(['[', ']']).parse::<IpAddr>();
        host.eq_ignore_ascii_case("localhost") || ip.is_ok_and(|ip| ip.is_loopback())
    };
    let told = config.broker_ip1.0.as_str();
    let Ok(peers) = Peers::parse(&config.dleger_peers) else { return };
    if loops(told) {
        return;
    }
    if let Some(peer) = peers.iter().find(|peer| loops(host(&peer.address))) {
        let text = format!(
            "member {} is at {}, where members on other hosts find themselves, but clients are told \
             brokerIP1={told}: write addresses that all members reach, or brokerIP1=127.0.0.1 if all \
             are on this host",
            peer.id, peer.address
        );
        findings.push(Finding::warning("loopback-peers", "dLegerPeers", text));
    }
}

/// The host of `host:port`.
pub(super) fn host(address: &str) -> &str {
    address.rsplit_once(':').map_or(address, |(host, _port)| host)
}

/// The port at which other members reach this node.
pub(super) fn own_port(config: &BrokerConfig) -> Option<u16> {
    let peers = Peers::parse(&config.dleger_peers).ok()?;
    let (_, port) = peers.get(&config.dleger_self_id)?.address.rsplit_once(':')?;
    port.parse().ok()
}
