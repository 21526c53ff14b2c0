//! The deadline of a request: how long the API server waits for the answer.

use std::time::{Duration, Instant};

use pillion_kubernetes::duration;

/// The timeout if the request has none: the default of `timeoutSeconds`.
const DEFAULT: Duration = Duration::from_secs(10);
/// The largest `timeoutSeconds`.
const LONGEST: Duration = Duration::from_secs(30);
/// The time reserved for sending the answer.
const WAY_BACK: Duration = Duration::from_millis(100);

/// Why the timeout cannot be read.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid timeout {0:?}: must be a positive duration, as in ?timeout=10s")]
pub(crate) struct InvalidTimeout(String);

/// Returns the deadline of a request that arrived at `now`. kube-apiserver sends its timeout as `?timeout=10s`; a tenth
/// of it, at most 100 ms, is reserved for sending the answer. Without a timeout, 10 s are assumed. A timeout above 30 s
/// counts as 30 s.
///
/// # Errors
/// If the timeout is not a positive duration.
pub(crate) fn parse(query: Option<&str>, now: Instant) -> Result<Instant, InvalidTimeout> {
    let timeout = query.unwrap_or_default().split('&').find_map(|pair| pair.strip_prefix("timeout="));
    let wait = match timeout {
        None => DEFAULT,
        Some(text) => duration::Duration::parse(text)
            .ok()
            .and_then(|duration| u64::try_from(duration.0).ok())
            .filter(|nanoseconds| *nanoseconds > 0)
            .map(Duration::from_nanos)
            .ok_or_else(|| InvalidTimeout(text.chars().take(40).collect()))?,
    };
    let wait = wait.min(LONGEST);
    Ok(now + wait.saturating_sub(WAY_BACK.min(wait / 10)))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::not_said(None, 9_900)]
    #[case::something_else(Some("dryRun=All"), 9_900)]
    #[case::as_the_api_server_says_it(Some("timeout=10s"), 9_900)]
    #[case::among_others(Some("a=b&timeout=2s"), 1_900)]
    #[case::short(Some("timeout=100ms"), 90)]
    #[case::longer_than_there_is(Some("timeout=1h"), 29_900)]
    fn the_way_back_is_left(#[case] query: Option<&str>, #[case] milliseconds: u64) {
        let now = Instant::now();
        assert_eq!(parse(query, now).unwrap() - now, Duration::from_millis(milliseconds));
    }

    #[rstest]
    #[case("timeout=")]
    #[case("timeout=0s")]
    #[case("timeout=-1s")]
    #[case("timeout=ten")]
    fn what_is_no_time_is_refused(#[case] query: &str) {
        assert!(parse(Some(query), Instant::now()).unwrap_err().to_string().ends_with("as in ?timeout=10s"));
    }
}
