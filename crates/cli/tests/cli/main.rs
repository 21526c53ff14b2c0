//! The command line as users run it, and what the repository says about it: documents, charts, packages, workflows.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)] // A panic is how a test fails.

mod annotate;
mod bundle;
mod chart;
mod check;
mod cluster;
mod commands;
mod crate_order;
// The documents show the servers, too.
#[cfg(feature = "server")]
mod docs;
mod examples;
mod explain;
mod habits;
mod help;
mod identities;
mod identity_access;
mod imports;
mod inject;
mod manifest;
mod monitoring;
mod packaging;
#[cfg(unix)]
mod pages;
mod plan;
mod readme;
mod reference;
mod rollouts;
mod run;
mod schema;
#[cfg(feature = "server")]
mod serve;
mod spec;
mod support;
#[cfg(unix)]
mod tools;
mod uninstall;
mod verbs;
