//! Frames that are announced and never come, or come a byte at a time. The first test waits for
//! 10 s, beside the others.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use protocol::{Command, code::request, frame};
use tokio::{
    io::AsyncWriteExt,
    net::TcpStream,
    time::{Instant, sleep},
};

use crate::{
    peers::{connect, until_closed},
    rig::{Rig, memory, send_header, v2},
};

/// Connections that claim a large frame.
const CLAIMS: usize = 200;
/// Connections that send a sound request, a byte at a time.
const TRICKLES: usize = 300;

/// A length alone takes no memory, and its connection is closed by the deadline of a frame, which
/// is 10 s; a frame that trickles ends so, too, and others are served meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn s_13_s_15_frames_that_are_claimed_or_trickle_cost_little_and_end() {
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
    assert!(grown < 32 << 20, "{grown} bytes for {CLAIMS} connections");
    rig.measured();
    let mut trickles = Vec::new();
    for _ in 0..TRICKLES {
        trickles.push(tokio::spawn(trickle(connect(rig.broker.address()).await)));
    }
    while begun.elapsed() < Duration::from_secs(8) {
        rig.others_are_served().await;
        sleep(Duration::from_millis(100)).await;
    }
    for stream in &mut claims {
        assert_eq!(until_closed(stream).await, 0);
    }
    for trickle in trickles {
        let took = trickle.await.expect("no fault");
        assert!(took >= Duration::from_secs(9), "closed after {took:?}");
    }
    rig.end().await;
}

/// Connections of the test that looks at how long others wait.
const SLOW: usize = 500;
/// Sends whose slowest hundredth is looked at.
const SENDS: usize = 400;

/// Another client's slowest sends take at most twice as long as without the 500 that trickle. The
/// machine may have other work, so that one round of ten has to show it.
#[tokio::test(flavor = "multi_thread")]
async fn s_15_frames_that_trickle_do_not_make_others_wait() {
    let rig = Rig::alone("").await;
    rig.others_are_served().await;
    let mut rounds = Vec::new();
    for _ in 0..10 {
        let quiet = slowest_hundredth(&rig).await;
        let mut trickles = Vec::new();
        for _ in 0..SLOW {
            trickles.push(tokio::spawn(trickle(connect(rig.broker.address()).await)));
        }
        let beside = slowest_hundredth(&rig).await;
        assert!(trickles.iter().all(|trickle| !trickle.is_finished()), "they were there all along");
        for trickle in trickles {
            trickle.abort();
        }
        rounds.push((quiet, beside));
        if beside <= quiet * 2 {
            return rig.end().await;
        }
    }
    panic!("99 of 100 sends took, alone and beside {SLOW} that trickle: {rounds:?}");
}

/// The time that 99 of 100 sends do not exceed.
async fn slowest_hundredth(rig: &Rig) -> Duration {
    let mut times = Vec::with_capacity(SENDS);
    for _ in 0..SENDS {
        let begun = Instant::now();
        let answer = rig.ask(v2(&send_header("alive", ""), Bytes::from_static(b"m"))).await;
        assert_eq!(answer.code, 0, "{:?}", answer.remark);
        times.push(begun.elapsed());
    }
    times.sort();
    times[SENDS * 99 / 100]
}

/// Sends a byte of a sound request each half second until the other side closes; gives how long
/// that took.
async fn trickle(mut stream: TcpStream) -> Duration {
    let begun = Instant::now();
    let mut bytes = BytesMut::new();
    frame::encode(&Command::request(request::GET_BROKER_RUNTIME_INFO), &mut bytes);
    for byte in bytes {
        // A write after the close may succeed once; the next one does not.
        if stream.write_all(&[byte]).await.is_err() {
            break;
        }
        sleep(Duration::from_millis(500)).await;
    }
    begun.elapsed()
}
