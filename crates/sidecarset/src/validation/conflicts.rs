//! Detection of conflicts with other `SidecarSet`s (VAL-50 to VAL-55, DIFF-1, DIFF-5).

use std::borrow::Borrow;
use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};

use pillion_kubernetes::field::{FieldError, FieldErrors};
use pillion_kubernetes::json;
use pillion_kubernetes::node::Node;
use pillion_kubernetes::selector::{Possible, Selector};
use serde_json::Value;

use crate::made::{self, Made};
use crate::sidecar::List;
use crate::sidecar_set::SidecarSet;
use crate::tables::{self, Style};

const PATCHES: &str = "patchPodMetadata";

/// An index of the names that a `SidecarSet` uses in its Pods. The time to compare two sets is proportional to the
/// smaller one (E18).
pub struct Claims<'a> {
    /// The set.
    pub set: &'a SidecarSet,
    /// The names of containers in Pods, and those of hot-upgrade pairs in the set.
    containers: BTreeMap<String, Vec<Use<'a>>>,
    volumes: BTreeMap<&'a str, Vec<usize>>,
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
        self.read.get_or_init(|| self.by.map(|by| Possible::from_selector(&Selector::parse_known(by)))).as_ref()
    }
}

impl<'a> Reach<'a> {
    /// Returns the reach of a decoded `SidecarSet`.
    pub fn from_sidecar_set(set: &'a Value) -> Self {
        let selected = |key| Selected::new(json::at(set, &["spec", key]));
        Self { selector: selected("selector"), namespaces: selected("namespaceSelector") }
    }

    /// Returns an upper bound for the reach of a `SidecarSet` that is not decoded. `spec.namespace` of v1alpha1
    /// replaces the namespace selector, so a set with it is assumed to reach every namespace.
    pub fn at_most(set: &'a Value) -> Self {
        let reach = Self::from_sidecar_set(set);
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
    /// A container or an init container: a Pod has only one of the two of a name.
    Container,
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

/// The use of a container's name by a sidecar.
#[derive(Clone, Copy)]
struct Use<'a> {
    list: List,
    index: usize,
    /// The name in the set.
    written: &'a str,
    /// Whether Pods get a container of this name. Of a hot-upgrade pair, they get none of the name in the set.
    is_made: bool,
}

impl Use<'_> {
    /// Whether two sets must not use one name like this (VAL-52). OpenKruise compares the names in the sets, list by list;
    /// a Pod must not have two containers of one name in either list.
    fn clashes(&self, other: &Use<'_>) -> bool {
        self.list == other.list || (self.is_made && other.is_made)
    }

    /// Returns what is wrong if `other` uses the name in `set`, and what to do.
    fn problem(&self, name: &str, other: &Use<'_>, set: &SidecarSet) -> String {
        let is_half = |user: &Use<'_>| user.is_made && user.written != name;
        let (own, which) = if is_half(self) {
            (format!("HotUpgrade makes \"{name}\" of it, and "), "that")
        } else {
            (String::new(), "this")
        };
        let (has, by) = if is_half(other) { ("makes", " by HotUpgrade") } else { ("has", "") };
        // An update cannot rename a container (VAL-30).
        let remedy =
            if self.list == other.list { made::REMEDY } else { "rename the init container or change a selector" };
        let wrong = format!("{has} {} of {which} name{by} for the same Pods; {remedy}", other.list.noun());
        own + &about(set, &wrong)
    }
}

