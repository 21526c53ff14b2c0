//! A real API server on loopback, for tests.
//!
//! [`Cluster::start`] runs etcd and kube-apiserver. If [`Options`] ask for them, it also runs kube-controller-manager,
//! kube-scheduler and kwok, which simulates nodes and kubelets. `testenv/build` (`make test-cluster`) builds these
//! programs.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use pillion_testenv::{Cluster, Options};
//!
//! let cluster = Cluster::start(Options::new().nodes(1)).await?;
//! let namespace = cluster.namespace("example").await?;
//! let client = cluster.service_account(&namespace, "default").await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Guarantees
//!
//! * No server and no folder outlives the process that holds a [`Cluster`], however that process ends. They belong to a
//!   separate process, the keeper (`testenv/keeper`), which ends them when the pipe from this process closes.
//! * Servers listen only on 127.0.0.1; etcd listens on a socket in a folder that only the user can open.
//!
//! # Caveats
//!
//! * A client belongs to the runtime that created it. Tests that share a cluster create their own clients.
//! * Nothing runs in a Pod. With nodes, a Pod becomes Running and Ready, and the Pod of a Job succeeds.

#![cfg(unix)]

mod binaries;
mod certificates;
mod cluster;
mod definition;
mod error;
pub mod faults;
mod identity;
mod keeper;
mod manifest;
mod namespace;
mod nodes;
mod options;
mod ports;
mod servers;
mod services;
mod users;
mod wait;
mod webhook;

pub use binaries::tool;
pub use cluster::Cluster;
pub use definition::stand_in;
pub use error::Error;
pub use identity::Identity;
pub use manifest::apply;
pub use options::Options;
pub use ports::free as free_port;
pub use services::Routes;
pub use wait::until;
pub use webhook::{Hook, Operations, point_at};
