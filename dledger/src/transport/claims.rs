//! Who is who on the peer port: an id belongs to one connection at a time.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

/// A member that has said nothing for so long does not hold its id against another connection: its
/// address may be another one now, and the old connection half dead.
const FRESH: Duration = Duration::from_secs(3);

/// Why a connection may not speak for a member.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum ClaimError {
    /// It says that it is this node.
    #[error("a peer says that it is {0}, which is this node: two nodes run with one dLegerSelfId")]
    Ourselves(String),
    /// No such member.
    #[error("a peer says that it is {0}, which is no member: dLegerPeers differ between nodes")]
    Stranger(String),
    /// Another connection speaks for it at this moment.
    #[error("two peers say that they are {0}: two nodes run with one dLegerSelfId")]
    Taken(String),
}

/// Which connection speaks for which member.
#[derive(Debug, Default)]
pub(super) struct Claims(HashMap<String, Claim>);

#[derive(Debug)]
struct Claim {
    connection: u64,
    heard: Instant,
}

impl Claims {
    /// Notes that `connection` speaks for `id` now.
    pub(super) fn note(
        &mut self,
        id: &str,
        connection: u64,
        now: Instant,
    ) -> Result<(), ClaimError> {
        if let Some(claim) = self.0.get_mut(id) {
            let fresh = now.saturating_duration_since(claim.heard) < FRESH;
            if claim.connection != connection && fresh {
                return Err(ClaimError::Taken(id.to_owned()));
            }
            *claim = Claim { connection, heard: now };
        } else {
            self.0.insert(id.to_owned(), Claim { connection, heard: now });
        }
        Ok(())
    }

    /// Forgets a connection that was closed.
    pub(super) fn forget(&mut self, connection: u64) {
        self.0.retain(|_, claim| claim.connection != connection);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_belongs_to_the_connection_that_speaks() {
        let mut claims = Claims::default();
        let start = Instant::now();
        assert_eq!(claims.note("n1", 7, start), Ok(()));
        assert_eq!(claims.note("n1", 7, start), Ok(()));
        assert_eq!(claims.note("n2", 8, start), Ok(()));
        let taken = Err(ClaimError::Taken("n1".to_owned()));
        assert_eq!(claims.note("n1", 9, start + FRESH / 2), taken);
        claims.forget(7);
        assert_eq!(claims.note("n1", 9, start + FRESH / 2), Ok(()));
    }

    #[test]
    fn a_silent_connection_gives_way() {
        let mut claims = Claims::default();
        let start = Instant::now();
        assert_eq!(claims.note("n1", 7, start), Ok(()));
        assert_eq!(claims.note("n1", 9, start + FRESH), Ok(()));
        assert!(claims.note("n1", 7, start + FRESH).is_err());
    }
}
