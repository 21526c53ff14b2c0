//! `pillion inject`, `explain` and `check` with `--cluster` show what a Pod would get in a cluster, and write nothing.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use k8s_openapi::api::core::v1::{Namespace, Pod, ServiceAccount};
use kube::Api;
use pillion_install::rendering::document::{Document, to_yaml};
use pillion_install::rendering::{crd, standalone};
use pillion_testenv::{Cluster, Options, apply, until};
use serde_json::{Value, json};

use crate::support::sidecar_sets::set;
use crate::support::{SOON, create, dry_run, options, program};

/// Runs a command with `--cluster` in the folder of the cluster, as the user of this kubeconfig.
fn run(cluster: &Cluster, kubeconfig: &Path, args: &[&str]) -> Output {
    Command::new(program())
        .current_dir(cluster.folder())
        .env("KUBECONFIG", kubeconfig)
        .args(args)
        .args(["--cluster", "--settings", "settings.json"])
        .output()
        .unwrap()
}

/// Returns exit code and `stderr`.
fn code_and_stderr(output: &Output) -> (Option<i32>, String) {
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

fn images(output: &Output) -> Vec<String> {
    let pod: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    let pod = pod["items"].as_array().map_or_else(|| pod.clone(), |items| items[0].clone());
    let containers = pod["spec"]["containers"].as_array().unwrap();
    let mut images: Vec<String> =
        containers.iter().map(|container| container["image"].as_str().unwrap().to_owned()).collect();
    images.sort();
    images
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_pod_would_get_in_that_cluster() {
    let cluster = Cluster::start(Options::new().audit_log()).await.unwrap();
    let client = cluster.admin().await.unwrap();
    let write = |name: &str, content: &Value| fs::write(cluster.folder().join(name), content.to_string()).unwrap();
    write("settings.json", &json!({"featureGates": {"SidecarSetServiceAccountInjection": true}}));
    let app = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "shop", "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "app", "image": "app:1"}]}
    });
    write("app.json", &app);
    let admin = cluster.admin_kubeconfig_file();
    let inject = ["inject", "app.json", "-o", "json"];

    // A cluster without the definition has no SidecarSets.
    let none = run(&cluster, &admin, &inject);
    let (code, stderr) = code_and_stderr(&none);
    assert!(code == Some(0) && stderr.contains("does not serve SidecarSets"), "{stderr}");
    assert_eq!(images(&none), ["app:1"]);

    let definition = crd::document("pillion", &crd::Conversion::None, &Value::Null);
    apply(&client, &definition.to_yaml().unwrap(), "manifests").await.unwrap();
    let shop = json!({"metadata": {"name": "shop", "labels": {"team": "a"}}});
    create(&Api::<Namespace>::all(client.clone()), &shop).await.unwrap();
    let here =
        set("logs", &json!({"serviceAccountMode": "Isolate", "namespaceSelector": {"matchLabels": {"team": "a"}}}));
    let elsewhere =
        set("traces", &json!({"serviceAccountMode": "Isolate", "namespaceSelector": {"matchLabels": {"team": "b"}}}));
    let sets = [here.clone(), elsewhere].map(|set| set.to_string()).join("\n---\n");
    until("the definition being served", SOON, async || apply(&client, &sets, "manifests").await.ok()).await.unwrap();
    let is_write = |event: &&Value| {
        event["user"]["username"] != "system:apiserver"
            && !matches!(event["verb"].as_str(), Some("get" | "list" | "watch"))
    };

    // The account is missing in the cluster, too.
    let (code, stderr) = code_and_stderr(&run(&cluster, &admin, &inject));
    assert_eq!(code, Some(1), "{stderr}");
    assert!(stderr.contains("ServiceAccount shop/logs is neither in a manifest nor in the cluster"), "{stderr}");
    create(&Api::<ServiceAccount>::namespaced(client.clone(), "shop"), &json!({"metadata": {"name": "logs"}}))
        .await
        .unwrap();
    let before = cluster.audit_log().iter().filter(is_write).count();
    let injected = run(&cluster, &admin, &inject);
    assert_eq!(code_and_stderr(&injected).0, Some(0), "{injected:?}");
    assert_eq!(images(&injected), ["app:1", "logs:1"]);

    // Given manifests win.
    let mut newer = here;
    newer["spec"]["containers"][0]["image"] = "logs:2".into();
    write("newer.json", &newer);
    let injected = run(&cluster, &admin, &["inject", "app.json", "--sidecar-sets", "newer.json", "-o", "json"]);
    assert_eq!(images(&injected), ["app:1", "logs:2"]);

    let explained = run(&cluster, &admin, &["explain", "app.json"]);
    let text = String::from_utf8_lossy(&explained.stdout).into_owned();
    assert!(explained.status.success() && text.contains("traces") && text.contains("team"), "{text}");
    let (code, stderr) = code_and_stderr(&run(&cluster, &admin, &["check"]));
    assert!(code == Some(0) && stderr.contains("2 SidecarSets"), "{stderr}");

    // A user without rights learns which right is missing.
    let jane = cluster.folder().join("jane.kubeconfig");
    fs::write(&jane, cluster.as_user("jane", None).unwrap().kubeconfig()).unwrap();
    for args in [&inject[..], &["explain", "app.json"], &["check"]] {
        let (code, stderr) = code_and_stderr(&run(&cluster, &jane, args));
        assert_eq!(code, Some(2), "{stderr}");
        assert!(stderr.contains("list SidecarSets") && stderr.contains("sidecarsets.apps.kruise.io"), "{stderr}");
    }
    assert_eq!(cluster.audit_log().iter().filter(is_write).count(), before, "nothing is written");
}

