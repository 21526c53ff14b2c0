//! The pages in `docs/reference` are what the code says. `PILLION_RENEW=1` writes them.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)] // A panic is how a test fails.

mod annotations;
#[cfg(feature = "server")]
mod command_line;
#[path = "../support/files.rs"]
mod files;
mod messages;
mod metrics;
mod page;
