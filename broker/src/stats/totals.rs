//! Totals of the whole broker: what runtime info and the metrics page show
//! (`StoreStatsService.java`).

use std::{
    collections::VecDeque,
    fmt::Write as _,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// Samples of a second each that rates are taken from.
const SECONDS_KEPT: usize = 601;
/// Upper bounds in milliseconds and labels of the put-time distribution, in Java's spelling.
const PUT_TIMES: [(u64, &str); 13] = [
    (0, "<=0ms"),
    (10, "0~10ms"),
    (50, "10~50ms"),
    (100, "50~100ms"),
    (200, "100~200ms"),
    (500, "200~500ms"),
    (1_000, "500ms~1s"),
    (2_000, "1~2s"),
    (3_000, "2~3s"),
    (4_000, "3~4s"),
    (5_000, "4~5s"),
    (10_000, "5~10s"),
    (u64::MAX, "10s~"),
];
/// Classes of the latency histogram: eight to each power of two of microseconds.
const CLASSES: usize = 256;
const DAY_MILLIS: u64 = 86_400_000;

/// Counters of the broker as a whole. Counting takes no lock.
#[derive(Debug)]
pub(crate) struct Totals {
    put_messages: AtomicU64,
    put_bytes: AtomicU64,
    put_failed: AtomicU64,
    put_longest: AtomicU64,
    put_times: [AtomicU64; PUT_TIMES.len()],
    put_latency: [AtomicU64; CLASSES],
    found: AtomicU64,
    missed: AtomicU64,
    transferred: AtomicU64,
    transferred_bytes: AtomicU64,
    get_longest: AtomicU64,
    past: Mutex<Past>,
}

/// What earlier seconds, minutes and days left behind.
#[derive(Debug, Default)]
struct Past {
    seconds: VecDeque<Second>,
    minute: u64,
    latency: Vec<u64>,
    day: u64,
    get_mornings: Mornings,
}

#[derive(Debug, Clone, Copy, Default)]
struct Second {
    at: u64,
    put: u64,
    found: u64,
    missed: u64,
    transferred: u64,
}

/// A total as it stood at the last two midnights.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Mornings {
    /// At the midnight before the last one.
    pub(crate) yesterday: u64,
    /// At the last midnight.
    pub(crate) today: u64,
}

/// A reading of all totals.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Reading {
    /// Messages stored since the start.
    pub(crate) put_messages: u64,
    /// Bytes of their bodies since the start.
    pub(crate) put_bytes: u64,
    /// Sends that were not stored.
    pub(crate) put_failed: u64,
    /// Longest time from request to commit, in milliseconds.
    pub(crate) put_longest: u64,
    /// Distribution of put times over the running minute, in Java's text form.
    pub(crate) put_distribution: String,
    /// 99th percentile of put times over the last minute, in milliseconds.
    pub(crate) put_latency_99: f64,
    /// 99.9th percentile of put times over the last minute, in milliseconds.
    pub(crate) put_latency_999: f64,
    /// Longest pull, in milliseconds.
    pub(crate) get_longest: u64,
    /// Pulls that found messages.
    pub(crate) found: u64,
    /// Pulls that found none.
    pub(crate) missed: u64,
    /// Messages given to consumers since the start; admin tools are not counted.
    pub(crate) transferred: u64,
    /// Bytes of those messages.
    pub(crate) transferred_bytes: u64,
    /// Messages stored per second over 10 s, 1 min and 10 min.
    pub(crate) put_tps: [f64; 3],
    /// Pulls with messages per second over the same spans.
    pub(crate) found_tps: [f64; 3],
    /// Pulls without messages per second over the same spans.
    pub(crate) missed_tps: [f64; 3],
    /// Messages delivered per second over the same spans.
    pub(crate) transferred_tps: [f64; 3],
    /// Messages delivered up to the last two midnights (UTC).
    pub(crate) get_mornings: Mornings,
}

impl Totals {
    /// Totals at zero; `now` in milliseconds since 1970.
    pub(crate) fn new(now: u64) -> Self {
        let past = Past {
            seconds: VecDeque::from([Second { at: now, ..Second::default() }]),
            minute: now / 60_000,
            latency: vec![0; CLASSES],
            day: now / DAY_MILLIS,
            ..Past::default()
        };
        Self {
            put_messages: AtomicU64::new(0),
            put_bytes: AtomicU64::new(0),
            put_failed: AtomicU64::new(0),
            put_longest: AtomicU64::new(0),
            put_times: [const { AtomicU64::new(0) }; PUT_TIMES.len()],
            put_latency: [const { AtomicU64::new(0) }; CLASSES],
            found: AtomicU64::new(0),
            missed: AtomicU64::new(0),
            transferred: AtomicU64::new(0),
            transferred_bytes: AtomicU64::new(0),
            get_longest: AtomicU64::new(0),
            past: Mutex::new(past),
        }
    }

