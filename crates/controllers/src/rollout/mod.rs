//! `sidecarset-rollout`: updates the sidecars of running Pods (docs/spec/rollouts.md).
//!
//! [`pillion_rollout`] decides. One reconciliation is one round for one SidecarSet: its revision, its status, and the
//! Pods that are upgraded now. A key is the name of a SidecarSet. A SidecarSet that is deleted stays a key until no
//! condition of a Pod names it.

mod evict;
mod failure;
mod follow;
mod lacking;
pub(crate) mod metrics;
mod nodes;
mod probe;
mod recreate;
mod register;
mod resize;
mod rival;
mod round;
mod selection;
mod sources;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pillion_kubernetes::field::joined;
use pillion_kubernetes::json;
use pillion_kubernetes::time::Timestamp;
use pillion_plan::condition::Condition;
use pillion_rollout::consistency::{Judged, has_all_sidecars};
use pillion_rollout::counts::Counts;
use pillion_rollout::deadline::Clock;
use pillion_rollout::decide::{Next, RoundReport, decide};
use pillion_rollout::evicted::Evicted;
use pillion_rollout::follow::follows;
use pillion_rollout::history::{self, Revision};
use pillion_rollout::left::left;
use pillion_rollout::method::UpgradeMethod;
use pillion_rollout::observed::{BundleState, Observed};
use pillion_rollout::pod::resize::Asked;
use pillion_rollout::pod::{Metadata, Pod};
use pillion_rollout::recreate::Held;
use pillion_rollout::rollback::{self, Rollback};
use pillion_rollout::round::{Chosen, Rest, Round};
use pillion_rollout::status::{self, Latest, Progress, StatusDecision, StatusReport, WrittenStatus};
use pillion_rollout::target::{RolloutTarget, Surroundings};
use pillion_runtime::context::Context;
use pillion_runtime::controller::{Controller, Done, Failure, Pace};
use pillion_runtime::effects::{Effects, Journal, RolledOut};
use pillion_runtime::rights::{self, KEEP, READ, Right, Scope, Situation, WATCH};
use pillion_runtime::store::{Change, Facets, Progress as Watching};
use pillion_runtime::wakes::{Keys, Wakes};
use pillion_sidecarset::names;
use pillion_sidecarset::native::NativeSidecars;
use pillion_sidecarset::sidecar_set::SidecarSet;
use pillion_sidecarset::sidecar_set::decode::decode;
use pillion_sidecarset::upgrades::Upgrades;
use serde_json::Value;
use tokio::time::timeout;

use self::evict::EvictionMemory;
use self::lacking::Lacking;
use self::metrics::RolloutMetrics;
use self::nodes::Nodes;
use self::register::Registered;
use self::rival::Rival;
pub use self::rival::{LeaseName, NoLeaseName};
use self::sources::{Sources, Version, WatchSettings, of_settings};
use crate::pods::injected::InjectedPod;
use crate::pods::{self, KnownPod, Pods};

/// How long a reconciliation waits for lists before it starts again.
const LISTING: Duration = Duration::from_secs(2);

/// The controller's options.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The Lease of OpenKruise's manager.
    pub openkruise_lease: LeaseName,
}

/// The controller.
pub struct SidecarSetRollout {
    context: Context,
    effects: Effects,
    metrics: RolloutMetrics,
    pods: Arc<Pods>,
    nodes: Nodes,
    rival: Rival,
    /// Says that OpenKruise's manager is at work.
    standing: Watching,
    wakes: Wakes<String>,
    sources: Mutex<Option<Arc<Sources>>>,
    /// The SidecarSets whose sidecars follow the app (ROLL-70).
    followers: Arc<Mutex<BTreeSet<String>>>,
    /// The Pods that lack the sidecar of a SidecarSet, by its name: for those that ask for evictions.
    lacking: Mutex<BTreeMap<String, Lacking>>,
}

/// What is remembered about a SidecarSet.
#[derive(Default)]
pub struct RolloutState {
    /// The Pods to which an upgrade was sent whose outcome is not known: their resource version before, by UID.
    uncertain: BTreeMap<String, String>,
    /// For which version and which amounts the sidecars of each Pod were last compared with the app, by UID (ROLL-70).
    asked: BTreeMap<String, Asked>,
    /// The evictions of its Pods.
    evictions: EvictionMemory,
    /// When the rollout began that is under way.
    since: Option<Timestamp>,
    /// Whether the API server drops the conditions of SidecarSets: OpenKruise's CustomResourceDefinition has none.
    drops_conditions: bool,
    /// Whether people were told what that means for a deadline.
    is_drop_told: bool,
    /// The status that was written last.
    reported: Option<WrittenStatus>,
    /// The last progress, if a deadline is asked for.
    clock: Option<Clock>,
    /// What people were told.
    journal: Journal,
}

