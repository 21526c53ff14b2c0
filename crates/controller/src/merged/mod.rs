//! `merged-serviceaccounts`: keeps the ServiceAccount, Role and RoleBinding that stand for several SidecarSets (MRG-1).
//! `pillion_plan::merged` makes the plans.
//!
//! The controller holds neither `escalate` nor `bind`, so it cannot grant permissions that its own role does not hold
//! (ESC-6).

mod carry;
mod ceiling;
mod lost;
mod preview;
mod uninstall;
mod watches;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use pillion_identity::names;
use pillion_kubernetes::json;
use pillion_kubernetes::time::Timestamp;
use pillion_plan::demand::Demands;
use pillion_plan::merged::{Group, MergedInput, Needed, Notice, Plan, Times, is_going, needed, plan};
use serde_json::Value;
use tokio::task::JoinSet;

use self::carry::Failure;
use self::ceiling::Ceiling;
use self::watches::MergedWatches;
use crate::context::Context;
use crate::queue::{ByNamespace, Done};
use crate::sets::Sets;
use crate::watch::{Change, SIDECAR_SET_STATUS, Subject};

pub(crate) use preview::preview;
pub use uninstall::{Uninstalled, uninstall};

/// The controller's name.
pub const CONTROLLER: &str = "merged-serviceaccounts";

/// The controller's options.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The delays of collection.
    pub times: Times,
}

/// Works for as long as it is polled. If it is dropped halfway through a change, the next run completes the change.
pub async fn run(context: Context, options: Options) {
    // The task ends when this function is dropped.
    let mut tasks = JoinSet::new();
    let (mut settings, changes) = (context.settings.clone(), context.cluster.notify());
    tasks.spawn(async move {
        while settings.changed().await.is_ok() {
            let _ = changes.send(Change { kind: SETTINGS, namespace: None });
        }
    });
    let controller = Arc::new(Controller::new(context.clone(), options).await);
    context.cluster.bundled.known().await;
    let reconcile = move |namespace: Arc<Namespace>| {
        let controller = Arc::clone(&controller);
        async move { controller.reconcile(&namespace).await }
    };
    ByNamespace { controller: CONTROLLER, is_concerned, reconcile }.run(context).await;
}

const SETTINGS: &str = "Settings";

fn is_concerned(change: &Change) -> bool {
    // All changes except those of objects that only other controllers need.
    !matches!(change.kind, SIDECAR_SET_STATUS | "Secret" | "ConfigMap" | "ControllerRevision" | "Lease")
}

type ByName<T> = Mutex<BTreeMap<String, T>>;

struct Controller {
    context: Context,
    options: Options,
    watched: MergedWatches,
    ceiling: Ceiling,
    /// The objects that are neither needed nor used, by namespace and name, each with the time since when.
    idle: ByName<BTreeMap<String, Timestamp>>,
    /// The texts that were reported, by namespace, so that each is reported once.
    told: ByName<BTreeSet<String>>,
}

impl Controller {
    /// Returns a controller whose watches have listed everything.
    async fn new(context: Context, options: Options) -> Self {
        let watched = MergedWatches::start(&context);
        watched.listed().await;
        Self { context, options, watched, ceiling: Ceiling::default(), idle: Mutex::default(), told: Mutex::default() }
    }

    async fn reconcile(&self, namespace: &Namespace) -> Result<Done, Failure> {
        let namespace = serde_json::to_value(namespace).unwrap_or_default();
        let name = json::text(&namespace, &["metadata", "name"]).to_owned();
        let sets = self.context.sets();
        let plan = self.plan(&namespace, &name, &sets);
        self.idles(&name, plan.idle.clone());
        self.context.metrics.objects("Role", self.watched.roles.len());
        self.context.metrics.objects("RoleBinding", self.watched.bindings.len());

        let mut notices = plan.notices;
        let mut failure = None;
        let mut refused = BTreeMap::new();
        for group in &plan.groups {
            let done = carry::carry_out(&self.context.client, &name, group).await;
            match done {
                Ok(outcome) => {
                    if outcome.is_used {
                        // The idle time starts again now; the API server is asked again once it has passed.
                        let mut idle = lock(&self.idle);
                        let idle = idle.entry(name.clone()).or_default();
                        idle.insert(group.name.clone(), self.context.clock.now());
                    }
                    notices.extend(outcome.notice);
                    if lost::is_about(group) {
                        self.tell_of_lost(&namespace, &name, group, &sets).await;
                    }
                }
                // The next change of the Namespace shows that it is being deleted.
                Err(Failure::NamespaceTerminating) => {}
                Err(error) => {
                    if let Some(problem) = error.escalation() {
                        refused.insert(group.name.clone(), (group.sets.clone(), problem));
                    }
                    notices.extend(error.notice());
                    if let Some(text) = error.told() {
                        self.tell(&namespace, &group.sets, error.reason(), &text, &name).await;
                    }
                    failure.get_or_insert(error);
                }
            }
        }
        self.say(&namespace, &name, &notices, failure.is_none()).await;
        if is_going(&namespace) {
            lock(&self.idle).remove(&name);
            lock(&self.told).remove(&name);
            self.ceiling.forget(&name);
        } else {
            self.ceiling.update(&self.context, &name, refused).await;
        }
        match failure {
            Some(failure) => Err(failure),
            None => Ok(plan.look_again.map_or(Done::Settled, |seconds| {
                Done::LookAgain(Duration::from_secs(u64::try_from(seconds).unwrap_or_default()))
            })),
        }
    }

