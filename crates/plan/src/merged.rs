//! The ServiceAccounts, Roles and RoleBindings that stand for several SidecarSets (`serviceaccounts.md` A6).
//!
//! One namespace at a time: what its workloads and Pods need ([`needed`]), and what there is to do about it ([`plan`]).
//! What is merged is found by its name and its annotation alone, so that nothing has to be remembered but since when
//! something is not needed.

mod objects;
mod steps;

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::Value;

use self::objects::{Found, State};
pub use self::objects::{KINDS, LABEL, MANAGED_BY, Trio, is_ours, without_finalizers};
use super::Step;
use super::demand::{Demands, MOST_PREPARED};
use pillion_identity::author;
use pillion_identity::decision::Asking;
use pillion_identity::names;
use pillion_identity::rules::Rules;
use pillion_kubernetes::json;
use pillion_kubernetes::time::Timestamp;

/// On a Namespace: every merged account that its SidecarSets could need is made before anybody asks (G6).
pub const PREPARE: &str = "pillion.dev/prepare-merged";

/// How long things take, in seconds.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// How long something is not needed before it is collected (G10).
    pub idle: i64,
    /// How long it is marked before it is deleted (G11): longer than it takes from a policy's look to the Pod.
    pub pending: i64,
}

impl Default for Times {
    /// Ten minutes, and one.
    fn default() -> Self {
        Self { idle: 600, pending: 60 }
    }
}

/// The sets of SidecarSets that need a merged account, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needed {
    /// Each ascending.
    pub sets: BTreeSet<Vec<String>>,
    /// How many SidecarSets merge here, where they are too many to prepare all of them.
    pub too_many: Option<usize>,
}

/// What the Pods of a namespace need, those that are there and those that its workloads will make; and where the
/// Namespace asks for it, what any Pod could need (G6). `is_there`: as for [`Demands::of`].
pub fn needed<'p>(
    demands: &Demands<'_>,
    namespace: &Value,
    pods: impl Iterator<Item = &'p Value>,
    is_there: &dyn Fn(&str) -> bool,
) -> Needed {
    let mut needed = Needed { sets: pods.filter_map(|pod| demands.of(pod, is_there).merged).collect(), too_many: None };
    if json::text(namespace, &["metadata", "labels", PREPARE]) == "true" {
        let (combinations, merging) = demands.combinations();
        needed.sets.extend(combinations);
        needed.too_many = (merging > MOST_PREPARED).then_some(merging);
    }
    needed
}

/// What is seen of a namespace.
#[derive(Clone, Copy)]
pub struct Seen<'a> {
    /// The Namespace: its name and whether it is being deleted.
    pub namespace: &'a Value,
    /// Its SidecarSets.
    pub demands: &'a Demands<'a>,
    /// What is needed.
    pub needed: &'a Needed,
    /// The merged accounts that unfinished Pods run under, as far as a watch shows.
    pub used: &'a BTreeSet<String>,
    /// What is there, by name.
    pub objects: &'a BTreeMap<String, Trio>,
    /// Whether nobody knows what a SidecarSet says: what stands for it is left as it is.
    pub is_unknown: &'a dyn Fn(&str) -> bool,
    /// What nobody may grant (P4).
    pub rules: &'a Rules,
    /// What is neither needed nor used, by name, and since when.
    pub idle: &'a BTreeMap<String, Timestamp>,
    /// The time.
    pub now: Timestamp,
    /// How long things take.
    pub times: Times,
}

/// What there is to do in a namespace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// By name; each on its own.
    pub groups: Vec<Group>,
    /// What people should know.
    pub notices: Vec<Notice>,
    /// What is neither needed nor used, by name, and since when: for the next plan.
    pub idle: BTreeMap<String, Timestamp>,
    /// In how many seconds there may be something to do although nothing changes.
    pub look_again: Option<i64>,
}

/// What there is to do about one ServiceAccount with its Role and RoleBinding, in this order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Group {
    /// Their name.
    pub name: String,
    /// What they stand for.
    pub sets: Vec<String>,
    /// What is done whoever uses it. An `Apply` without a UID is of the object that the `Create` before it made.
    pub steps: Vec<Step>,
    /// What is done where no Pod uses it, which has to be asked of the API server right before.
    pub if_unused: Vec<Step>,
    /// What is done where one does.
    pub if_used: Vec<Step>,
    /// What people should know where one does.
    pub notice_if_used: Option<Notice>,
}

