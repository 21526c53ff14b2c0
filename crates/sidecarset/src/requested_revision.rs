//! Finding the stored revision that a `SidecarSet` requests (REV-9, DIFF-11).

use std::collections::BTreeMap;

use pillion_kubernetes::field::joined;
use pillion_kubernetes::json;
use pillion_kubernetes::lookup::{Failure, Lookup, ObjectRef};
use pillion_kubernetes::name_validation;
use pillion_kubernetes::outcome::Code;
use serde_json::Value;
use thiserror::Error;

use crate::controller_revision::ControllerRevision;
use crate::hash;
use crate::names;
use crate::sidecar_set::SidecarSet;

/// The policy under which a number that is drawn for a Pod decides about its version (INJ-4).
const PARTIAL: &str = "Partial";

/// The revision that `injectionStrategy.revision` requests. A name takes precedence over a version (REV-9), and a
/// version over the policy (DIFF-30).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestedRevision<'a> {
    /// `revisionName`.
    Name(&'a str),
    /// `customVersion`.
    CustomVersion(&'a str),
    /// The version before the latest one: the policy is `Partial`, and neither field above is set.
    Previous,
}

impl<'a> RequestedRevision<'a> {
    /// Returns the revision that `set` requests; `None` if it requests its latest version for every Pod (INJ-1).
    pub fn from_sidecar_set(set: &'a SidecarSet) -> Option<Self> {
        let revision = set.spec(&["injectionStrategy", "revision"])?;
        let text = |key: &str| json::at(revision, &[key]).and_then(Value::as_str);
        let named = text("revisionName").map(Self::Name).or_else(|| text("customVersion").map(Self::CustomVersion));
        named.or_else(|| (text("policy") == Some(PARTIAL)).then_some(Self::Previous))
    }

    /// Returns the field of `injectionStrategy.revision` that holds the request.
    pub const fn field(self) -> &'static str {
        match self {
            Self::Name(_) => "revisionName",
            Self::CustomVersion(_) => "customVersion",
            Self::Previous => "policy",
        }
    }

    /// Returns the value of that field.
    pub const fn value(self) -> &'a str {
        match self {
            Self::Name(value) | Self::CustomVersion(value) => value,
            Self::Previous => PARTIAL,
        }
    }
}

/// The reason why the requested revision is not available.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FindError {
    /// Neither the settings nor the cluster have a revision of this name.
    #[error(
        "ControllerRevision \"{name}\" is neither in the settings' controllerRevisions nor in namespace \"{namespace}\"; name one that exists"
    )]
    NotFound {
        /// The requested name.
        name: String,
        /// The namespace that was searched.
        namespace: String,
    },
    /// The settings have no revision with this custom version. The cluster is not searched.
    #[error(
        "no ControllerRevision of this SidecarSet with customVersion \"{version}\" is in the settings; add it to controllerRevisions, or use revisionName"
    )]
    VersionNotFound {
        /// The requested version.
        version: String,
    },
    /// The revision belongs to another `SidecarSet` (DIFF-11).
    #[error("ControllerRevision \"{name}\" does not belong to this SidecarSet; its label {label} and its owner must be this SidecarSet's", label = names::SIDECAR_SET_NAME_LABEL)]
    Foreign {
        /// The name of the revision.
        name: String,
    },
    /// The cluster's answer is not a valid ControllerRevision.
    #[error("ControllerRevision \"{name}\" cannot be read: {problem}")]
    Malformed {
        /// The name of the revision.
        name: String,
        /// The problem.
        problem: String,
    },
    /// The lookup failed.
    #[error(
        "ControllerRevision \"{name}\" could not be looked up in namespace \"{namespace}\"; try again, or add it to the settings' controllerRevisions"
    )]
    Failed {
        /// The requested name.
        name: String,
        /// The namespace that was searched.
        namespace: String,
        /// The reason.
        failure: Failure,
    },
}

impl FindError {
    /// Returns the code of a refusal: 503 if a retry may help.
    pub const fn code(&self) -> Code {
        match self {
            Self::Failed { .. } => Code::Unavailable,
            _ => Code::Invalid,
        }
    }
}

