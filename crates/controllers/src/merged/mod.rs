//! `merged-serviceaccounts`: keeps the ServiceAccount, Role and RoleBinding that stand for several SidecarSets (MRG-1).
//! `pillion_plan::merged` makes the plans.
//!
//! The controller holds neither `escalate` nor `bind`, so it cannot grant permissions that its own role does not hold
//! (ESC-6).

mod carry;
mod ceiling;
mod lost;
mod uninstall;
mod watches;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use pillion_identity::names;
use pillion_kubernetes::json;
use pillion_kubernetes::time::Timestamp;
use pillion_plan::demand::Demands;
use pillion_plan::merged::{Group, KINDS, MergedInput, Needed, Notice, Plan, Times, is_going, needed, plan};
use pillion_runtime::context::Context;
use pillion_runtime::controller::{Controller, Done, Failure};
use pillion_runtime::effects::{Effects, Journal};
use pillion_runtime::metrics::Kind;
use pillion_runtime::rights::{self, KEEP, Right, Scope, Situation};
use pillion_runtime::sets::Sets;
use pillion_runtime::store::{Facets, Kept, Subject, Watched};
use pillion_runtime::wakes::{Keys, Wakes, its_name, its_namespace};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use serde_json::Value;

use self::carry::Stopped;
use self::ceiling::Ceiling;
use self::watches::MergedObject;
use crate::pods::{self, Pods};

pub use uninstall::{Uninstalled, uninstall};

/// The controller's options.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The delays of collection.
    pub times: Times,
}

/// The controller. Its keys are namespaces. If it is dropped halfway through a change, the next run completes the
/// change.
pub struct MergedAccounts {
    context: Context,
    effects: Effects,
    options: Options,
    pods: Arc<Pods>,
    roles: Watched<MergedObject>,
    bindings: Watched<MergedObject>,
    ceiling: Ceiling,
    kept: Family<Kind, Gauge>,
}

/// What is remembered about a namespace.
#[derive(Default)]
pub struct MergedAccountsState {
    /// The objects that are neither needed nor used, by name, each with the time since when.
    idle: BTreeMap<String, Timestamp>,
    /// What people were told.
    journal: Journal,
    /// The merged accounts whose permissions are written, and of which nobody has checked yet what they lose.
    unchecked: BTreeMap<String, Group>,
}

impl Controller for MergedAccounts {
    const NAME: &'static str = "merged-serviceaccounts";
    const IS_ON_BY_DEFAULT: bool = true;

    type Options = Options;
    type Key = String;
    type KeyState = MergedAccountsState;

    async fn start(context: Context, options: Options, wakes: Wakes<String>) -> Self {
        let [_, role, binding] = KINDS;
        let (roles, bindings) = (watches::merged(&context, role), watches::merged(&context, binding));
        roles.listed().await;
        bindings.listed().await;
        let store = &context.store;
        store.accounts().listed().await;
        store.namespaces().listed().await;
        store.sidecar_sets().listed().await;
        let pods = pods::of_identities(&context);
        pods.subjects_listed(store).await;
        context.bundled.known().await;
        wakes.on(store.namespaces(), Facets::LABELS | Facets::PHASE, its_name);
        context.wake_for_sidecar_sets(&wakes);
        wakes.on(store.sidecar_sets(), Facets::CEILING, |_| Keys::All);
        pods.wake_for_identities(store, &wakes);
        // The version of an account that is not merged does not matter, nor do the Secrets that it names.
        wakes.on(store.accounts(), Facets::IDENTITY, its_namespace);
        wakes.on(store.accounts(), Facets::CONTENT, |change| {
            let is_merged = names::is_merged(&change.name);
            if is_merged { Keys::One(change.namespace.clone()) } else { Keys::None }
        });
        wakes.on(&roles, Facets::CONTENT, its_namespace);
        wakes.on(&bindings, Facets::CONTENT, its_namespace);
        wakes.follow(context.settings.clone());
        let effects = context.effects(Self::NAME);
        let kept = context.metrics.kept();
        Self { effects, options, pods, roles, bindings, ceiling: Ceiling::default(), kept, context }
    }

