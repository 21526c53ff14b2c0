//! `pillion plan --cluster` predicts what `pillion controller` then does, and changes nothing itself.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::Api;
use kube::api::DynamicObject;
use kube::core::{ApiResource, GroupVersionKind};
use pillion_install::rendering::crd;
use pillion_testenv::{Cluster, Options, apply, free_port, until};
use serde_json::{Value, json};

use crate::rollout::{NEW, REPLICAS, RolloutNamespace, prepare};
use crate::support::controllers::{Controllers, NAMESPACE};
use crate::support::sidecar_sets::{merging, set};
use crate::support::{SOON, create, program};

/// Runs a command against the cluster.
fn pillion(cluster: &Cluster, args: &[&str]) -> Output {
    let mut command = Command::new(program());
    command.current_dir(cluster.folder()).env("KUBECONFIG", cluster.admin_kubeconfig_file()).args(args);
    command.output().unwrap()
}

/// Runs the command against the cluster. Returns the plan and whether there are obstacles.
fn plan(cluster: &Cluster, more: &[&str]) -> (Value, bool) {
    let output =
        pillion(cluster, &[&["plan", "--cluster", "--settings", "settings.json", "-o", "json"], more].concat());
    let code = output.status.code();
    assert!(matches!(code, Some(0 | 1)), "{}", String::from_utf8_lossy(&output.stderr));
    (serde_json::from_slice(&output.stdout).unwrap(), code == Some(1))
}

/// Returns verb, kind, namespace and name of each change.
fn changes(plan: &Value) -> Vec<String> {
    let changes = plan["changes"].as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let line = |change: &Value| {
        let object = &change["object"];
        [&change["verb"], &object["kind"], &object["namespace"], &object["name"]].map(text).join(" ")
    };
    changes.map(line).collect()
}

