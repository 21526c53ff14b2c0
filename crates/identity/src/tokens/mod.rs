//! Who can read which token (`serviceaccounts.md` A1, B0 to B3, E19 to E21, G Names).
//!
//! [`volumes`] says what a volume gives, [`held`] who holds the Pod's account, [`reach`] who reaches for the token of a
//! sidecar. [`settle`] carries a decision out, through [`give`]; [`assert`] holds a Pod against it.

pub mod assert;
mod give;
mod granted;
pub mod held;
pub mod reach;
mod settle;
pub mod volumes;

use std::collections::BTreeMap;

use serde_json::Value;

pub use self::held::{Holder, containers, further_token};
pub use self::settle::settle;
pub use self::volumes::Volumes;
use crate::drivers::Drivers;
use pillion_kubernetes::json;
use pillion_kubernetes::outcome::Reason;

/// On a Pod: `{"original", "injected", "sidecarSets"}`, where its account was changed (M5).
pub const INJECTED: &str = "pillion.dev/service-account-injected";
/// On a Pod: the SidecarSets that were injected without the identity that they ask for, and why.
pub const SKIPPED: &str = "pillion.dev/service-account-skipped";

/// The containers of each SidecarSet, init containers and both hot-upgrade halves included.
pub type Owners = BTreeMap<String, Vec<String>>;

/// A Pod with its identities.
#[derive(Clone, Debug, PartialEq)]
pub struct Settled {
    /// The Pod.
    pub pod: Value,
    /// What may surprise the user, one line each.
    pub warnings: Vec<String>,
}

/// The account that a Pod runs under; the alias counts where the field is not set (A1-3).
pub fn account_of(pod: &Value) -> &str {
    match json::text(pod, &["spec", "serviceAccountName"]) {
        "" => json::text(pod, &["spec", "serviceAccount"]),
        name => name,
    }
}

/// What of a Pod reaches for the token of a sidecar while no sidecar of it has one (E4, E20).
pub fn intruders(pod: &Value) -> Vec<Reason> {
    let trusted = Drivers::new();
    reach::intruders(pod, &Volumes::of(pod, &trusted), &granted::Granted::default())
}

#[cfg(test)]
mod tests;
