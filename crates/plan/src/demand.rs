//! The identities that a Pod needs. The Pod exists already or will be created from a template.
//!
//! The functions that the policy uses decide this, so the controllers prepare what the policy will ask for. A Pod that
//! the policy would refuse needs nothing.

use std::collections::BTreeMap;

use pillion_admission::pod_identity::{self, Identities};
use pillion_admission::settings::Settings;
use pillion_identity::audience::AudienceToken;
use pillion_identity::decide;
use pillion_identity::decision::Asking;
use pillion_identity::declared::Mode;
use pillion_identity::rules::{Otherwise, Rules};
use pillion_identity::target::SharedAccount;
use pillion_identity::tokens::Owners;
use pillion_inject::matching::{self, Query};
use pillion_kubernetes::json;
use pillion_kubernetes::lookup::{Answer, Lookup, ObjectRef, OneObject};
use pillion_sidecarset::pod::Pod;
use pillion_sidecarset::sidecar_set::SidecarSet;
use pillion_sidecarset::sidecar_set::compiled::CompiledSet;
use serde_json::Value;

use crate::credential::Credential;

/// The identities of a Pod that only a controller can make.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    /// The SidecarSets for which the Pod needs one merged account, ascending (M in IDP-7).
    pub merged: Option<Vec<String>>,
    /// What sidecars mount from Secrets (TOK-1, AUD-3), each with its tokens for other audiences, in the order of the
    /// set.
    pub isolated: BTreeMap<Credential, Vec<AudienceToken>>,
}

/// A SidecarSet that may ask for an identity, with its decoded request. Both are the same in every namespace.
#[derive(Clone, Debug)]
pub struct Prepared {
    set: SidecarSet,
    /// `None` if its fields are invalid: the policy then refuses its Pods.
    identity: Option<Identities>,
    owners: Owners,
}

impl Prepared {
    /// Prepares those of `sets` that can affect the identity of any Pod.
    pub fn from_sets(sets: &[SidecarSet]) -> Vec<Self> {
        let prepared = sets.iter().map(|set| {
            let identity = Identities::collect(std::slice::from_ref(set), true).ok();
            Self { set: set.clone(), identity, owners: pod_identity::owners(std::slice::from_ref(set)) }
        });
        prepared.filter(|prepared| !prepared.is_idle()).collect()
    }

    /// The ServiceAccounts that the SidecarSet names.
    pub fn accounts(&self) -> impl Iterator<Item = &str> {
        self.asking().map(|asking| asking.account.as_str())
    }

    /// Returns the tokens for other audiences that this set asks for under the account of its own Secret; `None` if the
    /// set is another one, or names another account.
    pub fn audiences(&self, of: &Credential) -> Option<&[AudienceToken]> {
        let is_it = |set: &&Asking| of.sidecar_set.as_ref() == Some(&set.sidecar_set) && of.account == set.account;
        self.asking().find(is_it).map(|set| set.declared.tokens.as_slice())
    }

    fn asking(&self) -> impl Iterator<Item = &Asking> {
        self.identity.iter().flat_map(|of| &of.asking)
    }

    /// Whether the set affects no Pod's identity. A set that asks for nothing still matters if it is a canary: it
    /// replaces its base.
    fn is_idle(&self) -> bool {
        let asks = self.identity.as_ref().is_none_or(|of| !of.asking.is_empty());
        !asks && CompiledSet::new(&self.set).canary_of.is_none()
    }
}

/// The SidecarSets that can affect the Pods of one namespace.
pub struct Demands<'a> {
    namespace: &'a str,
    cluster: OneObject<'a>,
    rules: &'a Rules,
    candidates: Vec<Candidate<'a>>,
}

struct Candidate<'a> {
    set: CompiledSet<'a>,
    prepared: &'a Prepared,
}

impl Candidate<'_> {
    fn asking(&self) -> Option<&Asking> {
        self.prepared.identity.as_ref()?.asking.first()
    }
}

/// Answers whether the namespace has a ServiceAccount.
struct Accounts<'a>(&'a dyn Fn(&str) -> bool);

impl Lookup for Accounts<'_> {
    fn get(&self, account: &ObjectRef) -> Answer {
        Ok((self.0)(&account.name).then_some(Value::Null))
    }
}

impl<'a> Demands<'a> {
    /// Selects those of `sets` that can match a Pod of `namespace`, a Namespace object with its name and labels.
    /// Selects none if the feature gate is off.
    pub fn new(sets: &'a [Prepared], settings: &'a Settings, namespace: &'a Value) -> Self {
        let (cluster, name) = (OneObject(namespace), json::text(namespace, &["metadata", "name"]));
        let rules = &settings.service_accounts;
        let mut candidates = Vec::new();
        if settings.gates.service_account_injection && !rules.protects(name) {
            for prepared in sets {
                let set = CompiledSet::new(&prepared.set);
                if matching::can_be_in(&set, name, &cluster).unwrap_or_default() {
                    candidates.push(Candidate { set, prepared });
                }
            }
        }
        Self { namespace: name, cluster, rules, candidates }
    }

