//! The cluster that answers the look-ups of a policy.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// A `get_resource` call in the form in which policies send it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ResourceRequest {
    /// `v1`, `apps/v1`, ...
    pub api_version: String,
    /// `Namespace`, `ConfigMap`, ...
    pub kind: String,
    /// The name of the object.
    pub name: String,
    /// The namespace, if the kind is namespaced.
    pub namespace: Option<String>,
    /// Whether the answer must come from the API server rather than from the host's cache.
    pub disable_cache: bool,
    /// The fields that the policy wants; all fields if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field_masks: Option<BTreeSet<String>>,
}

/// A `list_resources_all` call, or with a namespace a `list_resources_by_namespace` call, in the form in which policies
/// send it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ListRequest {
    /// `v1`, `apps/v1`, ...
    pub api_version: String,
    /// `Namespace`, `ConfigMap`, ...
    pub kind: String,
    /// The namespace; all namespaces if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Selects objects by label, in the syntax of `kubectl get --selector`.
    #[serde(default)]
    pub label_selector: Option<String>,
    /// Selects objects by field, in the syntax of `kubectl get --field-selector`.
    #[serde(default)]
    pub field_selector: Option<String>,
    /// The fields that the policy wants; all fields if absent.
    #[serde(default)]
    pub field_masks: Option<BTreeSet<String>>,
}

/// A `can_i` call in the form in which policies send it: may this user perform this action?
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct AccessRequest {
    /// The user and the action.
    pub subject_access_review: AccessReview,
    /// Whether the answer must come from the API server rather than from the host's cache.
    pub disable_cache: bool,
}

/// A user and an action. The policy server turns them into the spec of a `SubjectAccessReview`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct AccessReview {
    /// The groups of the user.
    #[serde(default)]
    pub groups: Option<Vec<String>>,
    /// The action.
    pub resource_attributes: ResourceAttributes,
    /// The user name; for a ServiceAccount `system:serviceaccount:<namespace>:<name>`.
    pub user: String,
}

/// An action on a resource, the `resourceAttributes` of a `SubjectAccessReview`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ResourceAttributes {
    /// The API group: the core group if absent or empty, all groups if `*`.
    #[serde(default)]
    pub group: Option<String>,
    /// The name of the object; all objects if absent.
    #[serde(default)]
    pub name: Option<String>,
    /// The namespace. If absent: all namespaces, or none for a cluster-wide resource.
    #[serde(default)]
    pub namespace: Option<String>,
    /// The plural name of the resource, such as `pods`.
    pub resource: String,
    /// `log`, `status`, ...
    #[serde(default)]
    pub subresource: Option<String>,
    /// `get`, `create`, ...
    pub verb: String,
    /// The API version; all versions if absent.
    #[serde(default)]
    pub version: Option<String>,
}

/// Why a [`Cluster`] returns no object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClusterError {
    /// The object does not exist.
    #[error("not found")]
    NotFound,
    /// The policy's `contextAwareResources` do not name this kind.
    #[error("the policy may not read this kind")]
    NotGranted,
    /// The question to the cluster failed. The policy sees this text.
    #[error("{0}")]
    Failed(String),
}

/// A source of cluster objects.
///
/// Threads share it: a server evaluates many requests at once against one cluster.
pub trait Cluster: Send + Sync {
    /// Reads one object and returns its JSON.
    ///
    /// # Errors
    /// [`ClusterError`] if the object does not exist, the policy may not read it, or the cluster cannot be asked.
    fn get(&self, resource: &ResourceRequest) -> Result<Vec<u8>, ClusterError>;

    /// Reads one object if that takes no waiting; `None` if it might. Repeated reads of an object that has not changed may
    /// return the same bytes.
    ///
    /// # Errors
    /// As for [`Cluster::get`].
    fn get_at_once(&self, _: &ResourceRequest) -> Option<Result<Arc<[u8]>, ClusterError>> {
        None
    }

    /// Lists objects and returns the JSON of a List (`apiVersion`, `kind`, `metadata`, `items`).
    ///
    /// # Errors
    /// [`ClusterError`] as for [`Cluster::get`]. The default implementation always fails: it answers no lists.
    fn list(&self, request: &ListRequest) -> Result<Vec<u8>, ClusterError> {
        let operation = if request.namespace.is_some() { "list_resources_by_namespace" } else { "list_resources_all" };
        Err(ClusterError::Failed(format!("this host does not answer 'kubernetes/{operation}'")))
    }

    /// Asks whether a user may perform an action. Returns the JSON of a `SubjectAccessReview`'s status (`allowed` and,
    /// if set, `denied`, `reason`, `evaluationError`).
    ///
    /// # Errors
    /// [`ClusterError`] if the cluster cannot be asked. The default implementation always fails.
    fn can_i(&self, _: &AccessRequest) -> Result<Vec<u8>, ClusterError> {
        Err(ClusterError::Failed("this host does not answer 'kubernetes/can_i'".to_owned()))
    }
}

/// A missing cluster: every look-up fails, as in a policy server without a connection.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoCluster;

impl NoCluster {
    fn unreachable() -> ClusterError {
        ClusterError::Failed("kube::Client was not initialized properly".to_owned())
    }
}

impl Cluster for NoCluster {
    fn get(&self, _: &ResourceRequest) -> Result<Vec<u8>, ClusterError> {
        Err(Self::unreachable())
    }

    fn get_at_once(&self, _: &ResourceRequest) -> Option<Result<Arc<[u8]>, ClusterError>> {
        Some(Err(Self::unreachable()))
    }

    fn list(&self, _: &ListRequest) -> Result<Vec<u8>, ClusterError> {
        Err(Self::unreachable())
    }

    fn can_i(&self, _: &AccessRequest) -> Result<Vec<u8>, ClusterError> {
        Err(Self::unreachable())
    }
}
