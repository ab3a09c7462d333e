use std::{sync::Mutex, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tracing_subscriber::{EnvFilter, Registry, reload};

use super::*;

#[derive(Debug, Default)]
struct Fake {
    dead: Mutex<Option<String>>,
    unready: Mutex<Option<String>>,
}

impl Probe for Fake {
    fn dead(&self) -> Option<String> {
        self.dead.lock().unwrap().clone()
    }
    fn unready(&self) -> Option<String> {
        self.unready.lock().unwrap().clone()
    }
    fn figures(&self) -> Figures {
        Figures { messages_in: 7, ..Figures::default() }
    }
}

async fn page(probe: Arc<Fake>) -> Page {
    let (layer, handle) =
        reload::Layer::<EnvFilter, Registry>::new(EnvFilter::try_new("info").unwrap());
    // The handle works as long as the layer lives.
    std::mem::forget(layer);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    Page::serve(listener, probe, LogLevel::of(handle)).unwrap()
}

/// Status and body of one request.
async fn request(page: &Page, line: &str) -> (u16, String) {
    let exchange = async {
        let mut stream = TcpStream::connect(page.address()).await.unwrap();
        let request = format!("{line} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    };
    let answer = tokio::time::timeout(Duration::from_secs(20), exchange).await.unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    let body = answer.split_once("\r\n\r\n").unwrap().1.to_owned();
    (status, body)
}

#[tokio::test]
async fn ready_says_why_it_is_not() {
    let fake = Arc::new(Fake::default());
    let page = page(fake.clone()).await;
    assert_eq!(request(&page, "GET /livez").await, (200, "ok\n".to_owned()));
    assert_eq!(request(&page, "GET /readyz").await, (200, "ok\n".to_owned()));

    *fake.unready.lock().unwrap() = Some("not registered".to_owned());
    assert_eq!(request(&page, "GET /livez").await.0, 200);
    assert_eq!(request(&page, "GET /readyz").await, (503, "not registered\n".to_owned()));

    *fake.dead.lock().unwrap() = Some("disk failed".to_owned());
    assert_eq!(request(&page, "GET /livez").await, (503, "disk failed\n".to_owned()));
    assert_eq!(request(&page, "GET /readyz").await, (503, "disk failed\n".to_owned()));
}

#[tokio::test]
async fn the_level_is_changed_by_put_alone() {
    let page = page(Arc::new(Fake::default())).await;
    assert_eq!(request(&page, "GET /log").await, (200, "info\n".to_owned()));
    assert_eq!(request(&page, "PUT /log?level=debug").await, (200, "debug\n".to_owned()));
    assert_eq!(request(&page, "POST /log?level=trace").await.0, 405);
    let (status, text) = request(&page, "PUT /log?level=loud").await;
    assert_eq!(status, 400);
    assert!(text.contains("\"loud\" is not a log level"), "{text}");
    assert_eq!(request(&page, "GET /log").await, (200, "debug\n".to_owned()));
}

#[tokio::test]
async fn figures_are_served() {
    let page = page(Arc::new(Fake::default())).await;
    let (status, text) = request(&page, "GET /metrics").await;
    assert_eq!(status, 200);
    assert!(text.contains("rocketmq_messages_in_total"), "{text}");
}

/// Reads until the other side closes.
async fn until_closed(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    let read = tokio::time::timeout(Duration::from_secs(60), stream.read_to_end(&mut bytes)).await;
    // A reset is a close as well.
    drop(read.unwrap());
    bytes
}

#[tokio::test]
async fn a_page_that_is_held_by_slow_peers_closes_them_and_serves_the_next() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = Router::new().route("/", get(index));
    let bounded = BoundedListener::with(listener, 4, Duration::from_millis(300));
    let server = tokio::spawn(async move { axum::serve(bounded, router).await });
    let mut slow = Vec::new();
    for _ in 0..4 {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n").await.unwrap();
        slow.push(stream);
    }
    // They have taken all places once one more is closed at once.
    tokio::time::sleep(Duration::from_millis(50)).await;
    let mut fifth = TcpStream::connect(address).await.unwrap();
    assert!(until_closed(&mut fifth).await.is_empty());
    for stream in &mut slow {
        assert!(until_closed(stream).await.is_empty());
    }
    let mut next = TcpStream::connect(address).await.unwrap();
    next.write_all(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await.unwrap();
    assert!(until_closed(&mut next).await.starts_with(b"HTTP/1.1 200"));
    server.abort();
}

#[tokio::test]
async fn hostile_requests_of_the_page_are_refused_in_words_or_closed() {
    let page = page(Arc::default()).await;
    let long = "x".repeat(1 << 20);
    let many: String = (0..5000).map(|n| format!("h{n}: v\r\n")).collect();
    for request in [
        format!("GET /{long} HTTP/1.1\r\nhost: x\r\n\r\n"),
        format!("GET / HTTP/1.1\r\nhost: x\r\n{many}\r\n"),
        format!("GET / HTTP/1.1\r\nhost: {long}\r\n\r\n"),
        "PUT /log?level=%00%ff HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n".to_owned(),
        format!(
            "PUT /log?level={} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
            &long[..5000]
        ),
        "GET /../../etc/passwd HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n".to_owned(),
        "POST /log?level=debug HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n".to_owned(),
        "\u{16}\u{3}\u{1}\0\u{1}\r\n\r\n".to_owned(),
        "\r\n".repeat(1000),
    ] {
        let mut stream = TcpStream::connect(page.address()).await.unwrap();
        // The other side may have closed before all is written.
        drop(stream.write_all(request.as_bytes()).await);
        drop(stream.shutdown().await);
        let answer = String::from_utf8_lossy(&until_closed(&mut stream).await).into_owned();
        assert!(!answer.starts_with("HTTP/1.1 2"), "{request:.80}: {answer:.200}");
        assert!(answer.len() < 10_000, "{request:.80}: {} bytes", answer.len());
    }
    assert_eq!(request(&page, "GET /livez").await.0, 200);
}
