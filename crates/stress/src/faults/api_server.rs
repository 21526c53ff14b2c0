//! The cluster's API server goes away and comes back, while each review needs a look-up of the Pod's namespace.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::sleep;

use super::review;
use super::{Context, Outcome};
use crate::server::{Server, Start};

/// The longest request of a client, in bytes.
const REQUEST: usize = 16 * 1024;

/// A stand-in for an API server with one namespace. Dropping it closes all connections.
pub(super) struct ApiServer {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl ApiServer {
    pub(super) async fn start() -> anyhow::Result<Self> {
        Self::at(SocketAddr::from(([127, 0, 0, 1], 0))).await
    }

    async fn at(address: SocketAddr) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(address).await.context("a stand-in API server")?;
        let address = listener.local_addr()?;
        let task = tokio::spawn(async move {
            let mut clients = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                // A client that goes away is of no interest.
                clients.spawn(async move { answer(stream).await.ok() });
                while clients.try_join_next().is_some() {}
            }
        });
        Ok(Self { address, task })
    }

    /// Writes a kubeconfig for this server.
    fn kubeconfig(&self, context: &Context<'_>) -> anyhow::Result<PathBuf> {
        let path = context.folder.join("kubeconfig");
        let url = format!("http://{}", self.address);
        let text = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "stand-in",
            "clusters": [{"name": "stand-in", "cluster": {"server": url}}],
            "users": [{"name": "stand-in", "user": {}}],
            "contexts": [{"name": "stand-in", "context": {"cluster": "stand-in", "user": "stand-in"}}],
        });
        std::fs::write(&path, text.to_string())?;
        Ok(path)
    }
}

impl Drop for ApiServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn answer(mut stream: TcpStream) -> anyhow::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") && head.len() < REQUEST {
        head.push(stream.read_u8().await?);
    }
    let head = String::from_utf8(head)?;
    let target = head.split(' ').nth(1).unwrap_or_default();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let metadata = json!({"name": "default", "uid": "u", "resourceVersion": "1", "labels": {"team": "a"}});
    let body = match path {
        "/api/v1" => json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "v1", "resources": [
            {"name": "namespaces", "singularName": "namespace", "namespaced": false, "kind": "Namespace", "verbs": ["get", "list", "watch"]},
        ]}),
        "/api/v1/namespaces" if query.contains("watch=") => Value::Null,
        "/api/v1/namespaces" => {
            json!({"kind": "NamespaceList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": [{"metadata": metadata}]})
        }
        "/api/v1/namespaces/default" => json!({"kind": "Namespace", "apiVersion": "v1", "metadata": metadata}),
        _ => {
            stream.write_all(b"HTTP/1.1 404 Not Found\r\nconnection: close\r\ncontent-length: 0\r\n\r\n").await?;
            return Ok(());
        }
    };
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n").await?;
    if body.is_null() {
        // A watch without events.
        let length = query.split('&').find_map(|pair| pair.strip_prefix("timeoutSeconds=")?.parse().ok());
        sleep(Duration::from_secs(length.unwrap_or(60))).await;
    } else {
        stream.write_all(body.to_string().as_bytes()).await?;
    }
    stream.shutdown().await?;
    Ok(())
}

/// Returns how to start a server that looks namespaces up there.
pub(super) fn start<'a>(context: &Context<'a>, api_server: &ApiServer) -> anyhow::Result<Start<'a>> {
    let mut start = context.start();
    start.environment.insert("KUBECONFIG", api_server.kubeconfig(context)?);
    let staleness = format!("{}s", staleness(context).as_secs());
    let args = ["--cluster", "live", "--cache-watch", "v1/Namespace", "--cache-max-staleness", &staleness];
    start.args = args.map(str::to_owned).into();
    start.settings = review::settings_with_look_up();
    Ok(start)
}

fn staleness(context: &Context<'_>) -> Duration {
    context.seconds(30).max(Duration::from_secs(3))
}

pub(super) async fn run(context: &Context<'_>, api_server: ApiServer, server: &Server) -> anyhow::Result<Outcome> {
    let address = api_server.address;
    drop(api_server);
    let gone = 2 * staleness(context);
    let started = Instant::now();
    let mut cached = None;
    let caller = std::sync::Arc::new(super::caller::Caller::new(vec![server.target().clone()]));
    let (mut slowest, mut problems) = (Duration::ZERO, Vec::new());
    while started.elapsed() < gone {
        let weight = review::Weight::Light;
        let (_, verdict, took) = super::trickle::ask(std::sync::Arc::clone(&caller), "gone".to_owned(), weight).await;
        slowest = slowest.max(took);
        match verdict {
            Ok(review::Verdict::Right) if cached.is_some() => problems.push("an answer from nowhere".to_owned()),
            Ok(review::Verdict::Right) => {}
            Ok(review::Verdict::Busy) => cached = cached.or(Some(started.elapsed())),
            other => problems.push(format!("{other:?}")),
        }
        sleep(Duration::from_millis(50)).await;
    }
    let cached = cached.unwrap_or_default();
    if cached.is_zero() || cached > staleness(context) + Duration::from_secs(1) {
        problems.push(format!("answers from the cache for {cached:?}"));
    }
    context.keep(ApiServer::at(address).await?);
    Ok(Outcome {
        asked: format!(
            "the API server refuses connections for {} s; every review needs its namespace, answers may be {} s old",
            gone.as_secs(),
            staleness(context).as_secs()
        ),
        back: format!(
            "right answers from the cache for {:.0} s; then 503, which names the look-up, the slowest after {} ms",
            cached.as_secs_f64(),
            slowest.as_millis()
        ),
        problems,
    })
}
