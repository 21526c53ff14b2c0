//! A real API server accepts the output of `pillion manifest`, which has the intended effects.

use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::discovery::{Scope, pinned_kind};
use kube::{Api, Client, ResourceExt};
use pillion_install::rendering::document::{Document, to_yaml};
use pillion_install::rendering::{crd, standalone};
use pillion_testenv::{Cluster, Options, apply, stand_in, until};
use rstest::rstest;
use serde_json::{Value, json};

use crate::support::options;

const MANAGER: &str = "manifests";
const SOON: Duration = Duration::from_secs(20);

fn set(spec: &Value) -> Value {
    let mut set = json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": "log-agent"},
        "spec": {"selector": {"matchLabels": {"logs": "collect"}}, "containers": [{"name": "log-agent", "image": "i:1"}]}
    });
    for (key, value) in spec.as_object().unwrap() {
        set["spec"][key] = value.clone();
    }
    set
}

/// Returns settings that need every part.
fn everything() -> Value {
    json!({
        "featureGates": {"SidecarSetServiceAccountInjection": true},
        "shoots": {"enabled": true},
        "sidecarSets": [set(&json!({"serviceAccountName": "log-agent"}))],
    })
}

async fn create_namespace(client: &Client, name: &str) {
    let namespace = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
    Api::<Namespace>::all(client.clone()).create(&PostParams::default(), &namespace).await.unwrap();
}

async fn api(client: &Client, api_version: &str, kind: &str, namespace: &str) -> Api<DynamicObject> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let kind = GroupVersionKind::gvk(group, version, kind);
    let (resource, capabilities) = pinned_kind(client, &kind).await.unwrap();
    match capabilities.scope {
        Scope::Cluster => Api::all_with(client.clone(), &resource),
        Scope::Namespaced => Api::namespaced_with(client.clone(), namespace, &resource),
    }
}

/// Applies a folder twice, like kubectl: nothing is refused, and the second time nothing changes.
#[rstest]
#[case::self_signed(&[])]
#[case::files(&["--certificates", "files", "--replicas", "1", "--opt-out-label", "pillion.dev/injection=off"])]
#[case::of_another_name(&["--name", "second", "--namespace", "elsewhere", "--any-sidecar-sets", "--no-network-policy"])]
#[tokio::test]
async fn every_object_is_accepted_and_applying_it_again_changes_nothing(#[case] flags: &[&str]) {
    let cluster = Cluster::start(Options::new()).await.unwrap();
    let client = cluster.admin().await.unwrap();
    create_namespace(&client, "kruise-system").await;
    let yaml = to_yaml(&standalone::render(&everything(), &options(flags)).unwrap().documents).unwrap();
    let versions = async || -> Vec<String> {
        let applied = apply(&client, &yaml, MANAGER).await.unwrap();
        applied.iter().map(|it| format!("{} {}", it.name_any(), it.resource_version().unwrap())).collect()
    };
    let first = versions().await;
    assert!(first.len() > 12, "{first:?}");
    // The API server itself changes the definition and the namespace once.
    until("nothing changing", SOON, async || (versions().await == versions().await).then_some(())).await.unwrap();
}

/// Applying the manifests again keeps what a certificate controller has written.
#[tokio::test]
async fn a_ca_bundle_stays() {
    let cluster = Cluster::start(Options::new()).await.unwrap();
    let client = cluster.admin().await.unwrap();
    let rendered = standalone::render(&json!({}), &options(&["--no-system-role"])).unwrap();
    let yaml = to_yaml(&rendered.documents).unwrap();
    apply(&client, &yaml, MANAGER).await.unwrap();
    let bundle = k8s_openapi::ByteString(cluster.authority_certificate().into_bytes());
    for (api_version, kind, name, pointer) in [
        ("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration", "pillion", "/webhooks/0/clientConfig"),
        ("apiextensions.k8s.io/v1", "CustomResourceDefinition", crd::NAME, "/spec/conversion/webhook/clientConfig"),
    ] {
        let api = api(&client, api_version, kind, "").await;
        let change = json!([{"op": "add", "path": format!("{pointer}/caBundle"), "value": bundle}]);
        let patch: Patch<()> = Patch::Json(serde_json::from_value(change).unwrap());
        api.patch(name, &PatchParams::default(), &patch).await.unwrap();
        apply(&client, &yaml, MANAGER).await.unwrap();
        let stored = serde_json::to_value(api.get(name).await.unwrap()).unwrap();
        assert_eq!(stored.pointer(&format!("{pointer}/caBundle")), Some(&json!(bundle)), "{kind}");
    }
}

