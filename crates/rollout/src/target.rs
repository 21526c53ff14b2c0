//! What is rolled out: a version of a SidecarSet, and how its Pods get it.

use std::collections::{BTreeMap, BTreeSet};

use pillion_inject::records::Records;
use pillion_kubernetes::field::{FieldError, FieldPath};
use pillion_kubernetes::json;
use pillion_kubernetes::selector::Selector;
use pillion_kubernetes::time::Timestamp;
use pillion_sidecarset::native::NativeSidecars;
use pillion_sidecarset::overrides::Rules;
use pillion_sidecarset::sidecar::{List, halves, is_native, is_pair};
use pillion_sidecarset::sidecar_set::SidecarSet;
use pillion_sidecarset::upgrades::Upgrades;
use pillion_sidecarset::{names, pod};
use serde_json::Value;

use crate::amount::Amount;
use crate::budget::Limits;
use crate::history::Revision;
use crate::method::Versions;
use crate::order::Priority;
use crate::recreation::Recreation;
use crate::scatter::Term;

/// The version of a SidecarSet that is rolled out. New Pods get the same version.
#[derive(Clone, Debug)]
pub struct RolloutTarget<'a> {
    /// The version, with its defaults and hashes.
    pub version: &'a SidecarSet,
    /// `metadata.resourceVersion` of the SidecarSet in the cluster.
    pub resource_version: &'a str,
    /// `spec.containers`, and the native sidecars if the SidecarSet asks for their upgrades (ROLL-63).
    pub sidecars: Vec<Sidecar<'a>>,
    /// How the version is rolled out.
    pub strategy: Strategy<'a>,
    /// What the SidecarSet asks for beyond upgrades of images.
    pub upgrades: Upgrades,
    /// In which Pods new ones get the containers as native sidecars; `None` if that is not known (NAT-5).
    pub native_sidecars: Option<NativeSidecars>,
    /// The stored versions.
    pub versions: Versions<'a>,
    /// The hash of the version that has failed: only its Pods get the version of the target (ROLL-62).
    pub back_from: Option<String>,
    /// What evictions depend on. Nothing is known unless the SidecarSet asks for evictions.
    pub recreation: Recreation,
    /// What Pods and Namespaces may override in the sidecars; `None` if nothing (OVR-10).
    pub overrides: Option<Rules>,
    /// What the states of Pods depend on besides themselves.
    pub surroundings: Surroundings,
}

/// What the states of Pods depend on besides themselves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Surroundings {
    /// The time of the round.
    pub now: Timestamp,
    /// The nodes that are not ready, by name.
    pub unready_nodes: BTreeSet<String>,
    /// The annotations of Namespaces with overrides of sidecars, by the name of the Namespace (OVR-10).
    pub overrides: BTreeMap<String, BTreeMap<String, String>>,
}

/// A sidecar that is rolled out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sidecar<'a> {
    /// Its name in the SidecarSet.
    pub name: &'a str,
    /// The image of the idle container, if the sidecar is a hot-upgrade pair.
    pub empty_image: Option<&'a str>,
    /// Its list, in the SidecarSet and in a Pod.
    pub list: List,
    /// Its position in the SidecarSet.
    pub index: usize,
    /// The container in the SidecarSet.
    pub container: &'a Value,
}

impl<'a> Sidecar<'a> {
    fn new(list: List, index: usize, container: &'a Value) -> Self {
        let empty = || json::text(container, &["upgradeStrategy", "hotUpgradeEmptyImage"]);
        Self { name: pod::name(container), empty_image: is_pair(container, list).then(empty), list, index, container }
    }

    /// Returns the names of the containers in a Pod: one, or both of a pair.
    pub fn containers(&self) -> Vec<String> {
        match self.empty_image {
            Some(_) => self.pair().to_vec(),
            None => vec![self.name.to_owned()],
        }
    }

    /// Returns the names of both containers of a pair.
    pub fn pair(&self) -> [String; 2] {
        halves(self.name)
    }
}

