//! Shared helpers of Pillion's tests that need the module, its host, or a client of a cluster. Inputs of tests, which
//! need none of these, are in `pillion-samples`.
//!
//! The helpers panic on errors: a test that cannot find its module or read its fixtures has failed.
//!
//! It is never part of a program. Start with [`module`] and [`FakeCluster`].
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::missing_panics_doc,
    clippy::panic,
    clippy::string_slice,
    clippy::unwrap_used
)]

pub mod api_server;
pub mod cluster;
pub mod conformance;
pub mod http;
pub mod identity;
pub mod metrics;
pub mod module;
pub mod sample;

pub use cluster::FakeCluster;
pub use module::module;
pub use pillion_samples::strategies;
