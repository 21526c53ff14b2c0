//! How the cost of the controllers grows with a cluster: `make bench-growth`.
//!
//! [`plan`] says which objects a cluster of a size has, and [`objects`] makes them. [`server`] is the API server in memory
//! of `pillion_simulation`, over HTTP; a [`kubelet`] writes the statuses of its Pods. [`scene`] starts `pillion controller`
//! as a process of its own, changes the cluster, and measures; [`report`] makes tables of it, [`picture`] a picture.
//! [`simulated`] does this in a simulated cluster. The benchmark `growth` of `pillion-testenv` does it in a real one.
//!
//! It judges nothing that the controllers write, except that it is complete: the tests on a real API server do that.
//! Start with [`scene`].
#![forbid(unsafe_code)]
// A field that is absent reads as null, and the objects whose fields are written are made here.
#![allow(clippy::indexing_slicing)]

pub mod admission;
pub mod counts;
pub mod kubelet;
mod managed;
pub mod measured;
pub mod objects;
pub mod picture;
pub mod plan;
pub mod program;
pub mod progress;
pub mod report;
pub mod requests;
pub mod scene;
pub mod server;
pub mod simulated;
