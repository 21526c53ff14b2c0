//! Plans what the controllers write to the cluster, before anything is written.
//!
//! A plan follows from the observed objects alone: the functions that make it use no clock, no client and no
//! randomness. The code that carries out a plan decides nothing. So `pillion plan` shows what `pillion controller`
//! does. The policy module does not use this crate.
//!
//! It never asks or writes: observed objects are arguments. Start with [`Step`], which every plan is made of, and with
//! [`bundle`] for an example.
#![forbid(unsafe_code)]

pub mod account_permissions;
pub mod bundle;
mod by_label;
pub mod condition;
pub mod credential;
pub mod default_account;
pub mod demand;
pub mod failure;
pub mod legacy_token_cleaner;
pub mod merged;
pub mod pod_fields;
pub mod problem;
pub mod restored;
pub mod root_ca;
pub mod sidecar_tokens;
pub mod token_controller;

use pillion_kubernetes::lookup::ObjectRef;
use serde_json::Value;

/// One write to the API server.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Creates an object. If an object of this name exists, it stays as it is, and the plan is made again.
    Create(Value),
    /// Server-side apply. The applier owns the fields in this object and no others: a field that it applied before and
    /// that is no longer in the object is removed. If the object has `metadata.uid` or `metadata.resourceVersion`, they
    /// must match the object in the cluster.
    Apply(Value),
    /// A JSON merge patch (RFC 7386) of the observed object.
    Patch {
        /// The object.
        object: ObjectRef,
        /// Its `metadata.uid`.
        uid: String,
        /// Its `metadata.resourceVersion`, if the object must not have changed since it was observed.
        resource_version: Option<String>,
        /// The patch, without the UID and the resource version.
        patch: Value,
    },
    /// A JSON Patch (RFC 6902) of the observed object. Its `test` operations hold the values that the plan depends on:
    /// the API server writes nothing if one of them differs.
    JsonPatch {
        /// The object.
        object: ObjectRef,
        /// The part of the object that is written, if it is not the main one.
        subresource: Option<Subresource>,
        /// The list of operations.
        operations: Vec<Value>,
    },
    /// Evicts a Pod: deletes it unless a PodDisruptionBudget forbids that. It is no error if the Pod is gone.
    Evict {
        /// The Pod.
        object: ObjectRef,
        /// Its `metadata.uid`. Another Pod of the same name stays.
        uid: String,
    },
    /// Requests a token of a ServiceAccount (`authentication.k8s.io/v1`, TokenRequest).
    RequestToken {
        /// The ServiceAccount.
        account: ObjectRef,
        /// The TokenRequest.
        request: Value,
    },
    /// Deletes the observed object. It is no error if the object is gone.
    Delete {
        /// The object.
        object: ObjectRef,
        /// Its `metadata.uid`. Another object of the same name stays.
        uid: String,
        /// Its `metadata.resourceVersion`, if the object must not have changed since it was observed.
        resource_version: Option<String>,
    },
}

/// A part of an object that the API server writes separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subresource {
    /// `status`.
    Status,
    /// `resize`: the resources of a Pod's containers.
    Resize,
}

impl Subresource {
    /// Returns the name in the API server's paths.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Status => "status",
            Self::Resize => "resize",
        }
    }
}
