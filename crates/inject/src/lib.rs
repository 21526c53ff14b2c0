//! Injection of `SidecarSet`s into a Pod (docs/spec/injection.md).
//!
//! The order is that of the reference implementation: annotations of patchPodMetadata, then the sidecars of each set,
//! then the Pod's lists, volumes, secrets and records. [`plan`] computes the changes, and [`Changes::apply`] edits the
//! Pod in place. A Pod that is already injected does not change.
//!
//! It never gives a Pod an identity (`pillion_identity` does), and never asks for more of the cluster than a Namespace
//! and revisions. Start with [`matching`] and [`plan`].
#![forbid(unsafe_code)]

mod additions;
pub mod clash;
mod container;
mod kept;
pub mod matching;
mod merge_patch;
pub mod metadata;
mod natives;
pub mod order;
mod place;
pub mod readmission;
pub mod records;
pub mod resources;
pub mod sources;
mod warnings;

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use pillion_json::go as go_json;
use pillion_kubernetes::field::ERRORS_MAX;
use pillion_kubernetes::json::{self, Object};
use pillion_kubernetes::outcome::Reason;
use pillion_kubernetes::time::Timestamp;
use pillion_sidecarset::made;
use pillion_sidecarset::names;
use pillion_sidecarset::other_webhooks::OtherWebhooks;
use pillion_sidecarset::pod::{self, Pod};
use pillion_sidecarset::sidecar::{self, List};
use pillion_sidecarset::sidecar_set::SidecarSet;
use serde_json::Value;

use self::additions::Additions;
use self::container::Sidecar;
use self::kept::Kept;
use self::records::{Record, Records};
use self::sources::{Hidden, Missing, Own, Taken};

/// The inputs of an injection besides the Pod and the sets.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The time of injection.
    pub now: Timestamp,
    /// The gate `EnableSortSidecarContainerByName` (INJ-23).
    pub sort_by_name: bool,
    /// Set if the Pod gets an identity: mounts with tokens are not shared then (IDC-8).
    pub hides_tokens: Option<Hidden<'a>>,
    /// The changes of other webhooks to sidecars that stay; none if absent (ORDER-9).
    pub other_webhooks: Option<&'a OtherWebhooks>,
}

/// The outcome of an injection.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Injected {
    /// The sidecars in the Pod by `SidecarSet`, including those that were there before. Empty if there were none to
    /// inject.
    pub sidecars: BTreeMap<String, Vec<String>>,
    /// Warnings for the user, one line each.
    pub warnings: Vec<String>,
}

/// Everything that the sets in effect add, before it is added.
#[derive(Default)]
struct Plan<'a> {
    init_containers: Vec<Sidecar>,
    containers: Vec<Sidecar>,
    volumes: Vec<(&'a str, &'a Value)>,
    secrets: Vec<&'a Value>,
    records: Vec<Record>,
    annotations: BTreeMap<String, String>,
    /// The active container of each hot-upgrade pair, by the name of the pair. Written if this injection adds pairs.
    working: BTreeMap<String, String>,
    has_pairs: bool,
    missing: Vec<(&'a str, String, Missing)>,
}

/// The longest object that an API server accepts, in bytes: its limit for a request. etcd stores half of that by
/// default. `managedFields`, which the module leaves unread, do not count.
const OBJECT_MAX: usize = 3 * 1024 * 1024;
/// The most mounts, devices and variables that the sidecars of a Pod copy from it. Each is read several times: whether
/// it gives a token, and whether it is there (E18).
const COPIES_MAX: usize = 20_000;

/// The changes that an injection makes in a Pod.
pub struct Changes<'a> {
    sets: &'a [SidecarSet],
    context: Context<'a>,
    /// All annotations after the injection, if any change.
    annotations: Option<Object>,
    init_containers: Vec<Sidecar>,
    containers: Vec<Sidecar>,
    volumes: Vec<(&'a str, &'a Value)>,
    secrets: Vec<&'a Value>,
    warnings: Vec<String>,
}