/// `updateStrategy`.
#[derive(Clone, Debug)]
pub struct Strategy<'a> {
    /// Whether running Pods are updated at all (`type: RollingUpdate`).
    pub is_rolling: bool,
    /// Whether the rollout is paused.
    pub is_paused: bool,
    /// Selects the Pods that are updated: all of them, or those of this selector.
    pub selected: Selected<'a>,
    /// `partition` and `maxUnavailable`.
    pub limits: Limits,
    /// `priorityStrategy`.
    pub priority: Priority<'a>,
    /// `scatterStrategy`.
    pub scatter: Vec<Term>,
    /// The fields that cannot be read. Admission refuses such a SidecarSet. With any of them, no Pod is upgraded.
    pub errors: Vec<FieldError>,
}

/// The Pods that a rollout selects.
#[derive(Clone, Debug)]
pub enum Selected<'a> {
    /// All Pods.
    All,
    /// The Pods with matching labels.
    Matching(Selector<'a>),
}

impl Selected<'_> {
    /// Whether a Pod with these labels is selected.
    pub fn has<'l>(&self, label: impl Fn(&str) -> Option<&'l str>) -> bool {
        match self {
            Self::All => true,
            Self::Matching(selector) => selector.matches(label),
        }
    }
}

impl<'a> Strategy<'a> {
    /// Reads the `updateStrategy` of a SidecarSet.
    pub fn from_sidecar_set(sidecar_set: &'a Value) -> Self {
        let mut errors = Vec::new();
        let path = FieldPath::new("spec.updateStrategy");
        let field = |key: &str| json::at(sidecar_set, &["spec", "updateStrategy", key]).filter(|it| !it.is_null());
        let mut amount = |key: &str, default: i64| match field(key).map(Amount::try_from) {
            Some(Ok(amount)) => amount,
            Some(Err(error)) => {
                let shown = field(key).map(Value::to_string).unwrap_or_default();
                errors.push(FieldError::invalid(path.child(key), shown, error.to_string()));
                Amount::Number(0)
            }
            None => Amount::Number(default),
        };
        let limits = Limits { partition: amount("partition", 0), max_unavailable: amount("maxUnavailable", 1) };
        let selected = match field("selector").map(Selector::parse) {
            None => Selected::All,
            Some(Ok(selector)) => Selected::Matching(selector),
            Some(Err(more)) => {
                errors.extend(more.into_iter().map(|error| error.below("spec.updateStrategy.selector")));
                Selected::All
            }
        };
        let priority = field("priorityStrategy").map_or_else(Priority::default, |strategy| {
            let (priority, more) = Priority::parse(strategy);
            errors.extend(more.into_iter().map(|error| error.below("spec.updateStrategy.priorityStrategy")));
            priority
        });
        let scatter = field("scatterStrategy").map_or_else(Vec::new, |strategy| {
            let terms = Term::all(strategy);
            for (index, _) in terms.iter().enumerate().filter(|(_, term)| term.key.is_empty()) {
                let term = path.item("scatterStrategy", index);
                errors.push(FieldError::required(term.child("key"), "name the label that spreads the Pods"));
            }
            terms
        });
        let type_ = json::text(sidecar_set, &["spec", "updateStrategy", "type"]);
        if !matches!(type_, "" | "RollingUpdate" | "NotUpdate") {
            errors.push(FieldError::not_supported(path.child("type"), type_, &["NotUpdate", "RollingUpdate"]));
        }
        Self {
            is_rolling: type_ != "NotUpdate",
            is_paused: json::flag(sidecar_set, &["spec", "updateStrategy", "paused"]),
            selected,
            limits,
            priority,
            scatter,
            errors,
        }
    }
}

