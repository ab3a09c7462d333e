//! TLS and plain connections on one port: who is served, who is not, and what each is told.

use std::path::PathBuf;

use tokio::net::TcpSocket;

use super::certificates::{Authority, asking, server, showing, trusting};
use super::*;
use crate::{
    CallError, ClientAuth, TlsClient, TlsClientSettings, TlsMode, TlsServer, TlsServerSettings,
};

fn serve_tls(settings: &TlsServerSettings) -> (Arc<Rig>, Server) {
    let rig = Arc::new(Rig::default());
    let tls = TlsServer::new(settings).expect("sound settings");
    let options = ServerOptions { tls, ..ServerOptions::default() };
    let address = "127.0.0.1:0".parse().expect("address");
    let handler = Arc::clone(&rig) as Arc<dyn Handler>;
    (rig, Server::bind(address, options, handler).expect("a free port"))
}

fn client_of(settings: &TlsClientSettings) -> Client {
    let tls = TlsClient::new(settings).expect("sound settings");
    Client::new(ClientOptions { tls, ..ClientOptions::default() })
}

async fn asked(client: &Client, server: &Server, body: &str) -> Result<Command, CallError> {
    client.call(&server.local_addr().to_string(), request(ECHO, 0, body), LONG).await
}

/// A call that is answered with its own body.
async fn served(client: &Client, server: &Server) {
    let answer = asked(client, server, "hello").await.expect("an answer");
    assert_eq!(answer.body, "hello");
}

/// The text of a call that cannot succeed.
async fn refused(settings: &TlsClientSettings, server: &Server) -> String {
    let client = client_of(settings);
    asked(&client, server, "hello").await.expect_err("no answer").to_string()
}

#[tokio::test]
async fn s_11_one_port_serves_tls_and_plain_when_permissive_and_tls_alone_when_enforcing() {
    let authority = Authority::new("ca");
    let files = authority.sign("127.0.0.1");
    let (_rig, permissive) = serve_tls(&server(TlsMode::Permissive, &files));
    served(&client(), &permissive).await;
    served(&client_of(&trusting(&authority)), &permissive).await;

    let (_rig, enforcing) = serve_tls(&server(TlsMode::Enforcing, &files));
    served(&client_of(&trusting(&authority)), &enforcing).await;
    let mut raw = Raw::connect(&enforcing).await;
    raw.send(&bytes_of(&[request(ECHO, 1, "plain")])).await;
    assert!(raw.receive().await.is_none(), "plain is closed without a word");
}

#[tokio::test]
async fn s_11_tls_to_a_server_without_it_is_closed_and_told() {
    let authority = Authority::new("ca");
    let files = authority.sign("127.0.0.1");
    let none = TlsServer::new(&server(TlsMode::Disabled, &files)).expect("sound");
    assert!(none.is_none());
    let none = TlsServer::new(&TlsServerSettings::default()).expect("sound");
    assert!(none.is_none(), "permissive without a certificate is plain");
    let (_rig, plain) = serve(Limits::default());
    let text = refused(&trusting(&authority), &plain).await;
    assert!(text.contains("TLS may be disabled there"), "{text}");
}

#[tokio::test]
async fn s_11_a_server_that_is_not_the_right_one_is_not_spoken_to() {
    let (authority, other) = (Authority::new("ca"), Authority::new("other"));
    let (_rig, right) = serve_tls(&server(TlsMode::Enforcing, &authority.sign("127.0.0.1")));
    let text = refused(&trusting(&other), &right).await;
    assert!(text.contains("tls.client.trustCertPath"), "wrong authority: {text}");

    let old = authority.sign_until("127.0.0.1", 2001);
    let (_rig, expired) = serve_tls(&server(TlsMode::Enforcing, &old));
    let text = refused(&trusting(&authority), &expired).await;
    assert!(text.contains("expired"), "{text}");

    let named = authority.sign("broker.example");
    let (rig, elsewhere) = serve_tls(&server(TlsMode::Enforcing, &named));
    let text = refused(&trusting(&authority), &elsewhere).await;
    assert!(text.contains("tls.client.serverName"), "wrong name: {text}");
    assert_eq!(rig.served(), 0);
    let named = TlsClientSettings { server_name: "broker.example".into(), ..trusting(&authority) };
    served(&client_of(&named), &elsewhere).await;
    let any = TlsClientSettings { trusts_any_server: true, ..trusting(&other) };
    served(&client_of(&any), &expired).await;
}

