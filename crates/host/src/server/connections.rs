//! Connections: accepts, secures and serves them, and closes them when the server stops.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tower::Service as _;

use super::drain::Phase;
use super::metrics::{Refused, Shared};

/// Timeout for the TLS handshake, for the first request, and for the head of each further request.
const PATIENCE: Duration = Duration::from_secs(10);
/// HTTP/2: interval of keep-alive pings to a silent client, and the timeout for its reply.
const PING: Duration = Duration::from_secs(30);
/// HTTP/2: concurrent requests on one connection. The API server opens another connection if it needs more.
const STREAMS: u32 = 250;
const HEADERS: u32 = 16 * 1024;

/// A port and its routes.
pub(super) struct Port {
    pub(super) listener: TcpListener,
    /// `None` for plain HTTP.
    pub(super) tls: Option<TlsAcceptor>,
    pub(super) router: Router,
    pub(super) connections: Arc<Semaphore>,
    pub(super) metrics: Shared,
}

impl Port {
    /// Accepts connections until the server stops, then waits for the open ones. Dropping the future closes them.
    pub(super) async fn serve(self, mut phase: watch::Receiver<Phase>) {
        let mut open = JoinSet::new();
        loop {
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                _ = phase.wait_for(|phase| *phase == Phase::Stopping) => break,
                Some(_) = open.join_next(), if !open.is_empty() => continue,
            };
            let stream = match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    // For example no free file descriptors, until other connections end.
                    tracing::warn!(%error, "a connection could not be accepted");
                    sleep(Duration::from_millis(50)).await;
                    continue;
                }
            };
            let Ok(permit) = Arc::clone(&self.connections).try_acquire_owned() else {
                self.metrics.lost(Refused::TooMany);
                continue;
            };
            let (tls, router, metrics) = (self.tls.clone(), self.router.clone(), Arc::clone(&self.metrics));
            let phase = phase.clone();
            open.spawn(async move {
                let _permit = permit;
                let _counted = Counted::new(&metrics);
                connection(stream, tls, router, &metrics, phase).await;
            });
        }
        drop(self.listener);
        while open.join_next().await.is_some() {}
    }
}

struct Counted<'a>(&'a Shared);

impl<'a> Counted<'a> {
    fn new(metrics: &'a Shared) -> Self {
        metrics.connections.inc();
        Self(metrics)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.connections.dec();
    }
}

async fn connection(
    stream: TcpStream,
    tls: Option<TlsAcceptor>,
    router: Router,
    metrics: &Shared,
    phase: watch::Receiver<Phase>,
) {
    // Answers are small and the client waits for them.
    let _ = stream.set_nodelay(true);
    let Some(tls) = tls else { return serve(stream, router, metrics, phase).await };
    match timeout(PATIENCE, tls.accept(stream)).await {
        Ok(Ok(stream)) => serve(stream, router, metrics, phase).await,
        failed => {
            metrics.lost(Refused::Handshake);
            if let Ok(Err(error)) = failed {
                tracing::debug!(%error, "no TLS");
            }
        }
    }
}

async fn serve<I>(stream: I, router: Router, metrics: &Shared, mut phase: watch::Receiver<Phase>)
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let asked = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&asked);
    let service = service_fn(move |request| {
        seen.store(true, Ordering::Relaxed);
        let mut router = router.clone();
        async move { Ok::<_, Infallible>(router.call(request).await.unwrap_or_else(|never| match never {})) }
    });
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(PATIENCE);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .max_header_list_size(HEADERS)
        .keep_alive_interval(PING)
        .keep_alive_timeout(PING);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    let mut silent = pin!(sleep(PATIENCE));
    let (mut is_waiting, mut is_stopping) = (true, false);
    loop {
        tokio::select! {
            ended = connection.as_mut() => {
                if let Err(error) = ended {
                    tracing::debug!(%error, "a connection ended");
                }
                return;
            }
            _ = phase.wait_for(|phase| *phase == Phase::Stopping), if !is_stopping => {
                connection.as_mut().graceful_shutdown();
                is_stopping = true;
            }
            () = silent.as_mut(), if is_waiting => {
                is_waiting = false;
                if !asked.load(Ordering::Relaxed) {
                    metrics.lost(Refused::Silent);
                    return;
                }
            }
        }
    }
}
