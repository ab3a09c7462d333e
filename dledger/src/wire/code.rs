//! Request codes and response codes (`DLedgerRequestCode.java`, `DLedgerResponseCode.java`).

use std::fmt;

/// Codes of requests on the peer port.
pub mod request {
    /// Client to any member: who is there, who leads.
    pub const METADATA: i32 = 50_000;
    /// Client to the leader: append a body, or several.
    pub const APPEND: i32 = 50_001;
    /// Client to the leader: read an entry.
    pub const GET: i32 = 50_002;
    /// Candidate to member.
    pub const VOTE: i32 = 51_001;
    /// Leader to member.
    pub const HEART_BEAT: i32 = 51_002;
    /// Leader to follower: compare, truncate, append, commit.
    pub const PUSH: i32 = 51_004;
    /// To the leader, and from it to the member that shall lead.
    pub const LEADERSHIP_TRANSFER: i32 = 51_005;
    /// DLedger 0.4 only: a member that sends it cannot be in this group.
    pub const INSTALL_SNAPSHOT: i32 = 51_006;
    /// Ours: a vote that binds nobody, asked before the real one. A Java member answers that the
    /// code is not supported.
    pub const PRE_VOTE: i32 = 52_001;
    /// Ours: a push whose entries lie in the frame as they lie in the log.
    pub const BINARY_PUSH: i32 = 52_002;
    /// Ours: entries that rotted on the asking member's disk.
    pub const FETCH: i32 = 52_004;
    /// Ours: role, marks and flight recorder of a member, as text for `ledgermq dledger status`.
    pub const STATUS: i32 = 52_003;
    /// Ours: a request of a client, passed on by the follower that got it.
    pub const FORWARD: i32 = 52_005;
}

/// What a request came to. On the wire it is a number in the body; the frame itself says 200.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ResponseCode(pub i32);

/// One line per code gives the constant and its Java name.
macro_rules! response_codes {
    ($($name:ident = $value:literal;)*) => {
        impl ResponseCode {
            $(
                #[doc = concat!("Java's `DLedgerResponseCode.", stringify!($name), "`.")]
                pub const $name: Self = Self($value);
            )*

            /// Java's name of the code.
            #[must_use]
            pub fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($value => Some(stringify!($name)),)*
                    _ => None,
                }
            }

            /// All codes that Java knows.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];
        }
    };
}

response_codes! {
    UNKNOWN = -1;
    SUCCESS = 200;
    TIMEOUT = 300;
    METADATA_ERROR = 301;
    NETWORK_ERROR = 302;
    UNSUPPORTED = 303;
    UNKNOWN_GROUP = 400;
    UNKNOWN_MEMBER = 401;
    UNEXPECTED_MEMBER = 402;
    EXPIRED_TERM = 403;
    NOT_LEADER = 404;
    NOT_FOLLOWER = 405;
    INCONSISTENT_STATE = 406;
    INCONSISTENT_TERM = 407;
    INCONSISTENT_INDEX = 408;
    INCONSISTENT_LEADER = 409;
    INDEX_OUT_OF_RANGE = 410;
    UNEXPECTED_ARGUMENT = 411;
    REPEATED_REQUEST = 412;
    REPEATED_PUSH = 413;
    DISK_ERROR = 414;
    DISK_FULL = 415;
    TERM_NOT_READY = 416;
    FALL_BEHIND_TOO_MUCH = 417;
    TAKE_LEADERSHIP_FAILED = 418;
    INDEX_LESS_THAN_LOCAL_BEGIN = 419;
    REQUEST_WITH_EMPTY_BODYS = 420;
    PUSH_REQUEST_IS_FULL = 421;
    NEWER_INSTALL_SNAPSHOT_REQUEST_EXIST = 422;
    INTERNAL_ERROR = 500;
    TERM_CHANGED = 501;
    WAIT_QUORUM_ACK_TIMEOUT = 502;
    LEADER_PENDING_FULL = 503;
    ILLEGAL_MEMBER_STATE = 504;
    LEADER_NOT_READY = 505;
    LEADER_TRANSFERRING = 506;
    LOAD_SNAPSHOT_ERROR = 507;
    INSTALL_SNAPSHOT_ERROR = 508;
}

impl fmt::Display for ResponseCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.0, self.name().unwrap_or("UNKNOWN"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_javas_numbers_and_names() {
        assert_eq!(ResponseCode::ALL.len(), 38);
        assert!(ResponseCode::ALL.is_sorted_by(|a, b| a.0 < b.0));
        assert_eq!(ResponseCode(416).to_string(), "416 TERM_NOT_READY");
        assert_eq!(ResponseCode(599).to_string(), "599 UNKNOWN");
    }
}
