//! Inputs of tests: Pods and SidecarSets as users write them, generated ([`strategies`]) and written out
//! ([`manifests`], [`access`]), in [`folders`]; recorded admissions of the reference ([`recorded`]); a cluster that
//! answers look-ups ([`lookups`]); and the files of the repository ([`repository`]).
//!
//! It never runs the module, and knows neither its host nor a client of a cluster: tests of every crate are built
//! quickly with it. What needs one of these is in `pillion-testkit`.
//!
//! The helpers panic on errors: a test that cannot read its inputs has failed.
//!
//! Start with [`strategies`].
#![forbid(unsafe_code)]
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::missing_panics_doc,
    clippy::panic,
    clippy::string_slice,
    clippy::unwrap_used
)]

pub mod access;
pub mod folders;
pub mod lookups;
pub mod manifests;
pub mod recorded;
pub mod repository;
pub mod strategies;
