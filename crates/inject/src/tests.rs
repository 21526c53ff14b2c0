//! Tests of a whole injection. Tests of single rules are in their modules.

mod converted;

use pillion_identity::decision::Asking;
use pillion_identity::declared::Declared;
use pillion_sidecarset::sidecar_set::origin::Origin;
use pillion_sidecarset::sidecar_set::prepare::prepared;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;

const NOW: Context<'_> =
    Context { now: Timestamp(1_767_323_045), sort_by_name: false, hides_tokens: None, other_webhooks: None };
const LATER: Context<'_> =
    Context { now: Timestamp(1_800_000_000), sort_by_name: false, hides_tokens: None, other_webhooks: None };

/// Returns a SidecarSet for the Pods `app: x`, with these lists of sidecars.
pub(crate) fn set(name: &str, spec: Value) -> SidecarSet {
    let mut spec = spec;
    spec["selector"] = json!({"matchLabels": {"app": "x"}});
    prepared(&SidecarSet::from_decoded(json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": name}, "spec": spec
    })))
}

/// Returns what a SidecarSet asks for that names the account `x`.
pub(crate) fn asking(set: &str) -> Asking {
    Asking {
        sidecar_set: set.to_owned(),
        account: "x".to_owned(),
        declared: Declared::default(),
        origin: Origin::Settings,
    }
}

/// A Pod after injection.
#[derive(Debug)]
struct Injected {
    pod: Value,
    sidecars: BTreeMap<String, Vec<String>>,
    warnings: Vec<String>,
}

fn run(pod: &Value, sets: &[SidecarSet], context: Context<'_>) -> Result<Injected, Vec<Reason>> {
    let decoded = Pod::decode(pod).unwrap();
    let changes = plan(decoded, sets, context)?;
    let (is_certain, mut after) = (changes.is_certain(decoded), pod.clone());
    let super::Injected { sidecars, warnings } = changes.apply(&mut after);
    assert!(!is_certain || after != *pod, "not changed, which was certain");
    Ok(Injected { pod: after, sidecars, warnings })
}

fn injected(pod: &Value, sets: &[SidecarSet]) -> Injected {
    run(pod, sets, NOW).unwrap()
}

fn refusal(pod: &Value, sets: &[SidecarSet]) -> String {
    let reasons = run(pod, sets, NOW).unwrap_err();
    pillion_kubernetes::outcome::Refusal::from_reasons(reasons).unwrap().message()
}

fn names<'a>(pod: &'a Value, list: &str) -> Vec<&'a str> {
    json::items(pod, &["spec", list]).iter().map(pod::name).collect()
}

fn item<'a>(pod: &'a Value, list: &str, name: &str) -> &'a Value {
    json::items(pod, &["spec", list]).iter().find(|item| pod::name(item) == name).unwrap()
}

fn annotation<'a>(pod: &'a Value, key: &str) -> &'a str {
    json::text(pod, &["metadata", "annotations", key])
}

fn golden_pod() -> Value {
    json!({
        "metadata": {"name": "p", "labels": {"app": "x", "c": "app"}},
        "spec": {
            "initContainers": [{"name": "i0"}],
            "containers": [{
                "name": "app",
                "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}, {"name": "POD", "value": "p"}],
                "volumeMounts": [
                    {"name": "data", "mountPath": "/data", "subPathExpr": "$(POD)/x"},
                    {"name": "kube-api-access-abc", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}
                ]
            }],
            "volumes": [{"name": "data", "emptyDir": {}}, {"name": "kube-api-access-abc", "projected": {}}]
        }
    })
}

