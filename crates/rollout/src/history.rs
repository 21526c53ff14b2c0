//! The history of a SidecarSet: ControllerRevisions in the system namespace (docs/spec/revisions.md).

use std::cmp::Ordering;
use std::collections::BTreeSet;

use pillion_json::go as go_json;
use pillion_kubernetes::json;
use pillion_kubernetes::lookup::ObjectRef;
use pillion_kubernetes::time::Timestamp;
use pillion_plan::Step;
use pillion_plan::failure::{self, FAILED, Failed};
use pillion_sidecarset::controller_revision::ControllerRevision;
use pillion_sidecarset::hash::{revision_data, revision_name};
use pillion_sidecarset::names;
use pillion_sidecarset::requested_revision::RequestedRevision;
use pillion_sidecarset::sidecar_set::SidecarSet;
use serde_json::{Value, json};

/// The label with the hash in the name of a revision (REV-3).
const HASH_LABEL: &str = "controller.kubernetes.io/hash";
/// The annotation of a revision that was used again: since when it is in force, and the number that it got then, as
/// `<time>;revision=<number>` (ROLL-68).
pub const EFFECTIVE_SINCE: &str = "pillion.dev/effective-since";
/// The number of revisions that are kept if `revisionHistoryLimit` is absent (REV-7).
const LIMIT: i64 = 10;

/// A stored revision of a SidecarSet.
#[derive(Clone, Debug, PartialEq)]
pub struct Revision {
    /// The revision without its data.
    pub head: ControllerRevision,
    /// The data as JSON text, keys sorted, as it is stored (REV-2).
    pub data: String,
}

impl Revision {
    /// Returns a stored revision with its data.
    pub fn from_controller_revision(revision: &ControllerRevision) -> Self {
        let data = revision.data().map(go_json::to_string_sorted).unwrap_or_default();
        let mut head = revision.as_value().clone();
        if let Some(head) = head.as_object_mut() {
            head.remove("data");
        }
        Self { head: ControllerRevision::from_decoded(head), data }
    }

    /// Returns `metadata.name`.
    pub fn name(&self) -> &str {
        self.head.name()
    }

    /// Whether the revision belongs to the SidecarSet with this UID: its owner is that one, or it has none (REV-1).
    pub fn is_of(&self, uid: &str) -> bool {
        let mut owners = json::items(self.head.as_value(), &["metadata", "ownerReferences"]).iter();
        owners.find(|owner| json::flag(owner, &["controller"])).is_none_or(|owner| json::text(owner, &["uid"]) == uid)
    }

    /// Returns since when the revision is in force; `None` if that is not known. `all` are the revisions of the SidecarSet,
    /// and this one is the newest of them (ROLL-68).
    ///
    /// A revision that was never used again is in force since it was created, and each other revision is older. For one
    /// that was used again, the annotation tells the time, if it is about the number that the revision has.
    pub fn in_force_since<'a>(&self, all: impl IntoIterator<Item = &'a Self>) -> Option<Timestamp> {
        let created = Timestamp::parse(self.created());
        let noted = self.head.annotation(EFFECTIVE_SINCE).split_once(";revision=").and_then(|(time, number)| {
            let is_current = number.parse() == Ok(self.head.revision());
            Timestamp::parse(time).filter(|_| is_current)
        });
        let is_last = all.into_iter().all(|other| Timestamp::parse(other.created()) <= created);
        noted.or_else(|| created.filter(|_| is_last))
    }

    /// Returns the step that notes since when the revision is in force.
    pub fn note_in_force(&self, since: Timestamp) -> Step {
        self.annotate(EFFECTIVE_SINCE, Some(&effective_since(since, self.head.revision())))
    }

    /// Returns the step that writes an annotation, or removes it. The revision must not have changed since it was read.
    pub fn annotate(&self, key: &str, value: Option<&str>) -> Step {
        self.patch(json!({"metadata": {"annotations": {key: value}}}))
    }

    fn created(&self) -> &str {
        json::text(self.head.as_value(), &["metadata", "creationTimestamp"])
    }

    fn order(&self, other: &Self) -> Ordering {
        let key =
            |revision: &Self| (revision.head.revision(), revision.created().to_owned(), revision.name().to_owned());
        key(self).cmp(&key(other))
    }

    fn patch(&self, patch: Value) -> Step {
        let text = |key: &str| json::text(self.head.as_value(), &["metadata", key]).to_owned();
        Step::Patch {
            object: self.reference(),
            uid: text("uid"),
            resource_version: Some(text("resourceVersion")),
            patch,
        }
    }

    /// Returns the step that gives the revision the next number. It is tried again, so the record of a failed rollout goes
    /// (ROLL-61). With `since`, the step notes since when the revision is in force (ROLL-68).
    fn again(&self, number: i64, since: Option<Timestamp>) -> Step {
        let mut annotations = json::Object::new();
        if !self.head.annotation(FAILED).is_empty() {
            annotations.insert(FAILED.to_owned(), Value::Null);
        }
        if let Some(since) = since {
            annotations.insert(EFFECTIVE_SINCE.to_owned(), effective_since(since, number).into());
        }
        let mut patch = json!({"revision": number});
        if !annotations.is_empty()
            && let Some(patch) = patch.as_object_mut()
        {
            patch.insert("metadata".to_owned(), json!({"annotations": annotations}));
        }
        self.patch(patch)
    }

    /// Returns the step that records that the rollout of the revision has failed (ROLL-61).
    pub fn fail(&self, failed: &Failed) -> Step {
        self.annotate(FAILED, Some(&failed.text()))
    }

    /// Returns the step that removes the record of a failed rollout; `None` if there is none.
    pub fn forgive(&self) -> Option<Step> {
        let is_marked = !self.head.annotation(FAILED).is_empty();
        is_marked.then(|| self.annotate(FAILED, None))
    }

    /// Returns the whole ControllerRevision.
    pub fn whole(&self) -> ControllerRevision {
        let mut whole = self.head.as_value().clone();
        if let Some(whole) = whole.as_object_mut() {
            whole.insert("data".to_owned(), json::parse(self.data.as_bytes()).unwrap_or_default());
        }
        ControllerRevision::from_decoded(whole)
    }

    fn reference(&self) -> ObjectRef {
        ObjectRef {
            api_version: "apps/v1",
            kind: "ControllerRevision",
            namespace: Some(self.head.namespace().to_owned()),
            name: self.name().to_owned(),
        }
    }
}

