//! The existing and the wanted merged objects.

use std::sync::Arc;

use pillion_identity::decision::Asking;
use pillion_identity::{merged, names};
use pillion_kubernetes::json;
use pillion_kubernetes::lookup::ObjectRef;
use pillion_kubernetes::time::Timestamp;
use serde_json::{Value, json};

use crate::Step;

/// A kind of merged objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MergedKind {
    /// `apiVersion`.
    pub api_version: &'static str,
    /// `kind`.
    pub kind: &'static str,
}

/// The kinds of merged objects, in their order of creation (MRG-4).
pub const KINDS: [MergedKind; 3] = [
    MergedKind { api_version: "v1", kind: "ServiceAccount" },
    MergedKind { api_version: "rbac.authorization.k8s.io/v1", kind: "Role" },
    MergedKind { api_version: "rbac.authorization.k8s.io/v1", kind: "RoleBinding" },
];
/// The label that selects merged objects for a watch.
pub const LABEL: &str = "app.kubernetes.io/managed-by";
/// The value of [`LABEL`].
pub const MANAGED_BY: &str = "pillion";

/// The ServiceAccount, the Role and the RoleBinding of one name; `None` if missing.
pub type Trio = [Option<Arc<Value>>; 3];

/// The state of one merged object.
#[derive(Clone, Copy)]
pub(super) enum ObjectState<'a> {
    Missing,
    /// The object is being deleted.
    Going(&'a Value),
    There(&'a Value),
}

/// The existing objects of one name.
pub(super) struct Found<'a> {
    name: &'a str,
    sets: &'a [String],
    trio: &'a Trio,
}

impl<'a> Found<'a> {
    pub(super) fn new(name: &'a str, sets: &'a [String], trio: &'a Trio) -> Self {
        Self { name, sets, trio }
    }

    /// Returns the kinds of the existing objects that stand for something else (MRG-2).
    pub(super) fn foreign(&self) -> Vec<&'static str> {
        let is_foreign = |object: &Value| !is_ours(object) || sets_of(object) != self.sets || !self.refers(object);
        let foreign = self.trio.iter().zip(KINDS).filter(|(object, _)| object.as_deref().is_some_and(is_foreign));
        foreign.map(|(_, of)| of.kind).collect()
    }

    /// Whether a RoleBinding refers to the Role of this name; true for other kinds. The `roleRef` of a binding cannot
    /// be changed.
    fn refers(&self, object: &Value) -> bool {
        let role = |key| json::text(object, &["roleRef", key]);
        json::text(object, &["kind"]) != "RoleBinding" || (role("kind") == "Role" && role("name") == self.name)
    }

    pub(super) fn states(&self) -> impl Iterator<Item = ObjectState<'a>> {
        self.trio.iter().map(|object| match object.as_deref() {
            None => ObjectState::Missing,
            Some(object) if json::is_terminating(object) => ObjectState::Going(object),
            Some(object) => ObjectState::There(object),
        })
    }

    pub(super) fn objects(&self) -> impl Iterator<Item = &'a Value> {
        self.trio.iter().filter_map(Option::as_deref)
    }
}

/// Returns the SidecarSets that an object stands for, from its annotation.
pub(super) fn sets_of(object: &Value) -> Vec<String> {
    let annotation = json::text(object, &["metadata", "annotations", names::SIDECAR_SETS]);
    annotation.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// Whether Pillion made an object: its name is the one derived from the SidecarSets in its annotation (MRG-1, MRG-2).
pub fn is_ours(object: &Value) -> bool {
    let sets = sets_of(object);
    let sets: Vec<&str> = sets.iter().map(String::as_str).collect();
    sets.len() > 1
        && json::text(object, &["metadata", "name"]) == names::merged(&sets)
        && json::text(object, &["metadata", "annotations", names::SIDECAR_SETS]) == names::merged_annotation(&sets)
}

/// Returns the three objects in their wanted state.
pub(super) fn wanted(merging: &[&Asking], namespace: &str) -> [Value; 3] {
    let mut objects = merged::objects(merging, namespace);
    for object in &mut objects {
        if let Some(metadata) = object.as_object_mut().and_then(|object| json::object_mut(object, "metadata")) {
            metadata.insert("labels".to_owned(), json!({LABEL: MANAGED_BY}));
        }
    }
    objects
}

/// Returns the time since which all of the objects are marked (MRG-11); `None` if a mark is missing or is not a time.
pub(super) fn marked_since(objects: &[&Value]) -> Option<Timestamp> {
    let times: Option<Vec<Timestamp>> = objects.iter().map(|object| Timestamp::parse(mark(object))).collect();
    times?.into_iter().max()
}

pub(super) fn mark(object: &Value) -> &str {
    json::text(object, &["metadata", "annotations", names::GC_PENDING])
}

/// Returns the finalizers of an object: those of SidecarSets, then the others.
pub(super) fn finalizers(object: &Value) -> (Vec<&str>, Vec<&str>) {
    let all = json::texts(object, &["metadata", "finalizers"]);
    all.into_iter().partition(|finalizer| finalizer.starts_with(names::FINALIZER_PREFIX))
}

/// Returns the step that removes the finalizers of SidecarSets from an object (MRG-8, MRG-9); `None` if it has none.
pub fn without_finalizers(object: &Value) -> Option<Step> {
    let (own, others) = finalizers(object);
    if own.is_empty() {
        return None;
    }
    Some(patch(object, &json!({"metadata": {"finalizers": others}})))
}

/// Returns the step that patches an object, if it has not changed since it was observed.
pub(super) fn patch(object: &Value, patch: &Value) -> Step {
    let text = |key| json::text(object, &["metadata", key]).to_owned();
    Step::Patch {
        object: object_ref(object),
        uid: text("uid"),
        resource_version: Some(text("resourceVersion")),
        patch: patch.clone(),
    }
}

/// Returns the reference to an object.
pub(super) fn object_ref(object: &Value) -> ObjectRef {
    let text = |path: &[&str]| json::text(object, path);
    let kind = text(&["kind"]);
    let MergedKind { api_version, kind } = KINDS.into_iter().find(|known| known.kind == kind).unwrap_or_default();
    ObjectRef {
        api_version,
        kind,
        namespace: Some(text(&["metadata", "namespace"]).to_owned()),
        name: text(&["metadata", "name"]).to_owned(),
    }
}