fn golden_set() -> SidecarSet {
    set(
        "s1",
        json!({
            "volumes": [
                {"name": "data", "hostPath": {"path": "/x"}}, {"name": "own", "emptyDir": {}}, {"name": "unused", "emptyDir": {}}
            ],
            "imagePullSecrets": [{"name": "sec"}],
            "initContainers": [
                {"name": "z-init", "image": "z:1"},
                {"name": "a-native", "image": "n:1", "restartPolicy": "Always", "podInjectPolicy": "BeforeAppContainer"}
            ],
            "containers": [
                {
                    "name": "cold", "image": "cold:1", "env": [{"name": "B", "value": "own"}],
                    "shareVolumePolicy": {"type": "enabled"},
                    "transferEnv": [
                        {"sourceContainerName": "app", "envNames": ["B", "A"]},
                        {
                            "sourceContainerNameFrom": {"fieldRef": {"fieldPath": "metadata.labels['c']"}},
                            "envName": "POD"
                        }
                    ],
                    "volumeMounts": [{"name": "own", "mountPath": "/own"}, {"name": "data", "mountPath": "/d2"}]
                },
                {
                    "name": "mesh", "image": "mesh:1", "podInjectPolicy": "AfterAppContainer",
                    "upgradeStrategy": {"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": "empty:1"}
                }
            ]
        }),
    )
}

/// INJ-17, INJ-18, INJ-20, INJ-21, INJ-22, INJ-25: one Pod covers them all.
#[test]
fn inj29_diff18_golden_sample() {
    let Injected { pod, sidecars, warnings } = injected(&golden_pod(), &[golden_set()]);

    assert_eq!(names(&pod, "initContainers"), ["a-native", "i0", "z-init"]);
    assert_eq!(names(&pod, "containers"), ["cold", "app", "mesh-1", "mesh-2"]);
    assert_eq!(names(&pod, "volumes"), ["data", "kube-api-access-abc", "own"]);
    assert_eq!(item(&pod, "volumes", "data"), &json!({"name": "data", "emptyDir": {}}));
    assert_eq!(names(&pod, "imagePullSecrets"), ["sec"]);

    let cold = item(&pod, "containers", "cold");
    assert_eq!(
        cold["env"],
        json!([
            {"name": "B", "value": "own"}, {"name": "IS_INJECTED", "value": "true"},
            {"name": "A", "value": "1"}, {"name": "POD", "value": "p"}
        ])
    );
    assert_eq!(
        cold["volumeMounts"],
        json!([
            {"name": "own", "mountPath": "/own"}, {"name": "data", "mountPath": "/d2"},
            {"name": "data", "mountPath": "/data", "subPathExpr": "$(POD)/x"},
            {"name": "kube-api-access-abc", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}
        ])
    );
    for key in container::SIDECAR_FIELDS {
        assert_eq!(cold.get(key), None, "{key}");
    }

    assert_eq!(item(&pod, "containers", "mesh-1")["image"], "mesh:1");
    assert_eq!(item(&pod, "containers", "mesh-2")["image"], "empty:1");
    assert_eq!(
        item(&pod, "containers", "mesh-2")["env"],
        json!([
            {"name": "IS_INJECTED", "value": "true"},
            {"name": "SIDECARSET_VERSION", "valueFrom": {"fieldRef": {
                "fieldPath": "metadata.annotations['version.sidecarset.kruise.io/mesh-2']"}}},
            {"name": "SIDECARSET_VERSION_ALT", "valueFrom": {"fieldRef": {
                "fieldPath": "metadata.annotations['versionalt.sidecarset.kruise.io/mesh-2']"}}}
        ])
    );

    let records: Value = serde_json::from_str(annotation(&pod, names::HASH)).unwrap();
    assert_eq!(records["s1"]["sidecarList"], json!(["a-native", "cold", "mesh"]));
    assert_eq!(records["s1"]["updateTimestamp"], "2026-01-02T03:04:05Z");
    assert_eq!(annotation(&pod, names::INJECTED_LIST), "s1");
    assert_eq!(annotation(&pod, names::WORKING_HOT_UPGRADE), r#"{"mesh":"mesh-1"}"#);
    for (key, value) in [
        ("version.sidecarset.kruise.io/mesh-1", "1"),
        ("version.sidecarset.kruise.io/mesh-2", "0"),
        ("versionalt.sidecarset.kruise.io/mesh-1", "0"),
        ("versionalt.sidecarset.kruise.io/mesh-2", "1"),
    ] {
        assert_eq!(annotation(&pod, key), value, "{key}");
    }

    assert_eq!(*sidecars.get("s1").unwrap(), ["a-native", "z-init", "cold", "mesh-1", "mesh-2"]);
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("volume \"data\" is already in the Pod"), "{warnings:?}");
}

