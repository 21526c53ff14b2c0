//! `pillion probe` on a real API server that cannot call the webhook: the texts are the API server's own.

use std::process::{Command, Stdio};

use pillion_testenv::{Cluster, Options, free_port, until};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::spawn_blocking;

use crate::support::{Installation, SOON, log_agent, program, webhook};

/// Starts a server that answers every connection in plain HTTP.
async fn plain() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.read(&mut [0; 1024]).await;
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n").await;
        }
    });
    url
}

/// Returns the exit code of a probe and what it says.
async fn probe(cluster: &Cluster, namespace: &str) -> (Option<i32>, String) {
    let mut command = Command::new(program());
    command.env("KUBECONFIG", cluster.admin_kubeconfig_file()).stdin(Stdio::null());
    command.args(["probe", "log-agent", "--namespace", namespace, "--label", "mode=strip", "--timeout", "0s"]);
    let output = spawn_blocking(move || command.output().unwrap()).await.unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[tokio::test]
async fn the_causes_of_failed_calls_are_told_apart() {
    let cluster = Cluster::start(Options::new()).await.unwrap();
    let installation = Installation::prepare(&cluster, &log_agent(), &[], &[]).await;
    let namespace = cluster.namespace("probed").await.unwrap();
    let (silent, authority) = webhook::server(|_| Value::Null).await;
    let silent = silent.trim_end_matches("/mutate");
    let (_, stranger) = webhook::server(|_| Value::Null).await;
    let closed = format!("https://127.0.0.1:{}", free_port().unwrap());
    let calls = [
        (closed, &authority, "no process listens on the port"),
        (silent.to_owned(), &authority, "no answer came in time"),
        (silent.to_owned(), &stranger, "the API server does not trust the server's certificate"),
        (plain().await, &authority, "what answers does not speak TLS"),
        (format!("{silent}/elsewhere"), &authority, "what answers does not know the path of the webhook (404)"),
    ];
    for (url, authority, reason) in calls {
        installation.register_at(&url, authority).await;
        // The API server notices a new configuration after a moment.
        let told = async || {
            let (code, said) = probe(&cluster, &namespace).await;
            let line = format!("reason: {reason}");
            (code == Some(1) && said.lines().any(|told| told.starts_with(&line))).then_some(())
        };
        if let Err(error) = until(reason, SOON, told).await {
            panic!("{error}: {:?}", probe(&cluster, &namespace).await);
        }
    }
}
