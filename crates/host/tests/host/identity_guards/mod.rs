//! Requests that would undo or steal an identity after it was given, through the built module. Each attack comes with
//! the most similar honest request.
#![allow(clippy::needless_pass_by_value, reason = "json! makes values")]

mod sight;
mod trust_anchors;

use std::sync::Arc;

use pillion_host::{ClusterError, ValidationResponse};
use pillion_identity::names;
use rstest::rstest;
use serde_json::{Value, json};

use crate::support::identity::{Court, agent_set, ask, edited, gated, verdict};

const TOKEN_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const TOKEN_TYPE: &str = "kubernetes.io/service-account-token";
const ACCOUNT: &str = "kubernetes.io/service-account.name";
const UID: &str = "kubernetes.io/service-account.uid";
const CONTROLLER: &str = "system:serviceaccount:pillion-system:pillion-controller";

fn request(operation: &str, group: &str, kind: &str, object: &Value, old: &Value) -> Value {
    let metadata = if object.is_null() { &old["metadata"] } else { &object["metadata"] };
    json!({
        "uid": "u", "operation": operation, "namespace": "web", "name": metadata["name"], "dryRun": false,
        "kind": {"group": group, "version": "v1", "kind": kind},
        "userInfo": {"username": "ann", "groups": ["system:masters"]}, "object": object, "oldObject": old,
    })
}

fn namespace(phase: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "web", "labels": {"kubernetes.io/metadata.name": "web"}}, "status": {"phase": phase}})
}

fn account(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"namespace": "web", "name": name, "uid": "1"}})
}

fn merged() -> String {
    names::merged(&["a", "b"])
}

/// Returns an object that the controller created for the sets `a` and `b`.
fn managed(kind: &str) -> Value {
    json!({"apiVersion": "v1", "kind": kind, "metadata": {
        "namespace": "web", "name": merged(), "annotations": {"pillion.dev/sidecarsets": "a,b"}
    }})
}

fn admit_in(request: &Value, rules: Value, cluster: Court) -> ValidationResponse {
    ask(request, &gated(&rules, &[agent_set()]), &Arc::new(cluster))
}

fn cluster() -> Court {
    Court::with([namespace("Active"), account("a"), account("agent")])
}

fn message_of(request: &Value) -> String {
    verdict(&admit_in(request, json!({"protectDefault": true, "protectInUse": true}), cluster()))
}

fn by(user: &str, request: Value) -> Value {
    edited(request, |request| request["userInfo"] = json!({"username": user, "groups": []}))
}

// --- containers that are added to a running Pod (E7)

/// Returns a Pod with two sidecars: one with the Pod's swapped account, and an isolated one.
fn running() -> Value {
    let of_pod = json!({"name": names::token_volume("agent"), "projected": {"sources": [
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}}]}});
    let of_secret = json!({"name": names::token_volume("log"), "projected": {"sources": [
        {"secret": {"name": names::token_secret("log")}}]}});
    let mount =
        |account: &str| json!([{"name": names::token_volume(account), "readOnly": true, "mountPath": TOKEN_PATH}]);
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "p", "namespace": "web", "annotations": {"pillion.dev/service-account-injected":
            "{\"original\":\"default\",\"injected\":\"agent\",\"sidecarSets\":[\"agent\"]}"}},
        "spec": {
            "serviceAccountName": "agent", "automountServiceAccountToken": false,
            "containers": [
                {"name": "app", "image": "nginx"},
                {"name": "agent", "image": "agent:1", "volumeMounts": mount("agent")},
                {"name": "log", "image": "log:1", "volumeMounts": mount("log")},
            ],
            "volumes": [of_pod, of_secret, {"name": "data", "emptyDir": {}},
                {"name": "unused", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}},
                {"name": "secret", "secret": {"secretName": names::token_secret("log")}}],
        },
    })
}

fn debugging(container: &Value) -> Value {
    let new = edited(running(), |pod| pod["spec"]["ephemeralContainers"] = json!([container]));
    edited(request("UPDATE", "", "Pod", &new, &running()), |request| {
        request["subResource"] = json!("ephemeralcontainers");
    })
}