#[tokio::test]
async fn s_11_clients_show_certificates_where_they_are_asked() {
    let (authority, other) = (Authority::new("ca"), Authority::new("other"));
    let files = authority.sign("127.0.0.1");
    let (own, foreign) = (authority.sign("client"), other.sign("client"));
    let (rig, requires) = serve_tls(&asking(ClientAuth::Require, &files, &authority));
    served(&client_of(&showing(&authority, &own)), &requires).await;
    asked(&client_of(&trusting(&authority)), &requires, "").await.expect_err("no certificate");
    let wrong = client_of(&showing(&authority, &foreign));
    asked(&wrong, &requires, "").await.expect_err("a certificate of another authority");
    assert_eq!(rig.served(), 1, "only the first one's request came through");

    let (_rig, optional) = serve_tls(&asking(ClientAuth::Optional, &files, &authority));
    served(&client_of(&trusting(&authority)), &optional).await;
    served(&client_of(&showing(&authority, &own)), &optional).await;
    let wrong = client_of(&showing(&authority, &foreign));
    asked(&wrong, &optional, "").await.expect_err("a bad one is worse than none");
}

#[tokio::test]
async fn s_11_settings_that_would_verify_nothing_are_refused_with_the_next_step() {
    let authority = Authority::new("ca");
    let files = authority.sign("127.0.0.1");
    let text = |settings: &TlsServerSettings| match TlsServer::new(settings) {
        Err(error) => error.to_string(),
        Ok(_) => panic!("taken"),
    };
    let require = asking(ClientAuth::Require, &files, &authority);
    let without = TlsServerSettings { trust: PathBuf::new(), ..require.clone() };
    assert!(text(&without).contains("tls.server.trustCertPath is not set"));
    let any = TlsServerSettings { trusts_any_client: true, ..require };
    assert!(text(&any).contains("always verified"));
    let bare = TlsServerSettings { mode: TlsMode::Enforcing, ..TlsServerSettings::default() };
    assert!(text(&bare).contains("tls.server.certPath is not set"));
    let mixed = TlsServerSettings {
        key: authority.sign("other").key,
        ..server(TlsMode::Permissive, &files)
    };
    assert!(text(&mixed).contains("TLS cannot be set up"), "{}", text(&mixed));
}

#[tokio::test]
async fn test_mode_needs_no_files_and_is_only_for_those_who_say_so() {
    let settings = TlsServerSettings {
        mode: TlsMode::Enforcing,
        test_mode: true,
        ..TlsServerSettings::default()
    };
    let (_rig, server) = serve_tls(&settings);
    let any = TlsClientSettings {
        enabled: true,
        trusts_any_server: true,
        ..TlsClientSettings::default()
    };
    served(&client_of(&any), &server).await;
    let text = refused(&trusting(&Authority::new("ca")), &server).await;
    assert!(text.contains("TLS with 127.0.0.1"), "{text}");
}

#[tokio::test]
async fn s_09_an_encrypted_key_is_read_with_its_password_and_told_without_it() {
    let authority = Authority::new("ca");
    let files = authority.sign("127.0.0.1").with_password("planted");
    let of = |password: &str| TlsServerSettings {
        key_password: password.into(),
        ..server(TlsMode::Enforcing, &files)
    };
    let (_rig, server) = serve_tls(&of("planted"));
    served(&client_of(&trusting(&authority)), &server).await;
    for (password, part) in [("", "keyPassword is not set"), ("guess", "password is wrong")] {
        let text = TlsServer::new(&of(password)).expect_err("no key").to_string();
        assert!(text.contains(part) && text.contains("tls.server.keyPath"), "{text}");
        assert!(!text.contains("guess"), "{text}");
    }
}

#[tokio::test]
async fn garbage_after_the_first_byte_closes_only_its_connection() {
    let authority = Authority::new("ca");
    let files = authority.sign("127.0.0.1");
    let (_rig, server) = serve_tls(&server(TlsMode::Permissive, &files));
    for rest in [&[0xFF; 200][..], &[3, 1, 0xFF, 0xFF], &[3, 3, 0, 4, 1, 0, 0, 0], &[3; 100]] {
        let mut raw = Raw::connect(&server).await;
        raw.send(&[&[0x16], rest].concat()).await;
        drop(raw.stream.shutdown().await);
        let mut told = Vec::new();
        // What comes is an alert of TLS, or nothing.
        let read = tokio::time::timeout(LONG, raw.stream.read_to_end(&mut told)).await;
        drop(read.expect("closed"));
        assert!(told.len() < 64, "{told:?}");
    }
    served(&client_of(&trusting(&authority)), &server).await;
    served(&client(), &server).await;
    until("the closed ones to be gone", || server.connections().len() <= 2).await;
}