/// Returns the webhook configurations for a server that is down: requests that match are refused, others are stored.
fn webhooks_of_nobody(authority: &str) -> String {
    let rendered = standalone::render(&everything(), &options(&[])).unwrap();
    let webhooks = rendered.documents.into_iter().filter(|document| document.object["webhooks"].is_array());
    let pointed = webhooks.map(|mut document| {
        for webhook in document.object["webhooks"].as_array_mut().unwrap() {
            let bundle = k8s_openapi::ByteString(authority.as_bytes().to_vec());
            webhook["clientConfig"] = json!({"url": "https://127.0.0.1:1/", "caBundle": bundle});
        }
        document
    });
    to_yaml(&pointed.collect::<Vec<Document>>()).unwrap()
}

/// Returns an object with a Pod template that has these fields.
fn workload(api_version: &str, kind: &str, name: &str, pod: &Value) -> Value {
    let policy = if api_version == "batch/v1" { "Never" } else { "Always" };
    let mut pod_spec = json!({"containers": [{"name": "c", "image": "i"}], "restartPolicy": policy});
    for (key, value) in pod.as_object().unwrap() {
        pod_spec[key] = value.clone();
    }
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": pod_spec});
    let spec = match kind {
        "CronJob" => json!({"schedule": "0 0 1 1 *", "jobTemplate": {"spec": {"template": template}}}),
        "Job" => json!({"template": template}),
        "StatefulSet" => json!({"serviceName": "s", "selector": {"matchLabels": {"a": "b"}}, "template": template}),
        _ => json!({"selector": {"matchLabels": {"a": "b"}}, "template": template}),
    };
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": spec})
}

/// Returns an object of these kinds, with a Pod template at `place`.
fn with_template(api_version: &str, kind: &str, name: &str, place: &str, pod: &Value) -> Value {
    let mut pod_spec = json!({"containers": [{"name": "c", "image": "i"}]});
    for (key, value) in pod.as_object().unwrap() {
        pod_spec[key] = value.clone();
    }
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": pod_spec});
    let mut object = place.rsplit('.').fold(template, |value, key| json!({ key: value }));
    object["apiVersion"] = api_version.into();
    object["kind"] = kind.into();
    object["metadata"] = json!({ "name": name });
    if kind == "ReplicationController" {
        object["spec"]["selector"] = json!({"a": "b"});
    }
    object
}

/// Whether the request failed because our webhook did not answer. Any other error is a mistake of the test.
fn was_sent<T>(answer: Result<T, kube::Error>) -> bool {
    match answer {
        Ok(_) => false,
        Err(kube::Error::Api(status)) if status.message.contains(".pillion.dev\"") => true,
        Err(error) => panic!("{error}"),
    }
}

const ANNOTATE: &str = r#"{"metadata":{"annotations":{"a":"b"}}}"#;

/// An operation on an object.
enum Ask {
    Create,
    Change,
    Delete,
}

