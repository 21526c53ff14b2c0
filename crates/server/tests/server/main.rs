//! The admission server over real TLS on loopback.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)] // A panic is how a test fails.

mod bounds;
mod change;
mod faults;
mod forms;
mod probes;
mod reviews;
mod support;
