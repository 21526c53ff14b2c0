//! The few requests to the API server that keeping certificates takes.
//!
//! The texts of answers are parsed here rather than by the client, which logs what it cannot parse: a Secret has no
//! place in a log.

use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kube::api::{GetParams, Patch, PatchParams, PostParams};
use kube::core::{Request, Status};
use kube::{Client, Error};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::authority::MakeError;
use super::bundle::Target;
use super::secret::NotOurs;

/// How long one request may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// What keeps certificates from being as they should be. Trying again may help.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// A permission is missing.
    #[error(
        "pillion may not {verb} {resource}{}: add the verb \"{verb}\" for \"{resource}\" to a role of its ServiceAccount",
        shown(.namespace.as_deref(), .name)
    )]
    Forbidden {
        /// `get`, `create`, `update`, `patch`.
        verb: &'static str,
        /// The resource with its group, `customresourcedefinitions.apiextensions.k8s.io`.
        resource: String,
        /// The object.
        name: String,
        /// Its namespace, where it has one.
        namespace: Option<String>,
    },
    /// The Secret is not to be touched.
    #[error("the Secret \"{namespace}/{name}\" is left alone: {reason}")]
    Secret {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// Why.
        reason: NotOurs,
    },
    /// The API server did not do it.
    #[error("could not {verb} {resource}{}: {text}", shown(.namespace.as_deref(), .name))]
    Failed {
        /// `get`, `create`, `update`, `patch`.
        verb: &'static str,
        /// The resource with its group.
        resource: String,
        /// The object.
        name: String,
        /// Its namespace, where it has one.
        namespace: Option<String>,
        /// What the API server said, or what the connection did.
        text: String,
    },
    /// All of it together took too long.
    #[error("the API server took too long")]
    Slow,
    /// No certificate can be made.
    #[error(transparent)]
    Make(#[from] MakeError),
    /// What was made cannot be served.
    #[error("the certificate cannot be served: {0}")]
    Unusable(String),
}

fn shown(namespace: Option<&str>, name: &str) -> String {
    namespace.map_or_else(|| format!(" \"{name}\""), |namespace| format!(" \"{namespace}/{name}\""))
}

/// How a write went, where it did not fail.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Written {
    /// As asked.
    Done,
    /// Somebody else was faster: what was read is out of date.
    Raced,
    /// There is no such object any more.
    Gone,
}

/// One object of the cluster.
#[derive(Clone, Debug)]
pub(super) struct Object {
    path: String,
    resource: String,
    name: String,
    namespace: Option<String>,
}

impl Object {
    pub(super) fn secret(namespace: &str, name: &str) -> Self {
        Self {
            path: format!("/api/v1/namespaces/{namespace}/secrets"),
            resource: "secrets".to_owned(),
            name: name.to_owned(),
            namespace: Some(namespace.to_owned()),
        }
    }

    pub(super) fn target(target: &Target) -> Self {
        let (group, plural) = target.resource();
        Self {
            path: format!("/apis/{group}/v1/{plural}"),
            resource: format!("{plural}.{group}"),
            name: target.name().to_owned(),
            namespace: None,
        }
    }

    /// The object as it is; nothing where it is not there.
    pub(super) async fn get<T: DeserializeOwned>(&self, client: &Client) -> Result<Option<T>, Problem> {
        let request = Request::new(&self.path).get(&self.name, &GetParams::default());
        match self.send(client, "get", request).await? {
            Ok(text) => serde_json::from_str(&text)
                .map(Some)
                // Not the text of the error: it may quote what it could not read.
                .map_err(|_| self.failed("get", "the answer is no such object".to_owned())),
            Err(status) if status.is_not_found() => Ok(None),
            Err(status) => Err(self.failed("get", status.message)),
        }
    }

    /// Creates the Secret, or replaces the version of it that was read.
    pub(super) async fn put(&self, client: &Client, secret: &Secret) -> Result<Written, Problem> {
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
    pub(super) async fn patch(&self, client: &Client, patch: Value) -> Result<Written, Problem> {
        let patch: json_patch::Patch =
            serde_json::from_value(patch).map_err(|error| self.failed("patch", error.to_string()))?;
        let request = Request::new(&self.path).patch(&self.name, &PatchParams::default(), &Patch::Json::<()>(patch));
        self.written("patch", self.send(client, "patch", request).await?)
    }

    fn written(&self, verb: &'static str, answer: Result<String, Status>) -> Result<Written, Problem> {
        match answer {
            Ok(_) => Ok(Written::Done),
            Err(status) if status.is_conflict() || status.is_already_exists() => Ok(Written::Raced),
            Err(status) if status.is_not_found() => Ok(Written::Gone),
            Err(status) => Err(self.failed(verb, status.message)),
        }
    }

    /// Sends a request: the text of the answer, or what the API server says instead. Nothing else is an answer.
    async fn send(
        &self,
        client: &Client,
        verb: &'static str,
        request: Result<hyper::Request<Vec<u8>>, kube::core::request::Error>,
    ) -> Result<Result<String, Status>, Problem> {
        let request = request.map_err(|error| self.failed(verb, error.to_string()))?;
        match tokio::time::timeout(PATIENCE, client.request_text(request)).await {
            Ok(Ok(text)) => Ok(Ok(text)),
            Ok(Err(Error::Api(status))) if status.is_forbidden() => Err(Problem::Forbidden {
                verb,
                resource: self.resource.clone(),
                name: self.name.clone(),
                namespace: self.namespace.clone(),
            }),
            Ok(Err(Error::Api(status))) => Ok(Err(*status)),
            Ok(Err(error)) => Err(self.failed(verb, crate::live::with_causes(&error))),
            Err(_) => Err(self.failed(verb, format!("no answer within {} s", PATIENCE.as_secs()))),
        }
    }

    fn failed(&self, verb: &'static str, text: String) -> Problem {
        Problem::Failed {
            verb,
            resource: self.resource.clone(),
            name: self.name.clone(),
            namespace: self.namespace.clone(),
            text,
        }
    }
}