/// A SidecarSet of the cluster in one round.
struct Rollout<'a> {
    /// The custom resource in v1beta1.
    resource: &'a SidecarSet,
    /// The custom resource as it is in the cluster.
    object: &'a Value,
    target: RolloutTarget<'a>,
    /// All Pods of the SidecarSet, sorted by namespace and name; after them, the Pods that lack its sidecar and are
    /// evicted for it (ROLL-67).
    pods: Vec<Arc<InjectedPod>>,
    /// The number of Pods of the SidecarSet.
    members: usize,
    /// The Pods that were injected with the SidecarSet and have other containers of it than the version.
    reshaped: Vec<Arc<InjectedPod>>,
    /// The evictions that are not replaced yet.
    evicted: Evicted,
}

/// The versions of a SidecarSet in one round.
struct Versions<'a> {
    registered: &'a Registered,
    /// The stored ones, ascending.
    revisions: &'a [&'a Revision],
    rollback: Option<&'a Rollback<'a>>,
    bundle: BundleState,
}

impl Controller for SidecarSetRollout {
    const NAME: &'static str = "sidecarset-rollout";
    /// An upgrade of Pillion must not begin to change running Pods.
    const IS_ON_BY_DEFAULT: bool = false;

    type Options = Options;
    type Key = String;
    type KeyState = RolloutState;

    async fn start(context: Context, options: Options, wakes: Wakes<String>) -> Self {
        let pods = pods::of_rollouts(&context);
        let nodes = Nodes::watch(&context);
        let rival = Rival::watch(&context, options.openkruise_lease);
        let standing = context.store.remark(Self::NAME.to_owned());
        standing.done();
        context.store.sidecar_sets().listed().await;
        context.store.namespaces().listed().await;
        pods.table().listed().await;
        nodes.listed().await;
        rival.listed().await;
        wakes.on(context.store.sidecar_sets(), Facets::CONTENT, |change| Keys::One(change.name.clone()));
        wakes.on(context.store.namespaces(), Facets::LABELS, |_| Keys::All);
        wakes.on(pods.table(), Facets::CONTENT | Facets::READINESS, |change: &Change<KnownPod>| {
            let pods = change.before.iter().chain(&change.after).filter_map(|pod| pod.injected.as_ref());
            let names: BTreeSet<&str> = pods.flat_map(|pod| pod.0.injected()).collect();
            Keys::Many(names.into_iter().map(str::to_owned).collect())
        });
        let followers = Arc::<Mutex<BTreeSet<String>>>::default();
        let following = Arc::clone(&followers);
        wakes.on(pods.table(), Facets::RESOURCES, move |change: &Change<KnownPod>| {
            let (following, pod) = (following.lock(), change.after.iter().filter_map(|pod| pod.injected.as_ref()));
            let names: BTreeSet<&str> = pod.flat_map(|pod| pod.0.injected()).collect();
            Keys::Many(names.into_iter().filter(|name| following.contains(*name)).map(str::to_owned).collect())
        });
        nodes.wake(&wakes);
        wakes.follow(context.settings.clone());
        let effects = context.effects(Self::NAME);
        let metrics = RolloutMetrics::new(&context.metrics);
        Self {
            context,
            effects,
            metrics,
            pods,
            nodes,
            rival,
            standing,
            wakes,
            sources: Mutex::default(),
            followers,
            lacking: Mutex::default(),
        }
    }

    fn keys(&self) -> Vec<String> {
        let gone = self.pods.groups().into_iter().filter(|name| self.exists(name));
        let all: BTreeSet<String> = self.context.store.sidecar_sets().names().into_iter().chain(gone).collect();
        all.into_iter().collect()
    }

    fn exists(&self, name: &String) -> bool {
        self.is_there(name) || self.pods.group(name).iter().any(|pod| round::is_in_condition(&pod.0, name))
    }

    fn concerns(&self, name: &String, sidecar_set: &str) -> bool {
        name == sidecar_set
    }

