use rstest::rstest;
use serde_json::json;

use super::*;

const OFF: Asked<'_> = Asked { native_sidecars: NativeSidecars::Off, rollouts: None };

fn set(value: Value) -> SidecarSet {
    let mut object = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": "a"}});
    if let (Some(object), Value::Object(more)) = (object.as_object_mut(), value) {
        object.extend(more);
    }
    SidecarSet::from_decoded(object)
}

fn of_container(container: &Value) -> SidecarSet {
    set(json!({"spec": {"containers": [container]}}))
}

fn told(set: &SidecarSet, asked: Asked<'_>, minor: u32) -> Vec<String> {
    let line = |shortfall: Shortfall| format!("{}: {}; {}", shortfall.path, shortfall.message, shortfall.remedy);
    shortfalls(set, asked, KubernetesVersion(minor)).into_iter().map(line).collect()
}

#[rstest]
#[case::absent(
    33,
    "spec.containers[0].env[0].valueFrom.fileKeyRef: variables from files need Kubernetes 1.35, or 1.34 with the feature \
     gate EnvFiles; this cluster has 1.33, where the API server drops the field, or refuses the Pods; update the cluster \
     to 1.35, or remove this"
)]
#[case::behind_a_gate(
    34,
    "spec.containers[0].env[0].valueFrom.fileKeyRef: variables from files need the feature gate EnvFiles in Kubernetes \
     1.34, the version of this cluster; if it is off, the API server drops the field, or refuses the Pods; turn the gate on in \
     the API server and the kubelets, or remove this"
)]
#[case::there(35, "")]
#[case::later(99, "")]
fn field4_a_field_needs_a_version(#[case] minor: u32, #[case] expected: &str) {
    let set = of_container(&json!({"name": "a", "env": [
        {"name": "A", "valueFrom": {"fileKeyRef": {"volumeName": "v", "path": "p", "key": "k"}}},
    ]}));
    assert_eq!(told(&set, OFF, minor).join("\n"), expected);
}

#[test]
fn field4_a_field_that_no_version_has_by_default_needs_its_gate() {
    let set = set(json!({"spec": {"volumes": [{"name": "v", "emptyDir": {"mode": 511}}]}}));
    assert_eq!(
        told(&set, OFF, 36),
        ["spec.volumes[0].emptyDir.mode: modes of emptyDir volumes need Kubernetes 1.37 with the feature gate \
          EmptyDirVolumeMode; this cluster has 1.36, where the API server drops the field, or refuses the Pods; remove this"]
    );
    assert_eq!(told(&set, OFF, 37).len(), 1);
}

#[rstest]
#[case::plain(json!({"spec": {"containers": [{"name": "a", "restartPolicy": "Never"}]}}), 34, "spec.containers[0].restartPolicy")]
#[case::rules(json!({"spec": {"containers": [{"name": "a", "restartPolicyRules": []}]}}), 34, "spec.containers[0].restartPolicyRules")]
#[case::init(json!({"spec": {"initContainers": [{"name": "a", "restartPolicy": "Never"}]}}), 34, "spec.initContainers[0].restartPolicy")]
#[case::native(json!({"spec": {"initContainers": [{"name": "a", "restartPolicy": "Always"}]}}), 28, "spec.initContainers[0].restartPolicy")]
#[case::native_by_annotation(
    json!({"metadata": {"annotations": {"pillion.dev/native": "EndingPods"}}, "spec": {"containers": [{"name": "a"}]}}),
    28,
    "metadata.annotations[pillion.dev/native]"
)]
#[case::known_for_long(json!({"spec": {"containers": [{"name": "a", "resources": {"claims": []}}]}}), 20, "")]
#[case::unknown(json!({"spec": {"containers": [{"name": "a", "shiny": true}]}}), 20, "")]
#[case::of_another_type(json!({"spec": {"containers": [{"name": "a", "mode": "TLS"}]}}), 20, "")]
fn field4_each_place_is_told(#[case] object: Value, #[case] minor: u32, #[case] path: &str) {
    let set = set(object);
    let paths: Vec<String> =
        shortfalls(&set, OFF, KubernetesVersion(minor)).into_iter().map(|shortfall| shortfall.path).collect();
    assert_eq!(paths.join(" "), path);
    assert_eq!(told(&set, OFF, minor + 1), Vec::<String>::new());
}

#[rstest]
#[case::native(NativeSidecars::Always, &[], 28, "spec.containers")]
#[case::resize(NativeSidecars::Off, &["Resize"], 32, "spec.updateStrategy")]
fn field4_settings_ask_for_every_sidecar_set(
    #[case] native_sidecars: NativeSidecars,
    #[case] policies: &[&str],
    #[case] minor: u32,
    #[case] path: &str,
) {
    let rollouts: RolloutSettings = serde_json::from_value(json!({"upgradePolicies": policies})).unwrap();
    let asked = Asked { native_sidecars, rollouts: Some(&rollouts) };
    let set = of_container(&json!({"name": "a"}));
    let found = shortfalls(&set, asked, KubernetesVersion(minor));
    assert_eq!(found.iter().map(|shortfall| shortfall.path.as_str()).collect::<Vec<_>>(), [path]);
    assert!(found.iter().all(|shortfall| !shortfall.is_certain), "{found:?}");
    assert!(shortfalls(&set, asked, KubernetesVersion(minor - 1)).iter().all(|shortfall| shortfall.is_certain));
    // A SidecarSet of the settings is never rolled out.
    let never = Asked { rollouts: None, ..asked };
    assert_eq!(shortfalls(&set, never, KubernetesVersion(32)), []);
}

#[test]
fn field4_an_annotation_for_resizes_is_the_place() {
    let rollouts = RolloutSettings::default();
    let set = set(json!({
        "metadata": {"annotations": {"pillion.dev/upgrade-policy": "Resize"}}, "spec": {"containers": [{"name": "a"}]},
    }));
    let asked = Asked { rollouts: Some(&rollouts), ..OFF };
    assert_eq!(
        told(&set, asked, 31),
        [
            "metadata.annotations[pillion.dev/upgrade-policy]: resizes of running Pods need Kubernetes 1.33, or 1.32 with \
          the feature gate InPlacePodVerticalScaling; this cluster has 1.31, where rollouts resize nothing; update the \
          cluster to 1.33, or remove this"
        ]
    );
}

#[test]
fn field4_no_field_belongs_to_two_features() {
    let mut fields: Vec<NewField> = FEATURES.iter().flat_map(|feature| feature.fields.iter().copied()).collect();
    let count = fields.len();
    fields.sort_by_key(|field| (field.owner, field.key));
    fields.dedup();
    assert_eq!(fields.len(), count);
}
