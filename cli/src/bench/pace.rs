//! The times at which messages of a steady rate are due.

use std::{
    future::Future,
    time::{Duration, Instant},
};

use futures_util::{StreamExt, stream::FuturesUnordered};
use tokio::sync::mpsc;

use super::Windows;

/// Says when each message is due, until the run is over. For a thread of its own: timers of tasks
/// are 1 ms coarse.
pub(super) fn pace(windows: &Windows, rate: u32, due: &mpsc::Sender<Instant>) {
    let begun = windows.begun();
    for index in 0.. {
        let at = begun + due_after(index, rate);
        if at >= begun + windows.whole() {
            return;
        }
        std::thread::sleep(at.saturating_duration_since(Instant::now()));
        if windows.is_over() || due.blocking_send(at).is_err() {
            return;
        }
    }
}

/// Calls `send` for what is due, as long as the window has room, and waits for what is in flight.
pub(super) async fn send_due<F: Future<Output = ()>>(
    window: usize,
    mut dues: mpsc::Receiver<Instant>,
    send: impl Fn(Instant) -> F,
) {
    let mut flight = FuturesUnordered::new();
    let mut more = true;
    while more || !flight.is_empty() {
        tokio::select! {
            due = dues.recv(), if more && flight.len() < window => match due {
                Some(due) => flight.push(send(due)),
                None => more = false,
            },
            Some(()) = flight.next(), if !flight.is_empty() => {}
        }
    }
}

/// Time from the beginning until the message of this index is due.
fn due_after(index: u64, rate: u32) -> Duration {
    let rate = u64::from(rate.max(1));
    let nanos = (index % rate) * 1_000_000_000 / rate;
    Duration::from_secs(index / rate) + Duration::from_nanos(nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_due_at_even_distances() {
        let due: Vec<_> = [0, 1, 3, 4, 4_000_000_001].map(|index| due_after(index, 4)).into();
        let expected = [0, 250, 750, 1000, 1_000_000_000_250].map(Duration::from_millis);
        assert_eq!(due, expected);
        assert_eq!(due_after(2, 3), Duration::from_nanos(666_666_666));
    }
}
