//! SidecarSets of the cluster beside those of the settings, through the built module (docs/spec/trust.md).
#![allow(clippy::needless_pass_by_value, reason = "json! makes values")]

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use pillion_bundle::config_map::{self, TEXT_MAX};
use pillion_bundle::source::ConfigMapName;
use pillion_host::ValidationResponse;
use pillion_identity::names;
use pillion_kubernetes::time::Timestamp;
use pillion_sidecarset::sidecar_set::SidecarSet;
use pillion_sidecarset::sidecar_set::decode::decode;
use pillion_sidecarset::sidecar_set::origin::Origin;
use rstest::rstest;
use serde_json::{Value, json};

use crate::support::identity::{Court, ask, edited, gated, rule, verdict};
use crate::support::{admit, create_set};

/// SidecarSets of the settings and of the cluster, with the rules for accounts.
struct Scene {
    settings: Vec<Value>,
    cluster: Vec<SidecarSet>,
    rules: Value,
    merged: bool,
}

impl Scene {
    fn new(settings: &[Value], cluster: &[Value]) -> Self {
        let cluster = cluster.iter().map(|set| decode(set.clone()).unwrap().into_sidecar_set()).collect();
        Self { settings: settings.to_vec(), cluster, rules: json!({}), merged: false }
    }

    fn under(self, rules: Value) -> Self {
        Self { rules, ..self }
    }

    /// Adds the merged objects of the sets `a` and `b`.
    fn merging(self) -> Self {
        Self { merged: true, ..self }
    }

    fn ask(&self, request: &Value) -> ValidationResponse {
        let mut settings = gated(&self.rules, &self.settings);
        settings["bundleRef"] = json!({"namespace": "pillion-system", "name": "sets"});
        let at = ConfigMapName { namespace: "pillion-system".to_owned(), name: "sets".to_owned() };
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let now = Timestamp(i64::try_from(seconds).unwrap());
        let mut objects = config_map::write(&at, &self.cluster, now, TEXT_MAX).unwrap();
        objects.extend(["x", "y"].map(account));
        if self.merged {
            objects.extend(merged_objects());
        }
        let everything = json!([rule("*", "*", "*")]);
        ask(request, &settings, &Arc::new(Court::with(objects).granting("dev", "", &everything)))
    }

    fn pod(&self, pod: &Value) -> ValidationResponse {
        self.ask(&json!({
            "uid": "u", "operation": "CREATE", "namespace": "web", "name": "p", "dryRun": false,
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "userInfo": {"username": "dev"}, "object": pod,
        }))
    }

    /// Returns the Pod after admission.
    fn injected(&self) -> Value {
        let answer = self.pod(&pod());
        assert!(answer.accepted, "{:?}", answer.message);
        answer.mutated_object.unwrap()
    }

    /// Returns the answer to the writer of a SidecarSet, who may do everything; an update if `old` is not null.
    fn write(&self, old: Value, new: Value) -> ValidationResponse {
        let operation = if old.is_null() { "CREATE" } else { "UPDATE" };
        self.ask(&json!({
            "uid": "u", "operation": operation, "dryRun": false,
            "kind": {"group": "apps.kruise.io", "version": "v1beta1", "kind": "SidecarSet"},
            "resource": {"group": "apps.kruise.io", "version": "v1beta1", "resource": "sidecarsets"},
            "userInfo": {"username": "dev"}, "object": new, "oldObject": old,
        }))
    }
}

fn account(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"namespace": "web", "name": name, "uid": "1"}})
}

/// Returns the merged objects of `a`, which may patch ConfigMaps, and `b`.
fn merged_objects() -> [Value; 3] {
    let name = names::merged(&["a", "b"]);
    let metadata = json!({"namespace": "web", "name": name, "annotations": {"pillion.dev/sidecarsets": "a,b"}});
    let rbac = "rbac.authorization.k8s.io/v1";
    [
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}),
        json!({"apiVersion": rbac, "kind": "Role", "metadata": metadata, "rules": [rule("", "configmaps", "patch")]}),
        json!({
            "apiVersion": rbac, "kind": "RoleBinding", "metadata": metadata,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": "web"}],
        }),
    ]
}

fn pod() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "web", "labels": {"app": "web"}},
        "spec": {"serviceAccountName": "default", "containers": [{"name": "app", "image": "nginx:1"}]},
    })
}

/// Returns a set with these members of `spec` besides.
fn set(name: &str, spec: Value) -> Value {
    let mut set = json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "containers": [{"name": name, "image": format!("{name}:1"), "podInjectPolicy": "AfterAppContainer"}],
            "updateStrategy": {"type": "NotUpdate"},
        },
    });
    set["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    set
}

