//! ServiceAccounts of sidecars (`serviceaccounts.md`).
//!
//! What a SidecarSet says ([`declared`]), what an update of it changes ([`changes`]) and whether its author may
//! ([`author`]), what the cluster allows ([`rules`]), and what a Pod gets ([`decide`]). Names and rules of what the controller makes ([`names`], [`permissions`]) are functions here, since the policy checks
//! them ([`merged`]); [`tokens`] carries the decision out. What nobody gets who is merged is in [`lost`].
//! What others may not do meanwhile is in [`guards`].
#![forbid(unsafe_code)]

pub mod admission;
pub mod author;
pub mod changes;
pub mod conflicts;
pub mod decide;
pub mod decision;
pub mod declared;
pub mod deny_permissions;
pub mod drivers;
pub mod existence;
pub mod guards;
pub mod lost;
pub mod merged;
pub mod names;
pub mod paths;
pub mod rules;
pub mod tokens;
pub mod validation;
