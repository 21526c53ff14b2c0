//! Previews the controllers' writes without carrying them out: `pillion plan`.
//!
//! The preview runs the controllers' own watches and plans once, on a client that cannot write ([`client`]). That
//! client shows the cluster, the objects in manifests ([`Situation`]), or the cluster as it would be with them.

mod difference;
mod objects;
mod server;

use std::sync::Arc;
use std::time::Duration;

use kube::ResourceExt as _;
use pillion_plan::Step;
use serde_json::Value;

use crate::context::Context;
use crate::selection::Name;
use crate::write::target;

pub use self::difference::differences;
pub use self::objects::{Situation, problem};
pub use self::server::client;

/// The time limit for the cluster to list everything.
pub(crate) const PATIENCE: Duration = Duration::from_mins(2);

/// The planned writes, in their order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Preview {
    /// The writes, by controller and namespace; the bundle comes first.
    pub changes: Vec<Change>,
    /// Problems: work that cannot be done, or that needs attention.
    pub problems: Vec<Remark>,
    /// Work that is due later if nothing changes until then.
    pub later: Vec<Remark>,
}

/// One planned write.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The controller.
    pub controller: Name,
    /// The kind of write.
    pub verb: Verb,
    /// The object's `apiVersion`.
    pub api_version: String,
    /// Its kind.
    pub kind: String,
    /// Its namespace, if it has one.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
    /// The purpose, in a few words.
    pub why: String,
    /// The body of the request: the object, or the merge patch. Never a token.
    pub body: Option<Value>,
}

/// The kind of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verb {
    /// The object is created.
    Create,
    /// The object is changed.
    Change,
    /// The object is deleted.
    Delete,
    /// A token is requested and written into the object.
    Mint,
}

impl Verb {
    /// Returns the verb as text.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Change => "change",
            Self::Delete => "delete",
            Self::Mint => "mint",
        }
    }
}

/// A remark for people.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Remark {
    /// The controller that it concerns.
    pub controller: Name,
    /// The namespace, if it concerns one.
    pub namespace: Option<String>,
    /// The text, a sentence without a full stop.
    pub text: String,
}

/// Why there is no preview.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PreviewError {
    /// An object could not be read.
    #[error("the cluster could not be read: {0}")]
    Unreadable(String),
    /// The cluster did not answer in time.
    #[error("the cluster was not listed within {} s", PATIENCE.as_secs())]
    Silent,
}

/// Returns all namespaces, sorted by name.
pub(crate) fn namespaces(context: &Context) -> Vec<Arc<k8s_openapi::api::core::v1::Namespace>> {
    let mut all = context.cluster.namespaces.state();
    all.sort_by_key(|namespace| namespace.name_any());
    all
}

impl Preview {
    /// Adds the steps of one plan. A `Create` and the `Apply` that follows it count as one change.
    pub(crate) fn steps(&mut self, controller: Name, steps: &[Step], why: &str) {
        let first = self.changes.len();
        for step in steps {
            let object = target(step);
            let (verb, body) = match step {
                Step::Create(body) => (Verb::Create, Some(body.clone())),
                Step::Apply(body) => (Verb::Change, Some(body.clone())),
                Step::Patch { patch, .. } => (Verb::Change, Some(patch.clone())),
                Step::Delete { .. } => (Verb::Delete, None),
            };
            let same = self.changes.iter_mut().skip(first).rfind(|change| {
                (change.verb, change.kind.as_str(), change.namespace.as_deref(), change.name.as_str())
                    == (Verb::Create, &object.kind, object.namespace.as_deref(), &object.name)
            });
            match (same, step) {
                (Some(made), Step::Apply(_)) => made.body = body,
                _ => self.changes.push(Change {
                    controller,
                    verb,
                    api_version: object.api_version,
                    kind: object.kind,
                    namespace: object.namespace,
                    name: object.name,
                    why: why.to_owned(),
                    body,
                }),
            }
        }
    }

    pub(crate) fn problem(&mut self, controller: Name, namespace: Option<&str>, text: impl Into<String>) {
        let namespace = namespace.map(str::to_owned);
        self.problems.push(Remark { controller, namespace, text: text.into() });
    }

    pub(crate) fn later(&mut self, controller: Name, namespace: Option<&str>, text: impl Into<String>) {
        let namespace = namespace.map(str::to_owned);
        self.later.push(Remark { controller, namespace, text: text.into() });
    }
}