impl<'a> Claims<'a> {
    /// Returns the index of `set`.
    pub fn from_sidecar_set(set: &'a SidecarSet) -> Self {
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
            containers: uses(set),
            volumes: by_name(set.volumes()),
            patches,
            reach: Reach::from_sidecar_set(set.as_value()),
        }
    }

    /// Returns all names that can cause a conflict with another set. Callers compare only sets that share a name,
    /// because a thousand sets have half a million pairs.
    pub fn names(&self) -> impl Iterator<Item = (Kind, &str)> {
        let containers = self.containers.keys().map(|name| (Kind::Container, name.as_str()));
        let volumes = self.volumes.keys().map(|name| (Kind::Volume, *name));
        let annotations = self.patches.keys().map(|name| (Kind::Annotation, *name));
        containers.chain(volumes).chain(annotations)
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
        self.check_containers(other, &spec, &mut found);
        let wrong = about(other.set, "has another volume of this name for the same Pods");
        for name in shared(&self.volumes, &other.volumes) {
            let own = self.volumes.get(name).into_iter().flatten();
            for index in own.filter(|index| self.differs(name, **index, other)) {
                found.invalid(&spec.place.item("volumes", *index), name, &wrong);
            }
        }
        self.check_annotations(other, &spec, &mut found);
        // Comparing the selectors is expensive, so it comes last.
        if !found.is_empty() && self.may_meet(other) {
            errors.append(&mut found);
        }
    }

    /// Returns the name of a container that a Pod would get of both sets. Such a Pod is refused (DIFF-4).
    pub fn shared_container<'n>(&'n self, other: &'n Claims<'_>) -> Option<&'n str> {
        if are_related(self.set, other.set) {
            return None;
        }
        let is_made = |uses: &[Use<'_>]| uses.iter().any(|user| user.is_made);
        let mut names = shared(&self.containers, &other.containers).into_iter();
        let name = names.find(|name| {
            let both = [self.containers.get(*name), other.containers.get(*name)];
            both.into_iter().flatten().all(|uses| is_made(uses))
        })?;
        self.may_meet(other).then_some(name)
    }

    /// Adds an error for each sidecar with a name that a sidecar of the other set has.
    fn check_containers(&self, other: &Claims<'_>, spec: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
        let mut clashes = BTreeMap::new();
        for name in shared(&self.containers, &other.containers) {
            let theirs = other.containers.get(name).map_or(&[][..], Vec::as_slice);
            for own in self.containers.get(name).into_iter().flatten() {
                if let Some(theirs) = theirs.iter().find(|theirs| own.clashes(theirs)) {
                    clashes.entry((own.list, own.index)).or_insert((name, own, theirs));
                }
            }
        }
        for ((list, index), (name, own, theirs)) in clashes {
            let problem = own.problem(name, theirs, other.set);
            errors.invalid(&spec.place.item(list.key(), index).child("name"), own.written, &problem);
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

fn by_name(items: &[Value]) -> BTreeMap<&str, Vec<usize>> {
    let mut names: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (index, item) in items.iter().enumerate() {
        names.entry(json::text(item, &["name"])).or_default().push(index);
    }
    names
}

/// Returns the names of the containers that Pods get of a set, and those of its hot-upgrade pairs.
fn uses(set: &SidecarSet) -> BTreeMap<String, Vec<Use<'_>>> {
    let mut names: BTreeMap<String, Vec<Use<'_>>> = BTreeMap::new();
    for container in made::containers(set) {
        let (written, is_half) = (container.written(), container.is_half());
        let Made { name, list, index, .. } = container;
        names.entry(name).or_default().push(Use { list, index, written, is_made: true });
        if is_half {
            let pairs = names.entry(written.to_owned()).or_default();
            // The two halves of a pair have one name in the set.
            if !pairs.iter().any(|pair| (pair.list, pair.index) == (list, index)) {
                pairs.push(Use { list, index, written, is_made: false });
            }
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

/// Compares `set` with another `SidecarSet` that may be injected into the same Pod. Their containers and init containers,
/// as Pods get them, and their volumes must not share a name, except equal volumes. Neither set may overwrite an annotation of the other.
///
/// A canary is never compared with its base (DIFF-1), but two canaries of one base are compared.
pub fn check(set: &SidecarSet, other: &SidecarSet, errors: &mut Vec<FieldError>) {
    Claims::from_sidecar_set(set).check(&Claims::from_sidecar_set(other), errors);
}

/// Whether the two sets are never injected into the same Pod: they have the same name, or one is a canary of the other.
pub fn are_related(set: &SidecarSet, other: &SidecarSet) -> bool {
    other.name() == set.name() || set.canary_of() == Some(other.name()) || other.canary_of() == Some(set.name())
}

/// Whether both can select the same Pod in some namespace.
pub fn may_meet(set: &SidecarSet, other: &SidecarSet) -> bool {
    Claims::from_sidecar_set(set).may_meet(&Claims::from_sidecar_set(other))
}

fn about(other: &SidecarSet, wrong: &str) -> String {
    format!("SidecarSet \"{}\" {wrong}", other.name())
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