/// Returns the operator's set, which may patch ConfigMaps.
fn mighty(partners: &[&str]) -> Value {
    set(
        "a",
        json!({
            "serviceAccountName": "x", "behaviorWhenServiceAccountInjection": "Merge",
            "serviceAccountPermissions": [rule("", "configmaps", "patch")], "serviceAccountPartners": partners,
        }),
    )
}

/// Returns a user's set that may do nothing by itself.
fn humble(partners: &[&str]) -> Value {
    set(
        "b",
        json!({
            "serviceAccountName": "y", "behaviorWhenServiceAccountInjection": "Merge", "serviceAccountPartners": partners,
        }),
    )
}

fn named(set: Value, annotations: Value) -> Value {
    edited(set, |set| set["metadata"]["annotations"] = annotations)
}

fn canary_of(base: &str, set: Value) -> Value {
    named(set, json!({"apps.kruise.io/sidecarset-canary": "true", "apps.kruise.io/sidecarset-base": base}))
}

fn containers(pod: &Value) -> Vec<&str> {
    let containers = pod["spec"]["containers"].as_array().unwrap().iter();
    containers.map(|container| container["name"].as_str().unwrap()).collect()
}

const STRANGERS: &str = "do not trust each other";

#[rstest]
#[case::strangers(&[], &[], json!({}), false)]
#[case::only_the_user_says_so(&[], &["a"], json!({}), false)]
#[case::only_the_operator_says_so(&["b"], &[], json!({}), false)]
#[case::partners(&["b"], &["a"], json!({}), true)]
#[case::all_trusted_alike(&[], &[], json!({"mergeClusterSets": true}), true)]
fn e26_trust2_a_set_of_the_cluster_gets_no_rights_of_the_settings_by_merging(
    #[case] a: &[&str],
    #[case] b: &[&str],
    #[case] rules: Value,
    #[case] merges: bool,
) {
    let scene = Scene::new(&[mighty(a)], &[humble(b)]).under(rules).merging();
    let answered = verdict(&scene.pod(&pod()));
    if merges {
        assert_eq!(answered, "accepted");
        assert_eq!(scene.injected()["spec"]["serviceAccountName"], json!(names::merged(&["a", "b"])));
    } else {
        assert!(answered.starts_with("403 ") && answered.contains(STRANGERS), "{answered}");
    }
}

#[test]
fn trust2_sets_of_the_settings_merge_and_those_of_the_cluster_do_not() {
    let of_settings = Scene::new(&[mighty(&[]), humble(&[])], &[]).merging();
    assert_eq!(of_settings.injected()["spec"]["serviceAccountName"], json!(names::merged(&["a", "b"])));
    let of_cluster = Scene::new(&[], &[mighty(&[]), humble(&[])]).merging();
    let answered = verdict(&of_cluster.pod(&pod()));
    assert!(answered.starts_with("403 ") && answered.contains(STRANGERS), "{answered}");
    assert!(answered.contains("add \"b\" to spec.serviceAccountPartners of SidecarSet \"a\""), "{answered}");
}

#[test]
fn e26_trust2_who_writes_a_set_is_told_which_line_is_missing() {
    let scene = Scene::new(&[mighty(&[])], &[]);
    let line = "add \"b\" to spec.serviceAccountPartners of SidecarSet \"a\" in the policy's settings";
    let created = verdict(&scene.write(Value::Null, humble(&["a"])));
    assert!(created.starts_with("403 ") && created.contains(line), "{created}");
    let refusing = edited(humble(&["a"]), |set| set["spec"]["behaviorWhenServiceAccountInjection"] = json!("Refuse"));
    let updated = verdict(&scene.write(refusing, humble(&["a"])));
    assert!(updated.starts_with("403 ") && updated.contains(line), "{updated}");
    assert_eq!(verdict(&Scene::new(&[mighty(&["b"])], &[]).write(Value::Null, humble(&["a"]))), "accepted");
    // Only some Pods match both SidecarSets: the policy accepts the new one and warns its author.
    let elsewhere = edited(humble(&["a"]), |set| set["spec"]["selector"] = json!({"matchLabels": {"tier": "front"}}));
    let answer = scene.write(Value::Null, elsewhere);
    let warnings = answer.warnings.clone().unwrap_or_default();
    assert!(answer.accepted && warnings.iter().any(|text| text.contains(STRANGERS)), "{answer:?}");
}

/// The fields of the definition do not have the mark, and an API server without the definition's schema keeps it.
#[test]
fn trust1_a_user_cannot_write_into_the_settings() {
    let marked = edited(humble(&[]), |set| set["origin"] = json!("Settings"));
    let answered = verdict(&Scene::new(&[mighty(&[])], &[]).write(Value::Null, marked.clone()));
    assert!(answered.starts_with("403 ") && answered.contains(STRANGERS), "{answered}");
    let answered = verdict(&Scene::new(&[mighty(&[])], &[marked]).merging().pod(&pod()));
    assert!(answered.starts_with("403 ") && answered.contains(STRANGERS), "{answered}");
}

