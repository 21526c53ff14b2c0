//! Detection of conflicts with other `SidecarSet`s (VAL-50 to VAL-55, DIFF-1, DIFF-5).

use std::borrow::{Borrow, Cow};
use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};

use pillion_kubernetes::field::{FieldError, FieldErrors};
use pillion_kubernetes::json;
use pillion_kubernetes::node::Node;
use pillion_kubernetes::selector::{Possible, Selector};
use serde_json::Value;

use crate::sidecar;
use crate::sidecar_set::SidecarSet;
use crate::tables::{self, Style};

const PATCHES: &str = "patchPodMetadata";

/// An index of the names that a `SidecarSet` uses in its Pods. The time to compare two sets is proportional to the
/// smaller one (E18).
pub struct Claims<'a> {
    /// The set.
    pub set: &'a SidecarSet,
    /// The names in the set, and those that its hot-upgrade pairs have in a Pod.
    containers: BTreeMap<Cow<'a, str>, Vec<usize>>,
    init_containers: BTreeMap<Cow<'a, str>, Vec<usize>>,
    volumes: BTreeMap<Cow<'a, str>, Vec<usize>>,
    patches: BTreeMap<&'a str, Patches<'a>>,
    reach: Reach<'a>,
}

/// The Pods that a `SidecarSet` selects. The selectors are parsed on first use.
#[derive(Debug)]
pub struct Reach<'a> {
    selector: Selected<'a>,
    namespaces: Selected<'a>,
}

/// A selector and the labels that it can select.
#[derive(Debug)]
struct Selected<'a> {
    by: Option<&'a Value>,
    read: OnceCell<Option<Possible<'a>>>,
}

impl<'a> Selected<'a> {
    const fn new(by: Option<&'a Value>) -> Self {
        Self { by, read: OnceCell::new() }
    }

    fn possible(&self) -> Option<&Possible<'a>> {
        self.read.get_or_init(|| self.by.map(|by| Possible::of(&Selector::parse_known(by)))).as_ref()
    }
}

impl<'a> Reach<'a> {
    /// Returns the reach of a decoded `SidecarSet`.
    pub fn of(set: &'a Value) -> Self {
        let selected = |key| Selected::new(json::at(set, &["spec", key]));
        Self { selector: selected("selector"), namespaces: selected("namespaceSelector") }
    }

    /// Returns an upper bound for the reach of a `SidecarSet` that is not decoded. `spec.namespace` of v1alpha1
    /// replaces the namespace selector, so a set with it is assumed to reach every namespace.
    pub fn at_most(set: &'a Value) -> Self {
        let reach = Self::of(set);
        let has_namespace = json::at(set, &["spec", "namespace"]).is_some_and(|namespace| !namespace.is_null());
        if has_namespace { Self { namespaces: Selected::new(None), ..reach } } else { reach }
    }

    /// Whether both can select the same Pod in some namespace.
    pub fn may_meet(&self, other: &Reach<'_>) -> bool {
        // Without a namespace selector a set selects every namespace; without a Pod selector it selects no Pod.
        self.namespaces.possible().zip(other.namespaces.possible()).is_none_or(|(own, theirs)| own.overlaps(theirs))
            && self.selector.possible().zip(other.selector.possible()).is_some_and(|(own, theirs)| own.overlaps(theirs))
    }
}

/// The kind of a name that can cause a conflict of two `SidecarSet`s.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A container.
    Container,
    /// An init container.
    InitContainer,
    /// A volume.
    Volume,
    /// An annotation that `patchPodMetadata` writes.
    Annotation,
}

/// The changes of a `SidecarSet` to one annotation.
#[derive(Default)]
struct Patches<'a> {
    /// The indices of the entries of `patchPodMetadata` that write the annotation, with their policies.
    entries: Vec<(usize, &'a str)>,
    /// Whether one of them replaces an existing value.
    overwrites: bool,
    /// Whether one of them changes an existing value.
    changes: bool,
}