/// Whether the cluster has all fields that a plan would send, except `metadata.uid` and the time of the bundle.
fn is_in(wanted: &Value, found: &Value) -> bool {
    match (wanted, found) {
        (Value::Object(wanted), Value::Object(found)) => wanted
            .iter()
            .filter(|(key, _)| !matches!(key.as_str(), "uid" | "pillion.dev/bundle-time"))
            .all(|(key, value)| found.get(key).is_some_and(|found| is_in(value, found))),
        _ => wanted == found,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_controller_does_what_the_plan_says() {
    let cluster = Cluster::start(Options::new().audit_log()).await.unwrap();
    let client = cluster.admin().await.unwrap();
    let definition = crd::document("pillion", &crd::Conversion::None, &Value::Null);
    apply(&client, &definition.to_yaml().unwrap(), "manifests").await.unwrap();
    for name in ["shop", "pillion-system", "kruise-system"] {
        create(&Api::<Namespace>::all(client.clone()), &json!({"metadata": {"name": name}})).await.unwrap();
    }
    let account: Api<ServiceAccount> = Api::namespaced(client.clone(), "shop");
    create(&account, &json!({"metadata": {"name": "audit"}})).await.unwrap();
    let deployment = json!({
        "metadata": {"name": "web"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "app", "image": "app:1"}]}
            }
        }
    });
    create(&Api::<Deployment>::namespaced(client.clone(), "shop"), &deployment).await.unwrap();
    let isolated = set("audit", &json!({"serviceAccountMode": "Isolate"}));
    let sets = [merging("logs", "get"), merging("metrics", "get"), isolated].map(|set| set.to_string()).join("\n---\n");
    until("the definition being served", SOON, async || apply(&client, &sets, "manifests").await.ok()).await.unwrap();
    let settings = json!({
        "featureGates": {"SidecarSetServiceAccountInjection": true},
        "bundleRef": {"namespace": "pillion-system", "name": "sidecarsets"}
    });
    fs::write(cluster.folder().join("settings.json"), settings.to_string()).unwrap();

    // The plan is complete, and nothing has changed.
    let writes = |cluster: &Cluster| {
        let is_write = |event: &&Value| {
            event["user"]["username"] != "system:apiserver"
                && !matches!(event["verb"].as_str(), Some("get" | "list" | "watch"))
        };
        cluster.audit_log().iter().filter(is_write).count()
    };
    let before = writes(&cluster);
    let (planned, is_hindered) = plan(&cluster, &[]);
    assert!(!is_hindered, "{planned:#}");
    let lines = changes(&planned);
    let kinds: Vec<String> = lines.iter().map(|line| line.split(' ').take(3).collect::<Vec<_>>().join(" ")).collect();
    let expected = [
        "create ConfigMap pillion-system",
        // Their conditions tell that they are in the bundle.
        "change SidecarSet ",
        "change SidecarSet ",
        "change SidecarSet ",
        "create ServiceAccount shop",
        "create Role shop",
        "create RoleBinding shop",
        "create Secret shop",
        "mint Secret shop",
    ];
    assert_eq!(kinds, expected, "{lines:?}");

    // A manifest given in addition to the cluster counts as applied.
    fs::write(cluster.folder().join("more.json"), merging("traces", "get").to_string()).unwrap();
    let (with_more, _) = plan(&cluster, &["more.json"]);
    let for_three = |plan: &Value| plan.to_string().contains("for the SidecarSets logs, metrics, traces");
    assert!(for_three(&with_more) && !for_three(&planned), "{with_more:#}");
    assert_eq!(changes(&plan(&cluster, &[]).0), lines, "nothing has happened");
    assert_eq!(writes(&cluster), before, "a plan writes nothing");

    // The controller makes the planned changes.
    let arguments = [
        format!("KUBECONFIG={}", cluster.admin_kubeconfig_file().display()),
        program().display().to_string(),
        "controller".to_owned(),
        "--no-leader-election".to_owned(),
        format!("--settings={}", cluster.folder().join("settings.json").display()),
        format!("--health-listen=127.0.0.1:{}", free_port().unwrap()),
    ];
    cluster.start_program("controller", Path::new("/usr/bin/env"), &arguments).await.unwrap();
    let done = until("nothing left to do", SOON, async || {
        let (left, is_hindered) = plan(&cluster, &[]);
        (changes(&left).is_empty() && !is_hindered).then_some(())
    });
    done.await.unwrap_or_else(|error| panic!("{error}\n{}", cluster.log("controller")));
    for change in planned["changes"].as_array().unwrap().iter().filter(|change| change["verb"] == "create") {
        let (object, mut after) = (&change["object"], change["after"].clone());
        // The API server chooses these. The values of Secrets are not shown.
        for key in ["uid", "resourceVersion", "creationTimestamp", "generation"] {
            after["metadata"].as_object_mut().unwrap().remove(key);
        }
        if object["kind"] == "Secret" {
            after.as_object_mut().unwrap().remove("data");
        }
        let text = |key: &str| object[key].as_str().unwrap();
        let (group, version) = text("apiVersion").split_once('/').unwrap_or(("", text("apiVersion")));
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, text("kind")));
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), text("namespace"), &resource);
        let found = serde_json::to_value(api.get(text("name")).await.unwrap()).unwrap();
        assert!(is_in(&after, &found), "planned:\n{after:#}\nfound:\n{found:#}");
    }
}

