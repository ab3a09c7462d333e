//! Warnings about something that lasts.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// Time between two warnings of the same cause.
const PAUSE: Duration = Duration::from_secs(60);

/// Lets a warning through that repeats itself: the first one, then one a minute with the number of
/// those that were held back.
#[derive(Debug, Default)]
pub struct Throttle(Mutex<Option<Told>>);

#[derive(Debug)]
struct Told {
    at: Instant,
    held_back: u64,
}

impl Throttle {
    /// One that has told nothing yet.
    #[must_use]
    pub const fn new() -> Self {
        Self(Mutex::new(None))
    }

    /// Whether it is to be told now, and then how many were held back before it.
    pub fn tell(&self, now: Instant) -> Option<u64> {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *told {
            Some(last) if now.saturating_duration_since(last.at) < PAUSE => {
                last.held_back += 1;
                None
            }
            last => {
                let held_back = last.as_ref().map_or(0, |last| last.held_back);
                *last = Some(Told { at: now, held_back: 0 });
                Some(held_back)
            }
        }
    }

    /// What lasted is over: the next warning is told at once. Whether there had been one.
    pub fn over(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_is_told_then_one_a_minute_with_a_count() {
        let throttle = Throttle::new();
        let start = Instant::now();
        let told: Vec<_> = (0..130)
            .filter_map(|second| throttle.tell(start + Duration::from_secs(second)))
            .collect();
        assert_eq!(told, [0, 59, 59]);
        assert!(throttle.over());
        assert!(!throttle.over());
        assert_eq!(throttle.tell(start + Duration::from_secs(131)), Some(0));
    }
}
