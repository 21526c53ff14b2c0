//! Replaying sessions.

use std::collections::VecDeque;

use parking_lot::Mutex;

use super::{Exchange, Question, Response};
use crate::cluster::{AccessRequest, Cluster, ClusterError, ListRequest, ResourceRequest};

/// Answers from the exchanges of a session, each once and in order. Every question must equal the recorded one.
pub struct Replay {
    exchanges: Mutex<VecDeque<Exchange>>,
}

impl Replay {
    /// Replays these exchanges.
    pub fn new(exchanges: Vec<Exchange>) -> Self {
        Self { exchanges: Mutex::new(exchanges.into()) }
    }

    /// Returns the exchanges that were not used.
    pub fn left_over(&self) -> Vec<Exchange> {
        self.exchanges.lock().iter().cloned().collect()
    }

    fn answer(&self, question: &Question) -> Result<Vec<u8>, ClusterError> {
        let next = self.exchanges.lock().pop_front();
        let Some(Exchange { question: expected, response }) = next else {
            return Err(ClusterError::Failed("the list of recorded responses is empty".to_owned()));
        };
        if expected != *question {
            return Err(ClusterError::Failed(format!(
                "Replay error: unexpected request. Was expecting {expected:?}, got {question:?} instead"
            )));
        }
        match response {
            Response::Success { payload } => Ok(payload.into_bytes()),
            Response::Error { message } => Err(ClusterError::Failed(message)),
        }
    }
}

impl Cluster for Replay {
    fn get(&self, resource: &ResourceRequest) -> Result<Vec<u8>, ClusterError> {
        self.answer(&resource.into())
    }

    fn list(&self, request: &ListRequest) -> Result<Vec<u8>, ClusterError> {
        self.answer(&request.into())
    }

    fn can_i(&self, request: &AccessRequest) -> Result<Vec<u8>, ClusterError> {
        self.answer(&request.into())
    }
}
