//! The time of day as records and tables hold it.

use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970; 0 on a clock set before that.
pub(crate) fn now_millis() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// A time in milliseconds since 1970 for people where the operator lives, as Java's bodies have it:
/// `2026-11-30#16:00:00:000`.
pub(crate) fn local_text(millis: i64) -> String {
    chrono::DateTime::from_timestamp_millis(millis).map_or_else(
        || millis.to_string(),
        |time| time.with_timezone(&chrono::Local).format("%Y-%m-%d#%H:%M:%S:%3f").to_string(),
    )
}

/// Hour of the day where the operator lives, 0 to 23.
pub(crate) fn local_hour() -> u8 {
    u8::try_from(chrono::Timelike::hour(&chrono::Local::now())).unwrap_or(0)
}
