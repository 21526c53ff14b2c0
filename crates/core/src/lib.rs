//! The domain of Pillion: what a `SidecarSet` is, which Pods it matches and what it does to them.
//!
//! Everything here is a function of its arguments. Time, randomness and the cluster come in as values or as
//! the [`lookup::Lookup`] trait; nothing here knows waPC, Kubernetes clients or files. Statement ids in the
//! documentation (`M-18`, `V-12`, ...) are those of the project's `SidecarSet` specification.
#![forbid(unsafe_code)]

pub mod admission;
pub mod bundle;
pub mod controller_revision;
pub mod explain;
pub mod expression;
pub mod gates;
pub mod hash;
pub mod image;
pub mod inject;
pub mod names;
pub mod pattern;
// For controllers: the module has no part in it.
#[cfg(not(target_arch = "wasm32"))]
pub mod plan;
pub mod pod;
pub mod request;
pub mod revision;
pub mod schema;
pub mod select;
pub mod service_account;
pub mod settings;
pub mod shoot;
pub mod sidecar;
pub mod sidecar_set;
pub mod validation;
pub mod words;

pub use pillion_json::go as go_json;
