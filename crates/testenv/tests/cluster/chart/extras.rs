//! Values for which `pillion manifest` has no flags: what they change, and where.

use std::time::Duration;

use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::api::PostParams;
use kube::{Api, Client};
use pillion_testenv::{Cluster, Options, apply, until};
use rstest::rstest;
use serde_json::{Value, json};

use super::matrix::{self, Case};
use super::{folder, helm, objects, template};

const SOON: Duration = Duration::from_secs(30);

/// Returns values of every kind that this module tests.
pub fn everything() -> Value {
    let process = json!({
        "logLevel": "debug", "extraEnv": [{"name": "A", "value": "b"}],
        "extraVolumes": [{"name": "a", "emptyDir": {}}], "extraVolumeMounts": [{"name": "a", "mountPath": "/a"}],
        "serviceAccount": {"annotations": {"on": "account"}}, "deploymentAnnotations": {"on": "deployment"},
    });
    let mut values = json!({
        "global": {"imageRegistry": "registry.example.com:5000/mirror"}, "nameOverride": "second",
        "commonAnnotations": {"team": "mesh"}, "podDisruptionBudget": {"minAvailable": "50%"},
        "server": process, "controller": process,
        "rbac": {"sidecarSetReaders": [
            {"kind": "Group", "name": "developers"}, {"kind": "ServiceAccount", "name": "ci", "namespace": "shop"}]},
    });
    let of_server = json!({
        "serviceAnnotations": {"on": "service"},
        "autoscaling": {"enabled": true, "behavior": {"scaleDown": {"stabilizationWindowSeconds": 600}}},
    });
    json_patch::merge(&mut values["server"], &of_server);
    values
}

/// Returns values that render every template of one of the two ways.
fn every_template(values: &Value, is_kubewarden: bool) -> Value {
    let mut all = json!({
        "settings": {"featureGates": {"SidecarSetServiceAccountInjection": true}, "shoots": {"enabled": true}},
        "controller": {"rollouts": {"enabled": true}, "tokenNamespaces": ["shop"]},
        "monitoring": {
            "serviceMonitor": {"enabled": true}, "prometheusRule": {"enabled": true}, "dashboard": {"enabled": true}},
    });
    let installation = if is_kubewarden {
        json!({"kubewarden": {"enabled": true}})
    } else {
        json!({"server": {"certificates": {"source": "cert-manager"}}})
    };
    json_patch::merge(&mut all, &installation);
    json_patch::merge(&mut all, values);
    all
}

fn case(values: Value) -> Case {
    let mut case = matrix::all().swap_remove(0);
    case.values = values;
    case
}

/// Returns every object, those of hooks and tests included.
fn every_object(values: Value) -> Vec<Value> {
    let text = template(&case(values), &[]).unwrap_or_else(|error| panic!("{error}"));
    let objects: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
    objects.into_iter().filter(|object| !object.is_null()).collect()
}

fn named<'a>(objects: &'a [Value], kind: &str, name: &str) -> &'a Value {
    let found = objects.iter().find(|object| object["kind"] == kind && object["metadata"]["name"] == name);
    found.unwrap_or_else(|| panic!("no {kind} {name}"))
}

/// Collects the texts of fields with one of these names, at any depth.
fn texts(value: &Value, names: &[&str], found: &mut Vec<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| texts(item, names, found)),
        Value::Object(members) => {
            for (key, value) in members {
                match value.as_str().filter(|_| names.contains(&key.as_str())) {
                    Some(text) => found.push(text.to_owned()),
                    None => texts(value, names, found),
                }
            }
        }
        _ => {}
    }
}

