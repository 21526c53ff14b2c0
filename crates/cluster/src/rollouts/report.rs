//! A SidecarSet in full: its Pods by revision, what differs between the revisions in use, and what comes next.

use std::collections::BTreeMap;

use pillion_inject::matching::opt_out::By;
use pillion_kubernetes::json;
use pillion_rollout::consistency::Judged;
use pillion_rollout::counts::Counts;
use pillion_rollout::difference::{Difference, Reach};
use pillion_rollout::history::Revision;
use pillion_rollout::method::UpgradeMethod;
use pillion_rollout::pod::Pod;
use pillion_rollout::round::{Round, round};
use pillion_rollout::status::Progress;
use pillion_rollout::target::RolloutTarget;
use pillion_rollout::upgradable;
use pillion_sidecarset::names;
use serde::Serialize;
use serde_json::Value;

use super::budgets;
use super::summary::Summary;

/// A SidecarSet in full. As JSON: an object with the fields of [`Summary`] and these, in camel case. Fields whose source
/// may not be read are absent.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// What its status and its spec tell. The numbers are those of the Pods that were read.
    #[serde(flatten)]
    pub summary: Summary,
    /// The namespace whose Pods were read; absent for all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The number of the revision in force; absent if it is not stored or may not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<i64>,
    /// `status.conditions`, as they are stored.
    pub conditions: Vec<Value>,
    /// The Pods by revision: that in force first, then the newest.
    pub pods_by_revision: Vec<Group>,
    /// What differs between each other revision in use and the one in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub differences: Option<Vec<Drift>>,
    /// The Pods that no upgrade policy covers.
    pub not_upgradable: Vec<Stuck>,
    /// The Pods that go without it, since they or their Namespace leave it out; absent if nothing may.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub opted_out: Vec<Without>,
    /// The Pods that must be created again, and that PodDisruptionBudgets keep from being evicted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held: Option<Vec<Held>>,
    /// What a controller would do next; absent if the Pods of one namespace alone were read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<Vec<Next>>,
}

/// The Pods with one version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Group {
    /// The number of the revision; absent if it is not stored any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<i64>,
    /// The name of the revision; empty if neither the Pods nor the stored revisions have it.
    pub name: String,
    /// The hash that the Pods record.
    pub hash: String,
    /// Whether this is the version in force.
    pub in_force: bool,
    /// The number of Pods.
    pub pods: usize,
    /// The number of those that are ready.
    pub ready_pods: usize,
    /// The number of Pods by namespace.
    pub namespaces: BTreeMap<String, usize>,
}

/// What differs between a revision and the one in force.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Drift {
    /// The number of the older revision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<i64>,
    /// The hash that its Pods record.
    pub hash: String,
    /// The fields; absent if the revision is not stored any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fields: Option<Vec<Field>>,
}

/// A field that differs.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Field {
    /// Its path below `spec`.
    pub path: String,
    /// Its value in the older revision; absent if it was absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<Value>,
    /// Its value in the newer revision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<Value>,
    /// What it takes to bring it to a Pod.
    pub takes: Takes,
}

/// What it takes to bring a difference to a Pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Takes {
    /// The image changes in the running Pod.
    InPlace,
    /// Cpu or memory changes in the running Pod.
    Resize,
    /// The Pod must be created again.
    Recreate,
    /// New Pods get it, and other Pods count as updated without it.
    NewPods,
}

impl Takes {
    /// Returns it as text.
    pub const fn text(self) -> &'static str {
        match self {
            Self::InPlace => "in place",
            Self::Resize => "resize",
            Self::Recreate => "recreate",
            Self::NewPods => "new Pods alone",
        }
    }
}

impl Field {
    /// Returns a difference. `is_native`: whether images of native sidecars change in running Pods (ROLL-63).
    pub fn new(difference: &Difference, is_native: bool) -> Self {
        let Difference { path, before, after, reach } = difference;
        let takes = match reach {
            Reach::NewPods => Takes::NewPods,
            Reach::Image => Takes::InPlace,
            Reach::NativeImage if is_native => Takes::InPlace,
            Reach::Resources => Takes::Resize,
            Reach::NativeImage | Reach::Recreation => Takes::Recreate,
        };
        Self { path: path.clone(), before: before.clone(), after: after.clone(), takes }
    }
}