#[rstest]
#[case::the_volume_of_the_pods_token(json!({"volumeMounts": [{"name": names::token_volume("agent"), "mountPath": "/t"}]}), "403 spec.ephemeralContainers[0]: ephemeral container \"debug\" mounts the volume \"sidecarset-sa-d4f0bc5a29de06b5\", and could use its ServiceAccount; debug another container, or set serviceAccounts.ephemeralContainers to Warn")]
#[case::the_volume_of_an_isolated_token(json!({"volumeMounts": [{"name": names::token_volume("log"), "mountPath": TOKEN_PATH, "subPath": "token"}]}), "403 spec.ephemeralContainers[0]: ephemeral container \"debug\" mounts the volume \"sidecarset-sa-836ff184e7b41b1e\", and could use its ServiceAccount; debug another container, or set serviceAccounts.ephemeralContainers to Warn")]
#[case::the_secret_in_another_volume(json!({"volumeMounts": [{"name": "secret", "mountPath": "/t"}]}), "403 spec.ephemeralContainers[0]: ephemeral container \"debug\" mounts the Secret \"sidecarset-token-836ff184e7b41b1e\", and could use its ServiceAccount; debug another container, or set serviceAccounts.ephemeralContainers to Warn")]
#[case::a_token_that_nobody_mounted(json!({"volumeMounts": [{"name": "unused", "mountPath": "/t"}]}), "403 spec.ephemeralContainers[0]: ephemeral container \"debug\" mounts the volume \"unused\", and could use its ServiceAccount; debug another container, or set serviceAccounts.ephemeralContainers to Warn")]
#[case::the_environment(json!({"envFrom": [{"secretRef": {"name": names::token_secret("log")}}]}), "403 spec.ephemeralContainers[0]: ephemeral container \"debug\" takes its environment from the Secret \"sidecarset-token-836ff184e7b41b1e\", and could use its ServiceAccount; debug another container, or set serviceAccounts.ephemeralContainers to Warn")]
#[case::a_variable(json!({"env": [{"name": "T", "valueFrom": {"secretKeyRef": {"name": names::token_secret("log"), "key": "token"}}}]}), "403 spec.ephemeralContainers[0]: ephemeral container \"debug\" takes its environment from the Secret \"sidecarset-token-836ff184e7b41b1e\", and could use its ServiceAccount; debug another container, or set serviceAccounts.ephemeralContainers to Warn")]
#[case::the_processes_of_a_sidecar(json!({"targetContainerName": "log"}), "403 spec.ephemeralContainers[0]: ephemeral container \"debug\" shares the processes of the container \"log\", and could use its ServiceAccount; debug another container, or set serviceAccounts.ephemeralContainers to Warn")]
fn e7_ephemeral_containers_reach_for_a_token(#[case] more: Value, #[case] message: &str) {
    let container = edited(json!({"name": "debug", "image": "busybox"}), |container| {
        container.as_object_mut().unwrap().append(&mut more.as_object().unwrap().clone());
    });
    assert_eq!(message_of(&debugging(&container)), message);
    let warned = admit_in(&debugging(&container), json!({"ephemeralContainers": "Warn"}), cluster());
    assert_eq!((verdict(&warned).as_str(), warned.warnings.unwrap_or_default().len()), ("accepted", 1));
    let honest = json!({"name": "debug", "image": "busybox", "targetContainerName": "app", "volumeMounts": [{"name": "data", "mountPath": "/d"}]});
    assert_eq!(message_of(&debugging(&honest)), "accepted");
}

/// The right to edit annotations gives no access to the token.
#[test]
fn e7_the_records_of_the_pod_are_not_what_counts() {
    let container = json!({"name": "debug", "image": "i", "volumeMounts": [{"name": "unused", "mountPath": "/t"}]});
    let attack = edited(debugging(&container), |request| {
        for object in ["object", "oldObject"] {
            request[object]["metadata"]["annotations"] = json!({});
        }
    });
    assert!(message_of(&attack).starts_with("403 "), "{}", message_of(&attack));
    // If the Pod's account is its own, so are its tokens.
    let own = edited(debugging(&container), |request| {
        for object in ["object", "oldObject"] {
            request[object]["metadata"]["annotations"] = json!({});
            request[object]["spec"]["volumes"].as_array_mut().unwrap().remove(0);
            request[object]["spec"]["containers"].as_array_mut().unwrap().remove(1);
        }
    });
    assert_eq!(message_of(&own), "accepted");
}