    async fn reconcile(&self, name: &String, state: &mut RolloutState) -> Result<Done, Failure> {
        if let Some(left) = self.rival.is_at_work() {
            let text = self.rival.text();
            if self.standing.problem().as_ref() != Some(&text) {
                tracing::info!(controller = Self::NAME, "{text}");
            }
            self.metrics.forget(name);
            self.standing.fail(text.clone());
            self.effects.problem(None, text);
            return Ok(Done::LookAgain(Duration::from_secs(left)));
        }
        if self.standing.problem().is_some() {
            tracing::info!(controller = Self::NAME, "OpenKruise's manager is gone, so this controller takes over");
            self.standing.done();
        }
        let sources = self.sources();
        if timeout(LISTING, sources.listed()).await.is_err() {
            return Ok(Done::LookAgain(LISTING));
        }
        let done = match self.context.store.sidecar_sets().get("", name) {
            Some(object) => self.roll_out(&object.0, &sources, state).await,
            None => self.clean(name).await,
        };
        state.journal.end(done.is_ok());
        done
    }

    fn forget(&self, name: &String) {
        self.without_lacking(name);
        self.followers.lock().remove(name);
    }

    fn pace(&self) -> Pace {
        Pace { longest_delay: Duration::from_mins(1), ..Pace::default() }
    }

    fn rights(_: &Situation) -> Vec<Right> {
        let pods = "The sidecars of running Pods: their images, and the records and conditions about them.";
        let revisions = "The versions of SidecarSets, to which injection and rollouts refer by name.";
        let status = "How far the rollout of a SidecarSet is.";
        let evictions = "SidecarSets with the upgrade policy Recreate: Pods are evicted, not deleted.";
        let dry_runs = "Whether new Pods get a sidecar: a ValidatingAdmissionPolicy allows dry runs alone.";
        let workloads = "What creates evicted Pods anew, and how many.";
        let bundle = "The version of a SidecarSet that new Pods get.";
        // OpenKruise's namespace may not exist, and a Role in it would fail the installation.
        let lease = "Whether OpenKruise's manager rolls out SidecarSets: two must not upgrade the same Pods. Its \
                     namespace may not exist, or may be created later.";
        vec![
            rights::namespaces(),
            Right::new(Scope::Cluster, "apps.kruise.io", &["sidecarsets"], WATCH, "The SidecarSets."),
            Right::new(Scope::Cluster, "apps.kruise.io", &["sidecarsets/status"], &["patch"], status),
            Right::new(Scope::Cluster, "", &["nodes"], WATCH, "Whether a node is ready: its Pods wait until it is."),
            Right::new(Scope::Cluster, "", &["pods"], &["get", "list", "watch", "patch"], pods),
            Right::new(Scope::Cluster, "", &["pods/status", "pods/resize"], &["patch"], ""),
            Right::new(Scope::Cluster, "", &["pods/eviction"], &["create"], evictions),
            Right::new(Scope::Cluster, "", &["pods"], &["create"], dry_runs),
            Right::new(Scope::Cluster, "", &["replicationcontrollers"], &["get"], workloads),
            Right::new(Scope::Cluster, "apps", &["daemonsets", "replicasets", "statefulsets"], &["get"], ""),
            Right::new(Scope::Cluster, "apps.kruise.io", &["clonesets", "daemonsets", "statefulsets"], &["get"], ""),
            Right::new(Scope::System, "apps", &["controllerrevisions"], KEEP, revisions),
            Right::new(Scope::Cluster, "coordination.k8s.io", &["leases"], WATCH, lease).named(&[rival::LEASE]),
            Right::new(Scope::Bundle, "", &["configmaps"], READ, bundle),
        ]
    }
}

impl SidecarSetRollout {
    /// Whether a SidecarSet of this name exists in the cluster.
    fn is_there(&self, name: &str) -> bool {
        self.context.store.sidecar_sets().get("", name).is_some()
    }

    /// Returns the watches that the settings ask for.
    fn sources(&self) -> Arc<Sources> {
        let mut sources = self.sources.lock();
        let place = WatchSettings::from_settings(&self.context.settings());
        if let Some(known) = sources.as_ref().filter(|sources| sources.place == place) {
            return Arc::clone(known);
        }
        // The watches before end first.
        *sources = None;
        Arc::clone(sources.insert(Arc::new(Sources::watch(&self.context, place, &self.wakes))))
    }