/// The policies of a policy server have no `sidecarSets`: the controller puts those of the settings into the bundle.
#[test]
fn trust1_the_bundle_knows_which_sets_are_of_the_settings() {
    let mut scene = Scene::new(&[], &[mighty(&[]), humble(&[])]).merging();
    scene.cluster = scene.cluster.into_iter().map(|set| set.with_origin(Origin::Settings)).collect();
    assert_eq!(scene.injected()["spec"]["serviceAccountName"], json!(names::merged(&["a", "b"])));
    let bundle = pillion_bundle::write(&scene.cluster);
    let settings = edited(gated(&json!({}), &[]), |settings| settings["bundle"] = json!(bundle));
    let objects = merged_objects().into_iter().chain(["x", "y"].map(account));
    let request = json!({
        "uid": "u", "operation": "CREATE", "namespace": "web", "name": "p",
        "kind": {"group": "", "version": "v1", "kind": "Pod"}, "userInfo": {"username": "dev"}, "object": pod(),
    });
    let answer = ask(&request, &settings, &Arc::new(Court::with(objects)));
    assert_eq!(answer.mutated_object.unwrap()["spec"]["serviceAccountName"], json!(names::merged(&["a", "b"])));
}

#[test]
fn e27_trust4_a_canary_of_the_cluster_does_not_displace_a_set_of_the_settings() {
    let mandatory = set("a", json!({"serviceAccountName": "x"}));
    let canary = canary_of("a", set("z", json!({"containers": [{"name": "a", "image": "evil:1"}]})));
    let scene = Scene::new(&[mandatory], std::slice::from_ref(&canary));
    let answer = scene.pod(&pod());
    let after = answer.mutated_object.unwrap();
    assert_eq!(containers(&after), ["app", "a"]);
    assert_eq!(after["spec"]["containers"][1]["image"], json!("a:1"));
    assert_eq!(after["spec"]["serviceAccountName"], json!("x"));
    let warnings = answer.warnings.unwrap();
    assert!(warnings.iter().any(|text| text.contains("SidecarSet \"z\" of the cluster is left out")), "{warnings:?}");
    let answered = verdict(&scene.write(Value::Null, canary.clone()));
    assert!(
        answered.starts_with("422 ") && answered.contains("which only a canary of the settings replaces"),
        "{answered}"
    );
    // One that exists can still be changed.
    let changed = edited(canary.clone(), |set| set["spec"]["selector"] = json!({"matchLabels": {"app": "other"}}));
    assert_eq!(verdict(&scene.write(canary, changed)), "accepted");
}

#[test]
fn trust4_a_canary_of_the_settings_replaces_its_base_of_either_origin() {
    let canary = canary_of("a", set("z", json!({"containers": [{"name": "a", "image": "canary:1"}]})));
    let of_settings = Scene::new(&[set("a", json!({})), canary.clone()], &[]);
    assert_eq!(of_settings.injected()["spec"]["containers"][0]["image"], json!("canary:1"));
    let of_both = Scene::new(std::slice::from_ref(&canary), &[set("a", json!({}))]);
    assert_eq!(of_both.injected()["spec"]["containers"][0]["image"], json!("canary:1"));
    let of_cluster = Scene::new(&[], &[canary, set("a", json!({}))]);
    assert_eq!(of_cluster.injected()["spec"]["containers"][0]["image"], json!("canary:1"));
}

#[test]
fn e27_trust3_the_settings_win_a_name() {
    let own = set("a", json!({"serviceAccountName": "x"}));
    let theirs = set("a", json!({"containers": [{"name": "evil", "image": "evil:1"}]}));
    let scene = Scene::new(&[own], std::slice::from_ref(&theirs));
    let answer = scene.pod(&pod());
    let after = answer.mutated_object.unwrap();
    assert_eq!((containers(&after), &after["spec"]["serviceAccountName"]), (vec!["app", "a"], &json!("x")));
    assert!(answer.warnings.unwrap()[0].contains("SidecarSet \"a\" of the cluster is left out"));
    let answered = verdict(&scene.write(Value::Null, theirs.clone()));
    assert!(answered.starts_with("422 ") && answered.contains("metadata.name: Invalid value: \"a\""), "{answered}");
    let changed = edited(theirs.clone(), |set| set["spec"]["selector"] = json!({"matchLabels": {"app": "other"}}));
    let answer = scene.write(theirs, changed);
    assert!(answer.accepted && answer.warnings.unwrap()[0].contains("is left out"));
}