/// No setting denies exec (E8 is an option of the specification); `docs/security.md` says so.
#[test]
fn e8_a_shell_in_a_sidecar_is_the_matter_of_rbac() {
    let exec =
        edited(request("CONNECT", "", "PodExecOptions", &json!({"container": "agent"}), &Value::Null), |request| {
            request["subResource"] = json!("exec");
        });
    assert_eq!(message_of(&exec), "accepted");
}

// --- templates (E6)

#[rstest]
#[case::deployment(
    "apps",
    "Deployment",
    "serviceAccountName",
    "403 spec.template.spec.serviceAccountName: \"sidecarset-merged-7e18f737311b2dc3\" is a merged ServiceAccount; name another one; the policy sets merged ServiceAccounts where SidecarSets ask for them"
)]
#[case::alias(
    "apps",
    "StatefulSet",
    "serviceAccount",
    "403 spec.template.spec.serviceAccount: \"sidecarset-merged-7e18f737311b2dc3\" is a merged ServiceAccount; name another one; the policy sets merged ServiceAccounts where SidecarSets ask for them"
)]
#[case::daemon_set(
    "apps",
    "DaemonSet",
    "serviceAccountName",
    "403 spec.template.spec.serviceAccountName: \"sidecarset-merged-7e18f737311b2dc3\" is a merged ServiceAccount; name another one; the policy sets merged ServiceAccounts where SidecarSets ask for them"
)]
#[case::replica_set(
    "apps",
    "ReplicaSet",
    "serviceAccountName",
    "403 spec.template.spec.serviceAccountName: \"sidecarset-merged-7e18f737311b2dc3\" is a merged ServiceAccount; name another one; the policy sets merged ServiceAccounts where SidecarSets ask for them"
)]
#[case::job(
    "batch",
    "Job",
    "serviceAccountName",
    "403 spec.template.spec.serviceAccountName: \"sidecarset-merged-7e18f737311b2dc3\" is a merged ServiceAccount; name another one; the policy sets merged ServiceAccounts where SidecarSets ask for them"
)]
#[case::clone_set(
    "apps.kruise.io",
    "CloneSet",
    "serviceAccountName",
    "403 spec.template.spec.serviceAccountName: \"sidecarset-merged-7e18f737311b2dc3\" is a merged ServiceAccount; name another one; the policy sets merged ServiceAccounts where SidecarSets ask for them"
)]
fn e6_e10_templates_do_not_name_merged_accounts(
    #[case] group: &str,
    #[case] kind: &str,
    #[case] field: &str,
    #[case] message: &str,
) {
    let workload = |account: &str| json!({"metadata": {"name": "w", "namespace": "web"}, "spec": {"template": {"spec": {field: account}}}});
    assert_eq!(message_of(&request("CREATE", group, kind, &workload(&merged()), &Value::Null)), message);
    assert_eq!(message_of(&request("UPDATE", group, kind, &workload(&merged()), &workload("web"))), message);
    assert_eq!(message_of(&request("CREATE", group, kind, &workload("web"), &Value::Null)), "accepted");
    // Unrelated updates stay possible, to scale the workload down or to repair it.
    assert_eq!(message_of(&request("UPDATE", group, kind, &workload(&merged()), &workload(&merged()))), "accepted");
}

#[test]
fn e6_templates_of_cron_jobs() {
    let cron_job = |account: &str| json!({"metadata": {"name": "c"}, "spec": {"jobTemplate": {"spec": {"template": {"spec": {"serviceAccountName": account}}}}}});
    assert_eq!(
        message_of(&request("CREATE", "batch", "CronJob", &cron_job(&merged()), &Value::Null)),
        "403 spec.jobTemplate.spec.template.spec.serviceAccountName: \"sidecarset-merged-7e18f737311b2dc3\" is a merged ServiceAccount; name another one; the policy sets merged ServiceAccounts where SidecarSets ask for them"
    );
    assert_eq!(message_of(&request("CREATE", "batch", "CronJob", &cron_job("web"), &Value::Null)), "accepted");
}

/// The update copies the merged name from the alias to the field.
#[test]
fn e6_a_template_does_not_move_the_name_about() {
    let template = |spec: Value| json!({"metadata": {"name": "w"}, "spec": {"template": {"spec": spec}}});
    let old = template(json!({"serviceAccountName": "web", "serviceAccount": merged()}));
    let new = template(json!({"serviceAccountName": merged(), "serviceAccount": merged()}));
    assert_eq!(
        message_of(&request("UPDATE", "apps", "Deployment", &new, &old)),
        "403 spec.template.spec.serviceAccountName: \"sidecarset-merged-7e18f737311b2dc3\" is a merged ServiceAccount; name another one; the policy sets merged ServiceAccounts where SidecarSets ask for them"
    );
}