    fn keys(&self) -> Vec<String> {
        self.context.store.namespaces().names()
    }

    fn exists(&self, namespace: &String) -> bool {
        self.context.store.namespaces().get("", namespace).is_some()
    }

    async fn reconcile(&self, name: &String, state: &mut MergedAccountsState) -> Result<Done, Failure> {
        let Some(namespace) = self.context.store.namespaces().get("", name) else { return Ok(Done::Settled) };
        let namespace = &namespace.object();
        let sets = self.context.sidecar_sets();
        let plan = self.plan(namespace, name, &sets, &state.idle);
        state.idle.clone_from(&plan.idle);
        for (kind, objects) in [("Role", &self.roles), ("RoleBinding", &self.bindings)] {
            self.kept.get_or_create(&Kind { kind }).set(i64::try_from(objects.len()).unwrap_or(i64::MAX));
        }
        let mut reports = Reports { controller: self, namespace, name, journal: &mut state.journal };
        let mut failure = None;
        let mut refused = BTreeMap::new();
        for group in &plan.groups {
            if lost::is_about(group) {
                state.unchecked.insert(group.name.clone(), group.clone());
            }
            match carry::carry_out(&self.effects, name, group).await {
                Ok(outcome) => {
                    if outcome.is_used {
                        // The idle time starts again now; the API server is asked again once it has passed.
                        state.idle.insert(group.name.clone(), self.context.clock.now());
                    }
                    if let Some(notice) = &outcome.notice {
                        reports.notice(notice).await;
                    }
                }
                // The next change of the Namespace shows that it is being deleted.
                Err(Stopped::NamespaceTerminating) => {}
                Err(error) => {
                    if let Some(problem) = error.escalation() {
                        refused.insert(group.name.clone(), (group.sets.clone(), problem));
                    }
                    if let Some(notice) = error.notice() {
                        reports.notice(&notice).await;
                    } else if let Some(text) = error.lasting_problem() {
                        reports.tell(&group.sets, error.reason(), &text).await;
                    } else {
                        self.effects.problem(Some(name), error.to_string());
                    }
                    failure = Some(Failure::from(error).after(failure));
                }
            }
        }
        if failure.is_none() {
            for group in std::mem::take(&mut state.unchecked).values() {
                reports.lost(group, &sets).await;
            }
        }
        for notice in &plan.notices {
            reports.notice(notice).await;
        }
        state.journal.end(failure.is_none());
        self.foresee(name, &plan);
        if is_going(namespace) {
            *state = MergedAccountsState::default();
            self.forget(name);
        } else {
            let written = self.ceiling.update(&self.context, &self.effects, name, refused).await;
            failure = written.err().map(|later| later.after(failure.take())).or(failure);
        }
        match failure {
            Some(failure) => Err(failure),
            None => Ok(plan.look_again.map_or(Done::Settled, |seconds| {
                Done::LookAgain(Duration::from_secs(u64::try_from(seconds).unwrap_or_default()))
            })),
        }
    }

    fn forget(&self, namespace: &String) {
        self.ceiling.forget(namespace);
    }

    fn rights(_: &Situation) -> Vec<Right> {
        let accounts = "Merged ServiceAccounts. RBAC cannot say \"names that start with sidecarset-merged-\"; no other \
                        is written.";
        let roles = "Their Roles and RoleBindings. Without \"escalate\" and \"bind\" the API server allows the \
                     controller no grant beyond its own permissions.";
        let own = [
            Right::new(Scope::Cluster, "", &["serviceaccounts"], KEEP, accounts),
            Right::new(Scope::Cluster, rights::RBAC, &["rolebindings", "roles"], KEEP, roles),
        ];
        let shared = std::iter::once(rights::namespaces()).chain(rights::sidecar_sets()).chain(rights::subjects());
        shared.chain(own).collect()
    }
}