/// Finds the requested revision of `set`.
///
/// A name is searched first in `revisions`, those of the settings, then in the cluster, in `system_namespace`. A custom
/// version selects the newest of `revisions` that has it as a label. The version before the latest one is the newest of
/// `revisions`, or the second if the newest has the hash of `set`; there may be none, and then the result is `None`.
///
/// # Errors
/// A revision that is requested by name or by version is not found, or cannot be read.
pub fn find(
    set: &SidecarSet,
    selection: RequestedRevision<'_>,
    revisions: &[ControllerRevision],
    system_namespace: &str,
    lookup: &dyn Lookup,
) -> Result<Option<ControllerRevision>, FindError> {
    RevisionIndex::new(revisions, system_namespace).find(set, selection, lookup)
}

/// The revisions of the settings in the order in which they are searched. A Pod may get hundreds of SidecarSets, and the
/// settings may have thousands of revisions (E18).
#[derive(Clone, Debug)]
pub struct RevisionIndex<'a> {
    system_namespace: &'a str,
    /// The first of each name.
    by_name: BTreeMap<&'a str, &'a ControllerRevision>,
    by_set: BTreeMap<&'a str, Vec<&'a ControllerRevision>>,
}

impl<'a> RevisionIndex<'a> {
    /// Collects the revisions of this namespace.
    pub fn new(revisions: &'a [ControllerRevision], system_namespace: &'a str) -> Self {
        let (mut by_name, mut by_set) = (BTreeMap::new(), BTreeMap::<_, Vec<_>>::new());
        for revision in revisions {
            // A revision in the settings may omit its namespace. One in another namespace is not the requested one.
            if !revision.namespace().is_empty() && revision.namespace() != system_namespace {
                continue;
            }
            by_name.entry(revision.name()).or_insert(revision);
            if let Some(set) = revision.label(names::SIDECAR_SET_NAME_LABEL) {
                by_set.entry(set).or_default().push(revision);
            }
        }
        Self { system_namespace, by_name, by_set }
    }

    /// Finds the requested revision of `set`, as [`find`] does.
    ///
    /// # Errors
    /// Those of [`find`].
    pub fn find(
        &self,
        set: &SidecarSet,
        selection: RequestedRevision<'_>,
        lookup: &dyn Lookup,
    ) -> Result<Option<ControllerRevision>, FindError> {
        let of_set = self.by_set.get(set.name()).map_or(&[][..], Vec::as_slice);
        let name = match selection {
            RequestedRevision::Name(name) => name,
            RequestedRevision::CustomVersion(version) => {
                let has_it =
                    |revision: &ControllerRevision| revision.label(names::CUSTOM_VERSION_LABEL) == Some(version);
                let not_found = || FindError::VersionNotFound { version: version.to_owned() };
                return newest(set, of_set, has_it).cloned().ok_or_else(not_found).map(Some);
            }
            RequestedRevision::Previous => return Ok(previous(set, of_set)),
        };
        let revision = match self.by_name.get(name) {
            Some(revision) => (*revision).clone(),
            None => read(name, self.system_namespace, lookup)?,
        };
        if belongs_to(&revision, set) { Ok(Some(revision)) } else { Err(FindError::Foreign { name: name.to_owned() }) }
    }
}

/// Returns the newest revision of a `SidecarSet` that is wanted. If two revisions have the same number, the name decides,
/// as in the reference if their times are equal.
fn newest<'a>(
    set: &SidecarSet,
    revisions: &[&'a ControllerRevision],
    is_wanted: impl Fn(&ControllerRevision) -> bool,
) -> Option<&'a ControllerRevision> {
    let wanted = revisions.iter().filter(|revision| is_wanted(revision) && belongs_to(revision, set));
    wanted.max_by_key(|revision| (revision.revision(), revision.name())).copied()
}

/// Returns the newest revision that is not the latest version of `set` itself. The newest of all is that version if it
/// has the hash of `set`.
fn previous(set: &SidecarSet, revisions: &[&ControllerRevision]) -> Option<ControllerRevision> {
    let [first, second] = newest_two(set, revisions);
    first.filter(|first| !has_hash(first, set.hash())).or(second).cloned()
}

/// Whether a revision has this hash (HASH-1); if none is stored with it, that of its containers.
fn has_hash(revision: &ControllerRevision, hash: &str) -> bool {
    match revision.annotation(names::HASH) {
        "" => revision.spec().is_ok_and(|spec| hash::hashes(&spec).hash == hash),
        stored => stored == hash,
    }
}

/// Returns the two newest revisions of a `SidecarSet`, the newest first. The version before its latest one is among
/// them, if there is one.
pub fn newest_two<'a>(set: &SidecarSet, revisions: &[&'a ControllerRevision]) -> [Option<&'a ControllerRevision>; 2] {
    let first = newest(set, revisions, |_| true);
    // The settings may have a copy of a revision of the cluster.
    [first, first.and_then(|first| newest(set, revisions, |revision| revision.name() != first.name()))]
}

