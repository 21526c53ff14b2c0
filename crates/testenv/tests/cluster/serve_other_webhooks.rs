//! Mutating webhooks that the API server calls after Pillion's: for registry mirrors and proxies (ORDER-8, ORDER-9), and
//! for workload identity (TOK-14, TOK-15).

use std::time::Duration;

use http::Request;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::client::Body;
use kube::{Api, Client, ResourceExt};
use pillion_testenv::{Cluster, Hook, Options, until};
use pillion_testkit::identity::Accounts;
use serde_json::{Value, json};

use crate::support::accounts::set_up;
use crate::support::{Installation, SOON, names, pod, webhook};

const PROXY: &str = "HTTPS_PROXY";

/// Lets every container pull from a mirror, and adds a variable for a proxy.
fn mirror(asked: &Value) -> Value {
    let mut operations = Vec::new();
    for list in ["initContainers", "containers"] {
        let containers = asked["object"]["spec"][list].as_array().cloned().unwrap_or_default();
        for (index, container) in containers.iter().enumerate() {
            let path = format!("/spec/{list}/{index}");
            let image = container["image"].as_str().unwrap();
            if !image.starts_with("mirror.example/") {
                let image = format!("mirror.example/hub/{}", image.trim_start_matches("ghcr.io/"));
                operations.push(json!({"op": "replace", "path": format!("{path}/image"), "value": image}));
            }
            let env = container["env"].as_array().cloned();
            if env.is_none() {
                operations.push(json!({"op": "add", "path": format!("{path}/env"), "value": []}));
            }
            if !env.unwrap_or_default().iter().any(|variable| variable["name"] == PROXY) {
                let variable = json!({"name": PROXY, "value": "http://proxy.example:3128"});
                operations.push(json!({"op": "add", "path": format!("{path}/env/0"), "value": variable}));
            }
        }
    }
    json!({"allowed": true, "patch": operations})
}

/// Mounts a token for a cloud into every container, as EKS' webhook does, except those that the annotation names.
fn cloud(asked: &Value) -> Value {
    let pod = &asked["object"];
    if pod["spec"]["volumes"].as_array().is_some_and(|all| all.iter().any(|volume| volume["name"] == "aws-iam-token")) {
        return json!({"allowed": true});
    }
    let skipped = pod["metadata"]["annotations"]["eks.amazonaws.com/skip-containers"].as_str().unwrap_or_default();
    let token = json!({"audience": "sts.amazonaws.com", "expirationSeconds": 86400, "path": "token"});
    let volume = json!({"name": "aws-iam-token", "projected": {"sources": [{ "serviceAccountToken": token }]}});
    let mut patch = vec![json!({"op": "add", "path": "/spec/volumes/-", "value": volume})];
    for (index, container) in pod["spec"]["containers"].as_array().unwrap().iter().enumerate() {
        let name = container["name"].as_str().unwrap();
        if skipped.split(',').any(|skipped| skipped == name) {
            continue;
        }
        let mounts = format!("/spec/containers/{index}/volumeMounts");
        if container["volumeMounts"].is_null() {
            patch.push(json!({"op": "add", "path": mounts, "value": []}));
        }
        let directory = "/var/run/secrets/eks.amazonaws.com/serviceaccount";
        let mount = json!({"name": "aws-iam-token", "mountPath": directory, "readOnly": true});
        patch.push(json!({"op": "add", "path": format!("{mounts}/-"), "value": mount}));
    }
    json!({"allowed": true, "patch": patch})
}

/// Returns settings with a SidecarSet, and with one whose sidecar has an account of its own.
fn settings(more: &Value) -> Value {
    let set = |name: &str, more: Value| {
        let agent = json!({
            "name": name, "image": format!("ghcr.io/team/{name}:1"), "podInjectPolicy": "AfterAppContainer",
            "env": [{"name": "LEVEL", "value": "info"}],
        });
        let mut set = json!({
            "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": name},
            "spec": {"selector": {"matchLabels": {name: "yes"}}, "containers": [agent]},
        });
        json_patch::merge(&mut set, &more);
        set
    };
    let isolated = json!({"spec": {"serviceAccountName": "agent", "serviceAccountMode": "Isolate"}});
    let mut settings = json!({
        "sidecarSets": [set("plain", json!({})), set("isolated", isolated)],
        "featureGates": {"SidecarSetServiceAccountInjection": true},
    });
    json_patch::merge(&mut settings, more);
    settings
}

/// A cluster with `pillion serve` and another webhook after it.
struct Setting {
    client: Client,
    namespace: String,
}

