use rstest::rstest;
use serde_json::json;

use super::*;
use crate::sidecar_set::decode::{Decoded, decode};

fn manifest(version: &str, spec: &Value) -> Value {
    let mut object = json!({
        "apiVersion": format!("apps.kruise.io/{version}"), "kind": "SidecarSet", "metadata": {"name": "s"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "containers": [{"name": "c", "image": "i:1"}]},
    });
    for (key, value) in spec.as_object().unwrap() {
        object["spec"][key] = value.clone();
    }
    object
}

fn told(object: Value, old: Option<Value>, rollouts: &[RolloutSettings]) -> Vec<String> {
    let decoded = decode(object).unwrap();
    let old = old.map(|old| decode(old).unwrap()).map(Decoded::into_sidecar_set);
    let written = Written { object: decoded.object(), version: decoded.version(), old: old.as_ref(), rollouts };
    let mut found = unknown_fields(written.object, written.version, &["ours"]);
    found.extend(about_values(&written));
    found.iter().map(ToString::to_string).collect()
}

#[rstest]
#[case::of_a_container(
    json!({"containers": [{"name": "c", "image": "i:1", "imagge": "x"}]}),
    "spec.containers[0].imagge: unknown field; it is kept and injected, but rollouts do not see changes to it; did you \
     mean \"image\"?"
)]
#[case::of_a_volume(
    json!({"containers": [{"name": "c", "image": "i:1", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}],
           "volumes": [{"name": "v", "emptyDir": {}, "of_tomorrow": 1}]}),
    "spec.volumes[0].of_tomorrow: unknown field; it is kept and injected; correct its name or its indentation, or remove \
     it"
)]
#[case::of_the_spec(
    json!({"strategy": {"type": "RollingUpdate"}}),
    "spec.strategy: unknown field; nothing reads it; correct its name or its indentation, or remove it"
)]
#[case::of_a_container_beside_it(
    json!({"podInjectPolicy": "BeforeAppContainer"}),
    "spec.podInjectPolicy: unknown field; nothing reads it; correct its name or its indentation, or remove it"
)]
#[case::of_a_revision_beside_it(
    json!({"injectionStrategy": {"revisionName": "s-1"}}),
    "spec.injectionStrategy.revisionName: unknown field; nothing reads it; correct its name or its indentation, or \
     remove it"
)]
#[case::almost_one_of_others(json!({"our": 1}), "spec.our: unknown field; nothing reads it; did you mean \"ours\"?")]
#[case::namespace(
    json!({"namespace": "prod"}),
    "spec.namespace: unknown field; nothing reads it; v1beta1 has no such field: without it every namespace is meant; use \
     namespaceSelector with matchLabels kubernetes.io/metadata.name"
)]
fn warn3_the_effect_of_an_unknown_field_depends_on_its_place(#[case] spec: Value, #[case] expected: &str) {
    assert_eq!(told(manifest("v1beta1", &spec), None, &[]), [expected]);
}

#[test]
fn warn3_further_fields_of_the_spec_are_known_there_only() {
    assert_eq!(told(manifest("v1beta1", &json!({"ours": 1})), None, &[]), [""; 0]);
    let elsewhere = json!({"containers": [{"name": "c", "image": "i:1", "ours": 1}]});
    assert_eq!(told(manifest("v1beta1", &elsewhere), None, &[]).len(), 1);
}

#[test]
fn warn4_values_that_nothing_knows_are_told() {
    let spec = json!({
        "initContainers": [
            {"name": "i", "image": "i:1", "shareVolumePolicy": {"type": "Enabled"}, "podInjectPolicy": "BeforeApp"}
        ],
        "containers": [{
            "name": "c", "image": "i:1", "upgradeStrategy": {"upgradeType": "hotUpgrade"},
            "shareVolumeDevicePolicy": {"type": "disabled | enabled"},
        }],
        "patchPodMetadata": [{"patchPolicy": "overwrite", "annotations": {"a": "b"}}],
    });
    assert_eq!(
        told(manifest("v1beta1", &spec), None, &[]),
        [
            "spec.initContainers[0].podInjectPolicy: \"BeforeApp\" means nothing here; the default is used; use \
             BeforeAppContainer or AfterAppContainer",
            "spec.initContainers[0].shareVolumePolicy.type: \"Enabled\" means nothing here; the default is used; did you \
             mean \"enabled\"?",
            "spec.containers[0].shareVolumeDevicePolicy.type: \"disabled | enabled\" means nothing here; the default is \
             used; use enabled or disabled",
            "spec.containers[0].upgradeStrategy.upgradeType: \"hotUpgrade\" means nothing here; the default is used; did \
             you mean \"HotUpgrade\"?",
            "spec.patchPodMetadata[0].patchPolicy: \"overwrite\" means nothing here; these annotations are not patched; \
             did you mean \"Overwrite\"?",
        ]
    );
}

