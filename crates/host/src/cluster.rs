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

/// For an object of the core's group, with all of its fields.
#[cfg(test)]
pub(crate) fn get_request(kind: &str, namespace: Option<&str>, name: &str) -> ResourceRequest {
    ResourceRequest {
        api_version: "v1".to_owned(),
        kind: kind.to_owned(),
        name: name.to_owned(),
        namespace: namespace.map(str::to_owned),
        disable_cache: true,
        field_masks: None,
    }
}

/// A `list_resources_all` call, or with a namespace a `list_resources_by_namespace` call, as policies send them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ListRequest {
    /// `v1`, `apps/v1`, ...
    pub api_version: String,
    /// `Namespace`, `ConfigMap`, ...
    pub kind: String,
    /// The namespace; all of them where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Which labels the objects have, as `kubectl get --selector` takes it.
    #[serde(default)]
    pub label_selector: Option<String>,
    /// Which fields the objects have, as `kubectl get --field-selector` takes it.
    #[serde(default)]
    pub field_selector: Option<String>,
    /// The fields that the policy wants; all of them where absent.
    #[serde(default)]
    pub field_masks: Option<BTreeSet<String>>,
}

/// A `can_i` call, as policies send it: may this user do that?
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct AccessRequest {
    /// Who wants to do what.
    pub subject_access_review: AccessReview,
    /// Whether the answer has to come from the API server rather than from the host's cache.
    pub disable_cache: bool,
}

/// Who wants to do what; the policy server makes the spec of a `SubjectAccessReview` of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct AccessReview {
    /// The groups of the user.
    #[serde(default)]
    pub groups: Option<Vec<String>>,
    /// What the user wants to do.
    pub resource_attributes: ResourceAttributes,
    /// The user, for a ServiceAccount `system:serviceaccount:<namespace>:<name>`.
    pub user: String,
}

/// An action on a resource, the `resourceAttributes` of a `SubjectAccessReview`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ResourceAttributes {
    /// The API group; the core group where absent or empty, all of them where `*`.
    #[serde(default)]
    pub group: Option<String>,
    /// The object; all of them where absent.
    #[serde(default)]
    pub name: Option<String>,
    /// The namespace; where absent, all of them or none for a cluster-wide resource.
    #[serde(default)]
    pub namespace: Option<String>,
    /// The resource in the plural, `pods`.
    pub resource: String,
    /// `log`, `status`, ...
    #[serde(default)]
    pub subresource: Option<String>,
    /// `get`, `create`, ...
    pub verb: String,
    /// The API version; all of them where absent.
    #[serde(default)]
    pub version: Option<String>,
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

    /// Lists objects; the answer is the JSON of a List (`apiVersion`, `kind`, `metadata`, `items`).
    ///
    /// # Errors
    /// [`ClusterError`] as [`Cluster::get`], and where this cluster answers no lists, as it does by default.
    fn list(&self, request: &ListRequest) -> Result<Vec<u8>, ClusterError> {
        let operation = if request.namespace.is_some() { "list_resources_by_namespace" } else { "list_resources_all" };
        Err(ClusterError::Failed(format!("this host does not answer 'kubernetes/{operation}'")))
    }

    /// Asks whether a user may do something; the answer is the JSON of a `SubjectAccessReview`'s status
    /// (`allowed`, and where they are set `denied`, `reason`, `evaluationError`).
    ///
    /// # Errors
    /// [`ClusterError`] where nobody could be asked, and where this cluster does not know, as it does by default.
    fn can_i(&self, _: &AccessRequest) -> Result<Vec<u8>, ClusterError> {
        Err(ClusterError::Failed("this host does not answer 'kubernetes/can_i'".to_owned()))
    }
}

/// No cluster at all: every look-up fails, as in a policy server without a connection.
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

    fn list(&self, _: &ListRequest) -> Result<Vec<u8>, ClusterError> {
        Err(Self::unreachable())
    }

    fn can_i(&self, _: &AccessRequest) -> Result<Vec<u8>, ClusterError> {
        Err(Self::unreachable())
    }
}