/// Makes the cluster serve OpenKruise's workloads.
async fn define_kinds_of_kruise(client: &Client) {
    for kind in ["CloneSet", "StatefulSet", "DaemonSet", "BroadcastJob", "AdvancedCronJob", "UnitedDeployment"] {
        apply(client, &stand_in("apps.kruise.io/v1alpha1", kind, "Namespaced").to_string(), MANAGER).await.unwrap();
        let is_served = async || {
            let kind = GroupVersionKind::gvk("apps.kruise.io", "v1alpha1", kind);
            pinned_kind(client, &kind).await.ok()
        };
        until("the kind being served", SOON, is_served).await.unwrap();
    }
}

/// Returns new workloads of every kind, and whether the server receives them: it does if a template names a merged
/// account.
fn creations_of_templates() -> Vec<(Ask, Value, bool)> {
    let plain = json!({});
    let merged = json!({"serviceAccountName": "sidecarset-merged-1"});
    let merged_by_its_old_name = json!({"serviceAccount": "sidecarset-merged-1"});
    let mut cases = Vec::new();
    for (api_version, kind) in [
        ("apps/v1", "Deployment"),
        ("apps/v1", "StatefulSet"),
        ("apps/v1", "DaemonSet"),
        ("apps/v1", "ReplicaSet"),
        ("batch/v1", "Job"),
        ("batch/v1", "CronJob"),
    ] {
        cases.push((Ask::Create, workload(api_version, kind, "plain", &plain), false));
        cases.push((Ask::Create, workload(api_version, kind, "merged", &merged), true));
        cases.push((Ask::Create, workload(api_version, kind, "merged-too", &merged_by_its_old_name), true));
    }
    for (api_version, kind, place) in [
        ("v1", "ReplicationController", "spec.template"),
        ("v1", "PodTemplate", "template"),
        ("apps.kruise.io/v1alpha1", "CloneSet", "spec.template"),
        ("apps.kruise.io/v1alpha1", "StatefulSet", "spec.template"),
        ("apps.kruise.io/v1alpha1", "DaemonSet", "spec.template"),
        ("apps.kruise.io/v1alpha1", "BroadcastJob", "spec.template"),
        ("apps.kruise.io/v1alpha1", "AdvancedCronJob", "spec.template.jobTemplate.spec.template"),
        ("apps.kruise.io/v1alpha1", "AdvancedCronJob", "spec.template.broadcastJobTemplate.spec.template"),
        ("apps.kruise.io/v1alpha1", "UnitedDeployment", "spec.template.statefulSetTemplate.spec.template"),
        ("apps.kruise.io/v1alpha1", "UnitedDeployment", "spec.template.advancedStatefulSetTemplate.spec.template"),
        ("apps.kruise.io/v1alpha1", "UnitedDeployment", "spec.template.cloneSetTemplate.spec.template"),
        ("apps.kruise.io/v1alpha1", "UnitedDeployment", "spec.template.deploymentTemplate.spec.template"),
    ] {
        let suffix = place.replace('.', "-").to_lowercase();
        for (pod, name, is_sent) in
            [(&plain, "plain", false), (&merged, "merged", true), (&merged_by_its_old_name, "merged-too", true)]
        {
            let object = with_template(api_version, kind, &format!("{name}-{suffix}"), place, pod);
            cases.push((Ask::Create, object, is_sent));
        }
    }
    let patching = |account: &str| {
        let mut object = with_template(
            "apps.kruise.io/v1alpha1",
            "UnitedDeployment",
            account,
            "spec.template.cloneSetTemplate",
            &plain,
        );
        let patch = json!({"spec": {"serviceAccountName": account}});
        object["spec"]["topology"] = json!({"subsets": [{"name": "a"}, {"name": "b", "patch": patch}]});
        object
    };
    cases.push((Ask::Create, patching("web"), false));
    cases.push((Ask::Create, patching("sidecarset-merged-1"), true));
    cases
}

