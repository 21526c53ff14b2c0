//! A ControllerRevision: a stored version of a `SidecarSet` (REV-1 to REV-9).

use std::sync::Arc;

use pillion_kubernetes::field::{FieldError, FieldPath};
use pillion_kubernetes::json;
use serde_json::Value;

use crate::names;
use crate::tables::{self, CONTROLLER_REVISION, REVISION_SPEC, expect_text};

/// A type-checked apps/v1 ControllerRevision. Nulls are removed, except in `data`, which stays as it was stored.
/// Copies share the object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControllerRevision(Arc<Value>);

impl ControllerRevision {
    /// Decodes a manifest or an object from the cluster.
    ///
    /// # Errors
    /// Every error with its path: another `kind` or `apiVersion`, or a field of another type. [`Self::spec`] checks the
    /// content of `data`.
    pub fn decode(mut object: Value) -> Result<Self, Vec<FieldError>> {
        let mut errors = Vec::new();
        expect_text(&object, "kind", &["ControllerRevision"], &mut errors);
        expect_text(&object, "apiVersion", &["apps/v1"], &mut errors);
        if errors.is_empty() {
            tables::decode(&mut object, &CONTROLLER_REVISION, &FieldPath::default(), &mut errors);
        }
        if errors.is_empty() { Ok(Self(Arc::new(object))) } else { Err(errors) }
    }

    /// Wraps an object that was decoded before.
    pub fn from_decoded(object: Value) -> Self {
        Self(Arc::new(object))
    }

    /// Returns the parts that affect a Pod: the name, the hashes and the data. The result does not tell to which
    /// SidecarSet the revision belongs.
    pub fn essence(&self) -> Value {
        let mut annotations = json::Object::new();
        for key in [names::HASH, names::HASH_WITHOUT_IMAGE] {
            if !self.annotation(key).is_empty() {
                annotations.insert(key.to_owned(), self.annotation(key).into());
            }
        }
        let mut metadata = json::Object::new();
        metadata.insert("name".to_owned(), self.name().into());
        if !annotations.is_empty() {
            metadata.insert("annotations".to_owned(), annotations.into());
        }
        json::object_of([("metadata", metadata.into()), ("data", self.data().cloned().unwrap_or_default())])
    }

    /// Returns the whole object.
    pub fn as_value(&self) -> &Value {
        &self.0
    }

    /// Returns `metadata.name`.
    pub fn name(&self) -> &str {
        json::text(&self.0, &["metadata", "name"])
    }

    /// Returns `metadata.namespace`; empty in manifests that omit it.
    pub fn namespace(&self) -> &str {
        json::text(&self.0, &["metadata", "namespace"])
    }

    /// Returns a label, or `None` if it is absent.
    pub fn label(&self, key: &str) -> Option<&str> {
        json::at(&self.0, &["metadata", "labels", key])?.as_str()
    }

    /// Returns an annotation, or `""` if it is absent.
    pub fn annotation(&self, key: &str) -> &str {
        json::text(&self.0, &["metadata", "annotations", key])
    }

    /// Returns the revision number; the newest revision has the largest (REV-5).
    pub fn revision(&self) -> i64 {
        json::at(&self.0, &["revision"]).and_then(Value::as_i64).unwrap_or_default()
    }

    /// Returns the stored data.
    pub fn data(&self) -> Option<&Value> {
        json::at(&self.0, &["data"])
    }

    /// Returns the stored `spec`, decoded (INJ-6).
    pub fn spec(&self) -> Result<Value, Vec<FieldError>> {
        decode_revision_spec(self.data().unwrap_or(&Value::Null))
    }
}

