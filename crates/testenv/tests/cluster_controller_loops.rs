//! The loops of kube-controller-manager for ServiceAccounts, where Pillion runs them: `serviceaccounts.md` C1 to C4.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)] // A panic is how a test fails.

mod loops;
mod support;
