//! What answers the look-ups of a policy.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// A `get_resource` call, as policies send it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ResourceRequest {
    /// `v1`, `apps/v1`, ...
    pub api_version: String,
    /// `Namespace`, `ConfigMap`, ...
    pub kind: String,
    /// The name of the object.
    pub name: String,
    /// The namespace, for namespaced kinds.
    pub namespace: Option<String>,
    /// Whether the answer has to come from the API server rather than from the host's cache.
    pub disable_cache: bool,
    /// The fields that the policy wants; all of them where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field_masks: Option<BTreeSet<String>>,
}

/// Why a [`Cluster`] has no object to show.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClusterError {
    /// There is no such object.
    #[error("not found")]
    NotFound,
    /// The policy's `contextAwareResources` do not name this kind.
    #[error("the policy may not read this kind")]
    NotGranted,
    /// The cluster could not be asked; the text is what the policy gets to see.
    #[error("{0}")]
    Failed(String),
}

/// Something that knows the objects of a cluster.
///
/// Shared between threads: a server evaluates many requests at once against one cluster.
pub trait Cluster: Send + Sync {
    /// Reads one object; the answer is its JSON.
    ///
    /// # Errors
    /// [`ClusterError`] where there is no such object, where the policy may not ask, and where nobody could be asked.
    fn get(&self, resource: &ResourceRequest) -> Result<Vec<u8>, ClusterError>;
}

/// No cluster at all: every look-up fails, as in a policy server without a connection.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoCluster;

impl Cluster for NoCluster {
    fn get(&self, _: &ResourceRequest) -> Result<Vec<u8>, ClusterError> {
        Err(ClusterError::Failed("kube::Client was not initialized properly".to_owned()))
    }
}
