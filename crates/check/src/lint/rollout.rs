//! Warnings about rollouts that never happen.

use pillion_kubernetes::field::FieldPath;
use pillion_kubernetes::json;
use pillion_sidecarset::requested_revision::RequestedRevision;
use pillion_sidecarset::sidecar_set::SidecarSet;
use pillion_sidecarset::upgrades::{NO_FAILURE, PROGRESS_DEADLINE, ROLLBACK, RolloutSettings, UPGRADE_POLICY};
use serde_json::Value;

use crate::report::Finding;
use crate::settings::Judged;
use crate::subject::Subject;

/// The annotations that only rollouts read.
const ANNOTATIONS: [&str; 3] = [UPGRADE_POLICY, PROGRESS_DEADLINE, ROLLBACK];

/// Returns warnings about `SidecarSet`s of the settings with an update strategy: only those of the cluster are rolled
/// out.
///
/// A manifest with a hash was exported from a cluster whose controller reads the strategy there. With a stored revision,
/// the strategy decides which version new Pods get (INJ-4).
pub(super) fn of_settings(judged: &Judged<'_>) -> Vec<Finding> {
    let asks = |set: &SidecarSet| ANNOTATIONS.into_iter().find(|annotation| !set.annotation(annotation).is_empty());
    let is_idle = |strategy: &Value| {
        json::object(strategy, &[]).is_none_or(json::Object::is_empty) || json::text(strategy, &["type"]) == "NotUpdate"
    };
    let subjects = judged.subjects.iter().filter(|subject| {
        let set = &subject.set;
        set.hash().is_empty()
            && RequestedRevision::from_sidecar_set(set).is_none()
            && set.spec(&["updateStrategy"]).is_some_and(|strategy| !is_idle(strategy))
    });
    let warn = |subject: &Subject<'_>| {
        subject.spot.warning(
            "spec.updateStrategy",
            "SidecarSets of the settings are never rolled out to running Pods, so this has no effect",
            "create the SidecarSet in the cluster and set bundleRef, or remove the field",
        )
    };
    let of_strategy = subjects.map(warn);
    let of_annotations = judged.subjects.iter().filter_map(|subject| {
        let annotation = asks(&subject.set).filter(|_| subject.set.hash().is_empty())?;
        Some(subject.spot.warning(
            &FieldPath::new("metadata.annotations").key(annotation).to_string(),
            "SidecarSets of the settings are never rolled out to running Pods, so this has no effect",
            "create the SidecarSet in the cluster and set bundleRef, or remove the annotation",
        ))
    });
    of_strategy.chain(of_annotations).collect()
}

/// Returns warnings about settings whose rollbacks never happen, because no rollout fails without a deadline (ROLL-62).
pub(super) fn without_deadline(settings: &[Judged<'_>]) -> Vec<Finding> {
    let without = |settings: &RolloutSettings| settings.rollback && settings.progress_deadline.is_none();
    let of_settings = settings.iter().filter(|judged| without(&judged.settings.rollouts));
    let remedy = "set rollouts.progressDeadline, as in \"10m\"";
    of_settings.map(|judged| judged.spot.warning("rollouts.rollback", NO_FAILURE, remedy)).collect()
}
