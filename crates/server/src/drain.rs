//! Shutdown of a server: first it reports that it is not ready, so that no new clients come; then it finishes open
//! requests; then it ends.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

/// Maximum wait for open requests: no API server waits longer for an answer.
const LONGEST: Duration = Duration::from_secs(30);

/// The phases of a server's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// The server accepts and serves requests.
    Serving,
    /// The server still serves requests, but reports that it is not ready.
    Draining,
    /// The server accepts no connections and closes idle ones.
    Stopping,
}

/// A running server. Dropping it stops the server without waiting.
#[derive(Debug)]
pub struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) health_address: Option<SocketAddr>,
    pub(crate) phase: watch::Sender<Phase>,
    pub(crate) task: JoinHandle<()>,
}

impl Running {
    /// Returns the address for HTTPS.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the address for probes and metrics without TLS.
    pub fn health_address(&self) -> Option<SocketAddr> {
        self.health_address
    }

    /// Reports not ready but keeps serving for `delay`, while endpoints are updated. Then finishes open requests, for
    /// at most 30 seconds. Returns `false` if some are left unfinished.
    pub async fn drain(mut self, delay: Duration) -> bool {
        self.phase.send_replace(Phase::Draining);
        tracing::info!(delay_ms = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX), "draining");
        sleep(delay).await;
        self.phase.send_replace(Phase::Stopping);
        let is_done = timeout(LONGEST, &mut self.task).await.is_ok();
        tracing::info!(is_done, "stopped");
        is_done
    }

    /// Closes everything at once. Open requests get no answer.
    pub async fn kill(mut self) {
        self.task.abort();
        // An aborted task has no useful result.
        let _ = (&mut self.task).await;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}