    /// Runs one round for a SidecarSet.
    async fn roll_out(&self, object: &Value, sources: &Sources, state: &mut RolloutState) -> Result<Done, Failure> {
        if json::is_terminating(object) {
            return Ok(Done::Settled);
        }
        let resource = match decode(object.clone()) {
            Ok(decoded) => decoded.into_sidecar_set(),
            Err(errors) => return self.stalled(object, "InvalidSidecarSet", joined(&errors), state).await,
        };
        let version = match self.version(&resource, sources) {
            Version::Known(version) => version,
            // Pods that are created now could still get the version before.
            Version::Unsettled(left) => return Ok(Done::LookAgain(left)),
            Version::OfSettings => {
                let text = "the policy's settings have a SidecarSet of this name, which new Pods get; SidecarSets of the \
                            settings are not rolled out";
                return self.stalled(object, "InSettings", text.to_owned(), state).await;
            }
            Version::NotInBundle => {
                let text = "the policy's bundle does not contain this SidecarSet, so new Pods do not get it; condition \
                            InBundle says why";
                return self.stalled(object, "NotInBundle", text.to_owned(), state).await;
            }
        };
        let stored = sources.revisions.group(resource.name());
        let uid = json::text(object, &["metadata", "uid"]);
        let revisions = history::ascending(uid, stored.iter().map(|revision| &revision.0));
        let upgrades = Upgrades::from_sidecar_set(&resource, &self.context.settings().rollouts);
        let in_force = match rollback::in_force(&resource, &version, upgrades.0, &revisions, sources.has_bundle()) {
            Ok(in_force) => in_force,
            Err(text) => return self.stalled(object, "InvalidRevision", text, state).await,
        };
        let bundle = if in_force.is_none() && sources.has_bundle() {
            BundleState::of_version(object, &resource, &version)
        } else {
            BundleState::Current
        };
        let version = in_force.as_ref().map_or(&version, |in_force| &in_force.version);
        let target = RolloutTarget::new(version, &resource).with_upgrades(upgrades, revisions.iter().copied());
        let surroundings = Surroundings {
            now: self.context.clock.now(),
            unready_nodes: self.nodes.unready(),
            overrides: self.overriding_namespaces(target.overrides.as_ref()),
        };
        let mut target = target.within(surroundings);
        // Admission refuses an annotation that cannot be read. Then no form is known, and none changes.
        if let Ok(native) = NativeSidecars::from_sidecar_set(&resource, self.context.settings().native_sidecars) {
            target = target.with_native_sidecars(native);
        }
        if let Some(in_force) = &in_force {
            target = target.back_from(in_force.back.failed.annotation(names::HASH));
        }
        // Before the Pods are looked at: an app that is resized later wakes the SidecarSet.
        if follows(&target) {
            self.followers.lock().insert(resource.name().to_owned());
        } else {
            self.followers.lock().remove(resource.name());
        }
        let pods = match self.pods_of(&target) {
            Ok(pods) => pods,
            Err(text) => return self.stalled(object, "InvalidSelector", text, state).await,
        };
        let (pods, reshaped): (Vec<_>, Vec<_>) = pods.into_iter().partition(|pod| has_all_sidecars(&target, &pod.0));
        let members = pods.len();
        let evicted = Evicted::default();
        let mut rollout = Rollout { resource: &resource, object, target, pods, members, reshaped, evicted };
        let registered = match &in_force {
            None => self.register(&rollout, sources).await?,
            Some(in_force) => self.keep(&rollout, &revisions, &in_force.back).await?,
        };
        let Some(registered) = registered else { return Ok(Done::after_write(false)) };
        let latest = registered.revision.name();
        let Some(look_again) = self.prepare_evictions(&mut rollout, sources, latest, state).await? else {
            return Ok(Done::LookAgain(LISTING));
        };
        let versions = Versions { registered: &registered, revisions: &revisions, rollback: in_force.as_ref(), bundle };
        let done = self.round(&rollout, versions, sources, state).await?;
        Ok(done.or_sooner(look_again))
    }

