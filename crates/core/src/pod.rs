//! Reading a Pod.

use serde_json::Value;

use crate::field::{Cause, FieldError, FieldPath};
use crate::json::{self, Object};
use crate::names;

/// A Pod whose fields that the rules read have the shapes of core/v1; everything else in it is unknown and stays so.
#[derive(Clone, Copy, Debug)]
pub struct Pod<'a>(&'a Value);

impl<'a> Pod<'a> {
    /// Checks the shapes of the fields that injection reads or edits. A JSON null counts as absent.
    ///
    /// # Errors
    /// Every field of another shape, with its path.
    pub fn decode(object: &'a Value) -> Result<Self, Vec<FieldError>> {
        let mut errors = Vec::new();
        shape::pod(object, &mut errors);
        if errors.is_empty() { Ok(Self(object)) } else { Err(errors) }
    }

    /// The whole object.
    pub fn as_value(self) -> &'a Value {
        self.0
    }

    /// `metadata.name`; empty where the API server has yet to make it from `generateName`.
    pub fn name(self) -> &'a str {
        json::text(self.0, &["metadata", "name"])
    }

    /// `metadata.namespace`; empty where only the request has it.
    pub fn namespace(self) -> &'a str {
        json::text(self.0, &["metadata", "namespace"])
    }

    /// `metadata.labels`.
    pub fn labels(self) -> Option<&'a Object> {
        json::object(self.0, &["metadata", "labels"])
    }

    /// `metadata.annotations`.
    pub fn annotations(self) -> Option<&'a Object> {
        json::object(self.0, &["metadata", "annotations"])
    }

    /// `spec.containers`.
    pub fn containers(self) -> &'a [Value] {
        json::items(self.0, &["spec", "containers"])
    }

    /// `spec.initContainers`.
    pub fn init_containers(self) -> &'a [Value] {
        json::items(self.0, &["spec", "initContainers"])
    }

    /// `spec.volumes`.
    pub fn volumes(self) -> &'a [Value] {
        json::items(self.0, &["spec", "volumes"])
    }

    /// Whether the Pod still runs or will run: neither finished nor being deleted (P-2).
    pub fn is_active(self) -> bool {
        let phase = json::text(self.0, &["status", "phase"]);
        let deleted = json::at(self.0, &["metadata", "deletionTimestamp"]).is_some_and(|time| !time.is_null());
        phase != "Succeeded" && phase != "Failed" && !deleted
    }

    /// Whether a Job owns the Pod.
    pub fn belongs_to_job(self) -> bool {
        json::items(self.0, &["metadata", "ownerReferences"]).iter().any(|owner| {
            json::text(owner, &["kind"]) == "Job" && json::text(owner, &["apiVersion"]).starts_with("batch/")
        })
    }
}

/// The name of a container, a volume or an environment variable.
pub fn name(item: &Value) -> &str {
    json::text(item, &["name"])
}

/// Whether a container was injected: its variable `IS_INJECTED` is `true`; the first of that name counts (M-15).
pub fn is_injected(container: &Value) -> bool {
    json::items(container, &["env"])
        .iter()
        .find(|variable| name(variable) == names::ENV_IS_INJECTED)
        .is_some_and(|variable| json::text(variable, &["value"]) == "true")
}

/// The shapes that the rules rely on.
mod shape {
    use super::{Cause, FieldError, FieldPath, Value, json};

    type Errors = Vec<FieldError>;

    /// A path that costs nothing until something is wrong: a chain of steps on the stack.
    #[derive(Clone, Copy)]
    enum Trail<'a> {
        Root,
        Key(&'a Trail<'a>, &'a str),
        Index(&'a Trail<'a>, usize),
        Entry(&'a Trail<'a>, &'a str),
    }

    impl Trail<'_> {
        fn path(self) -> FieldPath {
            match self {
                Self::Root => FieldPath::default(),
                Self::Key(parent, key) => parent.path().child(key),
                Self::Index(parent, index) => parent.path().index(index),
                Self::Entry(parent, key) => parent.path().key(key),
            }
        }

        fn wrong(self, found: &Value, expected: &str, errors: &mut Errors) {
            let found = json::type_name(found);
            errors.push(FieldError::new(&self.path(), Cause::Type, format!("is {found}, must be {expected}")));
        }
    }

