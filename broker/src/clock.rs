//! The time of day as records and tables hold it.

use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970; 0 on a clock set before that.
pub(crate) fn now_millis() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// Hour of the day where the operator lives, 0 to 23.
pub(crate) fn local_hour() -> u8 {
    u8::try_from(chrono::Timelike::hour(&chrono::Local::now())).unwrap_or(0)
}
