//! A real API server on loopback, for tests.
//!
//! [`Cluster::start`] runs etcd and kube-apiserver. If [`Options`] ask for them, it also runs kube-controller-manager,
//! kube-scheduler and kwok, which simulates nodes and kubelets, or real nodes, on which containers run. `testenv/build`
//! (`make test-cluster`) builds these programs.
//!
//! It never stands in for a part of Kubernetes, except for nodes (kwok). Start with [`Cluster`] and [`Options`].
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
//! * No server, no container and no folder outlives the process that holds a [`Cluster`], however that process ends. They
//!   belong to a separate process, the keeper (`testenv/keeper`), which ends them when the pipe from this process closes.
//! * Servers listen only on 127.0.0.1; etcd listens on a socket in a folder that only the user can open.
//!
//! # Caveats
//!
//! * A client belongs to the runtime that created it. Tests that share a cluster create their own clients.
//! * On simulated nodes, nothing runs in a Pod: a Pod becomes Running and Ready, and the Pod of a Job succeeds.
//! * Real nodes need Linux, root, containerd and runc. Their Pods have no network but the way to the API server.

#![cfg(unix)]

mod binaries;
mod certificates;
mod cluster;
mod definition;
mod endpoints;
mod error;
pub mod faults;
mod identity;
mod image;
mod keeper;
mod manifest;
mod namespace;
mod nodes;
mod options;
mod ports;
mod real_nodes;
mod servers;
mod services;
mod users;
mod wait;
mod webhook;

pub use binaries::{installed, kubernetes, tool};
pub use cluster::Cluster;
pub use definition::stand_in;
pub use error::Error;
pub use identity::Identity;
pub use image::Image;
pub use manifest::apply;
pub use options::Options;
pub use ports::free as free_port;
pub use real_nodes::{Node, NodeProgram};
pub use services::Routes;
pub use wait::until;
pub use webhook::{Hook, Operations, point_at};
