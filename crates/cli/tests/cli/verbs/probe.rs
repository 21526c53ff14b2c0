//! `pillion probe`.

use serde_json::{Value, json};

use super::{run, set};
use crate::support::api_server::ApiServer;

/// The webhooks of an installation.
fn webhooks() -> Value {
    let rules = json!([{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}]);
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "pillion", "labels": {"app.kubernetes.io/part-of": "pillion"}},
        "webhooks": [{"name": "pods.pillion.dev", "rules": rules, "namespaceSelector": {}}],
    })
}

#[test]
fn a_sidecar_that_does_not_come_has_progress_and_a_reason() {
    let server = ApiServer::start(&[set(&json!({})), webhooks()], |_| {});
    let run = run(&server, &["probe", "log-agent", "-n", "shop", "-l", "app=db", "--timeout", "3s"]);
    let lacks = "a Pod in namespace shop does not get the container log-agent; it has probe";
    let reason = "SidecarSet log-agent does not select the Pod, which has app=db; --label gives it others";
    let says = format!("trying again: {lacks}\nerror: {lacks}\nreason: {reason}\n");
    assert_eq!((run.code, run.out.as_str(), run.err), (1, "", says));
}

#[test]
fn reasons_that_may_not_be_read_are_told() {
    let forbid = |start: &'static str| (start, 403, "User \"jane\" may not do that");
    let server = ApiServer::start(&[webhooks()], |state| {
        state.refused.push(forbid("GET /apis/apps.kruise.io"));
        state.refused.push(forbid("GET /apis/apps/v1/deployments"));
    });
    let run = run(&server, &["probe", "log-agent", "--timeout", "0s"]);
    assert_eq!(run.code, 1, "{}", run.err);
    for kind in ["SidecarSets", "Deployments"] {
        let says = format!("reason: not all is known: the cluster does not allow to list {kind}: ");
        assert!(run.err.contains(&says), "{}", run.err);
    }
}

#[test]
fn a_webhook_that_cannot_be_called_has_a_reason_and_a_remedy() {
    let port = json!({"name": "https", "containerPort": 10250});
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "pillion", "namespace": "pillion-system", "labels": {"app.kubernetes.io/part-of": "pillion"}},
        "spec": {"template": {"spec": {"containers": [{"name": "pillion", "ports": [port]}]}}},
    });
    let failed = "Internal error occurred: failed calling webhook \"pods.pillion.dev\": failed to call webhook: Post \
                  \"https://pillion.pillion-system.svc:443/mutate?timeout=10s\": context deadline exceeded";
    let server = ApiServer::start(&[deployment, webhooks()], |state| {
        state.refused.push(("POST /api/v1/namespaces/default/pods", 500, failed));
    });
    let run = run(&server, &["probe", "log-agent", "--timeout", "0s"]);
    assert_eq!((run.code, run.out.as_str()), (1, ""), "{}", run.err);
    let reason = "reason: no answer came in time (webhook pods.pillion.dev); allow the control plane TCP port 10250 of the \
                  server's Pods in firewalls, security groups and network policies: \
                  docs/guides/managed-control-planes.md#private-clusters-of-gke\n";
    assert_eq!(run.err, format!("error: the cluster refuses the Pod: {failed}\n{reason}"));
}
