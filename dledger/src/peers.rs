//! The members of a group as broker.conf spells them.

use std::collections::BTreeMap;

/// One member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// Its id.
    pub id: String,
    /// Where it listens for the others, `host:port`.
    pub address: String,
}

impl Peer {
    /// The port that it listens on.
    #[must_use]
    pub fn port(&self) -> u16 {
        // Checked when the list was read.
        self.address.rsplit_once(':').and_then(|(_, port)| port.parse().ok()).unwrap_or(0)
    }
}

/// All members, by id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peers(BTreeMap<String, Peer>);

/// Why a list of members cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PeersError {
    /// A part is not `id-host:port`.
    #[error("dLegerPeers has '{part}': write each member as id-host:port, separated by ';'")]
    Form {
        /// The part.
        part: String,
    },
    /// An id is there twice.
    #[error("dLegerPeers names member {id} twice: give each member an id of its own")]
    Twice {
        /// The id.
        id: String,
    },
    /// RocketMQ makes a broker id of what follows the first character
    /// (`DLedgerRoleChangeHandler`).
    #[error("member id '{id}' is not a character and a number, such as n0")]
    Id {
        /// The id.
        id: String,
    },
}

impl Peers {
    /// Reads `id-host:port;id-host:port`. The id ends at the first '-', the port begins behind the
    /// last ':' (Java: `MemberState.loadPeers`).
    ///
    /// # Errors
    /// See [`PeersError`].
    pub fn parse(text: &str) -> Result<Self, PeersError> {
        let mut peers = BTreeMap::new();
        for part in text.split(';').map(str::trim).filter(|part| !part.is_empty()) {
            let form = || PeersError::Form { part: part.to_owned() };
            let (id, address) = part.split_once('-').ok_or_else(form)?;
            let (host, port) = address.rsplit_once(':').ok_or_else(form)?;
            if host.is_empty() || port.parse::<u16>().is_err() {
                return Err(form());
            }
            check_id(id)?;
            let peer = Peer { id: id.to_owned(), address: address.to_owned() };
            if peers.insert(id.to_owned(), peer).is_some() {
                return Err(PeersError::Twice { id: id.to_owned() });
            }
        }
        if peers.is_empty() {
            return Err(PeersError::Form { part: text.to_owned() });
        }
        Ok(Self(peers))
    }

    /// The member with this id.
    #[must_use]
    pub fn get(&self, id: &str) -> Option<&Peer> {
        self.0.get(id)
    }

    /// All members, by id.
    pub fn iter(&self) -> impl Iterator<Item = &Peer> {
        self.0.values()
    }
}

fn check_id(id: &str) -> Result<(), PeersError> {
    let mut characters = id.chars();
    let first = characters.next().is_some();
    if first && characters.as_str().parse::<u32>().is_ok() {
        return Ok(());
    }
    Err(PeersError::Id { id: id.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_read_as_java_reads_them() {
        let peers = Peers::parse(" n0-127.0.0.1:40911; n1-host-b:40911;n2-[::1]:1; ").unwrap();
        let all: Vec<_> =
            peers.iter().map(|peer| (peer.id.as_str(), peer.address.as_str())).collect();
        assert_eq!(all, [("n0", "127.0.0.1:40911"), ("n1", "host-b:40911"), ("n2", "[::1]:1")]);
        assert_eq!(peers.get("n3"), None);
    }

    #[test]
    fn a_wrong_list_is_refused_with_the_part() {
        for (text, expected) in [
            ("", "dLegerPeers has '': write each member as id-host:port, separated by ';'"),
            ("n0", "dLegerPeers has 'n0': write each member as id-host:port, separated by ';'"),
            (
                "n0-h:x",
                "dLegerPeers has 'n0-h:x': write each member as id-host:port, separated by ';'",
            ),
            (
                "n0-h:1;n0-h:2",
                "dLegerPeers names member n0 twice: give each member an id of its own",
            ),
            ("node-h:1", "member id 'node' is not a character and a number, such as n0"),
        ] {
            assert_eq!(Peers::parse(text).unwrap_err().to_string(), expected);
        }
    }
}
