//! What the controller writes to the cluster, decided before anything is written.
//!
//! A plan is made from what was seen, by functions without a clock, a client or chance in them; whoever carries it out
//! decides nothing. So `pillion plan` shows what `pillion controller` does. The module has no part in any of this.
#![forbid(unsafe_code)]

pub mod bundle;
pub mod condition;
pub mod default_account;
pub mod demand;
pub mod legacy_token;
pub mod merged;
pub mod root_ca;
pub mod token_secret;
pub mod tokens;

use pillion_kubernetes::lookup::ObjectRef;
use serde_json::Value;

/// One write to the API server.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Makes an object. Where one of this name is there already it stays as it is, and the plan is made anew.
    Create(Value),
    /// Server-side apply as the owner of the fields that are there, and of no others: what was applied before and is
    /// not there any more goes. Where `metadata.uid` or `metadata.resourceVersion` are there, they have to hold.
    Apply(Value),
    /// A JSON merge patch (RFC 7386) on the object as it was seen.
    Patch {
        /// Which object.
        object: ObjectRef,
        /// Its `metadata.uid`.
        uid: String,
        /// Its `metadata.resourceVersion`, where nobody may have changed it since.
        resource_version: Option<String>,
        /// The patch, without these two.
        patch: Value,
    },
    /// Deletes the object that was seen. One that is gone is no error.
    Delete {
        /// Which object.
        object: ObjectRef,
        /// Its `metadata.uid`: another of the same name stays.
        uid: String,
        /// Its `metadata.resourceVersion`, where nobody may have changed it since.
        resource_version: Option<String>,
    },
}
