//! What a `SidecarSet` asks for that only newer versions of Kubernetes have (FIELD-4).

mod features;
#[cfg(test)]
mod tests;

use pillion_kubernetes::field::FieldPath;
use pillion_kubernetes::json;
use pillion_kubernetes::version::KubernetesVersion;
use serde_json::Value;

pub use self::features::{FEATURES, Feature, NewField};
use self::features::{NATIVE_SIDECARS, RESIZE, RESTART_RULES};
use crate::native::{NATIVE, NativeSidecars};
use crate::sidecar::{List, is_native};
use crate::sidecar_set::SidecarSet;
use crate::tables::{self, SIDECAR_SET_V1BETA1};
use crate::upgrades::{RolloutSettings, UPGRADE_POLICY, Upgrades};

/// What the settings ask for beside a `SidecarSet`.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The setting `nativeSidecars`.
    pub native_sidecars: NativeSidecars,
    /// The setting `rollouts`; `None` if the `SidecarSet` is never rolled out.
    pub rollouts: Option<&'a RolloutSettings>,
}

/// A place in a `SidecarSet` that needs a feature of Kubernetes.
struct Need {
    /// The field, as in v1beta1.
    path: String,
    feature: &'static Feature,
}

/// Why a cluster does not do what a `SidecarSet` asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortfall {
    /// The field, as in v1beta1.
    pub path: String,
    /// What is missing, and what happens without it.
    pub message: String,
    /// What to do.
    pub remedy: String,
    /// Whether no feature gate can help: the version of the cluster does not have it.
    pub is_certain: bool,
}

/// Returns what a `SidecarSet` asks for that a version of Kubernetes does not have, or has only behind a feature gate.
pub fn shortfalls(set: &SidecarSet, asked: Asked<'_>, cluster: KubernetesVersion) -> Vec<Shortfall> {
    needs(set, asked).into_iter().filter_map(|need| need.shortfall(cluster)).collect()
}

/// Returns what a `SidecarSet` needs, in the order of its fields.
fn needs(set: &SidecarSet, asked: Asked<'_>) -> Vec<Need> {
    let annotation = |key: &str| FieldPath::new("metadata.annotations").key(key).to_string();
    let is_given = |key: &str| !set.annotation(key).trim().is_empty();
    let mut needs = Vec::new();
    let native = NativeSidecars::from_sidecar_set(set, asked.native_sidecars).unwrap_or_default();
    if native != NativeSidecars::Off && !set.containers().is_empty() {
        let path = if is_given(NATIVE) { annotation(NATIVE) } else { "spec.containers".to_owned() };
        needs.push(Need { path, feature: &NATIVE_SIDECARS });
    }
    if asked.rollouts.is_some_and(|settings| Upgrades::from_sidecar_set(set, settings).0.resize) {
        let path = if is_given(UPGRADE_POLICY) { annotation(UPGRADE_POLICY) } else { "spec.updateStrategy".to_owned() };
        needs.push(Need { path, feature: &RESIZE });
    }
    for (list, containers) in [(List::Init, set.init_containers()), (List::Containers, set.containers())] {
        for (index, container) in containers.iter().enumerate() {
            if let Some(feature) = restarts(list, container) {
                let path = FieldPath::new("spec").item(list.key(), index).child("restartPolicy").to_string();
                needs.push(Need { path, feature });
            }
        }
    }
    let unknown = tables::unknown(set.as_value(), &SIDECAR_SET_V1BETA1, &FieldPath::default());
    needs.extend(unknown.into_iter().filter_map(|unknown| {
        let feature = Feature::of(unknown.owner.name, unknown.key)?;
        Some(Need { path: unknown.path, feature })
    }));
    needs
}

/// Returns what the restart policy of a container needs.
fn restarts(list: List, container: &Value) -> Option<&'static Feature> {
    match json::text(container, &["restartPolicy"]) {
        "" => None,
        _ if list == List::Init && is_native(container) => Some(&NATIVE_SIDECARS),
        _ => Some(&RESTART_RULES),
    }
}

impl Need {
    /// Returns why a cluster does not have what is needed; `None` if it has.
    fn shortfall(self, cluster: KubernetesVersion) -> Option<Shortfall> {
        let Feature { name, since, by_default, gate, without, .. } = self.feature;
        if by_default.is_some_and(|version| cluster >= version) {
            return None;
        }
        let is_certain = cluster < *since;
        let message = if is_certain {
            format!("{name} need Kubernetes {}; this cluster has {cluster}, where {without}", self.feature.needed())
        } else {
            format!(
                "{name} need the feature gate {gate} in Kubernetes {cluster}, the version of this cluster; if it is off, {without}"
            )
        };
        let remedy = match by_default {
            _ if !is_certain => "turn the gate on in the API server and the kubelets, or remove this".to_owned(),
            Some(version) => format!("update the cluster to {version}, or remove this"),
            None => "remove this".to_owned(),
        };
        Some(Shortfall { path: self.path, message, remedy, is_certain })
    }
}