// --- managed objects, accounts in use, default (MRG-8, RUN-1)

#[rstest]
#[case::an_account(
    "",
    "ServiceAccount",
    "403 metadata.name: ServiceAccount \"sidecarset-merged-7e18f737311b2dc3\" belongs to Pillion's controller, which alone changes and deletes it; change or delete the SidecarSets that it is merged for"
)]
#[case::a_role(
    "rbac.authorization.k8s.io",
    "Role",
    "403 metadata.name: Role \"sidecarset-merged-7e18f737311b2dc3\" belongs to Pillion's controller, which alone changes and deletes it; change or delete the SidecarSets that it is merged for"
)]
#[case::a_binding(
    "rbac.authorization.k8s.io",
    "RoleBinding",
    "403 metadata.name: RoleBinding \"sidecarset-merged-7e18f737311b2dc3\" belongs to Pillion's controller, which alone changes and deletes it; change or delete the SidecarSets that it is merged for"
)]
fn mrg8_e6_merged_objects_are_the_controllers(#[case] group: &str, #[case] kind: &str, #[case] message: &str) {
    let wider = edited(managed(kind), |object| {
        object["rules"] = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]);
    });
    let delete = request("DELETE", group, kind, &Value::Null, &managed(kind));
    assert_eq!(message_of(&delete), message);
    assert_eq!(message_of(&request("UPDATE", group, kind, &wider, &managed(kind))), message);
    // An attack in two steps would remove the annotation first.
    let bare = edited(managed(kind), |object| object["metadata"]["annotations"] = json!({}));
    assert_eq!(message_of(&request("UPDATE", group, kind, &bare, &managed(kind))), message);
    // kubectl delete --all: the request has no name.
    let collection = edited(delete.clone(), |request| drop(request.as_object_mut().unwrap().remove("name")));
    assert_eq!(message_of(&collection), message);
    for user in [
        CONTROLLER,
        "system:serviceaccount:kube-system:namespace-controller",
        "system:serviceaccount:kube-system:generic-garbage-collector",
        "system:kube-controller-manager",
    ] {
        assert_eq!(message_of(&by(user, delete.clone())), "accepted", "{user}");
    }
    for user in [
        "system:serviceaccount:web:pillion-controller",
        "system:serviceaccount:kube-system:default",
        "System:kube-controller-manager",
    ] {
        assert_eq!(message_of(&by(user, delete.clone())), message, "{user}");
    }
    let others = edited(managed(kind), |object| object["metadata"]["name"] = json!("mine"));
    assert_eq!(message_of(&request("DELETE", group, kind, &Value::Null, &others)), "accepted");
}

/// An object that took the name before the controller did: only the controller may delete it.
#[test]
fn mrg2_the_name_alone_makes_it_the_controllers() {
    for annotations in [json!({}), json!({"pillion.dev/sidecarsets": "a,b,c"})] {
        let forged = edited(managed("ServiceAccount"), |object| object["metadata"]["annotations"] = annotations);
        let deletion = request("DELETE", "", "ServiceAccount", &Value::Null, &forged);
        assert!(message_of(&deletion).starts_with("403 metadata.name: "), "{}", message_of(&deletion));
        assert_eq!(message_of(&by(CONTROLLER, deletion)), "accepted");
    }
}

#[test]
fn run1_mrg8_accounts_that_are_needed() {
    let delete = |name: &str| request("DELETE", "", "ServiceAccount", &Value::Null, &account(name));
    assert_eq!(
        message_of(&delete("agent")),
        "403 metadata.name: ServiceAccount \"agent\" is in use by the SidecarSets \"agent\"; name another account there first"
    );
    assert_eq!(
        message_of(&delete("default")),
        "403 metadata.name: every Pod of namespace \"web\" needs the ServiceAccount \"default\"; delete the namespace instead, or unset serviceAccounts.protectDefault"
    );
    assert_eq!(message_of(&delete("a")), "accepted");
    let in_bank = edited(delete("agent"), |request| request["namespace"] = json!("bank"));
    assert_eq!(message_of(&in_bank), "accepted", "the set is for another namespace");
    // Without the SidecarSet in the settings, the account is not needed.
    assert_eq!(verdict(&admit_in(&delete("agent"), json!({}), cluster())), "accepted");
    assert_eq!(verdict(&admit_in(&delete("default"), json!({}), cluster())), "accepted");
    for user in [CONTROLLER, "system:serviceaccount:kube-system:namespace-controller"] {
        assert_eq!(message_of(&by(user, delete("agent"))), "accepted");
    }
}

