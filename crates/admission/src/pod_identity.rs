//! The identities of sidecars in a Pod (docs/spec/identities.md, TOK-10).

use std::collections::{BTreeMap, BTreeSet};

use pillion_identity::author;
use pillion_identity::content;
use pillion_identity::decide::{self, App};
use pillion_identity::decision::{Asking, Decision, Token};
use pillion_identity::declared::{ACCOUNT, Declared, Mode, TOKENS, TOKENS_WITHOUT_ACCOUNT, name_error, path};
use pillion_identity::drivers::Drivers;
use pillion_identity::names;
use pillion_identity::partners::Side;
use pillion_identity::rules::{self, Rules};
use pillion_identity::sharing::{self, Party, Used};
use pillion_identity::token_containers::{self, By, TokenContainers};
pub use pillion_identity::tokens::account_of as account;
use pillion_identity::tokens::exposure::Exposure;
use pillion_identity::tokens::held::shown;
use pillion_identity::tokens::{self, Owners, Settled, Volumes};
use pillion_identity::workload_identity::CloudWebhook;
use pillion_kubernetes::field::{ERRORS_MAX, FieldError};
use pillion_kubernetes::json;
use pillion_kubernetes::lookup::Lookup;
use pillion_kubernetes::outcome::Reason;
use pillion_sidecarset::made;
use pillion_sidecarset::names::TOKEN_CONTAINERS;
use pillion_sidecarset::pod;
use pillion_sidecarset::sidecar::names_in_pod;
use pillion_sidecarset::sidecar_set::SidecarSet;
use serde_json::Value;

/// Annotation of mirror Pods, which represent static Pods of a kubelet.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// Whether a Pod is a mirror Pod. It must not have a ServiceAccount, and added containers would not run, because the
/// kubelet already runs the static Pod (SAP-9, E9).
pub fn is_mirror(pod: &Value) -> bool {
    json::at(pod, &["metadata", "annotations", MIRROR]).is_some_and(|value| !value.is_null())
}

/// Who is to hold a token in a Pod.
#[derive(Clone, Debug, Default)]
pub struct Identities {
    /// The sets that name an account (M in IDP-7).
    pub asking: Vec<Asking>,
    /// The identity fields of the sets that name none, by name. Only their partners matter.
    pub beside: BTreeMap<String, Declared>,
    /// The containers that get the token of the Pod's own account; `None` if all do (TCN-1).
    pub token_containers: Option<TokenContainers>,
    /// Warnings for the user, one line each.
    pub warnings: Vec<String>,
}

