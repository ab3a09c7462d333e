//! Peers that are slow, greedy or speak no language.

use std::{net::SocketAddr, time::Duration};

use bytes::{Bytes, BytesMut};
use protocol::{Command, code::request, frame, header::PullMessageRequest};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use crate::rig::{LIMIT, Rig, each, memory, pull_header, send_header, v2};

pub(crate) async fn connect(address: SocketAddr) -> TcpStream {
    TcpStream::connect(address).await.expect("a connection")
}

/// Reads until the other side closes; gives the number of bytes that came.
pub(crate) async fn until_closed(stream: &mut TcpStream) -> usize {
    let mut bytes = [0; 4096];
    let mut count = 0;
    loop {
        match timeout(LIMIT, stream.read(&mut bytes)).await.expect("closed in time") {
            Ok(0) | Err(_) => return count,
            Ok(more) => count += more,
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn s_23_random_bytes_on_each_port_close_only_their_connection() {
    let rig = Rig::new("").await;
    for address in [rig.broker.address(), rig.broker.fast_address()] {
        each(100, move |number| async move {
            let mut seed = 0x9E37_79B9_7F4A_7C15_u64 ^ (number as u64) << 32;
            let bytes: Vec<u8> = (0..512)
                .map(|_| {
                    seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    seed.to_be_bytes()[0]
                })
                .collect();
            let mut stream = connect(address).await;
            // The other side may have closed at the first byte.
            drop(stream.write_all(&bytes).await);
            drop(stream.shutdown().await);
            until_closed(&mut stream).await;
        })
        .await;
        for first in
            [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0; 4], &[0xFF; 64], &[0, 0, 0, 4, 0, 0, 0, 9]]
        {
            let mut stream = connect(address).await;
            stream.write_all(first).await.expect("written");
            drop(stream.shutdown().await);
            assert_eq!(until_closed(&mut stream).await, 0);
        }
    }
    rig.end().await;
}

/// Pulls of a megabyte each, whose answers nobody reads: the broker stops to read from such a
/// peer, keeps what the marks of its connection allow, and serves others.
#[tokio::test(flavor = "multi_thread")]
async fn s_17_answers_that_nobody_reads_do_not_pile_up() {
    let rig = Rig::alone("maxTransferBytesOnMessageInMemory=4194304\n").await;
    let body = Bytes::from(vec![b'x'; 1 << 20]);
    for _ in 0..4 {
        assert_eq!(rig.ask(v2(&send_header("large", ""), body.clone())).await.code, 0);
    }
    let before = memory();
    let mut burst = BytesMut::new();
    for opaque in 0..2000 {
        let mut pull = Command::request_with(request::PULL_MESSAGE, &pull_header("large", 0));
        pull.opaque = opaque;
        frame::encode(&pull, &mut burst);
    }
    let mut peers = Vec::new();
    for _ in 0..4 {
        let mut stream = connect(rig.broker.address()).await;
        // It is not read to the end, so that the rest of the burst cannot be written.
        drop(timeout(Duration::from_millis(200), stream.write_all(&burst)).await);
        peers.push(stream);
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    rig.others_are_served().await;
    let grown = memory().saturating_sub(before);
    assert!(grown < 128 << 20, "{grown} bytes for 4 peers that asked for 32 GB");
    drop(peers);
    rig.end().await;
}

/// A pull may ask to wait for ever; it is answered by the next message, or when its client leaves.
#[tokio::test(flavor = "multi_thread")]
async fn pulls_that_wait_for_ever_are_woken_and_forgotten() {
    let rig = Rig::new("").await;
    assert_eq!(rig.ask(v2(&send_header("quiet", ""), Bytes::from_static(b"m"))).await.code, 0);
    rig.pulled("quiet", 0).await;
    let connection = rig.client.connection(&rig.address()).await.expect("a connection");
    let waits = |suspend_timeout_millis: i64| {
        let header =
            PullMessageRequest { sys_flag: 6, suspend_timeout_millis, ..pull_header("quiet", 1) };
        connection.call(Command::request_with(request::PULL_MESSAGE, &header), LIMIT)
    };
    let at_once = waits(i64::MIN);
    let held: Vec<_> = (0..100).map(|_| waits(i64::MAX)).collect();
    assert_ne!(timeout(LIMIT, at_once).await.expect("in time").expect("an answer").code, 0);
    rig.others_are_served().await;
    assert_eq!(rig.ask(v2(&send_header("quiet", ""), Bytes::from_static(b"m"))).await.code, 0);
    for held in held {
        assert_eq!(timeout(LIMIT, held).await.expect("in time").expect("an answer").code, 0);
    }
    rig.end().await;
}

/// One key on many large messages: a query reads and gives the newest that fit into 8 MiB.
#[tokio::test(flavor = "multi_thread")]
async fn s_20_a_query_by_key_gives_the_newest_that_fit() {
    let rig = Rig::new("").await;
    let body = Bytes::from(vec![b'x'; 2 << 20]);
    for _ in 0..6 {
        let send = v2(&send_header("large", "KEYS\u{1}k"), body.clone());
        assert_eq!(rig.ask(send).await.code, 0);
    }
    let query = Command::request(request::QUERY_MESSAGE)
        .with_field("topic", "large")
        .with_field("key", "k")
        .with_field("maxNum", "1000")
        .with_field("beginTimestamp", "0")
        .with_field("endTimestamp", i64::MAX.to_string());
    let begun = std::time::Instant::now();
    loop {
        let answer = rig.ask(query.clone()).await;
        let offsets: Vec<_> = protocol::message::record::records(&answer.body)
            .map(|view| view.expect("a record").queue_offset())
            .collect();
        // The index follows the queues, so that a look-up at once may come too early.
        if offsets == [3, 4, 5] {
            break;
        }
        assert!(begun.elapsed() < LIMIT, "{offsets:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    rig.end().await;
}