    /// Counts messages that were stored together, `elapsed` after their request came.
    pub(crate) fn stored(&self, messages: u64, bytes: u64, elapsed: Duration) {
        self.put_messages.fetch_add(messages, Ordering::Relaxed);
        self.put_bytes.fetch_add(bytes, Ordering::Relaxed);
        let millis = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
        self.put_longest.fetch_max(millis, Ordering::Relaxed);
        let slot = PUT_TIMES.iter().position(|(bound, _)| millis <= *bound).unwrap_or(0);
        self.put_times[slot].fetch_add(1, Ordering::Relaxed);
        let micros = u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX);
        self.put_latency[class_of(micros)].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a send that was not stored.
    pub(crate) fn store_failed(&self) {
        self.put_failed.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a pull that found messages.
    pub(crate) fn found(&self, elapsed: Duration) {
        self.found.fetch_add(1, Ordering::Relaxed);
        let millis = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
        self.get_longest.fetch_max(millis, Ordering::Relaxed);
    }

    /// Counts a pull that found no message.
    pub(crate) fn missed(&self) {
        self.missed.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts messages that went to consumers.
    pub(crate) fn transferred(&self, messages: u64, bytes: u64) {
        self.transferred.fetch_add(messages, Ordering::Relaxed);
        self.transferred_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Takes the samples of a second, and what is due at the end of a minute and of a day.
    pub(crate) fn tick(&self, now: u64) {
        let second = self.second(now);
        let mut past = self.past.lock().unwrap_or_else(PoisonError::into_inner);
        past.seconds.push_back(second);
        while past.seconds.len() > SECONDS_KEPT {
            past.seconds.pop_front();
        }
        if past.minute != now / 60_000 {
            past.minute = now / 60_000;
            past.latency = load_all(&self.put_latency);
            for slot in &self.put_times {
                slot.store(0, Ordering::Relaxed);
            }
        }
        if past.day != now / DAY_MILLIS {
            past.day = now / DAY_MILLIS;
            past.get_mornings =
                Mornings { yesterday: past.get_mornings.today, today: second.transferred };
        }
    }

    /// Reads everything at `now`.
    pub(crate) fn read(&self, now: u64) -> Reading {
        let last = self.second(now);
        let latency = load_all(&self.put_latency);
        let past = self.past.lock().unwrap_or_else(PoisonError::into_inner);
        let recent: Vec<u64> = latency
            .iter()
            .enumerate()
            .map(|(class, count)| count - past.latency.get(class).copied().unwrap_or(0).min(*count))
            .collect();
        let rates = |value: fn(&Second) -> u64| {
            [10, 60, 600].map(|seconds| rate(&past.seconds, &last, seconds, value))
        };
        Reading {
            put_messages: last.put,
            put_bytes: self.put_bytes.load(Ordering::Relaxed),
            put_failed: self.put_failed.load(Ordering::Relaxed),
            put_longest: self.put_longest.load(Ordering::Relaxed),
            put_distribution: self.distribution(),
            put_latency_99: percentile(&recent, 0.99),
            put_latency_999: percentile(&recent, 0.999),
            get_longest: self.get_longest.load(Ordering::Relaxed),
            found: last.found,
            missed: last.missed,
            transferred: last.transferred,
            transferred_bytes: self.transferred_bytes.load(Ordering::Relaxed),
            put_tps: rates(|second| second.put),
            found_tps: rates(|second| second.found),
            missed_tps: rates(|second| second.missed),
            transferred_tps: rates(|second| second.transferred),
            get_mornings: past.get_mornings,
        }
    }

    fn distribution(&self) -> String {
        let mut text = String::new();
        for ((_, label), count) in PUT_TIMES.iter().zip(&self.put_times) {
            // Writing to a String cannot fail.
            _ = write!(text, "[{label}]:{} ", count.load(Ordering::Relaxed));
        }
        text
    }

    fn second(&self, now: u64) -> Second {
        Second {
            at: now,
            put: self.put_messages.load(Ordering::Relaxed),
            found: self.found.load(Ordering::Relaxed),
            missed: self.missed.load(Ordering::Relaxed),
            transferred: self.transferred.load(Ordering::Relaxed),
        }
    }
}

fn load_all(counters: &[AtomicU64]) -> Vec<u64> {
    counters.iter().map(|counter| counter.load(Ordering::Relaxed)).collect()
}

/// Growth per second between the sample `span` seconds back, or the oldest, and `last`.
fn rate(seconds: &VecDeque<Second>, last: &Second, span: usize, value: fn(&Second) -> u64) -> f64 {
    let Some(first) = seconds.get(seconds.len().saturating_sub(span)) else { return 0.0 };
    let elapsed = last.at.saturating_sub(first.at).max(1_000);
    value(last).saturating_sub(value(first)) as f64 * 1_000.0 / elapsed as f64
}

/// The class of a latency: exact below 8 us, then within an eighth.
fn class_of(micros: u64) -> usize {
    if micros < 8 {
        return micros as usize;
    }
    let power = 63 - micros.leading_zeros() as usize;
    let eighth = (micros >> (power - 3)) as usize & 7;
    ((power - 2) * 8 + eighth).min(CLASSES - 1)
}

/// The upper end of a class, in microseconds.
fn class_end(class: usize) -> u64 {
    if class < 8 {
        return class as u64;
    }
    let power = class / 8 + 2;
    let eighth = (class % 8) as u64;
    ((9 + eighth) << (power - 3)) - 1
}

/// The latency in milliseconds that `share` of the counted ones do not exceed; 0 without any.
fn percentile(counts: &[u64], share: f64) -> f64 {
    let total: u64 = counts.iter().sum();
    if total == 0 {
        return 0.0;
    }
    let wanted = (total as f64 * share).ceil() as u64;
    let mut seen = 0;
    for (class, count) in counts.iter().enumerate() {
        seen += count;
        if seen >= wanted {
            return class_end(class) as f64 / 1_000.0;
        }
    }
    0.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_rates_and_distribution() {
        let totals = Totals::new(0);
        totals.stored(2, 200, Duration::from_millis(0));
        totals.stored(1, 100, Duration::from_millis(7));
        totals.store_failed();
        totals.found(Duration::from_millis(3));
        totals.transferred(3, 900);
        totals.missed();
        totals.tick(1_000);
        let reading = totals.read(1_000);
        assert_eq!(reading.put_messages, 3);
        assert_eq!(reading.put_bytes, 300);
        assert_eq!(reading.put_failed, 1);
        assert_eq!(reading.put_longest, 7);
        assert_eq!(reading.put_tps, [3.0; 3]);
        assert_eq!(reading.transferred_tps, [3.0; 3]);
        assert_eq!((reading.found, reading.missed), (1, 1));
        assert!(reading.put_distribution.starts_with("[<=0ms]:1 [0~10ms]:1 [10~50ms]:0 "));
        assert!(reading.put_distribution.ends_with("[5~10s]:0 [10s~]:0 "));
        assert!((reading.put_latency_99 - 7.167).abs() < 0.001, "{}", reading.put_latency_99);
    }

    #[test]
    fn rates_forget_what_is_older_than_their_span() {
        let totals = Totals::new(0);
        totals.stored(60, 0, Duration::ZERO);
        for second in 1..=60 {
            totals.tick(second * 1_000);
        }
        let reading = totals.read(60_000);
        assert_eq!(reading.put_tps[0], 0.0);
        assert_eq!(reading.put_tps[2], 1.0);
    }

    #[test]
    fn mornings_move_at_midnight_only() {
        let totals = Totals::new(DAY_MILLIS - 2_000);
        totals.transferred(5, 0);
        totals.tick(DAY_MILLIS - 1_000);
        assert_eq!(totals.read(0).get_mornings, Mornings::default());
        totals.tick(DAY_MILLIS);
        totals.transferred(2, 0);
        totals.tick(DAY_MILLIS + 1_000);
        assert_eq!(totals.read(0).get_mornings, Mornings { yesterday: 0, today: 5 });
        totals.tick(2 * DAY_MILLIS);
        assert_eq!(totals.read(0).get_mornings, Mornings { yesterday: 5, today: 7 });
    }

    #[test]
    fn every_latency_lies_in_its_class() {
        for micros in (0..2_000).chain([65_535, 65_536, 1_000_000, 3_599_999_999]) {
            let class = class_of(micros);
            assert!(class_end(class) >= micros, "{micros}");
            assert!(class == 0 || class_end(class - 1) < micros, "{micros}");
        }
        assert_eq!(class_of(u64::MAX), CLASSES - 1);
    }
}
