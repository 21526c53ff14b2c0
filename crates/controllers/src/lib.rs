//! The controllers of Pillion. They do the work that a policy cannot do, because a policy cannot write to the cluster.
//!
//! Each is a folder with an implementation of [`pillion_runtime::controller::Controller`], here or in
//! [`pillion_service_accounts`]. [`registry`] lists all of them and runs the chosen ones once this replica holds the Lease.
//! [`preview`] runs the same reconciliations on a [simulation](pillion_simulation) of the cluster.
//!
//! They never decide by themselves what to write: the plans of `pillion_plan` and `pillion_rollout` do. They write
//! nothing but through [`pillion_runtime::effects`].
//!
//! Start with [`registry`], and with [`bundle`] for an example of a controller.

pub mod account_permissions;
pub mod bundle;
pub mod merged;
mod pods;
pub mod preview;
pub mod registry;
pub mod rollout;
pub mod sidecar_tokens;
