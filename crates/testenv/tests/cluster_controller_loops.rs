//! The control loops of kube-controller-manager for ServiceAccounts, if Pillion runs them: ACC-1 to RUN-7.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)] // A panic is how a test fails.

mod loops;
mod support;
