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
