//! Look-ups of an evaluation in a server. They fail when the time for the request is up, and lend the core while they
//! wait.

use std::sync::Arc;
use std::time::Instant;

use super::gate::CoreHandle;
use crate::cluster::{AccessRequest, Cluster, ClusterError, ListRequest, ResourceRequest};

/// The cluster as one evaluation sees it.
pub(super) struct LookUps {
    pub(super) cluster: Arc<dyn Cluster>,
    pub(super) core: CoreHandle,
    /// The deadline for the answer.
    pub(super) until: Instant,
}

impl LookUps {
    fn ask<T>(&self, question: impl FnOnce(&dyn Cluster) -> Result<T, ClusterError>) -> Result<T, ClusterError> {
        if Instant::now() >= self.until {
            return Err(ClusterError::Failed("the time for this request is up".to_owned()));
        }
        self.core.lend(|| question(self.cluster.as_ref()))
    }
}

impl Cluster for LookUps {
    fn get(&self, resource: &ResourceRequest) -> Result<Vec<u8>, ClusterError> {
        self.ask(|cluster| cluster.get(resource))
    }

    fn list(&self, request: &ListRequest) -> Result<Vec<u8>, ClusterError> {
        self.ask(|cluster| cluster.list(request))
    }

    fn can_i(&self, request: &AccessRequest) -> Result<Vec<u8>, ClusterError> {
        self.ask(|cluster| cluster.can_i(request))
    }
}
