use std::sync::{Arc, OnceLock};

use pillion_documents::manifest::{self, Manifest, Source};
use pillion_kubernetes::json;
use pillion_samples::strategies;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::object::{self, Shape, Verdict};
use crate::{Preview, Situation};

/// A set that shares mounts and selects every Pod with the label `tier: any`.
fn agent() -> Value {
    json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": "agent"},
        "spec": {
            "selector": {"matchLabels": {"tier": "any"}},
            "initContainers": [{"name": "pillion-setup", "image": "setup:1"}],
            "containers": [{
                "name": "pillion-agent", "image": "agent:1", "shareVolumePolicy": {"type": "enabled"},
                "volumeMounts": [{"name": "pillion-spool", "mountPath": "/pillion-spool"}]
            }],
            "volumes": [{"name": "pillion-spool", "emptyDir": {}}]
        }
    })
}

fn previewed(settings: Value) -> Preview {
    let situation =
        Situation { namespace: "default".to_owned(), assume_service_accounts: true, ..Situation::default() };
    let cluster = crate::cluster_of(std::iter::empty::<&Manifest>(), &situation, None);
    Preview::new(crate::module::load().unwrap(), settings, cluster, &situation)
}

fn preview() -> &'static Preview {
    static PREVIEW: OnceLock<Preview> = OnceLock::new();
    PREVIEW.get_or_init(|| previewed(json!({"sidecarSets": [agent()]})))
}

/// Modes in which the same set names a ServiceAccount.
const MODES: [&str; 2] = ["SidecarsOnly", "Isolate"];

fn with_identity(mode: usize) -> &'static Preview {
    static PREVIEWS: [OnceLock<Preview>; 2] = [OnceLock::new(), OnceLock::new()];
    PREVIEWS[mode].get_or_init(|| {
        let mut set = agent();
        set["spec"]["serviceAccountName"] = json!("robot");
        set["spec"]["serviceAccountMode"] = json!(MODES[mode]);
        previewed(json!({"featureGates": {"SidecarSetServiceAccountInjection": true}, "sidecarSets": [set]}))
    })
}

fn manifest(value: &Value) -> Manifest {
    // JSON: YAML's numbers are floats, and generated Pods may have other numbers.
    let source = Arc::new(Source::new("t", value.to_string()));
    manifest::parse(&source).unwrap().remove(0)
}

/// Returns the output for an object as JSON, and the sidecars that the policy reports; `None` if refused.
fn injected(object: &Value, shape: Shape) -> Option<(Value, String)> {
    injected_by(preview(), object, shape)
}

fn injected_by(preview: &Preview, object: &Value, shape: Shape) -> Option<(Value, String)> {
    let outcome = object::inject(&manifest(object), preview, shape, None).unwrap();
    let sidecars = match &outcome.said[0].verdict {
        Verdict::Injected(sidecars) | Verdict::Present(sidecars) => sidecars.clone(),
        Verdict::Unmatched => String::new(),
        Verdict::Refused(..)
        | Verdict::Forbidden(_)
        | Verdict::Malformed(_)
        | Verdict::NotAsked(_)
        | Verdict::Ignored(_) => return None,
    };
    Some((serde_json::to_value(&outcome.printed[0].after).unwrap(), sidecars))
}

fn is_ours(item: &Value) -> bool {
    json::text(item, &["name"]).starts_with("pillion-")
}

/// Removes everything that the set may add; the rest must equal the original.
fn without_sidecars(mut pod: Value, original: &Value) -> Value {
    for key in ["initContainers", "containers", "volumes"] {
        let had = json::at(original, &["spec", key]).is_some();
        let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) else { continue };
        if let Some(list) = spec.get_mut(key).and_then(Value::as_array_mut) {
            list.retain(|item| !is_ours(item));
            if list.is_empty() && !had {
                spec.remove(key);
            }
        }
    }
    let had = json::at(original, &["metadata", "annotations"]).is_some();
    let metadata = pod.get_mut("metadata").and_then(Value::as_object_mut).unwrap();
    if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
        annotations.retain(|key, _| !key.starts_with("kruise.io/sidecarset-"));
        if annotations.is_empty() && !had {
            metadata.remove("annotations");
        }
    }
    pod
}

/// Replaces numbers that no YAML parser reads.
fn without_infinity(value: &mut Value) {
    match value {
        Value::Number(number) if !number.as_f64().is_some_and(f64::is_finite) => *value = Value::Null,
        Value::Array(items) => items.iter_mut().for_each(without_infinity),
        Value::Object(entries) => entries.values_mut().for_each(without_infinity),
        _ => {}
    }
}

/// Valid Pods with the label that the set selects.
fn selected_pod() -> impl Strategy<Value = Value> {
    strategies::pod().prop_map(|mut pod| {
        without_infinity(&mut pod);
        pod["apiVersion"] = json!("v1");
        pod["kind"] = json!("Pod");
        pod["metadata"]["labels"]["tier"] = json!("any");
        let kept = pod["metadata"]["annotations"].as_object().cloned().unwrap_or_default();
        let kept: serde_json::Map<_, _> = kept.into_iter().filter(|(key, _)| !key.contains("sidecarset")).collect();
        pod["metadata"]["annotations"] = Value::Object(kept);
        pod
    })
}