/// Plans the injection of `sets`, in this order, into `pod`.
///
/// # Errors
/// All reasons of all sets: impossible merges, unreadable records, conflicting names, resources that cannot be
/// computed; or, if there is none of these, additions that the API server would refuse (INJ-30).
pub fn plan<'a>(pod: Pod<'_>, sets: &'a [SidecarSet], context: Context<'a>) -> Result<Changes<'a>, Vec<Reason>> {
    let too_long = clash::too_long(pod, sets);
    if !too_long.is_empty() {
        return Err(too_long);
    }
    // Annotations first: records and transferEnv read them as patched (INJ-12).
    let (patched, mut reasons) = metadata::patch(pod.annotations(), sets);
    let source = patched.as_ref().map_or(pod, |annotations| pod.with_annotations(annotations));

    let mut read = |key| Records::read(source.annotations(), key).map_err(|reason| reasons.push(reason)).ok();
    let (records, without_image) = (read(names::HASH), read(names::HASH_WITHOUT_IMAGE));
    let working = records::working_hot_upgrade(source.annotations()).map_err(|reason| reasons.push(reason)).ok();
    let (Some(records), Some(without_image), Some(working)) = (records, without_image, working) else {
        return Err(reasons);
    };
    reasons.append(&mut clash::find(source, sets, &records));
    let mut plan = Plan { working, ..Plan::default() };
    plan.fill(source, sets, &records, context, &mut reasons);
    if reasons.is_empty() {
        let Plan { init_containers, containers, volumes, .. } = &plan;
        reasons = additions::refused(source, Additions { init_containers, containers, volumes });
    }
    if !reasons.is_empty() {
        return Err(reasons);
    }
    let checked = |annotations: Option<&Object>| {
        let after = annotations.map(|after| additions::too_many_annotations(pod.annotations(), after, sets));
        after.filter(|reasons| !reasons.is_empty()).map_or(Ok(()), Err)
    };
    if plan.init_containers.is_empty() && plan.containers.is_empty() {
        checked(patched.as_ref())?;
        return Ok(Changes {
            sets: &[],
            context,
            annotations: patched,
            init_containers: Vec::new(),
            containers: Vec::new(),
            volumes: Vec::new(),
            secrets: Vec::new(),
            warnings: Vec::new(),
        });
    }
    let mut warnings = warnings::missing(&plan.missing);
    warnings.append(&mut natives::unshared(source, sets));
    let Plan { init_containers, containers, volumes, .. } = &plan;
    let additions = Additions { init_containers, containers, volumes };
    warnings.append(&mut warnings::unsuited(source, sets, &records, additions));
    let mut annotations = plan.annotated(source, sets, (records, without_image));
    if context.hides_tokens.is_some_and(|hidden| !hidden.asking.is_empty()) {
        annotations.extend(order::record(source, sets).map(|own| (order::OWN_CONTAINERS.to_owned(), own.into())));
    }
    let annotations = Some(annotations);
    checked(annotations.as_ref())?;
    let Plan { init_containers, containers, volumes, secrets, .. } = plan;
    Ok(Changes { sets, context, annotations, init_containers, containers, volumes, secrets, warnings })
}

