//! Read access to a Pod.

use pillion_kubernetes::field::{FieldError, FieldPath};
use pillion_kubernetes::json::{self, Object};
use serde_json::Value;

use crate::names;
use crate::tables;

/// A Pod whose fields have the types of core/v1, as far as the rules read them. All other fields are unchecked.
#[derive(Clone, Copy, Debug)]
pub struct Pod<'a> {
    object: &'a Value,
    /// Annotations that replace those of the object.
    annotations: Option<&'a Object>,
}

impl<'a> Pod<'a> {
    /// Checks the types of the fields that injection reads or edits. A JSON null counts as absent.
    ///
    /// # Errors
    /// One error, with its path, for each field of another type.
    pub fn decode(object: &'a Value) -> Result<Self, Vec<FieldError>> {
        let mut errors = Vec::new();
        tables::check_shape(object, &tables::POD, &FieldPath::new(""), &mut errors);
        if errors.is_empty() { Ok(Self { object, annotations: None }) } else { Err(errors) }
    }

    /// Returns the same Pod with these annotations instead of its own. Does not copy the Pod, which may be a mebibyte
    /// long (E18).
    #[must_use]
    pub fn with_annotations(self, annotations: &'a Object) -> Self {
        Self { annotations: Some(annotations), ..self }
    }

    /// Returns the whole object, with its original annotations.
    pub fn as_value(self) -> &'a Value {
        self.object
    }

    /// Returns the length of the Pod with its effective annotations, as [`json::length`] does.
    pub fn length(self, limit: usize) -> usize {
        let Some(annotations) = self.annotations else { return json::length(self.object, limit) };
        let own = json::at(self.object, &["metadata", "annotations"]).map_or(0, |own| json::length(own, limit));
        // A length above its limit is not exact, so the limit includes the annotations that are subtracted.
        let others = json::length(self.object, limit.saturating_add(own)).saturating_sub(own);
        others.saturating_add(json::object_length(annotations, limit))
    }

    /// Returns `metadata.name`; empty if the API server has not yet generated it from `generateName`.
    pub fn name(self) -> &'a str {
        json::text(self.object, &["metadata", "name"])
    }

    /// Returns `metadata.namespace`; empty if only the request has it.
    pub fn namespace(self) -> &'a str {
        json::text(self.object, &["metadata", "namespace"])
    }

    /// Returns `metadata.labels`.
    pub fn labels(self) -> Option<&'a Object> {
        json::object(self.object, &["metadata", "labels"])
    }

    /// Returns `metadata.annotations`, or the annotations that replace them.
    pub fn annotations(self) -> Option<&'a Object> {
        self.annotations.or_else(|| json::object(self.object, &["metadata", "annotations"]))
    }

    /// Returns `spec.containers`.
    pub fn containers(self) -> &'a [Value] {
        json::items(self.object, &["spec", "containers"])
    }

    /// Returns `spec.initContainers`.
    pub fn init_containers(self) -> &'a [Value] {
        json::items(self.object, &["spec", "initContainers"])
    }

    /// Returns `spec.volumes`.
    pub fn volumes(self) -> &'a [Value] {
        json::items(self.object, &["spec", "volumes"])
    }

    /// Returns the number of containers, volumes, and entries of the containers' lists.
    pub fn parts(self) -> usize {
        let lists = ["env", "ports", "volumeDevices", "volumeMounts"];
        let containers = ["containers", "initContainers", "ephemeralContainers"]
            .into_iter()
            .flat_map(|list| json::items(self.object, &["spec", list]));
        let of_containers = containers
            .map(|container| 1 + lists.iter().map(|list| json::items(container, &[list]).len()).sum::<usize>());
        self.volumes().len() + of_containers.sum::<usize>()
    }

    /// Whether a new Pod gets sidecars. A Pod with a deletion timestamp does not (MATCH-2); the API server drops the
    /// timestamp from manifests before it calls webhooks. The `status` is irrelevant: the API server drops it after the
    /// webhooks.
    pub fn is_injectable(self) -> bool {
        !json::is_terminating(self.object)
    }

    /// Whether the Pod ends: its `restartPolicy` is `Never` or `OnFailure`, or a Job owns it, whose template in a file may
    /// lack the field.
    pub fn ends(self) -> bool {
        self.belongs_to_job() || matches!(json::text(self.object, &["spec", "restartPolicy"]), "Never" | "OnFailure")
    }

    /// Whether a Job owns the Pod.
    pub fn belongs_to_job(self) -> bool {
        json::items(self.object, &["metadata", "ownerReferences"]).iter().any(|owner| {
            json::text(owner, &["kind"]) == "Job" && json::text(owner, &["apiVersion"]).starts_with("batch/")
        })
    }
}

