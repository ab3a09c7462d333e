//! Lines of the log that strangers can cause.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Lets a few lines a second through and counts the rest, so that whoever can connect cannot fill
/// a disk with what the log says about it.
#[derive(Debug, Default)]
pub struct Quiet {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    begun: Option<Instant>,
    lines: u32,
    held_back: u64,
}

const LINES: u32 = 10;
const PERIOD: Duration = Duration::from_secs(1);

impl Quiet {
    /// Whether a line may be written now, with the number of those held back before it.
    pub fn line(&self) -> Option<u64> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if state.begun.is_none_or(|begun| now.duration_since(begun) >= PERIOD) {
            state.begun = Some(now);
            state.lines = 0;
        }
        if state.lines >= LINES {
            state.held_back += 1;
            return None;
        }
        state.lines += 1;
        Some(std::mem::take(&mut state.held_back))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_above_the_rate_are_counted_for_the_next_one() {
        let quiet = Quiet::default();
        let told = (0..100).filter(|_| quiet.line().is_some()).count();
        assert!((10..=20).contains(&told), "{told}");
        quiet.state.lock().expect("lock").begun = None;
        assert_eq!(quiet.line(), Some(100 - told as u64));
    }
}