impl Changes<'_> {
    /// Whether the changes certainly change the Pod: they add sidecars, and the Pod has no list of SidecarSets that
    /// were injected before.
    pub fn is_certain(&self, pod: Pod<'_>) -> bool {
        let has_sidecars = !self.init_containers.is_empty() || !self.containers.is_empty();
        has_sidecars && !pod.annotations().is_some_and(|annotations| annotations.contains_key(names::INJECTED_LIST))
    }

    /// Applies the changes to the Pod for which they were planned.
    pub fn apply(self, pod: &mut Value) -> Injected {
        let Self { sets, context, annotations, init_containers, containers, volumes, secrets, mut warnings } = self;
        let mut sidecars: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for sidecar in init_containers.iter().chain(&containers) {
            sidecars.entry(sidecar.set.clone()).or_default().push(sidecar.name().to_owned());
        }
        if let Some(annotations) = annotations {
            set_annotations(pod, annotations);
        }
        if sidecars.is_empty() {
            return Injected::default();
        }
        if let Some(spec) = pod.as_object_mut().and_then(|pod| json::object_mut(pod, "spec")) {
            place::take_moved(spec, List::Init, &containers);
            place::take_moved(spec, List::Containers, &init_containers);
            let asking = context.hides_tokens.map_or(&[][..], |hidden| hidden.asking);
            let kept = Kept::new(context.other_webhooks, asking.iter().map(|set| set.sidecar_set.as_str()));
            for (list, sidecars) in [(List::Init, init_containers), (List::Containers, containers)] {
                warnings.append(&mut warnings::set_back(&place::containers(spec, list, sidecars, &kept)));
            }
            let shadowed = place::volumes(spec, &volumes);
            warnings.append(&mut warnings::shadowed(&shadowed));
            place::pull_secrets(spec, &secrets);
        }
        warnings.append(&mut warnings::unknown_volumes(json::items(pod, &["spec", "volumes"]), sets));
        Injected { sidecars, warnings }
    }
}

impl<'a> Plan<'a> {
    /// Adds the sidecars, volumes, secrets and records of `sets`, or the reasons why that is impossible.
    fn fill(
        &mut self,
        pod: Pod<'_>,
        sets: &'a [SidecarSet],
        records: &Records,
        context: Context<'_>,
        reasons: &mut Vec<Reason>,
    ) {
        self.volumes = brought(sets);
        let own = Own::new(pod, sets, &self.volumes, context.hides_tokens);
        let wanted: Vec<_> = sets.iter().map(|set| (set, Wanted::from_sidecar_set(set, &own))).collect();
        let too_long = too_long(pod, &wanted);
        if !too_long.is_empty() {
            reasons.extend(too_long);
            return;
        }
        let long = resources::too_long(sets);
        if !long.is_empty() {
            reasons.extend(long);
            return;
        }
        let targets = resources::Targets::new(pod, sets, records);
        for (set, wanted) in wanted {
            let mut listed = BTreeSet::new();
            let mut sidecars = 0_usize;
            for wanted in wanted {
                let Wanted { list, written, sidecar, .. } = wanted;
                let resources = match targets.resources(set.name(), (written.0, written.1, sidecar)) {
                    Ok(resources) => resources,
                    Err(mut more) => {
                        // Each sidecar may name each container of the Pod (E18).
                        if reasons.len() < ERRORS_MAX {
                            reasons.append(&mut more);
                        }
                        continue;
                    }
                };
                if sidecar::is_long_running(sidecar, list) {
                    listed.insert(pod::name(sidecar).to_owned());
                }
                sidecars += 1;
                self.add(set, wanted, resources);
            }
            for secret in json::items(set.as_value(), &["spec", "imagePullSecrets"]) {
                self.secrets.push(secret);
            }
            if sidecars > 0 {
                self.records.push(record(set, listed, context.now));
            }
        }
        self.sort(context.sort_by_name);
    }

    /// Sorts the init containers by name, and the sidecars that are written as containers if `sort_by_name` is set
    /// (INJ-23). Those that have become native sidecars follow the init containers (NAT-2).
    fn sort(&mut self, sort_by_name: bool) {
        let by_name = |one: &Sidecar, other: &Sidecar| one.name().cmp(other.name());
        self.init_containers.sort_by(|one, other| {
            let is_sorted = sort_by_name || !one.is_written_as_container();
            let kinds = one.is_written_as_container().cmp(&other.is_written_as_container());
            kinds.then_with(|| if is_sorted { by_name(one, other) } else { Ordering::Equal })
        });
        if sort_by_name {
            self.containers.sort_by(by_name);
        }
    }

