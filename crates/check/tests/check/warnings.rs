//! Warnings: input that is accepted but may be unintended.

use std::fs;

use rstest::rstest;
use serde_json::{Value, json};

use super::support::{agent, check, folder, found, json_set, lines, set};

#[rstest]
#[case::container(
    &agent("a").replace("image", "imagge: x\n    image"),
    "warning 10:5 spec.containers[0].imagge: unknown field; it is kept and injected, but rollouts do not see changes \
     to it -> did you mean \"image\"?"
)]
#[case::elsewhere(
    &format!("  color: red\n{}", agent("a")),
    "warning 8:3 spec.color: unknown field; nothing reads it -> correct its name or its indentation, or remove it"
)]
#[case::field_of_the_other_version(
    &format!("  namespace: x\n{}", agent("a")),
    "warning 8:3 spec.namespace: unknown field; nothing reads it -> v1beta1 has no such field: without it every \
     namespace is meant; use namespaceSelector with matchLabels kubernetes.io/metadata.name"
)]
#[case::paused(
    &format!("  injectionStrategy: {{paused: true}}\n{}", agent("a")),
    "warning 8:31 spec.injectionStrategy.paused: injection is paused: no new Pod gets this SidecarSet -> set it to \
     false to inject"
)]
#[case::contradiction(
    &format!("    matchExpressions: [{{key: logs, operator: NotIn, values: [collect]}}]\n{}", agent("a")),
    "warning 6:3 spec.selector: the requirements contradict each other: no Pod can be selected -> all of them have to \
     hold at once; remove one"
)]
#[case::no_namespace(
    &format!(
        "  namespaceSelector:\n    matchExpressions: [{{key: kubernetes.io/metadata.name, operator: DoesNotExist}}]\n{}",
        agent("a")
    ),
    "warning 8:3 spec.namespaceSelector: the requirements contradict each other: no namespace can be selected -> all \
     of them have to hold at once; remove one"
)]
#[case::unused_volume(
    &format!("{}  volumes:\n  - name: v\n    emptyDir: {{}}\n", agent("a")),
    "warning 12:11 spec.volumes[0].name: no container of this SidecarSet uses the volume; it is not injected -> mount \
     it, or remove it"
)]
#[case::word(
    &agent("a").replace("image: agent:1", "image: agent:1\n    upgradeStrategy: {upgradeType: hotUpgrade}"),
    "warning 11:36 spec.containers[0].upgradeStrategy.upgradeType: \"hotUpgrade\" means nothing here; the default is \
     used -> did you mean \"HotUpgrade\"?"
)]
#[case::transfer_of_nothing(
    &agent("a").replace("image: agent:1", "image: agent:1\n    transferEnv:\n    - sourceContainerName: app"),
    "warning 12:7 spec.containers[0].transferEnv[0]: this entry names no variable, so nothing is copied -> set envName or envNames"
)]
#[case::launch_priority(
    &agent("a").replace("image: agent:1", "image: agent:1\n    env:\n    - {name: KRUISE_CONTAINER_PRIORITY, value: '1'}"),
    "warning 12:14 spec.containers[0].env[0].name: OpenKruise looks for launch priorities before pillion serve injects, \
     since webhooks are called by name -> make it an init container with restartPolicy Always, which starts first"
)]
#[case::no_whitelist(
    &format!("  patchPodMetadata:\n  - annotations: {{a: b}}\n{}", agent("a")),
    "warning 8:3 spec.patchPodMetadata: not checked whether these annotations are allowed: there is neither a \
     whitelist in settings nor ConfigMap \"kruise-system/kruise-configuration\" -> check it together with the \
     settings, or with that ConfigMap"
)]
#[case::revision(
    &format!("  injectionStrategy: {{revision: {{revisionName: a-1}}}}\n{}", agent("a")),
    "warning 8:48 spec.injectionStrategy.revision.revisionName: not checked whether this ControllerRevision is in \
     namespace \"kruise-system\" and can be used -> check it together with the ControllerRevision"
)]
fn sidecar_sets_get_warnings(#[case] spec: &str, #[case] expected: &str) {
    assert_eq!(found(&set("a", spec)), [expected]);
}

#[test]
fn v1alpha1_is_reported_as_it_is_written() {
    let text =
        "apiVersion: apps.kruise.io/v1alpha1\nkind: SidecarSet\nmetadata: {name: a}\nspec:\n  namespace: Bad!\n  \
                selector:\n    matchLabels: {logs: collect}\n"
            .to_owned()
            + &agent("a");
    let found = found(&text);
    assert!(found[0].starts_with("error 5:14 spec.namespace: Invalid value: \"Bad!\""), "{found:#?}");
    assert_eq!(found.len(), 1);
}

