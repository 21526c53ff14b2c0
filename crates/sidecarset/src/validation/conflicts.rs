//! Conflicts with other `SidecarSet`s (V-50 to V-55, Q-1, Q-5).

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};

use pillion_kubernetes::field::{FieldError, FieldErrors};
use pillion_kubernetes::json;
use pillion_kubernetes::node::Node;
use pillion_kubernetes::selector::{Possible, Selector};
use serde_json::Value;

use crate::schema::{self, Style};
use crate::sidecar_set::SidecarSet;

const PATCHES: &str = "patchPodMetadata";

/// What a `SidecarSet` wants of its Pods, indexed: a comparison of two takes as long as the smaller is
/// (`serviceaccounts.md` E18).
pub struct Claims<'a> {
    /// The set.
    pub set: &'a SidecarSet,
    containers: BTreeMap<&'a str, Vec<usize>>,
    init_containers: BTreeMap<&'a str, Vec<usize>>,
    volumes: BTreeMap<&'a str, Vec<usize>>,
    patches: BTreeMap<&'a str, Patches<'a>>,
    reach: Reach<'a>,
}

/// Which Pods a `SidecarSet` selects. Its selectors are read when they are asked for.
#[derive(Debug)]
pub struct Reach<'a> {
    selector: Selected<'a>,
    namespaces: Selected<'a>,
}

/// A selector, and the labels that it may select.
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
    /// What a decoded `SidecarSet` selects.
    pub fn of(set: &'a Value) -> Self {
        let selected = |key| Selected::new(json::at(set, &["spec", key]));
        Self { selector: selected("selector"), namespaces: selected("namespaceSelector") }
    }

    /// What a `SidecarSet` selects at most that was not decoded. In v1alpha1 `spec.namespace` stands in for a selector of
    /// namespaces.
    pub fn at_most(set: &'a Value) -> Self {
        let reach = Self::of(set);
        let has_namespace = json::at(set, &["spec", "namespace"]).is_some_and(|namespace| !namespace.is_null());
        if has_namespace { Self { namespaces: Selected::new(None), ..reach } } else { reach }
    }

    /// Whether some Pod in some namespace is selected by both.
    pub fn may_meet(&self, other: &Reach<'_>) -> bool {
        // No namespace selector means every namespace; no selector means no Pod.
        self.namespaces.possible().zip(other.namespaces.possible()).is_none_or(|(own, theirs)| own.overlaps(theirs))
            && self.selector.possible().zip(other.selector.possible()).is_some_and(|(own, theirs)| own.overlaps(theirs))
    }
}

/// The kind of a name over which two `SidecarSet`s can be in conflict.
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

/// What a `SidecarSet` does with one annotation.
#[derive(Default)]
struct Patches<'a> {
    /// The entries of `patchPodMetadata` that write it, and their policies.
    entries: Vec<(usize, &'a str)>,
    /// Whether one of them replaces what a Pod has.
    overwrites: bool,
    /// Whether one of them changes what a Pod has.
    changes: bool,
}

