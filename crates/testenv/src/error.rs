//! What can go wrong with a test cluster.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Why a cluster could not be started, or did not do what it was asked for.
#[derive(thiserror::Error)]
pub enum Error {
    /// A server's program is not where it should be.
    #[error("\"{program}\" is not in {}: {remedy}", folder.display())]
    Missing {
        /// The program's name.
        program: &'static str,
        /// Where it was looked for.
        folder: PathBuf,
        /// What to do.
        remedy: &'static str,
    },
    /// The process that holds the servers could not be started, or is gone.
    #[error("the keeper of the servers {0}")]
    Keeper(String),
    /// A server could not be started.
    #[error("\"{server}\" could not be started: {reason}")]
    Start {
        /// Its name.
        server: String,
        /// What the system said.
        reason: String,
    },
    /// A server ended by itself.
    #[error("\"{server}\" ended with {reason}, its log says last:\n{log}")]
    Ended {
        /// Its name.
        server: String,
        /// How it ended.
        reason: String,
        /// The end of its log.
        log: String,
    },
    /// A server was not ready in time.
    #[error("\"{server}\" was not ready after {} s ({reason}), its log says last:\n{log}", after.as_secs())]
    NotReady {
        /// Its name.
        server: String,
        /// How long it was waited for.
        after: Duration,
        /// What it answered last.
        reason: String,
        /// The end of its log.
        log: String,
    },
    /// Something that was waited for did not happen.
    #[error("{what} did not happen within {} s", after.as_secs())]
    Timeout {
        /// What was waited for.
        what: String,
        /// How long.
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
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A certificate or key could not be made.
    #[error("a certificate could not be made: {0}")]
    Certificate(#[from] rcgen::Error),
    /// A kubeconfig could not be made or understood.
    #[error("the kubeconfig is not valid: {0}")]
    Kubeconfig(String),
    /// The API server answered a request for a token with none.
    #[error("the API server gave no token of {0}")]
    NoToken(String),
    /// A manifest is not an object that the API server knows.
    #[error("document {number} of the manifest: {reason}")]
    Manifest {
        /// Which document, counted from 1.
        number: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// The API server refused a request, or could not be asked.
    #[error("{what}: {source}")]
    Api {
        /// What was asked for.
        what: String,
        /// The answer.
        #[source]
        source: Box<kube::Error>,
    },
}

impl Error {
    /// The API server's answer to something that was asked for.
    pub(crate) fn api(what: impl Into<String>) -> impl FnOnce(kube::Error) -> Self {
        let what = what.into();
        move |source| Self::Api { what, source: Box::new(source) }
    }

    /// What the system said about a file.
    pub(crate) fn file(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { path, source }
    }
}

/// As for people: it is the tests' `unwrap` that shows it, and the log of a server has many lines.
impl fmt::Debug for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}
