//! Whether a follower's word counts.

use crate::types::LogIndex;

/// A follower may hold less than it once acknowledged. Then its word counts again once it holds all
/// that was committed when it came back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It counts.
    Firm,
    /// It counts from this entry on.
    Provisional(LogIndex),
    /// It holds that entry, and is to be told.
    Whole,
}

impl Standing {
    pub(crate) fn is_provisional(self) -> bool {
        matches!(self, Self::Provisional(_))
    }

    /// What of a mark counts.
    pub(crate) fn counts(self, mark: Option<LogIndex>) -> Option<LogIndex> {
        match self {
            Self::Provisional(from) => mark.filter(|mark| *mark >= from),
            Self::Firm | Self::Whole => mark,
        }
    }

    /// Follows what the follower says of itself; `least` is what it must hold to count again. `true`
    /// where it just became provisional.
    pub(crate) fn told(&mut self, provisional: bool, least: Option<LogIndex>) -> bool {
        match (*self, provisional, least) {
            (Self::Firm, true, Some(least)) => {
                *self = Self::Provisional(least);
                true
            }
            (Self::Provisional(_) | Self::Whole, false, _) => {
                *self = Self::Firm;
                false
            }
            (Self::Firm, false, _)
            | (Self::Firm, true, None)
            | (Self::Provisional(_) | Self::Whole, true, _) => false,
        }
    }
}
