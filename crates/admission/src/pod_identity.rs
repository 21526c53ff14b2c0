//! The identities of sidecars in a Pod (docs/spec/identities.md, TOK-10).

use std::collections::BTreeSet;

use pillion_identity::author;
use pillion_identity::decide::{self, App};
use pillion_identity::decision::{Asking, Decision};
use pillion_identity::declared::{ACCOUNT, Declared, Mode, TOKENS, TOKENS_WITHOUT_ACCOUNT, name_error, path};
use pillion_identity::names;
use pillion_identity::rules::Rules;
pub use pillion_identity::tokens::account_of as account;
use pillion_identity::tokens::{self, Owners, Settled, Volumes, sight};
use pillion_identity::validation;
use pillion_inject::clash;
use pillion_inject::list::names_in_pod;
use pillion_kubernetes::index::distinct;
use pillion_kubernetes::json;
use pillion_kubernetes::lookup::Lookup;
use pillion_kubernetes::outcome::Reason;
use pillion_sidecarset::pod;
use pillion_sidecarset::sidecar_set::SidecarSet;
use serde_json::Value;

/// Annotation of mirror Pods, which represent static Pods of a kubelet.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// Whether a Pod is a mirror Pod. It must not have a ServiceAccount, and added containers would not run, because the
/// kubelet already runs the static Pod (SAP-9, E9).
pub fn is_mirror(pod: &Value) -> bool {
    json::at(pod, &["metadata", "annotations", MIRROR]).is_some_and(|value| !value.is_null())
}

/// The identities that the injected sets request.
#[derive(Clone, Debug, Default)]
pub struct Identities {
    /// The sets that name an account (M in IDP-7).
    pub asking: Vec<Asking>,
    /// Warnings for the user, one line each.
    pub warnings: Vec<String>,
}

impl Identities {
    /// Reads the injected sets. Without the gate, no set gets an identity, and a warning says so (IDV-1).
    ///
    /// # Errors
    /// Sets with invalid identity fields, which were stored without validation or under an older policy.
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
                    let Some(account) = declared.service_account.clone() else {
                        if !declared.tokens.is_empty() {
                            reasons.push(refusal(set.name(), path(TOKENS), TOKENS_WITHOUT_ACCOUNT.to_owned()));
                        }
                        continue;
                    };
                    if let Some(problem) = name_error(&account) {
                        reasons.push(refusal(set.name(), path(ACCOUNT), problem));
                    }
                    for error in validation::misplaced(set) {
                        let remedy = "correct the SidecarSet";
                        reasons.push(Reason::forbidden(error.path, error.detail, remedy).about(set.name()));
                    }
                    identities.asking.push(Asking {
                        sidecar_set: set.name().to_owned(),
                        account,
                        declared,
                        origin: set.origin(),
                    });
                }
            }
        }
        if reasons.is_empty() { Ok(identities) } else { Err(reasons) }
    }

    /// Returns the account of a Pod after injection.
    pub fn app<'a>(&self, pod: &'a Value, owners: &Owners, rules: &'a Rules) -> App<'a> {
        let volumes = Volumes::of(pod, &rules.trusted_csi_drivers);
        // Only owners of the token of the Pod's account may have further tokens (TOK-0).
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

    /// Decides about a Pod after injection.
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

    /// Gives the sidecars of a Pod their identities, after injection.
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

/// TOK-10: returns the problems of a Pod after all mutating webhooks have changed it, if these sets are in effect.
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

/// Returns the names of each set's containers in a Pod, including both of hot-upgrade pairs.
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

/// Whether a Pod has any container of these sets.
pub fn has_sidecars(pod: &Value, sets: &[SidecarSet]) -> bool {
    let owners = owners(sets);
    let names = distinct(owners.values().flatten().map(String::as_str));
    tokens::containers(pod).any(|container| names.contains(pod::name(container)))
}

/// Returns reasons to refuse a Pod in which no sidecar gets an identity: it runs under a merged account (E6), or holds
/// a sidecar's token.
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

/// TOK-9: returns warnings if other containers can read a token that only its owners mount.
pub fn exposed(pod: &Value, decision: &Decision, owners: &Owners) -> Vec<String> {
    let mut warnings = Vec::new();
    if decision.grants.is_empty() {
        return warnings;
    }
    for field in sight::shared_by(pod) {
        warnings.push(format!(
            "spec.{field} lets every container of the Pod read the tokens of its sidecars through /proc"
        ));
    }
    let owners = distinct(owners.values().flatten().map(String::as_str));
    for container in tokens::containers(pod) {
        let name = pod::name(container);
        if let Some(power) = sight::power(container).filter(|_| !owners.contains(name)) {
            warnings.push(format!("container \"{name}\" {power} and can read the tokens of the Pod's sidecars"));
        }
    }
    warnings
}

fn refusal(set: &str, field: String, problem: String) -> Reason {
    Reason::forbidden(field, problem, "correct the SidecarSet").about(set)
}

#[cfg(test)]
mod tests;
