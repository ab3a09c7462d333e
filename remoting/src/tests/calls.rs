//! Calls in both directions.

use super::*;
use crate::CallError;

#[tokio::test]
async fn answers_find_their_calls_in_any_order() {
    let (rig, server) = serve(Limits::default());
    let client = client();
    let connection = client.connection(&server.local_addr().to_string()).await.expect("connects");
    let held = connection.call(Command::request(HOLD), LONG);
    let echoed = connection.call(request(ECHO, 0, "second"), LONG);
    assert_eq!(&echoed.await.expect("an answer").body[..], b"second");
    rig.answer_held(1);
    assert!(held.await.expect("an answer").body.is_empty());
}

#[tokio::test]
async fn a_call_that_is_not_answered_times_out_and_leaves_the_connection_usable() {
    let (rig, server) = serve(Limits::default());
    let (client, address) = (client(), server.local_addr().to_string());
    let short = Duration::from_millis(50);
    let error = client.call(&address, Command::request(HOLD), short).await.expect_err("no answer");
    assert!(matches!(error, CallError::Timeout { code: HOLD, .. }), "{error}");
    assert!(error.may_have_been_sent());
    rig.answer_held(1);
    let answer = client.call(&address, request(ECHO, 0, "still"), LONG).await.expect("an answer");
    assert_eq!(&answer.body[..], b"still");
    assert_eq!(server.connections().len(), 1);
}

#[tokio::test]
async fn pending_calls_fail_at_once_when_the_connection_closes() {
    let (rig, server) = serve(Limits::default());
    let client = client();
    let connection = client.connection(&server.local_addr().to_string()).await.expect("connects");
    let calls = [
        connection.call(Command::request(HOLD), LONG),
        connection.call(Command::request(HOLD), LONG),
    ];
    until("two held requests", || rig.served() == 2).await;
    let begun = Instant::now();
    server.connections().iter().for_each(|connection| connection.close());
    for call in calls {
        let error = call.await.expect_err("closed");
        assert!(matches!(error, CallError::Closed { .. }), "{error}");
    }
    assert!(begun.elapsed() < LONG / 2);
    let refused = connection.call(Command::request(ECHO), LONG).await.expect_err("closed");
    assert!(matches!(refused, CallError::NotOpen { .. }), "{refused}");
    assert!(!refused.may_have_been_sent());
}

#[tokio::test]
async fn the_server_calls_the_client_over_the_same_connection() {
    let (_rig, server) = serve(Limits::default());
    let client = client();
    let address = server.local_addr().to_string();
    let answer = client.call(&address, request(ASK_BACK, 0, "ping"), LONG).await.expect("answer");
    assert_eq!(&answer.body[..], b"ping");
    assert_eq!(server.connections().len(), 1);
}

#[tokio::test]
async fn a_client_without_a_handler_declines_requests() {
    let (_rig, server) = serve(Limits::default());
    let client = Client::new(ClientOptions::default());
    let connection = client.connection(&server.local_addr().to_string()).await.expect("connects");
    until("the connection", || server.connections().len() == 1).await;
    let there = Arc::clone(&server.connections()[0]);
    let answer = there.call(Command::request(220), LONG).await.expect("an answer");
    assert_eq!(
        (answer.code, answer.remark.as_deref()),
        (3, Some(" request type 220 not supported"))
    );
    assert!(connection.is_open());
}

#[tokio::test]
async fn concurrent_calls_share_one_connection_and_a_closed_one_is_replaced() {
    let (rig, server) = serve(Limits::default());
    let (client, address) = (client(), server.local_addr().to_string());
    let call = || client.call(&address, Command::request(ECHO), LONG);
    let (first, second, third) = tokio::join!(call(), call(), call());
    assert!(first.is_ok() && second.is_ok() && third.is_ok());
    assert_eq!(server.connections().len(), 1);
    client.disconnect(&address);
    until("the close", || rig.closed.load(Ordering::SeqCst) == 1).await;
    call().await.expect("a new connection");
    assert_eq!(server.connections().len(), 1);
}

#[tokio::test]
async fn an_address_where_nobody_listens_is_named() {
    let (_rig, server) = serve(Limits::default());
    let address = server.local_addr().to_string();
    server.shutdown().await;
    drop(server);
    let error = client().call(&address, Command::request(ECHO), LONG).await.expect_err("refused");
    assert!(matches!(error, CallError::Connect { .. }), "{error}");
    assert!(error.to_string().contains(&address), "{error}");
    assert!(!error.may_have_been_sent());
}

#[tokio::test]
async fn a_closed_client_fails_its_calls_and_refuses_new_ones() {
    let (rig, server) = serve(Limits::default());
    let (client, address) = (Arc::new(client()), server.local_addr().to_string());
    let call = tokio::spawn({
        let (client, address) = (Arc::clone(&client), address.clone());
        async move { client.call(&address, Command::request(HOLD), LONG).await }
    });
    until("a held request", || rig.served() == 1).await;
    client.close();
    let error = call.await.expect("no panic").expect_err("closed");
    assert!(matches!(error, CallError::Closed { .. }), "{error}");
    let error = client.call(&address, Command::request(ECHO), LONG).await.expect_err("closed");
    assert!(matches!(error, CallError::NotOpen { .. }), "{error}");
}

#[tokio::test]
async fn the_bound_on_pending_calls_refuses() {
    let (rig, server) = serve(Limits::default());
    let limits = Limits { max_pending_calls: 1, ..Limits::default() };
    let client = Client::new(ClientOptions { limits, ..ClientOptions::default() });
    let connection = client.connection(&server.local_addr().to_string()).await.expect("connects");
    let held = connection.call(Command::request(HOLD), LONG);
    let error = connection.call(Command::request(ECHO), LONG).await.expect_err("over the bound");
    assert!(matches!(error, CallError::Overloaded { pending: 1, .. }), "{error}");
    until("a held request", || rig.served() == 1).await;
    rig.answer_held(1);
    held.await.expect("an answer");
}

#[tokio::test]
async fn a_shutdown_writes_what_was_answered_before() {
    let (rig, server) = serve(Limits::default());
    let mut raw = Raw::connect(&server).await;
    raw.send(&bytes_of(&[request(HOLD, 5, "")])).await;
    until("a held request", || rig.served() == 1).await;
    rig.answer_held(1);
    server.shutdown().await;
    assert_eq!(raw.receive().await.expect("the answer").opaque, 5);
    assert!(raw.receive().await.is_none());
    assert_eq!(rig.closed.load(Ordering::SeqCst), 1);
}
