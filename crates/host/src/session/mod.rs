//! Sessions: recorded questions of a policy to its host, with the answers, in the YAML files of `kwctl run`.
//!
//! A [`Recorder`] wraps a cluster and records the exchanges. A [`Replay`] answers from such a file, without a cluster.
//! `kwctl` and this host read each other's files. A session is a list of exchanges:
//!
//! ```yaml
//! - type: Exchange
//!   request: |
//!     !KubernetesGetResource
//!     api_version: v1
//!     kind: Namespace
//!     name: default
//!     namespace: null
//!     disable_cache: true
//!     field_masks: null
//!   response:
//!     type: Success
//!     payload: '{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"default"}}'
//! ```
//!
//! A session never contains calls that the policy may not make, because the host refuses those first.

mod exchange;
mod record;
mod replay;
mod write;

use std::path::{Path, PathBuf};

use crate::file;

pub use exchange::{Exchange, Question, Response};
pub use record::Recorder;
pub use replay::Replay;

/// Why a session cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The file cannot be read.
    #[error("{}: {error}", path.display())]
    Read {
        /// The system's error.
        path: PathBuf,
        /// The system's error.
        error: std::io::Error,
    },
    /// The file cannot be written.
    #[error("{}: {error}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: std::io::Error,
    },
    /// The text is not a list of exchanges.
    #[error("not a session of host capabilities: {0}")]
    Syntax(String),
    /// The request of an exchange is not one that can be replayed.
    #[error("not a session of host capabilities: exchange {number}: request: {problem}")]
    Request {
        /// The number of the exchange, starting at 1.
        number: usize,
        /// The problem.
        problem: String,
    },
}

/// Reads a session.
///
/// # Errors
/// [`SessionError`] if the text is not a list of exchanges about Kubernetes.
pub fn parse(text: &str) -> Result<Vec<Exchange>, SessionError> {
    // kwctl reads `yes` as a string and writes it without quotes.
    let options = serde_saphyr::options! { strict_booleans: true };
    let wire: Vec<exchange::Wire> =
        serde_saphyr::from_str_with_options(text, options).map_err(|error| SessionError::Syntax(error.to_string()))?;
    let read = |(index, wire): (usize, exchange::Wire)| {
        let question =
            Question::parse(&wire.request).map_err(|problem| SessionError::Request { number: index + 1, problem })?;
        Ok(Exchange { question, response: wire.response })
    };
    wire.into_iter().enumerate().map(read).collect()
}

/// Returns the YAML text of a session.
pub fn to_text(exchanges: &[Exchange]) -> String {
    write::session(exchanges)
}

/// Reads a session file.
///
/// # Errors
/// [`SessionError`] if the file cannot be read or is not a session.
pub fn load(path: &Path) -> Result<Vec<Exchange>, SessionError> {
    let text = std::fs::read_to_string(path).map_err(|error| SessionError::Read { path: path.to_owned(), error })?;
    parse(&text)
}

/// Writes a session file atomically.
///
/// # Errors
/// [`SessionError::Write`] if the file cannot be written.
pub fn save(path: &Path, exchanges: &[Exchange]) -> Result<(), SessionError> {
    file::replace(path, to_text(exchanges).as_bytes())
        .map_err(|error| SessionError::Write { path: path.to_owned(), error })
}

#[cfg(test)]
mod tests;
