//! The policy through the built module.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)] // A panic is how a test fails.

mod additions;
mod bundle;
mod bundle_ref;
mod conformance;
mod identity_author;
mod identity_guards;
mod identity_pairs;
mod identity_pods;
mod limits;
mod lookups;
mod manifests;
mod opt_out;
mod overrides;
mod properties;
mod settings;
mod shoots;
mod support;
mod token_containers;
mod trust;
