//! Products that no growth of a sample reaches, each just below a mebibyte.

use std::ops::Range;

use pillion_bench::corpus::pods::NAMESPACE;
use pillion_bench::corpus::requests::{Resource, create};
use pillion_fuzz::cost::judge::{LENGTH, costly};
use pillion_fuzz::cost::{Input, survey};
use rstest::rstest;
use serde_json::{Value, json};

use super::surveyed;

fn texts(count: Range<usize>, prefix: &str) -> Value {
    count.map(|index| format!("{prefix}{index:05}")).collect()
}

/// Returns a SidecarSet with the required fields and these.
fn set(name: &str, fields: &Value) -> Value {
    let mut set = json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "containers": [{"name": name, "image": "registry.example.com/agent:1.0"}],
        },
    });
    let fields = fields.as_object().cloned().unwrap_or_default();
    set["spec"].as_object_mut().unwrap().extend(fields);
    set
}

/// Returns the admission of a SidecarSet with these fields.
fn admission(fields: &Value, settings: &Value) -> Input {
    let mut settings = settings.clone();
    settings["featureGates"] = json!({
        "SidecarSetServiceAccountInjection": true, "SidecarSetPatchPodMetadataDefaultsAllowed": true,
    });
    let request = create(Resource::SIDECAR_SET, &set("agent", fields));
    Input::validate("sidecarset", request).with("settings", settings)
}

/// Returns an account and a namespace selector that selects these namespaces, or excludes them.
fn in_namespaces(operator: &str, namespaces: &Value) -> Value {
    let expression = json!({"key": "kubernetes.io/metadata.name", "operator": operator, "values": namespaces});
    json!({"serviceAccountName": "agent", "namespaceSelector": {"matchExpressions": [expression]}})
}

fn allowed(namespaces: &Value) -> Value {
    json!({"serviceAccounts": {"allowed": [{"namespaces": namespaces, "names": ["agent"]}]}})
}

fn permissions(rules: &Value) -> Value {
    json!({"serviceAccountName": "agent", "serviceAccountPermissions": rules})
}

/// Returns SidecarSets that each merge a member into one long annotation of the Pod.
fn merges() -> Input {
    let annotation: serde_json::Map<_, _> = (0..18_000).map(|index| (format!("key-{index:05}"), json!(1))).collect();
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "web", "namespace": NAMESPACE, "labels": {"app": "web"},
            "annotations": {"example.com/list": Value::Object(annotation).to_string()},
        },
        "spec": {"containers": [{"name": "web", "image": "registry.example.com/web:1.0"}]},
    });
    let patch = |index: usize| {
        let text = format!("{{\"set-{index:04}\":1,\"key-{index:05}\":null}}");
        let patch = json!({"patchPolicy": "MergePatchJson", "annotations": {"example.com/list": text}});
        set(&format!("agent-{index:04}"), &json!({"patchPodMetadata": [patch]}))
    };
    let sets: Vec<Value> = (0..250).map(patch).collect();
    Input::validate("pod", create(Resource::POD, &pod)).with("settings", json!({"sidecarSets": sets}))
}

#[rstest]
#[case::merges_and_a_long_annotation(merges())]
#[case::allowed_names_and_namespaces(admission(
    &in_namespaces("In", &texts(0..20_000, "namespace-")), &allowed(&texts(20_000..40_000, "namespace-")),
))]
#[case::allowed_globs_and_namespaces(admission(
    &in_namespaces("In", &texts(0..20_000, "namespace-")), &allowed(&texts(20_000..40_000, "n*space-")),
))]
#[case::allowed_globs_and_some_namespaces(admission(
    &in_namespaces("In", &texts(0..100, "namespace-")), &allowed(&texts(0..500, "n*m*space-*")),
))]
#[case::protected_and_selected_namespaces(admission(
    &in_namespaces("In", &texts(0..20_000, "namespace-")),
    &json!({"serviceAccounts": {"protectedNamespaces": texts(20_000..40_000, "namespace-")}}),
))]
#[case::protected_and_excluded_namespaces(admission(
    &in_namespaces("NotIn", &texts(0..20_000, "namespace-")),
    &json!({"serviceAccounts": {"protectedNamespaces": texts(0..20_000, "namespace-")}}),
))]
#[case::patterns_and_annotations(admission(
    &json!({"patchPodMetadata": [{"patchPolicy": "Retain", "annotations":
        (0..15_000).map(|index| (format!("example.com/{index:05}"), json!("1"))).collect::<serde_json::Map<_, _>>(),
    }]}),
    &json!({"patchPodMetadataWhitelist": {"rules": [{"allowedAnnotationKeyExprs": texts(15_000..30_000, "^example[.]com/")}]}}),
))]
#[case::verbs_that_grant_nothing(admission(
    &permissions(&json!([{"verbs": texts(0..80_000, "v")}])), &json!({}),
))]
#[case::rules_without_lists(admission(
    &permissions(&(0..30_000).map(|_| json!({"verbs": [], "resources": []})).collect()), &json!({}),
))]
#[case::unknown_fields_of_a_rule(admission(
    &permissions(&json!([(0..60_000)
        .map(|index| (format!("{index:05}"), json!(1)))
        .collect::<serde_json::Map<_, _>>()])),
    &json!({}),
))]
#[case::granted_and_denied_permissions(admission(
    &permissions(&json!([{"apiGroups": [""], "resources": ["pods"], "verbs": texts(0..4_096, "verb")}])),
    &json!({"serviceAccounts": {"denyPermissions": [
        {"apiGroups": [""], "resources": ["pods"], "verbs": texts(4_096..8_192, "verb")},
    ]}}),
))]
fn e18_suspected_products(#[case] input: Input) {
    let Some((counter, _)) = surveyed() else { return };
    assert!(input.length().unwrap() < LENGTH, "{} bytes", input.length().unwrap());
    let took = survey::evaluate(counter, &input).unwrap();
    eprintln!("{took:?}");
    assert_eq!(costly(took), None);
}
