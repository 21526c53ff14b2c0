//! Which containers can read which token (SAP-8, TOK-0 to TOK-3, E19 to E21).
//!
//! [`volumes`] finds credentials in volumes, [`held`] finds holders of the Pod's account, [`reach`] finds containers
//! that use the token of a sidecar, [`sight`] and [`exposure`] those that can read it without using it. [`settle`] carries
//! out a decision, through [`give`]; [`narrow`] leaves the token of the Pod's own account to some containers; [`assert`] compares a Pod with it, and [`foreign`] finds what other webhooks mounted.
//! [`identity`] finds whose token each container of a running Pod holds.

pub mod assert;
pub mod exposure;
mod foreign;
mod give;
mod granted;
pub mod held;
pub mod identity;
mod narrow;
pub mod reach;
mod settle;
pub mod sight;
pub mod volumes;

use std::collections::BTreeMap;

use serde_json::Value;

pub use self::held::{Holder, containers, further_token};
pub use self::narrow::narrow;
pub use self::settle::settle;
pub use self::volumes::Volumes;
use crate::drivers::Drivers;
use pillion_kubernetes::json;
use pillion_kubernetes::outcome::Reason;

/// Annotation of a Pod whose account was changed: `{"original", "injected", "sidecarSets"}` (IDP-5).
pub const INJECTED: &str = "pillion.dev/service-account-injected";
/// Annotation of a Pod: the SidecarSets that were injected without the identity that they request, each with the
/// reason.
pub const SKIPPED: &str = "pillion.dev/service-account-skipped";

/// The containers of each SidecarSet, including init containers and both containers of a hot upgrade.
pub type Owners = BTreeMap<String, Vec<String>>;

/// A Pod after a decision was carried out.
#[derive(Clone, Debug, PartialEq)]
pub struct Settled {
    /// The Pod.
    pub pod: Value,
    /// Warnings for the user, one line each.
    pub warnings: Vec<String>,
}

/// Returns the account that a Pod runs under. If the field is not set, its alias counts (SAP-3).
pub fn account_of(pod: &Value) -> &str {
    match json::text(pod, &["spec", "serviceAccountName"]) {
        "" => json::text(pod, &["spec", "serviceAccount"]),
        name => name,
    }
}

/// Returns reasons to refuse a Pod in which no sidecar has a token, but which uses Secrets or volumes with such tokens
/// (E4, E20).
pub fn intruders(pod: &Value) -> Vec<Reason> {
    let trusted = Drivers::new();
    reach::intruders(pod, &Volumes::from_pod(pod, &trusted), &granted::Granted::default())
}

#[cfg(test)]
mod tests;
