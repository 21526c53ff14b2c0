//! The requests to the API server that maintain certificates.
//!
//! This module parses the answers itself, because the client logs what it cannot parse, and a Secret must not appear in
//! a log.

use std::error::Error as StdError;
use std::iter;
use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kube::api::{GetParams, Patch, PatchParams, PostParams};
use kube::core::{Request, Status};
use kube::{Client, Error};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::authority::MakeError;
use crate::bundle::CaBundleTarget;
use crate::secret::NotOurs;

/// Timeout of one request.
const PATIENCE: Duration = Duration::from_secs(5);

/// Why certificates cannot be maintained. A retry may help.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CertificateError {
    /// A permission is missing.
    #[error(
        "pillion may not {verb} {resource}{}: add the verb \"{verb}\" for \"{resource}\" to a role of its ServiceAccount",
        shown(.namespace.as_deref(), .name)
    )]
    Forbidden {
        /// `get`, `create`, `update`, `patch`.
        verb: &'static str,
        /// The resource with its group, such as `customresourcedefinitions.apiextensions.k8s.io`.
        resource: String,
        /// The name of the object.
        name: String,
        /// The namespace, if the object has one.
        namespace: Option<String>,
    },
    /// The Secret must not be changed.
    #[error("the Secret \"{namespace}/{name}\" is left alone: {reason}")]
    Secret {
        /// The namespace of the Secret.
        namespace: String,
        /// The name of the Secret.
        name: String,
        /// The reason.
        reason: NotOurs,
    },
    /// The request failed.
    #[error("could not {verb} {resource}{}: {text}", shown(.namespace.as_deref(), .name))]
    Failed {
        /// `get`, `create`, `update`, `patch`.
        verb: &'static str,
        /// The resource with its group.
        resource: String,
        /// The name of the object.
        name: String,
        /// The namespace, if the object has one.
        namespace: Option<String>,
        /// The error of the API server or of the connection.
        text: String,
    },
    /// The whole round took too long.
    #[error("the API server took too long")]
    Slow,
    /// No certificate can be created.
    #[error(transparent)]
    Make(#[from] MakeError),
    /// The new certificate cannot be served.
    #[error("the certificate cannot be served: {0}")]
    Unusable(String),
}

fn shown(namespace: Option<&str>, name: &str) -> String {
    namespace.map_or_else(|| format!(" \"{name}\""), |namespace| format!(" \"{namespace}/{name}\""))
}

/// Returns the text of an error and of its causes in one line, without causes that a text already quotes.
fn with_causes(error: &dyn StdError) -> String {
    let causes = iter::successors(error.source(), |cause: &&dyn StdError| (*cause).source());
    causes
        .map(ToString::to_string)
        .fold(error.to_string(), |text, cause| if text.contains(&cause) { text } else { format!("{text}: {cause}") })
}

/// The result of a write that did not fail.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Written {
    /// The object was written.
    Done,
    /// Another client wrote first: the version that was read is out of date.
    Raced,
    /// The object does not exist.
    Gone,
}

/// One object of the cluster.
#[derive(Clone, Debug)]
pub(crate) struct Object {
    path: String,
    resource: String,
    name: String,
    namespace: Option<String>,
}

impl Object {
    pub(crate) fn secret(namespace: &str, name: &str) -> Self {
        Self {
            path: format!("/api/v1/namespaces/{namespace}/secrets"),
            resource: "secrets".to_owned(),
            name: name.to_owned(),
            namespace: Some(namespace.to_owned()),
        }
    }

    pub(crate) fn target(target: &CaBundleTarget) -> Self {
        let (group, plural) = target.resource();
        Self {
            path: format!("/apis/{group}/v1/{plural}"),
            resource: format!("{plural}.{group}"),
            name: target.name().to_owned(),
            namespace: None,
        }
    }

    /// Reads the object; `None` if it does not exist.
    pub(crate) async fn get<T: DeserializeOwned>(&self, client: &Client) -> Result<Option<T>, CertificateError> {
        let request = Request::new(&self.path).get(&self.name, &GetParams::default());
        match self.send(client, "get", request).await? {
            Ok(text) => serde_json::from_str(&text)
                .map(Some)
                // The error's text may quote the answer, so it is dropped.
                .map_err(|_| self.failed("get", "the answer is no such object".to_owned())),
            Err(status) if status.is_not_found() => Ok(None),
            Err(status) => Err(self.failed("get", status.message)),
        }
    }

    /// Creates the Secret, or replaces the version that was read.
    pub(crate) async fn put(&self, client: &Client, secret: &Secret) -> Result<Written, CertificateError> {
        let is_new = secret.metadata.resource_version.is_none();
        let verb = if is_new { "create" } else { "update" };
        let body = serde_json::to_vec(secret).map_err(|_| self.failed(verb, "it is no JSON".to_owned()))?;
        let request = if is_new {
            Request::new(&self.path).create(&PostParams::default(), body)
        } else {
            Request::new(&self.path).replace(&self.name, &PostParams::default(), body)
        };
        self.written(verb, self.send(client, verb, request).await?)
    }

    /// Applies a JSON patch.
    pub(crate) async fn patch(&self, client: &Client, patch: Value) -> Result<Written, CertificateError> {
        let patch: json_patch::Patch =
            serde_json::from_value(patch).map_err(|error| self.failed("patch", error.to_string()))?;
        let request = Request::new(&self.path).patch(&self.name, &PatchParams::default(), &Patch::Json::<()>(patch));
        self.written("patch", self.send(client, "patch", request).await?)
    }

    fn written(&self, verb: &'static str, answer: Result<String, Status>) -> Result<Written, CertificateError> {
        match answer {
            Ok(_) => Ok(Written::Done),
            Err(status) if status.is_conflict() || status.is_already_exists() => Ok(Written::Raced),
            Err(status) if status.is_not_found() => Ok(Written::Gone),
            Err(status) => Err(self.failed(verb, status.message)),
        }
    }

    /// Sends a request. Returns the text of the answer, or the API server's error status. Missing permissions and
    /// connection failures are errors.
    async fn send(
        &self,
        client: &Client,
        verb: &'static str,
        request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
    ) -> Result<Result<String, Status>, CertificateError> {
        let request = request.map_err(|error| self.failed(verb, error.to_string()))?;
        match tokio::time::timeout(PATIENCE, client.request_text(request)).await {
            Ok(Ok(text)) => Ok(Ok(text)),
            Ok(Err(Error::Api(status))) if status.is_forbidden() => Err(CertificateError::Forbidden {
                verb,
                resource: self.resource.clone(),
                name: self.name.clone(),
                namespace: self.namespace.clone(),
            }),
            Ok(Err(Error::Api(status))) => Ok(Err(*status)),
            Ok(Err(error)) => Err(self.failed(verb, with_causes(&error))),
            Err(_) => Err(self.failed(verb, format!("no answer within {} s", PATIENCE.as_secs()))),
        }
    }

    fn failed(&self, verb: &'static str, text: String) -> CertificateError {
        CertificateError::Failed {
            verb,
            resource: self.resource.clone(),
            name: self.name.clone(),
            namespace: self.namespace.clone(),
            text,
        }
    }
}