    fn add(
        &mut self,
        set: &'a SidecarSet,
        Wanted { list, written, sidecar, taken }: Wanted<'a, '_, '_>,
        resources: Option<Value>,
    ) {
        let mut built = container::build(set.name(), (list, written, sidecar), resources, &taken);
        let base = pod::name(sidecar);
        self.missing.extend(taken.missing.into_iter().map(|missing| (set.name(), base.to_owned(), missing)));
        if sidecar::is_pair(sidecar, list) {
            self.mark_pair(base);
        }
        match list {
            List::Init => self.init_containers.append(&mut built),
            List::Containers => self.containers.append(&mut built),
        }
    }

    /// Returns the Pod's annotations with those of the plan.
    fn annotated(
        &mut self,
        pod: Pod<'_>,
        sets: &[SidecarSet],
        (mut records, mut without_image): (Records, Records),
    ) -> Object {
        let (mut is_new, mut is_new_without_image) = (false, false);
        let hashes: BTreeMap<_, _> =
            sets.iter().rev().map(|set| (set.name(), set.annotation(names::HASH_WITHOUT_IMAGE))).collect();
        for record in std::mem::take(&mut self.records) {
            let hash = hashes.get(record.set.as_str()).copied().unwrap_or_default().to_owned();
            is_new_without_image |= without_image.put(Record { hash, revision: String::new(), ..record.clone() });
            is_new |= records.put(record);
        }
        let mut annotations = pod.annotations().cloned().unwrap_or_default();
        let mut annotate = |key: &str, text: String| annotations.insert(key.to_owned(), Value::String(text));
        if is_new {
            annotate(names::HASH, records.to_text());
        }
        if is_new_without_image {
            annotate(names::HASH_WITHOUT_IMAGE, without_image.to_text());
        }
        annotate(names::INJECTED_LIST, records::injected_list(pod.annotations(), sets.iter().map(SidecarSet::name)));
        for (key, text) in std::mem::take(&mut self.annotations) {
            annotate(&key, text);
        }
        if self.has_pairs {
            annotate(names::WORKING_HOT_UPGRADE, go_json::to_string_sorted(&serde_json::json!(self.working)));
        }
        annotations
    }

    /// Adds the annotations of a hot-upgrade pair: `<base>-1` is active, `<base>-2` waits (INJ-21).
    fn mark_pair(&mut self, base: &str) {
        for (half, version, alternative) in [("-1", "1", "0"), ("-2", "0", "1")] {
            for (prefix, value) in [(names::VERSION_PREFIX, version), (names::VERSION_ALT_PREFIX, alternative)] {
                self.annotations.insert(format!("{prefix}{base}{half}"), value.to_owned());
            }
        }
        self.working.insert(base.to_owned(), format!("{base}-1"));
        self.has_pairs = true;
    }
}

/// Returns the volumes of the sets that a sidecar names, each with the name of its set (INJ-26). Of several in one set
/// with one name, the last counts. Each is added once.
fn brought(sets: &[SidecarSet]) -> Vec<(&str, &Value)> {
    let mut brought = Vec::new();
    for set in sets {
        let mut volumes: BTreeMap<_, _> = set.volumes().iter().map(|volume| (pod::name(volume), volume)).collect();
        for (_, _, sidecar) in made::sidecars(set) {
            let named = pod::used_volumes(sidecar).filter_map(|name| volumes.remove(name));
            brought.extend(named.map(|volume| (set.name(), volume)));
        }
    }
    brought
}

