//! The identities of sidecars in a Pod (`serviceaccounts.md` A4, A5, B10, E).

use std::collections::BTreeSet;

use pillion_identity::author;
use pillion_identity::decide::{self, App};
use pillion_identity::decision::{Asking, Decision};
use pillion_identity::declared::{ACCOUNT, Declared, Mode, name_error, path};
use pillion_identity::names;
use pillion_identity::rules::Rules;
pub use pillion_identity::tokens::account_of as account;
use pillion_identity::tokens::{self, Owners, Settled, Volumes};
use pillion_identity::validation;
use pillion_inject::clash;
use pillion_inject::list::names_in_pod;
use pillion_kubernetes::json;
use pillion_kubernetes::lookup::Lookup;
use pillion_kubernetes::outcome::Reason;
use pillion_sidecarset::pod;
use pillion_sidecarset::sidecar_set::SidecarSet;
use serde_json::Value;

/// On mirror Pods: the static Pod that the kubelet runs.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// Whether a Pod only shows what a kubelet runs already: it may not have a ServiceAccount, and nothing that is added
/// to it would run (A1-9, E9).
pub fn is_mirror(pod: &Value) -> bool {
    json::at(pod, &["metadata", "annotations", MIRROR]).is_some_and(|value| !value.is_null())
}

/// What the sets that are injected say about identity.
#[derive(Clone, Debug, Default)]
pub struct Identities {
    /// Those that name an account (M in A4).
    pub asking: Vec<Asking>,
    /// What may surprise the user, one line each.
    pub warnings: Vec<String>,
}

impl Identities {
    /// Reads the sets that are injected. Without the gate nobody gets an identity, and a warning says so (V1).
    ///
    /// # Errors
    /// Sets that cannot be understood; they were never validated, or the policy was younger when they were.
    pub fn of(sets: &[SidecarSet], gate: bool) -> Result<Self, Vec<Reason>> {
        let mut identities = Self::default();
        let mut reasons = Vec::new();
        for set in sets {
            if !gate {
                if author::uses_feature(set) {
                    identities.warnings.push(format!(
                        "SidecarSet \"{}\" is injected without its ServiceAccount: the feature gate SidecarSetServiceAccountInjection is off",
                        set.name()
                    ));
                }
                continue;
            }
            match Declared::of(set) {
                Err(errors) => {
                    for error in errors {
                        let problem = format!("{}: {}", error.cause.as_str(), error.detail);
                        reasons.push(refusal(set.name(), error.path, problem));
                    }
                }
                Ok(declared) => {
                    let Some(account) = declared.service_account.clone() else { continue };
                    if let Some(problem) = name_error(&account) {
                        reasons.push(refusal(set.name(), path(ACCOUNT), problem));
                    }
                    for error in validation::misplaced(set) {
                        let remedy = "correct the SidecarSet";
                        reasons.push(Reason::forbidden(error.path, error.detail, remedy).about(set.name()));
                    }
                    identities.asking.push(Asking { sidecar_set: set.name().to_owned(), account, declared });
                }
            }
        }
        if reasons.is_empty() { Ok(identities) } else { Err(reasons) }
    }

    /// The account that a Pod comes with, as it is after injection.
    pub fn app<'a>(&self, pod: &'a Value, owners: &Owners, rules: &'a Rules) -> App<'a> {
        let volumes = Volumes::of(pod, &rules.trusted_csi_drivers);
        // Only owners of the token that the Pod would run under may have further ones (B0).
        let sharing = self.asking.iter().filter(|set| set.declared.mode != Mode::Isolate);
        let sharing = sharing.filter_map(|set| owners.get(&set.sidecar_set)).flatten().map(String::as_str).collect();
        App {
            account: account(pod),
            automount: if volumes.is_misled() {
                Some(false)
            } else {
                json::at(pod, &["spec", "automountServiceAccountToken"]).and_then(Value::as_bool)
            },
            further_token: tokens::further_token(pod, &volumes, &sharing),
        }
    }