#[test]
fn mrg8_whether_the_namespace_goes_decides() {
    let delete = request("DELETE", "", "ServiceAccount", &Value::Null, &managed("ServiceAccount"));
    let tell = |cluster: Court| verdict(&admit_in(&delete, json!({}), cluster));
    assert_eq!(tell(Court::with([namespace("Terminating")])), "accepted");
    assert_eq!(tell(Court::default()), "accepted", "it is gone");
    let going =
        edited(namespace("Active"), |object| object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"));
    assert_eq!(tell(Court::with([going])), "accepted");
    assert_eq!(
        tell(Court::default().answering(&namespace(""), Err(ClusterError::Failed("boom".to_owned())))),
        "503 metadata.namespace: Namespace \"web\" could not be read: no usable answer; try again"
    );
    assert_eq!(
        tell(Court::default().answering(&namespace(""), Err(ClusterError::NotGranted))),
        "503 metadata.namespace: Namespace \"web\" could not be read: not allowed; allow the policy to read it: its server's ServiceAccount needs \"get\" on it, and under Kubewarden contextAwareResources must list v1 Namespace and hostCapabilities kubernetes/get_resource"
    );
    // Deleting the namespace requires no updates, so they stay forbidden.
    let update = request("UPDATE", "", "ServiceAccount", &managed("ServiceAccount"), &managed("ServiceAccount"));
    assert!(verdict(&admit_in(&update, json!({}), Court::with([namespace("Terminating")]))).starts_with("403 "));
}

#[test]
fn run2_references_to_secrets_are_warned_of() {
    let new = edited(account("a"), |account| account["secrets"] = json!([{"name": "token"}]));
    let answer = admit_in(&request("UPDATE", "", "ServiceAccount", &new, &account("a")), json!({}), cluster());
    assert_eq!((verdict(&answer).as_str(), answer.warnings.unwrap()), ("accepted", vec!["ServiceAccount \"a\" now refers to the Secret \"token\"; tokens are requested by need, references are not needed".to_owned()]));
}

// --- token Secrets (RUN-4, E13)

fn token(name: &str, uid: &str) -> Value {
    let mut annotations = json!({ACCOUNT: name});
    if !uid.is_empty() {
        annotations[UID] = json!(uid);
    }
    json!({"apiVersion": "v1", "kind": "Secret", "type": TOKEN_TYPE,
        "metadata": {"name": "t", "namespace": "web", "annotations": annotations}})
}

#[rstest]
#[case::of_nobody(
    "nobody",
    "",
    "403 metadata.annotations[kubernetes.io/service-account.name]: ServiceAccount \"nobody\" does not exist in namespace \"web\"; create the ServiceAccount first, or request a token with `kubectl create token`"
)]
#[case::of_one_that_goes(
    "going",
    "",
    "403 metadata.annotations[kubernetes.io/service-account.name]: ServiceAccount \"going\" is being deleted; create the ServiceAccount first, or request a token with `kubectl create token`"
)]
#[case::of_an_earlier_one(
    "a",
    "0",
    "403 metadata.annotations[kubernetes.io/service-account.name]: ServiceAccount \"a\" has another UID than \"0\"; leave the annotation with the UID out: it is filled in"
)]
#[case::of_one_that_cannot_be_read(
    "hidden",
    "",
    "503 metadata.annotations[kubernetes.io/service-account.name]: ServiceAccount \"hidden\" could not be read: not allowed; allow the policy to read it: its server's ServiceAccount needs \"get\" on it, and under Kubewarden contextAwareResources must list v1 ServiceAccount and hostCapabilities kubernetes/get_resource"
)]
#[case::of_an_empty_name(
    "",
    "",
    "403 metadata.annotations[kubernetes.io/service-account.name]: ServiceAccount \"\" does not exist in namespace \"web\"; create the ServiceAccount first, or request a token with `kubectl create token`"
)]
fn e13_tokens_of_accounts_that_are_not_there(#[case] name: &str, #[case] uid: &str, #[case] message: &str) {
    let going =
        edited(account("going"), |account| account["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"));
    let cluster = || {
        let failure = ClusterError::Failed("serviceaccounts \"hidden\" is forbidden".to_owned());
        Court::with([account("a"), going.clone()]).answering(&account("hidden"), Err(failure))
    };
    let tell = |request: &Value| {
        verdict(&admit_in(request, json!({"legacyTokenSecrets": "Allow", "legacyTokenExempt": ["*"]}), cluster()))
    };
    assert_eq!(tell(&request("CREATE", "", "Secret", &token(name, uid), &Value::Null)), message);
    // An attack in two steps: first for an existing account.
    assert_eq!(tell(&request("UPDATE", "", "Secret", &token(name, uid), &token("a", "1"))), message);
    assert_eq!(tell(&request("CREATE", "", "Secret", &token("a", "1"), &Value::Null)), "accepted");
}

