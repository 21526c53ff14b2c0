//! The ServiceAccounts, Roles and RoleBindings that stand for several SidecarSets (MRG-1).
//!
//! Works on one namespace at a time: [`needed`] finds what its workloads and Pods need, and [`plan`] compares that with
//! the existing objects. Merged objects are recognised by name and annotation alone. The only state to remember between
//! plans is how long an object has been unneeded.

mod objects;
mod steps;

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::Value;

use self::objects::{Found, ObjectState};
pub use self::objects::{KINDS, LABEL, MANAGED_BY, MergedKind, Trio, is_ours, without_finalizers};
use super::Step;
use super::demand::{Demands, MOST_PREPARED};
use pillion_identity::author;
use pillion_identity::decision::Asking;
use pillion_identity::names;
use pillion_identity::rules::Rules;
use pillion_kubernetes::json;
use pillion_kubernetes::time::Timestamp;

/// Label of a Namespace: if it is `true`, every merged account that its SidecarSets could need is made in advance
/// (MRG-6).
pub(crate) const PREPARE: &str = "pillion.dev/prepare-merged";

/// The delays of collection, in seconds.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// How long an object must be unneeded before it is collected (MRG-10).
    pub idle: i64,
    /// How long an object is marked before it is deleted (MRG-11). This is longer than the time from the policy's
    /// lookup to the creation of the Pod.
    pub pending: i64,
}

impl Default for Times {
    /// Ten minutes until collection, and one minute from the mark to deletion.
    fn default() -> Self {
        Self { idle: 600, pending: 60 }
    }
}

/// The combinations of SidecarSets that need a merged account.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needed {
    /// The names of the SidecarSets of each combination, ascending.
    pub sets: BTreeSet<Vec<String>>,
    /// The number of SidecarSets that merge here, if there are too many to prepare every combination.
    pub too_many: Option<usize>,
}

/// Returns what the Pods of a namespace need. `pods` are its existing Pods and those that its workloads will create. If
/// the Namespace asks for it, the result includes what any Pod could need (MRG-6). For `is_there`, see [`Demands::for_pod`].
pub fn needed<'p>(
    demands: &Demands<'_>,
    namespace: &Value,
    pods: impl Iterator<Item = &'p Value>,
    is_there: &dyn Fn(&str) -> bool,
) -> Needed {
    let mut needed =
        Needed { sets: pods.filter_map(|pod| demands.for_pod(pod, is_there).merged).collect(), too_many: None };
    if json::text(namespace, &["metadata", "labels", PREPARE]) == "true" {
        let (combinations, merging) = demands.combinations();
        needed.sets.extend(combinations);
        needed.too_many = (merging > MOST_PREPARED).then_some(merging);
    }
    needed
}

/// The observed state of a namespace.
#[derive(Clone, Copy)]
pub struct MergedInput<'a> {
    /// The Namespace: its name, and whether it is being deleted.
    pub namespace: &'a Value,
    /// The SidecarSets that apply in it.
    pub demands: &'a Demands<'a>,
    /// The combinations that need a merged account.
    pub needed: &'a Needed,
    /// The merged accounts of Pods that have not finished, according to a watch.
    pub used: &'a BTreeSet<String>,
    /// The existing merged objects, by name.
    pub objects: &'a BTreeMap<String, Trio>,
    /// Whether the contents of a SidecarSet are unknown. Objects that stand for such a set are left as they are.
    pub is_unknown: &'a dyn Fn(&str) -> bool,
    /// The policy's rules: they list the permissions that are never granted (ESC-4).
    pub rules: &'a Rules,
    /// The objects that are neither needed nor used, by name, each with the time since when.
    pub idle: &'a BTreeMap<String, Timestamp>,
    /// The current time.
    pub now: Timestamp,
    /// The delays of collection.
    pub times: Times,
}

/// The writes for a namespace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// The groups, sorted by name. Each group is independent of the others.
    pub groups: Vec<Group>,
    /// Notices for people.
    pub notices: Vec<Notice>,
    /// The objects that are neither needed nor used, by name, each with the time since when. The next plan takes this
    /// as input.
    pub idle: BTreeMap<String, Timestamp>,
    /// The seconds until the next action may be due although nothing changes.
    pub look_again: Option<i64>,
}

/// The writes for one ServiceAccount with its Role and RoleBinding, in this order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Group {
    /// Their name.
    pub name: String,
    /// The SidecarSets that they stand for.
    pub sets: Vec<String>,
    /// Steps that are carried out in any case. An `Apply` without a UID concerns the object that the preceding `Create`
    /// made.
    pub steps: Vec<Step>,
    /// Steps that are carried out if no Pod uses the account. The API server must be asked immediately before.
    pub if_unused: Vec<Step>,
    /// Steps that are carried out if a Pod uses the account.
    pub if_used: Vec<Step>,
    /// The notice for people if a Pod uses the account.
    pub notice_if_used: Option<Notice>,
}

