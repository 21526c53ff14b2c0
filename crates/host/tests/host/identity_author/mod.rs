//! Authors of SidecarSets who try to grant more than they hold, through the built module. Each attack comes with the
//! most similar honest request.
#![allow(clippy::needless_pass_by_value, reason = "json! makes values")]

mod accounts;
mod audiences;
mod fields;
mod permissions;
mod updates;

use std::sync::Arc;

use pillion_host::ValidationResponse;
use serde_json::{Value, json};

use crate::support::identity::{Court, agent_set, ask, edited, gated, rule, verdict};

/// Returns a set whose agent has a merged account with a permission.
fn set() -> Value {
    edited(agent_set(), |set| {
        set["spec"]["behaviorWhenServiceAccountInjection"] = json!("Merge");
        set["spec"]["serviceAccountPermissions"] = json!([rule("", "pods", "get")]);
    })
}

/// Returns the same set for every namespace.
fn set_for_all() -> Value {
    edited(set(), |set| drop(set["spec"].as_object_mut().unwrap().remove("namespaceSelector")))
}

fn with_rules(rules: Value) -> Value {
    edited(set(), |set| set["spec"]["serviceAccountPermissions"] = rules)
}

fn in_namespaces(mut set: Value, namespaces: &[&str]) -> Value {
    set["spec"]["namespaceSelector"] =
        json!({"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "In", "values": namespaces}]});
    set
}

fn account(namespace: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"namespace": namespace, "name": "agent", "uid": "1"}})
}

/// Returns Ann's rules in the namespace `web`.
fn hers() -> Value {
    json!([
        rule("", "pods", "create"),
        {"apiGroups": [""], "resources": ["pods", "pods/log"], "verbs": ["get", "list"]},
        {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["a"], "verbs": ["get"]},
        rule("apps", "deployments", "get"),
    ])
}

fn cluster() -> Court {
    Court::with([account("web")]).granting("ann", "web", &hers()).granting(
        "system:masters",
        "",
        &json!([rule("*", "*", "*")]),
    )
}

fn request(user: &str, set: &Value) -> Value {
    let groups = if user == "root" { ["system:masters"] } else { ["system:authenticated"] };
    json!({
        "uid": "u", "operation": "CREATE", "dryRun": false, "name": set["metadata"]["name"],
        "kind": {"group": "apps.kruise.io", "version": "v1beta1", "kind": "SidecarSet"},
        "resource": {"group": "apps.kruise.io", "version": "v1beta1", "resource": "sidecarsets"},
        "userInfo": {"username": user, "groups": groups}, "object": set,
    })
}

fn update(user: &str, old: &Value, new: &Value) -> Value {
    edited(request(user, new), |request| {
        request["operation"] = json!("UPDATE");
        request["oldObject"] = old.clone();
    })
}

/// Returns a set as the policy stores it.
fn stored(set: &Value) -> Value {
    let answer = ask(&request("root", set), &gated(&json!({}), &[]), &Arc::new(cluster()));
    answer.mutated_object.unwrap_or_else(|| panic!("{:?}", answer.message))
}

fn admit(request: &Value, rules: &Value, cluster: Court) -> (ValidationResponse, Arc<Court>) {
    let cluster = Arc::new(cluster);
    (ask(request, &gated(rules, &[]), &cluster), cluster)
}

/// Returns the verdict on a set that Ann creates.
fn message_of(set: &Value) -> String {
    verdict(&admit(&request("ann", set), &json!({}), cluster()).0)
}