#[test]
fn api10_a_selector_beside_a_namespace_is_told_where_it_is_written() {
    let text = set(
        "a",
        &format!("  namespace: staging\n  namespaceSelector:\n    matchLabels: {{on: 'yes'}}\n{}", agent("a")),
    )
    .replace("v1beta1", "v1alpha1");
    assert_eq!(
        found(&text),
        [
            "warning 9:3 spec.namespaceSelector: the selector has no effect beside spec.namespace: namespace \"staging\" alone \
          counts -> remove one of the two, or write v1beta1 and add the label kubernetes.io/metadata.name to the selector"
        ]
    );
}

#[rstest]
#[case::without_settings("{}", "Namespace", 1)]
#[case::settings("{\"sidecarSets\": []}", "Namespace", 1)]
#[case::webhook_that_comes_before("{}", "ClusterAdmissionPolicy", 0)]
#[case::webhook_that_comes_after("{}", "AdmissionPolicy", 1)]
fn warn8_launch_priorities_are_lost_where_openkruise_comes_first(
    #[case] settings: &str,
    #[case] kind: &str,
    #[case] expected: usize,
) {
    let container = json!({"name": "a", "image": "a:1", "env": [{"name": "KRUISE_CONTAINER_PRIORITY", "value": "1"}]});
    let set = json_set("a", &json!({"containers": [container]}));
    let policy = json!({
        "apiVersion": "policies.kubewarden.io/v1", "kind": kind, "metadata": {"name": "p", "namespace": "n"},
        "spec": {"module": "registry://registry.example.com/pillion:v1", "settings": {"sidecarSets": [set]}},
    });
    let here = folder(&[("a.json", &set.to_string()), ("p.json", &policy.to_string()), ("s.json", settings)]);
    let answer = check(here.path(), &["a.json", "p.json", "s.json"], "");
    let places = answer.out.matches("OpenKruise looks for launch priorities").count();
    // A policy is a place of its own.
    let places = if kind == "AdmissionPolicy" { places - 1 } else { places };
    assert_eq!(places, expected, "{}", answer.out);
}

/// The files are those of a public report: only the image was edited, and no Pod got it.
#[rstest]
#[case::update("nginx", "nginx:1.23", &["--old", "old.yaml"], &[
    "warning 9:5 spec.containers[0].imagePullPolicy: imagePullPolicy is not written, and with this image it changes from Always to \
     IfNotPresent; so more than images changes, and running Pods are not upgraded in place -> write imagePullPolicy: Always"
])]
#[case::the_same_default("nginx:1.22", "nginx:1.23", &["--old", "old.yaml"], &[])]
#[case::nothing_before("nginx", "nginx:1.23", &[], &[])]
fn def5_an_image_that_changes_a_default_is_told_of_an_update(
    #[case] old: &str,
    #[case] new: &str,
    #[case] further: &[&str],
    #[case] expected: &[&str],
) {
    let with = |image: &str| set("a", &agent("a")).replace("agent:1", image);
    let here = folder(&[("old.yaml", &with(old).replace("v1beta1", "v1alpha1")), ("new.yaml", &with(new))]);
    let args: Vec<&str> = ["new.yaml", "-o", "json"].iter().chain(further).copied().collect();
    assert_eq!(lines(&check(here.path(), &args, "").out), expected);
}

#[test]
fn a_hash_that_is_not_of_these_containers_is_found() {
    let text = set("a", &agent("a"))
        .replace("name: a\nspec", "name: a\n  annotations:\n    kruise.io/sidecarset-hash: x\nspec");
    let warnings: Vec<String> = found(&text).into_iter().filter(|line| line.starts_with("warning")).collect();
    assert_eq!(warnings.len(), 1);
    assert!(warnings[0].starts_with("warning 6:32 metadata.annotations[kruise.io/sidecarset-hash]: the hash is not"));
}

