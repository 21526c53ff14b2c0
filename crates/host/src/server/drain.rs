//! How a server ends: first nobody new is sent to it, then it finishes what it has, then it is gone.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

/// How long open requests are waited for: no API server waits longer.
const LONGEST: Duration = Duration::from_secs(30);

/// Where the server is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    /// It is ready as far as it knows.
    Serving,
    /// It serves, and says that it is not ready.
    Draining,
    /// It accepts no connections and closes those that are idle.
    Stopping,
}

/// A server that runs. Dropping it stops the server without waiting.
#[derive(Debug)]
pub struct Running {
    pub(super) address: SocketAddr,
    pub(super) health_address: Option<SocketAddr>,
    pub(super) phase: watch::Sender<Phase>,
    pub(super) task: JoinHandle<()>,
}

impl Running {
    /// Where it serves HTTPS.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where it serves probes and metrics without TLS.
    pub fn health_address(&self) -> Option<SocketAddr> {
        self.health_address
    }

    /// Says that it is not ready, and serves all the same for `delay`, while endpoints are being updated; then
    /// finishes what is in flight, 30 seconds at most. `false` where something was left unfinished.
    pub async fn drain(mut self, delay: Duration) -> bool {
        self.phase.send_replace(Phase::Draining);
        tracing::info!(delay_ms = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX), "draining");
        sleep(delay).await;
        self.phase.send_replace(Phase::Stopping);
        let is_done = timeout(LONGEST, &mut self.task).await.is_ok();
        tracing::info!(is_done, "stopped");
        is_done
    }

    /// Closes everything at once. What is in flight gets no answer.
    pub async fn kill(mut self) {
        self.task.abort();
        // It was aborted; how it ended says nothing.
        let _ = (&mut self.task).await;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}
