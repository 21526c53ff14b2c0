//! The controllers of Pillion: what a policy cannot do, since it cannot write to the cluster.
//!
//! Each of them sees objects through [`watch`], makes a plan with a pure function of `pillion_plan`, and carries
//! it out with [`write`](mod@write). [`run`](mod@run) starts those that are chosen, once this replica holds the Lease.

pub mod authority;
mod backoff;
pub mod bundle;
pub mod bundled;
pub mod client;
pub mod context;
pub mod default_account;
pub mod events;
pub mod health;
pub mod leader;
pub mod legacy_token;
pub mod merged;
pub mod metrics;
pub mod preview;
pub mod queue;
pub mod read;
pub mod root_ca;
pub mod run;
pub mod selection;
pub mod sets;
pub mod token_secret;
pub mod tokens;
pub mod watch;
pub mod write;

pub use context::{Clock, Context};