impl<'a> Claims<'a> {
    /// Returns the index of `set`.
    pub fn of(set: &'a SidecarSet) -> Self {
        let mut patches: BTreeMap<&'a str, Patches<'a>> = BTreeMap::new();
        for (index, patch) in json::items(set.as_value(), &["spec", PATCHES]).iter().enumerate() {
            let policy = json::text(patch, &["patchPolicy"]);
            for (key, _) in json::object(patch, &["annotations"]).into_iter().flatten() {
                let patches = patches.entry(key).or_default();
                patches.entries.push((index, policy));
                patches.overwrites |= policy == "Overwrite";
                patches.changes |= policy != "Retain";
            }
        }
        Self {
            set,
            containers: with_halves(set.containers(), false),
            init_containers: with_halves(set.init_containers(), true),
            volumes: by_name(set.volumes()),
            patches,
            reach: Reach::of(set.as_value()),
        }
    }

    /// Returns all names that can cause a conflict with another set. Callers compare only sets that share a name,
    /// because a thousand sets have half a million pairs.
    pub fn names(&self) -> impl Iterator<Item = (Kind, &str)> {
        let containers = self.containers.keys().map(|name| (Kind::Container, &**name));
        let init_containers = self.init_containers.keys().map(|name| (Kind::InitContainer, &**name));
        let volumes = self.volumes.keys().map(|name| (Kind::Volume, &**name));
        let annotations = self.patches.keys().map(|name| (Kind::Annotation, *name));
        containers.chain(init_containers).chain(volumes).chain(annotations)
    }

    /// Returns the labels of the selected Pods, or `None` if there is no selector.
    pub fn selector(&self) -> Option<&Possible<'a>> {
        self.reach.selector.possible()
    }

    /// Returns the labels of the selected namespaces, or `None` if every namespace is selected.
    pub fn namespaces(&self) -> Option<&Possible<'a>> {
        self.reach.namespaces.possible()
    }

    /// Whether both can select the same Pod in some namespace.
    pub fn may_meet(&self, other: &Claims<'_>) -> bool {
        self.reach.may_meet(&other.reach)
    }

    /// See [`check`].
    pub fn check(&self, other: &Claims<'_>, errors: &mut Vec<FieldError>) {
        if are_related(self.set, other.set) {
            return;
        }
        let mut found = Vec::new();
        let object = Node::root(self.set.as_value());
        let spec = object.part("spec");
        let wrong = about(other.set, "has a container of this name for the same Pods");
        for (list, own, theirs) in [
            ("initContainers", &self.init_containers, &other.init_containers),
            ("containers", &self.containers, &other.containers),
        ] {
            for (index, name) in common(own, theirs) {
                let written = spec.list(list).get(index).map_or(name, |own| json::text(own, &["name"]));
                let made = (written != name).then(|| [&wrong, "; HotUpgrade makes \"", name, "\" of it"].concat());
                let wrong = made.as_ref().unwrap_or(&wrong);
                found.invalid(&spec.place.item(list, index).child("name"), written, wrong);
            }
        }
        let wrong = about(other.set, "has another volume of this name for the same Pods");
        for (index, name) in common(&self.volumes, &other.volumes) {
            if self.differs(name, index, other) {
                found.invalid(&spec.place.item("volumes", index), name, &wrong);
            }
        }
        self.check_annotations(other, &spec, &mut found);
        // Comparing the selectors is expensive, so it comes last.
        if !found.is_empty() && self.may_meet(other) {
            errors.append(&mut found);
        }
    }

    /// Whether a volume differs from the first volume of this name in `other`.
    fn differs(&self, name: &str, index: usize, other: &Claims<'_>) -> bool {
        let theirs = other.volumes.get(name).and_then(|indices| other.set.volumes().get(*indices.first()?));
        self.set.volumes().get(index).zip(theirs).is_some_and(|(own, theirs)| !is_same_volume(own, theirs))
    }

    fn check_annotations(&self, other: &Claims<'_>, spec: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
        let wrong = about(other.set, "patches this annotation of the same Pods");
        let mut clashes = BTreeSet::new();
        for key in shared(&self.patches, &other.patches) {
            let Some((own, theirs)) = self.patches.get(key).zip(other.patches.get(key)) else { continue };
            // Both change an existing value, and one of them replaces it.
            let clash =
                |policy: &str| policy != "Retain" && (theirs.overwrites || (theirs.changes && policy == "Overwrite"));
            clashes.extend(own.entries.iter().filter(|(_, policy)| clash(policy)).map(|(index, _)| (*index, key)));
        }
        for (index, key) in clashes {
            let entry = spec.place.item(PATCHES, index);
            errors.invalid(&entry.child("annotations").key(key), key, &wrong);
        }
    }
}