/// Returns the name of a container, a volume or an environment variable.
pub fn name(item: &Value) -> &str {
    json::text(item, &["name"])
}

/// Whether a container was injected: its variable `IS_INJECTED` is `true`. If the variable appears several times, the
/// first one counts (INJ-15).
pub fn is_injected(container: &Value) -> bool {
    json::items(container, &["env"])
        .iter()
        .find(|variable| name(variable) == names::ENV_IS_INJECTED)
        .is_some_and(|variable| json::text(variable, &["value"]) == "true")
}

/// Returns the volumes that a container uses: mounts first, then those of [`volumes_used_without_mount`].
pub fn used_volumes(container: &Value) -> impl Iterator<Item = &str> {
    json::items(container, &["volumeMounts"]).iter().map(name).chain(volumes_used_without_mount(container))
}

/// Returns the volumes that a container uses without a mount: devices, and files with variables
/// (`env[].valueFrom.fileKeyRef`).
pub fn volumes_used_without_mount(container: &Value) -> impl Iterator<Item = &str> {
    let devices = json::items(container, &["volumeDevices"]).iter().map(name);
    let files = json::items(container, &["env"])
        .iter()
        .map(|variable| json::text(variable, &["valueFrom", "fileKeyRef", "volumeName"]))
        .filter(|name| !name.is_empty());
    devices.chain(files)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[test]
    fn parts_are_containers_volumes_and_what_containers_list() {
        let pod = json!({"spec": {
            "containers": [{"env": [{"name": "a"}, {"name": "b"}], "command": ["c", "d"]}, {"ports": [{}]}],
            "initContainers": [{"volumeMounts": [{}, {}, {}]}],
            "ephemeralContainers": [{"volumeDevices": [{}]}],
            "volumes": [{"name": "v"}, {"name": "w"}],
            "tolerations": [{}],
        }});
        assert_eq!(Pod::decode(&pod).unwrap().parts(), 4 + 2 + 1 + 3 + 1 + 2);
    }

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
    #[case::succeeded(json!({"status": {"phase": "Succeeded"}}), true)]
    #[case::failed(json!({"status": {"phase": "Failed"}}), true)]
    #[case::deleted(json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}), false)]
    #[case::null_deletion(json!({"metadata": {"deletionTimestamp": null}}), true)]
    fn match2_the_status_of_a_new_pod_is_not_looked_at(#[case] pod: Value, #[case] is_injectable: bool) {
        assert_eq!(Pod::decode(&pod).unwrap().is_injectable(), is_injectable);
    }

    /// If shorter annotations replace long ones, the length still shows that the rest is too long.
    #[rstest]
    #[case::within(10, 100)]
    #[case::too_long_without_the_annotations(150, 100)]
    #[case::too_long_with_them(60, 100)]
    fn e18_the_length_is_that_with_the_annotations_read(#[case] rest: usize, #[case] limit: usize) {
        let pod = json!({"metadata": {"annotations": {"a": "x".repeat(90)}}, "spec": {"nodeName": "n".repeat(rest)}});
        let shorter = json!({"a": "x"});
        let mut written = pod.clone();
        written["metadata"]["annotations"] = shorter.clone();
        let length = Pod::decode(&pod).unwrap().with_annotations(shorter.as_object().unwrap()).length(limit);
        let exact = written.to_string().len();
        assert_eq!(length > limit, exact > limit, "{length} of {exact}");
    }

    #[test]
    fn inj15_the_first_variable_of_the_name_tells_an_injected_container() {
        let with = |values: &[&str]| {
            let env: Vec<Value> = values.iter().map(|value| json!({"name": "IS_INJECTED", "value": value})).collect();
            is_injected(&json!({ "env": env }))
        };
        assert!(with(&["true"]) && with(&["true", "false"]));
        assert!(!with(&["True"]) && !with(&["false", "true"]) && !with(&[]));
    }
}