const NO_VARIABLE: &str =
    "spec.containers[0].transferEnv[0]: this entry names no variable, so nothing is copied; set envName or envNames";
const NO_SOURCE: &str = "spec.containers[0].transferEnv[0]: this entry names no source container, so nothing is copied; set \
                         sourceContainerName or sourceContainerNameFrom";

#[rstest]
#[case::no_variable(json!({"sourceContainerName": "app"}), &[NO_VARIABLE])]
#[case::empty_variables(json!({"sourceContainerName": "app", "envNames": [""]}), &[NO_VARIABLE])]
#[case::no_source(json!({"envName": "A"}), &[NO_SOURCE])]
#[case::nothing(json!({}), &[NO_VARIABLE, NO_SOURCE])]
#[case::both(json!({"sourceContainerName": "app", "envNames": ["A"]}), &[])]
#[case::from_a_field(
    json!({"sourceContainerNameFrom": {"fieldRef": {"fieldPath": "metadata.labels['a']"}}, "envName": "A"}), &[]
)]
fn warn5_a_transfer_that_copies_nothing_is_told(#[case] entry: Value, #[case] expected: &[&str]) {
    let spec = json!({"containers": [{"name": "c", "image": "i:1", "transferEnv": [entry]}]});
    assert_eq!(told(manifest("v1beta1", &spec), None, &[]), expected);
}

#[rstest]
#[case::both("v1alpha1", json!({"namespace": "staging", "namespaceSelector": {"matchLabels": {"on": "yes"}}}), &[
    "spec.namespaceSelector: the selector has no effect beside spec.namespace: namespace \"staging\" alone counts; remove \
     one of the two, or write v1beta1 and add the label kubernetes.io/metadata.name to the selector"
])]
#[case::namespace("v1alpha1", json!({"namespace": "staging"}), &[])]
#[case::an_empty_namespace("v1alpha1", json!({"namespace": "", "namespaceSelector": {"matchLabels": {"on": "yes"}}}), &[])]
#[case::an_empty_selector("v1alpha1", json!({"namespace": "staging", "namespaceSelector": {}}), &[])]
#[case::selector("v1beta1", json!({"namespaceSelector": {"matchLabels": {"on": "yes"}}}), &[])]
fn api10_warn6_a_selector_that_the_namespace_replaces_is_told(
    #[case] version: &str,
    #[case] spec: Value,
    #[case] expected: &[&str],
) {
    assert_eq!(told(manifest(version, &spec), None, &[]), expected);
}

const ALWAYS: &str = "spec.containers[0].imagePullPolicy: imagePullPolicy is not written, and with this image it changes from Always to \
                      IfNotPresent; so more than images changes, and running Pods are not upgraded in place; write \
                      imagePullPolicy: Always";
const IF_NOT_PRESENT: &str = "spec.containers[0].imagePullPolicy: imagePullPolicy is not written, and with this image it changes from \
                              IfNotPresent to Always; so more than images changes, and running Pods are not upgraded in \
                              place; write imagePullPolicy: IfNotPresent";

