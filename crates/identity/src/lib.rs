//! ServiceAccounts of sidecars (docs/spec/identities.md).
//!
//! * [`declared`]: the fields of a SidecarSet. [`audience`]: the list of tokens for other audiences. [`changes`]: the
//!   fields that an update changes. [`author`]: whether the author may change them. [`rules`]: the cluster's settings.
//!   [`decide`]: the identity that a Pod gets. [`token_containers`]: which containers get the token of its own account.
//!   [`content`]: what the containers of an identity may not have. [`partners`],
//!   [`sharing`] and [`target`]: which SidecarSets trust each other, and may share a volume or an account.
//! * [`names`] and [`merged`]: names and contents of the objects that the controller makes. They are functions here
//!   because the policy checks these objects, too.
//! * [`tokens`] carries the decision out. [`workload_identity`]: webhooks that add tokens of the Pod's account. [`lost`]
//!   lists the permissions that merging drops.
//! * [`guards`] judge requests of other users that could circumvent it. [`running`]: the settings of those about running
//!   Pods.
//!
//! It never changes a Pod but for its account, its automounting and its token volumes, and asks a cluster only through
//! the traits of `pillion_kubernetes`. Start with [`declared`], then [`decide`] and [`tokens`].
#![forbid(unsafe_code)]

mod allowed;
pub mod audience;
pub mod author;
pub mod changes;
pub mod conflicts;
pub mod content;
pub mod decide;
pub mod decision;
pub mod declared;
mod deny_permissions;
pub mod drivers;
pub mod existence;
pub mod glob;
pub mod guards;
pub mod lost;
pub mod merged;
pub mod names;
pub mod partner_names;
pub mod partners;
pub mod paths;
pub mod rules;
pub mod running;
pub mod sharing;
pub mod sidecar_set;
pub mod target;
#[cfg(test)]
mod testing;
pub mod token_container_rules;
pub mod token_containers;
pub mod tokens;
pub mod validation;
pub mod warnings;
pub mod workload_identity;
