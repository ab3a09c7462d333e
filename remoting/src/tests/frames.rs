//! Frames as they come off the wire, and answers as they go onto it.

use std::pin::Pin;
use std::task::{Context, Poll};

use protocol::code;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};

use super::*;
use crate::driver::drive;

#[tokio::test]
async fn a_frame_may_come_in_pieces() {
    let (_rig, server) = serve(Limits::default());
    let mut raw = Raw::connect(&server).await;
    for byte in &bytes_of(&[request(ECHO, 77, "piecemeal")]) {
        raw.send(&[*byte]).await;
    }
    let answer = raw.receive().await.expect("an answer");
    assert_eq!((answer.opaque, &answer.body[..]), (77, &b"piecemeal"[..]));
    assert!(answer.is_response());
}

#[tokio::test]
async fn two_requests_and_a_half_are_two_answers_then_one() {
    let (_rig, server) = serve(Limits::default());
    let mut raw = Raw::connect(&server).await;
    let bytes = bytes_of(&[request(ECHO, 1, "a"), request(ECHO, 2, "b"), request(ECHO, 3, "c")]);
    let (first, rest) = bytes.split_at(bytes.len() - 5);
    raw.send(first).await;
    assert_eq!(raw.receive().await.expect("an answer").opaque, 1);
    assert_eq!(raw.receive().await.expect("an answer").opaque, 2);
    raw.send(rest).await;
    assert_eq!(raw.receive().await.expect("an answer").opaque, 3);
}

#[tokio::test]
async fn a_large_body_goes_both_ways() {
    let (_rig, server) = serve(Limits::default());
    let client = client();
    let address = server.local_addr().to_string();
    let body = "x".repeat(5 << 20);
    let request = Command::request(ECHO).with_body(body.clone());
    let answer = client.call(&address, request, LONG).await.expect("an answer");
    assert_eq!(answer.body, body);
}

#[tokio::test]
async fn a_oneway_request_gets_no_answer() {
    let (rig, server) = serve(Limits::default());
    let mut raw = Raw::connect(&server).await;
    let mut commands = vec![request(ECHO, 1, ""), request(DROP, 2, ""), request(PANIC, 3, "")];
    commands.iter_mut().for_each(Command::mark_oneway);
    commands.push(request(ECHO, 4, ""));
    raw.send(&bytes_of(&commands)).await;
    assert_eq!(raw.receive().await.expect("an answer").opaque, 4);
    assert_eq!(rig.served(), 4);
}

#[tokio::test]
async fn a_request_without_an_answer_gets_system_error() {
    let (_rig, server) = serve(Limits::default());
    let mut raw = Raw::connect(&server).await;
    raw.send(&bytes_of(&[request(DROP, 8, ""), request(PANIC, 9, ""), request(ECHO, 10, "")]))
        .await;
    for (opaque, words) in [(8, "dropped"), (9, "handler failed")] {
        let answer = raw.receive().await.expect("an answer");
        assert_eq!((answer.opaque, answer.code), (opaque, code::response::SYSTEM_ERROR));
        let remark = answer.remark.expect("a remark");
        assert!(remark.contains(words), "{remark}");
    }
    assert_eq!(raw.receive().await.expect("the connection lives on").opaque, 10);
}

/// A stream that counts its writes.
struct Counting {
    inner: DuplexStream,
    writes: Arc<AtomicUsize>,
}

impl AsyncRead for Counting {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(context, buffer)
    }
}

impl AsyncWrite for Counting {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.writes.fetch_add(1, Ordering::SeqCst);
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}

/// A driven connection in memory: the peer's end, the handler, and the writes of the driver.
fn in_memory() -> (DuplexStream, Arc<Rig>, Arc<AtomicUsize>) {
    let (inner, peer) = tokio::io::duplex(1 << 20);
    let writes = Arc::new(AtomicUsize::new(0));
    let stream = Counting { inner, writes: Arc::clone(&writes) };
    let address = "127.0.0.1:1".parse().expect("address");
    let limits = Limits::default();
    let connection = Connection::new(address, address, limits.clone());
    let rig = Arc::new(Rig::default());
    let handler = Arc::clone(&rig) as Arc<dyn Handler>;
    tokio::spawn(async move { drive(stream, &connection, limits, &handler).await });
    (peer, rig, writes)
}

async fn receive_many(peer: &mut DuplexStream, count: usize) -> Vec<i32> {
    let mut buffer = BytesMut::new();
    let mut opaques = Vec::new();
    while opaques.len() < count {
        assert!(peer.read_buf(&mut buffer).await.expect("reads") > 0);
        while let Some(answer) = frame::decode(&mut buffer, 1 << 24).expect("frames") {
            opaques.push(answer.opaque);
        }
    }
    opaques
}

#[tokio::test]
async fn a_burst_is_answered_with_one_write() {
    let (mut peer, rig, writes) = in_memory();
    let burst: Vec<_> = (0..100).map(|opaque| request(ECHO, opaque, "burst")).collect();
    peer.write_all(&bytes_of(&burst)).await.expect("writes");
    assert_eq!(receive_many(&mut peer, 100).await, (0..100).collect::<Vec<_>>());
    assert_eq!((rig.served(), writes.load(Ordering::SeqCst)), (100, 1));
}

#[tokio::test]
async fn a_group_of_unflushed_answers_wakes_the_connection_once() {
    let (mut peer, rig, writes) = in_memory();
    let burst: Vec<_> = (0..10).map(|opaque| request(HOLD, opaque, "")).collect();
    peer.write_all(&bytes_of(&burst)).await.expect("writes");
    until("ten held requests", || rig.held.lock().expect("lock").len() == 10).await;
    let held = std::mem::take(&mut *rig.held.lock().expect("lock"));
    let flushes: Vec<_> = held
        .into_iter()
        .filter_map(|responder| responder.send_unflushed(Command::request(0)))
        .collect();
    assert_eq!(flushes.len(), 1);
    assert_eq!(writes.load(Ordering::SeqCst), 0);
    drop(flushes);
    assert_eq!(receive_many(&mut peer, 10).await, (0..10).collect::<Vec<_>>());
    assert_eq!(writes.load(Ordering::SeqCst), 1);
}