#[rstest]
fn common_annotations_are_on_every_object_beside_its_own(#[values(false, true)] is_kubewarden: bool) {
    let common = json!({"commonAnnotations": {"team": "mesh", "helm.sh/hook-weight": "7"}});
    let (with, without) =
        (every_object(every_template(&common, is_kubewarden)), every_object(every_template(&json!({}), is_kubewarden)));
    assert!(with.len() > 30, "{}", with.len());
    assert_eq!(with.len(), without.len());
    for (with, without) in with.iter().zip(&without) {
        let annotations = &with["metadata"]["annotations"];
        assert_eq!(annotations["team"], "mesh", "{with}");
        for (key, value) in without["metadata"]["annotations"].as_object().into_iter().flatten() {
            assert_eq!(&annotations[key], value, "{with}");
        }
    }
}

#[rstest]
#[case::account_of_the_server("ServiceAccount", "pillion-second", "account")]
#[case::account_of_the_controllers("ServiceAccount", "pillion-second-controller", "account")]
#[case::server("Deployment", "pillion-second", "deployment")]
#[case::controllers("Deployment", "pillion-second-controller", "deployment")]
#[case::service("Service", "pillion-second", "service")]
fn an_object_has_the_annotations_of_its_value(#[case] kind: &str, #[case] name: &str, #[case] on: &str) {
    let objects = objects(&case(everything()));
    let annotations = &named(&objects, kind, name)["metadata"]["annotations"];
    assert_eq!(annotations, &json!({"on": on, "team": "mesh"}));
}

#[rstest]
#[case::server("pillion-second")]
#[case::controllers("pillion-second-controller")]
fn a_process_has_what_the_values_add(#[case] name: &str) {
    let objects = objects(&case(everything()));
    let pod = &named(&objects, "Deployment", name)["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    assert!(container["args"].as_array().unwrap().contains(&json!("--log-level=debug")), "{container}");
    assert_eq!(container["env"], json!([{"name": "A", "value": "b"}]));
    let last = |list: &Value| list.as_array().unwrap().last().unwrap().clone();
    assert_eq!(last(&container["volumeMounts"]), json!({"name": "a", "mountPath": "/a"}));
    assert_eq!(last(&pod["volumes"]), json!({"name": "a", "emptyDir": {}}));
}

#[test]
fn an_autoscaler_replaces_the_number_of_servers() {
    let objects = objects(&case(everything()));
    let servers = &named(&objects, "Deployment", "pillion-second")["spec"];
    assert_eq!(servers.get("replicas"), None);
    let scaler = &named(&objects, "HorizontalPodAutoscaler", "pillion-second")["spec"];
    assert_eq!(
        scaler["scaleTargetRef"],
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "pillion-second"})
    );
    assert_eq!([&scaler["minReplicas"], &scaler["maxReplicas"]], [2, 5]);
    assert_eq!(scaler["metrics"][0]["resource"]["target"], json!({"type": "Utilization", "averageUtilization": 80}));
    assert_eq!(named(&objects, "Deployment", "pillion-second-controller")["spec"]["replicas"], 2);
}

#[rstest]
#[case::neither(json!({}), json!({"maxUnavailable": 1}))]
#[case::number_that_stays(json!({"minAvailable": 1}), json!({"minAvailable": 1}))]
#[case::share_that_stays(json!({"minAvailable": "50%"}), json!({"minAvailable": "50%"}))]
#[case::share_that_goes(json!({"maxUnavailable": "25%"}), json!({"maxUnavailable": "25%"}))]
#[case::none_goes(json!({"maxUnavailable": 0}), json!({"maxUnavailable": 0}))]
fn a_disruption_budget_has_one_limit(#[case] values: Value, #[case] limit: Value) {
    let objects = objects(&case(json!({"podDisruptionBudget": values})));
    for name in ["pillion", "pillion-controller"] {
        let mut spec = named(&objects, "PodDisruptionBudget", name)["spec"].clone();
        spec.as_object_mut().unwrap().retain(|key, _| key.ends_with("vailable"));
        assert_eq!(spec, limit);
    }
}