    /// Records the idle objects of a namespace. Drops the entry if there are none.
    fn idles(&self, namespace: &str, idle: BTreeMap<String, Timestamp>) {
        let mut all = lock(&self.idle);
        if idle.is_empty() {
            all.remove(namespace);
        } else {
            all.insert(namespace.to_owned(), idle);
        }
    }

    fn plan(&self, namespace: &Value, name: &str, sets: &Sets) -> Plan {
        let settings = self.context.settings.borrow().clone();
        let demands = Demands::new(&sets.prepared, &settings, namespace);
        let subjects = self.context.cluster.subjects(name);
        let active: Vec<&Arc<Subject>> = subjects.iter().filter(|subject| !subject.is_finished).collect();
        let is_there = |account: &str| self.watched.has_account(name, account);
        let needed: Needed = needed(&demands, namespace, active.iter().map(|subject| &subject.pod), &is_there);
        let pods = active.iter().filter(|subject| subject.kind == "Pod");
        let account = |subject: &&&Arc<Subject>| json::text(&subject.pod, &["spec", "serviceAccountName"]).to_owned();
        let used: BTreeSet<String> = pods.map(|pod| account(&pod)).filter(|name| names::is_merged(name)).collect();
        let idle = lock(&self.idle).get(name).cloned().unwrap_or_default();
        plan(&MergedInput {
            namespace,
            demands: &demands,
            needed: &needed,
            used: &used,
            objects: &self.watched.objects(name),
            is_unknown: &|set| sets.is_unknown(set),
            rules: &settings.service_accounts,
            idle: &idle,
            now: self.context.clock.now(),
            times: self.options.times,
        })
    }

    /// Reports the permissions that are bound to the accounts of a group and that the merged account does not get. A
    /// failure here does not stop other work.
    async fn tell_of_lost(&self, namespace: &Value, name: &str, group: &Group, sets: &Sets) {
        match lost::told(&self.context.client, name, group, sets).await {
            Ok(told) => {
                for (set, text) in told {
                    self.tell(namespace, &[set], lost::REASON, &text, name).await;
                }
            }
            Err(problem) => {
                tracing::warn!(controller = CONTROLLER, namespace = name, %problem, "RoleBindings were not looked at");
            }
        }
    }

    /// Reports the notices that are new. A notice that no longer holds may be reported again later.
    async fn say(&self, namespace: &Value, name: &str, notices: &[Notice], is_complete: bool) {
        for notice in notices {
            self.tell(namespace, notice.sets(), notice.reason(), &notice.to_string(), name).await;
        }
        if is_complete {
            let texts: BTreeSet<String> = notices.iter().map(ToString::to_string).collect();
            let mut all = lock(&self.told);
            if let Some(told) = all.get_mut(name) {
                told.retain(|text| texts.contains(text));
                if told.is_empty() {
                    all.remove(name);
                }
            }
        }
    }

    /// Reports a text once: an Event on each of these SidecarSets that is in the cluster, or on the Namespace if none
    /// is.
    async fn tell(&self, namespace: &Value, sets: &[String], reason: &str, text: &str, name: &str) {
        if !lock(&self.told).entry(name.to_owned()).or_default().insert(text.to_owned()) {
            return;
        }
        let resources: Vec<Arc<Value>> =
            sets.iter().filter_map(|set| self.context.cluster.sidecar_sets.get("", set)).collect();
        let note = format!("namespace \"{name}\": {text}");
        tracing::warn!(controller = CONTROLLER, namespace = name, reason, "{text}");
        if resources.is_empty() {
            self.context.events.warning(namespace, ACTION, reason, note).await;
            return;
        }
        for resource in resources {
            self.context.events.warning(&resource, ACTION, reason, note.clone()).await;
        }
    }
}

/// The action in Events.
const ACTION: &str = "MergeServiceAccounts";

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
