//! The Pods of previews are those that kube-controller-manager creates, as the API server shows them to a webhook: for
//! each kind of workload, the two are compared field by field.

mod compare;

use std::fs;

use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use kube::Api;
use kube::api::PostParams;
use parking_lot::Mutex;
use pillion_documents::manifest;
use pillion_testenv::{Cluster, Hook, Options, apply, until};
use pillion_workload::{Template, admission, pod, request, templates};
use serde_json::{Value, json};

use self::compare::Differences;
use crate::support::{SOON, webhook};

/// The manifests, as users write them.
const WORKLOADS: &str = include_str!("workloads.yaml");

/// What the webhook was asked.
static ASKED: Mutex<Vec<Value>> = Mutex::new(Vec::new());

fn record(request: &Value) -> Value {
    ASKED.lock().push(request.clone());
    json!({"allowed": true})
}

/// Returns the first request about a Pod with this label `app`.
fn asked_about(app: &str) -> Option<Value> {
    let asked = ASKED.lock();
    asked.iter().find(|request| request["object"]["metadata"]["labels"]["app"] == app).cloned()
}

/// Returns the request that a preview shows to the module.
fn imitated(object: &Value, template: &Template, namespace: &str, account: &Value) -> Value {
    let mut pod = pod::from_template(object, template, namespace).unwrap();
    let find = |name: &str| (account["metadata"]["name"] == name).then(|| account.clone());
    admission::apply(&mut pod, find);
    request::create(&pod, namespace, template)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_pods_of_previews_are_those_that_a_webhook_sees() {
    let cluster = Cluster::start(Options::new().nodes(1)).await.unwrap();
    let namespace = cluster.namespace("workload-pods").await.unwrap();
    let client = cluster.admin().await.unwrap();
    let (url, certificate) = webhook::server(record).await;
    Hook::new("pods.test.pillion.dev", &url, &certificate)
        .on("", "v1", "pods", &["CREATE"])
        .create_mutating(&client)
        .await
        .unwrap();
    let pods: Api<Pod> = Api::namespaced(client.clone(), &namespace);
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), &namespace);
    let account = until("the account", SOON, async || accounts.get("default").await.ok()).await.unwrap();
    let account = serde_json::to_value(account).unwrap();
    let probe = json!({"metadata": {"generateName": "probe-", "labels": {"app": "probe"}}, "spec": {"containers": [{"name": "a", "image": "a:1"}]}});
    let probe: Pod = serde_json::from_value(probe).unwrap();
    let is_asked = async || {
        pods.create(&crate::support::dry_run(), &probe).await.unwrap();
        asked_about("probe")
    };
    until("the webhook being asked", SOON, is_asked).await.unwrap();

    let file = cluster.folder().join("workloads.yaml");
    fs::write(&file, WORKLOADS.replace("NAMESPACE", &namespace)).unwrap();
    let manifests = manifest::read(&[file], false).unwrap();
    for object in manifests.iter().map(|manifest| &manifest.value) {
        if object["metadata"]["name"].is_null() {
            pods.create(&PostParams::default(), &serde_json::from_value(object.clone()).unwrap()).await.unwrap();
        } else {
            apply(&client, &object.to_string(), "users").await.unwrap();
        }
    }
    let mut differences = Differences::default();
    for object in manifests.iter().map(|manifest| &manifest.value) {
        let template = templates(object).remove(0);
        let labels = object.pointer(&template.pointer).unwrap();
        let app = labels["metadata"]["labels"]["app"].as_str().unwrap().to_owned();
        let real = until(&format!("a Pod of {app}"), SOON * 2, async || asked_about(&app)).await.unwrap();
        differences.compare(&app, &real, &imitated(object, &template, &namespace, &account));
    }
    assert!(differences.wrong.is_empty(), "{}", differences.wrong.join("\n"));
    assert_eq!(differences.needless(), [] as [&str; 0], "the table of exceptions has rows for nothing");
}