    /// Observes, lets [`decide`] decide on a round, and carries it out.
    async fn round(
        &self,
        rollout: &Rollout<'_>,
        versions: Versions<'_>,
        sources: &Sources,
        state: &mut RolloutState,
    ) -> Result<Done, Failure> {
        let Versions { registered, revisions, rollback, bundle } = versions;
        let pods: Vec<&Pod> = rollout.pods.iter().map(|pod| &pod.0).collect();
        state.uncertain.retain(|uid, version| {
            pods.iter().any(|pod| pod.metadata.uid == *uid && pod.metadata.resource_version == *version)
        });
        Self::forget_asked(state, &pods);
        let held: Vec<Held> = state.evictions.pods.held().cloned().collect();
        let decision = decide(&Observed {
            resource: rollout.resource,
            object: rollout.object,
            target: &rollout.target,
            pods: &pods,
            members: rollout.members,
            uncertain: &state.uncertain,
            asked: &state.asked,
            reshaped: rollout.reshaped.len(),
            bundle,
            held: &held,
            revision: &registered.revision,
            revisions,
            rollback,
            clock: state.clock.as_ref(),
            now: self.context.clock.now(),
        });
        let members = decision.judged.get(..rollout.members).unwrap_or_default();
        self.metrics.measured(&rollout.target, &pods, members);
        state.clock = decision.clock;
        let done = match decision.next {
            Next::ChangeRecord(change) => self.change_record(rollout, registered.revision.name(), &change).await,
            Next::Report(report) => self.carry_out(rollout, registered, report, &decision.judged, sources, state).await,
        };
        Ok(done?.or_sooner(decision.look_again.map_or(Done::Settled, Done::LookAgain)))
    }

    /// Tells people about the failure, reports the status, and changes Pods, in this order. Pods stay as they are if
    /// another client changed the SidecarSet at the same time.
    async fn carry_out(
        &self,
        rollout: &Rollout<'_>,
        registered: &Registered,
        decided: RoundReport,
        judged: &[Judged],
        sources: &Sources,
        state: &mut RolloutState,
    ) -> Result<Done, Failure> {
        let RoundReport { counts, progress, failure, stopped, round, following } = decided;
        let (object, name) = (rollout.object, registered.revision.name());
        let pods: Vec<&Pod> = rollout.pods.iter().map(|pod| &pod.0).collect();
        if let Some(failure) = &failure {
            self.tell_failed(object, failure, &progress, state).await;
        }
        self.metrics.failed(rollout.resource.name(), failure.as_ref().map(|failure| failure.record.reason));
        self.metrics.progressed(&mut state.since, &progress, object, self.context.clock.now());
        let latest = Latest { name, collisions: registered.collisions };
        let deadline = rollout.target.upgrades.progress_deadline;
        let clock = state.clock.clone().zip(deadline);
        let text = clock.as_ref().map(|(clock, deadline)| clock.message(*deadline)).unwrap_or_default();
        let progressing = clock.as_ref().map(|(clock, _)| clock.condition(stopped, &text));
        let reported = self.report(object, Some((counts, latest)), (&progress, progressing), state).await?;
        let Some(status_is_due) = reported else { return Ok(Done::after_write(false)) };
        let clock = clock.filter(|_| stopped.is_none());
        let left = clock.and_then(|(clock, deadline)| clock.left(deadline, self.context.clock.now()));
        let kept = self.foresee(rollout, &pods, judged);
        let (upgraded, evicted) = by_method(&round);
        let pod = |chosen: &Chosen| pods.get(chosen.pod).map(|pod| &pod.metadata);
        let chosen = upgraded.iter().chain(&evicted).filter_map(pod);
        let chosen: Vec<(&str, &str)> = chosen.map(|pod| (pod.namespace.as_str(), pod.name.as_str())).collect();
        let deadline_is_due = left.map_or(Done::Settled, Done::LookAgain);
        let done = match stopped {
            None => self.change_pods(rollout, round, (&progress, name), sources, state).await,
            Some(_) => Ok(Done::Settled),
        };
        self.effects.rolled_out(RolledOut {
            sidecar_set: rollout.resource.name(),
            pods: pods.len(),
            updated: judged.iter().filter(|judged| judged.is_updated).count(),
            kept,
            chosen: &chosen,
            message: &progress.message,
        });
        let done = done?.or_sooner(self.follow(rollout, &following, state).await?);
        Ok(done.or_sooner(status_is_due).or_sooner(deadline_is_due))
    }

    /// Tells a preview which Pods keep their version (ROLL-69). Returns how many there are.
    fn foresee(&self, rollout: &Rollout<'_>, seen: &[&Pod], judged: &[Judged]) -> usize {
        if !self.effects.is_preview() {
            return 0;
        }
        let set = rollout.target.name();
        let keeps = |pod: &Pod, why: &dyn fmt::Display| {
            let Metadata { namespace, name, .. } = &pod.metadata;
            let text = format!("Pod \"{name}\" keeps its version of SidecarSet \"{set}\": {why}");
            self.effects.never(Some(namespace), text);
        };
        let left = left(&rollout.target, seen, judged);
        for (position, why) in &left {
            if let Some(pod) = seen.get(*position) {
                keeps(pod, why);
            }
        }
        for pod in &rollout.reshaped {
            keeps(&pod.0, &"it has other containers of the SidecarSet, and must be created again");
        }
        left.len().saturating_add(rollout.reshaped.len())
    }