#[test]
fn order3_admitting_an_injected_pod_again_changes_nothing() {
    let once = injected(&golden_pod(), &[golden_set()]).pod;
    assert_eq!(run(&once, &[golden_set()], LATER).unwrap().pod, once);
}

#[test]
fn admitting_again_after_the_api_server_mounted_tokens_changes_nothing() {
    let mut once = injected(&golden_pod(), &[golden_set()]).pod;
    for list in ["initContainers", "containers"] {
        for container in once["spec"][list].as_array_mut().unwrap() {
            let mounts = json::list_mut(container.as_object_mut().unwrap(), "volumeMounts").unwrap();
            if !mounts.iter().any(|mount| mount["mountPath"] == "/var/run/secrets/kubernetes.io/serviceaccount") {
                mounts.push(json!({
                    "name": "kube-api-access-abc", "readOnly": true,
                    "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"
                }));
            }
        }
    }
    assert_eq!(run(&once, &[golden_set()], LATER).unwrap().pod, once);
}

#[test]
fn a_sidecar_that_was_tampered_with_is_written_again() {
    let once = injected(&golden_pod(), &[golden_set()]).pod;
    let mut tampered = once.clone();
    tampered["spec"]["containers"][0]["command"] = json!(["sleep", "infinity"]);
    assert_eq!(run(&tampered, &[golden_set()], LATER).unwrap().pod, once);
}