/// A Pod that no upgrade policy covers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Stuck {
    /// The namespace of the Pod.
    pub namespace: String,
    /// The name of the Pod.
    pub name: String,
    /// Why it is not upgraded.
    pub reason: String,
    /// What the condition `SidecarSetUpgradable` of the Pod says; absent if it says nothing about the SidecarSet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub condition: Option<bool>,
}

/// A Pod that goes without the SidecarSet (OPT-2).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Without {
    /// The namespace of the Pod.
    pub namespace: String,
    /// The name of the Pod.
    pub name: String,
    /// The kind of the object whose annotation names the SidecarSet: `Pod` or `Namespace`.
    pub by: String,
}

/// A Pod that PodDisruptionBudgets hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Held {
    /// The namespace of the Pod and of the budgets.
    pub namespace: String,
    /// The name of the Pod.
    pub name: String,
    /// The names of the budgets.
    pub budgets: Vec<String>,
    /// Why they hold it.
    pub reason: String,
}

/// What is done with a Pod next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Next {
    /// The namespace of the Pod.
    pub namespace: String,
    /// The name of the Pod.
    pub name: String,
    /// `InPlace`, `Resize`, `Recreate`, or `Reset` for the idle container of a hot upgrade.
    pub way: &'static str,
}

/// Where the facts of a report come from.
pub struct Sources<'a> {
    /// The SidecarSet as the cluster has it.
    pub object: &'a Value,
    /// What is rolled out.
    pub target: RolloutTarget<'a>,
    /// The Pods, sorted by namespace and name.
    pub pods: Vec<&'a Pod>,
    /// The Pods that leave it out, sorted by namespace and name.
    pub opted_out: Vec<(&'a Pod, By)>,
    /// The namespace whose Pods were read, or all.
    pub namespace: Option<&'a str>,
    /// The revision in force, if it is stored.
    pub in_force: Option<&'a Revision>,
    /// The stored revisions, ascending; `None` if they may not be read.
    pub revisions: Option<Vec<&'a Revision>>,
    /// All PodDisruptionBudgets; `None` if they may not be read.
    pub budgets: Option<Vec<Value>>,
}

