//! `ledgermq bench`: loads that are the same for every broker that speaks the protocol.

use std::time::Duration;

use anyhow::Context;
use bytes::Bytes;
use client::{ClientOptions, ProducerOptions};
use indicatif::{ProgressBar, ProgressStyle};

use crate::{
    args::{BenchArgs, BenchCommand},
    stop::StopSignals,
};

mod consume;
mod end_to_end;
mod failover;
mod flight;
mod gaps;
mod light;
mod pace;
mod pop;
mod produce;
mod report;
mod stamp;
mod tally;
mod timers;
mod topics;
mod windows;

pub(crate) use flight::keep_in_flight;
pub(crate) use report::Report;
pub(crate) use windows::Windows;

/// Measures what the arguments say.
pub(crate) async fn run(args: BenchArgs) -> anyhow::Result<()> {
    let namesrv = args.namesrv.context(
        "say which cluster gets the load: -n HOST:PORT of its name server; there is no default",
    )?;
    let signals = StopSignals::catch().context("signals cannot be caught")?;
    let cluster = ClientOptions { tls: args.tls.client()?, ..ClientOptions::new(namesrv) };
    let report = match args.command {
        BenchCommand::Produce(produce) => produce::run(cluster, &produce, signals).await?,
        BenchCommand::Consume(consume) => consume::run(cluster, &consume, signals).await?,
        BenchCommand::Pop(pop) => pop::run(cluster, &pop, signals).await?,
        BenchCommand::Timers(timers) => timers::run(cluster, &timers, signals).await?,
        BenchCommand::Light(light) => light::run(cluster, &light, signals).await?,
        BenchCommand::E2e(e2e) => end_to_end::run(cluster, &e2e, signals).await?,
        BenchCommand::Failover(failover) => failover::run(cluster, &failover, signals).await?,
    };
    report.print(args.json)
}

/// Shows how far a run is until it is over or someone wants it to end.
pub(crate) async fn watch(windows: &Windows, unit: &str, signals: &mut StopSignals) {
    let bar = progress(windows.whole());
    let mut before = 0;
    while !windows.is_over() {
        tokio::select! {
            () = tokio::time::sleep(LOOK) => {}
            _ = signals.received() => windows.stop(),
        }
        let (total, failed) = windows.totals();
        let rate = (total - before) as f64 / LOOK.as_secs_f64();
        before = total;
        let done = windows.begun().elapsed().min(windows.whole());
        bar.set_position(u64::try_from(done.as_millis()).unwrap_or(u64::MAX));
        bar.set_message(format!("{total} {unit}, {rate:.0} a second, {failed} failed requests"));
    }
    bar.finish_and_clear();
}

/// A bar on standard error, which is hidden where that is no terminal.
fn progress(whole: Duration) -> ProgressBar {
    let bar = ProgressBar::new(u64::try_from(whole.as_millis()).unwrap_or(u64::MAX));
    match ProgressStyle::with_template("{elapsed:>4} {wide_bar} {msg}") {
        Ok(style) => bar.with_style(style),
        // The template is fixed, so that this is the standard bar at worst.
        Err(_wrong_template) => bar,
    }
}

/// How senders send whose own bounds hold for what is in flight.
pub(crate) fn sender_options(timeout: Duration, retries: u32) -> ProducerOptions {
    ProducerOptions { timeout, retries, window: usize::MAX, ..ProducerOptions::new(SENDERS) }
}

/// Bytes that no compression makes smaller, the same in every run.
pub(crate) fn random_body(bytes: u32) -> Bytes {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let next = || {
        // xorshift64 (Marsaglia).
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_be_bytes()[0]
    };
    std::iter::repeat_with(next).take(bytes as usize).collect()
}

/// The group of readers: brokers always know it (`MixAll.TOOLS_CONSUMER_GROUP`), so that none is made.
pub(crate) const READERS: &str = "TOOLS_CONSUMER";
/// The group of senders.
pub(crate) const SENDERS: &str = "ledgermq_bench_producer";
/// Time between two looks at a run.
const LOOK: Duration = Duration::from_millis(250);
/// Time before a sender or a reader goes on after a failure, so that a broker that is away is not
/// asked in a tight loop.
pub(crate) const AFTER_FAILURE: Duration = Duration::from_millis(20);
/// Bytes in flight at most on one connection: a fair part of what may wait to be written to it.
pub(crate) const IN_FLIGHT_BYTES_MAX: u64 = 192 << 20;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_body_has_its_length_and_no_pattern() {
        let body = random_body(4096);
        assert_eq!(body.len(), 4096);
        let pairs: BTreeSet<&[u8]> = body.chunks_exact(2).collect();
        assert!(pairs.len() > 1900, "{}", pairs.len());
        assert_eq!(random_body(16), body.slice(..16));
    }
}