    /// A member that is there; null is not.
    fn member<'a>(parent: &'a Value, key: &str) -> Option<&'a Value> {
        parent.get(key).filter(|value| !value.is_null())
    }

    fn text(parent: &Value, trail: Trail<'_>, key: &str, errors: &mut Errors) {
        if let Some(value) = member(parent, key)
            && !value.is_string()
        {
            Trail::Key(&trail, key).wrong(value, "a string", errors);
        }
    }

    fn text_map(parent: &Value, trail: Trail<'_>, key: &str, errors: &mut Errors) {
        let Some(value) = member(parent, key) else { return };
        let trail = Trail::Key(&trail, key);
        let Some(map) = value.as_object() else { return trail.wrong(value, "an object", errors) };
        for (key, value) in map {
            if !value.is_string() {
                Trail::Entry(&trail, key).wrong(value, "a string", errors);
            }
        }
    }

    fn object(
        parent: &Value,
        trail: Trail<'_>,
        key: &str,
        errors: &mut Errors,
        check: impl Fn(&Value, Trail<'_>, &mut Errors),
    ) {
        let Some(value) = member(parent, key) else { return };
        let trail = Trail::Key(&trail, key);
        if value.is_object() { check(value, trail, errors) } else { trail.wrong(value, "an object", errors) }
    }

    fn objects(
        parent: &Value,
        trail: Trail<'_>,
        key: &str,
        errors: &mut Errors,
        check: impl Fn(&Value, Trail<'_>, &mut Errors),
    ) {
        let Some(value) = member(parent, key) else { return };
        let trail = Trail::Key(&trail, key);
        let Some(list) = value.as_array() else { return trail.wrong(value, "a list", errors) };
        for (index, item) in list.iter().enumerate() {
            let trail = Trail::Index(&trail, index);
            match item {
                Value::Object(_) => check(item, trail, errors),
                // An empty item, to the API server.
                Value::Null => {}
                _ => trail.wrong(item, "an object", errors),
            }
        }
    }

    pub(super) fn pod(pod: &Value, errors: &mut Errors) {
        let root = Trail::Root;
        if !pod.is_object() {
            return root.wrong(pod, "a Pod", errors);
        }
        object(pod, root, "metadata", errors, metadata);
        object(pod, root, "spec", errors, spec);
        object(pod, root, "status", errors, |status, trail, errors| text(status, trail, "phase", errors));
    }

    fn metadata(metadata: &Value, trail: Trail<'_>, errors: &mut Errors) {
        text(metadata, trail, "name", errors);
        text(metadata, trail, "generateName", errors);
        text(metadata, trail, "namespace", errors);
        text_map(metadata, trail, "labels", errors);
        text_map(metadata, trail, "annotations", errors);
    }

    fn spec(spec: &Value, trail: Trail<'_>, errors: &mut Errors) {
        objects(spec, trail, "containers", errors, container);
        objects(spec, trail, "initContainers", errors, container);
        objects(spec, trail, "volumes", errors, named);
        objects(spec, trail, "imagePullSecrets", errors, named);
    }

    fn named(item: &Value, trail: Trail<'_>, errors: &mut Errors) {
        text(item, trail, "name", errors);
    }

    fn container(container: &Value, trail: Trail<'_>, errors: &mut Errors) {
        text(container, trail, "name", errors);
        text(container, trail, "restartPolicy", errors);
        objects(container, trail, "env", errors, |variable, trail, errors| {
            text(variable, trail, "name", errors);
            text(variable, trail, "value", errors);
        });
        objects(container, trail, "volumeMounts", errors, |mount, trail, errors| {
            text(mount, trail, "name", errors);
            text(mount, trail, "mountPath", errors);
            text(mount, trail, "subPathExpr", errors);
        });
        objects(container, trail, "volumeDevices", errors, |device, trail, errors| {
            text(device, trail, "name", errors);
            text(device, trail, "devicePath", errors);
        });
        object(container, trail, "resources", errors, |resources, trail, errors| {
            object(resources, trail, "limits", errors, |_, _, _| {});
            object(resources, trail, "requests", errors, |_, _, _| {});
        });
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[test]
    fn every_field_of_another_shape_is_named() {
        let pod = json!({
            "metadata": {"name": 1, "labels": {"a": 2}, "annotations": []},
            "spec": {
                "containers": [{"name": "a", "env": [{"name": true}]}, 5, {"resources": {"limits": 1}}],
                "initContainers": {}, "volumes": [1]
            },
            "status": "x"
        });
        let errors = Pod::decode(&pod).unwrap_err();
        let paths: Vec<&str> = errors.iter().map(|error| error.path.as_str()).collect();
        assert_eq!(
            paths,
            [
                "metadata.name",
                "metadata.labels[a]",
                "metadata.annotations",
                "spec.containers[0].env[0].name",
                "spec.containers[1]",
                "spec.containers[2].resources.limits",
                "spec.initContainers",
                "spec.volumes[0]",
                "status"
            ]
        );
    }

    #[rstest]
    #[case::nothing(json!({}))]
    #[case::nulls(json!({"metadata": null, "spec": {"containers": null, "volumes": [{"name": null}, null]}}))]
    #[case::unknown_fields(json!({"spec": {"newer": 1, "containers": [{"ports": "whatever"}]}}))]
    fn absent_and_unknown_fields_are_fine(#[case] pod: Value) {
        assert!(Pod::decode(&pod).is_ok());
    }

    #[rstest]
    #[case::none(json!({}), true)]
    #[case::pending(json!({"status": {"phase": "Pending"}}), true)]
    #[case::succeeded(json!({"status": {"phase": "Succeeded"}}), false)]
    #[case::failed(json!({"status": {"phase": "Failed"}}), false)]
    #[case::deleted(json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}), false)]
    #[case::null_deletion(json!({"metadata": {"deletionTimestamp": null}}), true)]
    fn p2_active(#[case] pod: Value, #[case] active: bool) {
        assert_eq!(Pod::decode(&pod).unwrap().is_active(), active);
    }

    #[test]
    fn m15_the_first_variable_of_the_name_tells_an_injected_container() {
        let with = |values: &[&str]| {
            let env: Vec<Value> = values.iter().map(|value| json!({"name": "IS_INJECTED", "value": value})).collect();
            is_injected(&json!({ "env": env }))
        };
        assert!(with(&["true"]) && with(&["true", "false"]));
        assert!(!with(&["True"]) && !with(&["false", "true"]) && !with(&[]));
    }
}