impl<'a> Claims<'a> {
    /// What `set` wants.
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
            containers: by_name(set.containers()),
            init_containers: by_name(set.init_containers()),
            volumes: by_name(set.volumes()),
            patches,
            reach: Reach::of(set.as_value()),
        }
    }

    /// Everything over which it can be in conflict with another. Only sets that share one of these are compared: of a
    /// thousand sets there are half a million pairs.
    pub fn names(&self) -> impl Iterator<Item = (Kind, &'a str)> {
        let containers = self.containers.keys().map(|name| (Kind::Container, *name));
        let init_containers = self.init_containers.keys().map(|name| (Kind::InitContainer, *name));
        let volumes = self.volumes.keys().map(|name| (Kind::Volume, *name));
        let annotations = self.patches.keys().map(|name| (Kind::Annotation, *name));
        containers.chain(init_containers).chain(volumes).chain(annotations)
    }

    /// The labels of its Pods; `None` where it has no selector.
    pub fn selector(&self) -> Option<&Possible<'a>> {
        self.reach.selector.possible()
    }

    /// The labels of its namespaces; `None` where it is every namespace.
    pub fn namespaces(&self) -> Option<&Possible<'a>> {
        self.reach.namespaces.possible()
    }

    /// Whether some Pod in some namespace is selected by both.
    pub fn may_meet(&self, other: &Claims<'_>) -> bool {
        self.reach.may_meet(&other.reach)
    }

    /// [`check`].
    pub fn check(&self, other: &Claims<'_>, errors: &mut Vec<FieldError>) {
        if are_related(self.set, other.set) {
            return;
        }
        let mut found = Vec::new();
        let object = Node::root(self.set.as_value());
        let spec = object.part("spec");
        for (list, own, theirs) in [
            ("initContainers", &self.init_containers, &other.init_containers),
            ("containers", &self.containers, &other.containers),
        ] {
            let wrong = about(other.set, "has a container of this name for the same Pods");
            for (name, index) in common(own, theirs) {
                found.invalid(&spec.place.item(list, index).child("name"), name, &wrong);
            }
        }
        let wrong = about(other.set, "has another volume of this name for the same Pods");
        for (name, index) in common(&self.volumes, &other.volumes) {
            if self.differs(name, index, other) {
                found.invalid(&spec.place.item("volumes", index), name, &wrong);
            }
        }
        self.check_annotations(other, &spec, &mut found);
        // Whether they can meet is the dear question.
        if !found.is_empty() && self.may_meet(other) {
            errors.append(&mut found);
        }
    }

    /// Whether a volume is another than the first of this name in `other`.
    fn differs(&self, name: &str, index: usize, other: &Claims<'_>) -> bool {
        let theirs = other.volumes.get(name).and_then(|indices| other.set.volumes().get(*indices.first()?));
        self.set.volumes().get(index).zip(theirs).is_some_and(|(own, theirs)| canonical(own) != canonical(theirs))
    }

    fn check_annotations(&self, other: &Claims<'_>, spec: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
        let wrong = about(other.set, "patches this annotation of the same Pods");
        let mut clashes = BTreeSet::new();
        for key in shared(&self.patches, &other.patches) {
            let Some((own, theirs)) = self.patches.get(key).zip(other.patches.get(key)) else { continue };
            // Both change what a Pod has, and one replaces it.
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

fn by_name(items: &[Value]) -> BTreeMap<&str, Vec<usize>> {
    let mut names: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (index, item) in items.iter().enumerate() {
        names.entry(json::text(item, &["name"])).or_default().push(index);
    }
    names
}

/// The keys of both maps, looked up for those of the smaller one.
fn shared<'k, T, U>(own: &BTreeMap<&'k str, T>, theirs: &BTreeMap<&str, U>) -> Vec<&'k str> {
    if own.len() <= theirs.len() {
        return own.keys().copied().filter(|key| theirs.contains_key::<str>(key)).collect();
    }
    theirs.keys().filter_map(|key| own.get_key_value::<str>(key)).map(|(key, _)| *key).collect()
}

/// Names that both have, each with the index in the first list, in its order.
fn common<'k>(own: &BTreeMap<&'k str, Vec<usize>>, theirs: &BTreeMap<&str, Vec<usize>>) -> Vec<(&'k str, usize)> {
    let mut found = Vec::new();
    for name in shared(own, theirs) {
        found.extend(own.get(name).into_iter().flatten().map(|index| (name, *index)));
    }
    found.sort_by_key(|(_, index)| *index);
    found
}

/// Compares `set` with another `SidecarSet` that could be injected into the same Pod: containers, init containers and
/// volumes must not share a name (equal volumes may), and neither side may overwrite an annotation of the other.
///
/// A canary and its base are never compared; two canaries of one base are.
pub fn check(set: &SidecarSet, other: &SidecarSet, errors: &mut Vec<FieldError>) {
    Claims::of(set).check(&Claims::of(other), errors);
}

/// Whether the two are never in one Pod: one is the other, or its canary.
pub fn are_related(set: &SidecarSet, other: &SidecarSet) -> bool {
    other.name() == set.name() || set.canary_of() == Some(other.name()) || other.canary_of() == Some(set.name())
}

/// Whether some Pod in some namespace is selected by both.
pub fn may_meet(set: &SidecarSet, other: &SidecarSet) -> bool {
    Claims::of(set).may_meet(&Claims::of(other))
}

fn about(other: &SidecarSet, wrong: &str) -> String {
    ["SidecarSet \"", other.name(), "\" ", wrong].concat()
}

/// The text that says what a volume is, however it is written: order of keys, zero values, units.
fn canonical(volume: &Value) -> String {
    let mut text = String::new();
    schema::write_objects(&mut text, Some(&Value::Array(vec![volume.clone()])), &schema::VOLUME, Style::Declared);
    text
}
