//! An embedded waPC host for the policy.
//!
//! It evaluates the module as a Kubewarden policy server does: compiled once, a fresh instance for every call,
//! look-ups answered through the `kubewarden` binding with the same texts. What stands behind the look-ups is a
//! [`Cluster`]: a real one, a recorded session, or objects in memory.
//!
//! ```no_run
//! use std::sync::Arc;
//! use pillion_host::{Module, NoCluster};
//! use serde_json::json;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let module = Module::load(&std::fs::read("policy.wasm")?)?;
//! let request = json!({"uid": "1", "kind": {"version": "v1", "kind": "Pod"}, "operation": "DELETE"});
//! let answer = module.validate(&request, &json!({}), Arc::new(NoCluster))?;
//! assert!(answer.accepted);
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod callback;
mod cluster;
mod module;
mod protocol;

pub use cluster::{Cluster, ClusterError, NoCluster, ResourceRequest};
pub use module::{Error, Module};
pub use protocol::{Operation, SettingsResponse, ValidationResponse};
