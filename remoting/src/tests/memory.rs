//! What all connections together may hold.

use super::*;
use crate::Budget;
use protocol::code::response::SYSTEM_BUSY;

fn limits(budget: &Arc<Budget>) -> Limits {
    Limits { budget: Some(Arc::clone(budget)), ..Limits::default() }
}

/// Unfinished frames: the greediest are closed, what is left fits, and others are served.
#[tokio::test]
async fn s_17_unfinished_frames_beyond_the_budget_end_their_connections() {
    let budget = Budget::new(8 << 20);
    let (_rig, server) = serve(limits(&budget));
    let mut peers = Vec::new();
    for _ in 0..20 {
        let mut raw = Raw::connect(&server).await;
        raw.send(&(4_000_000_u32).to_be_bytes()).await;
        // A JSON header of ten bytes is announced, so that the rest is body.
        raw.send(&[0, 0, 0, 10]).await;
        drop(raw.stream.write_all(&vec![b'x'; 1 << 20]).await);
        peers.push(raw);
    }
    let mut good = Raw::connect(&server).await;
    let begun = Instant::now();
    loop {
        good.send(&bytes_of(&[request(ECHO, 2, "good")])).await;
        match good.receive().await.expect("an answer").code {
            0 if !budget.is_exceeded() => break,
            // Bytes that were on their way still come.
            0 | SYSTEM_BUSY => assert!(begun.elapsed() < LONG),
            other => panic!("{other}"),
        }
    }
    let open = server.connections().len();
    assert!((2..20).contains(&open), "{open} are open");
    drop(peers);
    until("the memory to be free", || budget.used() < 1 << 20).await;
}

/// Requests that nobody answers: beyond the budget a request with a body is told to come later.
#[tokio::test]
async fn s_17_requests_beyond_the_budget_are_busy_and_the_greediest_is_closed() {
    let budget = Budget::new(4 << 20);
    let (rig, server) = serve(limits(&budget));
    let body = "x".repeat(1 << 20);
    let mut greedy = Raw::connect(&server).await;
    let mut modest = Raw::connect(&server).await;
    modest.send(&bytes_of(&[request(HOLD, 0, &body[..64 << 10])])).await;
    for opaque in 0..8 {
        drop(greedy.stream.write_all(&bytes_of(&[request(HOLD, opaque, &body)])).await);
    }
    let mut busy = 0;
    while let Some(answer) = greedy.receive().await {
        assert_eq!(answer.code, SYSTEM_BUSY, "{answer:?}");
        busy += 1;
    }
    assert!(busy <= 8);
    until("the greedy one's memory to be free", || !budget.is_exceeded()).await;
    let held = rig.held.lock().expect("lock").len();
    rig.answer_held(held);
    assert!(modest.receive().await.is_some(), "the modest one was left alone");
}

/// Answers that are not read.
#[tokio::test]
async fn s_17_answers_that_are_not_read_count_too() {
    let budget = Budget::new(16 << 20);
    let bounds = Limits { outbox_pause_bytes: 64 << 20, ..limits(&budget) };
    let (rig, server) = serve(bounds);
    let mut deaf = Raw::connect(&server).await;
    let burst: Vec<_> = (0..40)
        .map(|opaque| request(BYTES, opaque, "").with_remark((1 << 20).to_string()))
        .collect();
    deaf.send(&bytes_of(&burst)).await;
    until("the deaf one to be closed", || rig.closed.load(Ordering::SeqCst) == 1).await;
    until("its memory to be free", || budget.used() == 0).await;
}

#[tokio::test]
async fn ordinary_traffic_stays_far_below_the_budget_and_leaves_nothing() {
    let budget = Budget::new(64 << 20);
    let (_rig, server) = serve(limits(&budget));
    let client = client();
    let body = "x".repeat(100_000);
    for _ in 0..50 {
        let address = server.local_addr().to_string();
        client.call(&address, request(ECHO, 0, &body), LONG).await.expect("an answer");
        assert!(budget.used() < 8 << 20, "{}", budget.used());
    }
    client.close();
    until("nothing to be held", || budget.used() == 0).await;
}

/// Requests that wait hold their fields, too: a pull may name a filter of a megabyte.
#[tokio::test]
async fn s_17_fields_of_requests_that_wait_count_too() {
    let budget = Budget::new(8 << 20);
    let (rig, server) = serve(limits(&budget));
    let mut greedy = Raw::connect(&server).await;
    let filter = "x".repeat(900_000);
    for opaque in 0..20 {
        let waits = request(HOLD, opaque, "").with_field("subscription", filter.as_str());
        if greedy.stream.write_all(&bytes_of(&[waits])).await.is_err() {
            break;
        }
    }
    until("the greedy one to be closed", || rig.closed.load(Ordering::SeqCst) == 1).await;
    assert!(rig.served() < 20, "{} were taken", rig.served());
    until("its memory to be free", || budget.used() == 0).await;
}
