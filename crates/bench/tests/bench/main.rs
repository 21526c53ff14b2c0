//! The benchmarks' own tests.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)] // A panic is how a test fails.

mod corpus;
#[cfg(target_os = "linux")]
mod faults;
mod fuel;
mod load;
mod load_webhook;