fn effective_since(since: Timestamp, number: i64) -> String {
    format!("{since};revision={number}")
}

/// Returns the revisions of the SidecarSet with this UID, the newest last.
pub fn ascending<'a>(uid: &str, revisions: impl IntoIterator<Item = &'a Revision>) -> Vec<&'a Revision> {
    let mut revisions: Vec<&Revision> = revisions.into_iter().filter(|revision| revision.is_of(uid)).collect();
    revisions.sort_by(|one, other| one.order(other));
    revisions
}

/// The latest revision of a SidecarSet.
#[derive(Clone, Debug, PartialEq)]
pub enum Latest<'a> {
    /// The newest stored revision has the data already.
    Newest(&'a Revision),
    /// An older revision has the data. The step gives it the next number (REV-5).
    Again(Step),
    /// No revision has the data. It is created with this number.
    New(i64),
}

/// The stored revisions of a SidecarSet, ascending, and its current data.
#[derive(Clone, Debug)]
pub struct History<'a> {
    set: &'a SidecarSet,
    revisions: Vec<&'a Revision>,
    data: String,
    /// The time that is noted in a revision that is used again; `None` to note nothing.
    noted: Option<Timestamp>,
}

impl<'a> History<'a> {
    /// Returns the history of a SidecarSet; `set` is the version that is rolled out. Of `revisions`, those of another
    /// SidecarSet of the same name are left out.
    pub fn new(set: &'a SidecarSet, uid: &str, revisions: impl IntoIterator<Item = &'a Revision>) -> Self {
        let revisions = ascending(uid, revisions);
        Self { set, revisions, data: revision_data(set.spec(&[]).unwrap_or(&Value::Null)), noted: None }
    }

    /// Notes in a revision that is used again since when it is in force: since `now` (ROLL-68).
    #[must_use]
    pub fn noting(self, now: Timestamp) -> Self {
        Self { noted: Some(now), ..self }
    }

