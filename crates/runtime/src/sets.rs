//! The SidecarSets that the policy may inject: those of its settings, and those of the cluster or, if this process
//! keeps a bundle, those of the bundle.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;
use pillion_admission::settings::Settings;
use pillion_kubernetes::json;
use pillion_plan::demand::PreparedSets;
use pillion_sidecarset::sidecar_set::SidecarSet;
use pillion_sidecarset::sidecar_set::decode::decode;
use serde_json::Value;

use crate::store::SidecarSetObject;

/// All SidecarSets, and the custom resources that are left out.
#[derive(Clone, Debug, Default)]
pub struct Sets {
    /// The SidecarSets in their v1beta1 form, as written, sorted by name. Each name is unique.
    pub sets: Vec<SidecarSet>,
    /// The SidecarSets among `sets` that may ask for an identity.
    pub prepared: PreparedSets,
    /// Custom resources that are left out, by name.
    pub refused: Vec<Refused>,
    /// Why the SidecarSets of the settings cannot be read, if so. A missing SidecarSet then proves nothing.
    pub problem: Option<String>,
}

/// A custom resource that is left out.
#[derive(Clone, Debug, PartialEq)]
pub struct Refused {
    /// Its name.
    pub name: String,
    /// The reason, in one line.
    pub why: String,
}

const TAKEN: &str = "the settings have a SidecarSet of this name";

impl Sets {
    /// Returns the SidecarSets of the settings and the custom resources. If both have a SidecarSet of the same name,
    /// that of the settings counts and the custom resource is left out. A set that admission would refuse for its
    /// values is included, as it is when the policy admits a Pod.
    pub fn union<'a>(settings: &Settings, resources: impl IntoIterator<Item = &'a Value>) -> Self {
        let (mut all, taken) = Self::from_settings(settings);
        for resource in resources {
            let name = json::text(resource, &["metadata", "name"]).to_owned();
            let why = if taken.contains(&name) {
                TAKEN.to_owned()
            } else {
                match decode(resource.clone()) {
                    Ok(decoded) => {
                        all.sets.push(decoded.into_sidecar_set());
                        continue;
                    }
                    Err(errors) => errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "),
                }
            };
            all.refused.push(Refused { name, why });
        }
        all.complete()
    }

    /// Returns the SidecarSets of the settings and those of the bundle, in the bundle's version. Custom resources that
    /// are not in the bundle are not injected.
    pub fn with_bundle<'a>(
        settings: &Settings,
        bundled: &[SidecarSet],
        resources: impl IntoIterator<Item = &'a Value>,
    ) -> Self {
        let (mut all, taken) = Self::from_settings(settings);
        all.sets.extend(bundled.iter().filter(|set| !taken.contains(set.name())).cloned());
        let bundled: BTreeSet<&str> = bundled.iter().map(SidecarSet::name).collect();
        for resource in resources {
            let name = json::text(resource, &["metadata", "name"]);
            let why = if taken.contains(name) {
                TAKEN
            } else if bundled.contains(name) {
                continue;
            } else {
                "it is not in the bundle"
            };
            all.refused.push(Refused { name: name.to_owned(), why: why.to_owned() });
        }
        all.complete()
    }

    /// Returns the SidecarSets of the settings, and their names.
    fn from_settings(settings: &Settings) -> (Self, BTreeSet<String>) {
        let mut all = Self::default();
        match settings.all_sidecar_sets() {
            Ok(sets) => all.sets = sets.into_owned(),
            Err(error) => all.problem = Some(format!("the bundle of the settings {error}")),
        }
        let taken = all.sets.iter().map(|set| set.name().to_owned()).collect();
        (all, taken)
    }

    fn complete(self) -> Self {
        let mut all = self;
        all.sets.sort_by(|one, other| one.name().cmp(other.name()));
        all.prepared = PreparedSets::from_sets(&all.sets);
        all
    }

    /// Whether Pods get the same identities from both, and the same SidecarSets are known and left out.
    pub fn give_the_same_identities_as(&self, other: &Self) -> bool {
        fn names(sets: &Sets) -> impl Iterator<Item = &str> {
            sets.sets.iter().map(SidecarSet::name)
        }
        self.prepared.sidecar_sets().eq(other.prepared.sidecar_sets())
            && names(self).eq(names(other))
            && (&self.refused, &self.problem) == (&other.refused, &other.problem)
    }

    /// Whether the contents of this SidecarSet are unknown: its absence then proves nothing. They are known if the
    /// settings have a SidecarSet of this name, whatever the cluster has (TRUST-3).
    pub fn is_unknown(&self, name: &str) -> bool {
        let is_there = || self.sets.iter().any(|set| set.name() == name);
        self.problem.is_some() || (self.refused.iter().any(|refused| refused.name == name) && !is_there())
    }
}

