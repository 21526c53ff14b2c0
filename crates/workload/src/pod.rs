//! The Pod that a controller creates from a template.

use pillion_kubernetes::json;
use serde_json::{Map, Value, json};

use crate::Template;

/// Placeholder for cluster-dependent values of a controller: a hash, a uid.
const UNKNOWN: &str = "preview";

/// Labels that controllers add, by the kind of the Pod's owner.
const LABELS: [(&str, &[&str]); 4] = [
    ("ReplicaSet", &["pod-template-hash"]),
    ("StatefulSet", &["controller-revision-hash"]),
    ("DaemonSet", &["controller-revision-hash", "pod-template-generation"]),
    ("Job", &["controller-uid", "batch.kubernetes.io/controller-uid"]),
];

/// Returns the Pod of a template of `object` as its controller sends it to the API server: the template's labels,
/// annotations, finalizers and spec, the namespace, the owner, and the controller's labels. A Pod stays unchanged,
/// except for a missing namespace, which the API server fills in.
///
/// Returns `None` if the object has nothing at the template's place.
pub fn of(object: &Value, template: &Template, namespace: &str) -> Option<Value> {
    let source = object.pointer(&template.pointer)?;
    let Some((api_version, kind)) = &template.owner else {
        let mut pod = source.clone();
        if json::text(&pod, &["metadata", "namespace"]).is_empty()
            // The policy refuses a Pod whose metadata is not an object.
            && let Some(metadata) = pod.as_object_mut().and_then(|pod| json::object_mut(pod, "metadata"))
        {
            metadata.insert("namespace".to_owned(), namespace.into());
        }
        return Some(pod);
    };
    let name = json::text(object, &["metadata", "name"]);
    let mut metadata = Map::new();
    for key in ["labels", "annotations", "finalizers"] {
        if let Some(value) = json::at(source, &["metadata", key]).filter(|value| !value.is_null()) {
            metadata.insert(key.to_owned(), value.clone());
        }
    }
    metadata.insert("namespace".to_owned(), namespace.into());
    metadata.insert("generateName".to_owned(), format!("{name}-").into());
    let owner = json!({
        "apiVersion": api_version, "kind": kind, "name": name, "uid": UNKNOWN,
        "controller": true, "blockOwnerDeletion": true
    });
    metadata.insert("ownerReferences".to_owned(), json!([owner]));
    if kind == "StatefulSet" {
        // Only StatefulSets create Pods with a name of their own.
        let start = json::at(object, &["spec", "ordinals", "start"]).and_then(Value::as_u64).unwrap_or_default();
        metadata.insert("name".to_owned(), format!("{name}-{start}").into());
    }
    if let Some(labels) = json::object_mut(&mut metadata, "labels") {
        for (key, value) in labels_of(kind, name) {
            labels.insert(key.to_owned(), value.into());
        }
    }
    let spec = source.get("spec").cloned().unwrap_or_default();
    Some(json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}))
}

fn labels_of<'a>(kind: &str, owner: &'a str) -> Vec<(&'static str, &'a str)> {
    let known = LABELS.iter().filter(|(maker, _)| *maker == kind).flat_map(|(_, labels)| *labels);
    let mut labels: Vec<(&str, &str)> = known.map(|label| (*label, UNKNOWN)).collect();
    if kind == "Job" {
        labels.extend([("job-name", owner), ("batch.kubernetes.io/job-name", owner)]);
    }
    labels
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::templates;

    fn made(object: &Value) -> Value {
        of(object, &templates(object)[0], "shop").unwrap()
    }

    fn workload(kind: &str) -> Value {
        json!({
            "apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "web", "labels": {"of": "workload"}},
            "spec": {"template": {
                "metadata": {"labels": {"app": "web"}, "annotations": {"a": "b"}, "name": "ignored"},
                "spec": {"containers": [{"name": "c", "image": "i"}], "priority": 7}
            }}
        })
    }

    #[test]
    fn the_pod_has_what_the_template_and_the_controller_give_it() {
        assert_eq!(
            made(&workload("Deployment")),
            json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {
                    "generateName": "web-", "namespace": "shop", "annotations": {"a": "b"},
                    "labels": {"app": "web", "pod-template-hash": "preview"},
                    "ownerReferences": [{
                        "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "preview",
                        "controller": true, "blockOwnerDeletion": true
                    }]
                },
                "spec": {"containers": [{"name": "c", "image": "i"}], "priority": 7}
            })
        );
    }

    #[test]
    fn pods_of_a_stateful_set_have_a_name() {
        let mut set = workload("StatefulSet");
        assert_eq!(made(&set)["metadata"]["name"], "web-0");
        set["spec"]["ordinals"] = json!({"start": 5});
        assert_eq!(made(&set)["metadata"]["name"], "web-5");
    }

    #[test]
    fn pods_of_a_job_are_labelled_with_its_name() {
        let labels = made(&workload("Job"))["metadata"]["labels"].clone();
        assert_eq!(labels["job-name"], "web");
        assert_eq!(labels["batch.kubernetes.io/job-name"], "web");
    }

    #[test]
    fn a_pod_stays_as_it_is_and_gets_a_namespace() {
        let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {}, "status": {}});
        let with = made(&pod);
        pod["metadata"]["namespace"] = json!("shop");
        assert_eq!(with, pod);
        pod["metadata"]["namespace"] = json!("other");
        assert_eq!(made(&pod), pod);
        pod["metadata"] = json!(3);
        assert_eq!(made(&pod), pod);
    }
}