impl Identities {
    /// Reads the injected sets. Without the gate, no set gets an identity, and a warning says so (IDV-1).
    ///
    /// # Errors
    /// Sets with invalid identity fields, which were stored without validation or under an older policy.
    pub fn collect(sets: &[SidecarSet], gate: bool) -> Result<Self, Vec<Reason>> {
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
            match Declared::from_sidecar_set(set) {
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
                        identities.beside.insert(set.name().to_owned(), declared);
                        continue;
                    };
                    if let Some(problem) = name_error(&account) {
                        reasons.push(refusal(set.name(), path(ACCOUNT), problem));
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

    /// IDC-9: checks the versions of the sets with an account that are injected. CSI drivers in `trusted` do not request
    /// tokens.
    ///
    /// # Errors
    /// A version has what no set with an account may have. It may be older than the account, or stored without
    /// validation.
    pub fn fit(self, sets: &[SidecarSet], trusted: &Drivers) -> Result<Self, Vec<Reason>> {
        let asking: BTreeSet<_> = self.asking.iter().map(|set| set.sidecar_set.as_str()).collect();
        let sets = sets.iter().filter(|set| asking.contains(set.name()));
        let reasons: Vec<Reason> =
            sets.flat_map(|set| content::check(set, trusted).into_iter().map(|error| unfit(set, error))).collect();
        if reasons.is_empty() { Ok(self) } else { Err(reasons) }
    }

    /// Reads which containers of a Pod in this namespace get the token of its own account (TCN-1 to TCN-3).
    ///
    /// # Errors
    /// As [`TokenContainers::of_pod`].
    pub fn read_token_containers(
        &mut self,
        pod: &Value,
        namespace: &str,
        rules: &Rules,
        lookup: &dyn Lookup,
    ) -> Result<(), Reason> {
        self.token_containers = TokenContainers::of_pod(pod, namespace, rules, lookup)?;
        if token_containers::is_annotated(pod) && rules.protects(namespace) {
            self.warnings.push(format!(
                "the annotation {TOKEN_CONTAINERS} has no effect: the namespace \"{namespace}\" is protected \
                 (serviceAccounts.protectedNamespaces)"
            ));
        }
        Ok(())
    }

    /// Whether the tokens of a Pod stay as Kubernetes mounts them.
    pub fn leave_tokens_alone(&self) -> bool {
        self.asking.is_empty() && self.token_containers.is_none()
    }

    /// Returns warnings about the names of containers that the Pod wants to give its token (TCN-3).
    pub fn token_container_warnings(&self, pod: &Value, decision: &Decision) -> Vec<String> {
        let Some(wanted) = &self.token_containers else { return Vec::new() };
        let there: BTreeSet<_> = tokens::containers(pod).map(pod::name).collect();
        let unknown = wanted.without_container(&there).into_iter();
        let unknown = unknown.map(|name| format!("{} has \"{name}\", and no container has this name", wanted.by));
        let is_in_vain = wanted.by == By::Pod && decision.narrowed.is_none();
        let in_vain = is_in_vain.then(|| {
            format!("{} has no effect: the Pod has the ServiceAccount \"{}\" for its sidecars", By::Pod, account(pod))
        });
        unknown.chain(in_vain).collect()
    }

    /// Returns the account of a Pod after injection.
    pub fn app<'a>(&self, pod: &'a Value, owners: &Owners, rules: &'a Rules) -> App<'a> {
        let volumes = Volumes::from_pod(pod, &rules.trusted_csi_drivers);
        // Only owners of the token of the Pod's account may have further tokens (TOK-0).
        let sharing = self.asking.iter().filter(|set| set.declared.mode != Mode::Isolate);
        let sharing = sharing.filter_map(|set| owners.get(&set.sidecar_set)).flatten().map(String::as_str).collect();
        let account = account(pod);
        App {
            account,
            // A Pod that gives its token to some containers has automounting turned off for that alone (TCN-4).
            automount: if volumes.is_narrowed(account) {
                None
            } else if volumes.is_misled() {
                Some(false)
            } else {
                json::at(pod, &["spec", "automountServiceAccountToken"]).and_then(Value::as_bool)
            },
            further_token: tokens::further_token(pod, &volumes, &sharing),
        }
    }

    /// Returns the injected sets as others in their Pod see them, by name.
    fn sides<'a>(&'a self, sets: &'a [SidecarSet]) -> BTreeMap<&'a str, Side<'a>> {
        let asking: BTreeMap<_, _> = self.asking.iter().map(|set| (set.sidecar_set.as_str(), &set.declared)).collect();
        let side = |set: &'a SidecarSet| {
            let name = set.name();
            let declared = asking.get(name).copied().or_else(|| self.beside.get(name))?;
            Some((name, Side { name, declared, origin: set.origin() }))
        };
        sets.iter().filter_map(side).collect()
    }