#[test]
fn a_base_that_its_canary_hides_and_a_shared_volume_are_found() {
    let volume = json!({"name": "v", "emptyDir": {"medium": "Memory"}});
    let mount = json!([{"name": "v", "mountPath": "/v"}]);
    let with = |name: &str| {
        json_set(
            name,
            &json!({"volumes": [volume], "containers": [{"name": name, "image": "a:1", "volumeMounts": mount}]}),
        )
    };
    let mut canary = json_set("canary", &json!({"updateStrategy": {"type": "NotUpdate"}}));
    canary["metadata"]["annotations"] =
        json!({"apps.kruise.io/sidecarset-canary": "true", "apps.kruise.io/sidecarset-base": "one"});
    let mut other = with("other");
    other["spec"]["selector"] = json!({"matchLabels": {"logs": "none"}});
    let settings = json!({"sidecarSets": [with("one"), with("two"), canary, other]});
    let found = found(&settings.to_string());
    let ends: Vec<&str> = found.iter().map(|line| line.split_once(' ').unwrap().1.split_once(' ').unwrap().1).collect();
    assert_eq!(
        ends,
        [
            "sidecarSets[0].spec.selector: its canary \"canary\" selects every Pod that this SidecarSet selects; no Pod \
             gets this one -> let the canary select fewer Pods, or remove one of them",
            "sidecarSets[1].spec.volumes[0].name: SidecarSet \"one\" has the same volume: Pods that get both have one, \
             and both write to it -> rename one of them if that is not meant",
        ]
    );
}

#[test]
fn namespaces_that_are_given_are_looked_at() {
    let own = set("a", &format!("  namespaceSelector: {{matchLabels: {{team: a}}}}\n{}", agent("a")));
    let namespace =
        |team: &str| format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: n, labels: {{team: {team}}}}}\n");
    assert_eq!(found(&format!("{own}---\n{}", namespace("a"))), Vec::<String>::new());
    let missed = found(&format!("{own}---\n{}", namespace("b")));
    assert_eq!(
        missed,
        [
            "warning 8:3 spec.namespaceSelector: the Namespace that was given is not selected -> compare it with their labels"
        ]
    );
}

#[test]
fn the_whitelist_is_applied_where_it_is_there() {
    let patching = json_set("a", &json!({"patchPodMetadata": [{"annotations": {"k": "v"}}]}));
    let settings = |expression: &str| {
        json!({
            "sidecarSets": [json_set("a", &json!({}))],
            "patchPodMetadataWhitelist": {"rules": [{"allowedAnnotationKeyExprs": [expression]}]},
        })
    };
    let here = folder(&[
        ("a.json", &patching.to_string()),
        ("yes.json", &settings("^k$").to_string()),
        ("no.json", &settings("^x").to_string()),
    ]);
    assert_eq!(check(here.path(), &["a.json", "yes.json"], "").code, 0);
    let answer = check(here.path(), &["a.json", "no.json", "-o", "json"], "");
    assert_eq!(answer.code, 1);
    assert!(lines(&answer.out)[0].contains("the whitelist does not allow this annotation"), "{}", answer.out);
    let config_map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kruise-configuration", "namespace": "kruise-system"},
        "data": {"SidecarSet_PatchPodMetadata_WhiteList": "{\"rules\": [{\"allowedAnnotationKeyExprs\": [\"^k$\"]}]}"},
    });
    fs::write(here.path().join("map.json"), config_map.to_string()).unwrap();
    let answer = check(here.path(), &["a.json", "map.json"], "");
    assert_eq!((answer.code, answer.out.as_str()), (0, ""));
}

#[test]
fn revisions_are_looked_for() {
    let revision = json!({
        "apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": 1, "data": {"spec": {"containers": []}},
        "metadata": {"name": "a-1", "namespace": "kruise-system", "labels": {"kruise.io/sidecarset-name": "a"}},
    });
    let asking = json_set("a", &json!({"injectionStrategy": {"revision": {"revisionName": "a-1"}}}));
    let here = folder(&[("a.json", &asking.to_string()), ("r.json", &revision.to_string())]);
    let answer = check(here.path(), &["."], "");
    assert_eq!((answer.code, answer.out.as_str()), (0, ""));
    // A controller looks for the revision if the settings have a `bundleRef`. Otherwise no Pod can get it.
    let asking = json_set("a", &json!({"injectionStrategy": {"revision": {"customVersion": "v9"}}}));
    for (settings, code, message) in [
        (
            json!({"bundleRef": {"namespace": "pillion-system", "name": "sets"}}),
            0,
            "warning: whether a ControllerRevision of SidecarSet \"a\" has the customVersion \"v9\" is not known here",
        ),
        (json!({"sidecarSets": []}), 1, "no ControllerRevision of this SidecarSet with customVersion \"v9\""),
    ] {
        let here = folder(&[("settings.json", &settings.to_string()), ("a.json", &asking.to_string())]);
        let answer = check(here.path(), &["settings.json", "a.json"], "");
        assert!(answer.out.contains(message), "{settings}: {}", answer.out);
        assert_eq!(answer.code, code, "{}", answer.out);
    }
    // The settings are valid, but no Pod can get the revision.
    let asking = json_set("a", &json!({"injectionStrategy": {"revision": {"customVersion": "v9"}}}));
    let found = found(&json!({"sidecarSets": [asking]}).to_string());
    assert_eq!(found.len(), 1);
    assert!(found[0].contains("every Pod that this SidecarSet matches is refused: Invalid value: \"v9\""), "{found:?}");
}