impl Group {
    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty() && !self.asks_for_pods()
    }

    /// Whether it has to be asked which Pods use it.
    pub fn asks_for_pods(&self) -> bool {
        !self.if_unused.is_empty() || !self.if_used.is_empty()
    }
}

/// What people should know.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Notice {
    /// An object has the name, and stands for something else (G2). It is left alone.
    Foreign {
        /// Its kind.
        kind: &'static str,
        /// Its name.
        name: String,
        /// The SidecarSets that would need the name.
        sets: Vec<String>,
    },
    /// The account was deleted while Pods run under it, whose tokens are refused (G13).
    AccountLost {
        /// Its name.
        name: String,
        /// What it stood for.
        sets: Vec<String>,
    },
    /// A SidecarSet asks for what nobody may grant (P4).
    Denied {
        /// The SidecarSet.
        set: String,
        /// What, and what to do.
        why: String,
    },
    /// More SidecarSets merge in a prepared namespace than can be prepared in every combination (G6).
    TooMany {
        /// How many.
        merging: usize,
    },
}

impl Notice {
    /// The reason of an Event.
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::Foreign { .. } => "ForeignObject",
            Self::AccountLost { .. } => "MergedAccountLost",
            Self::Denied { .. } => "PermissionDenied",
            Self::TooMany { .. } => "TooManyToPrepare",
        }
    }

    /// The SidecarSets that it is about.
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

/// Compares a namespace with what it should be.
pub fn plan(seen: &Seen<'_>) -> Plan {
    let mut plan = Plan::default();
    if is_going(seen.namespace) {
        // G9: finalizers would keep the namespace from going; what is in it goes with it.
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

/// What is to be done about one name.
fn one(seen: &Seen<'_>, name: &str, sets: &[String], plan: &mut Plan) {
    let group = Group { name: name.to_owned(), sets: sets.to_vec(), ..Group::default() };
    let none = [None, None, None];
    let found = Found::of(name, sets, seen.objects.get(name).unwrap_or(&none));
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
        // What a Pod runs under that would still get it is needed like what it will be created with.
        Some(merging) if seen.needed.sets.contains(sets) || is_used => {
            let denied = denied(&merging, seen.rules);
            if denied.is_empty() {
                let namespace = json::text(seen.namespace, &["metadata", "name"]);
                plan.push(keep(&found, &merging, namespace, group));
            } else {
                plan.notices.extend(denied);
            }
        }
        merging => leave(seen, &found, (is_used, merging.is_some()), group, plan),
    }
}

/// P4, which is asked again here: nobody else stands between a SidecarSet that was written without the policy and what
/// the controller may grant.
fn denied(merging: &[&Asking], rules: &Rules) -> Vec<Notice> {
    let of = |asking: &&Asking| {
        let set = asking.sidecar_set.clone();
        let reason = author::denied(&set, &asking.declared, rules).into_iter().next()?;
        Some(Notice::Denied { why: format!("{}: {}; {}", reason.field, reason.problem, reason.remedy), set })
    };
    merging.iter().filter_map(of).collect()
}

/// Something needed is made (G4), kept as it should be, and not collected (G11).
fn keep(found: &Found<'_>, merging: &[&Asking], namespace: &str, mut group: Group) -> Group {
    let wanted = objects::wanted(merging, namespace);
    let notice = Notice::AccountLost { name: group.name.clone(), sets: group.sets.clone() };
    for (state, wanted) in found.states().zip(&wanted) {
        let (mut steps, is_there) = match state {
            State::Missing => (steps::make(wanted), false),
            // It goes, and the change is seen: then it is missing.
            State::Going(object) => (without_finalizers(object).into_iter().collect(), false),
            State::There(object) => (steps::repair(object, wanted), true),
        };
        let is_account = json::text(wanted, &["kind"]) == "ServiceAccount";
        if is_account && !is_there {
            // G13: tokens of an account that is made anew are those of another one.
            group.if_unused = steps;
            group.notice_if_used = Some(notice.clone());
            continue;
        }
        // Where the account has to be made first, so has the order to be kept (G4).
        if group.asks_for_pods() { group.if_unused.append(&mut steps) } else { group.steps.append(&mut steps) }
    }
    group
}

/// Something that is not needed: its finalizers go where its SidecarSets will never need it as it is (G8), and where
/// nobody uses it for long enough it is collected in two phases (G10, G11).
fn leave(
    seen: &Seen<'_>,
    found: &Found<'_>,
    (is_used, may_be_needed): (bool, bool),
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
        // Its Pods may have come after the mark.
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
                // RoleBinding, Role, ServiceAccount.
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