#[test]
fn e13_run4_tokens_that_do_not_expire() {
    let create = request("CREATE", "", "Secret", &token("a", ""), &Value::Null);
    let tell = |rules: Value| admit_in(&create, rules, cluster());
    assert_eq!(
        verdict(&tell(json!({"legacyTokenSecrets": "Deny"}))),
        "403 type: a Secret of the type \"kubernetes.io/service-account-token\" holds a token that does not expire; request a token with `kubectl create token`, or add the Secret to serviceAccounts.legacyTokenExempt"
    );
    assert_eq!(
        tell(json!({})).warnings.unwrap(),
        ["a Secret of the type \"kubernetes.io/service-account-token\" holds a token that does not expire"]
    );
    let allowed = tell(json!({"legacyTokenSecrets": "Allow"}));
    assert_eq!((verdict(&allowed).as_str(), allowed.warnings), ("accepted", None));
    // The uid prevents the Secret from getting a token of a later account of the same name.
    assert_eq!(allowed.mutated_object.unwrap()["metadata"]["annotations"][UID], json!("1"));
    assert_eq!(verdict(&tell(json!({"legacyTokenSecrets": "Deny", "legacyTokenExempt": ["web/t"]}))), "accepted");
    let generated = edited(create.clone(), |request| {
        drop(request["object"]["metadata"].as_object_mut().unwrap().remove("name"));
        request["object"]["metadata"]["generateName"] = json!("t");
    });
    let rules = json!({"legacyTokenSecrets": "Deny", "legacyTokenExempt": ["web/t"]});
    assert!(verdict(&admit_in(&generated, rules, cluster())).starts_with("403 "), "a generated name is not exempt");
}

#[test]
fn mrg8_groups_make_no_controller() {
    let delete = edited(request("DELETE", "", "Role", &Value::Null, &managed("Role")), |request| {
        request["kind"]["group"] = json!("rbac.authorization.k8s.io");
        request["userInfo"] = json!({"username": "eve", "groups": [CONTROLLER, "system:kube-controller-manager"]});
    });
    assert!(message_of(&delete).starts_with("403 "));
    let nobody = edited(delete, |request| drop(request.as_object_mut().unwrap().remove("userInfo")));
    assert!(message_of(&nobody).starts_with("403 "));
}

// --- merged accounts are the controller's, from the beginning (E22)

#[rstest]
#[case::warned_of(json!({}))]
#[case::allowed(json!({"legacyTokenSecrets": "Allow"}))]
#[case::exempt(json!({"legacyTokenSecrets": "Allow", "legacyTokenExempt": ["*", "web/*"]}))]
fn e22_a_secret_does_not_hold_a_token_of_a_merged_account(#[case] rules: Value) {
    let message = "403 metadata.annotations[kubernetes.io/service-account.name]: a Secret would hold a token of the merged ServiceAccount \"sidecarset-merged-7e18f737311b2dc3\"; name another ServiceAccount; the Pods of a merged one get their tokens from the kubelet";
    let there = || Court::with([namespace("Active"), account("a"), managed("ServiceAccount")]);
    let tell = |request: &Value| verdict(&admit_in(request, rules.clone(), there()));
    let attack = token(&merged(), "");
    for user in
        ["ann", CONTROLLER, "system:kube-controller-manager", "system:serviceaccount:kube-system:tokens-controller"]
    {
        assert_eq!(tell(&by(user, request("CREATE", "", "Secret", &attack, &Value::Null))), message, "{user}");
        assert_eq!(tell(&by(user, request("UPDATE", "", "Secret", &attack, &token("a", "1")))), message, "{user}");
    }
    assert_eq!(tell(&request("UPDATE", "", "Secret", &token("a", "1"), &attack)), "accepted");
    let released = edited(attack.clone(), |secret| secret["metadata"]["finalizers"] = json!([]));
    assert_eq!(tell(&request("UPDATE", "", "Secret", &released, &attack)), "accepted");
}

