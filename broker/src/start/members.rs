//! The members that `dLegerPeers` names, checked before anything is opened.

use std::collections::BTreeMap;

use dledger::Peers;

use super::StartError;
use crate::{config::BrokerConfig, role::slave_id};

/// Port of a member whose `dLegerPeers` is not set; a group of one does not listen there.
const DLEDGER_PORT: u16 = 40_911;

/// `dLegerPeers`, or this node alone where that is not set.
pub(super) fn listed(config: &BrokerConfig) -> String {
    if config.dleger_peers.trim().is_empty() {
        format!("{}-{}:{DLEDGER_PORT}", config.dleger_self_id, config.broker_ip1.0)
    } else {
        config.dleger_peers.clone()
    }
}

/// The members, this node among them.
///
/// # Errors
/// A key and its value that make no group, with what to write instead.
pub(super) fn check(config: &BrokerConfig) -> Result<Peers, StartError> {
    let refused = |text: String| Err(StartError::Config(text));
    let (own, list) = (&config.dleger_self_id, config.dleger_peers.trim());
    let peers = match Peers::parse(&listed(config)) {
        Ok(peers) => peers,
        Err(error) if list.is_empty() => return refused(format!("dLegerSelfId={own}: {error}")),
        Err(error) => return refused(error.to_string()),
    };
    if peers.get(own).is_none() {
        return refused(format!(
            "dLegerSelfId={own} is not among the members of dLegerPeers={list}: add it there as {own}-host:port, or set the id of one that is"
        ));
    }
    let mut addresses = BTreeMap::new();
    let mut numbers = BTreeMap::new();
    for peer in peers.iter() {
        if let Some(other) = addresses.insert(&peer.address, &peer.id) {
            return refused(format!(
                "dLegerPeers gives members {other} and {} the same address {}: each needs one of its own",
                peer.id, peer.address
            ));
        }
        let number = slave_id(&peer.id);
        if let Some(other) = numbers.insert(number, &peer.id) {
            return refused(format!(
                "dLegerPeers has members {other} and {}, which as slaves would both be broker {number}: give each another number",
                peer.id
            ));
        }
        if peers.iter().count() > 1 && peer.port() == 0 {
            return refused(format!(
                "dLegerPeers has {}-{}: port 0 is no port that others can reach",
                peer.id, peer.address
            ));
        }
    }
    let strangers: Vec<&str> = preferred_ids(config).filter(|id| peers.get(id).is_none()).collect();
    if !strangers.is_empty() {
        return refused(format!(
            "preferredLeaderId={} names {}, which is not among the members of dLegerPeers={list}",
            config.preferred_leader_id,
            strangers.join(", ")
        ));
    }
    let members = peers.iter().count();
    if members > 1 && !config.enable_dleger_commit_log {
        return refused(format!(
            "dLegerPeers={list} names {members} members, and enableDLegerCommitLog is not true: set it, or leave dLegerPeers out for a broker of its own"
        ));
    }
    Ok(peers)
}

/// The ids of `preferredLeaderId`.
pub(super) fn preferred_ids(config: &BrokerConfig) -> impl Iterator<Item = &str> {
    config.preferred_leader_id.split(';').map(str::trim).filter(|id| !id.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Host;

    fn config(own: &str, peers: &str) -> BrokerConfig {
        BrokerConfig {
            enable_dleger_commit_log: true,
            dleger_self_id: own.to_owned(),
            dleger_peers: peers.to_owned(),
            broker_ip1: Host("127.0.0.1".to_owned()),
            ..BrokerConfig::default()
        }
    }

    fn refusal(config: &BrokerConfig) -> String {
        check(config).unwrap_err().to_string()
    }

    /// Case 46 of the known faults.
    #[test]
    fn members_are_named_by_hosts_of_any_kind() {
        for peers in [
            "n0-[2001:db8::5]:30921;n1-[2001:db8::6]:30921;n2-[2001:db8::7]:30921",
            "n0-broker1-0.brokersvc1:20911; n1-broker1-1.brokersvc1:20911 ;n2-h:20911;",
        ] {
            let peers = check(&config("n1", peers)).unwrap();
            assert_eq!(peers.iter().count(), 3);
        }
        let peers = check(&config("n0", "")).unwrap();
        assert_eq!(peers.iter().count(), 1);
    }

    /// Case 46 of the known faults: each refusal names the key, what is wrong with its value and
    /// what to write.
    #[test]
    fn what_makes_no_group_is_refused_with_the_way_out() {
        let three = "n0-h:1;n1-h:2;n2-h:3";
        for (own, peers, expected) in [
            ("n1", "n1:40911", "dLegerPeers has 'n1:40911': write each member as id-host:port"),
            ("n3", three, "dLegerSelfId=n3 is not among the members of dLegerPeers=n0-h:1"),
            ("N0", three, "dLegerSelfId=N0 is not among the members"),
            ("n0", "n0-h:1;n0-h:2", "names member n0 twice"),
            ("n0", "n0-h:1;n1-h:1", "gives members n0 and n1 the same address h:1"),
            ("n0", "n0-h:1;m0-h:2", "which as slaves would both be broker 1"),
            ("n0", "n0-h:1;n1-h:0", "port 0 is no port"),
            ("n0", "n0-h:1;n1-h:70000", "dLegerPeers has 'n1-h:70000'"),
            ("broker-a", "", "dLegerSelfId=broker-a"),
        ] {
            let text = refusal(&config(own, peers));
            assert!(text.contains(expected), "{own} {peers}: {text}");
        }
    }

    #[test]
    fn several_members_need_the_key_that_java_needs() {
        let three = "n0-h:1;n1-h:2;n2-h:3";
        let off = BrokerConfig { enable_dleger_commit_log: false, ..config("n0", three) };
        assert!(refusal(&off).contains("names 3 members, and enableDLegerCommitLog is not true"));
        let off = BrokerConfig { enable_dleger_commit_log: false, ..config("n0", "n0-h:1") };
        assert!(check(&off).is_ok());
        let stranger =
            BrokerConfig { preferred_leader_id: "n1; n7".to_owned(), ..config("n0", three) };
        assert!(refusal(&stranger).contains("preferredLeaderId=n1; n7 names n7,"));
    }
}