/// Returns the Pods that must be created again to get the version: the caller reads budgets if there are any.
pub fn must_be_created_again<'p>(target: &RolloutTarget<'_>, pods: &[&'p Pod]) -> Vec<&'p Pod> {
    let is_it = |pod: &&&Pod| {
        let is_selected = target.selects(pod);
        let takes = target.upgrade_method(pod).map_or(true, |way| way == UpgradeMethod::Recreate);
        is_selected && takes && !Judged::judge(target, pod).is_updated
    };
    pods.iter().filter(is_it).copied().collect()
}

impl Report {
    /// Returns the report. `summary` is what the status tells.
    pub fn new(summary: Summary, sources: Sources<'_>) -> Self {
        let Sources { object, target, pods, opted_out, namespace, in_force, revisions, budgets } = sources;
        let judged: Vec<Judged> = pods.iter().map(|pod| Judged::judge(&target, pod)).collect();
        let counts = Counts::count(&judged);
        let round = round(&target, &pods, &judged, |_| false);
        let groups = groups(&target, &pods, &judged, revisions.as_deref());
        let drift = |group: &Group| {
            let fields = target.versions.differences(&group.hash);
            let is_native = target.upgrades.native;
            let fields = fields.map(|fields| fields.iter().map(|field| Field::new(field, is_native)).collect());
            Drift { revision: group.revision, hash: group.hash.clone(), fields }
        };
        let differences = || groups.iter().filter(|group| !group.in_force).map(drift).collect();
        let held = budgets.map(|budgets| {
            must_be_created_again(&target, &pods).into_iter().filter_map(|pod| held(pod, &budgets)).collect()
        });
        let mut summary = Summary { pods: Some(counts.into()), ..summary };
        if summary.observed_generation.is_none() && namespace.is_none() && summary.latest_revision.is_none() {
            // No controller says what it waits for, so this is what one would say.
            let computed = Progress::after_round(&target, &round, counts);
            summary.waits_for.message = format!("{}; {}", summary.waits_for.message, computed.message);
        }
        let without = |(pod, by): (&Pod, By)| Without {
            namespace: pod.metadata.namespace.clone(),
            name: pod.metadata.name.clone(),
            by: by.to_string(),
        };
        Self {
            summary,
            opted_out: opted_out.into_iter().map(without).collect(),
            namespace: namespace.map(str::to_owned),
            revision: in_force.map(|revision| revision.head.revision()),
            conditions: json::items(object, &["status", "conditions"]).to_vec(),
            differences: revisions.as_ref().map(|_| differences()),
            not_upgradable: stuck(&target, &pods, &judged),
            held,
            next: namespace.is_none().then(|| next(&round, &pods)),
            pods_by_revision: groups,
        }
    }
}

/// Returns the Pods by the version that they record.
fn groups(target: &RolloutTarget<'_>, pods: &[&Pod], judged: &[Judged], revisions: Option<&[&Revision]>) -> Vec<Group> {
    let mut groups: BTreeMap<(String, String), Group> = BTreeMap::new();
    for (pod, judged) in pods.iter().zip(judged) {
        let record = pod.records().get(target.name()).cloned().unwrap_or_default();
        let stored = |is_it: &dyn Fn(&Revision) -> bool| {
            revisions.unwrap_or_default().iter().rev().copied().find(|revision| is_it(revision))
        };
        // A Pod that was injected before its revision was stored records no name.
        let revision = stored(&|revision| revision.name() == record.revision)
            .or_else(|| stored(&|revision| revision.head.annotation(names::HASH) == record.hash));
        let name = revision.map_or(record.revision.as_str(), |revision| revision.name()).to_owned();
        let group = groups.entry((name.clone(), record.hash.clone())).or_insert_with(|| Group {
            revision: revision.map(|revision| revision.head.revision()),
            name,
            hash: record.hash,
            in_force: judged.is_updated,
            pods: 0,
            ready_pods: 0,
            namespaces: BTreeMap::new(),
        });
        group.pods += 1;
        group.ready_pods += usize::from(judged.is_available());
        *group.namespaces.entry(pod.metadata.namespace.clone()).or_default() += 1;
    }
    let mut groups: Vec<Group> = groups.into_values().collect();
    groups.sort_by_key(|group| (!group.in_force, std::cmp::Reverse(group.revision)));
    groups
}

fn stuck(target: &RolloutTarget<'_>, pods: &[&Pod], judged: &[Judged]) -> Vec<Stuck> {
    let outdated = pods
        .iter()
        .zip(judged)
        .filter(|(pod, judged)| !judged.is_updated && target.strategy.is_rolling && target.selects(pod));
    let stuck = outdated.filter_map(|(pod, _)| {
        let obstacle = target.upgrade_method(pod).err()?;
        let conditions = upgradable::read(pod).unwrap_or_default();
        Some(Stuck {
            namespace: pod.metadata.namespace.clone(),
            name: pod.metadata.name.clone(),
            reason: obstacle.to_string(),
            condition: conditions.get(target.name()).copied(),
        })
    });
    stuck.collect()
}

fn held(pod: &Pod, budgets: &[Value]) -> Option<Held> {
    let hold = budgets::hold(pod, budgets)?;
    Some(Held {
        namespace: pod.metadata.namespace.clone(),
        name: pod.metadata.name.clone(),
        budgets: hold.budgets().into_iter().map(str::to_owned).collect(),
        reason: hold.to_string(),
    })
}

fn next(round: &Round, pods: &[&Pod]) -> Vec<Next> {
    let of = |position: usize, way: &'static str| {
        let metadata = &pods.get(position)?.metadata;
        Some(Next { namespace: metadata.namespace.clone(), name: metadata.name.clone(), way })
    };
    match round {
        Round::Rest(_) => Vec::new(),
        Round::Reset(pods) => pods.iter().filter_map(|position| of(*position, "Reset")).collect(),
        Round::Upgrade { chosen, .. } => {
            let way = |way: UpgradeMethod| match way {
                UpgradeMethod::InPlace => "InPlace",
                UpgradeMethod::Resize => "Resize",
                UpgradeMethod::Recreate => "Recreate",
            };
            chosen.iter().filter_map(|chosen| of(chosen.pod, way(chosen.method))).collect()
        }
    }
}