#[rstest]
#[case::an_account("", "ServiceAccount")]
#[case::a_role("rbac.authorization.k8s.io", "Role")]
#[case::a_binding("rbac.authorization.k8s.io", "RoleBinding")]
fn e22_nobody_else_makes_a_merged_object(#[case] group: &str, #[case] kind: &str) {
    let create = request("CREATE", group, kind, &managed(kind), &Value::Null);
    let message = format!(
        "403 metadata.name: {kind} \"sidecarset-merged-7e18f737311b2dc3\": names that start with \"sidecarset-merged-\" are for objects that Pillion's controller makes; choose another name"
    );
    for user in ["ann", "system:kube-controller-manager", "system:serviceaccount:kube-system:namespace-controller"] {
        assert_eq!(message_of(&by(user, create.clone())), message, "{user}");
    }
    assert_eq!(message_of(&by(CONTROLLER, create.clone())), "accepted");
    let generated = edited(create.clone(), |request| {
        drop(request.as_object_mut().unwrap().remove("name"));
        request["object"]["metadata"] = json!({"generateName": "sidecarset-merged-7e18f737311", "namespace": "web"});
    });
    assert!(message_of(&generated).starts_with("403 metadata.generateName: "), "{}", message_of(&generated));
    let plain = edited(create, |request| request["object"]["metadata"]["name"] = json!("reader"));
    assert_eq!(message_of(&plain), "accepted");
}

#[rstest]
#[case::a_replication_controller("", "ReplicationController", "spec.template.spec")]
#[case::a_pod_template("", "PodTemplate", "template.spec")]
#[case::a_stateful_set("apps.kruise.io", "StatefulSet", "spec.template.spec")]
#[case::a_daemon_set("apps.kruise.io", "DaemonSet", "spec.template.spec")]
#[case::a_broadcast_job("apps.kruise.io", "BroadcastJob", "spec.template.spec")]
#[case::a_cron_job("apps.kruise.io", "AdvancedCronJob", "spec.template.jobTemplate.spec.template.spec")]
#[case::a_cron_job_of_broadcasts(
    "apps.kruise.io",
    "AdvancedCronJob",
    "spec.template.broadcastJobTemplate.spec.template.spec"
)]
#[case::united_stateful_sets(
    "apps.kruise.io",
    "UnitedDeployment",
    "spec.template.statefulSetTemplate.spec.template.spec"
)]
#[case::united_advanced_stateful_sets(
    "apps.kruise.io",
    "UnitedDeployment",
    "spec.template.advancedStatefulSetTemplate.spec.template.spec"
)]
#[case::united_clone_sets("apps.kruise.io", "UnitedDeployment", "spec.template.cloneSetTemplate.spec.template.spec")]
#[case::united_deployments("apps.kruise.io", "UnitedDeployment", "spec.template.deploymentTemplate.spec.template.spec")]
fn e6_templates_of_other_workloads(#[case] group: &str, #[case] kind: &str, #[case] place: &str) {
    let workload = |account: &str| {
        let spec = json!({ "serviceAccountName": account });
        let mut object = place.rsplit('.').fold(spec, |value, key| json!({ key: value }));
        object["metadata"] = json!({"name": "w", "namespace": "web"});
        object
    };
    let message = format!(
        "403 {place}.serviceAccountName: \"sidecarset-merged-7e18f737311b2dc3\" is a merged ServiceAccount; name another one; the policy sets merged ServiceAccounts where SidecarSets ask for them"
    );
    assert_eq!(message_of(&request("CREATE", group, kind, &workload(&merged()), &Value::Null)), message);
    assert_eq!(message_of(&request("UPDATE", group, kind, &workload(&merged()), &workload("web"))), message);
    assert_eq!(message_of(&request("UPDATE", group, kind, &workload(&merged()), &workload(&merged()))), "accepted");
    assert_eq!(message_of(&request("CREATE", group, kind, &workload("web"), &Value::Null)), "accepted");
}
