//! Look-ups of an evaluation in a server. They fail when the time for the request is up, and lend the core while they
//! wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use pillion_host::{AccessRequest, Cluster, ClusterError, ListRequest, ResourceRequest};

use crate::gate::CoreHandle;

/// The cluster as one evaluation sees it.
pub(crate) struct LookUps {
    pub(crate) cluster: Arc<dyn Cluster>,
    pub(crate) core: CoreHandle,
    /// The deadline for the answer.
    pub(crate) until: Instant,
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
        if let Some(known) = self.cluster.get_at_once(resource) {
            return known.map(|object| object.to_vec());
        }
        self.ask(|cluster| cluster.get(resource))
    }

    fn get_at_once(&self, resource: &ResourceRequest) -> Option<Result<Arc<[u8]>, ClusterError>> {
        self.cluster.get_at_once(resource)
    }

    fn list(&self, request: &ListRequest) -> Result<Vec<u8>, ClusterError> {
        self.ask(|cluster| cluster.list(request))
    }

    fn can_i(&self, request: &AccessRequest) -> Result<Vec<u8>, ClusterError> {
        self.ask(|cluster| cluster.can_i(request))
    }
}

/// The cluster as an evaluation sees it that must not wait.
pub(crate) struct AtOnce {
    cluster: Arc<dyn Cluster>,
    has_to_wait: AtomicBool,
}

impl AtOnce {
    pub(crate) fn new(cluster: Arc<dyn Cluster>) -> Self {
        Self { cluster, has_to_wait: AtomicBool::new(false) }
    }

    /// Whether the evaluation had a look-up that takes waiting. Its answer is then void.
    pub(crate) fn has_to_wait(&self) -> bool {
        self.has_to_wait.load(Ordering::Relaxed)
    }

    fn give_up<T>(&self) -> Result<T, ClusterError> {
        self.has_to_wait.store(true, Ordering::Relaxed);
        Err(ClusterError::Failed("this takes waiting".to_owned()))
    }
}

impl Cluster for AtOnce {
    fn get(&self, resource: &ResourceRequest) -> Result<Vec<u8>, ClusterError> {
        self.get_at_once(resource).unwrap_or_else(|| self.give_up()).map(|object| object.to_vec())
    }

    fn get_at_once(&self, resource: &ResourceRequest) -> Option<Result<Arc<[u8]>, ClusterError>> {
        self.cluster.get_at_once(resource)
    }

    fn list(&self, _: &ListRequest) -> Result<Vec<u8>, ClusterError> {
        self.give_up()
    }

    fn can_i(&self, _: &AccessRequest) -> Result<Vec<u8>, ClusterError> {
        self.give_up()
    }
}
