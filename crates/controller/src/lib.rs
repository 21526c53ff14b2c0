//! The controllers of Pillion. They do the work that a policy cannot do, because a policy cannot write to the cluster.
//!
//! Each controller observes objects through [`watch`], makes a plan with a pure function of `pillion_plan`, and carries
//! it out with [`write`](mod@write). [`run`](mod@run) starts the chosen controllers once this replica holds the Lease.

pub mod authority;
mod backoff;
pub mod bundle;
pub mod bundled;
pub mod client;
pub mod context;
pub mod default_account;
pub mod dry_run;
pub mod events;
#[cfg(feature = "server")]
pub mod health;
pub mod leader;
pub mod legacy_token_cleaner;
pub mod merged;
pub mod metrics;
pub mod preview;
pub mod queue;
pub mod read;
pub mod root_ca;
pub mod run;
pub mod selection;
pub mod sets;
pub mod sidecar_tokens;
pub mod token_controller;
pub mod watch;
pub mod write;

pub use context::{Clock, Context};
