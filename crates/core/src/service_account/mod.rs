//! ServiceAccounts of sidecars (`serviceaccounts.md`).
//!
//! What the policy and the controller have to agree on: the names of what the controller makes ([`names`]) and the
//! rules that a merged Role holds ([`permissions`]). And what a SidecarSet says ([`declared`]).

pub mod declared;
pub mod names;
pub mod permissions;
