//! The shape of manifests: errors for which the API server refuses them before it asks a policy.
//!
//! A workload with an invalid Pod template must not pass for an object that creates no Pods.

use pillion_kubernetes::field::{Cause, FieldError, FieldPath};
use pillion_kubernetes::json;
use pillion_kubernetes::words::nearest;
use pillion_sidecarset::tables::{
    self, Field,
    Kind::{self, Any, Bool, Int32, Int64, Object, Objects, QuantityMap, Text, TextMap},
    Omit, Table,
};
use serde_json::Value;

use pillion_documents::kinds::{self, did_you_mean};

/// Returns all errors in metadata and Pod templates for which the API server refuses an object; empty for objects that
/// are not Kubernetes objects.
pub fn problems(object: &Value) -> Vec<FieldError> {
    let is_text = |key: &str| json::at(object, &[key]).is_some_and(Value::is_string);
    if !is_text("kind") {
        return no_kind(object).into_iter().collect();
    }
    if let Some(error) = kinds::misspelt(object) {
        return vec![error];
    }
    if !is_text("apiVersion") {
        return Vec::new();
    }
    let mut errors = Vec::new();
    let kind = kinds::pod_kind(object);
    // The metadata of a Pod is checked with the Pod.
    if let Some(metadata) = object.get("metadata").filter(|_| kind.is_none_or(|kind| !kind.steps.is_empty())) {
        types(metadata, &tables::OBJECT_META, &FieldPath::new("metadata"), &mut errors);
    }
    errors.extend(list(object));
    if let Some(kind) = kind {
        match template(object, kind) {
            Ok((value, path)) => pod(value, &FieldPath::new(&path), &mut errors),
            Err(error) => errors.push(error),
        }
    }
    errors
}

/// Returns the error of an object with an apiVersion and metadata, but no kind. A bare AdmissionRequest is exempt: its
/// kind is an object, and it has no apiVersion.
fn no_kind(object: &Value) -> Option<FieldError> {
    let entries = object.as_object()?;
    if !json::at(object, &["apiVersion"]).is_some_and(Value::is_string) || !entries.contains_key("metadata") {
        return None;
    }
    let path = FieldPath::default();
    match entries.get("kind").filter(|kind| !kind.is_null()) {
        None => Some(missing(entries, &["kind"], &path, "say what the object is")),
        Some(kind) => Some(FieldError::wrong_type("kind", "a string", kind)),
    }
}

/// Returns errors that the API server tolerates and that may be mistakes: misspelt optional fields, and invalid Pod
/// templates in objects of unknown kinds.
pub fn doubts(object: &Value) -> Vec<FieldError> {
    let Some(kind) = kinds::pod_kind(object) else {
        let mut found = Vec::new();
        let is_schema = json::text(object, &["apiVersion"]).starts_with("apiextensions.k8s.io/");
        if !is_schema && json::at(object, &["kind"]).is_some_and(Value::is_string) {
            search(object, &FieldPath::default(), crate::DEPTH, &mut found);
        }
        return found;
    };
    let Ok((value, path)) = template(object, kind) else { return Vec::new() };
    let parts = [("", &POD_TEMPLATE), ("metadata", &tables::OBJECT_META), ("spec", &POD_SPEC)];
    let mut found = Vec::new();
    for (key, table) in parts {
        let path = FieldPath::new(&path);
        let (part, path) = if key.is_empty() { (Some(value), path) } else { (value.get(key), path.child(key)) };
        let Some(entries) = part.and_then(Value::as_object) else { continue };
        for name in entries.keys().filter(|name| table.field(name).is_none()) {
            let absent = table.fields.iter().map(|field| field.name).filter(|known| !entries.contains_key(*known));
            if let Some(meant) = nearest(name, absent) {
                found.push(unknown(&path, name, meant));
            }
        }
    }
    found
}

fn unknown(path: &FieldPath<'_>, name: &str, meant: &str) -> FieldError {
    FieldError::new(path.child(name), Cause::Unknown, did_you_mean(meant))
}

