//! Connections: accepts, secures and serves them, and closes them when the server stops.
//!
//! A connection is silent until the head of its first request is complete. If the maximum number of connections is
//! open, the oldest silent one makes room for a new one, so that clients that say nothing keep nobody out. Connections
//! that have made a request are never displaced: an API server keeps its own open and idle. If there are only such
//! connections, a new one is refused.

use std::convert::Infallible;
use std::io;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use axum::Router;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tower::Service as _;

use crate::drain::Phase;
use crate::line::{Displaced, Line, Member};
use crate::metrics::{Refused, Shared};

/// Timeout for the TLS handshake, for the first request, and for the head of each further request.
const PATIENCE: Duration = Duration::from_secs(10);
/// HTTP/2: interval of keep-alive pings to a silent client, and the timeout for its reply.
const PING: Duration = Duration::from_secs(30);
/// HTTP/2: concurrent requests on one connection. The API server opens another connection if it needs more.
const STREAMS: u32 = 250;
const HEADERS: u32 = 16 * 1024;
/// The longest pause after a connection could not be accepted.
const PAUSE: Duration = Duration::from_millis(50);
/// The shortest interval between warnings that connections could not be accepted.
const WARNINGS: Duration = Duration::from_secs(10);

/// A port and its routes.
pub(crate) struct Port {
    pub(crate) listener: TcpListener,
    /// `None` for plain HTTP.
    pub(crate) tls: Option<TlsAcceptor>,
    pub(crate) router: Router,
    pub(crate) room: Room,
    pub(crate) metrics: Shared,
}

/// Room for a number of connections.
pub(crate) struct Room {
    free: Arc<Semaphore>,
    silent: Arc<Line<OwnedSemaphorePermit>>,
}

/// A connection without a request. It can be displaced.
struct Silent {
    member: Member<OwnedSemaphorePermit>,
    displaced: Displaced,
}

impl Room {
    pub(crate) fn new(connections: usize) -> Self {
        Self { free: Arc::new(Semaphore::new(connections)), silent: Arc::default() }
    }

    /// Makes room for a connection, by displacing the oldest silent one if there is no other way.
    ///
    /// # Errors
    /// [`Refused::TooMany`] if every connection has made a request.
    fn enter(&self, metrics: &Shared) -> Result<Silent, Refused> {
        let free = Arc::clone(&self.free).try_acquire_owned().ok();
        let permit = free.or_else(|| self.displace(metrics)).ok_or(Refused::TooMany)?;
        let (member, displaced) = self.silent.join(permit);
        Ok(Silent { member, displaced })
    }

    fn displace(&self, metrics: &Shared) -> Option<OwnedSemaphorePermit> {
        let permit = self.silent.displace_oldest()?;
        metrics.lost(Refused::Displaced);
        Some(permit)
    }
}

impl Port {
    /// Accepts connections until the server stops, then waits for the open ones. Dropping the future closes them.
    pub(crate) async fn serve(self, mut phase: watch::Receiver<Phase>) {
        let mut open = JoinSet::new();
        let mut warned = None;
        loop {
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                _ = phase.wait_for(|phase| *phase == Phase::Stopping) => break,
                Some(_) = open.join_next(), if !open.is_empty() => continue,
            };
            let stream = match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    self.make_do(&error, &mut open, &mut warned).await;
                    continue;
                }
            };
            let silent = match self.room.enter(&self.metrics) {
                Ok(silent) => silent,
                Err(refused) => {
                    self.metrics.lost(refused);
                    continue;
                }
            };
            let (tls, router, metrics) = (self.tls.clone(), self.router.clone(), Arc::clone(&self.metrics));
            let phase = phase.clone();
            open.spawn(async move {
                let _counted = Counted::new(&metrics);
                connection(stream, silent, tls, router, &metrics, phase).await;
            });
        }
        drop(self.listener);
        while open.join_next().await.is_some() {}
    }

    /// Continues after a connection could not be accepted, for example because the process has no free file descriptor:
    /// the oldest silent connection gives its own back.
    async fn make_do(&self, error: &io::Error, open: &mut JoinSet<()>, warned: &mut Option<Instant>) {
        if warned.is_none_or(|warned| warned.elapsed() > WARNINGS) {
            *warned = Some(Instant::now());
            tracing::warn!(%error, "a connection could not be accepted");
        }
        drop(self.room.displace(&self.metrics));
        // The pause ends when a connection has ended. Its end frees a file descriptor.
        let ended = async {
            if open.join_next().await.is_none() {
                sleep(PAUSE).await;
            }
        };
        // Without an end, only the pause is over.
        let _ = timeout(PAUSE, ended).await;
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
    silent: Silent,
    tls: Option<TlsAcceptor>,
    router: Router,
    metrics: &Shared,
    phase: watch::Receiver<Phase>,
) {
    // Answers are small and the client waits for them.
    let _ = stream.set_nodelay(true);
    let Some(tls) = tls else { return serve(stream, silent, router, metrics, phase).await };
    let Silent { member, mut displaced } = silent;
    let secured = tokio::select! {
        secured = timeout(PATIENCE, tls.accept(stream)) => secured,
        _ = &mut displaced => return,
    };
    match secured {
        Ok(Ok(stream)) => serve(stream, Silent { member, displaced }, router, metrics, phase).await,
        failed => {
            metrics.lost(Refused::Handshake);
            if let Ok(Err(error)) = failed {
                tracing::debug!(%error, "no TLS");
            }
        }
    }
}

async fn serve<I>(stream: I, silent: Silent, router: Router, metrics: &Shared, mut phase: watch::Receiver<Phase>)
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let Silent { member, displaced } = silent;
    // The first request takes the connection out of the line of silent ones, before the request is worked on.
    let asked = Arc::new(OnceLock::new());
    let seen = Arc::clone(&asked);
    let service = service_fn(move |request| {
        seen.get_or_init(|| member.leave());
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
    let mut silence = pin!(timeout(PATIENCE, displaced));
    let (mut is_silent, mut is_stopping) = (true, false);
    loop {
        tokio::select! {
            ended = connection.as_mut() => {
                if let Err(error) = ended {
                    let cause = error.source().map(tracing::field::display);
                    tracing::debug!(%error, cause, "a connection ended");
                }
                return;
            }
            _ = phase.wait_for(|phase| *phase == Phase::Stopping), if !is_stopping => {
                connection.as_mut().graceful_shutdown();
                is_stopping = true;
            }
            ended = silence.as_mut(), if is_silent => {
                is_silent = false;
                match ended {
                    Ok(Ok(())) => return,
                    // The connection has left the line: it has made a request.
                    Ok(Err(_)) => {}
                    Err(_) if asked.get().is_some() => {}
                    Err(_) => {
                        metrics.lost(Refused::Silent);
                        return;
                    }
                }
            }
        }
    }
}