impl Group {
    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty() && !self.asks_for_pods()
    }

    /// Whether the steps depend on which Pods use the account.
    pub fn asks_for_pods(&self) -> bool {
        !self.if_unused.is_empty() || !self.if_used.is_empty()
    }
}

/// A notice for people.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Notice {
    /// An object has the needed name but stands for something else (MRG-2). It is left alone.
    Foreign {
        /// Its kind.
        kind: &'static str,
        /// Its name.
        name: String,
        /// The SidecarSets that would need the name.
        sets: Vec<String>,
    },
    /// The account was deleted while Pods run under it. The API server refuses their tokens (MRG-13).
    AccountLost {
        /// Its name.
        name: String,
        /// The SidecarSets that it stood for.
        sets: Vec<String>,
    },
    /// A SidecarSet asks for a permission that is never granted (ESC-4).
    Denied {
        /// The SidecarSet.
        set: String,
        /// The permission, and the remedy.
        why: String,
    },
    /// More SidecarSets merge in a prepared namespace than can be prepared in every combination (MRG-6).
    TooMany {
        /// The number of SidecarSets that merge.
        merging: usize,
    },
}

impl Notice {
    /// Returns the reason of the notice's Event.
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::Foreign { .. } => "ForeignObject",
            Self::AccountLost { .. } => "MergedAccountLost",
            Self::Denied { .. } => "PermissionDenied",
            Self::TooMany { .. } => "TooManyToPrepare",
        }
    }

    /// Returns the SidecarSets that the notice concerns.
    pub fn sets(&self) -> &[String] {
        match self {
            Self::Foreign { sets, .. } | Self::AccountLost { sets, .. } => sets,
            Self::Denied { set, .. } => std::slice::from_ref(set),
            Self::TooMany { .. } => &[],
        }
    }
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Foreign { kind, name, sets } => write!(
                f,
                "{kind} \"{name}\" is not what Pillion made for the SidecarSets {}, and is left alone; delete it as \
                 serviceAccounts.controllerUser, or their Pods are refused",
                sets.join(",")
            ),
            Self::AccountLost { name, sets } => write!(
                f,
                "ServiceAccount \"{name}\", merged for the SidecarSets {}, was deleted while Pods run under it; their \
                 tokens are refused, and it is made anew once they are gone: delete them",
                sets.join(",")
            ),
            Self::Denied { set, why } => write!(f, "SidecarSet \"{set}\": {why}"),
            Self::TooMany { merging } => write!(
                f,
                "{merging} SidecarSets merge here; combinations of the first {MOST_PREPARED} by name are prepared, others \
                 when a workload needs them"
            ),
        }
    }
}

/// Plans the writes that bring a namespace to its wanted state.
pub fn plan(seen: &MergedInput<'_>) -> Plan {
    let mut plan = Plan::default();
    if is_going(seen.namespace) {
        // MRG-9: finalizers would block the deletion of the namespace. Its contents are deleted with it.
        for (name, trio) in seen.objects {
            let steps = trio.iter().flatten().filter_map(|object| without_finalizers(object)).collect();
            plan.push(Group { name: name.clone(), steps, ..Group::default() });
        }
        return plan;
    }
    plan.notices.extend(seen.needed.too_many.map(|merging| Notice::TooMany { merging }));
    let mut names: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for sets in &seen.needed.sets {
        names.insert(names::merged(&texts(sets)), sets.clone());
    }
    for (name, trio) in seen.objects {
        let sets = trio.iter().flatten().map(|object| objects::sets_of(object)).find(|sets| !sets.is_empty());
        names.entry(name.clone()).or_insert_with(|| sets.unwrap_or_default());
    }
    for (name, sets) in names {
        one(seen, &name, &sets, &mut plan);
    }
    plan
}

impl Plan {
    fn push(&mut self, group: Group) {
        if !group.is_empty() {
            self.groups.push(group);
        }
    }

    fn look_again_in(&mut self, seconds: i64) {
        let seconds = seconds.max(1);
        self.look_again = Some(self.look_again.map_or(seconds, |before| before.min(seconds)));
    }
}

fn texts(names: &[String]) -> Vec<&str> {
    names.iter().map(String::as_str).collect()
}

/// Whether a Namespace is being deleted.
pub fn is_going(namespace: &Value) -> bool {
    json::is_terminating(namespace) || json::text(namespace, &["status", "phase"]) == "Terminating"
}