#[rstest]
#[case::a_tag_that_comes(json!({"image": "i"}), json!({"image": "i:1"}), &[ALWAYS])]
#[case::a_tag_that_goes(json!({"image": "i:1"}), json!({"image": "i:latest"}), &[IF_NOT_PRESENT])]
#[case::it_was_written_before(json!({"image": "i", "imagePullPolicy": "Always"}), json!({"image": "i:1"}), &[ALWAYS])]
#[case::it_is_written(json!({"image": "i"}), json!({"image": "i:1", "imagePullPolicy": "Always"}), &[])]
#[case::it_is_written_anew(json!({"image": "i"}), json!({"image": "i:1", "imagePullPolicy": "IfNotPresent"}), &[])]
#[case::the_same_default(json!({"image": "i:1"}), json!({"image": "i:2"}), &[])]
#[case::the_image_stays(json!({"image": "i:1", "imagePullPolicy": "Always"}), json!({"image": "i:1"}), &[])]
#[case::more_changes_anyway(json!({"image": "i"}), json!({"image": "i:1", "args": ["a"]}), &[])]
fn def5_warn7_a_pull_policy_that_changes_with_the_image_is_told(
    #[case] old: Value,
    #[case] new: Value,
    #[case] expected: &[&str],
    #[values("v1alpha1", "v1beta1")] version: &str,
) {
    let with = |mut container: Value| {
        container["name"] = json!("c");
        manifest(version, &json!({"containers": [container]}))
    };
    assert_eq!(told(with(new.clone()), Some(with(old.clone())), &[]), expected);
    assert_eq!(told(with(new.clone()), None, &[]), [""; 0], "a SidecarSet that is created");
    let [mut new, old] = [new, old].map(with);
    new["spec"]["updateStrategy"] = json!({"type": "NotUpdate"});
    assert_eq!(told(new, Some(old), &[]), [""; 0], "running Pods stay as they are in any case");
}

#[test]
fn def5_warn7_each_container_whose_pull_policy_changes_is_told() {
    let with = |tag: &str| {
        let container = |name: &str| json!({"name": name, "image": format!("i{tag}")});
        let mut native = container("n");
        native["restartPolicy"] = json!("Always");
        manifest("v1beta1", &json!({"initContainers": [native], "containers": [container("a"), container("b")]}))
    };
    let fields: Vec<String> =
        told(with(":1"), Some(with("")), &[]).iter().map(|text| text.split_once(": ").unwrap().0.to_owned()).collect();
    let expected = ["spec.initContainers[0]", "spec.containers[0]", "spec.containers[1]"];
    assert_eq!(fields, expected.map(|container| format!("{container}.imagePullPolicy")));
}

#[rstest]
#[case::variable(
    json!({"containers": [{"name": "c", "image": "i:1", "env": [{"name": "A"}, {"name": "KRUISE_CONTAINER_PRIORITY", "value": "1"}]}]}),
    &["spec.containers[0].env[1].name: OpenKruise looks for launch priorities before pillion serve injects, since webhooks \
       are called by name; make it an init container with restartPolicy Always, which starts first"]
)]
#[case::annotation(
    json!({"patchPodMetadata": [{"annotations": {"apps.kruise.io/container-launch-priority": "Ordered"}}]}),
    &["spec.patchPodMetadata[0].annotations[apps.kruise.io/container-launch-priority]: OpenKruise looks for launch \
       priorities before pillion serve injects, since webhooks are called by name; write the annotation into the Pods' \
       template"]
)]
#[case::of_an_init_container(
    json!({"initContainers": [{"name": "i", "image": "i:1", "env": [{"name": "KRUISE_CONTAINER_PRIORITY", "value": "1"}]}]}),
    &[]
)]
fn warn8_launch_priorities_are_told(#[case] spec: Value, #[case] expected: &[&str]) {
    assert_eq!(told(manifest("v1beta1", &spec), None, &[]), expected);
}

#[rstest]
#[case::paused(
    json!({"injectionStrategy": {"paused": true}}),
    "spec.injectionStrategy.paused: injection is paused: no new Pod gets this SidecarSet; set it to false to inject"
)]
#[case::no_pod(
    json!({"selector": {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}}),
    "spec.selector: the requirements contradict each other: no Pod can be selected; all of them have to hold at once; \
     remove one"
)]
#[case::no_namespace(
    json!({"namespaceSelector": {"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "DoesNotExist"}]}}),
    "spec.namespaceSelector: the requirements contradict each other: no namespace can be selected; all of them have to \
     hold at once; remove one"
)]
#[case::a_volume(
    json!({"volumes": [{"name": "v", "emptyDir": {}}]}),
    "spec.volumes[0].name: no container of this SidecarSet uses the volume; it is not injected; mount it, or remove it"
)]
fn warn1_what_no_pod_gets_is_told(#[case] spec: Value, #[case] expected: &str) {
    assert_eq!(told(manifest("v1beta1", &spec), None, &[]), [expected]);
}

