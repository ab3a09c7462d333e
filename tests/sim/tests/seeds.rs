//! Goal: a group keeps one log, loses nothing that it acknowledged and comes back, whatever breaks.
//!
//! Method: as many seeds as fit into the time; see docs/testing.md. `LEDGERMQ_SIM_SECONDS=N` gives
//! the seeds another time than that of the stage of CI.

/// Seconds of the stage of CI, less what building takes.
const SECONDS: u64 = 200;

#[test]
#[ignore = "takes minutes; the stage `sim` runs it"]
fn seeds() {
    let seconds = std::env::var("LEDGERMQ_SIM_SECONDS").ok();
    let seconds = seconds.and_then(|seconds| seconds.parse().ok()).unwrap_or(SECONDS);
    if let Err(text) = sim::ci::run(seconds, 2) {
        panic!("{text}");
    }
}
