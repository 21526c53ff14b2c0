//! Why a cluster gave no answer.

use std::error::Error as _;

use super::kind::Kind;

/// The message about a cluster without the definition of SidecarSets. It names the remedy.
pub const NO_DEFINITION: &str =
    "the cluster does not serve SidecarSets: their definition is missing; `pillion manifest crd` prints it";

/// Why a cluster gave no answer. The text names the object, the verb and the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    /// The API server does not allow the request: 401 or 403.
    #[error(
        "the cluster does not allow to {verb} {object}: {message}; the user of the kubeconfig needs the verb \"{verb}\" on \
         {resource}, in a Role or a ClusterRole"
    )]
    Forbidden {
        /// The verb, as in a Role.
        verb: &'static str,
        /// The object or the kind, as in `ServiceAccount shop/log-agent`.
        object: String,
        /// The resource, as in `roles.rbac.authorization.k8s.io`.
        resource: String,
        /// The message of the API server.
        message: String,
    },
    /// The API server answers with another error.
    #[error("the cluster could not {verb} {object}: {message}")]
    Refused {
        /// The verb, as in a Role.
        verb: &'static str,
        /// The object or the kind.
        object: String,
        /// The message of the API server.
        message: String,
    },
    /// The answer is not that of an API server, but for example the page of a proxy.
    #[error(
        "the cluster's answer cannot be read, when asked to {verb} {object}: {message}; is the address in the kubeconfig \
         that of an API server?"
    )]
    Unreadable {
        /// The verb, as in a Role.
        verb: &'static str,
        /// The object or the kind.
        object: String,
        /// The fault of the answer.
        message: String,
    },
    /// The API server does not answer.
    #[error("the cluster does not answer: {0}; is it the right context of the kubeconfig?")]
    Unreachable(String),
    /// The API server does not know SidecarSets.
    #[error("{}", NO_DEFINITION)]
    NoDefinition,
}

impl Trouble {
    /// Converts the error of a request for an object, or for all objects of a kind.
    pub(super) fn from_kube(error: &kube::Error, verb: &'static str, object: String, kind: Kind<'_>) -> Self {
        match error {
            kube::Error::Api(status) if matches!(status.code, 401 | 403) => {
                Self::Forbidden { verb, object, resource: kind.resource(), message: status.message.clone() }
            }
            kube::Error::Api(status) => Self::Refused { verb, object, message: status.message.clone() },
            kube::Error::SerdeError(error) => Self::Unreadable { verb, object, message: error.to_string() },
            error => Self::Unreachable(innermost(error)),
        }
    }
}

impl Trouble {
    /// Converts the error of an eviction: the right for it is that to create a subresource of the Pod.
    pub(super) fn of_eviction(error: &kube::Error, object: String) -> Self {
        match Self::from_kube(error, "create", object, Kind("v1", "Pod")) {
            Self::Forbidden { verb, object, message, .. } => {
                Self::Forbidden { verb, object, resource: "pods/eviction".to_owned(), message }
            }
            other => other,
        }
    }

    /// Converts the error of a request that reached no API server.
    pub(super) fn unreachable(error: &kube::Error) -> Self {
        Self::Unreachable(innermost(error))
    }
}

/// Returns the text of the innermost cause, which says what happened; the outer ones say only that a request failed.
fn innermost(error: &kube::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text = cause.to_string();
        next = cause.source();
    }
    text
}
