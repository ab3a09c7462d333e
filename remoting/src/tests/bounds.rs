//! Peers that are slow, greedy or speak another language.

use super::*;

async fn closed_without_an_answer(limits: Limits, bytes: &[u8]) {
    let (_rig, server) = serve(limits);
    let mut raw = Raw::connect(&server).await;
    raw.send(bytes).await;
    assert!(raw.receive().await.is_none(), "closed without a word");
}

#[tokio::test]
async fn bytes_that_are_no_frame_close_the_connection() {
    closed_without_an_answer(Limits::default(), b"GET / HTTP/1.1\r\n\r\n").await;
    closed_without_an_answer(Limits::default(), &[0xFF; 8]).await;
    closed_without_an_answer(Limits::default(), &[0, 0, 0, 8, 0, 0, 0, 4, b'n', b'o', b'p', b'e'])
        .await;
}

#[tokio::test]
async fn a_tls_hello_closes_the_connection() {
    closed_without_an_answer(Limits::default(), &[0x16, 3, 1, 0, 200, 1, 0, 0]).await;
}

#[tokio::test]
async fn s_13_a_frame_above_the_limit_closes_the_connection_by_its_length_alone() {
    let limits = Limits { max_frame_bytes: 1024, ..Limits::default() };
    closed_without_an_answer(limits, &2048_u32.to_be_bytes()).await;
}

#[tokio::test]
async fn s_15_a_frame_that_trickles_is_cut_off_and_others_are_not() {
    let limits = Limits { frame_deadline: Duration::from_millis(100), ..Limits::default() };
    let (_rig, server) = serve(limits);
    let (mut slow, mut good) = (Raw::connect(&server).await, Raw::connect(&server).await);
    slow.send(&bytes_of(&[request(ECHO, 1, "slow")])[..10]).await;
    assert!(slow.receive().await.is_none());
    good.send(&bytes_of(&[request(ECHO, 2, "good")])).await;
    assert_eq!(good.receive().await.expect("an answer").opaque, 2);
}

#[tokio::test]
async fn s_15_a_silent_connection_is_closed() {
    let limits = Limits { idle: Duration::from_millis(100), ..Limits::default() };
    let (_rig, server) = serve(limits);
    assert!(Raw::connect(&server).await.receive().await.is_none());
}

#[tokio::test]
async fn s_15_requests_above_the_bound_wait_until_others_are_answered() {
    let limits = Limits { max_in_flight: 2, ..Limits::default() };
    let (rig, server) = serve(limits);
    let mut raw = Raw::connect(&server).await;
    let burst: Vec<_> = (0..5).map(|opaque| request(HOLD, opaque, "")).collect();
    raw.send(&bytes_of(&burst)).await;
    for served in 2..5 {
        until("a request per free place", || rig.served() == served).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert_eq!(rig.served(), served, "no request above the bound");
        rig.answer_held(1);
        assert!(raw.receive().await.is_some());
    }
    until("the last request", || rig.served() == 5).await;
}

#[tokio::test]
async fn bodies_in_flight_are_bounded_too() {
    let limits = Limits { max_in_flight_bytes: 10, ..Limits::default() };
    let (rig, server) = serve(limits);
    let mut raw = Raw::connect(&server).await;
    raw.send(&bytes_of(&[request(HOLD, 0, "ten bytes."), request(HOLD, 1, "")])).await;
    until("the first request", || rig.served() == 1).await;
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert_eq!(rig.served(), 1);
    rig.answer_held(1);
    until("the second request", || rig.served() == 2).await;
}

fn ask_for_bytes(opaque: i32, count: usize) -> Command {
    request(BYTES, opaque, "").with_remark(count.to_string())
}

#[tokio::test]
async fn s_15_a_peer_that_does_not_read_is_no_longer_read_from_and_then_closed() {
    let limits = Limits {
        write_stall: Duration::from_millis(300),
        outbox_pause_bytes: 1 << 20,
        ..Limits::default()
    };
    let (rig, server) = serve(limits);
    let mut raw = Raw::connect(&server).await;
    let burst: Vec<_> = (0..100).map(|opaque| ask_for_bytes(opaque, 1 << 20)).collect();
    raw.send(&bytes_of(&burst)).await;
    until("the stall", || rig.closed.load(Ordering::SeqCst) == 1).await;
    // What the kernel takes comes on top of the mark, but never a hundred answers.
    assert!(rig.served() < 50, "{} answers were made", rig.served());
}

#[tokio::test]
async fn a_peer_that_reads_late_gets_everything() {
    let limits = Limits { outbox_pause_bytes: 1 << 20, ..Limits::default() };
    let (rig, server) = serve(limits);
    let mut raw = Raw::connect(&server).await;
    let burst: Vec<_> = (0..40).map(|opaque| ask_for_bytes(opaque, 1 << 20)).collect();
    raw.send(&bytes_of(&burst)).await;
    until("the first answers", || rig.served() > 0).await;
    for opaque in 0..40 {
        assert_eq!(raw.receive().await.expect("an answer").opaque, opaque);
    }
    assert_eq!(rig.served(), 40);
}

