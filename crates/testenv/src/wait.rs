//! Waits for asynchronous effects in a cluster.

use std::time::{Duration, Instant};

use tokio::time::sleep;

use crate::Error;

const LOOK: Duration = Duration::from_millis(100);

/// Calls `ask` ten times a second until it returns an answer.
///
/// # Errors
///
/// If there is no answer after this time. The last call starts when the time is up, so that a slow machine gets at
/// least one late try.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// use std::time::Duration;
///
/// let asked = std::cell::Cell::new(0);
/// let answer = pillion_testenv::until("the third try", Duration::from_secs(5), async || {
///     asked.set(asked.get() + 1);
///     (asked.get() == 3).then_some("here")
/// });
/// assert_eq!(answer.await.unwrap(), "here");
/// # });
/// ```
pub async fn until<T, F>(what: &str, after: Duration, mut ask: impl FnMut() -> F) -> Result<T, Error>
where
    F: Future<Output = Option<T>>,
{
    let started = Instant::now();
    loop {
        let late = started.elapsed() >= after;
        if let Some(answer) = ask().await {
            return Ok(answer);
        }
        if late {
            return Err(Error::Timeout { what: what.to_owned(), after });
        }
        sleep(LOOK).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_does_not_happen_is_named_with_the_time() {
        let error = until("the Deployment becoming ready", Duration::ZERO, async || None::<()>).await.unwrap_err();

        assert_eq!(error.to_string(), "the Deployment becoming ready did not happen within 0 s");
    }
}
