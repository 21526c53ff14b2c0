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
    use super::{Cause, FieldError, FieldPath, Value};

    type Errors = Vec<FieldError>;

    fn wrong(path: &FieldPath, found: &Value, expected: &str, errors: &mut Errors) {
        let found = match found {
            Value::Null => "null",
            Value::Bool(_) => "a boolean",
            Value::Number(_) => "a number",
            Value::String(_) => "a string",
            Value::Array(_) => "a list",
            Value::Object(_) => "an object",
        };
        errors.push(FieldError::new(path, Cause::Type, format!("is {found}, must be {expected}")));
    }

    fn member<'a>(parent: &'a Value, path: &FieldPath, key: &str) -> Option<(&'a Value, FieldPath)> {
        let value = parent.get(key).filter(|value| !value.is_null())?;
        Some((value, path.child(key)))
    }

    fn text(parent: &Value, path: &FieldPath, key: &str, errors: &mut Errors) {
        if let Some((value, path)) = member(parent, path, key)
            && !value.is_string()
        {
            wrong(&path, value, "a string", errors);
        }
    }

    fn text_map(parent: &Value, path: &FieldPath, key: &str, errors: &mut Errors) {
        let Some((value, path)) = member(parent, path, key) else { return };
        let Some(map) = value.as_object() else { return wrong(&path, value, "an object", errors) };
        for (key, value) in map {
            if !value.is_string() {
                wrong(&path.key(key), value, "a string", errors);
            }
        }
    }

    fn objects(
        parent: &Value,
        path: &FieldPath,
        key: &str,
        errors: &mut Errors,
        check: impl Fn(&Value, &FieldPath, &mut Errors),
    ) {
        let Some((value, path)) = member(parent, path, key) else { return };
        let Some(list) = value.as_array() else { return wrong(&path, value, "a list", errors) };
        for (index, item) in list.iter().enumerate() {
            // Paths cost an allocation each: made only where they are needed.
            let path = || path.index(index);
            if item.is_object() { check(item, &path(), errors) } else { wrong(&path(), item, "an object", errors) }
        }
    }

    fn object<'a>(
        parent: &'a Value,
        path: &FieldPath,
        key: &str,
        errors: &mut Errors,
    ) -> Option<(&'a Value, FieldPath)> {
        let (value, path) = member(parent, path, key)?;
        if value.is_object() {
            return Some((value, path));
        }
        wrong(&path, value, "an object", errors);
        None
    }

    pub(super) fn pod(pod: &Value, errors: &mut Errors) {
        let root = FieldPath::default();
        if !pod.is_object() {
            return wrong(&root, pod, "a Pod", errors);
        }
        if let Some((metadata, path)) = object(pod, &root, "metadata", errors) {
            text(metadata, &path, "name", errors);
            text(metadata, &path, "generateName", errors);
            text(metadata, &path, "namespace", errors);
            text_map(metadata, &path, "labels", errors);
            text_map(metadata, &path, "annotations", errors);
        }
        if let Some((spec, path)) = object(pod, &root, "spec", errors) {
            objects(spec, &path, "containers", errors, container);
            objects(spec, &path, "initContainers", errors, container);
            objects(spec, &path, "volumes", errors, named);
            objects(spec, &path, "imagePullSecrets", errors, named);
        }
        if let Some((status, path)) = object(pod, &root, "status", errors) {
            text(status, &path, "phase", errors);
        }
    }

    fn named(item: &Value, path: &FieldPath, errors: &mut Errors) {
        text(item, path, "name", errors);
    }

    fn container(container: &Value, path: &FieldPath, errors: &mut Errors) {
        text(container, path, "name", errors);
        text(container, path, "restartPolicy", errors);
        objects(container, path, "env", errors, |variable, path, errors| {
            text(variable, path, "name", errors);
            text(variable, path, "value", errors);
        });
        objects(container, path, "volumeMounts", errors, |mount, path, errors| {
            text(mount, path, "name", errors);
            text(mount, path, "mountPath", errors);
            text(mount, path, "subPathExpr", errors);
        });
        objects(container, path, "volumeDevices", errors, |device, path, errors| {
            text(device, path, "name", errors);
            text(device, path, "devicePath", errors);
        });
        if let Some((resources, path)) = object(container, path, "resources", errors) {
            object(resources, &path, "limits", errors);
            object(resources, &path, "requests", errors);
        }
    }
}
