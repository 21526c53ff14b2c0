//! The domain of Pillion: what a `SidecarSet` is, which Pods it matches and what it does to them.
//!
//! Everything here is a function of its arguments. Time, randomness and the cluster come in as values or as
//! the [`lookup::Lookup`] trait; nothing here knows waPC, Kubernetes clients or files. Statement ids in the
//! documentation (`M-18`, `V-12`, ...) are those of the project's `SidecarSet` specification.
#![forbid(unsafe_code)]

pub mod admission;
pub mod explain;
pub mod inject;
// For controllers: the module has no part in it.
#[cfg(not(target_arch = "wasm32"))]
pub mod plan;
pub mod request;
pub mod select;
pub mod settings;
pub mod words;