/// The bundle in the cluster has the version before, until a new manifest is applied. The plan of the rollout alone says
/// which Pod gets the new version first, in words, and that is what then happens.
#[tokio::test(flavor = "multi_thread")]
async fn the_plan_of_a_rollout_follows_the_bundle_that_a_new_manifest_changes() {
    let cluster: &'static Cluster = Box::leak(Box::new(prepare(|_| {}).await));
    let settings = json!({"bundleRef": {"namespace": NAMESPACE, "name": "sidecarsets"}});
    let file = cluster.folder().join("settings.json");
    fs::write(&file, settings.to_string()).unwrap();
    let arguments = [
        format!("KUBECONFIG={}", cluster.admin_kubeconfig_file().display()),
        program().display().to_string(),
        "controller".to_owned(),
        "--no-leader-election".to_owned(),
        "--controllers=bundle".to_owned(),
        format!("--settings={}", file.display()),
        format!("--health-listen=127.0.0.1:{}", free_port().unwrap()),
    ];
    let place = RolloutNamespace::in_cluster(cluster).await;
    let set = place.set("agent", &json!({}));
    place.fill(std::slice::from_ref(&set), 3, |_, _| {}).await;
    cluster.start_program("controller", Path::new("/usr/bin/env"), &arguments).await.unwrap();
    let flags = ["--controllers", "sidecarset-rollout"];
    let rollouts = Controllers::install(cluster, &program(), &settings, &flags).await;
    rollouts.start(REPLICAS[0], free_port().unwrap()).await;
    let is_in_bundle = async || {
        let stored = place.stored("agent").await;
        let mut conditions = stored["status"]["conditions"].as_array()?.iter();
        conditions.any(|known| known["type"] == "InBundle" && known["status"] == "True").then_some(())
    };
    until("the SidecarSet being in the bundle", SOON, is_in_bundle).await.unwrap();
    place.complete("agent", 3).await;

    let mut new = set;
    new["spec"]["containers"][0]["image"] = NEW.into();
    fs::write(cluster.folder().join("new.json"), new.to_string()).unwrap();
    let only = ["new.json", "--controllers=sidecarset-rollout"];
    let (planned, is_hindered) = plan(cluster, &only);
    assert!(!is_hindered, "{planned:#}");
    let lines = changes(&planned);
    assert!(lines.iter().all(|line| !line.contains("ConfigMap")), "{lines:?}");
    let pods: Vec<&str> = lines.iter().filter_map(|line| line.strip_prefix("change Pod ")).collect();
    let first = pods.last().unwrap().split(' ').next_back().unwrap().to_owned();
    let output = pillion(cluster, &[&["plan", "--cluster", "--settings", "settings.json"], &only[..]].concat());
    let text = String::from_utf8(output.stdout).unwrap();
    let progress =
        format!("SidecarSet {}: 1 of 3 Pods now, 2 more as Pods become available\n", place.set_name("agent"));
    assert!(text.contains(&progress), "{text}");
    assert!(text.contains(&format!("change  Pod {}/{first}: agent v1 → v2\n", place.name)), "{text}");
    // Without the controller that keeps it, the bundle stays as it is.
    let (alone, _) = plan(cluster, &["new.json", "--controllers=sidecarset-rollout,-bundle"]);
    assert!(!changes(&alone).iter().any(|line| line.starts_with("change Pod")), "{alone:#}");

    // Without options, the settings and controllers are those that are installed.
    let rendered = pillion(
        cluster,
        &["manifest", "controller", "--settings", "settings.json", "--controllers", "*,sidecarset-rollout"],
    );
    assert!(rendered.status.success(), "{rendered:?}");
    let without = pillion(cluster, &["plan", "--cluster", "new.json"]);
    let stderr = String::from_utf8_lossy(&without.stderr);
    assert!(without.status.code() == Some(2) && stderr.contains("Pillion is not installed in the cluster"), "{stderr}");
    apply(&place.client, &String::from_utf8(rendered.stdout).unwrap(), "manifests").await.unwrap();
    let installed = pillion(cluster, &["plan", "--cluster", "new.json"]);
    let stderr = String::from_utf8_lossy(&installed.stderr);
    let source = "ConfigMap pillion-system/pillion-controller-settings, ";
    assert!(stderr.contains(source) && stderr.contains("the controllers bundle, sidecarset-rollout"), "{stderr}");
    let text = String::from_utf8(installed.stdout).unwrap();
    assert!(
        text.contains("bundle\n  change  ConfigMap pillion-system/sidecarsets: SidecarSet ")
            && text.contains(&progress),
        "{text}"
    );
    let only = pillion(cluster, &["plan", "--cluster", "new.json", "--controllers=sidecarset-rollout"]);
    let text = String::from_utf8(only.stdout).unwrap();
    assert!(!text.contains("ConfigMap") && text.contains(&progress), "{text}");

    place.release("agent", NEW).await;
    place.upgraded(3).await;
    assert_eq!(place.images("agent").await, [NEW; 3]);
    let upgrades = place.all_upgrades().await;
    assert_eq!(upgrades.first().map(|upgrade| upgrade.pod.as_str()), Some(first.as_str()), "{upgrades:?}");
}
