//! One question and its answer.

use std::collections::BTreeSet;

use serde::Deserialize;

use crate::cluster::{AccessRequest, AccessReview, ListRequest, ResourceRequest};

/// What a policy asked. Names, fields and their order are those of Kubewarden's callback requests: they stand in
/// session files, and their `Debug` form stands in messages.
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
    /// The objects of the cluster.
    #[allow(missing_docs, reason = "the fields of ListRequest")]
    KubernetesListResourceAll {
        api_version: String,
        kind: String,
        label_selector: Option<String>,
        field_selector: Option<String>,
        field_masks: Option<BTreeSet<String>>,
    },
    /// What somebody may do.
    #[allow(missing_docs, reason = "the fields of AccessRequest")]
    KubernetesCanI { request: AccessReview, disable_cache: bool },
}

/// What the host said.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "type")]
pub enum Response {
    /// An answer.
    Success {
        /// Its JSON.
        payload: String,
    },
    /// A failure.
    Error {
        /// What the policy is told, without the host's prefix.
        message: String,
    },
}

/// A question and its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// What the policy asked.
    pub question: Question,
    /// What it was told.
    pub response: Response,
}

/// An exchange as it stands in the file: the request is YAML in YAML.
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
