//! The Pod that a controller creates from a template.

use pillion_kubernetes::json::{self, Object};
use serde_json::{Value, json};

use crate::controllers::{Owner, Parts, UNKNOWN};
use crate::{OwnerKind, Template};

/// Returns the Pod of a template of `object` as its controller sends it to the API server: the template's labels,
/// annotations, finalizers and spec, the namespace, the owner, and what the kind's controller adds. A Pod stays
/// unchanged, except for a missing namespace, which the API server fills in.
///
/// It has no name unless the controller gives it one: the API server makes a name of `generateName` only after the
/// webhooks that may change a Pod.
///
/// Returns `None` if the object has nothing at the template's place.
pub fn from_template(object: &Value, template: &Template, namespace: &str) -> Option<Value> {
    let source = object.pointer(&template.pointer)?;
    let Some(OwnerKind { api_version, kind }) = &template.owner else {
        let mut pod = source.clone();
        if json::text(&pod, &["metadata", "namespace"]).is_empty()
            // The policy refuses a Pod whose metadata is not an object.
            && let Some(metadata) = pod.as_object_mut().and_then(|pod| json::object_mut(pod, "metadata"))
        {
            metadata.insert("namespace".to_owned(), namespace.into());
        }
        return Some(pod);
    };
    let name = owner_name(object, kind);
    let mut metadata = Object::new();
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
    let mut parts = Parts { metadata, spec: source.get("spec").cloned().unwrap_or_default() };
    Owner { object, template, kind, name: &name }.complete(&mut parts);
    let Parts { metadata, spec } = parts;
    Some(json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}))
}

/// Returns the name of the Pod's owner. If another kind makes the owner, it adds to its own name what a preview cannot
/// know: a hash, a time.
fn owner_name(object: &Value, kind: &str) -> String {
    let name = json::text(object, &["metadata", "name"]);
    if json::text(object, &["kind"]) == kind { name.to_owned() } else { format!("{name}-{UNKNOWN}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::templates;

    fn made(object: &Value) -> Value {
        from_template(object, &templates(object)[0], "shop").unwrap()
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
                    "generateName": "web-preview-", "namespace": "shop", "annotations": {"a": "b"},
                    "labels": {"app": "web", "pod-template-hash": "preview"},
                    "ownerReferences": [{
                        "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-preview", "uid": "preview",
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
        set["spec"]["serviceName"] = json!("headless");
        let pod = made(&set);
        assert_eq!(pod["metadata"]["name"], "web-5");
        assert_eq!(pod["metadata"]["labels"]["apps.kubernetes.io/pod-index"], "5");
        assert_eq!((&pod["spec"]["hostname"], &pod["spec"]["subdomain"]), (&json!("web-5"), &json!("headless")));
    }

    #[test]
    fn pods_of_a_stateful_set_have_its_claims_as_volumes() {
        let mut set = workload("StatefulSet");
        set["spec"]["volumeClaimTemplates"] = json!([{"metadata": {"name": "data"}}]);
        let claim = json!({"name": "data", "persistentVolumeClaim": {"claimName": "data-web-0"}});
        assert_eq!(made(&set)["spec"]["volumes"], json!([claim]));
    }

    #[test]
    fn pods_of_a_clone_set_have_a_name_and_its_claims() {
        let mut set = workload("CloneSet");
        set["spec"]["volumeClaimTemplates"] = json!([{"metadata": {"name": "data"}}]);
        let pod = made(&set);
        assert_eq!(pod["metadata"]["name"], "web-preview");
        assert_eq!(pod["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"], "data-web-preview");
    }

    #[test]
    fn pods_of_a_daemon_set_tolerate_the_taints_of_nodes() {
        let mut set = workload("DaemonSet");
        let own = json!({"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5});
        set["spec"]["template"]["spec"]["tolerations"] = json!([own]);
        let tolerations = made(&set)["spec"]["tolerations"].clone();
        assert_eq!(tolerations.as_array().unwrap().len(), 6);
        assert_eq!(tolerations[0].get("tolerationSeconds"), None, "the controller's replaces it");
        set["spec"]["template"]["spec"]["hostNetwork"] = json!(true);
        assert_eq!(made(&set)["spec"]["tolerations"][6]["key"], "node.kubernetes.io/network-unavailable");
    }

    #[test]
    fn pods_of_a_job_are_labelled_with_its_name() {
        let labels = made(&workload("Job"))["metadata"]["labels"].clone();
        assert_eq!(labels["job-name"], "web");
        assert_eq!(labels["batch.kubernetes.io/job-name"], "web");
        let mut job = workload("Job");
        job["spec"]["manualSelector"] = json!(true);
        assert_eq!(made(&job)["metadata"]["labels"], json!({"app": "web"}));
    }

    #[test]
    fn pods_of_an_indexed_job_know_their_index() {
        let mut job = workload("Job");
        job["spec"]["completionMode"] = json!("Indexed");
        job["spec"]["template"]["spec"]["containers"][0]["env"] = json!([{"name": "A"}]);
        let pod = made(&job);
        assert_eq!((&pod["metadata"]["generateName"], &pod["spec"]["hostname"]), (&json!("web-0-"), &json!("web-0")));
        assert_eq!(pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"], "0");
        assert_eq!(pod["spec"]["containers"][0]["env"][1]["name"], "JOB_COMPLETION_INDEX");
    }

    #[test]
    fn a_replica_set_does_not_label_its_pods_and_a_rollout_does() {
        let labels = |kind: &str| made(&workload(kind))["metadata"]["labels"].clone();
        assert_eq!(labels("ReplicaSet"), json!({"app": "web"}));
        assert_eq!(labels("Rollout"), json!({"app": "web", "rollouts-pod-template-hash": "preview"}));
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