    /// Returns what others in a Pod can see of the tokens that a decision gives to its sidecars.
    pub fn exposure<'a>(&'a self, sets: &'a [SidecarSet], decision: &'a Decision, owners: &'a Owners) -> Exposure<'a> {
        Exposure::new(decision, owners, self.sides(sets))
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
        let decision = decide::decide(&self.asking, app, namespace, rules, lookup)?;
        Ok(match &self.token_containers {
            Some(wanted) => tokens::narrow(decision, pod, wanted, owners, rules),
            None => decision,
        })
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

/// IDC-11: returns reasons to refuse a Pod in which a set with an identity shares a volume with a set that it does not
/// trust.
pub fn shared_volumes(identities: &Identities, sets: &[SidecarSet], decision: &Decision) -> Vec<Reason> {
    let without: BTreeSet<_> = decision.skipped.iter().chain(&decision.kept).map(|(set, _)| set.as_str()).collect();
    let asking: BTreeSet<_> = identities.asking.iter().map(|set| set.sidecar_set.as_str()).collect();
    if sets.len() < 2 || asking.iter().all(|set| without.contains(set)) {
        return Vec::new();
    }
    let sides = identities.sides(sets);
    let used: Vec<Used<'_>> = sets.iter().map(Used::from_sidecar_set).collect();
    let parties = sets.iter().zip(&used).filter_map(|(set, used)| {
        let name = set.name();
        let is_owner = asking.contains(name) && !without.contains(name);
        Some(Party { side: *sides.get(name)?, used, is_owner })
    });
    sharing::in_pod(&parties.collect::<Vec<_>>())
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
        Ok(decision) => {
            let in_effect = tokens::assert::InEffect { sets, owners: &owners };
            let mut reasons = tokens::assert::judge(pod, &decision, in_effect, &rules.trusted_csi_drivers);
            reasons.extend(shared_volumes(identities, sets, &decision));
            if rules.exposure == rules::Exposure::Deny {
                reasons.extend(exposing(pod, sets, &identities.exposure(sets, &decision, &owners)));
            }
            reasons
        }
        Err(reasons) => reasons,
    }
}

/// TOK-15: names the containers with a token of their own from a Secret in the annotations with which these webhooks leave
/// containers out. What is in the annotations stays.
pub fn skip(pod: &mut Value, decision: &Decision, owners: &Owners, webhooks: &[CloudWebhook]) {
    let of_pod = account(pod);
    let isolated = decision.grants.iter().filter(|of| of.token == Token::OfSecret && of.account != of_pod);
    let isolated: BTreeSet<&str> =
        isolated.filter_map(|grant| owners.get(&grant.sidecar_set)).flatten().map(String::as_str).collect();
    if isolated.is_empty() {
        return;
    }
    for webhook in webhooks {
        let key = webhook.annotation();
        let current = json::text(pod, &["metadata", "annotations", key]);
        let Some(value) = webhook.naming(current, isolated.iter().copied()) else { continue };
        let metadata = pod.as_object_mut().and_then(|object| json::object_mut(object, "metadata"));
        if let Some(annotations) = metadata.and_then(|metadata| json::object_mut(metadata, "annotations")) {
            annotations.insert(key.to_owned(), value.into());
        }
    }
}

/// Returns the names of each set's containers in a Pod, including both of hot-upgrade pairs.
pub fn owners(sets: &[SidecarSet]) -> Owners {
    let mut owners = Owners::new();
    for set in sets {
        let containers: BTreeSet<_> =
            made::sidecars(set).flat_map(|(list, _, sidecar)| names_in_pod(sidecar, list)).collect();
        owners.insert(set.name().to_owned(), containers.into_iter().collect());
    }
    owners
}

/// Whether a Pod has any container of these sets.
pub fn has_sidecars(pod: &Value, sets: &[SidecarSet]) -> bool {
    let owners = owners(sets);
    let names: BTreeSet<_> = owners.values().flatten().map(String::as_str).collect();
    tokens::containers(pod).any(|container| names.contains(pod::name(container)))
}

/// Returns reasons to refuse a Pod in which no sidecar gets an identity: it runs under a merged account (E6), or has what
/// only Pillion writes (TOK-17). Without the gate, too: a volume of a Secret that is not there yet could wait for it.
pub fn without(pod: &Value) -> Vec<Reason> {
    let mut reasons = Vec::new();
    if names::is_merged(account(pod)) {
        reasons.push(decide::foreign_merged(account(pod)));
    }
    reasons.append(&mut tokens::intruders(pod));
    reasons
}

/// Judges a Pod after injection in which others may be able to read the tokens of sidecars. Returns warnings (TOK-9).
///
/// # Errors
/// The reasons to refuse the Pod, if the settings say so (TOK-16).
pub fn judge_exposure(
    pod: &Value,
    exposure: &Exposure<'_>,
    sets: &[SidecarSet],
    rules: &Rules,
) -> Result<Vec<String>, Vec<Reason>> {
    match rules.exposure {
        rules::Exposure::Warn => Ok(exposure.warnings(pod)),
        rules::Exposure::Deny => {
            let reasons = exposing(pod, sets, exposure);
            if reasons.is_empty() { Ok(Vec::new()) } else { Err(reasons) }
        }
    }
}

/// TOK-16: returns reasons to refuse a Pod in which others can read the token of a sidecar, or decide what runs under its
/// account.
fn exposing(pod: &Value, sets: &[SidecarSet], exposure: &Exposure<'_>) -> Vec<Reason> {
    let mut reasons = exposure.reasons(pod);
    let trusted = exposure.trusted_with_tokens(pod);
    if trusted.is_empty() {
        return reasons;
    }
    let replaced = pillion_inject::replaced(json::items(pod, &["spec", "volumes"]), sets);
    for set in sets.iter().filter(|set| !replaced.is_empty() && trusted.contains(set.name())) {
        for (volume, index) in Used::from_sidecar_set(set).names().filter_map(|name| replaced.get_key_value(name)) {
            if reasons.len() >= ERRORS_MAX {
                return reasons;
            }
            let field = format!("spec.volumes[{index}]");
            let problem = format!(
                "volume {} of the Pod replaces the one that this SidecarSet uses, and what is in it decides what its containers do \
                 with the token",
                shown(volume)
            );
            let remedy = "rename the volume of the Pod, or set serviceAccounts.exposure to Warn";
            reasons.push(Reason::forbidden(field, problem, remedy).about(set.name()));
        }
    }
    reasons
}

/// Returns the reason to refuse a Pod because of what its version of a set has.
fn unfit(set: &SidecarSet, error: FieldError) -> Reason {
    let reason = match set.stored() {
        None => Reason::forbidden(error.path, error.detail, "correct the SidecarSet"),
        Some(revision) => {
            let problem = error.detail.split_once("; ").map_or(error.detail.as_str(), |(problem, _)| problem);
            let problem = format!("ControllerRevision \"{revision}\" has this under a ServiceAccount: {problem}");
            let remedy = "name another revision in spec.injectionStrategy.revision of the SidecarSet";
            Reason::forbidden(error.path, problem, remedy)
        }
    };
    reason.about(set.name())
}

fn refusal(set: &str, field: String, problem: String) -> Reason {
    Reason::forbidden(field, problem, "correct the SidecarSet").about(set)
}

#[cfg(test)]
mod tests;