/// Returns the volumes with which a Pod replaces volumes of these sets (INJ-26), by name, each with its place in the list:
/// they differ from every definition of the sets.
pub fn replaced<'a>(volumes: &'a [Value], sets: &[SidecarSet]) -> BTreeMap<&'a str, usize> {
    let mut wanted: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    for (_, volume) in brought(sets) {
        wanted.entry(pod::name(volume)).or_default().push(volume);
    }
    // Of several volumes with one name, the first counts.
    let mut found = BTreeMap::new();
    for (index, volume) in volumes.iter().enumerate() {
        if let Some(wanted) = wanted.remove(pod::name(volume))
            && !wanted.into_iter().any(|wanted| readmission::covers_volume(volume, wanted))
        {
            found.insert(pod::name(volume), index);
        }
    }
    found
}

/// A sidecar of a set, with the parts that it copies from the Pod.
struct Wanted<'s, 'o, 'p> {
    /// The list of the Pod that it goes into.
    list: List,
    /// The list in which it is written, and its index there.
    written: (List, usize),
    sidecar: &'s Value,
    taken: Taken<'o, 'p>,
}

impl<'s, 'o, 'p> Wanted<'s, 'o, 'p> {
    /// Returns all sidecars of a set.
    fn from_sidecar_set(set: &'s SidecarSet, own: &'o Own<'p>) -> Vec<Self> {
        let taken = |sidecar| own.taken_by(set.name(), sidecar);
        let wanted = |(list, index, sidecar)| {
            let written = made::written(set, (list, index));
            Self { list, written, sidecar, taken: taken(sidecar) }
        };
        made::sidecars(set).map(wanted).collect()
    }
}

/// If the Pod with the copies for its sidecars would be too long to store, returns a reason for each set whose sidecars
/// copy anything. Computes that before anything is copied (E18).
fn too_long(pod: Pod<'_>, wanted: &[(&SidecarSet, Vec<Wanted<'_, '_, '_>>)]) -> Vec<Reason> {
    let mut room = Some(OBJECT_MAX.saturating_sub(pod.length(OBJECT_MAX)));
    let mut copied = 0_usize;
    let mut taking = Vec::new();
    for (set, wanted) in wanted {
        let mut is_taking = false;
        for Wanted { list, sidecar, taken, .. } in wanted {
            let times = if sidecar::is_pair(sidecar, *list) { 2 } else { 1 };
            // Once the limit is exceeded, only whether this sidecar copies anything matters.
            let length = taken.length(room.unwrap_or_default());
            is_taking |= length > 0;
            copied = copied.saturating_add(taken.count().saturating_mul(times));
            room = room.and_then(|room| room.checked_sub(length.saturating_mul(times)));
        }
        taking.extend(is_taking.then(|| set.name()));
    }
    let problem = if room.is_none() {
        format!("makes the Pod longer than {OBJECT_MAX} bytes with what its sidecars take from the Pod")
    } else if copied > COPIES_MAX {
        format!("is one whose sidecars take more than {COPIES_MAX} mounts, devices and variables from the Pod")
    } else {
        return Vec::new();
    };
    let remedy = "turn shareVolumePolicy off, or name fewer variables in transferEnv";
    let reason = |set| Reason::forbidden("spec.containers", problem.clone(), remedy).about(set);
    taking.into_iter().map(reason).collect()
}

fn record(set: &SidecarSet, sidecars: BTreeSet<String>, now: Timestamp) -> Record {
    Record {
        time: Some(now),
        hash: set.hash().to_owned(),
        set: set.name().to_owned(),
        sidecars: Some(sidecars.into_iter().collect()),
        revision: json::text(set.as_value(), &["status", "latestRevision"]).to_owned(),
    }
}

fn set_annotations(pod: &mut Value, annotations: Object) {
    if let Some(metadata) = pod.as_object_mut().and_then(|pod| json::object_mut(pod, "metadata"))
        && (metadata.contains_key("annotations") || !annotations.is_empty())
    {
        metadata.insert("annotations".to_owned(), Value::Object(annotations));
    }
}

#[cfg(test)]
mod tests;