/// The answer to the creation of a Pod with a dry run.
struct Answer {
    code: u16,
    object: Value,
    warnings: Vec<String>,
}

impl Setting {
    /// `policy` is the reinvocation policy of the other webhook.
    async fn start(cluster: &Cluster, settings: &Value, answer: webhook::Answer, policy: &str) -> Self {
        Installation::start(cluster, settings, &[], &[]).await;
        let client = cluster.admin().await.unwrap();
        let namespace = cluster.namespace("other-webhooks").await.unwrap();
        set_up(&client, &namespace, &Accounts::named(&["agent", "app"])).await;
        let (url, certificate) = webhook::server(answer).await;
        let hook = Hook::new("zz-other.test.pillion.dev", &url, &certificate).on("", "v1", "pods", &["CREATE"]);
        let mut configuration = hook.mutating();
        for webhook in configuration.webhooks.iter_mut().flatten() {
            webhook.reinvocation_policy = Some(policy.to_owned());
        }
        let configurations: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
        configurations.create(&PostParams::default(), &configuration).await.unwrap();
        let setting = Self { client, namespace };
        let asked = async || {
            let Answer { object, .. } = setting.created(&json!({})).await;
            (object["spec"].to_string().contains("mirror.example") || object["spec"].to_string().contains("aws-iam"))
                .then_some(())
        };
        until("the other webhook being asked", SOON, asked).await.unwrap();
        setting
    }

    /// Creates a Pod with these labels, with a dry run.
    async fn created(&self, labels: &Value) -> Answer {
        let pod = pod(&json!({"metadata": {"name": "p", "labels": labels}, "spec": {"serviceAccountName": "app"}}));
        let request = Request::post(format!("/api/v1/namespaces/{}/pods?dryRun=All", self.namespace));
        let request = request.header("content-type", "application/json").body(Body::from(pod.to_string().into_bytes()));
        let response = self.client.send(request.unwrap()).await.unwrap();
        let warnings = response.headers().get_all("warning").iter().map(|it| it.to_str().unwrap().to_owned());
        let (code, warnings) = (response.status().as_u16(), warnings.collect());
        let body = response.into_body().collect_bytes().await.unwrap();
        Answer { code, object: serde_json::from_slice(&body).unwrap(), warnings }
    }
}

fn container<'a>(pod: &'a Value, name: &str) -> &'a Value {
    let containers = pod["spec"]["containers"].as_array().unwrap_or_else(|| panic!("{pod:#}"));
    containers.iter().find(|container| container["name"] == name).unwrap_or_else(|| panic!("{pod:#}"))
}

#[tokio::test]
async fn order8_a_mirrored_image_and_a_variable_are_set_back_with_a_warning() {
    let cluster = Cluster::start(Options::new()).await.unwrap();
    let setting = Setting::start(&cluster, &settings(&json!({})), mirror, "Never").await;
    let Answer { code, object, warnings } = setting.created(&json!({"plain": "yes"})).await;
    assert_eq!(code, 201, "{object:#}");
    assert_eq!(container(&object, "plain")["image"], "ghcr.io/team/plain:1");
    assert_eq!(names(container(&object, "plain"), "/env"), ["LEVEL", "IS_INJECTED"]);
    assert_eq!(container(&object, "app")["image"], "mirror.example/hub/app:1");
    let expected = "SidecarSet plain: plain: set back image, env[HTTPS_PROXY];";
    assert!(warnings.iter().any(|warning| warning.contains(expected)), "{warnings:?}");
}

/// A webhook that asks for it is called once more as well, after Pillion, and has the last word.
#[tokio::test]
async fn order8_a_webhook_that_is_called_again_changes_the_sidecar_again() {
    let cluster = Cluster::start(Options::new()).await.unwrap();
    let setting = Setting::start(&cluster, &settings(&json!({})), mirror, "IfNeeded").await;
    let Answer { code, object, .. } = setting.created(&json!({"plain": "yes"})).await;
    assert_eq!(code, 201, "{object:#}");
    assert_eq!(container(&object, "plain")["image"], "mirror.example/hub/team/plain:1");
}