fn read(name: &str, namespace: &str, lookup: &dyn Lookup) -> Result<ControllerRevision, FindError> {
    let not_found = || FindError::NotFound { name: name.to_owned(), namespace: namespace.to_owned() };
    // No object has an invalid name, and a lookup by such a name could read another path of the API.
    if name_validation::dns_subdomain(name).is_some() {
        return Err(not_found());
    }
    let object = ObjectRef {
        api_version: "apps/v1",
        kind: "ControllerRevision",
        namespace: Some(namespace.to_owned()),
        name: name.to_owned(),
    };
    let failed = |failure| FindError::Failed { name: name.to_owned(), namespace: namespace.to_owned(), failure };
    let found = lookup.get(&object).map_err(failed)?.ok_or_else(not_found)?;
    ControllerRevision::decode(found)
        .map_err(|errors| FindError::Malformed { name: name.to_owned(), problem: joined(&errors) })
}

/// Whether the revision belongs to the set (DIFF-11): by its label, and by the owner's uid if both sides have one.
fn belongs_to(revision: &ControllerRevision, set: &SidecarSet) -> bool {
    let uid = json::text(set.as_value(), &["metadata", "uid"]);
    let owner = json::items(revision.as_value(), &["metadata", "ownerReferences"])
        .iter()
        .find(|owner| json::flag(owner, &["controller"]))
        .map_or("", |owner| json::text(owner, &["uid"]));
    revision.label(names::SIDECAR_SET_NAME_LABEL) == Some(set.name())
        && (uid.is_empty() || owner.is_empty() || uid == owner)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use pillion_kubernetes::lookup::Answer;

    struct Cluster(Answer);

    impl Lookup for Cluster {
        fn get(&self, object: &ObjectRef) -> Answer {
            assert_eq!((object.kind, object.namespace.as_deref()), ("ControllerRevision", Some("kruise-system")));
            self.0.clone()
        }
    }

    fn set() -> SidecarSet {
        SidecarSet::from_decoded(json!({"metadata": {"name": "s", "uid": "u1"}}))
    }

    fn manifest(name: &str, of: &str, number: i64, version: &str, owner: &str) -> Value {
        json!({
            "apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": number, "data": {"spec": {}},
            "metadata": {
                "name": name,
                "labels": {names::SIDECAR_SET_NAME_LABEL: of, names::CUSTOM_VERSION_LABEL: version},
                "ownerReferences": [{"apiVersion": "v1", "kind": "X", "name": of, "uid": owner, "controller": true}],
            },
        })
    }

    fn revision(name: &str, of: &str, number: i64, version: &str, owner: &str) -> ControllerRevision {
        ControllerRevision::decode(manifest(name, of, number, version, owner)).unwrap()
    }

    fn settings() -> Vec<ControllerRevision> {
        vec![
            revision("s-1", "s", 1, "v1", "u1"),
            revision("s-3", "s", 3, "v1", ""),
            revision("s-2", "s", 2, "v1", "u1"),
            revision("s-9", "s", 9, "v1", "another"),
            revision("t-5", "t", 5, "v1", "u1"),
        ]
    }

    fn found(selection: RequestedRevision<'_>, cluster: Answer) -> Result<String, FindError> {
        let found = find(&set(), selection, &settings(), "kruise-system", &Cluster(cluster))?;
        Ok(found.map(|found| found.name().to_owned()).unwrap_or_default())
    }

    #[rstest]
    #[case::nothing(json!({}), None)]
    #[case::neither(json!({"revision": {"policy": "Always"}}), None)]
    #[case::diff30_partial(json!({"revision": {"policy": "Partial"}}), Some(RequestedRevision::Previous))]
    #[case::name(json!({"revision": {"revisionName": "r", "policy": "Partial"}}), Some(RequestedRevision::Name("r")))]
    #[case::version(json!({"revision": {"customVersion": "v"}}), Some(RequestedRevision::CustomVersion("v")))]
    #[case::name_wins(json!({"revision": {"customVersion": "v", "revisionName": "r"}}), Some(RequestedRevision::Name("r")))]
    #[case::empty_is_not_absent(json!({"revision": {"revisionName": ""}}), Some(RequestedRevision::Name("")))]
    fn inj1_what_is_asked_for(#[case] strategy: Value, #[case] expected: Option<RequestedRevision<'_>>) {
        let set = SidecarSet::from_decoded(json!({"spec": {"injectionStrategy": strategy}}));
        assert_eq!(RequestedRevision::from_sidecar_set(&set), expected);
    }

    #[test]
    fn rev9_by_name_the_settings_come_first() {
        assert_eq!(found(RequestedRevision::Name("s-1"), Err(Failure::Timeout)).unwrap(), "s-1");
        let stored = manifest("s-7", "s", 7, "v2", "u1");
        assert_eq!(found(RequestedRevision::Name("s-7"), Ok(Some(stored))).unwrap(), "s-7");
    }

    #[test]
    fn rev9_by_version_the_newest_of_this_set_wins() {
        assert_eq!(found(RequestedRevision::CustomVersion("v1"), Ok(None)).unwrap(), "s-3");
        let error = found(RequestedRevision::CustomVersion("v2"), Ok(None)).unwrap_err();
        assert_eq!(error.code(), Code::Invalid);
        assert!(error.to_string().contains("add it to controllerRevisions"), "{error}");
    }

    #[rstest]
    #[case::not_there("s-8", Ok(None), Code::Invalid)]
    #[case::no_name("", Err(Failure::Timeout), Code::Invalid)]
    #[case::no_possible_name("../../pods", Err(Failure::Timeout), Code::Invalid)]
    #[case::diff11_of_another_set("t-5", Ok(None), Code::Invalid)]
    #[case::diff11_of_another_set_of_that_name("s-9", Ok(None), Code::Invalid)]
    #[case::no_revision("s-8", Ok(Some(json!({"kind": "Pod"}))), Code::Invalid)]
    #[case::no_answer("s-8", Err(Failure::Forbidden), Code::Unavailable)]
    fn rev1_rev9_refusals(#[case] name: &str, #[case] cluster: Answer, #[case] code: Code) {
        assert_eq!(found(RequestedRevision::Name(name), cluster).unwrap_err().code(), code);
    }

    #[test]
    fn diff30_the_version_before_the_latest_one() {
        let stored = |name: &str, number: i64, image: &str| {
            let mut object = manifest(name, "s", number, "", "u1");
            let spec = json!({"containers": [{"name": "a", "image": image}]});
            object["data"] = json!({"spec": spec});
            ControllerRevision::decode(object).unwrap()
        };
        let set = |image: &str| {
            let spec = json!({"containers": [{"name": "a", "image": image}]});
            let annotations = json!({names::HASH: hash::hashes(&spec).hash});
            let metadata = json!({"name": "s", "uid": "u1", "annotations": annotations});
            SidecarSet::from_decoded(json!({"metadata": metadata, "spec": spec}))
        };
        let unread = |name: &str, number: i64, image: &str| {
            let mut object = stored(name, number, image).as_value().clone();
            object.as_object_mut().unwrap().remove("data");
            object["metadata"]["annotations"] = json!({names::HASH: set(image).hash()});
            ControllerRevision::decode(object).unwrap()
        };
        let before = |image: &str, revisions: &[ControllerRevision]| {
            let nobody = Cluster(Err(Failure::Timeout));
            let found = find(&set(image), RequestedRevision::Previous, revisions, "kruise-system", &nobody).unwrap();
            found.map(|found| found.name().to_owned())
        };
        let three = [stored("s-1", 1, "v1"), stored("s-3", 3, "v3"), stored("s-2", 2, "v2")];
        assert_eq!(before("v3", &three).as_deref(), Some("s-2"), "the latest is stored already");
        assert_eq!(before("v4", &three).as_deref(), Some("s-3"), "the latest is not stored yet");
        assert_eq!(
            before("v1", &three).as_deref(),
            Some("s-3"),
            "an older one, which does not have its new number yet"
        );
        assert_eq!(before("v1", &three[..1]), None, "the first version");
        assert_eq!(before("v1", &[]), None);
        let copy = [stored("s-3", 3, "v3"), stored("s-3", 3, "v3"), stored("s-2", 2, "v2")];
        assert_eq!(before("v3", &copy).as_deref(), Some("s-2"), "the settings have a copy");
        let unread = [unread("s-3", 3, "v3"), unread("s-2", 2, "v2")];
        assert_eq!(before("v3", &unread).as_deref(), Some("s-2"), "by the hash that is stored with it");
        let foreign = [ControllerRevision::decode(manifest("s-9", "s", 9, "", "another")).unwrap()];
        assert_eq!(before("v1", &foreign), None);
    }
}
