//! The measured windows of a run, on one clock.

use std::{
    sync::{Mutex, MutexGuard, OnceLock, PoisonError},
    time::{Duration, Instant},
};

use client::{SendError, SendStatus, Sent};

use super::tally::{Errors, Tally, count_error};
use crate::args::MeasureArgs;

/// A run: the warm-up, then windows without a pause between them. What happens belongs to the
/// window in which it ends.
#[derive(Debug)]
pub(crate) struct Windows {
    begun: Instant,
    warmup: Duration,
    length: Duration,
    /// When the run was cut short.
    stopped: OnceLock<Instant>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    tallies: Vec<Tally>,
    /// What failed in the warm-up or after the end.
    outside: Errors,
    /// All that succeeded, the warm-up included.
    total: u64,
}

/// One window with its time.
#[derive(Debug)]
pub(crate) struct Measured {
    /// What it saw.
    pub(crate) tally: Tally,
    /// How long it was.
    pub(crate) took: Duration,
}

impl Windows {
    /// A run that begins now.
    pub(crate) fn begin(args: &MeasureArgs) -> anyhow::Result<Self> {
        let tallies: Result<Vec<Tally>, _> = (0..args.repeat).map(|_| Tally::new()).collect();
        Ok(Self {
            begun: Instant::now(),
            warmup: args.warmup,
            length: args.duration,
            stopped: OnceLock::new(),
            state: Mutex::new(State { tallies: tallies?, outside: Errors::new(), total: 0 }),
        })
    }

    /// One window without a warm-up.
    pub(crate) fn once(duration: Duration) -> anyhow::Result<Self> {
        Self::begin(&MeasureArgs { duration, warmup: Duration::ZERO, repeat: 1 })
    }

    /// When it began.
    pub(crate) fn begun(&self) -> Instant {
        self.begun
    }

    /// Time of the whole run.
    pub(crate) fn whole(&self) -> Duration {
        let count = u32::try_from(self.lock().tallies.len()).unwrap_or(u32::MAX);
        self.warmup + self.length * count
    }

    /// Cuts the run short.
    pub(crate) fn stop(&self) {
        // Of two stops the first one counts.
        self.stopped.get_or_init(Instant::now);
    }

    /// Whether it has ended.
    pub(crate) fn is_over(&self) -> bool {
        self.stopped.get().is_some() || self.begun.elapsed() >= self.whole()
    }

    /// Counts messages that succeeded together at a time, and the latency of their request.
    pub(crate) fn success(
        &self,
        at: Instant,
        messages: u64,
        bytes: u64,
        latency: Option<Duration>,
    ) {
        let mut state = self.lock();
        state.total += messages;
        let Some(tally) = self.index(at).and_then(|index| state.tallies.get_mut(index)) else {
            return;
        };
        tally.success(messages, bytes);
        if let Some(latency) = latency {
            tally.latency(latency);
        }
    }

    /// Counts a failed request.
    pub(crate) fn error(&self, at: Instant, kind: String, text: impl FnOnce() -> String) {
        let mut state = self.lock();
        match self.index(at).and_then(|index| state.tallies.get_mut(index)) {
            Some(tally) => tally.error(kind, text),
            None => count_error(&mut state.outside, kind, text),
        }
    }

    /// Counts what became of `messages` that were sent together, the request having taken `latency`.
    /// What is stored, but not as the broker's durability promises, is a failure. Gives what was stored.
    pub(crate) fn sent(
        &self,
        at: Instant,
        (messages, bytes, latency): (u64, u64, Duration),
        result: Result<Sent, SendError>,
    ) -> Option<Sent> {
        match result {
            Ok(sent) if sent.status == SendStatus::Stored => {
                self.success(at, messages, bytes, Some(latency));
                return Some(sent);
            }
            Ok(sent) => self.error(at, sent.status.name().to_owned(), || {
                format!("{} for message {}", sent.status.name(), sent.offset_message_id)
            }),
            Err(error) => self.error(at, error.kind(), || error.to_string()),
        }
        None
    }

    /// All that succeeded so far, the warm-up included, and all that failed.
    pub(crate) fn totals(&self) -> (u64, u64) {
        let state = self.lock();
        let outside: u64 = super::tally::failed(&state.outside);
        (state.total, outside + state.tallies.iter().map(Tally::failed).sum::<u64>())
    }

    /// The windows that began, and what failed outside of them.
    pub(crate) fn finish(&self) -> (Vec<Measured>, Errors) {
        let ran = self.stopped.get().map_or_else(|| self.whole(), |at| *at - self.begun);
        let mut state = self.lock();
        let mut from = self.warmup;
        let mut measured = Vec::new();
        for tally in std::mem::take(&mut state.tallies) {
            let took = ran.saturating_sub(from).min(self.length);
            from += self.length;
            if !took.is_zero() {
                measured.push(Measured { tally, took });
            }
        }
        (measured, std::mem::take(&mut state.outside))
    }

    /// The window of a time; `None` in the warm-up and after the end.
    fn index(&self, at: Instant) -> Option<usize> {
        if self.stopped.get().is_some_and(|stopped| at > *stopped) {
            return None;
        }
        let since = at.saturating_duration_since(self.begun).checked_sub(self.warmup)?;
        usize::try_from(since.as_nanos() / self.length.as_nanos().max(1)).ok()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn windows() -> Windows {
        Windows::begin(&MeasureArgs { duration: 10 * SECOND, warmup: 3 * SECOND, repeat: 2 })
            .unwrap()
    }

    #[test]
    fn what_happens_counts_for_the_window_of_its_time() {
        let windows = windows();
        let at = |seconds: u32| windows.begun() + seconds * SECOND;
        for (seconds, messages) in [(0, 1), (2, 2), (3, 4), (12, 8), (13, 16), (22, 32), (23, 64)] {
            windows.success(at(seconds), messages, 10 * messages, None);
        }
        windows.error(at(1), "TIMEOUT".to_owned(), String::new);
        windows.error(at(14), "TIMEOUT".to_owned(), String::new);
        assert_eq!(windows.totals(), (127, 2));
        let (measured, outside) = windows.finish();
        let seen: Vec<_> =
            measured.iter().map(|m| (m.tally.messages, m.tally.failed(), m.took)).collect();
        assert_eq!(seen, [(12, 0, 10 * SECOND), (48, 1, 10 * SECOND)]);
        assert_eq!(outside["TIMEOUT"].0, 1);
    }

    #[test]
    fn a_run_that_is_cut_short_has_the_windows_that_began() {
        let mut windows = windows();
        windows.begun -= 15 * SECOND;
        assert!(!windows.is_over());
        windows.stop();
        assert!(windows.is_over());
        let (measured, _) = windows.finish();
        assert_eq!(measured.len(), 2);
        assert_eq!(measured[0].took, 10 * SECOND);
        assert!(measured[1].took >= 2 * SECOND && measured[1].took < 10 * SECOND);
    }

    #[test]
    fn a_run_that_is_cut_short_in_the_warm_up_has_no_window() {
        let windows = windows();
        windows.stop();
        assert!(windows.finish().0.is_empty());
    }
}