    /// Returns the name of the revision that comes into force if the revision `latest` of the current data fails
    /// (ROLL-62).
    pub fn before(&self, latest: &str) -> Option<&'a str> {
        let heads: Vec<&'a ControllerRevision> = self.revisions.iter().map(|revision| &revision.head).collect();
        failure::before(latest, self.set.hash(), &heads).map(ControllerRevision::name)
    }

    /// Returns the latest revision, which has the current data.
    pub fn latest(&self) -> Latest<'a> {
        let next = self.revisions.last().map_or(1, |newest| newest.head.revision().saturating_add(1));
        let equal = self.revisions.iter().enumerate().rfind(|(_, revision)| revision.data == self.data);
        match equal {
            Some((index, newest)) if index.saturating_add(1) == self.revisions.len() => Latest::Newest(newest),
            Some((_, older)) => Latest::Again(older.again(next, self.noted)),
            None => Latest::New(next),
        }
    }

    /// Returns the ControllerRevision of the current data (REV-2 to REV-4).
    pub fn new_revision(&self, number: i64, collisions: i32, uid: &str, namespace: &str) -> Value {
        let name = revision_name(self.set.name(), &self.data, collisions);
        let object = self.set.as_value();
        let mut labels = json::object(object, &["metadata", "labels"]).cloned().unwrap_or_default();
        labels.insert(HASH_LABEL.to_owned(), name.hash.into());
        labels.insert(names::SIDECAR_SET_NAME_LABEL.to_owned(), self.set.name().into());
        if let Some(version) = self.custom_version() {
            labels.insert(names::CUSTOM_VERSION_LABEL.to_owned(), version.into());
        }
        json!({
            "apiVersion": "apps/v1",
            "kind": "ControllerRevision",
            "metadata": {
                "name": name.name,
                "namespace": namespace,
                "labels": labels,
                "annotations": json::object(object, &["metadata", "annotations"]).cloned().unwrap_or_default(),
                "ownerReferences": [{
                    "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "name": self.set.name(), "uid": uid,
                    "controller": true, "blockOwnerDeletion": true,
                }],
            },
            // The text is JSON of our own.
            "data": json::parse(self.data.as_bytes()).unwrap_or_default(),
            "revision": number,
        })
    }

    /// Whether an object of the name of a new revision has the current data, so that it is the revision.
    pub fn has_data(&self, revision: &Revision) -> bool {
        revision.data == self.data
    }

    /// Returns the step that writes the custom version into the label of the latest revision; `None` if it is there. A
    /// label is never removed (REV-6).
    pub fn relabel(&self, latest: &Revision) -> Option<Step> {
        let version = self.custom_version()?;
        let is_there = latest.head.label(names::CUSTOM_VERSION_LABEL) == Some(version);
        (!is_there).then(|| latest.patch(json!({"metadata": {"labels": {names::CUSTOM_VERSION_LABEL: version}}})))
    }

    fn custom_version(&self) -> Option<&str> {
        self.set.spec(&["customVersion"]).and_then(Value::as_str).filter(|version| !version.is_empty())
    }

    /// Returns the revisions to delete, oldest first (REV-7). `latest` is the name of the latest revision, `used` are the
    /// names that Pods record, and `resource` is the SidecarSet in the cluster.
    pub fn truncated(&self, latest: &str, used: &BTreeSet<String>, resource: &SidecarSet) -> Truncation<'a> {
        let limit = resource.spec(&["revisionHistoryLimit"]).and_then(Value::as_i64).unwrap_or(LIMIT).max(1);
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let is_new = !self.revisions.iter().any(|revision| revision.name() == latest);
        let count = self.revisions.len() + usize::from(is_new);
        let surplus = count.saturating_sub(limit);
        let wanted = match RequestedRevision::from_sidecar_set(resource) {
            Some(RequestedRevision::Name(name)) => Some(name),
            Some(RequestedRevision::CustomVersion(version)) => {
                let has_it = |revision: &&&Revision| revision.head.label(names::CUSTOM_VERSION_LABEL) == Some(version);
                self.revisions.iter().rev().find(has_it).map(|revision| revision.name())
            }
            Some(RequestedRevision::Previous) => {
                self.revisions.iter().rev().find(|revision| revision.name() != latest).map(|revision| revision.name())
            }
            None => None,
        };
        let is_free = |revision: &&Revision| {
            let name = revision.name();
            name != latest && Some(name) != wanted && !used.contains(name)
        };
        let deleted: Vec<&Revision> = self.revisions.iter().copied().filter(is_free).take(surplus).collect();
        Truncation { limit, kept: count - deleted.len(), deleted }
    }
}

/// The revisions to delete.
#[derive(Clone, Debug)]
pub struct Truncation<'a> {
    /// The number of revisions that should be kept.
    pub limit: usize,
    /// The number of revisions that stay; more than the limit if more are in use.
    pub kept: usize,
    /// The revisions to delete.
    deleted: Vec<&'a Revision>,
}

impl Truncation<'_> {
    /// Returns the steps that delete the revisions.
    pub fn steps(&self) -> impl Iterator<Item = Step> {
        self.deleted.iter().map(|revision| {
            let uid = json::text(revision.head.as_value(), &["metadata", "uid"]).to_owned();
            Step::Delete { object: revision.reference(), uid, resource_version: None }
        })
    }
}