#[tokio::test]
async fn order9_what_the_settings_name_stays_except_variables_of_identities() {
    let cluster = Cluster::start(Options::new()).await.unwrap();
    let kept = json!({"otherWebhooks": {"imageRegistries": ["mirror.example/hub"], "variables": [PROXY]}});
    let setting = Setting::start(&cluster, &settings(&kept), mirror, "Never").await;
    let Answer { code, object, warnings } = setting.created(&json!({"plain": "yes"})).await;
    assert_eq!((code, warnings.as_slice()), (201, &[][..]), "{object:#}");
    assert_eq!(container(&object, "plain")["image"], "mirror.example/hub/team/plain:1");
    assert_eq!(names(container(&object, "plain"), "/env"), [PROXY, "LEVEL", "IS_INJECTED"]);

    let Answer { code, object, warnings } = setting.created(&json!({"isolated": "yes"})).await;
    assert_eq!(code, 201, "{object:#}");
    assert_eq!(container(&object, "isolated")["image"], "mirror.example/hub/team/isolated:1");
    assert_eq!(names(container(&object, "isolated"), "/env"), ["LEVEL", "IS_INJECTED"]);
    let expected = "SidecarSet isolated: isolated: set back env[HTTPS_PROXY];";
    assert!(warnings.iter().any(|warning| warning.contains(expected)), "{warnings:?}");
}

#[tokio::test]
async fn tok14_the_second_call_takes_a_clouds_token_out_of_an_isolated_sidecar() {
    let cluster = Cluster::start(Options::new()).await.unwrap();
    let setting = Setting::start(&cluster, &settings(&json!({})), cloud, "Never").await;
    let Answer { code, object, warnings } = setting.created(&json!({"isolated": "yes"})).await;
    assert_eq!(code, 201, "{object:#}");
    let mounted = |name: &str| names(container(&object, name), "/volumeMounts").contains(&"aws-iam-token".to_owned());
    assert_eq!((mounted("app"), mounted("isolated")), (true, false));
    let expected = "SidecarSet isolated: isolated: set back volumeMounts[aws-iam-token];";
    assert!(warnings.iter().any(|warning| warning.contains(expected)), "{warnings:?}");
}

/// Kubewarden's policies are not called again, and neither is this server after the change of its configuration.
#[tokio::test]
async fn tok14_tok15_the_twin_refuses_a_clouds_token_unless_its_webhook_leaves_the_sidecar_out() {
    let cluster = Cluster::start(Options::new()).await.unwrap();
    let setting = Setting::start(&cluster, &settings(&json!({})), cloud, "Never").await;
    call_once(&setting.client).await;
    let refused = async || {
        let Answer { code, object, .. } = setting.created(&json!({"isolated": "yes"})).await;
        (code != 201).then_some(object["message"].as_str().unwrap_or_default().to_owned())
    };
    let message = until("the refusal of the twin", SOON, refused).await.unwrap();
    for part in ["SidecarSet \"isolated\"", "aws-iam-token", "eks.amazonaws.com/skip-containers"] {
        assert!(message.contains(part), "{message}");
    }

    let cluster = Cluster::start(Options::new()).await.unwrap();
    let asked = json!({"serviceAccounts": {"skipContainers": ["EKS"]}});
    let setting = Setting::start(&cluster, &settings(&asked), cloud, "Never").await;
    call_once(&setting.client).await;
    // The new configuration holds after some seconds. Nothing else changes then, so there is nothing to wait for.
    tokio::time::sleep(Duration::from_secs(5)).await;
    let Answer { code, object, warnings } = setting.created(&json!({"isolated": "yes"})).await;
    assert_eq!((code, warnings.as_slice()), (201, &[][..]), "{object:#}");
    assert_eq!(object["metadata"]["annotations"]["eks.amazonaws.com/skip-containers"], "isolated");
    assert!(!names(container(&object, "isolated"), "/volumeMounts").contains(&"aws-iam-token".to_owned()));
    assert!(names(container(&object, "app"), "/volumeMounts").contains(&"aws-iam-token".to_owned()));
}

/// Lets the API server call Pillion's mutating webhooks once, as it calls Kubewarden's.
async fn call_once(client: &Client) {
    let configurations: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    let all = configurations.list(&ListParams::default()).await.unwrap();
    for configuration in all.items.iter().filter(|configuration| !configuration.name_any().contains("other")) {
        let webhooks = configuration.webhooks.iter().flatten().enumerate();
        let path = |index: usize| format!("/webhooks/{index}/reinvocationPolicy");
        let operations = webhooks.map(|(index, _)| json!({"op": "replace", "path": path(index), "value": "Never"}));
        let once: json_patch::Patch = serde_json::from_value(operations.collect()).unwrap();
        let name = configuration.name_any();
        configurations.patch(&name, &PatchParams::default(), &Patch::Json::<()>(once)).await.unwrap();
    }
}