/// Returns the error for a missing required field: the misspelt key, or that there is none.
fn missing(entries: &json::Object, wanted: &[&str], path: &FieldPath<'_>, detail: &str) -> FieldError {
    let misspelt = entries
        .keys()
        .filter(|key| !wanted.contains(&key.as_str()))
        .find_map(|key| nearest(key, wanted.iter().copied()).map(|meant| unknown(path, key, meant)));
    misspelt.unwrap_or_else(|| match wanted {
        [only] => FieldError::required(path.child(only), detail),
        several => FieldError::required(path, format!("one of {}", several.join(", "))),
    })
}

/// Returns the Pod template of an object of this kind, and its path.
fn template<'a>(object: &'a Value, kind: &kinds::Kind) -> Result<(&'a Value, String), FieldError> {
    let mut value = object;
    let mut path = String::new();
    for wanted in kind.steps {
        let at = FieldPath::new(&path);
        let Some(entries) = value.as_object() else {
            return Err(FieldError::wrong_type(at, "an object", value));
        };
        let found = wanted.iter().find_map(|key| Some((*key, entries.get(*key).filter(|value| !value.is_null())?)));
        let Some((key, below)) = found else {
            return Err(missing(entries, wanted, &at, &format!("a {} makes Pods of a template", kind.name)));
        };
        value = below;
        path = at.child(key).to_string();
    }
    Ok((value, path))
}

/// Checks the types of the fields of `value` in `table`, as the API server decodes them.
fn types(value: &Value, table: &'static Table, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    if !value.is_null() {
        tables::decode(&mut value.clone(), table, path, errors);
    }
}

/// Adds all errors in a Pod or a Pod template.
fn pod(value: &Value, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    types(value, &POD_TEMPLATE, path, errors);
    let Some(entries) = value.as_object() else { return };
    let path_of_spec = path.child("spec");
    match entries.get("spec").filter(|spec| !spec.is_null()) {
        None => errors.push(missing(entries, &["spec"], path, "say which containers the Pod has")),
        Some(Value::Object(spec)) => {
            containers(spec, &path_of_spec, errors);
            for key in ["initContainers", "volumes"] {
                named(json::items(spec.get(key).unwrap_or(&Value::Null), &[]), &path_of_spec.child(key), errors);
            }
        }
        // `types` already reported the wrong type.
        Some(_) => {}
    }
}

fn containers(spec: &json::Object, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    const DETAIL: &str = "a Pod has at least one container";
    match spec.get("containers").filter(|containers| !containers.is_null()) {
        None => errors.push(missing(spec, &["containers"], path, DETAIL)),
        Some(Value::Array(items)) if items.is_empty() => {
            errors.push(FieldError::required(path.child("containers"), DETAIL));
        }
        Some(Value::Array(items)) => named(items, &path.child("containers"), errors),
        Some(_) => {}
    }
}

/// Checks that the items of a list have names.
fn named(items: &[Value], path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    let empty = json::Object::new();
    for (index, item) in items.iter().enumerate() {
        let entries = match item {
            Value::Null => &empty,
            Value::Object(entries) => entries,
            _ => continue,
        };
        if matches!(entries.get("name"), None | Some(Value::Null)) {
            errors.push(missing(entries, &["name"], &path.index(index), "give it a name"));
        } else if json::text(item, &["name"]).is_empty() && item.get("name").is_some_and(Value::is_string) {
            errors.push(FieldError::required(path.index(index).child("name"), "give it a name"));
        }
    }
}

/// Returns the error in the items of a v1 `List`.
fn list(object: &Value) -> Option<FieldError> {
    let entries = object.as_object()?;
    let is_list = json::text(object, &["apiVersion"]) == "v1" && json::text(object, &["kind"]) == "List";
    match entries.get("items") {
        _ if !is_list => None,
        None | Some(Value::Null) => Some(missing(entries, &["items"], &FieldPath::default(), "a List has items")),
        Some(Value::Array(_)) => None,
        Some(other) => Some(FieldError::wrong_type("items", "a list", other)),
    }
}