/// The API server itself says whether it asks: no server answers the webhooks that `pillion manifest` renders, so a Pod
/// about which it asks is refused, and any other is accepted.
#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_the_webhooks_exclude_is_not_asked_about() {
    let cluster = Cluster::start(Options::new()).await.unwrap();
    let client = cluster.admin().await.unwrap();
    let settings = json!({"sidecarSets": [set("logs", &json!({}))]});
    fs::write(cluster.folder().join("settings.json"), settings.to_string()).unwrap();
    let shop = cluster.namespace("shop").await.unwrap();
    // The controller that makes this account does not run.
    let accounts = Api::<ServiceAccount>::namespaced(client.clone(), "kube-system");
    create(&accounts, &json!({"metadata": {"name": "default"}})).await.unwrap();
    let rendered = standalone::render(&settings, &options(&["--opt-out-label", "pillion=off"])).unwrap();
    let is_webhook = |document: &&Document| document.object["kind"] == "MutatingWebhookConfiguration";
    let webhooks = to_yaml(rendered.documents.iter().filter(is_webhook)).unwrap();
    apply(&client, &webhooks, "manifests").await.unwrap();

    let pod = |namespace: &str, labels: &Value| {
        json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": namespace, "labels": labels},
            "spec": {"automountServiceAccountToken": false, "containers": [{"name": "app", "image": "app:1"}]}
        })
    };
    let is_asked = async |pod: &Value| {
        let namespace = pod["metadata"]["namespace"].as_str().unwrap();
        let pods = Api::<Pod>::namespaced(client.clone(), namespace);
        let made = pods.create(&dry_run(), &serde_json::from_value(pod.clone()).unwrap()).await;
        match made {
            Ok(_) => false,
            Err(error) if error.to_string().contains("failed calling webhook") => true,
            Err(error) => panic!("{error}"),
        }
    };
    let asked = pod(&shop, &json!({"app": "web"}));
    until("the webhook being asked", SOON, async || is_asked(&asked).await.then_some(())).await.unwrap();
    let left_out = [pod("kube-system", &json!({"app": "web"})), pod(&shop, &json!({"app": "web", "pillion": "off"}))];
    for (pod, outcome) in
        left_out.iter().map(|pod| (pod, "not asked: ")).chain([(&asked, "1 of 1 SidecarSet injected")])
    {
        fs::write(cluster.folder().join("app.json"), pod.to_string()).unwrap();
        let explained = run(&cluster, &cluster.admin_kubeconfig_file(), &["explain", "app.json"]);
        let text = String::from_utf8_lossy(&explained.stdout).into_owned();
        assert!(explained.status.success() && text.contains(outcome), "{text}{explained:?}");
        assert_eq!(is_asked(pod).await, !outcome.starts_with("not asked"), "{text}");
    }
}
