//! A stand-in for Kubewarden: the definition of its policies, and what its controller and its policy server do for a
//! policy. If the search path has a program `policy-server`, that is the server (docs/contributing.md says how to get it),
//! else `pillion serve`, with the rights of the policy server.

pub mod policy_server;

use std::fs;
use std::path::Path;

use k8s_openapi::ByteString;
use kube::api::{DynamicObject, ListParams, Patch, PatchParams};
use kube::{Api, Client};
use pillion_testenv::{Cluster, apply, free_port, stand_in};
use serde_json::{Value, json};

use super::deployments::{kubeconfig, ready};
use super::{dynamic, program};

const NAMESPACE: &str = "kubewarden";
const ACCOUNT: &str = "policy-server";

/// Returns the API of the policies.
pub fn policies(client: &Client) -> Api<DynamicObject> {
    dynamic(client, "policies.kubewarden.io/v1", "ClusterAdmissionPolicy", "clusteradmissionpolicies")
}

/// Whether there is a policy, after which Kubewarden's controller starts.
pub async fn has_policies(cluster: &Cluster) -> bool {
    let list = policies(&cluster.admin().await.unwrap()).list(&ListParams::default()).await;
    list.is_ok_and(|list| list.items.iter().any(|policy| policy.metadata.name.as_deref() == Some("pillion-pods")))
}

/// Creates what Kubewarden's chart creates: its namespace, the account of its policy server, and the definition of
/// policies, without its schema.
pub async fn install(cluster: &Cluster) {
    let mut definition = stand_in("policies.kubewarden.io/v1", "ClusterAdmissionPolicy", "Cluster");
    definition["spec"]["versions"][0]["subresources"] = json!({"status": {}});
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    let account = json!({
        "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT, "namespace": NAMESPACE},
    });
    let client = cluster.admin().await.unwrap();
    for object in [definition, namespace, account] {
        apply(&client, &object.to_string(), "kubewarden").await.unwrap();
    }
}

/// Starts a server for the policies, registers their webhooks, and says in their status that they are active.
pub async fn serve(cluster: &Cluster) {
    let client = cluster.admin().await.unwrap();
    let api = policies(&client);
    let list: Vec<Value> = api
        .list(&ListParams::default())
        .await
        .unwrap()
        .items
        .into_iter()
        .map(|policy| serde_json::to_value(policy).unwrap())
        .collect();
    let server = if let Some(program) = policy_server::find() {
        policy_server::start(cluster, &program, &list).await
    } else {
        let injecting = list.iter().find(|policy| policy["metadata"]["name"] == "pillion-pods").unwrap();
        start(cluster, &injecting["spec"]["settings"]).await
    };
    for policy in &list {
        let webhook = webhook_configuration(policy, &server);
        apply(&client, &webhook.to_string(), "kubewarden").await.unwrap();
    }
    for policy in &list {
        let condition = |kind: &str| {
            json!({
                "type": kind, "status": "True", "reason": kind, "message": "",
                "lastTransitionTime": "2026-01-02T03:04:05Z",
            })
        };
        let conditions = ["PolicyActive", "PolicyUniquelyReachable"].map(condition);
        let status = json!({"status": {"policyStatus": "active", "conditions": conditions}});
        let name = policy["metadata"]["name"].as_str().unwrap();
        api.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    }
}

/// A running server.
struct Server {
    url: String,
    /// The certificate of its authority.
    authority: String,
    /// Returns the path of a policy.
    path: fn(&Value) -> String,
}

/// Returns the name that Kubewarden gives to what belongs to a policy.
fn name_of(policy: &Value) -> String {
    format!("clusterwide-{}", policy["metadata"]["name"].as_str().unwrap())
}

/// Starts `pillion serve` with these settings and the rights of the policy server.
async fn start(cluster: &Cluster, settings: &Value) -> Server {
    let (port, health) = (free_port().unwrap(), free_port().unwrap());
    let file = |name: &str| cluster.folder().join(format!("policy-server.{name}"));
    fs::write(file("settings"), settings.to_string()).unwrap();
    let arguments = [
        format!("KUBECONFIG={}", kubeconfig(cluster, NAMESPACE, ACCOUNT).await.display()),
        program().display().to_string(),
        "serve".to_owned(),
        format!("--settings={}", file("settings").display()),
        format!("--listen=127.0.0.1:{port}"),
        format!("--health-listen=127.0.0.1:{health}"),
        "--certificates=temporary".to_owned(),
        format!("--ca-file={}", file("ca").display()),
        "--tls-name=127.0.0.1".to_owned(),
        // A policy server reads single objects, and may not watch them.
        "--cache-max-staleness=0s".to_owned(),
    ];
    cluster.start_program("server", Path::new("/usr/bin/env"), &arguments).await.unwrap();
    ready(cluster, "server", health).await;
    let path =
        |policy: &Value| match (policy["spec"]["mutating"].as_bool(), policy["spec"]["settings"]["role"].as_str()) {
            (Some(true), _) => "/mutate".to_owned(),
            (_, Some("Assert")) => "/assert".to_owned(),
            _ => "/validate".to_owned(),
        };
    Server { url: format!("https://127.0.0.1:{port}"), authority: fs::read_to_string(file("ca")).unwrap(), path }
}

/// Returns the webhook configuration that Kubewarden makes of a policy. It belongs to the policy, so it is deleted with
/// it.
fn webhook_configuration(policy: &Value, server: &Server) -> Value {
    let spec = &policy["spec"];
    let name = name_of(policy);
    let changes = if spec["mutating"].as_bool().unwrap() { "Mutating" } else { "Validating" };
    let (kind, path) = (format!("{changes}WebhookConfiguration"), (server.path)(policy));
    let elsewhere = json!({"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": [NAMESPACE]});
    let mut namespaces = spec["namespaceSelector"]["matchExpressions"].as_array().cloned().unwrap_or_default();
    namespaces.push(elsewhere);
    let mut webhook = json!({
        "name": format!("{name}.kubewarden.admission"),
        "clientConfig": {
            "url": format!("{}{path}", server.url), "caBundle": ByteString(server.authority.as_bytes().to_vec()),
        },
        "namespaceSelector": {"matchExpressions": namespaces},
        "admissionReviewVersions": ["v1"], "sideEffects": "None",
    });
    for field in ["rules", "failurePolicy", "timeoutSeconds", "matchConditions", "objectSelector"] {
        if let Some(value) = spec.get(field) {
            webhook[field] = value.clone();
        }
    }
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
        "metadata": {"name": name, "ownerReferences": [{
            "apiVersion": policy["apiVersion"], "kind": policy["kind"],
            "name": policy["metadata"]["name"], "uid": policy["metadata"]["uid"],
        }]},
        "webhooks": [webhook],
    })
}
