//! The signals that ask a process to end.

use std::time::{Duration, Instant};

use anyhow::Context as _;

/// A signal this soon after another one is the same request: Ctrl-C is never pressed twice that fast.
const ECHO: Duration = Duration::from_millis(200);

/// Receives the requests to end: SIGTERM, which Kubernetes sends (on Windows Ctrl-Break), and Ctrl-C.
pub struct Signals {
    terminate: system::Terminate,
    interrupt: system::Interrupt,
}

#[cfg(unix)]
mod system {
    use std::io;

    use tokio::signal::unix::{Signal, SignalKind, signal};

    pub(super) type Terminate = Signal;
    pub(super) type Interrupt = Signal;

    pub(super) fn terminate() -> io::Result<Terminate> {
        signal(SignalKind::terminate())
    }

    pub(super) fn interrupt() -> io::Result<Interrupt> {
        signal(SignalKind::interrupt())
    }
}

#[cfg(windows)]
mod system {
    pub(super) use tokio::signal::windows::{
        CtrlBreak as Terminate, CtrlC as Interrupt, ctrl_break as terminate, ctrl_c as interrupt,
    };
}

impl Signals {
    /// Waits for a signal that is not an echo of the one before. `timeout` signals the process and then its whole
    /// group.
    pub async fn another(&mut self) {
        let first = Instant::now();
        loop {
            self.next().await;
            if first.elapsed() > ECHO {
                return;
            }
        }
    }

    /// Listens for both signals.
    ///
    /// # Errors
    /// If the system refuses a signal handler.
    pub fn new() -> anyhow::Result<Self> {
        Ok(Self {
            terminate: system::terminate().context("signals")?,
            interrupt: system::interrupt().context("signals")?,
        })
    }

    /// Waits for the next signal.
    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
