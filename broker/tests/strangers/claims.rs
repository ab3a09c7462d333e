//! Frames that are announced and never come. This test waits for 10 s, beside the others.

use std::time::Duration;

use tokio::{io::AsyncWriteExt, time::Instant};

use crate::{
    peers::{connect, until_closed},
    rig::{Rig, memory},
};

/// Connections that claim a large frame.
const CLAIMS: usize = 200;

/// A length alone takes no memory, and its connection is closed by the deadline of a frame, which
/// is 10 s.
#[tokio::test(flavor = "multi_thread")]
async fn frames_that_are_only_claimed_cost_little_and_end() {
    let mut rig = Rig::alone("").await;
    rig.others_are_served().await;
    let before = memory();
    let begun = Instant::now();
    let mut claims = Vec::new();
    for _ in 0..CLAIMS {
        let mut stream = connect(rig.broker.address()).await;
        stream.write_all(&(16_777_000_u32).to_be_bytes()).await.expect("written");
        claims.push(stream);
    }
    rig.others_are_served().await;
    let grown = memory().saturating_sub(before);
    assert!(grown < 64 << 20, "{grown} bytes for {CLAIMS} connections");
    rig.measured();
    for stream in &mut claims {
        assert_eq!(until_closed(stream).await, 0);
    }
    assert!(begun.elapsed() >= Duration::from_secs(9), "{:?}", begun.elapsed());
    rig.end().await;
}
