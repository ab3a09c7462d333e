//! Requests in flight of one sender.

use futures_util::{StreamExt, stream::FuturesUnordered};
use tokio::task::coop::{consume_budget, unconstrained};

/// Keeps `window` requests in flight as long as `next` gives one, then waits for the last; `ended` is
/// told of each. All of them are part of the caller's task.
pub(crate) async fn keep_in_flight<F: Future>(
    window: usize,
    mut next: impl FnMut() -> Option<F>,
    mut ended: impl FnMut(F::Output),
) {
    let mut flight = FuturesUnordered::new();
    loop {
        while flight.len() < window
            && let Some(request) = next()
        {
            // Without a share in the task's budget: when that is used up, each of the others would
            // be polled only to be told so, and woken to be polled again.
            flight.push(unconstrained(request));
        }
        let Some(one) = flight.next().await else { return };
        ended(one);
        consume_budget().await;
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[tokio::test]
    async fn a_window_is_kept_full_and_each_request_ends_once() {
        let (mut begun, mut ended) = (0, Vec::new());
        let (running, most) = (Cell::new(0), Cell::new(0));
        let next = || {
            let nth = begun;
            if nth == 500 {
                return None;
            }
            begun += 1;
            running.set(running.get() + 1);
            most.set(most.get().max(running.get()));
            Some(async move {
                tokio::task::yield_now().await;
                nth
            })
        };
        keep_in_flight(20, next, |nth| {
            running.set(running.get() - 1);
            ended.push(nth);
        })
        .await;
        ended.sort_unstable();
        assert_eq!(ended, (0..500).collect::<Vec<_>>());
        assert_eq!(most.get(), 20);
    }
}