#[rstest]
#[case::of_a_release(json!({}), "registry.example.com/pillion/pillion:v")]
#[case::with_a_port(json!({"repository": "here:5000/a/b", "tag": "v2"}), "registry.example.com/a/b:v2")]
#[case::of_this_machine(json!({"repository": "localhost/a"}), "registry.example.com/a:v")]
#[case::of_no_registry(json!({"repository": "team/pillion"}), "registry.example.com/team/pillion:v")]
#[case::a_digest(
    json!({"digest": format!("sha256:{}", "a".repeat(64))}), "registry.example.com/pillion/pillion@sha256:aaa"
)]
fn every_image_comes_from_the_registry_of_the_values(
    #[case] image: Value,
    #[case] expected: &str,
    #[values(false, true)] is_kubewarden: bool,
) {
    let values = json!({"global": {"imageRegistry": "registry.example.com"}, "image": image});
    let mut found = Vec::new();
    // The alerts and the definition have fields of this name, but no images.
    let objects = every_object(every_template(&values, is_kubewarden));
    let has_images = |object: &&Value| matches!(object["kind"].as_str(), Some("Deployment" | "Job" | "SidecarSet"));
    objects.iter().filter(has_images).for_each(|object| texts(object, &["image"], &mut found));
    // Controllers twice, the test, its sidecar, the Job of uninstalling; and the server.
    assert_eq!(found.len(), if is_kubewarden { 5 } else { 6 });
    for image in found {
        assert!(image.starts_with(expected), "{image}");
    }
}

#[rstest]
#[case::of_a_release(json!({}), "registry://registry.example.com/pillion/policies/pillion:v")]
#[case::a_whole_address(json!({"module": "registry://here/pillion:v2"}), "registry://here/pillion:v2")]
fn the_module_comes_from_that_registry_unless_it_has_an_address(#[case] kubewarden: Value, #[case] expected: &str) {
    let values = json!({"global": {"imageRegistry": "registry.example.com"}, "kubewarden": kubewarden});
    let mut found = Vec::new();
    let objects = every_object(every_template(&values, true));
    let policies = objects.iter().filter(|object| object["kind"] == "ClusterAdmissionPolicy");
    policies.for_each(|policy| texts(&policy["spec"], &["module"], &mut found));
    assert!(found.len() > 3 && found.iter().all(|module| module.starts_with(expected)), "{found:?}");
}

#[rstest]
#[case::added(json!({"nameOverride": "mesh"}), "pillion-mesh")]
#[case::contained(json!({"nameOverride": "lion"}), "pillion")]
#[case::outdone(json!({"nameOverride": "mesh", "fullnameOverride": "other"}), "other")]
fn names_begin_with_a_name_of_the_values(#[case] values: Value, #[case] name: &str) {
    let objects = objects(&case(values));
    let labels = &named(&objects, "Deployment", name)["metadata"]["labels"];
    assert_eq!(labels["app.kubernetes.io/name"], "pillion", "commands find an installation by it");
}

/// `helm upgrade --reuse-values` does not know the defaults of a newer chart.
#[test]
fn the_values_of_an_earlier_version_are_enough() {
    let process = || {
        json!({
            "autoscaling": null, "logLevel": null, "extraEnv": null, "extraVolumes": null, "extraVolumeMounts": null,
            "serviceAccount": null, "deploymentAnnotations": null, "serviceAnnotations": null,
        })
    };
    let earlier = json!({
        "global": null, "nameOverride": null, "commonAnnotations": null, "containerSecurityContext": null, "rbac": null,
        "podDisruptionBudget": {"minAvailable": null, "maxUnavailable": null}, "server": process(),
        "controller": process(),
    });
    assert_eq!(every_object(earlier), every_object(json!({})));
}

#[test]
fn the_notes_show_the_command_that_previews_rollouts() {
    let chart = folder();
    let install = ["install", "pillion", chart.to_str().unwrap(), "--namespace", "pillion-system", "--dry-run=client"];
    let output = helm(&install, &json!({"controller": {"rollouts": {"enabled": true}}}));
    let notes = String::from_utf8(output.stdout).unwrap();
    assert!(notes.contains("\n  pillion plan --cluster --controllers=sidecarset-rollout\n"), "{notes}");
}

