//! Errors of a test cluster.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Why a cluster did not start, or a request to it failed.
#[derive(thiserror::Error)]
pub enum Error {
    /// A server's program is missing.
    #[error("\"{program}\" is not in {}: {remedy}", folder.display())]
    Missing {
        /// The program's name.
        program: &'static str,
        /// The folder that was searched.
        folder: PathBuf,
        /// The remedy.
        remedy: &'static str,
    },
    /// The keeper could not be started, or has ended.
    #[error("the keeper of the servers {0}")]
    Keeper(String),
    /// A server could not be started.
    #[error("\"{server}\" could not be started: {reason}")]
    Start {
        /// The name of the server.
        server: String,
        /// The system's error.
        reason: String,
    },
    /// A server ended unexpectedly.
    #[error("\"{server}\" ended with {reason}, its log says last:\n{log}")]
    Ended {
        /// The name of the server.
        server: String,
        /// The exit status or signal.
        reason: String,
        /// The end of the server's log.
        log: String,
    },
    /// A server was not ready in time.
    #[error("\"{server}\" was not ready after {} s ({reason}), its log says last:\n{log}", after.as_secs())]
    NotReady {
        /// The name of the server.
        server: String,
        /// The time limit.
        after: Duration,
        /// The last answer.
        reason: String,
        /// The end of the server's log.
        log: String,
    },
    /// A real node could not do what it was asked for.
    #[error("the node \"{node}\": {reason}")]
    Node {
        /// The name of the node's process.
        node: String,
        /// The problem.
        reason: String,
    },
    /// An awaited event did not happen in time.
    #[error("{what} did not happen within {} s", after.as_secs())]
    Timeout {
        /// The event.
        what: String,
        /// The time limit.
        after: Duration,
    },
    /// There is no free port on 127.0.0.1.
    #[error("there is no free port on 127.0.0.1: {0}")]
    Port(#[source] io::Error),
    /// A file of the cluster could not be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// A certificate or key could not be created.
    #[error("a certificate could not be made: {0}")]
    Certificate(#[from] rcgen::Error),
    /// A kubeconfig could not be created or parsed.
    #[error("the kubeconfig is not valid: {0}")]
    Kubeconfig(String),
    /// The API server answered a token request without a token.
    #[error("the API server gave no token of {0}")]
    NoToken(String),
    /// A document of a manifest is not a valid object.
    #[error("document {number} of the manifest: {reason}")]
    Manifest {
        /// The number of the document, starting at 1.
        number: usize,
        /// The problem.
        reason: String,
    },
    /// The API server refused a request, or could not be reached.
    #[error("{what}: {source}")]
    Api {
        /// The request.
        what: String,
        /// The error.
        #[source]
        source: Box<kube::Error>,
    },
}

impl Error {
    /// Wraps an error of the API server.
    pub(crate) fn api(what: impl Into<String>) -> impl FnOnce(kube::Error) -> Self {
        let what = what.into();
        move |source| Self::Api { what, source: Box::new(source) }
    }

    /// Wraps a system error about a file.
    pub(crate) fn file(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { path, source }
    }
}

/// Same as `Display`: `unwrap` in tests prints this form, and logs of servers have many lines.
impl fmt::Debug for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}