/// Requests that no webhook matches do not depend on the server.
#[tokio::test]
async fn only_what_matters_leaves_the_api_server() {
    let cluster = Cluster::start(Options::new()).await.unwrap();
    let client = cluster.admin().await.unwrap();
    let namespace = cluster.namespace("conditions").await.unwrap();
    let role = |name: &str| json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": name}, "rules": []});
    let account = |name: &str| json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}});
    let secret = |name: &str, of: &str| {
        json!({
            "apiVersion": "v1", "kind": "Secret", "type": of,
            "metadata": {"name": name, "annotations": {"kubernetes.io/service-account.name": "default"}}
        })
    };
    let pod = |name: &str, annotations: &Value| {
        json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "annotations": annotations},
            "spec": {"containers": [{"name": "c", "image": "i"}]}
        })
    };
    let plain = json!({});
    let merged = json!({"serviceAccountName": "sidecarset-merged-1"});

    // These objects exist before the webhooks.
    let create = async |object: &Value| {
        let api_version = object["apiVersion"].as_str().unwrap();
        let api = api(&client, api_version, object["kind"].as_str().unwrap(), &namespace).await;
        api.create(&PostParams::default(), &serde_json::from_value(object.clone()).unwrap()).await
    };
    define_kinds_of_kruise(&client).await;
    for object in [
        role("plain"),
        role("sidecarset-merged-1"),
        account("used"),
        workload("apps/v1", "Deployment", "old", &plain),
        pod("running", &plain),
    ] {
        create(&object).await.unwrap();
    }
    apply(&client, &webhooks_of_nobody(&cluster.authority_certificate()), MANAGER).await.unwrap();
    let asked = async || was_sent(create(&pod("first", &plain)).await).then_some(());
    until("the webhooks being asked", SOON, asked).await.unwrap();

    let mut cases = vec![
        (Ask::Create, pod("app", &plain), true),
        (Ask::Change, pod("running", &plain), false),
        (Ask::Create, secret("opaque", "Opaque"), false),
        (Ask::Create, secret("token", "kubernetes.io/service-account-token"), true),
        (Ask::Create, role("another"), false),
        (Ask::Change, role("plain"), false),
        (Ask::Delete, role("plain"), false),
        (Ask::Change, role("sidecarset-merged-1"), true),
        (Ask::Delete, role("sidecarset-merged-1"), true),
        (Ask::Create, role("sidecarset-merged-2"), true),
        (Ask::Create, account("another"), false),
        (Ask::Create, account("sidecarset-merged-2"), true),
        (
            Ask::Create,
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": null, "generateName": "web-"}}),
            false,
        ),
        (
            Ask::Create,
            json!({
                "apiVersion": "v1", "kind": "ServiceAccount",
                "metadata": {"name": null, "generateName": "sidecarset-merged-7e18f737311"}
            }),
            true,
        ),
        (Ask::Create, with_template("apps.kruise.io/v1alpha1", "CloneSet", "bare", "other", &merged), false),
        (Ask::Change, account("used"), true),
        (Ask::Delete, account("used"), true),
        (Ask::Change, workload("apps/v1", "Deployment", "old", &plain), false),
        (Ask::Delete, workload("apps/v1", "Deployment", "old", &plain), false),
    ];
    cases.append(&mut creations_of_templates());
    let mut wrong = Vec::new();
    for (ask, object, is_sent) in cases {
        let kind = object["kind"].as_str().unwrap();
        let name = object["metadata"]["name"].as_str().or(object["metadata"]["generateName"].as_str()).unwrap();
        let api = api(&client, object["apiVersion"].as_str().unwrap(), kind, &namespace).await;
        let (what, sent) = match ask {
            Ask::Create => ("create", was_sent(create(&object).await)),
            Ask::Change => {
                let patch: Patch<Value> = Patch::Merge(serde_json::from_str(ANNOTATE).unwrap());
                ("change", was_sent(api.patch(name, &PatchParams::default(), &patch).await))
            }
            Ask::Delete => ("delete", was_sent(api.delete(name, &DeleteParams::default()).await)),
        };
        if sent != is_sent {
            wrong.push(format!("{what} {kind} {name}: sent: {sent}"));
        }
    }
    assert_eq!(wrong, [""; 0]);

    // Excluded namespaces.
    let elsewhere: Api<DynamicObject> = api(&client, "v1", "Pod", "kube-system").await;
    let accounts = api(&client, "v1", "ServiceAccount", "kube-system").await;
    let account = serde_json::from_value(account("default")).unwrap();
    let _ = accounts.create(&PostParams::default(), &account).await;
    let pod = serde_json::from_value(pod("app", &plain)).unwrap();
    assert!(!was_sent(elsewhere.create(&PostParams::default(), &pod).await), "kube-system");
}