/// Adds errors of values in an object of an unknown kind that look like Pod templates and are invalid.
fn search(value: &Value, path: &FieldPath<'_>, depth: usize, found: &mut Vec<FieldError>) {
    let Some(depth) = depth.checked_sub(1) else { return };
    match value {
        Value::Object(entries) => {
            for (key, value) in entries {
                let path = path.child(key);
                if crate::is_template(key, value) {
                    continue;
                }
                let before = found.len();
                if crate::is_named_as_template(key)
                    && let Some(spec) = value.get("spec").and_then(Value::as_object)
                    && (spec.contains_key("containers") || spec.contains_key("container"))
                {
                    containers(spec, &path.child("spec"), found);
                    if !matches!(spec.get("containers"), None | Some(Value::Array(_) | Value::Null)) {
                        found.push(FieldError::new(
                            path.child("spec").child("containers"),
                            Cause::Type,
                            "must be a list",
                        ));
                    }
                }
                if found.len() == before {
                    search(value, &path, depth, found);
                }
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                search(item, &path.index(index), depth, found);
            }
        }
        _ => {}
    }
}

const fn field(name: &'static str, kind: Kind) -> Field {
    Field { name, kind, omit: Omit::Absent }
}

/// The fields of a Pod template, which a Pod has, too.
static POD_TEMPLATE: Table = Table {
    name: "PodTemplateSpec",
    fields: &[field("metadata", Object(&tables::OBJECT_META)), field("spec", Object(&POD_SPEC))],
};

/// The fields of a Pod's spec in Kubernetes 1.34. Of nested objects, only those of containers and volumes are checked.
static POD_SPEC: Table = Table {
    name: "PodSpec",
    fields: &[
        field("activeDeadlineSeconds", Int64),
        field("affinity", Any),
        field("automountServiceAccountToken", Bool),
        field("containers", Objects(&tables::SIDECAR_CONTAINER)),
        field("dnsConfig", Any),
        field("dnsPolicy", Text),
        field("enableServiceLinks", Bool),
        field("ephemeralContainers", Any),
        field("hostAliases", Any),
        field("hostIPC", Bool),
        field("hostNetwork", Bool),
        field("hostPID", Bool),
        field("hostUsers", Bool),
        field("hostname", Text),
        field("hostnameOverride", Text),
        field("imagePullSecrets", Objects(&REFERENCE)),
        field("initContainers", Objects(&tables::SIDECAR_CONTAINER)),
        field("nodeName", Text),
        field("nodeSelector", TextMap),
        field("os", Any),
        field("overhead", QuantityMap),
        field("preemptionPolicy", Text),
        field("priority", Int32),
        field("priorityClassName", Text),
        field("readinessGates", Any),
        field("resourceClaims", Any),
        field("resources", Any),
        field("restartPolicy", Text),
        field("runtimeClassName", Text),
        field("schedulerName", Text),
        field("schedulingGates", Any),
        field("securityContext", Any),
        field("serviceAccount", Text),
        field("serviceAccountName", Text),
        field("setHostnameAsFQDN", Bool),
        field("shareProcessNamespace", Bool),
        field("subdomain", Text),
        field("terminationGracePeriodSeconds", Int64),
        field("tolerations", Any),
        field("topologySpreadConstraints", Any),
        field("volumes", Objects(&tables::VOLUME)),
    ],
};

