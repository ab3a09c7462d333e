//! What a node of ours says of itself in votes and heartbeats, beside Java's fields.

use dledger_core::{Capability, Policy, Timings};
use serde::{Deserialize, Serialize};

/// Version of what nodes of ours understand of each other: binary pushes of version 1, pre-votes.
pub const VERSION: u32 = 1;

/// The JSON field `ledgermq`. Java passes over it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Own {
    /// Address at which the member serves its own clients, `host:port`, where it does.
    pub client: Option<String>,
    /// Name of the cluster, where one is set.
    pub cluster: Option<String>,
    /// Bytes of a data file (`mappedFileSizeCommitLog`): positions agree only where it does.
    pub file_size: u64,
    /// In an answer to a heartbeat: whether the disk takes appends.
    pub healthy: Option<bool>,
    /// `SYNC_FLUSH` or `ASYNC_FLUSH`.
    pub policy: Option<String>,
    /// In an answer to a vote: the member may lack what it once acknowledged.
    pub provisional: Option<bool>,
    /// In an answer to a heartbeat: whether the disk has room for what clients append.
    pub room: Option<bool>,
    /// Milliseconds: heartbeat, shortest and longest election timeout, wait for votes, shortest and
    /// longest pause between rounds, wait for the answer to a push.
    pub timings: Vec<u64>,
    /// In a vote: the leader asked the candidate to take over.
    pub transfer: Option<bool>,
    /// See [`VERSION`].
    pub version: u32,
}

/// What this node says of itself, and holds others to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Introduction {
    /// Address at which this node serves its own clients, `host:port`, where it does.
    pub client: Option<String>,
    /// Name of the cluster, where one is set; members with different ones do not speak.
    pub cluster: Option<String>,
    /// Bytes of a data file; the same for all members.
    pub file_size: u64,
    /// Policy and timings.
    pub capability: Capability,
}

/// Why a member cannot be in one group with this node.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Mismatch {
    /// Its data files have another size, so that positions differ.
    #[error(
        "data files of {ours} bytes here and {theirs} bytes there: give both the same mappedFileSizeCommitLog"
    )]
    FileSize {
        /// This node's.
        ours: u64,
        /// The member's.
        theirs: u64,
    },
    /// It belongs to another cluster.
    #[error("cluster {ours} here and {theirs} there: correct the address in dLegerPeers")]
    Cluster {
        /// This node's.
        ours: String,
        /// The member's.
        theirs: String,
    },
    /// A field makes no sense.
    #[error("what it says of itself cannot be read: {0}")]
    Unreadable(&'static str),
}

impl Introduction {
    /// As the JSON field.
    #[must_use]
    pub fn to_own(&self) -> Own {
        let Capability { policy, timings } = &self.capability;
        let policy = match policy {
            Policy::Flushed => "SYNC_FLUSH",
            Policy::Written => "ASYNC_FLUSH",
        };
        Own {
            client: self.client.clone(),
            cluster: self.cluster.clone(),
            file_size: self.file_size,
            policy: Some(policy.to_owned()),
            timings: vec![
                timings.heartbeat,
                timings.election_min,
                timings.election_max,
                timings.vote_wait,
                timings.vote_min,
                timings.vote_max,
                timings.push_wait,
            ],
            version: VERSION,
            ..Own::default()
        }
    }

    /// What a member says of itself, if it fits this node.
    ///
    /// # Errors
    /// See [`Mismatch`].
    pub fn accept(&self, own: &Own) -> Result<Capability, Mismatch> {
        if own.file_size != self.file_size {
            return Err(Mismatch::FileSize { ours: self.file_size, theirs: own.file_size });
        }
        if let (Some(ours), Some(theirs)) = (&self.cluster, &own.cluster)
            && ours != theirs
        {
            return Err(Mismatch::Cluster { ours: ours.clone(), theirs: theirs.clone() });
        }
        let policy = match own.policy.as_deref() {
            Some("SYNC_FLUSH") => Policy::Flushed,
            Some("ASYNC_FLUSH") => Policy::Written,
            _ => return Err(Mismatch::Unreadable("policy")),
        };
        let timings = timings(&own.timings).ok_or(Mismatch::Unreadable("timings"))?;
        Ok(Capability { policy, timings })
    }
}

/// Timings that a member may name: none is beyond a day, and the election timeout is longer than a
/// heartbeat.
fn timings(millis: &[u64]) -> Option<Timings> {
    const DAY: u64 = 24 * 60 * 60 * 1000;
    let &[heartbeat, election_min, election_max, vote_wait, vote_min, vote_max, push_wait] =
        millis.get(..7)?.first_chunk::<7>()?;
    let bounded = millis.iter().all(|millis| (1..=DAY).contains(millis));
    let ordered = heartbeat < election_min && election_min <= election_max && vote_min <= vote_max;
    (bounded && ordered).then_some(Timings {
        heartbeat,
        election_min,
        election_max,
        vote_wait,
        vote_min,
        vote_max,
        push_wait,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::json;

    fn introduction() -> Introduction {
        Introduction {
            client: Some("127.0.0.1:10911".to_owned()),
            cluster: Some("a".to_owned()),
            file_size: 1 << 20,
            capability: Capability { policy: Policy::Flushed, timings: Timings::default() },
        }
    }

    #[test]
    fn what_a_node_says_of_itself_comes_back() {
        let ours = introduction();
        let text = json::write(&ours.to_own());
        let read: Own = json::read(&text).unwrap();
        assert_eq!(ours.accept(&read), Ok(ours.capability));
    }

    #[test]
    fn what_does_not_fit_is_refused_with_both_values() {
        let ours = introduction();
        let own = Own { file_size: 1 << 30, ..ours.to_own() };
        assert_eq!(
            ours.accept(&own).unwrap_err().to_string(),
            "data files of 1048576 bytes here and 1073741824 bytes there: give both the same \
             mappedFileSizeCommitLog"
        );
        let own = Own { cluster: Some("b".to_owned()), ..ours.to_own() };
        let error = ours.accept(&own).unwrap_err().to_string();
        assert!(error.starts_with("cluster a here and b there"), "{error}");
        for timings in [vec![], vec![0; 7], vec![150, 100, 1200, 400, 50, 350, 1000]] {
            let own = Own { timings, ..ours.to_own() };
            assert_eq!(ours.accept(&own), Err(Mismatch::Unreadable("timings")));
        }
        // A later version may say more; a cluster that is not named fits any.
        let own = Own { cluster: None, version: 9, ..ours.to_own() };
        assert!(ours.accept(&own).is_ok());
    }
}
