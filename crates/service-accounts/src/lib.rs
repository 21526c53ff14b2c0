//! The loops of kube-controller-manager for ServiceAccounts, for clusters in which it does not run them.
//!
//! [`default_account`] creates the ServiceAccount `default` of each namespace, [`token_controller`] fills token Secrets,
//! [`legacy_token_cleaner`] deletes those that nothing uses, and [`root_ca`] publishes the [`authority`] of the API server.
//! Each is a [controller](pillion_runtime::controller::Controller) that is off unless it is asked for.
//!
//! They know nothing of SidecarSets, and never decide by themselves what to write: the plans of [`pillion_plan`] do.
//! [`token_controller`] never writes while kube-controller-manager holds its Lease, unless it is forced to.
//!
//! Start with [`default_account`], the shortest.

pub mod authority;
pub mod default_account;
pub mod legacy_token_cleaner;
pub mod root_ca;
pub mod token_controller;
