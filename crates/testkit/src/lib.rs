//! Shared helpers of Pillion's tests.
//!
//! The helpers panic on errors: a test that cannot find its module or read its fixtures has failed.
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
pub mod strategies;

pub use cluster::FakeCluster;
pub use module::module;
