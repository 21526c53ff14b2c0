//! Calls servers as an API server does: over one connection that stays open, with a new one if that breaks. A request
//! that a server has not begun to process, as it says, is sent again.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pillion_server::client::{Answer, Client, ClientError, Protocol, TlsServer};
use tokio::time::{sleep, timeout};

/// The timeout of a call, above that of the review.
const LONGEST: Duration = Duration::from_secs(12);
const TRIES: usize = 8;
/// The text of `h2` if the server closed the connection in order.
const IN_ORDER: &str = "not a result of an error";

/// A caller. If a server cannot be reached, it calls the next one.
pub(super) struct Caller {
    targets: Vec<TlsServer>,
    state: Mutex<CallerState>,
    /// Held while a connection is opened, so that concurrent calls open one, and not one each.
    opening: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct CallerState {
    connections: usize,
    failures: usize,
    open: Option<Arc<Client>>,
}

impl Caller {
    pub(super) fn new(targets: Vec<TlsServer>) -> Self {
        Self { targets, state: Mutex::default(), opening: tokio::sync::Mutex::default() }
    }

    /// Sends a review.
    ///
    /// # Errors
    /// If it gets no answer. The text says why.
    pub(super) async fn post(&self, path: &str, body: &str) -> Result<Answer, String> {
        timeout(LONGEST, self.tried(path, body)).await.unwrap_or_else(|_| Err("no answer in time".to_owned()))
    }

    async fn tried(&self, path: &str, body: &str) -> Result<Answer, String> {
        let mut problem = String::new();
        for _ in 0..TRIES {
            let (number, mut client) = match self.client().await {
                Ok(found) => found,
                Err(error) => {
                    problem = error;
                    sleep(Duration::from_millis(20)).await;
                    continue;
                }
            };
            match client.post(path, body.to_owned()).await {
                Ok(answer) => return Ok(answer),
                Err(error) => {
                    self.forget(number);
                    problem = chain(&error);
                    if !was_not_processed(&error) {
                        return Err(problem);
                    }
                }
            }
        }
        Err(problem)
    }

    async fn client(&self) -> Result<(usize, Client), String> {
        if let Some(open) = self.open() {
            return Ok(open);
        }
        let _opening = self.opening.lock().await;
        if let Some(open) = self.open() {
            return Ok(open);
        }
        let target = {
            let state = self.state();
            self.targets.get(state.failures % self.targets.len().max(1)).cloned().ok_or("no server")?
        };
        let connected = Client::connect(&target, Protocol::Http2).await;
        let mut state = self.state();
        let client = connected.map_err(|error| {
            state.failures += 1;
            chain(&error)
        })?;
        let shared = client.share().ok_or("a connection that cannot be shared")?;
        state.connections += 1;
        state.open = Some(Arc::new(client));
        Ok((state.connections, shared))
    }

    /// Returns the open connection and its number.
    fn open(&self) -> Option<(usize, Client)> {
        let state = self.state();
        Some((state.connections, state.open.as_ref()?.share()?))
    }

    /// Returns how many connections were opened.
    pub(super) fn connections(&self) -> usize {
        self.state().connections
    }

    fn forget(&self, number: usize) {
        let mut state = self.state();
        if state.connections == number {
            state.open = None;
        }
    }

    fn state(&self) -> parking_lot::MutexGuard<'_, CallerState> {
        self.state.lock()
    }
}

/// Whether the request did not reach the server, or the server said that it will not process it.
fn was_not_processed(error: &ClientError) -> bool {
    let ClientError::Http(error) = error else { return false };
    error.is_canceled() || error.is_closed() || chain(error).contains(IN_ORDER)
}

/// Returns an error with its causes.
fn chain(error: &(dyn Error + 'static)) -> String {
    anyhow::Chain::new(error).map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