    /// Returns what a Pod needs. Only `metadata.labels`, `spec.serviceAccountName` and the mounts of projected tokens
    /// of the Pod count (TOK-0).
    ///
    /// `is_there` tells whether the namespace has an account. The function is called only if `onMissing` is `Skip`,
    /// because only then a missing account changes the merged set. If `onMissing` is `Deny`, Pods are refused until all
    /// accounts exist; preparing the merged account before then does no harm.
    pub fn for_pod(&self, pod: &Value, is_there: &dyn Fn(&str) -> bool) -> Demand {
        if self.candidates.is_empty() || pod_identity::is_mirror(pod) {
            return Demand::default();
        }
        let Some(matching) = Pod::decode(pod).ok().and_then(|pod| self.matching(pod)) else { return Demand::default() };
        let (mut identities, mut owners) = (Identities::default(), Owners::new());
        for candidate in matching {
            // The policy refuses the Pods of a set whose fields are invalid.
            let Some(identity) = &candidate.prepared.identity else { return Demand::default() };
            identities.asking.extend(identity.asking.iter().cloned());
            for (name, containers) in &candidate.prepared.owners {
                owners.insert(name.clone(), containers.clone());
            }
        }
        if identities.asking.is_empty() {
            return Demand::default();
        }
        let anything = |_: &str| true;
        let accounts = Accounts(if self.rules.on_missing == Otherwise::Skip { is_there } else { &anything });
        let app = identities.app(pod, &owners, self.rules);
        let Ok(resolved) = decide::resolve(&identities.asking, app, self.namespace, self.rules, &accounts) else {
            return Demand::default();
        };
        let merged = resolved.merged().map(|sets| ascending(sets.iter().map(|set| set.sidecar_set.as_str())));
        let isolated = resolved.isolated().map(|set| (Credential::from_asking(set), set.declared.tokens.clone()));
        Demand { merged, isolated: isolated.collect() }
    }

    /// Returns the request of the set of this name, if Pods of the namespace can match the set and it would merge its
    /// account with others (MRG-8).
    pub fn merging(&self, name: &str) -> Option<&Asking> {
        self.all_merging().find(|asking| asking.sidecar_set == name)
    }

    /// Returns every combination of sets that could need a merged account in this namespace, made of the first four
    /// merging sets by name (MRG-6). Also returns the number of unpaused sets that merge here.
    pub fn combinations(&self) -> (Vec<Vec<String>>, usize) {
        let merging = self.candidates.iter().filter(|candidate| self.merges(candidate) && !candidate.set.paused);
        let mut merging: Vec<&Candidate<'_>> = merging.collect();
        merging.sort_by_key(|candidate| candidate.set.name);
        let first = merging.get(..MOST_PREPARED).unwrap_or(&merging);
        let mut combinations = Vec::new();
        for choice in 0_u32..1 << first.len() {
            let chosen = first.iter().enumerate().filter(|(index, _)| choice >> index & 1 == 1);
            let chosen: Vec<&Candidate<'_>> = chosen.map(|(_, candidate)| *candidate).collect();
            // A canary and its base are never in one Pod.
            let excludes = |one: &&Candidate<'_>| chosen.iter().any(|set| one.set.canary_of == Some(set.set.name));
            let asking: Vec<&Asking> = chosen.iter().filter_map(|candidate| candidate.asking()).collect();
            if matches!(SharedAccount::choose(&asking, self.rules), SharedAccount::Merged(_))
                && !chosen.iter().any(excludes)
            {
                combinations.push(ascending(chosen.iter().map(|candidate| candidate.set.name)));
            }
        }
        (combinations, merging.len())
    }

    fn all_merging(&self) -> impl Iterator<Item = &Asking> {
        self.candidates.iter().filter(|candidate| self.merges(candidate)).filter_map(Candidate::asking)
    }

    fn merges(&self, candidate: &Candidate<'_>) -> bool {
        candidate.asking().is_some_and(|Asking { account, declared, .. }| {
            declared.merges()
                && (declared.mode != Mode::Pod || self.rules.allow_pod_mode)
                && self.rules.allows(self.namespace, account)
        })
    }

    /// Returns the sets that the policy injects into a Pod, in the policy's order; `None` if the policy refuses the
    /// Pod.
    fn matching(&self, pod: Pod<'_>) -> Option<Vec<&Candidate<'_>>> {
        let query = Query { pod, namespace: self.namespace, uid: "" };
        let mut matching = Vec::new();
        for candidate in &self.candidates {
            if matching::is_match(&candidate.set, query, &self.cluster).ok()? {
                matching.push(candidate);
            }
        }
        let sets: Vec<&CompiledSet<'_>> = matching.iter().map(|candidate| &candidate.set).collect();
        let injected = matching::names_of_injected(&sets, query, &self.cluster).ok()?;
        matching.retain(|candidate| injected.contains(candidate.set.name));
        Some(matching)
    }
}

/// The number of sets that are prepared in every combination (MRG-6): four sets make eleven combinations.
pub(crate) const MOST_PREPARED: usize = 4;

fn ascending<'a>(texts: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut texts: Vec<String> = texts.map(str::to_owned).collect();
    texts.sort_unstable();
    texts.dedup();
    texts
}

#[cfg(test)]
mod tests;
