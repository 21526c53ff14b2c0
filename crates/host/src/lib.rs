//! An embedded waPC host for the policy.
//!
//! It evaluates the module as a Kubewarden policy server does: it compiles the module once, runs every call in a fresh
//! instance, and answers look-ups through the `kubewarden` binding with the same texts. A [`Cluster`] supplies the
//! answers: a real cluster, a recorded session, or objects in memory.
//!
//! It never listens: `pillion_server` is the admission server around it. It knows no rule of SidecarSets either: those are
//! in the module. Start with [`Module`] and [`Cluster`]; [`live`] reads a real cluster, [`session`] records one.
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

pub mod admission;
mod bounds;
mod callback;
mod cluster;
pub mod file;
mod grants;
pub mod live;
mod log;
pub mod metadata;
mod module;
mod pool;
mod protocol;
pub mod session;
pub mod wasm;

pub use bounds::{Bounds, CodeCache};
pub use cluster::{
    AccessRequest, AccessReview, Cluster, ClusterError, ListRequest, NoCluster, ResourceAttributes, ResourceRequest,
};
pub use grants::{CapabilityPattern, ContextAwareResource, Grants, PatternError, known_capabilities};
pub use live::{Live, LiveError};
pub use log::{LogLevel, LogLine};
pub use module::{Error, Module};
pub use pillion_kubernetes::paths;
pub use protocol::{Operation, SettingsResponse, ValidationResponse};