/// Returns whether somebody may do something with SidecarSets. A namespace has no effect on objects of the cluster.
async fn may(client: &Client, user: &str, groups: &[&str], verb: &str) -> bool {
    let attributes = ResourceAttributes {
        group: Some("apps.kruise.io".to_owned()),
        resource: Some("sidecarsets".to_owned()),
        verb: Some(verb.to_owned()),
        ..ResourceAttributes::default()
    };
    let spec = SubjectAccessReviewSpec {
        user: Some(user.to_owned()),
        groups: Some(groups.iter().map(|group| (*group).to_owned()).collect()),
        resource_attributes: Some(attributes),
        ..SubjectAccessReviewSpec::default()
    };
    let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
    let reviews: Api<SubjectAccessReview> = Api::all(client.clone());
    reviews.create(&PostParams::default(), &review).await.unwrap().status.unwrap().allowed
}

/// `pillion explain --cluster` reads the compiled SidecarSets where the settings name their ConfigMap.
#[rstest]
#[case::of_the_release(json!({}), &["pillion-system"])]
#[case::elsewhere(json!({"bundleRef": {"name": "b", "namespace": "bundles"}}), &["bundles"])]
#[case::nowhere(json!({"bundleRef": null}), &[])]
fn who_reads_sidecar_sets_reads_their_bundle(#[case] settings: Value, #[case] namespaces: &[&str]) {
    let readers = json!([{"kind": "Group", "name": "developers"}]);
    let objects = objects(&case(json!({"settings": settings, "rbac": {"sidecarSetReaders": readers}})));
    let is_theirs = |object: &&Value| object["metadata"]["name"] == "pillion-sidecarsets-view";
    let in_namespaces = |kind: &str| {
        let found = objects.iter().filter(is_theirs).filter(|object| object["kind"] == kind);
        found.map(|object| object["metadata"]["namespace"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!([in_namespaces("Role"), in_namespaces("RoleBinding")], [namespaces, namespaces]);
}

/// A binding in a namespace gives nothing of the cluster, whatever the role includes.
#[tokio::test]
async fn people_read_sidecar_sets_and_nobody_writes_them() {
    let cluster = Cluster::start(Options::new().controller_manager()).await.unwrap();
    let client = cluster.admin().await.unwrap();
    let values = json!({"rbac": {"sidecarSetReaders": [{"kind": "Group", "name": "developers"}]}});
    let is_theirs = |object: &Value| {
        object["metadata"]["name"] == "pillion-sidecarsets-view" && object["metadata"]["namespace"].is_null()
    };
    for object in objects(&case(values)).into_iter().filter(is_theirs) {
        apply(&client, &object.to_string(), "chart").await.unwrap();
    }
    let binding = |kind: &str, user: &str, role: &str| {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind,
            "metadata": {"name": user, "namespace": (kind == "RoleBinding").then_some("default")},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
        })
    };
    for (kind, user, role) in [
        ("ClusterRoleBinding", "viewer", "view"),
        ("ClusterRoleBinding", "editor", "edit"),
        ("RoleBinding", "editor-of-a-namespace", "edit"),
    ] {
        apply(&client, &binding(kind, user, role).to_string(), "test").await.unwrap();
    }
    // kube-controller-manager puts the rules into view, and from there into edit.
    for user in ["viewer", "editor"] {
        let reads = async || may(&client, user, &[], "list").await.then_some(());
        until("the aggregated role", SOON, reads).await.unwrap();
    }
    assert!(may(&client, "somebody", &["developers"], "list").await);
    for (user, groups) in [("editor-of-a-namespace", [""; 1]), ("somebody", ["others"])] {
        assert!(!may(&client, user, &groups, "list").await, "{user}");
    }
    for (user, groups) in [("viewer", [""]), ("editor", [""]), ("somebody", ["developers"])] {
        for verb in ["create", "update", "patch", "delete"] {
            assert!(!may(&client, user, &groups, verb).await, "{user} {verb}");
        }
    }
}