/// Another webhook mirrors images and adds a proxy and a CA bundle, and the API server calls Pillion again.
#[test]
fn order8_what_another_webhook_changed_is_set_back_with_a_warning() {
    let spec = json!({
        "containers": [{"name": "agent", "image": "agent:1", "shareVolumePolicy": {"type": "enabled"}}],
        "initContainers": [{"name": "setup", "image": "setup:1"}],
    });
    let sets = [set("logs", spec)];
    let app =
        json!({"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "app", "image": "app:1"}]}});
    let once = injected(&app, &sets);
    assert_eq!(once.warnings, [""; 0], "nothing is set back at first");
    let (mut changed, mut wanted) = (once.pod.clone(), once.pod.clone());
    for list in ["initContainers", "containers"] {
        for container in changed["spec"][list].as_array_mut().unwrap() {
            container["image"] = format!("mirror.example.com/{}", container["image"].as_str().unwrap()).into();
            let container = container.as_object_mut().unwrap();
            json::list_mut(container, "env").unwrap().push(json!({"name": "HTTP_PROXY", "value": "proxy:3128"}));
        }
    }
    let mount = json!([{"name": "ca", "mountPath": "/etc/ssl/certs"}]);
    changed["spec"]["containers"][0]["volumeMounts"] = mount.clone();
    let again = run(&changed, &sets, LATER).unwrap();
    let rest = "; let the webhook that changed it skip the sidecar, or edit the SidecarSet";
    assert_eq!(
        again.warnings,
        [
            format!("SidecarSet logs: setup: set back image, env[HTTP_PROXY]{rest}"),
            format!("SidecarSet logs: agent: set back image, env[HTTP_PROXY], volumeMounts[ca]{rest}"),
        ]
    );
    wanted["spec"]["containers"][1] = changed["spec"]["containers"][1].clone();
    assert_eq!(again.pod, wanted, "the app keeps what it got");
    assert_eq!(run(&again.pod, &sets, LATER).unwrap().warnings, [""; 0]);

    // The sidecar gets a mount that the app has now. Nobody had changed the sidecar.
    let mut shared = once.pod;
    shared["spec"]["containers"][1]["volumeMounts"] = mount;
    let again = run(&shared, &sets, LATER).unwrap();
    assert_eq!(again.warnings, [""; 0]);
    assert_eq!(item(&again.pod, "containers", "agent")["volumeMounts"][0]["name"], "ca");
}

#[test]
fn a_sidecar_that_was_tampered_with_is_no_source() {
    let once = injected(&golden_pod(), &[golden_set()]).pod;
    let mut tampered = once.clone();
    tampered["spec"]["containers"][0] = json!({
        "name": "cold", "image": "other:1", "env": [{"name": "A", "value": "theirs"}],
        "volumeMounts": [{"name": "data", "mountPath": "/theirs"}]
    });
    assert_eq!(run(&tampered, &[golden_set()], LATER).unwrap().pod, once);
}

#[test]
fn pasted_annotations_do_not_switch_a_sidecar_off() {
    let once = injected(&golden_pod(), &[golden_set()]).pod;
    let mut pasted = golden_pod();
    pasted["metadata"]["annotations"] = once["metadata"]["annotations"].clone();
    assert_eq!(run(&pasted, &[golden_set()], LATER).unwrap().pod, once);
}

#[test]
fn a_merge_patch_is_stable_when_admitted_again() {
    let patch = |name: &str, text: &str| {
        set(
            name,
            json!({
                "containers": [{"name": name, "image": "i:1"}],
                "patchPodMetadata": [{"patchPolicy": "MergePatchJson", "annotations": {"k": text, "broken": "{"}}]
            }),
        )
    };
    let sets = [patch("a", r#"{"z": null, "b": 1}"#)];
    let once = injected(&golden_pod(), &sets).pod;
    assert_eq!(annotation(&once, "k"), r#"{"z": null, "b": 1}"#);
    assert_eq!(run(&once, &sets, LATER).unwrap().pod, once);
}

#[test]
fn a_merge_into_an_empty_annotation_is_stable_when_admitted_again() {
    let patches = json!([
        {"patchPolicy": "Retain", "annotations": {"k": "text"}},
        {"patchPolicy": "MergePatchJson", "annotations": {"k": "{\"b\": 1}"}}
    ]);
    let sets = [set("a", json!({"containers": [{"name": "a", "image": "i:1"}], "patchPodMetadata": patches}))];
    let mut pod = golden_pod();
    pod["metadata"]["annotations"] = json!({"k": ""});
    let once = injected(&pod, &sets).pod;
    assert_eq!(annotation(&once, "k"), r#"{"b": 1}"#);
    assert_eq!(run(&once, &sets, LATER).unwrap().pod, once);
}

#[test]
fn inj26_a_volume_that_only_another_set_declares_is_warned_about_unless_it_is_injected() {
    let mounts = json!([{"name": "v", "mountPath": "/v"}]);
    let user = set("a", json!({"containers": [{"name": "a", "image": "i:1", "volumeMounts": mounts}]}));
    let owner = |mounts: &Value| {
        let volumes = json!([{"name": "v", "emptyDir": {}}]);
        let containers = json!([{"name": "b", "image": "i:1", "volumeMounts": mounts}]);
        set("b", json!({"containers": containers, "volumes": volumes}))
    };
    let warnings = |mounts: &Value| injected(&golden_pod(), &[user.clone(), owner(mounts)]).warnings;
    assert_eq!(warnings(&mounts), Vec::<String>::new());
    let warned = warnings(&json!([]));
    assert!(warned.len() == 1 && warned[0].contains("a uses volume \"v\""), "{warned:?}");
}

#[test]
fn inj26_a_variable_from_a_file_brings_the_volume() {
    let variable = json!({"name": "A", "valueFrom": {"fileKeyRef": {"volumeName": "files", "path": "p", "key": "A"}}});
    let volumes = json!([{"name": "files", "emptyDir": {}}, {"name": "unused", "emptyDir": {}}]);
    let containers = json!([{"name": "a", "image": "i:1", "env": [variable]}]);
    let out = injected(&golden_pod(), &[set("a", json!({"containers": containers, "volumes": volumes}))]);
    let names: Vec<&str> = json::items(&out.pod, &["spec", "volumes"]).iter().map(pod::name).collect();
    assert!(names.contains(&"files") && !names.contains(&"unused"), "{names:?}");
    assert_eq!(out.warnings, [""; 0]);
}

#[rstest]
#[case::retain_absent("Retain", None, "new")]
#[case::retain_present("Retain", Some("old"), "old")]
#[case::default_policy_retains("", Some("old"), "old")]
#[case::overwrite("Overwrite", Some("old"), "new")]
fn inj10_patch_policies(#[case] policy: &str, #[case] before: Option<&str>, #[case] after: &str) {
    let patch = json!({"patchPolicy": policy, "annotations": {"k": "new"}});
    let sets = [set("s", json!({"initContainers": [], "patchPodMetadata": [patch]}))];
    let mut pod = golden_pod();
    if let Some(before) = before {
        pod["metadata"]["annotations"] = json!({"k": before});
    }
    let out = injected(&pod, &sets);
    assert_eq!(annotation(&out.pod, "k"), after);
    // INJ-12: annotations are patched even if nothing is injected, but then no record is written.
    assert_eq!(annotation(&out.pod, names::HASH), "");
    assert!(out.sidecars.is_empty());
}

#[test]
fn diff4_a_sidecar_named_like_an_app_container_is_refused_naming_both() {
    let sets = [set("s", json!({"containers": [{"name": "app", "image": "i:1"}]}))];
    assert_eq!(
        refusal(&golden_pod(), &sets),
        "SidecarSet \"s\": spec.containers[0].name: sidecar \"app\" has the name of a container of the Pod; rename the \
         Pod's \"app\" or the sidecar"
    );
}

#[rstest]
#[case::hot_upgrade_half(json!({"containers": [
    {"name": "mesh", "upgradeStrategy": {"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": "e"}}
]}), "mesh-2", "containers")]
#[case::init_like_container(json!({"initContainers": [{"name": "side"}]}), "side", "containers")]
#[case::container_like_init(json!({"containers": [{"name": "side"}]}), "side", "initContainers")]
#[case::init_like_init(json!({"initContainers": [{"name": "side"}]}), "side", "initContainers")]
fn order6_diff4_every_name_counts(#[case] spec: Value, #[case] name: &str, #[case] list: &str) {
    let mut pod = golden_pod();
    pod["spec"][list].as_array_mut().unwrap().push(json!({"name": name}));
    assert!(refusal(&pod, &[set("s", spec)]).contains(&format!("\"{name}\"")));
}

#[test]
fn diff4_two_sets_with_one_name_are_both_named() {
    let sets = [
        set("a", json!({"containers": [{"name": "log", "image": "i:1"}]})),
        set("b", json!({"initContainers": [{"name": "log", "image": "i:1"}]})),
    ];
    let message = refusal(&golden_pod(), &sets);
    assert!(message.contains("SidecarSet \"a\": spec.containers[0].name"), "{message}");
    assert!(message.contains("SidecarSet \"b\": spec.initContainers[0].name"), "{message}");
}

#[test]
fn diff4_a_set_whose_own_containers_clash_is_refused() {
    let hot = json!({"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": "e:1"});
    let containers = json!([{"name": "a", "image": "i:1", "upgradeStrategy": hot}, {"name": "a-2", "image": "i:1"}]);
    let message = refusal(&golden_pod(), &[set("s", json!({"containers": containers}))]);
    assert!(
        message.starts_with("SidecarSet \"s\": spec.containers[1].name: ") && message.contains("\"a-2\""),
        "{message}"
    );
}

#[test]
fn refusals_name_every_set_that_fails_sorted() {
    let broken = |name: &str| {
        set(
            name,
            json!({"containers": [{
                "name": name, "image": "i:1",
                "resourcesPolicy": {
                    "targetContainersMode": "sum", "targetContainersNameRegex": "^none$",
                    "resourcesExpr": {"limits": {"cpu": "cpu"}}
                }
            }]}),
        )
    };
    let message = refusal(&golden_pod(), &[broken("b"), broken("a")]);
    let (a, b) = (message.find("SidecarSet \"a\"").unwrap(), message.find("SidecarSet \"b\"").unwrap());
    assert!(a < b, "{message}");
}

#[test]
fn inj13_unreadable_records_are_refused() {
    let mut pod = golden_pod();
    pod["metadata"]["annotations"] = json!({(names::HASH): "x", (names::HASH_WITHOUT_IMAGE): "[]"});
    let message = refusal(&pod, &[golden_set()]);
    assert!(message.contains(names::HASH_WITHOUT_IMAGE) && message.contains("remove the annotation"), "{message}");
}

#[test]
fn inj23_containers_are_sorted_by_name_with_the_gate() {
    let sets = [set("s", json!({"containers": [{"name": "b", "image": "i:1"}, {"name": "a", "image": "i:1"}]}))];
    let sorted = run(&golden_pod(), &sets, Context { sort_by_name: true, ..NOW }).unwrap().pod;
    assert_eq!(names(&sorted, "containers"), ["a", "b", "app"]);
    assert_eq!(names(&injected(&golden_pod(), &sets).pod, "containers"), ["b", "a", "app"]);
}

/// A device is shared unless the sidecar uses its path itself, for a device or a mount. Nothing is shared from
/// containers that were injected.
#[test]
fn inj19_devices_are_shared_by_path() {
    let devices =
        |paths: &[&str]| -> Value { paths.iter().map(|path| json!({"name": "disk", "devicePath": path})).collect() };
    let injected_before = json!([{"name": "IS_INJECTED", "value": "true"}]);
    let pod = json!({
        "metadata": {"name": "p", "labels": {"app": "x"}},
        "spec": {"containers": [
            {"name": "app", "volumeDevices": devices(&["/dev/a", "/dev/own", "/dev/mount"])},
            {"name": "web", "volumeDevices": devices(&["/dev/a", "/dev/b"])},
            {"name": "old", "env": injected_before, "volumeDevices": devices(&["/dev/c"])}
        ]}
    });
    let sidecar = |policy: &str| {
        json!({"containers": [{
            "name": "s", "image": "s:1", "shareVolumeDevicePolicy": {"type": policy},
            "volumeDevices": devices(&["/dev/own"]), "volumeMounts": [{"name": "own", "mountPath": "/dev/mount"}]
        }]})
    };
    let shared = |policy: &str| {
        item(&injected(&pod, &[set("s1", sidecar(policy))]).pod, "containers", "s")["volumeDevices"].clone()
    };
    assert_eq!(shared("enabled"), devices(&["/dev/own", "/dev/a", "/dev/b"]));
    assert_eq!(shared("disabled"), devices(&["/dev/own"]));
}

#[test]
fn inj27_secrets_are_appended_once() {
    let mut pod = golden_pod();
    pod["spec"]["imagePullSecrets"] = json!([{"name": "x"}, {"name": "sec"}, {"name": "x"}]);
    let sets = [set(
        "s",
        json!({
            "containers": [{"name": "log", "image": "i:1"}], "imagePullSecrets": [{"name": "sec"}, {"name": "y"}]
        }),
    )];
    assert_eq!(names(&injected(&pod, &sets).pod, "imagePullSecrets"), ["x", "sec", "y"]);
}

#[test]
fn ans4_unknown_fields_are_carried_into_the_pod() {
    let sets = [set("s", json!({"containers": [{"name": "log", "image": "i:1", "newer": {"x": [1, null]}}]}))];
    let pod = injected(&golden_pod(), &sets).pod;
    assert_eq!(item(&pod, "containers", "log")["newer"], json!({"x": [1, null]}));
}