#[test]
fn diff30_a_draw_without_an_earlier_version_is_reported() {
    let asking = json_set("a", &json!({"injectionStrategy": {"revision": {"policy": "Partial"}}}));
    let revision = json!({
        "apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": 1, "data": {"spec": {"containers": []}},
        "metadata": {"name": "a-1", "labels": {"kruise.io/sidecarset-name": "a"}},
    });
    let told = found(&json!({"sidecarSets": [asking]}).to_string());
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(
        told[0].contains("spec.injectionStrategy.revision.policy: no ControllerRevision in the settings"),
        "{told:?}"
    );
    assert_eq!(found(&json!({"sidecarSets": [asking], "controllerRevisions": [revision]}).to_string()), [""; 0]);
}

#[test]
fn an_upgrade_policy_in_the_settings_has_no_effect() {
    let mut set = json_set("a", &json!({}));
    set["metadata"]["annotations"] = json!({"pillion.dev/upgrade-policy": "Recreate"});
    let told = found(&json!({"sidecarSets": [set]}).to_string());
    let expected = "metadata.annotations[pillion.dev/upgrade-policy]: SidecarSets of the settings are never rolled out";
    assert!(told.iter().any(|line| line.contains(expected)), "{told:?}");
}

#[rstest]
#[case::a_strategy(json!({"updateStrategy": {"maxUnavailable": 3}}), true)]
#[case::none(json!({}), false)]
#[case::an_empty_strategy(json!({"updateStrategy": {}}), false)]
#[case::no_rollout(json!({"updateStrategy": {"type": "NotUpdate"}}), false)]
#[case::it_draws_versions(
    json!({"updateStrategy": {"partition": "50%"}, "injectionStrategy": {"revision": {"revisionName": "a-1"}}}), false
)]
fn an_update_strategy_in_the_settings_has_no_effect(#[case] spec: Value, #[case] is_told: bool) {
    let revision = json!({
        "apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": 1, "data": {"spec": {"containers": []}},
        "metadata": {"name": "a-1", "labels": {"kruise.io/sidecarset-name": "a"}},
    });
    let set = json_set("a", &spec);
    let told = found(&json!({"sidecarSets": [set], "controllerRevisions": [revision]}).to_string());
    let is_it = |line: &String| line.contains("spec.updateStrategy: SidecarSets of the settings are never rolled out");
    assert_eq!(told.iter().filter(|line| is_it(line)).count(), usize::from(is_told), "{told:?}");
    let here = folder(&[("a.json", &set.to_string()), ("r.json", &revision.to_string())]);
    let answer = check(here.path(), &["."], "");
    assert!(!answer.out.contains("never rolled out"), "a SidecarSet of the cluster is: {}", answer.out);
}

#[rstest]
#[case::without_a_deadline("rollback: true", r#"pillion.dev/rollback: "true""#, &["rollouts.rollback", "metadata.annotations[pillion.dev/rollback]"])]
#[case::with_one_for_all("rollback: true, progressDeadline: 10m", r#"pillion.dev/rollback: "true""#, &[])]
#[case::with_one_of_its_own("rollback: false", r#"pillion.dev/rollback: "true", pillion.dev/progress-deadline: 10m"#, &[])]
#[case::switched_off("rollback: false", r#"pillion.dev/rollback: "false""#, &[])]
#[case::with_none_for_this_one(
    "rollback: true, progressDeadline: 10m", r#"pillion.dev/rollback: "true", pillion.dev/progress-deadline: "0""#,
    &["metadata.annotations[pillion.dev/rollback]"]
)]
fn roll62_a_rollback_that_never_happens_is_reported(
    #[case] rollouts: &str,
    #[case] annotations: &str,
    #[case] expected: &[&str],
) {
    let logs =
        set("a", &agent("a")).replacen("metadata:\n", &format!("metadata:\n  annotations: {{{annotations}}}\n"), 1);
    let settings = format!("bundleRef: {{namespace: n, name: m}}\nrollouts: {{{rollouts}}}\n");
    let here = folder(&[("settings.yaml", &settings), ("a.yaml", &logs)]);
    let answer = check(here.path(), &["."], "");
    let told: Vec<bool> = expected.iter().map(|path| answer.out.contains(path)).collect();
    assert!(told.iter().all(|told| *told), "{}", answer.out);
    assert_eq!(answer.out.matches("nothing ever goes back").count(), expected.len(), "{}", answer.out);
}