#[tokio::test]
async fn an_outbox_above_its_limit_closes_the_connection() {
    let limits = Limits { outbox_limit_bytes: 1000, ..Limits::default() };
    let (_rig, server) = serve(limits);
    let mut raw = Raw::connect(&server).await;
    raw.send(&bytes_of(&[ask_for_bytes(0, 2000)])).await;
    assert!(raw.receive().await.is_none());
}

#[tokio::test]
async fn s_16_connections_above_the_limit_are_refused() {
    let options = ServerOptions { max_connections: 1, ..ServerOptions::default() };
    let address = "127.0.0.1:0".parse().expect("address");
    let server = Server::bind(address, options, Arc::new(Rig::default())).expect("a free port");
    let mut first = Raw::connect(&server).await;
    first.send(&bytes_of(&[request(ECHO, 1, "")])).await;
    assert!(first.receive().await.is_some());
    assert!(Raw::connect(&server).await.receive().await.is_none());
    drop(first);
    until("the first to be gone", || server.connections().is_empty()).await;
    let mut third = Raw::connect(&server).await;
    third.send(&bytes_of(&[request(ECHO, 3, "")])).await;
    assert!(third.receive().await.is_some());
}

/// Those of the next second wait in the kernel and lose nothing.
#[tokio::test]
async fn s_16_connections_beyond_the_pace_are_accepted_in_the_next_second() {
    const PACE: usize = 10;
    let accepts_per_second = u32::try_from(PACE).expect("small");
    let options = ServerOptions { accepts_per_second, ..ServerOptions::default() };
    let address = "127.0.0.1:0".parse().expect("address");
    let begun = Instant::now();
    let server = Server::bind(address, options, Arc::new(Rig::default())).expect("a free port");
    let mut connections = Vec::new();
    for opaque in 0..2 * PACE + 1 {
        let mut one = Raw::connect(&server).await;
        one.send(&bytes_of(&[request(ECHO, i32::try_from(opaque).expect("small"), "")])).await;
        connections.push(one);
    }
    for one in &mut connections {
        assert!(one.receive().await.is_some(), "each is served in the end");
    }
    assert!(
        begun.elapsed() > Duration::from_secs(1),
        "20 connections need a second begun after one"
    );
}

#[tokio::test]
async fn a_caller_with_more_requests_queued_than_the_mark_still_reads_its_answers() {
    let limits = Limits { outbox_pause_bytes: 64 << 10, ..Limits::default() };
    let (_rig, server) = serve(limits.clone());
    let client = Client::new(ClientOptions { limits, ..ClientOptions::default() });
    let connection = client.connection(&server.local_addr().to_string()).await.expect("connects");
    let body = "x".repeat(1 << 20);
    // More than the kernel and the marks of both sides hold.
    let calls: Vec<_> = (0..50).map(|_| connection.call(request(ECHO, 0, &body), LONG)).collect();
    for call in calls {
        assert_eq!(call.await.expect("an answer").body.len(), body.len());
    }
}

#[tokio::test]
async fn s_13_a_length_that_is_only_declared_takes_no_memory() {
    let mut reader = crate::reader::Reader::new(16 << 20);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let declared = (16_000_000_u32).to_be_bytes();
    assert!(reader.fill(&mut &declared[..], &mut context).is_ready());
    assert!(reader.next(tokio::time::Instant::now()).expect("no fault yet").is_none());
    assert!(reader.capacity() <= 16 << 10, "{} bytes", reader.capacity());
}

#[tokio::test]
async fn s_23_random_bytes_never_hurt_other_connections() {
    let (_rig, server) = serve(Limits::default());
    let mut seed = 0x9E37_79B9_7F4A_7C15_u64;
    for _ in 0..200 {
        let bytes: Vec<u8> = (0..64)
            .map(|_| {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                seed.to_be_bytes()[0]
            })
            .collect();
        Raw::connect(&server).await.send(&bytes).await;
    }
    let mut good = Raw::connect(&server).await;
    good.send(&bytes_of(&[request(ECHO, 1, "")])).await;
    assert_eq!(good.receive().await.expect("an answer").opaque, 1);
}

#[tokio::test]
async fn a_caller_that_wants_no_answers_is_held_back_by_a_peer_that_does_not_read() {
    let deaf = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = deaf.local_addr().expect("address").to_string();
    let limits = Limits { write_stall: Duration::from_secs(2), ..Limits::default() };
    let client = Client::new(ClientOptions { limits, ..ClientOptions::default() });
    let body = bytes::Bytes::from(vec![7; 1 << 20]);
    let connection = client.connection(&address).await.expect("it listens");
    let mut most = 0;
    // Far more than the outbox takes, so that without a hold it would be closed for that.
    for _ in 0..300 {
        let sent = client.oneway(&address, Command::request(ECHO).with_body(body.clone()));
        if !connection.is_open() {
            break;
        }
        tokio::time::timeout(LONG, sent).await.expect("the stall ends it").expect("sent");
        most = most.max(connection.queued_bytes());
    }
    assert!(!connection.is_open(), "a peer that does not read is closed in the end");
    assert!(most < 8 << 20, "{most} bytes were queued");
}
