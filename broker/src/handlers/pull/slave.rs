//! Pulls that a slave answers (`slaveReadEnable`), and to whom an answer sends the client next
//! (`PullMessageProcessor`, `DefaultPullMessageResultHandler`).
//!
//! A slave may lag: it gives messages that it has, and never says where a queue ends or begins. A
//! client that it has nothing for is sent to the master with the offset that it asked for.

use protocol::code::response;
use store::{GetResult, GetStatus};

/// The master's id in routes (`MixAll.MASTER_ID`).
const MASTER: i64 = 0;

/// The code of a slave's answer; where it has nothing to give, `result` keeps the client at the
/// offset that it `asked` for. The queue does not end before that offset, which somebody was given:
/// what a client is told of the end does not go back because it asks a slave.
pub(super) fn code(result: &mut GetResult, asked: i64, knows_master: bool) -> i32 {
    result.max_offset = result.max_offset.max(u64::try_from(asked).unwrap_or(0));
    match result.status {
        GetStatus::Found => response::SUCCESS,
        // It has read on, past messages that the client does not want.
        GetStatus::NoMatchedMessage => response::PULL_RETRY_IMMEDIATELY,
        GetStatus::MessageWasRemoving
        | GetStatus::OffsetFoundNull
        | GetStatus::OffsetOverflowBadly
        | GetStatus::OffsetOverflowOne
        | GetStatus::OffsetTooSmall
        | GetStatus::NoMatchedLogicQueue
        | GetStatus::NoMessageInQueue => {
            result.next_begin_offset = u64::try_from(asked).unwrap_or(0);
            if knows_master {
                response::PULL_RETRY_IMMEDIATELY
            } else {
                // There is nobody to send the client to: it waits here.
                response::PULL_NOT_FOUND
            }
        }
    }
}

/// What decides whom a client asks next.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reader<'a> {
    /// What was read lies so far back that it is no longer in memory.
    pub(super) lags: bool,
    /// `whichBrokerWhenConsumeSlowly` of the group.
    pub(super) wanted: i64,
    /// The ids of slaves that are connected with this master.
    pub(super) slaves: &'a [i64],
}

/// Whom a master sends a client to: a slave that lives, where it reads what only the disk has; else
/// none but itself. The id that the group wants is taken where it is one of them.
pub(super) fn suggested_by_master(reader: Reader<'_>) -> i64 {
    if !reader.lags {
        return MASTER;
    }
    let wanted = reader.slaves.iter().find(|id| **id == reader.wanted);
    wanted.or(reader.slaves.first()).copied().unwrap_or(MASTER)
}

/// Whom a slave sends a client to: it keeps one that lags, and one that has no master.
pub(super) fn suggested_by_slave(lags: bool, found: bool, knows_master: bool, own: i64) -> i64 {
    if (lags && found) || !knows_master { own } else { MASTER }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(status: GetStatus, next: u64) -> GetResult {
        GetResult {
            status,
            messages: Vec::new(),
            total_bytes: 0,
            next_begin_offset: next,
            min_offset: 0,
            max_offset: 5,
            behind_bytes: 0,
        }
    }

    #[test]
    fn a_slave_that_lags_never_sets_a_client_back() {
        for status in [
            GetStatus::OffsetOverflowBadly,
            GetStatus::OffsetOverflowOne,
            GetStatus::OffsetTooSmall,
            GetStatus::NoMatchedLogicQueue,
            GetStatus::NoMessageInQueue,
            GetStatus::OffsetFoundNull,
            GetStatus::MessageWasRemoving,
        ] {
            let mut at_master = result(status, 5);
            let code_at_master = code(&mut at_master, 50_000, true);
            assert_eq!(code_at_master, response::PULL_RETRY_IMMEDIATELY, "{status:?}");
            assert_eq!(at_master.next_begin_offset, 50_000, "{status:?}");
            assert_eq!(at_master.max_offset, 50_000, "{status:?}: the end is not before it");
            let mut alone = result(status, 5);
            assert_eq!(code(&mut alone, 50_000, false), response::PULL_NOT_FOUND, "{status:?}");
            assert_eq!(alone.next_begin_offset, 50_000, "{status:?}");
        }
        let mut found = result(GetStatus::Found, 7);
        assert_eq!(code(&mut found, 5, true), response::SUCCESS);
        assert_eq!((found.next_begin_offset, found.max_offset), (7, 5));
        let mut passed = result(GetStatus::NoMatchedMessage, 9);
        assert_eq!(code(&mut passed, 5, true), response::PULL_RETRY_IMMEDIATELY);
        assert_eq!(passed.next_begin_offset, 9);
    }

    /// Case 50 of the known faults.
    #[test]
    fn hints_name_ids_that_live() {
        let reader = |lags, wanted, slaves| Reader { lags, wanted, slaves };
        assert_eq!(suggested_by_master(reader(false, 1, &[1, 2])), MASTER, "it keeps up");
        assert_eq!(suggested_by_master(reader(true, 2, &[2, 3])), 2);
        assert_eq!(suggested_by_master(reader(true, 1, &[2, 3])), 2, "1 leads and is no slave");
        assert_eq!(suggested_by_master(reader(true, 1, &[3])), 3, "one is dead");
        assert_eq!(suggested_by_master(reader(true, 1, &[])), MASTER, "both are");
        assert_eq!(suggested_by_slave(true, true, true, 3), 3);
        assert_eq!(suggested_by_slave(false, true, true, 3), MASTER, "it has caught up");
        assert_eq!(suggested_by_slave(true, false, true, 3), MASTER, "nothing is here");
        assert_eq!(suggested_by_slave(false, false, false, 3), 3, "there is no master");
    }
}