/// Decodes the `data` of a ControllerRevision of a `SidecarSet` (REV-2) into the stored `spec`: `containers`,
/// `initContainers`, `volumes`, `imagePullSecrets` and `patchPodMetadata`. Fields that are `null` in the revision are
/// absent. Other keys, including `$patch`, are left out (INJ-6).
///
/// # Errors
/// Every error, with its path below `data`: `spec` is missing, or a field has the wrong type.
fn decode_revision_spec(data: &Value) -> Result<Value, Vec<FieldError>> {
    let path = FieldPath::new("data.spec");
    let Some(spec) = json::at(data, &["spec"]).filter(|spec| !spec.is_null()) else {
        return Err(vec![FieldError::required(path, "the revision holds no spec of a SidecarSet")]);
    };
    let mut spec = match spec {
        Value::Object(spec) => {
            let known = spec.iter().filter(|(key, _)| REVISION_SPEC.field(key).is_some());
            known.map(|(key, value)| (key.clone(), value.clone())).collect()
        }
        other => other.clone(),
    };
    let mut errors = Vec::new();
    tables::decode(&mut spec, &REVISION_SPEC, &path, &mut errors);
    if errors.is_empty() { Ok(spec) } else { Err(errors) }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn revision() -> Value {
        json!({
            "apiVersion": "apps/v1", "kind": "ControllerRevision",
            "metadata": {
                "name": "s-1", "namespace": "kruise-system", "labels": {"kruise.io/sidecarset-name": "s"},
                "annotations": {"kruise.io/sidecarset-hash": "h"}, "creationTimestamp": null,
                "ownerReferences": [{"uid": "u1"}, {}, {"uid": "u2"}],
            },
            "revision": 9_007_199_254_740_993_i64,
            "data": {"spec": {"$patch": "replace", "containers": null, "volumes": [{"name": "v"}]}},
        })
    }

    #[test]
    fn a_revision_is_read() {
        let revision = ControllerRevision::decode(revision()).unwrap();
        assert_eq!(revision.name(), "s-1");
        assert_eq!(revision.namespace(), "kruise-system");
        assert_eq!(revision.label("kruise.io/sidecarset-name"), Some("s"));
        assert_eq!(revision.label("other"), None);
        assert_eq!(revision.annotation("kruise.io/sidecarset-hash"), "h");
        assert_eq!(revision.annotation("other"), "");
        assert_eq!(revision.revision(), 9_007_199_254_740_993);
        assert_eq!(revision.spec().unwrap(), json!({"volumes": [{"name": "v"}]}));
        assert!(json::at(revision.as_value(), &["metadata", "creationTimestamp"]).is_none());
        // Stored data is compared byte by byte (REV-5), so its nulls stay.
        assert_eq!(json::at(revision.data().unwrap(), &["spec", "containers"]), Some(&Value::Null));
    }

    #[test]
    fn a_revision_may_hold_nothing() {
        let revision =
            ControllerRevision::decode(json!({"apiVersion": "apps/v1", "kind": "ControllerRevision"})).unwrap();
        assert_eq!((revision.name(), revision.revision(), revision.data()), ("", 0, None));
        assert_eq!(revision.spec().unwrap_err().len(), 1);
    }

    #[rstest]
    #[case::kind("kind", json!("SidecarSet"), "kind")]
    #[case::api_version("apiVersion", json!("apps/v1beta2"), "apiVersion")]
    #[case::number("revision", json!("1"), "revision")]
    #[case::fraction("revision", json!(1.0), "revision")]
    #[case::labels("metadata", json!({"labels": {"a": 1}}), "metadata.labels[a]")]
    fn other_objects_are_refused(#[case] field: &str, #[case] value: Value, #[case] path: &str) {
        let mut object = revision();
        object[field] = value;
        let errors = ControllerRevision::decode(object).unwrap_err();
        assert_eq!(errors.iter().map(|error| error.path.as_str()).collect::<Vec<_>>(), [path]);
    }

    #[test]
    fn rev2_a_revision_spec_has_its_five_keys() {
        let data = json!({"spec": {
            "$patch": "replace", "containers": [{"name": "a", "image": null}], "initContainers": null,
            "volumes": [{"name": "v", "new": null}], "imagePullSecrets": [], "patchPodMetadata": null,
            "updateStrategy": 5,
        }});
        assert_eq!(
            decode_revision_spec(&data).unwrap(),
            json!({"containers": [{"name": "a"}], "volumes": [{"name": "v", "new": null}], "imagePullSecrets": []})
        );
    }

    #[rstest]
    #[case::nothing(json!(null), "data.spec: Required value: the revision holds no spec of a SidecarSet")]
    #[case::no_object(json!("spec"), "data.spec: Required value: the revision holds no spec of a SidecarSet")]
    #[case::no_spec(json!({"spec": null}), "data.spec: Required value: the revision holds no spec of a SidecarSet")]
    #[case::spec_is_text(json!({"spec": "x"}), "data.spec: Invalid value: must be an object, found a string")]
    #[case::type_error(
        json!({"spec": {"volumes": [{"name": 1}]}}),
        "data.spec.volumes[0].name: Invalid value: must be a string, found a number; put it in quotes"
    )]
    fn revisions_that_hold_something_else_are_refused(#[case] data: Value, #[case] expected: &str) {
        assert_eq!(
            decode_revision_spec(&data).unwrap_err().iter().map(ToString::to_string).collect::<Vec<_>>(),
            [expected]
        );
    }
}