fn by_name(items: &[Value]) -> BTreeMap<Cow<'_, str>, Vec<usize>> {
    let mut names: BTreeMap<Cow<'_, str>, Vec<usize>> = BTreeMap::new();
    for (index, item) in items.iter().enumerate() {
        names.entry(json::text(item, &["name"]).into()).or_default().push(index);
    }
    names
}

/// Returns the names of the containers in the set, and of those that Pods get of its hot-upgrade pairs (INJ-21).
fn with_halves(sidecars: &[Value], is_init: bool) -> BTreeMap<Cow<'_, str>, Vec<usize>> {
    let mut names = by_name(sidecars);
    for (index, sidecar) in sidecars.iter().enumerate().filter(|(_, sidecar)| sidecar::is_pair(sidecar, is_init)) {
        for half in sidecar::halves(json::text(sidecar, &["name"])) {
            names.entry(half.into()).or_default().push(index);
        }
    }
    names
}

/// Returns the keys that are in both maps. Looks the keys of the smaller map up in the larger one.
fn shared<'k, K: Borrow<str> + Ord, T, U>(own: &'k BTreeMap<K, T>, theirs: &'k BTreeMap<K, U>) -> Vec<&'k str> {
    if own.len() <= theirs.len() {
        return own.keys().map(Borrow::borrow).filter(|key| theirs.contains_key::<str>(key)).collect();
    }
    theirs.keys().filter_map(|key| own.get_key_value::<str>(key.borrow())).map(|(key, _)| key.borrow()).collect()
}

/// Returns the common names by their index in the first list: of one item, the first.
fn common<'k>(
    own: &'k BTreeMap<Cow<'_, str>, Vec<usize>>,
    theirs: &'k BTreeMap<Cow<'_, str>, Vec<usize>>,
) -> BTreeMap<usize, &'k str> {
    let mut found = BTreeMap::new();
    for name in shared(own, theirs) {
        for index in own.get(name).into_iter().flatten() {
            found.entry(*index).or_insert(name);
        }
    }
    found
}

/// Compares `set` with another `SidecarSet` that may be injected into the same Pod. Containers, init containers and
/// volumes must not share a name, except equal volumes. Neither set may overwrite an annotation of the other.
///
/// A canary is never compared with its base (DIFF-1), but two canaries of one base are compared.
pub fn check(set: &SidecarSet, other: &SidecarSet, errors: &mut Vec<FieldError>) {
    Claims::of(set).check(&Claims::of(other), errors);
}

/// Whether the two sets are never injected into the same Pod: they have the same name, or one is a canary of the other.
pub fn are_related(set: &SidecarSet, other: &SidecarSet) -> bool {
    other.name() == set.name() || set.canary_of() == Some(other.name()) || other.canary_of() == Some(set.name())
}

/// Whether both can select the same Pod in some namespace.
pub fn may_meet(set: &SidecarSet, other: &SidecarSet) -> bool {
    Claims::of(set).may_meet(&Claims::of(other))
}

fn about(other: &SidecarSet, wrong: &str) -> String {
    ["SidecarSet \"", other.name(), "\" ", wrong].concat()
}

/// Whether two definitions of a volume are the same, whatever their order of keys, explicit zero values, and units.
pub fn is_same_volume(one: &Value, other: &Value) -> bool {
    one == other || canonical(one) == canonical(other)
}

/// Returns a text that is equal for equal volumes, whatever their order of keys, explicit zero values, and units.
fn canonical(volume: &Value) -> String {
    let mut text = String::new();
    tables::write_objects(&mut text, Some(&Value::Array(vec![volume.clone()])), &tables::VOLUME, Style::Declared);
    text
}