impl MergedAccounts {
    fn plan(&self, namespace: &Value, name: &str, sets: &Sets, idle: &BTreeMap<String, Timestamp>) -> Plan {
        let settings = self.context.settings();
        let demands = Demands::new(&sets.prepared, &settings, namespace);
        let store = &self.context.store;
        let subjects = self.pods.subjects(store, name);
        let active: Vec<&Arc<Subject>> = subjects.iter().filter(|subject| !subject.is_finished).collect();
        let is_there = |account: &str| watches::has_account(store, name, account);
        // Most Pods of a workload are alike.
        let mut alike: HashMap<&Kept, Value> = HashMap::new();
        for subject in &active {
            alike.entry(&subject.pod).or_insert_with_key(|pod| pod.value());
        }
        let needed: Needed = needed(&demands, namespace, alike.values(), &is_there);
        let pods = active.iter().filter(|subject| subject.kind == "Pod").filter_map(|pod| alike.get(&pod.pod));
        let account = |pod: &Value| json::text(pod, &["spec", "serviceAccountName"]).to_owned();
        let used: BTreeSet<String> = pods.map(account).filter(|name| names::is_merged(name)).collect();
        plan(&MergedInput {
            namespace,
            demands: &demands,
            needed: &needed,
            used: &used,
            objects: &watches::objects(store, name, &self.roles, &self.bindings),
            is_unknown: &|set| sets.is_unknown(set),
            rules: &settings.service_accounts,
            idle,
            now: self.context.clock.now(),
            times: self.options.times,
        })
    }

    /// Tells a preview what is collected later.
    fn foresee(&self, namespace: &str, plan: &Plan) {
        let after = self.options.times.idle;
        // An object that is being collected has a step, or waits with a mark.
        for idle in plan.idle.keys().filter(|idle| plan.groups.iter().all(|group| group.name != **idle)) {
            let text = format!("\"{idle}\" is not needed: it is collected {after} s after the controller saw that");
            self.effects.later(Some(namespace), text);
        }
    }
}

/// Reports about one namespace to people. Each is told once.
struct Reports<'a> {
    controller: &'a MergedAccounts,
    namespace: &'a Value,
    name: &'a str,
    journal: &'a mut Journal,
}

impl Reports<'_> {
    async fn notice(&mut self, notice: &Notice) {
        self.tell(notice.sets(), notice.reason(), &notice.to_string()).await;
    }

    /// Reports the permissions that are bound to the accounts of a group and that the merged account does not get. A
    /// failure here does not stop other work.
    async fn lost(&mut self, group: &Group, sets: &Sets) {
        match lost::permission_losses(&self.controller.context.client, self.name, group, sets).await {
            Ok(losses) => {
                for (set, text) in losses {
                    self.tell(&[set], lost::REASON, &text).await;
                }
            }
            Err(problem) => {
                let namespace = self.name;
                tracing::warn!(
                    controller = MergedAccounts::NAME,
                    namespace,
                    %problem,
                    "RoleBindings were not looked at"
                );
            }
        }
    }

    /// Reports a text: an Event on each of these SidecarSets that is in the cluster, or on the Namespace if none is.
    async fn tell(&mut self, sets: &[String], reason: &str, text: &str) {
        let Self { controller: MergedAccounts { context, effects, .. }, namespace, name, .. } = *self;
        if !self.journal.is_new_problem(text, || context.metrics.problem(MergedAccounts::NAME, reason)) {
            return;
        }
        effects.problem(Some(name), text);
        let note = format!("namespace \"{name}\": {text}");
        tracing::warn!(controller = MergedAccounts::NAME, namespace = name, reason, "{text}");
        let resources = context.store.sidecar_sets();
        let resources: Vec<_> = sets.iter().filter_map(|set| resources.get("", set)).collect();
        if resources.is_empty() {
            context.events.warning(namespace, ACTION, reason, note).await;
            return;
        }
        for resource in resources {
            context.events.warning(&resource.0, ACTION, reason, note.clone()).await;
        }
    }
}

/// The reasons of Events about problems for which there is no notice.
#[cfg(test)]
pub(crate) const REASONS: [&str; 4] =
    [pillion_plan::condition::PERMISSION_CEILING_EXCEEDED, carry::FORBIDDEN, carry::INVALID, lost::REASON];

/// The action in Events.
const ACTION: &str = "MergeServiceAccounts";
