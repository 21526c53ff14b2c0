//! The identities that a Pod needs. The Pod exists already or will be created from a template.
//!
//! The functions that the policy uses decide this, so the controllers prepare what the policy will ask for. A Pod that
//! the policy would refuse needs nothing.

use std::collections::{BTreeMap, BTreeSet, HashMap};

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
use pillion_kubernetes::json::{self, Object};
use pillion_kubernetes::lookup::{Answer, Lookup, ObjectRef, OneObject};
use pillion_sidecarset::pod::Pod;
use pillion_sidecarset::sidecar_set::SidecarSet;
use pillion_sidecarset::sidecar_set::compiled::{CompiledSet, Namespaces, Scope};
use serde_json::Value;

use crate::by_label::{ByLabel, labels};
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
    /// Whether it selects every namespace.
    is_everywhere: bool,
    is_paused: bool,
}

impl Prepared {
    fn new(set: &SidecarSet) -> Self {
        let compiled = CompiledSet::new(set);
        Self {
            identity: Identities::collect(std::slice::from_ref(set), true).ok(),
            owners: pod_identity::owners(std::slice::from_ref(set)),
            is_everywhere: matches!((&compiled.scope, &compiled.namespaces), (Scope::Cluster, Namespaces::All)),
            is_paused: compiled.paused,
            set: set.clone(),
        }
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

    /// Whether the set can match a Pod of a namespace.
    fn can_be_in(&self, namespace: &str, cluster: &dyn Lookup) -> bool {
        self.is_everywhere || matching::can_be_in(&CompiledSet::new(&self.set), namespace, cluster).unwrap_or_default()
    }

    /// Whether the set affects no Pod's identity. A set that asks for nothing still matters if it is a canary: it
    /// replaces its base.
    fn is_idle(&self) -> bool {
        let asks = self.identity.as_ref().is_none_or(|of| !of.asking.is_empty());
        !asks && CompiledSet::new(&self.set).canary_of.is_none()
    }
}

/// The SidecarSets of a cluster that can affect the identity of any Pod. Every namespace asks for its own among them, so
/// that a comparison with each would cost the product of both numbers.
#[derive(Clone, Debug, Default)]
pub struct PreparedSets {
    sets: Vec<Prepared>,
    /// The places of sets in `sets`.
    by_label: ByLabel<usize>,
    /// The places of those that merge their accounts.
    merging: Merging,
}

/// The places of the sets that merge their accounts.
#[derive(Clone, Debug, Default)]
struct Merging {
    /// The sets whose selector names no namespace. They may be in any.
    anywhere: BTreeSet<usize>,
    /// The sets whose selector names namespaces, once for each of these names.
    named: HashMap<String, BTreeSet<usize>>,
}

impl Merging {
    fn put(&mut self, scope: &Scope<'_>, place: usize) {
        match scope {
            Scope::Cluster => {
                self.anywhere.insert(place);
            }
            Scope::Namespaces(namespaces) => {
                for namespace in namespaces {
                    self.named.entry((*namespace).to_owned()).or_default().insert(place);
                }
            }
        }
    }
}

impl PreparedSets {
    /// Prepares those of `sets` that can affect the identity of any Pod.
    pub fn from_sets(sets: &[SidecarSet]) -> Self {
        let sets: Vec<Prepared> = sets.iter().map(Prepared::new).filter(|prepared| !prepared.is_idle()).collect();
        let mut all = Self::default();
        for (place, prepared) in sets.iter().enumerate() {
            let compiled = CompiledSet::new(&prepared.set);
            // A set whose selector cannot be read concerns every Pod: the policy refuses it.
            let is_valid = compiled.selector.is_ok();
            all.by_label.put(labels(&prepared.set).next().filter(|_| is_valid), place);
            if prepared.asking().next().is_some_and(|asking| asking.declared.merges()) {
                all.merging.put(&compiled.scope, place);
            }
        }
        Self { sets, ..all }
    }

    /// Returns the SidecarSets.
    pub fn sidecar_sets(&self) -> impl Iterator<Item = &SidecarSet> {
        self.sets.iter().map(|prepared| &prepared.set)
    }

    /// Returns the sets.
    pub fn iter(&self) -> impl Iterator<Item = &Prepared> {
        self.sets.iter()
    }

    /// Returns those that may select a Pod with these labels, in their order.
    fn with_labels<'a>(&'a self, labels: Option<&'a Object>) -> impl Iterator<Item = &'a Prepared> {
        let labels = labels.into_iter().flatten().filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)));
        self.by_label.of_pod(labels).into_iter().filter_map(|place| self.sets.get(*place))
    }

    /// Returns those that merge their accounts and may be in a namespace.
    fn merging(&self, namespace: &str) -> impl Iterator<Item = &Prepared> {
        let named = self.merging.named.get(namespace).into_iter().flatten();
        self.merging.anywhere.iter().chain(named).filter_map(|place| self.sets.get(*place))
    }
}