/// The definition without a server: both versions work, no field of a SidecarSet is lost, and the status is a
/// subresource.
#[tokio::test]
async fn sidecar_sets_are_stored_as_they_are() {
    let cluster = Cluster::start(Options::new()).await.unwrap();
    let client = cluster.admin().await.unwrap();
    let definition = crd::document("pillion", &crd::Conversion::None, &Value::Null);
    apply(&client, &definition.to_yaml().unwrap(), MANAGER).await.unwrap();
    let object = set(&json!({
        "containers": [{
            "name": "log-agent", "image": "i:1", "env": null, "fieldOfTomorrow": {"a": [1]},
            "resourcesPolicy": {"targetContainersMode": "sum", "resourcesExpr": {"limits": {"cpu": "cpu*50%"}}}
        }],
        "volumes": [{"name": "v", "sourceOfTomorrow": {"a": 1}}],
        "imagePullSecrets": [{}],
        "updateStrategy": {"partition": "10%", "maxUnavailable": 1},
        "customVersion": "v1",
        "serviceAccountName": "log-agent",
        "serviceAccountPermissions": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"], "nonResourceURLs": ["/x"]}],
    }));
    let stored = apply(&client, &object.to_string(), MANAGER).await.unwrap();
    let mut wanted = object["spec"].clone();
    // API-5: the defaults of OpenKruise's definition.
    wanted["containers"][0]["resourcesPolicy"]["targetContainersNameRegex"] = json!(".*");
    wanted["imagePullSecrets"][0]["name"] = json!("");
    assert_eq!(stored[0].data["spec"], wanted);

    let old = api(&client, "apps.kruise.io/v1alpha1", "SidecarSet", "").await;
    assert_eq!(old.get("log-agent").await.unwrap().data["spec"], wanted);
    let refused =
        set(&json!({"containers": [{"resourcesPolicy": {"targetContainersMode": "avg", "resourcesExpr": {}}}]}));
    let refusal = apply(&client, &refused.to_string(), MANAGER).await.unwrap_err().to_string();
    assert!(refusal.contains("avg"), "{refusal}");

    let status = json!({"status": {"matchedPods": 3, "updatedPods": 2, "readyPods": 1}});
    let new = api(&client, "apps.kruise.io/v1beta1", "SidecarSet", "").await;
    new.patch("log-agent", &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();
    assert_eq!(new.get("log-agent").await.unwrap().data.get("status"), None);
    new.patch_status("log-agent", &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();
    assert_eq!(new.get("log-agent").await.unwrap().data["status"], status["status"]);

    let request = http_get("/apis/apps.kruise.io/v1beta1/sidecarsets");
    let table: Value = serde_json::from_str(&client.request_text(request).await.unwrap()).unwrap();
    let names: Vec<&str> =
        table["columnDefinitions"].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["Name", "MATCHED", "UPDATED", "READY", "AGE"]);
    assert_eq!(table["rows"][0]["cells"].as_array().unwrap()[..4], [json!("log-agent"), json!(3), json!(2), json!(1)]);
}

/// Returns a request like that of `kubectl get`.
fn http_get(path: &str) -> hyper::Request<Vec<u8>> {
    let accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
    hyper::Request::get(path).header("accept", accept).body(Vec::new()).unwrap()
}