#[rstest]
#[case::never_rolled_out(json!({"pillion.dev/rollback": "true"}), None, false)]
#[case::without_a_deadline(json!({"pillion.dev/rollback": "true"}), Some(json!({})), true)]
#[case::with_one_for_all(json!({"pillion.dev/rollback": "true"}), Some(json!({"progressDeadline": "1m"})), false)]
#[case::with_one_of_its_own(
    json!({"pillion.dev/rollback": "true", "pillion.dev/progress-deadline": "1m"}), Some(json!({})), false
)]
#[case::with_none_for_this_one(
    json!({"pillion.dev/rollback": "true", "pillion.dev/progress-deadline": "0"}),
    Some(json!({"progressDeadline": "1m"})), true
)]
#[case::not_asked_for(json!({"pillion.dev/rollback": "false"}), Some(json!({})), false)]
fn roll62_a_rollback_that_never_happens_is_told(
    #[case] annotations: Value,
    #[case] rollouts: Option<Value>,
    #[case] is_told: bool,
) {
    let mut object = manifest("v1beta1", &json!({}));
    object["metadata"]["annotations"] = annotations;
    let rollouts: Vec<RolloutSettings> =
        rollouts.into_iter().map(|rollouts| serde_json::from_value(rollouts).unwrap()).collect();
    let expected = "metadata.annotations[pillion.dev/rollback]: no rollout fails without a progress deadline, so nothing \
                    ever goes back; add the annotation pillion.dev/progress-deadline, as in \"10m\"";
    assert_eq!(told(object, None, &rollouts), if is_told { vec![expected] } else { vec![] });
}

#[rstest]
#[case::in_all_pods(json!({"pillion.dev/native": "Always"}), json!({}), true)]
#[case::with_the_strategy_written(
    json!({"pillion.dev/native": "Always"}), json!({"updateStrategy": {"type": "RollingUpdate"}}), true
)]
#[case::in_pods_that_end(json!({"pillion.dev/native": "EndingPods"}), json!({}), false)]
#[case::upgraded(json!({"pillion.dev/native": "Always", "pillion.dev/native-upgrade": "true"}), json!({}), false)]
#[case::recreated(
    json!({"pillion.dev/native": "Always", "pillion.dev/upgrade-policy": "Resize, Recreate"}), json!({}), false
)]
#[case::only_resized(json!({"pillion.dev/native": "Always", "pillion.dev/upgrade-policy": "Resize"}), json!({}), true)]
#[case::never_rolled_out(
    json!({"pillion.dev/native": "Always"}), json!({"updateStrategy": {"type": "NotUpdate"}}), false
)]
#[case::without_containers(json!({"pillion.dev/native": "Always"}), json!({"containers": []}), false)]
fn warn9_native_sidecars_of_all_pods_need_a_way_to_be_upgraded(
    #[case] annotations: Value,
    #[case] spec: Value,
    #[case] expected: bool,
) {
    let mut object = manifest("v1beta1", &spec);
    object["metadata"]["annotations"] = annotations;
    let wanted = "metadata.annotations[pillion.dev/native]: new images reach no running Pod, since those of native \
                  sidecars do not change in place; set the annotation pillion.dev/native-upgrade to \"true\", or add \
                  Recreate to pillion.dev/upgrade-policy";
    let found = told(object.clone(), None, &[RolloutSettings::default()]);
    assert_eq!(found, if expected { vec![wanted] } else { vec![] });
    assert_eq!(told(object.clone(), None, &[]), [""; 0], "a SidecarSet of the settings is not rolled out");
    let recreate = RolloutSettings {
        upgrade_policies: vec![crate::upgrades::UpgradePolicy::Recreate],
        ..RolloutSettings::default()
    };
    let by_settings = object["metadata"]["annotations"].get("pillion.dev/upgrade-policy").is_none();
    assert!(!by_settings || told(object, None, &[recreate]).is_empty());
}