/// The SidecarSets of the cluster may be the originals of those in the settings, as during a migration from OpenKruise.
#[test]
fn trust3_without_a_bundle_of_the_cluster_its_sidecar_sets_may_have_any_name() {
    let own = set("a", json!({}));
    let answer = admit(&create_set(&own), &json!({"sidecarSets": [own]}));
    assert!(answer.accepted && answer.warnings.unwrap_or_default().is_empty());
}

#[test]
fn diff34_e27_trust5_the_settings_come_first() {
    let folder = |path: &str| json!([{"name": "shared", "hostPath": {"path": path}}]);
    let mounted = |name: &str| {
        json!([{
            "name": name, "image": "i:1", "podInjectPolicy": "BeforeAppContainer",
            "volumeMounts": [{"name": "shared", "mountPath": "/shared"}]
        }])
    };
    let own = set("m", json!({"containers": mounted("m"), "volumes": folder("/operator")}));
    let theirs = set("0", json!({"containers": mounted("zero"), "volumes": folder("/user")}));
    let after = Scene::new(&[own], &[theirs]).injected();
    assert_eq!(containers(&after), ["m", "zero", "app"]);
    assert_eq!(after["spec"]["volumes"].as_array().unwrap().len(), 1);
    assert_eq!(after["spec"]["volumes"][0]["hostPath"]["path"], json!("/operator"));
}

#[test]
fn e27_trust6_a_conflict_does_not_take_the_identity_of_the_settings_away() {
    let scene = Scene::new(
        &[set("a", json!({"serviceAccountName": "x"}))],
        &[set("b", json!({"serviceAccountName": "y"})), set("c", json!({"serviceAccountName": "x"}))],
    );
    let skipping = scene.under(json!({"onConflict": "Skip"}));
    let after = skipping.injected();
    assert_eq!(after["spec"]["serviceAccountName"], json!("x"));
    let skipped = after["metadata"]["annotations"]["pillion.dev/service-account-skipped"].as_str().unwrap();
    assert!(skipped.contains("\"b\"") && !skipped.contains("\"a\"") && !skipped.contains("\"c\""), "{skipped}");
    // Once more, as after another webhook.
    let again = skipping.pod(&after);
    assert!(again.accepted && again.mutated_object.is_none(), "{again:?}");
}

#[test]
fn e27_trust7_the_cluster_does_not_hand_an_identity_of_the_settings_to_the_app() {
    let own = set("a", json!({"serviceAccountName": "x"}));
    let theirs = set("b", json!({"serviceAccountName": "x", "serviceAccountMode": "Pod"}));
    let rules = json!({"allowPodMode": true});
    let after = Scene::new(std::slice::from_ref(&own), std::slice::from_ref(&theirs)).under(rules.clone()).injected();
    assert_eq!(after["spec"]["automountServiceAccountToken"], json!(false));
    let after = Scene::new(&[own, theirs], &[]).under(rules).injected();
    assert_ne!(after["spec"]["automountServiceAccountToken"], json!(false));
}

#[rstest]
#[case::overwritten("Overwrite", "settings")]
#[case::of_a_default("Retain", "settings")]
fn e27_trust8_the_settings_write_annotations_last(#[case] policy: &str, #[case] value: &str) {
    let patch = |policy: &str, value: &str| json!([{"annotations": {"key": value}, "patchPolicy": policy}]);
    let own = set("a", json!({"patchPodMetadata": patch("Overwrite", "settings")}));
    let theirs = set("b", json!({"patchPodMetadata": patch(policy, "cluster")}));
    let after = Scene::new(&[own], &[theirs]).injected();
    assert_eq!(after["metadata"]["annotations"]["key"], json!(value));
}

#[test]
fn e27_trust9_a_token_of_the_pod_does_not_cost_the_settings_their_identity() {
    let own = set("a", json!({"serviceAccountName": "x"}));
    let token =
        json!([{"name": "t", "projected": {"sources": [{"serviceAccountToken": {"audience": "v", "path": "t"}}]}}]);
    let theirs = set("b", json!({"volumes": token}));
    let answered = verdict(&Scene::new(std::slice::from_ref(&own), &[]).write(Value::Null, theirs.clone()));
    assert!(answered.starts_with("403 ") && answered.contains("spec.volumes[0]"), "{answered}");
    assert_eq!(verdict(&Scene::new(&[], &[own]).write(Value::Null, theirs.clone())), "accepted");
    let apart = set("a", json!({"serviceAccountName": "x", "selector": {"matchLabels": {"app": "other"}}}));
    assert_eq!(verdict(&Scene::new(&[apart], &[]).write(Value::Null, theirs)), "accepted");
}
