//! Clients that are slow, silent, too many or against the rules: others are served meanwhile, and afterwards too.

use std::convert::Infallible;
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use futures_util::stream::{self, StreamExt as _};
use pillion_host::paths;
use pillion_server::Limits;
use pillion_server::client::{Client, Protocol};
use serde_json::json;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::support::{Setup, Started, ask, counted, has, limits, pod_review, web};

async fn with(limits: Limits) -> Started {
    Setup { limits, ..Setup::default() }.start().await
}

/// Asserts that a review is answered as usual, and soon.
async fn is_served(client: &mut Client) {
    let started = Instant::now();
    let response = ask(client, paths::MUTATE, &pod_review("u", &web())).await;
    assert_eq!(response["allowed"], json!(true), "{response}");
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
}

/// A body that never comes to its end.
fn endless() -> Body {
    Body::from_stream(stream::iter([Ok::<_, Infallible>(Bytes::from_static(b"{"))]).chain(stream::pending()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_connections_make_room() {
    let server = with(Limits { connections: 4, ..limits() }).await;
    let mut early = server.client().await;
    is_served(&mut early).await;
    let mut silent = Vec::new();
    for _ in 0..10 {
        silent.push(TcpStream::connect(server.running.address()).await.unwrap());
    }
    is_served(&mut server.client().await).await;
    is_served(&mut early).await;
    counted(&server, r#"pillion_connections_refused_total{reason="displaced"} 8"#).await;
    assert!(!server.metrics.text().contains("too_many"));
}

/// New silent connections displace the oldest one, so that a client has time for its handshake.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_silent_connections_leaves_time_for_a_handshake() {
    let server = with(Limits { connections: 256, ..limits() }).await;
    let address = server.running.address();
    let flood = tokio::spawn(async move {
        let mut silent = Vec::new();
        loop {
            silent.push(TcpStream::connect(address).await.unwrap());
            tokio::time::sleep(Duration::from_millis(1)).await;
            if silent.len() == 512 {
                silent.clear();
            }
        }
    });
    // More have come than there is room for.
    let displaced = r#"pillion_connections_refused_total{reason="displaced"} "#;
    has(&server, displaced, |line| line.strip_prefix(displaced).is_some_and(|count| count != "0")).await;
    for protocol in [Protocol::Http2, Protocol::Http1, Protocol::Http2] {
        is_served(&mut Client::connect(&server.target(), protocol).await.unwrap()).await;
    }
    flood.abort();
}

/// Twice as many requests without a complete body as there are places.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_bodies_keep_nobody_out() {
    let server = with(Limits { evaluations: 2, queue: 6, ..limits() }).await;
    let slow = server.client().await;
    let mut waiting = JoinSet::new();
    for _ in 0..16 {
        let mut slow = slow.share().unwrap();
        waiting.spawn(async move { slow.post("/mutate?timeout=30s", endless()).await.unwrap() });
    }
    // Eight have given way to the other eight.
    for _ in 0..8 {
        let answer = waiting.join_next().await.unwrap().unwrap();
        assert_eq!((answer.status, answer.retry_after), (503, Some(1)));
        assert!(String::from_utf8(answer.body).unwrap().contains("the body of this one came slowly"));
    }
    let mut client = server.client().await;
    for _ in 0..5 {
        is_served(&mut client).await;
    }
    // One more gave way to the first of these. Its place was free for the others.
    counted(&server, r#"pillion_http_rejections_total{reason="displaced"} 9"#).await;
}
