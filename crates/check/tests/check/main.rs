//! What `pillion check` finds in files, through [`pillion_check::run`], which the command calls. Its arguments and its
//! streams are tested with the command line.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)] // A panic is how a test fails.

mod audiences;
mod autoscalers;
mod beside;
mod bundled;
mod errors;
mod identities;
mod kubewarden;
mod own_account;
mod policies;
mod rendered;
mod roles;
mod shoots;
mod support;
mod twin;
mod warnings;