/// Plans for the objects of one name.
fn one(seen: &MergedInput<'_>, name: &str, sets: &[String], plan: &mut Plan) {
    let group = Group { name: name.to_owned(), sets: sets.to_vec(), ..Group::default() };
    let none = [None, None, None];
    let found = Found::new(name, sets, seen.objects.get(name).unwrap_or(&none));
    let foreign = found.foreign();
    if !foreign.is_empty() {
        let notice = |kind| Notice::Foreign { kind, name: name.to_owned(), sets: sets.to_vec() };
        plan.notices.extend(foreign.into_iter().map(notice));
        return;
    }
    if sets.iter().any(|set| (seen.is_unknown)(set)) {
        return;
    }
    let merging: Option<Vec<&Asking>> = sets.iter().map(|set| seen.demands.merging(set)).collect();
    let is_used = seen.used.contains(name);
    match merging {
        // An account that Pods run under, and would get again, is needed as much as one for new Pods.
        Some(merging) if seen.needed.sets.contains(sets) || is_used => {
            let denied = denied(&merging, seen.rules);
            if denied.is_empty() {
                let namespace = json::text(seen.namespace, &["metadata", "name"]);
                plan.push(keep(&found, &merging, namespace, group));
            } else {
                plan.notices.extend(denied);
            }
        }
        merging => leave(seen, &found, AccountUse { is_used, may_be_needed: merging.is_some() }, group, plan),
    }
}

/// Checks ESC-4 again: a SidecarSet may have been written without the policy, so no other check limits what the
/// controller grants to it.
fn denied(merging: &[&Asking], rules: &Rules) -> Vec<Notice> {
    let of = |asking: &&Asking| {
        let set = asking.sidecar_set.clone();
        let reason = author::denied(&set, &asking.declared, rules).into_iter().next()?;
        Some(Notice::Denied { why: format!("{}: {}; {}", reason.field, reason.problem, reason.remedy), set })
    };
    merging.iter().filter_map(of).collect()
}

/// Plans for needed objects: creates missing ones (MRG-4), repairs changed ones, and removes the marks for collection
/// (MRG-11).
fn keep(found: &Found<'_>, merging: &[&Asking], namespace: &str, mut group: Group) -> Group {
    let wanted = objects::wanted(merging, namespace);
    let notice = Notice::AccountLost { name: group.name.clone(), sets: group.sets.clone() };
    for (state, wanted) in found.states().zip(&wanted) {
        let (mut steps, is_there) = match state {
            ObjectState::Missing => (steps::make(wanted), false),
            // Without finalizers the object disappears. The watch reports that, and the next plan finds the object
            // missing.
            ObjectState::Going(object) => (without_finalizers(object).into_iter().collect(), false),
            ObjectState::There(object) => (steps::repair(object, wanted), true),
        };
        let is_account = json::text(wanted, &["kind"]) == "ServiceAccount";
        if is_account && !is_there {
            // MRG-13: a new account of the same name does not make the tokens of the old one valid again.
            group.if_unused = steps;
            group.notice_if_used = Some(notice.clone());
            continue;
        }
        // If the account must be created first, the other objects wait for it, so that the order holds (MRG-4).
        if group.asks_for_pods() { group.if_unused.append(&mut steps) } else { group.steps.append(&mut steps) }
    }
    group
}

/// Who needs a merged account.
#[derive(Clone, Copy)]
struct AccountUse {
    /// Whether Pods run under it.
    is_used: bool,
    /// Whether its SidecarSets may need it again as it is.
    may_be_needed: bool,
}

/// Plans for unneeded objects. Their finalizers are removed if the SidecarSets will never need them as they are
/// (MRG-8). Objects that have been unused for long enough are collected in two steps (MRG-10, MRG-11).
fn leave(
    seen: &MergedInput<'_>,
    found: &Found<'_>,
    AccountUse { is_used, may_be_needed }: AccountUse,
    mut group: Group,
    plan: &mut Plan,
) {
    let objects: Vec<&Value> = found.objects().collect();
    let stripped = || objects.iter().filter_map(|object| without_finalizers(object)).collect::<Vec<_>>();
    if !may_be_needed || objects.iter().any(|object| json::is_terminating(object)) {
        group.steps = stripped();
    }
    let marked_since = objects::marked_since(&objects);
    if is_used {
        // The Pods that use the account may have been created after the mark.
        group.steps.extend(objects.iter().filter_map(|object| steps::unmarked(object)));
        plan.push(group);
        return;
    }
    let since = seen.idle.get(&group.name).copied().unwrap_or(seen.now);
    plan.idle.insert(group.name.clone(), since);
    let is_last_use = Timestamp(since.0.saturating_add(seen.times.idle));
    match marked_since {
        Some(marked) => {
            let end = marked.0.saturating_add(seen.times.pending);
            if end > seen.now.0 {
                plan.look_again_in(end - seen.now.0);
            } else if group.steps.is_empty() && stripped().is_empty() {
                // Reversed order: RoleBinding, Role, ServiceAccount.
                group.if_unused = objects.iter().rev().filter_map(|object| steps::deleted(object)).collect();
                if !group.if_unused.is_empty() {
                    group.if_used = objects.iter().filter_map(|object| steps::unmarked(object)).collect();
                }
            } else {
                group.steps = stripped();
            }
        }
        None if is_last_use <= seen.now => {
            group.steps.clear();
            group.if_unused = objects.iter().filter_map(|object| steps::collected(object, seen.now)).collect();
        }
        None => plan.look_again_in(is_last_use.0 - seen.now.0),
    }
    plan.push(group);
}
