//! Warnings about volumes that are shared unexpectedly.

use std::collections::BTreeMap;

use pillion_kubernetes::json;

use super::matching::may_meet;
use crate::report::Finding;
use crate::subject::Subject;

/// Volume sources with a separate volume for each Pod.
const OF_THE_POD: [&str; 2] = ["emptyDir", "ephemeral"];

/// Returns warnings about volumes with the same name and definition in two `SidecarSet`s: a Pod that gets both has one
/// volume, which both use. Different definitions are a conflict instead.
pub(super) fn shared(group: &[Subject<'_>]) -> Vec<Finding> {
    let mut seen: BTreeMap<&str, Vec<&Subject<'_>>> = BTreeMap::new();
    let mut findings = Vec::new();
    for subject in group {
        for (index, volume) in subject.prepared.volumes().iter().enumerate() {
            let name = json::text(volume, &["name"]);
            if !OF_THE_POD.iter().any(|source| volume.get(source).is_some()) {
                continue;
            }
            let earlier = seen.entry(name).or_default();
            let other = earlier.iter().find(|other| {
                let same = other.prepared.volumes().iter().any(|theirs| theirs == volume);
                same && !are_one(subject, other) && may_meet(&subject.set, &other.set)
            });
            if let Some(other) = other {
                let message = format!(
                    "SidecarSet {:?} has the same volume: Pods that get both have one, and both write to it",
                    other.set.name()
                );
                let path = format!("spec.volumes[{index}].name");
                findings.push(subject.spot.warning(&path, message, "rename one of them if that is not meant"));
            }
            earlier.push(subject);
        }
    }
    findings
}

/// Whether no Pod gets both: they have the same name, or are a canary and its base.
fn are_one(one: &Subject<'_>, other: &Subject<'_>) -> bool {
    let (one, other) = (&one.set, &other.set);
    one.name() == other.name() || one.canary_of() == Some(other.name()) || other.canary_of() == Some(one.name())
}