fn deployment(pod: &Value) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"template": {"metadata": pod["metadata"], "spec": pod["spec"]}, "strategy": {"type": "Recreate"}}
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn nothing_but_sidecars_changes_in_a_pod(pod in selected_pod()) {
        if let Some((after, _)) = injected(&pod, Shape::Objects) {
            prop_assert_eq!(without_sidecars(after, &pod), pod);
        }
    }

    #[test]
    fn nothing_but_the_template_changes_in_a_workload(pod in selected_pod()) {
        let workload = deployment(&pod);
        if let Some((mut after, _)) = injected(&workload, Shape::Objects) {
            let template = after["spec"]["template"].take();
            let original = &workload["spec"]["template"];
            prop_assert_eq!(&without_sidecars(template, original), original);
            after["spec"]["template"] = original.clone();
            prop_assert_eq!(after, workload);
        }
    }

    #[test]
    fn what_came_out_comes_out_again(pod in selected_pod()) {
        let workload = deployment(&pod);
        if let Some((once, sidecars)) = injected(&workload, Shape::Objects) {
            let (twice, again) = injected(&once, Shape::Objects).unwrap();
            prop_assert_eq!(twice, once);
            prop_assert_eq!(again, sidecars);
        }
    }
}

/// Collects the values of every key `name` at any depth.
fn names(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| names(item, found)),
        Value::Object(entries) => {
            found.extend(entries.get("name").and_then(Value::as_str).map(str::to_owned));
            entries.values().for_each(|value| names(value, found));
        }
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn what_came_out_with_an_identity_comes_out_again(pod in selected_pod(), mode in 0..MODES.len()) {
        let workload = deployment(&pod);
        if let Some((once, sidecars)) = injected_by(with_identity(mode), &workload, Shape::Objects) {
            let (twice, again) = injected_by(with_identity(mode), &once, Shape::Objects).unwrap();
            prop_assert_eq!(twice, once);
            prop_assert_eq!(again, sidecars);
        }
    }

    /// TOK-3 for manifests.
    #[test]
    fn tok3_in_mode_isolate_nothing_but_sidecars_and_their_token_changes(pod in selected_pod()) {
        if let Some((mut after, _)) = injected_by(with_identity(1), &pod, Shape::Objects) {
            let volumes = after.pointer_mut("/spec/volumes").and_then(Value::as_array_mut).unwrap();
            let token = pillion_identity::names::token_volume("robot");
            volumes.retain(|volume| json::text(volume, &["name"]) != token);
            let annotations = after.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut).unwrap();
            annotations.remove(pillion_inject::order::OWN_CONTAINERS);
            prop_assert_eq!(without_sidecars(after, &pod), pod);
        }
    }

    #[test]
    fn the_token_that_the_api_server_mounts_is_never_printed(pod in selected_pod(), mode in 0..MODES.len()) {
        for shape in [Shape::Objects, Shape::Pods] {
            if let Some((after, _)) = injected_by(with_identity(mode), &deployment(&pod), shape) {
                let mut found = Vec::new();
                names(&after, &mut found);
                prop_assert!(!found.iter().any(|name| name == "kube-api-access-xxxxx"), "{}", after);
            }
        }
    }
}

#[test]
fn the_properties_are_about_injected_pods() {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"tier": "any"}},
        "spec": {"containers": [{"name": "app", "image": "i", "volumeMounts": [{"name": "d", "mountPath": "/d"}]}],
                 "volumes": [{"name": "d", "emptyDir": {}}]}
    });
    let (after, sidecars) = injected(&pod, Shape::Objects).unwrap();
    assert_eq!(sidecars, "agent/pillion-setup, agent/pillion-agent");
    assert_eq!(
        after.pointer("/spec/containers/0/volumeMounts"),
        Some(&json!([{"name": "pillion-spool", "mountPath": "/pillion-spool"}, {"name": "d", "mountPath": "/d"}])),
        "shared, but not the token"
    );
    assert_eq!(without_sidecars(after, &pod), pod);
    for (mode, account) in [Some("robot"), None].into_iter().enumerate() {
        let (after, _) = injected_by(with_identity(mode), &pod, Shape::Objects).unwrap();
        assert_eq!(after["spec"]["serviceAccountName"].as_str(), account);
        assert_eq!(json::items(&after, &["spec", "volumes"]).len(), 3, "the app's, the sidecar's, and the token");
    }
}

#[test]
fn workloads_come_out_as_pods_where_asked() {
    let pod = json!({"metadata": {"labels": {"tier": "any"}}, "spec": {"containers": [{"name": "app", "image": "i"}]}});
    let (after, _) = injected(&deployment(&pod), Shape::Pods).unwrap();
    assert_eq!(json::text(&after, &["kind"]), "Pod");
    assert_eq!(json::text(&after, &["metadata", "generateName"]), "web-preview-");
    let names: Vec<_> = json::items(&after, &["spec", "containers"]).iter().map(|c| json::text(c, &["name"])).collect();
    assert_eq!(names, ["pillion-agent", "app"]);
    assert_eq!(after.pointer("/spec/serviceAccountName"), None, "what the API server adds is not printed");
}
