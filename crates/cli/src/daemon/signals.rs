//! What asks a process to end.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// How soon a signal that follows another is the same one; nobody presses Ctrl-C twice that fast.
const ECHO: Duration = Duration::from_millis(200);

/// What asks the process to end: SIGTERM, as Kubernetes does, and Ctrl-C.
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// A signal that is not the echo of the one before: `timeout` sends it to the process, and again to its group.
    pub async fn another(&mut self) {
        let first = Instant::now();
        loop {
            self.next().await;
            if first.elapsed() > ECHO {
                return;
            }
        }
    }

    /// # Errors
    /// Where the system gives none.
    pub fn new() -> anyhow::Result<Self> {
        let catch = |kind| signal(kind).context("signals");
        Ok(Self { terminate: catch(SignalKind::terminate())?, interrupt: catch(SignalKind::interrupt())? })
    }

    /// The next one.
    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