/// The sources of the SidecarSets.
pub struct Sources {
    /// The policy's settings.
    pub settings: Arc<Settings>,
    /// The SidecarSets of the bundle, if this process keeps one.
    pub bundled: Option<Arc<Vec<SidecarSet>>>,
    /// A number that differs once the content of a custom resource has changed.
    pub version: u64,
}

impl Sources {
    /// Whether each source is as before.
    fn are(&self, before: &Self) -> bool {
        Arc::ptr_eq(&self.settings, &before.settings)
            && self.bundled.as_ref().map(Arc::as_ptr) == before.bundled.as_ref().map(Arc::as_ptr)
            && self.version == before.version
    }

    fn read(&self, resources: &[Arc<SidecarSetObject>]) -> Sets {
        let of_cluster = resources.iter().map(|resource| &*resource.0);
        match &self.bundled {
            Some(bundled) => Sets::with_bundle(&self.settings, bundled, of_cluster),
            None => Sets::union(&self.settings, of_cluster),
        }
    }
}

/// Caches the SidecarSets until one of their sources changes.
#[derive(Default)]
pub struct Cached(Mutex<Option<(Sources, Arc<Sets>)>>);

impl Cached {
    /// Returns the SidecarSets of these sources. `resources` returns the custom resources.
    pub fn get(&self, sources: Sources, resources: impl FnOnce() -> Vec<Arc<SidecarSetObject>>) -> Arc<Sets> {
        let mut read = self.0.lock();
        if let Some((_, sets)) = read.as_ref().filter(|(before, _)| sources.are(before)) {
            return Arc::clone(sets);
        }
        let sets = Arc::new(sources.read(&resources()));
        *read = Some((sources, Arc::clone(&sets)));
        sets
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn set(version: &str, name: &str, spec: &Value) -> Value {
        json!({"apiVersion": format!("apps.kruise.io/{version}"), "kind": "SidecarSet", "metadata": {"name": name}, "spec": spec})
    }

    #[test]
    fn sets_of_both_versions_and_of_the_settings_are_one_list() {
        let settings = Settings::decode(json!({"sidecarSets": [set("v1beta1", "b", &json!({}))]})).unwrap_or_default();
        // A SidecarSet that is being deleted is still injected.
        let mut being_deleted = set("v1alpha1", "a", &json!({"namespace": "shop"}));
        being_deleted["metadata"]["deletionTimestamp"] = json!("2026-01-02T00:00:00Z");
        let resources = [
            being_deleted,
            set("v1beta1", "b", &json!({"paused": true})),
            set("v1beta1", "c", &json!({"containers": {}})),
        ];
        let all = Sets::union(&settings, &resources);
        let names: Vec<_> = all.sets.iter().map(SidecarSet::name).collect();
        assert_eq!(names, ["a", "b"]);
        let selector = all.sets.first().and_then(|set| set.spec(&["namespaceSelector"]));
        assert_eq!(selector, Some(&json!({"matchLabels": {"kubernetes.io/metadata.name": "shop"}})));
        let refused = |name: &str, why: &str| Refused { name: name.to_owned(), why: why.to_owned() };
        assert_eq!(
            all.refused,
            [
                refused("b", "the settings have a SidecarSet of this name"),
                refused("c", "spec.containers: Invalid value: must be a list, found an object"),
            ]
        );
        assert!(all.is_unknown("c") && !all.is_unknown("a"));
        assert!(!all.is_unknown("b"), "TRUST-3: the settings have it");
    }

    #[test]
    fn of_the_bundle_it_is_the_version_that_is_there() {
        let settings = Settings::decode(json!({"sidecarSets": [set("v1beta1", "b", &json!({}))]})).unwrap_or_default();
        let bundled = ["a", "b"].map(|name| SidecarSet::from_decoded(set("v1beta1", name, &json!({"paused": false}))));
        let resources = ["a", "b", "c"].map(|name| set("v1beta1", name, &json!({"paused": true})));
        let all = Sets::with_bundle(&settings, &bundled, &resources);
        let seen: Vec<_> = all.sets.iter().map(|set| (set.name(), set.spec(&["paused"]))).collect();
        assert_eq!(seen, [("a", Some(&json!(false))), ("b", None)]);
        let refused = |name: &str, why: &str| Refused { name: name.to_owned(), why: why.to_owned() };
        assert_eq!(all.refused, [refused("b", TAKEN), refused("c", "it is not in the bundle")]);
    }

    #[test]
    fn of_a_damaged_bundle_nothing_is_known() {
        let settings = Settings { bundle: Some(b"nonsense".into()), ..Settings::default() };
        let all = Sets::union(&settings, []);
        assert!(all.problem.is_some() && all.is_unknown("a"), "{all:?}");
    }
}