    /// Decides about a Pod as it is after injection.
    ///
    /// # Errors
    /// As [`decide::decide`].
    pub fn decide(
        &self,
        pod: &Value,
        owners: &Owners,
        namespace: &str,
        rules: &Rules,
        lookup: &dyn Lookup,
    ) -> Result<Decision, Vec<Reason>> {
        let app = self.app(pod, owners, rules);
        decide::decide(&self.asking, app, namespace, rules, lookup)
    }

    /// Gives the sidecars of a Pod, as it is after injection, their identities.
    ///
    /// # Errors
    /// As [`Identities::decide`] and [`tokens::settle`].
    pub fn settle(
        &self,
        pod: Value,
        owners: &Owners,
        namespace: &str,
        rules: &Rules,
        lookup: &dyn Lookup,
    ) -> Result<(Decision, Settled), Vec<Reason>> {
        let decision = self.decide(&pod, owners, namespace, rules, lookup)?;
        let settled = tokens::settle(pod, &decision, owners, &rules.trusted_csi_drivers)?;
        Ok((decision, settled))
    }
}

/// B10: what is wrong with a Pod after everybody has changed it, where these sets are in effect.
pub fn assert(
    identities: &Identities,
    sets: &[SidecarSet],
    pod: &Value,
    namespace: &str,
    rules: &Rules,
    lookup: &dyn Lookup,
) -> Vec<Reason> {
    let owners = owners(sets);
    match identities.decide(pod, &owners, namespace, rules, lookup) {
        Ok(decision) => tokens::assert::judge(pod, &decision, &owners, &rules.trusted_csi_drivers),
        Err(reasons) => reasons,
    }
}

/// The containers of each set by the names that they have in a Pod, hot-upgrade halves included.
pub fn owners(sets: &[SidecarSet]) -> Owners {
    let mut owners = Owners::new();
    for set in sets {
        let mut containers = BTreeSet::new();
        for (list, _, sidecar) in clash::sidecars(set) {
            containers.extend(names_in_pod(sidecar, list));
        }
        owners.insert(set.name().to_owned(), containers.into_iter().collect());
    }
    owners
}

/// Whether any container of these sets is in a Pod.
pub fn has_sidecars(pod: &Value, sets: &[SidecarSet]) -> bool {
    let owners = owners(sets);
    let names: BTreeSet<&str> = owners.values().flatten().map(String::as_str).collect();
    tokens::containers(pod).any(|container| names.contains(pod::name(container)))
}

/// What a Pod may not do while no identity is given in it: run under a merged account (E6), hold a sidecar's token.
pub fn without(pod: &Value, gate: bool) -> Vec<Reason> {
    let mut reasons = Vec::new();
    if names::is_merged(account(pod)) {
        reasons.push(decide::foreign_merged(account(pod)));
    }
    if gate {
        reasons.append(&mut tokens::intruders(pod));
    }
    reasons
}

/// B9: why a token that only its owners mount can be read by others all the same.
pub fn exposed(pod: &Value, decision: &Decision, owners: &Owners) -> Vec<String> {
    let mut warnings = Vec::new();
    if decision.grants.is_empty() {
        return warnings;
    }
    for field in ["shareProcessNamespace", "hostPID"] {
        if json::flag(pod, &["spec", field]) {
            warnings.push(format!(
                "spec.{field} lets every container of the Pod read the tokens of its sidecars through /proc"
            ));
        }
    }
    let owners: BTreeSet<&str> = owners.values().flatten().map(String::as_str).collect();
    for container in tokens::containers(pod) {
        let name = pod::name(container);
        if json::flag(container, &["securityContext", "privileged"]) && !owners.contains(name) {
            warnings.push(format!("container \"{name}\" is privileged and can read the tokens of the Pod's sidecars"));
        }
    }
    warnings
}

fn refusal(set: &str, field: String, problem: String) -> Reason {
    Reason::forbidden(field, problem, "correct the SidecarSet").about(set)
}

#[cfg(test)]
mod tests;
