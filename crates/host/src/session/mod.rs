//! Sessions: what a policy asked of its host and what it was told, in the YAML files of `kwctl run`.
//!
//! A [`Recorder`] stands before a cluster and writes down what passes; a [`Replay`] needs no cluster and answers from
//! such a file. Either tool reads the files of the other. A session holds one exchange after the other:
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
//! Calls that a policy may not make are never part of a session: they are refused before.

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
        /// The file.
        path: PathBuf,
        /// What the system says.
        error: std::io::Error,
    },
    /// The file cannot be written.
    #[error("{}: {error}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system says.
        error: std::io::Error,
    },
    /// The text is no list of exchanges.
    #[error("not a session of host capabilities: {0}")]
    Syntax(String),
    /// The request of an exchange is none that can be replayed.
    #[error("not a session of host capabilities: exchange {number}: request: {problem}")]
    Request {
        /// Which exchange, from 1.
        number: usize,
        /// What is wrong.
        problem: String,
    },
}

/// Reads a session.
///
/// # Errors
/// [`SessionError`] where the text is no list of exchanges about Kubernetes.
pub fn parse(text: &str) -> Result<Vec<Exchange>, SessionError> {
    // `yes` is a text for kwctl, which writes it without quotes.
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

/// The text of a session.
pub fn to_text(exchanges: &[Exchange]) -> String {
    write::session(exchanges)
}

/// Reads a session file.
///
/// # Errors
/// [`SessionError`] where the file cannot be read, or is no session.
pub fn load(path: &Path) -> Result<Vec<Exchange>, SessionError> {
    let text = std::fs::read_to_string(path).map_err(|error| SessionError::Read { path: path.to_owned(), error })?;
    parse(&text)
}

/// Writes a session file, in whole or not at all.
///
/// # Errors
/// [`SessionError::Write`] where the file cannot be written.
pub fn save(path: &Path, exchanges: &[Exchange]) -> Result<(), SessionError> {
    file::replace(path, to_text(exchanges).as_bytes())
        .map_err(|error| SessionError::Write { path: path.to_owned(), error })
}

#[cfg(test)]
mod tests;
