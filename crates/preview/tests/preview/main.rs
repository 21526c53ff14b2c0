//! `pillion inject`, `explain` and `plan` on files, through the functions that the commands call. Their arguments and
//! their streams are tested with the command line.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)] // A panic is how a test fails.

mod explain;
mod identities;
mod inject;
mod inputs;
mod plan;
mod rollout_conformance;
mod support;