/// Half of them say nothing, half begin a hello.
#[tokio::test]
async fn s_12_a_thousand_half_open_connections_end_with_the_time_for_a_handshake() {
    let authority = Authority::new("ca");
    let files = authority.sign("127.0.0.1");
    let limit = Duration::from_millis(1500);
    let settings = TlsServerSettings { handshake: limit, ..server(TlsMode::Permissive, &files) };
    let (rig, server) = serve_tls(&settings);
    let other = client_of(&trusting(&authority));
    served(&other, &server).await;
    let mut idle = Vec::new();
    for number in 0..1000 {
        let socket = TcpSocket::new_v4().expect("a socket");
        let mut stream = socket.connect(server.local_addr()).await.expect("connects");
        if number % 2 == 0 {
            stream.write_all(&[0x16, 3, 1]).await.expect("written");
        }
        idle.push((Instant::now(), stream));
    }
    served(&other, &server).await;
    for (begun, stream) in &mut idle {
        let mut rest = Vec::new();
        let read = tokio::time::timeout(LONG, stream.read_to_end(&mut rest)).await;
        drop(read.expect("closed in time"));
        assert!(begun.elapsed() < limit * 10, "{:?}", begun.elapsed());
    }
    served(&other, &server).await;
    assert_eq!(rig.connections.lock().expect("lock").len(), 1, "no handler saw them");
    until("their places to be free", || server.connections().len() == 1).await;
}

#[tokio::test]
async fn s_11_files_are_read_again_under_load_and_open_connections_go_on() {
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    let files = old.sign("127.0.0.1");
    let (rig, server) = serve_tls(&server(TlsMode::Enforcing, &files));
    let server = Arc::new(server);
    let early = client_of(&trusting(&old));
    served(&early, &server).await;
    let busy = Arc::clone(&server);
    let load = tokio::spawn(async move {
        let mut count = 0;
        while count < 100_000 && !busy.connections().is_empty() {
            let Ok(answer) = asked(&early, &busy, "load").await else { break };
            assert_eq!(answer.body, "load");
            count += 1;
            if Arc::strong_count(&busy) == 1 {
                break;
            }
        }
        count
    });

    files.replace_by(&new.sign("127.0.0.1"));
    let late = trusting(&new);
    let begun = Instant::now();
    while asked(&client_of(&late), &server, "").await.is_err() {
        assert!(begun.elapsed() < LONG, "the new certificate did not come into use");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let text = refused(&trusting(&old), &server).await;
    assert!(text.contains("tls.client.trustCertPath"), "{text}");

    // A file that cannot be used changes nothing.
    std::fs::copy(&files.certificate, &files.key).expect("copied");
    tokio::time::sleep(Duration::from_millis(200)).await;
    served(&client_of(&late), &server).await;
    assert!(!load.is_finished(), "the first connection goes on");
    let before = rig.served();
    until("more of the load", || rig.served() > before).await;
    drop(server);
    assert!(load.await.expect("no fault") > 0);
}

#[tokio::test]
async fn large_answers_come_whole_over_tls_also_when_the_server_stops() {
    let authority = Authority::new("ca");
    let files = authority.sign("127.0.0.1");
    let (_rig, server) = serve_tls(&server(TlsMode::Enforcing, &files));
    let client = client_of(&trusting(&authority));
    let address = server.local_addr().to_string();
    let connection = client.connection(&address).await.expect("connects");
    let calls: Vec<_> = (0..20)
        .map(|_| connection.call(Command::request(BYTES).with_remark("3000000"), LONG))
        .collect();
    for call in calls {
        assert_eq!(call.await.expect("an answer").body.len(), 3_000_000);
    }
    let last = connection.call(Command::request(BYTES).with_remark("2000000"), LONG);
    let pending = tokio::spawn(last);
    until("the request", || _rig.served() == 21).await;
    server.shutdown().await;
    assert_eq!(pending.await.expect("no fault").expect("an answer").body.len(), 2_000_000);
}
