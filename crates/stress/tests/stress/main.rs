//! `pillion-stress` as a process.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)] // A panic is how a test fails.

#[cfg(target_os = "linux")]
mod faults;
mod load;
mod load_webhook;
