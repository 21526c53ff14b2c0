//! The targets: what each of them does with an input. `cost` is none of them: it surveys what inputs cost.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)] // A panic is how a test fails.

mod bundle;
mod cost;
mod expression;
mod quantity;
mod request;
mod settings;
