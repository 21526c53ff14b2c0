//! Why the API server did not carry out a write.

use std::time::Duration;

/// The problem with a write.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteProblem {
    /// An object of this name exists already. The next plan sees it.
    #[error("it exists already")]
    AlreadyExists,
    /// The object has changed since it was observed. The next plan sees its current state.
    #[error("it was changed since it was read")]
    Conflict,
    /// The object or its namespace is gone.
    #[error("it is not there")]
    NotFound,
    /// The namespace is being deleted and accepts no new objects.
    #[error("its namespace is being deleted")]
    NamespaceTerminating,
    /// The controller tried to grant a permission that it does not hold itself; the API server refuses that (ESC-6).
    #[error("{0}")]
    Escalation(String),
    /// The controller lacks the permission for this write.
    #[error("{0}")]
    Forbidden(String),
    /// The object is invalid; a retry does not help.
    #[error("{0}")]
    Invalid(String),
    /// The API server is overloaded and says when to come back (HTTP 429 or 503 with `retryAfterSeconds`).
    #[error("{message}")]
    Later {
        /// The API server's text.
        message: String,
        /// How long to wait.
        after: Duration,
    },
    /// A PodDisruptionBudget forbids the eviction for now (ROLL-66).
    #[error("{message}")]
    Held {
        /// The API server's text.
        message: Box<str>,
        /// How long to wait, if the API server says so.
        after: Option<Duration>,
    },
    /// More than one PodDisruptionBudget selects the Pod, and the API server evicts no such Pod (ROLL-66).
    #[error("{0}")]
    SeveralBudgets(String),
    /// Anything else: no connection, no answer in time, an error of the API server.
    #[error("{0}")]
    Failed(String),
}

impl WriteProblem {
    /// Returns how long the API server asks to wait, if it does.
    pub fn retry_after(&self) -> Option<Duration> {
        if let Self::Later { after, .. } = self { Some(*after) } else { None }
    }

    /// Whether another client was faster. The watch shows the current state and the next plan covers it, so no retry is
    /// needed.
    pub fn is_overtaken(&self) -> bool {
        matches!(self, Self::AlreadyExists | Self::Conflict | Self::NotFound | Self::NamespaceTerminating)
    }
}
