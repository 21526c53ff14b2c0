//! One question and its answer.

use std::collections::BTreeSet;

use serde::Deserialize;

use crate::cluster::{AccessRequest, AccessReview, ListRequest, ResourceRequest};

/// A question of a policy. Names, fields and their order match Kubewarden's callback requests: session files contain
/// them, and error messages contain their `Debug` form.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub enum Question {
    /// One object by name.
    #[allow(missing_docs, reason = "the fields of ResourceRequest")]
    KubernetesGetResource {
        api_version: String,
        kind: String,
        name: String,
        namespace: Option<String>,
        disable_cache: bool,
        field_masks: Option<BTreeSet<String>>,
    },
    /// The objects of a namespace.
    #[allow(missing_docs, reason = "the fields of ListRequest")]
    KubernetesListResourceNamespace {
        api_version: String,
        kind: String,
        namespace: String,
        label_selector: Option<String>,
        field_selector: Option<String>,
        field_masks: Option<BTreeSet<String>>,
    },
    /// The objects of the whole cluster.
    #[allow(missing_docs, reason = "the fields of ListRequest")]
    KubernetesListResourceAll {
        api_version: String,
        kind: String,
        label_selector: Option<String>,
        field_selector: Option<String>,
        field_masks: Option<BTreeSet<String>>,
    },
    /// Whether a user may perform an action.
    #[allow(missing_docs, reason = "the fields of AccessRequest")]
    KubernetesCanI { request: AccessReview, disable_cache: bool },
}

/// The answer of the host.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "type")]
pub enum Response {
    /// An answer.
    Success {
        /// The answer's JSON.
        payload: String,
    },
    /// A failure.
    Error {
        /// The text for the policy, without the host's prefix.
        message: String,
    },
}

/// A question and its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// The question.
    pub question: Question,
    /// The answer.
    pub response: Response,
}

/// An exchange in the form of the file: the request is YAML inside a YAML string.
#[derive(Deserialize)]
#[serde(tag = "type", rename = "Exchange")]
pub(super) struct Wire {
    pub(super) request: String,
    pub(super) response: Response,
}

impl Question {
    /// Reads the request of an exchange.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        serde_saphyr::from_str(text).map_err(|error| error.to_string())
    }
}

impl From<&ResourceRequest> for Question {
    fn from(request: &ResourceRequest) -> Self {
        let ResourceRequest { api_version, kind, name, namespace, disable_cache, field_masks } = request.clone();
        Self::KubernetesGetResource { api_version, kind, name, namespace, disable_cache, field_masks }
    }
}

impl From<&ListRequest> for Question {
    fn from(request: &ListRequest) -> Self {
        let ListRequest { api_version, kind, namespace, label_selector, field_selector, field_masks } = request.clone();
        match namespace {
            Some(namespace) => Self::KubernetesListResourceNamespace {
                api_version,
                kind,
                namespace,
                label_selector,
                field_selector,
                field_masks,
            },
            None => Self::KubernetesListResourceAll { api_version, kind, label_selector, field_selector, field_masks },
        }
    }
}

impl From<&AccessRequest> for Question {
    fn from(request: &AccessRequest) -> Self {
        let AccessRequest { subject_access_review, disable_cache } = request.clone();
        Self::KubernetesCanI { request: subject_access_review, disable_cache }
    }
}