static REFERENCE: Table = Table { name: "LocalObjectReference", fields: &[field("name", Text)] };

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn texts(errors: &[FieldError]) -> Vec<String> {
        errors.iter().map(ToString::to_string).collect()
    }

    fn deployment(template: &Value) -> Value {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {"template": template}})
    }

    const AT_LEAST_ONE: &str = "spec.template.spec.containers: Required value: a Pod has at least one container";

    #[rstest]
    #[case::misspelt(json!({"container": [{"name": "a"}]}), "spec.template.spec.container: Unknown field: did you mean \"containers\"?")]
    #[case::object(json!({"containers": {}}), "spec.template.spec.containers: Invalid value: must be a list, found an object")]
    #[case::empty(json!({"containers": []}), AT_LEAST_ONE)]
    #[case::null(json!({"containers": null}), AT_LEAST_ONE)]
    #[case::missing(json!({}), AT_LEAST_ONE)]
    #[case::no_name(json!({"containers": [{"image": "a"}]}), "spec.template.spec.containers[0].name: Required value: give it a name")]
    #[case::misspelt_name(json!({"containers": [{"nmae": "a"}]}), "spec.template.spec.containers[0].nmae: Unknown field: did you mean \"name\"?")]
    #[case::empty_name(json!({"containers": [{"name": ""}]}), "spec.template.spec.containers[0].name: Required value: give it a name")]
    #[case::null_item(json!({"containers": [null]}), "spec.template.spec.containers[0].name: Required value: give it a name")]
    #[case::text_item(json!({"containers": ["a"]}), "spec.template.spec.containers[0]: Invalid value: must be an object, found a string")]
    #[case::number_for_a_name(json!({"containers": [{"name": 7}]}), "spec.template.spec.containers[0].name: Invalid value: must be a string, found a number; put it in quotes")]
    #[case::number_for_an_image(json!({"containers": [{"name": "a", "image": 5}]}), "spec.template.spec.containers[0].image: Invalid value: must be a string, found a number; put it in quotes")]
    #[case::init_containers(json!({"containers": [{"name": "a"}], "initContainers": {}}), "spec.template.spec.initContainers: Invalid value: must be a list, found an object")]
    #[case::init_container(json!({"containers": [{"name": "a"}], "initContainers": [{}]}), "spec.template.spec.initContainers[0].name: Required value: give it a name")]
    #[case::volume(json!({"containers": [{"name": "a"}], "volumes": [{"emptyDir": {}}]}), "spec.template.spec.volumes[0].name: Required value: give it a name")]
    #[case::text_for_a_flag(json!({"containers": [{"name": "a"}], "hostNetwork": "true"}), "spec.template.spec.hostNetwork: Invalid value: must be a boolean, found a string; write it without quotes")]
    #[case::node_selector(json!({"containers": [{"name": "a"}], "nodeSelector": {"gpu": true}}), "spec.template.spec.nodeSelector[gpu]: Invalid value: must be a string, found a boolean; put it in quotes")]
    fn pod_specs_that_no_api_server_takes(#[case] spec: Value, #[case] expected: &str) {
        assert_eq!(texts(&problems(&deployment(&json!({ "spec": spec })))), [expected]);
    }

    #[rstest]
    #[case::spec("/spec", "spce", "spce: Unknown field: did you mean \"spec\"?")]
    #[case::template("/spec/template", "tmplate", "spec.tmplate: Unknown field: did you mean \"template\"?")]
    #[case::spec_of_the_template(
        "/spec/template/spec",
        "sepc",
        "spec.template.sepc: Unknown field: did you mean \"spec\"?"
    )]
    #[case::another_word(
        "/spec/template",
        "pods",
        "spec.template: Required value: a Deployment makes Pods of a template"
    )]
    fn fields_on_the_way_to_the_template_may_be_misspelt(
        #[case] pointer: &str,
        #[case] key: &str,
        #[case] expected: &str,
    ) {
        let mut object = deployment(&json!({"spec": {"containers": [{"name": "a"}]}}));
        let (parent, old) = pointer.rsplit_once('/').unwrap();
        let parent = object.pointer_mut(parent).unwrap().as_object_mut().unwrap();
        let value = parent.remove(old).unwrap();
        parent.insert(key.to_owned(), value);
        assert_eq!(texts(&problems(&object)), [expected]);
    }

    #[rstest]
    #[case::pod("v1", "Pod", "spec: Required value")]
    #[case::pod_template("v1", "PodTemplate", "template: Required value")]
    #[case::replication_controller("v1", "ReplicationController", "spec: Required value")]
    #[case::replica_set("apps/v1", "ReplicaSet", "spec: Required value")]
    #[case::stateful_set("apps/v1", "StatefulSet", "spec: Required value")]
    #[case::daemon_set("apps/v1", "DaemonSet", "spec: Required value")]
    #[case::job("batch/v1", "Job", "spec: Required value")]
    #[case::cron_job("batch/v1", "CronJob", "spec: Required value")]
    #[case::clone_set("apps.kruise.io/v1alpha1", "CloneSet", "spec: Required value")]
    #[case::advanced_cron_job("apps.kruise.io/v1alpha1", "AdvancedCronJob", "spec: Required value")]
    #[case::united_deployment("apps.kruise.io/v1alpha1", "UnitedDeployment", "spec: Required value")]
    #[case::rollout("argoproj.io/v1alpha1", "Rollout", "spec: Required value")]
    fn every_kind_needs_its_template(#[case] api_version: &str, #[case] kind: &str, #[case] expected: &str) {
        let object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "a"}});
        let found = texts(&problems(&object));
        assert!(found.len() == 1 && found[0].starts_with(expected), "{found:?}");
    }

    #[test]
    fn one_of_several_templates_is_enough() {
        let mut object = json!({
            "apiVersion": "apps.kruise.io/v1alpha1", "kind": "UnitedDeployment", "metadata": {"name": "a"},
            "spec": {"template": {"cloneSetTemplat": {"spec": {"template": {"spec": {"containers": [{"name": "a"}]}}}}}}
        });
        let expected = "spec.template.cloneSetTemplat: Unknown field: did you mean \"cloneSetTemplate\"?";
        assert_eq!(texts(&problems(&object)), [expected]);
        let template = object["spec"]["template"].as_object_mut().unwrap();
        let value = template.remove("cloneSetTemplat").unwrap();
        template.insert("cloneSetTemplate".to_owned(), value);
        assert_eq!(problems(&object), []);
        object["spec"]["template"] = json!({});
        assert_eq!(
            texts(&problems(&object)),
            [
                "spec.template: Required value: one of statefulSetTemplate, advancedStatefulSetTemplate, cloneSetTemplate, \
              deploymentTemplate"
            ]
        );
    }

    #[rstest]
    #[case::namespace(json!({"namespace": 5}), "metadata.namespace: Invalid value: must be a string, found a number; put it in quotes")]
    #[case::name(json!({"name": true}), "metadata.name: Invalid value: must be a string, found a boolean; put it in quotes")]
    #[case::label(json!({"labels": {"v": 1.0}}), "metadata.labels[v]: Invalid value: must be a string, found a number; put it in quotes")]
    #[case::annotation(json!({"annotations": {"v": true}}), "metadata.annotations[v]: Invalid value: must be a string, found a boolean; put it in quotes")]
    #[case::labels(json!({"labels": ["a"]}), "metadata.labels: Invalid value: must be an object, found a list")]
    #[case::metadata(json!(3), "metadata: Invalid value: must be an object, found a number")]
    fn metadata_is_looked_at_everywhere(#[case] metadata: Value, #[case] expected: &str) {
        let spec = json!({"containers": [{"name": "a"}]});
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec});
        assert_eq!(texts(&problems(&pod)), [expected]);
        let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata});
        assert_eq!(texts(&problems(&service)), [expected]);
        let mut workload = deployment(&json!({"metadata": metadata, "spec": spec}));
        assert_eq!(texts(&problems(&workload)), [format!("spec.template.{expected}")]);
        workload["metadata"] = metadata;
        workload["spec"]["template"]["metadata"] = json!({});
        assert_eq!(texts(&problems(&workload)), [expected]);
    }

    #[rstest]
    #[case::none(json!({"apiVersion": "apps/v1", "metadata": {}}), "kind: Required value: say what the object is")]
    #[case::misspelt(json!({"apiVersion": "apps/v1", "knd": "Deployment", "metadata": {}}), "knd: Unknown field: did you mean \"kind\"?")]
    #[case::number(json!({"apiVersion": "apps/v1", "kind": 5, "metadata": {}}), "kind: Invalid value: must be a string, found a number")]
    #[case::number_for_a_version(json!({"apiVersion": 1, "kind": "Pod", "metadata": {}}), "apiVersion: Required value: a Pod has v1")]
    fn objects_say_what_they_are(#[case] object: Value, #[case] expected: &str) {
        assert_eq!(texts(&problems(&object)), [expected]);
    }

    #[rstest]
    #[case::no_items(json!({"apiVersion": "v1", "kind": "List"}), "items: Required value: a List has items")]
    #[case::misspelt(json!({"apiVersion": "v1", "kind": "List", "item": []}), "item: Unknown field: did you mean \"items\"?")]
    #[case::object(json!({"apiVersion": "v1", "kind": "List", "items": {}}), "items: Invalid value: must be a list, found an object")]
    fn lists_that_cannot_be_read(#[case] object: Value, #[case] expected: &str) {
        assert_eq!(texts(&problems(&object)), [expected]);
    }

    #[rstest]
    #[case::deployment(deployment(&json!({"metadata": {"labels": {"a": "1"}, "creationTimestamp": null}, "spec": {"containers": [{"name": "a", "newer": 1}], "volumes": null, "newer": {}}})))]
    #[case::values_of_a_chart(json!({"kind": "Deployment", "replicas": 3}))]
    #[case::no_kind(json!({"metadata": {"name": 5}}))]
    #[case::settings(json!({"sidecarSets": []}))]
    #[case::review(json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"namespace": "a"}}))]
    #[case::bare_request(json!({"kind": {"kind": "Pod"}, "operation": "CREATE"}))]
    #[case::custom_resource(json!({"apiVersion": "example.com/v1", "kind": "Thing", "spec": {"template": {"spec": {"containers": []}}}}))]
    fn other_manifests_are_fine(#[case] object: Value) {
        assert_eq!(problems(&object), []);
    }

    #[rstest]
    #[case::init_container(deployment(&json!({"spec": {"containers": [{"name": "a"}], "initContainer": []}})), &["spec.template.spec.initContainer: Unknown field: did you mean \"initContainers\"?"])]
    #[case::labels(deployment(&json!({"metadata": {"label": {}}, "spec": {"containers": [{"name": "a"}]}})), &["spec.template.metadata.label: Unknown field: did you mean \"labels\"?"])]
    #[case::metadata(deployment(&json!({"metdata": {}, "spec": {"containers": [{"name": "a"}]}})), &["spec.template.metdata: Unknown field: did you mean \"metadata\"?"])]
    #[case::newer_field(deployment(&json!({"spec": {"containers": [{"name": "a"}], "somethingNew": 1}})), &[])]
    #[case::both(deployment(&json!({"spec": {"containers": [{"name": "a"}], "volumes": [], "volume": 1}})), &[])]
    #[case::unknown_kind(json!({"apiVersion": "example.com/v1", "kind": "Thing", "spec": {"podTemplate": {"spec": {"containers": []}}}}), &["spec.podTemplate.spec.containers: Required value: a Pod has at least one container"])]
    #[case::unknown_kind_of_another_shape(json!({"apiVersion": "example.com/v1", "kind": "Thing", "spec": {"template": {"spec": {"containers": {}}}}}), &["spec.template.spec.containers: Invalid value: must be a list"])]
    #[case::unknown_kind_misspelt(json!({"apiVersion": "example.com/v1", "kind": "Thing", "spec": {"template": {"spec": {"container": []}}}}), &["spec.template.spec.container: Unknown field: did you mean \"containers\"?"])]
    #[case::schema(json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "spec": {"template": {"spec": {"containers": {}}}}}), &[])]
    fn doubts_are_told(#[case] object: Value, #[case] expected: &[&str]) {
        assert_eq!(texts(&doubts(&object)), expected);
    }
}