/// The SidecarSets that can affect the Pods of one namespace.
pub struct Demands<'a> {
    namespace: &'a str,
    cluster: OneObject<'a>,
    rules: &'a Rules,
    /// `None` if no Pod of the namespace gets an identity.
    sets: Option<&'a PreparedSets>,
}

struct Candidate<'a> {
    set: CompiledSet<'a>,
    prepared: &'a Prepared,
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
    pub fn new(sets: &'a PreparedSets, settings: &'a Settings, namespace: &'a Value) -> Self {
        let (cluster, name) = (OneObject(namespace), json::text(namespace, &["metadata", "name"]));
        let rules = &settings.service_accounts;
        let is_concerned = settings.gates.service_account_injection && !rules.protects(name);
        Self { namespace: name, cluster, rules, sets: is_concerned.then_some(sets) }
    }

    /// Returns what a Pod needs. Only `metadata.labels`, `spec.serviceAccountName` and the mounts of projected tokens
    /// of the Pod count (TOK-0).
    ///
    /// `is_there` tells whether the namespace has an account. The function is called only if `onMissing` is `Skip`,
    /// because only then a missing account changes the merged set. If `onMissing` is `Deny`, Pods are refused until all
    /// accounts exist; preparing the merged account before then does no harm.
    pub fn for_pod(&self, pod: &Value, is_there: &dyn Fn(&str) -> bool) -> Demand {
        let Some(sets) = self.sets.filter(|sets| !sets.sets.is_empty()) else { return Demand::default() };
        if pod_identity::is_mirror(pod) {
            return Demand::default();
        }
        let candidates: Vec<Candidate<'_>> = sets
            .with_labels(json::object(pod, &["metadata", "labels"]))
            .filter(|prepared| prepared.can_be_in(self.namespace, &self.cluster))
            .map(|prepared| Candidate { set: CompiledSet::new(&prepared.set), prepared })
            .collect();
        let Some(matching) = Pod::decode(pod).ok().and_then(|pod| self.matching(&candidates, pod)) else {
            return Demand::default();
        };
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
        let mut named = self.merging_sets().filter(|prepared| prepared.set.name() == name);
        named.find(|prepared| self.merges(prepared)).and_then(|prepared| prepared.asking().next())
    }

    /// Returns every combination of sets that could need a merged account in this namespace, made of the first four
    /// merging sets by name (MRG-6). Also returns the number of unpaused sets that merge here.
    pub fn combinations(&self) -> (Vec<Vec<String>>, usize) {
        let merging = self.merging_sets().filter(|prepared| !prepared.is_paused && self.merges(prepared));
        let mut merging: Vec<&Prepared> = merging.collect();
        merging.sort_by_key(|prepared| prepared.set.name());
        let first = merging.get(..MOST_PREPARED).unwrap_or(&merging);
        let mut combinations = Vec::new();
        for choice in 0_u32..1 << first.len() {
            let chosen = first.iter().enumerate().filter(|(index, _)| choice >> index & 1 == 1);
            let chosen: Vec<&Prepared> = chosen.map(|(_, prepared)| *prepared).collect();
            // A canary and its base are never in one Pod.
            let excludes = |one: &&Prepared| chosen.iter().any(|other| one.set.canary_of() == Some(other.set.name()));
            let asking: Vec<&Asking> = chosen.iter().filter_map(|prepared| prepared.asking().next()).collect();
            if matches!(SharedAccount::choose(&asking, self.rules), SharedAccount::Merged(_))
                && !chosen.iter().any(excludes)
            {
                combinations.push(ascending(chosen.iter().map(|prepared| prepared.set.name())));
            }
        }
        (combinations, merging.len())
    }

    fn merging_sets(&self) -> impl Iterator<Item = &'a Prepared> {
        self.sets.into_iter().flat_map(|sets| sets.merging(self.namespace))
    }

    /// Whether a set that merges does so in this namespace.
    fn merges(&self, prepared: &Prepared) -> bool {
        prepared.asking().next().is_some_and(|Asking { account, declared, .. }| {
            (declared.mode != Mode::Pod || self.rules.allow_pod_mode)
                && self.rules.allows(self.namespace, account)
                && prepared.can_be_in(self.namespace, &self.cluster)
        })
    }

    /// Returns the sets that the policy injects into a Pod, in the policy's order; `None` if the policy refuses the
    /// Pod.
    fn matching<'c>(&self, candidates: &'c [Candidate<'a>], pod: Pod<'_>) -> Option<Vec<&'c Candidate<'a>>> {
        let query = Query { pod, namespace: self.namespace, uid: "" };
        let mut matching = Vec::new();
        for candidate in candidates {
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
