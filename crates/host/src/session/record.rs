//! Recording sessions.

use std::sync::Arc;

use parking_lot::Mutex;

use super::{Exchange, Question, Response};
use crate::callback;
use crate::cluster::{AccessRequest, Cluster, ClusterError, ListRequest, ResourceRequest};

/// Forwards questions to a cluster and records them with the answers.
pub struct Recorder {
    cluster: Arc<dyn Cluster>,
    exchanges: Mutex<Vec<Exchange>>,
}

impl Recorder {
    /// Records the questions to `cluster`.
    pub fn new(cluster: Arc<dyn Cluster>) -> Self {
        Self { cluster, exchanges: Mutex::default() }
    }

    /// Returns the exchanges so far, in order.
    pub fn exchanges(&self) -> Vec<Exchange> {
        self.exchanges.lock().clone()
    }

    fn record(&self, question: Question, answer: &Result<Vec<u8>, ClusterError>, not_found: impl Fn() -> String) {
        let response = match answer {
            Ok(payload) => Response::Success { payload: String::from_utf8_lossy(payload).into_owned() },
            Err(ClusterError::NotFound) => Response::Error { message: not_found() },
            Err(ClusterError::Failed(message)) => Response::Error { message: message.clone() },
            // The question was refused before it reached the cluster.
            Err(ClusterError::NotGranted) => return,
        };
        self.exchanges.lock().push(Exchange { question, response });
    }
}

impl Cluster for Recorder {
    fn get(&self, resource: &ResourceRequest) -> Result<Vec<u8>, ClusterError> {
        let answer = self.cluster.get(resource);
        self.record(resource.into(), &answer, || callback::not_found(resource));
        answer
    }

    fn list(&self, request: &ListRequest) -> Result<Vec<u8>, ClusterError> {
        let answer = self.cluster.list(request);
        self.record(request.into(), &answer, || ClusterError::NotFound.to_string());
        answer
    }

    fn can_i(&self, request: &AccessRequest) -> Result<Vec<u8>, ClusterError> {
        let answer = self.cluster.can_i(request);
        self.record(request.into(), &answer, || ClusterError::NotFound.to_string());
        answer
    }
}