impl<'a> RolloutTarget<'a> {
    /// Returns the target of a rollout. `version` is the version that new Pods get, with its defaults and hashes;
    /// `resource` is the SidecarSet in the cluster, whose `updateStrategy` counts.
    pub fn new(version: &'a SidecarSet, resource: &'a SidecarSet) -> Self {
        let sidecars = version.containers().iter().enumerate();
        let sidecars = sidecars.map(|(index, container)| Sidecar::new(List::Containers, index, container));
        Self {
            version,
            resource_version: json::text(resource.as_value(), &["metadata", "resourceVersion"]),
            sidecars: sidecars.collect(),
            strategy: Strategy::from_sidecar_set(resource.as_value()),
            upgrades: Upgrades::default(),
            native_sidecars: None,
            versions: Versions::default(),
            back_from: None,
            recreation: Recreation::default(),
            overrides: Rules::allowed_by(version),
            surroundings: Surroundings::default(),
        }
    }

    /// Adds what the states of Pods depend on besides themselves.
    #[must_use]
    pub fn within(self, surroundings: Surroundings) -> Self {
        Self { surroundings, ..self }
    }

    /// Whether so many seconds have passed since a time.
    pub(crate) fn has_passed(&self, since: Timestamp, seconds: i64) -> bool {
        self.surroundings.now.0.saturating_sub(since.0) >= seconds
    }

    /// Returns the target of the way back from a version with this hash that has failed (ROLL-62). Neither `partition`
    /// nor `selector` keeps a Pod on it.
    #[must_use]
    pub fn back_from(self, failed: &str) -> Self {
        let mut target = self;
        target.back_from = Some(failed.to_owned());
        target.strategy.limits.partition = Amount::Number(0);
        target.strategy.selected = Selected::All;
        target
    }

    /// Adds what the SidecarSet asks for beyond upgrades of images, and its stored revisions, ascending. A value that
    /// cannot be read stops the rollout, like one of the strategy.
    #[must_use]
    pub fn with_upgrades(
        self,
        (upgrades, errors): (Upgrades, Vec<FieldError>),
        revisions: impl IntoIterator<Item = &'a Revision>,
    ) -> Self {
        let mut target = self;
        target.strategy.errors.extend(errors);
        if upgrades.native {
            let natives = target.version.init_containers().iter().enumerate().filter(|(_, init)| is_native(init));
            target.sidecars.extend(natives.map(|(index, init)| Sidecar::new(List::Init, index, init)));
        }
        target.upgrades = upgrades;
        target.versions = Versions::new(target.version, revisions.into_iter().collect());
        target
    }

    /// Adds in which Pods new ones get the containers as native sidecars.
    #[must_use]
    pub fn with_native_sidecars(self, native_sidecars: NativeSidecars) -> Self {
        Self { native_sidecars: Some(native_sidecars), ..self }
    }

    /// Returns the name of the SidecarSet.
    pub fn name(&self) -> &'a str {
        self.version.name()
    }

    /// Returns the hash of the version.
    pub fn hash(&self) -> &'a str {
        self.version.hash()
    }

    /// Returns the hash of the version without its images.
    pub fn hash_without_image(&self) -> &'a str {
        self.version.annotation(names::HASH_WITHOUT_IMAGE)
    }

    /// Returns the hash in the record of a Pod about the SidecarSet; `""` if there is none.
    pub(crate) fn recorded_hash<'r>(&self, records: &'r Records) -> &'r str {
        records.get(self.name()).map(|record| record.hash.as_str()).unwrap_or_default()
    }

    /// Returns the hot-upgrade sidecars, each with its empty image.
    pub fn pairs(&self) -> impl Iterator<Item = (&Sidecar<'a>, &'a str)> {
        self.sidecars.iter().filter_map(|sidecar| Some((sidecar, sidecar.empty_image?)))
    }

    /// Returns the names of all containers in a Pod that belong to the SidecarSet.
    pub fn containers(&self) -> BTreeSet<String> {
        self.sidecars.iter().flat_map(Sidecar::containers).collect()
    }

    /// Returns the names of the sidecars as a Pod records them (INJ-28): native init containers and containers.
    pub fn recorded(&self) -> BTreeSet<&'a str> {
        let native = self.version.init_containers().iter().filter(|container| is_native(container)).map(pod::name);
        native.chain(self.sidecars.iter().map(|sidecar| sidecar.name)).collect()
    }
}
