//! A counter with its values over the last minute, hour and day (`StatsItem.java`).

use std::{
    collections::VecDeque,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

/// Milliseconds between samples of a window, and how many samples it keeps.
struct Shape {
    step: u64,
    keep: usize,
}

const MINUTE: Shape = Shape { step: 10_000, keep: 7 };
const HOUR: Shape = Shape { step: 600_000, keep: 7 };
const DAY: Shape = Shape { step: 3_600_000, keep: 25 };

/// Rates are taken over at least this long, so that the first message of a topic is not shown as
/// thousands a second.
const SHORTEST: u64 = 1_000;

/// The length of time that figures cover.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Span {
    /// The last minute.
    Minute,
    /// The last hour.
    Hour,
    /// The last day.
    Day,
}

/// What of a meter is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Measure {
    /// Number of messages.
    Messages,
    /// Their size in bytes.
    Bytes,
    /// How long requests took, in milliseconds.
    Millis,
}

/// What one request adds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Amount {
    /// Number of messages.
    pub(crate) messages: u64,
    /// Their size in bytes.
    pub(crate) bytes: u64,
    /// How long the request took, in milliseconds.
    pub(crate) millis: u64,
}

/// Figures over one span.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Figures {
    /// What came in during the span.
    pub(crate) sum: u64,
    /// Per second.
    pub(crate) tps: f64,
    /// Per request.
    pub(crate) average: f64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Sample {
    at: u64,
    requests: u64,
    messages: u64,
    bytes: u64,
    millis: u64,
}

#[derive(Debug, Default)]
struct Windows {
    minute: VecDeque<Sample>,
    hour: VecDeque<Sample>,
    day: VecDeque<Sample>,
}

/// Counts requests with their messages and bytes. Counting takes no lock.
#[derive(Debug)]
pub(crate) struct Meter {
    requests: AtomicU64,
    messages: AtomicU64,
    bytes: AtomicU64,
    millis: AtomicU64,
    windows: Mutex<Windows>,
}

impl Meter {
    /// A meter at zero. `now` in milliseconds of any clock that only grows; later calls use the
    /// same one.
    pub(crate) fn new(now: u64) -> Self {
        let start = VecDeque::from([Sample { at: now, ..Sample::default() }]);
        let windows = Windows { minute: start.clone(), hour: start.clone(), day: start };
        Self {
            requests: AtomicU64::new(0),
            messages: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            millis: AtomicU64::new(0),
            windows: Mutex::new(windows),
        }
    }

    /// Counts one request.
    pub(crate) fn add(&self, amount: Amount) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.messages.fetch_add(amount.messages, Ordering::Relaxed);
        self.bytes.fetch_add(amount.bytes, Ordering::Relaxed);
        self.millis.fetch_add(amount.millis, Ordering::Relaxed);
    }

    /// Messages since the start.
    pub(crate) fn messages(&self) -> u64 {
        self.messages.load(Ordering::Relaxed)
    }

    /// Takes the samples that are due.
    pub(crate) fn sample(&self, now: u64) {
        let sample = self.read(now);
        let mut windows = self.windows.lock().unwrap_or_else(PoisonError::into_inner);
        push(&mut windows.minute, sample, &MINUTE);
        push(&mut windows.hour, sample, &HOUR);
        push(&mut windows.day, sample, &DAY);
    }

    /// Figures over `span` up to `now`, the newest requests included.
    pub(crate) fn figures(&self, span: Span, measure: Measure, now: u64) -> Figures {
        let last = self.read(now);
        let windows = self.windows.lock().unwrap_or_else(PoisonError::into_inner);
        let window = match span {
            Span::Minute => &windows.minute,
            Span::Hour => &windows.hour,
            Span::Day => &windows.day,
        };
        let first = window.front().copied().unwrap_or(last);
        drop(windows);
        let value = |sample: &Sample| match measure {
            Measure::Messages => sample.messages,
            Measure::Bytes => sample.bytes,
            Measure::Millis => sample.millis,
        };
        let sum = value(&last).saturating_sub(value(&first));
        let elapsed = last.at.saturating_sub(first.at).max(SHORTEST);
        let requests = last.requests.saturating_sub(first.requests);
        let average = if requests == 0 { 0.0 } else { sum as f64 / requests as f64 };
        Figures { sum, tps: sum as f64 * 1_000.0 / elapsed as f64, average }
    }

    fn read(&self, now: u64) -> Sample {
        Sample {
            at: now,
            requests: self.requests.load(Ordering::Relaxed),
            messages: self.messages.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            millis: self.millis.load(Ordering::Relaxed),
        }
    }
}

/// Keeps `sample` where the last one is at least a step old, give or take a late timer.
fn push(window: &mut VecDeque<Sample>, sample: Sample, shape: &Shape) {
    let due = window
        .back()
        .is_none_or(|last| sample.at.saturating_sub(last.at) + shape.step / 10 >= shape.step);
    if !due {
        return;
    }
    window.push_back(sample);
    while window.len() > shape.keep {
        window.pop_front();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_cover_the_last_minute_only() {
        let meter = Meter::new(0);
        meter.add(Amount { messages: 3, bytes: 300, millis: 5 });
        meter.add(Amount { messages: 1, bytes: 50, millis: 2 });
        let at_once = meter.figures(Span::Minute, Measure::Messages, 10);
        assert_eq!(at_once, Figures { sum: 4, tps: 4.0, average: 2.0 });
        let took = meter.figures(Span::Minute, Measure::Millis, 10);
        assert_eq!(took, Figures { sum: 7, tps: 7.0, average: 3.5 });
        for tick in 1..=12 {
            meter.sample(tick * 10_000);
        }
        meter.add(Amount { messages: 6, bytes: 600, millis: 0 });
        let later = meter.figures(Span::Minute, Measure::Bytes, 120_000);
        assert_eq!(later, Figures { sum: 600, tps: 10.0, average: 600.0 });
        let hour = meter.figures(Span::Hour, Measure::Messages, 120_000);
        assert_eq!(hour.sum, 10);
        assert_eq!(meter.messages(), 10);
    }

    #[test]
    fn windows_are_bounded_and_samples_keep_their_distance() {
        let meter = Meter::new(0);
        for second in 1..=200_000 {
            meter.sample(second * 1_000);
        }
        let windows = meter.windows.lock().unwrap();
        assert_eq!(windows.minute.len(), 7);
        assert_eq!(windows.hour.len(), 7);
        assert_eq!(windows.day.len(), 25);
        assert!(windows.minute[1].at - windows.minute[0].at >= 9_000);
    }
}
