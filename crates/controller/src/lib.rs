//! The controllers of Pillion. They do the work that a policy cannot do, because a policy cannot write to the cluster.
//!
//! A [`controller`](controller::Controller) observes objects through the [`store`], names the changes that wake it
//! ([`wakes`]), makes a plan with a pure function of `pillion_plan`, and carries it out with [`effects`]. The [`queue`]
//! reconciles its keys. [`registry`] lists all controllers and runs the chosen ones once this replica holds the Lease.
//! [`preview`] runs the same reconciliations on a [simulation](pillion_simulation) of the cluster.

pub mod account_permissions;
pub mod authority;
mod backoff;
pub mod bundle;
pub mod bundled;
pub mod client;
pub mod context;
pub mod controller;
pub mod default_account;
pub mod effects;
#[cfg(feature = "server")]
pub mod health;
pub mod leader;
pub mod legacy_token_cleaner;
pub mod merged;
pub mod metrics;
pub mod preview;
pub mod problem;
pub mod queue;
pub mod read;
pub mod readiness;
pub mod registry;
pub mod rights;
pub mod rollout;
pub mod root_ca;
pub mod sets;
pub mod sidecar_tokens;
pub mod store;
pub mod token_controller;
pub mod wakes;

pub use context::{Clock, Context};