    /// Changes the Pods of a round. The answer to each write decides about the next one: an error ends the round, and after
    /// some refused evictions the other Pods wait.
    async fn change_pods(
        &self,
        rollout: &Rollout<'_>,
        next: Round,
        (progress, revision): (&Progress, &str),
        sources: &Sources,
        state: &mut RolloutState,
    ) -> Result<Done, Failure> {
        let (upgraded, evicted) = by_method(&next);
        match next {
            Round::Rest(Rest::Unreadable) => {
                let name = rollout.resource.name();
                self.effects.problem(None, format!("SidecarSet \"{name}\": {}", progress.message));
                Ok(Done::Settled)
            }
            Round::Rest(_) => self.evict(rollout, &evicted, (revision, sources), state).await,
            Round::Reset(reset) => self.reset(rollout, &reset, state).await,
            Round::Upgrade { mut not_upgradable, .. } => {
                // The condition is about Pods that have the sidecar.
                not_upgradable.retain(|position| *position < rollout.members);
                let is_told = self.tell_not_upgradable(rollout, &not_upgradable, state).await?;
                self.tell_failed_resizes(rollout, &not_upgradable, state).await;
                let is_done = self.upgrade(rollout, &upgraded, revision, state).await?;
                let done = self.evict(rollout, &evicted, (revision, sources), state).await?;
                Ok(Done::after_write(is_told && is_done).or_sooner(done))
            }
        }
    }

    /// Returns the version of a SidecarSet that new Pods get.
    fn version(&self, resource: &SidecarSet, sources: &Sources) -> Version {
        let is_of_settings = of_settings(&self.context.settings()).is_none_or(|names| names.contains(resource.name()));
        if is_of_settings { Version::OfSettings } else { sources.version(resource) }
    }

    /// Reports that a SidecarSet is not rolled out, and the reason.
    async fn stalled(
        &self,
        object: &Value,
        reason: &'static str,
        message: String,
        state: &mut RolloutState,
    ) -> Result<Done, Failure> {
        let name = json::text(object, &["metadata", "name"]);
        let text = format!("SidecarSet \"{name}\" is not rolled out: {message}");
        if state.journal.is_news(&text) {
            tracing::warn!(controller = Self::NAME, sidecarset = name, reason, "{text}");
        }
        self.effects.problem(None, text);
        self.metrics.forget(name);
        let reported = self.report(object, None, (&Progress::stalled(reason, message), None), state).await?;
        Ok(reported.unwrap_or(Done::after_write(false)))
    }

    /// Writes the status of a SidecarSet, and returns when to reconcile it for the status again. Returns `None` if another
    /// client changed it at the same time.
    async fn report(
        &self,
        object: &Value,
        counts: Option<(Counts, Latest<'_>)>,
        (progress, progressing): (&Progress, Option<Condition<'_>>),
        state: &mut RolloutState,
    ) -> Result<Option<Done>, Failure> {
        let now = self.context.clock.now();
        let has_deadline = progressing.is_some();
        let conditions = progress.conditions().into_iter().chain(progressing);
        let conditions = if state.drops_conditions { Vec::new() } else { conditions.collect() };
        let report = StatusReport { counts, conditions };
        let (step, next) = match status::decide(object, &report, progress.reason, state.reported.as_ref(), now) {
            StatusDecision::UpToDate => return Ok(Some(Done::Settled)),
            StatusDecision::Later(left) => return Ok(Some(Done::LookAgain(left))),
            StatusDecision::Write(step, next) => (step, next),
        };
        match self.effects.carry_out(&step, &progress.message).await {
            Ok(stored) => {
                state.drops_conditions |= status::drops_conditions(&report, &stored.unwrap_or_default());
                if state.drops_conditions && has_deadline {
                    self.say_that_conditions_are_dropped(object, state);
                }
                state.reported = Some(next);
                Ok(Some(Done::Settled))
            }
            Err(error) if error.problem.is_overtaken() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// Returns the chosen Pods that are upgraded as they run, and those that are evicted.
fn by_method(round: &Round) -> (Vec<Chosen>, Vec<Chosen>) {
    let Round::Upgrade { chosen, .. } = round else { return Default::default() };
    chosen.iter().partition(|chosen| chosen.method != UpgradeMethod::Recreate)
}
