//! Pods whose authors reach for the identity of a sidecar, through the built module. Beside each attack stands the
//! nearest honest Pod.
#![allow(missing_docs, clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)] // A panic is how a test fails.
#![allow(clippy::needless_pass_by_value, reason = "json! makes values")]

mod support;

use std::sync::Arc;

use pillion_core::service_account::names;
use pillion_host::{ClusterError, ValidationResponse};
use rstest::rstest;
use serde_json::{Value, json};
use support::identity::{Court, ask, edited, gated, rule, verdict};

const TOKEN_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const INJECTED: &str = "pillion.dev/service-account-injected";

fn set(name: &str, account: &str) -> Value {
    json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "containers": [{"name": name, "image": "agent:1", "podInjectPolicy": "AfterAppContainer"}],
            "serviceAccountName": account, "behaviorWhenServiceAccountInjection": "Merge",
            "serviceAccountPermissions": [rule("", name, "get")],
        },
    })
}

fn isolated(name: &str, account: &str) -> Value {
    edited(set(name, account), |set| set["spec"]["serviceAccountMode"] = json!("Isolate"))
}

/// A Pod as the API server shows it: with its account, the alias and the token of that account.
fn pod() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "web", "labels": {"app": "web"}},
        "spec": {
            "serviceAccountName": "default", "serviceAccount": "default",
            "containers": [{
                "name": "app", "image": "nginx:1",
                "volumeMounts": [{"name": "kube-api-access-x7k2p", "readOnly": true, "mountPath": TOKEN_PATH}],
            }],
            "volumes": [automounted("kube-api-access-x7k2p")],
        },
    })
}

/// The volume that the API server adds.
fn automounted(name: &str) -> Value {
    json!({"name": name, "projected": {"defaultMode": 420, "sources": [
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]}},
    ]}})
}

fn running_as(account: &str) -> Value {
    edited(pod(), |pod| {
        pod["spec"]["serviceAccountName"] = json!(account);
        pod["spec"]["serviceAccount"] = json!(account);
    })
}

fn account(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"namespace": "web", "name": name, "uid": "1"}})
}

fn merged_name() -> String {
    names::merged(&["a", "b"])
}

/// The three objects of the sets `a` and `b`.
fn merged_objects() -> [Value; 3] {
    let name = merged_name();
    let metadata = json!({"namespace": "web", "name": name, "annotations": {"pillion.dev/sidecarsets": "a,b"}});
    let rbac = "rbac.authorization.k8s.io/v1";
    [
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}),
        json!({"apiVersion": rbac, "kind": "Role", "metadata": metadata, "rules": [
            {"apiGroups": [""], "resources": ["a", "b"], "verbs": ["get"]}
        ]}),
        json!({
            "apiVersion": rbac, "kind": "RoleBinding", "metadata": metadata,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": "web"}],
        }),
    ]
}

fn cluster() -> Court {
    let accounts = ["a", "b", "agent", "other", "sidecarset-merged-0123456789abcdef"].map(account);
    Court::with(accounts.into_iter().chain(merged_objects()))
}

fn request(pod: &Value) -> Value {
    json!({
        "uid": "u", "operation": "CREATE", "namespace": "web", "name": "p", "dryRun": false,
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "userInfo": {"username": "dev", "groups": ["system:authenticated"]}, "object": pod,
    })
}

fn admit_in(pod: &Value, rules: Value, sets: &[Value], cluster: Court) -> ValidationResponse {
    ask(&request(pod), &gated(&rules, sets), &Arc::new(cluster))
}

fn admit(pod: &Value, sets: &[Value]) -> ValidationResponse {
    admit_in(pod, json!({}), sets, cluster())
}

/// What the Pod's author is told.
fn told(pod: &Value, sets: &[Value]) -> String {
    verdict(&admit(pod, sets))
}

/// The Pod after admission.
fn injected(pod: &Value, sets: &[Value]) -> Value {
    let answer = admit(pod, sets);
    assert!(answer.accepted, "{:?}", answer.message);
    answer.mutated_object.unwrap_or_else(|| pod.clone())
}

/// The containers with a token of an account: of the Pod's, or of an isolated sidecar's, as the kubelet would mount it.
fn holders(pod: &Value) -> Vec<String> {
    let empty = Vec::new();
    let list = |value: &Value| value.as_array().unwrap_or(&empty).clone();
    let volumes = list(&pod["spec"]["volumes"]);
    let mut holders = Vec::new();
    for container in list(&pod["spec"]["initContainers"]).iter().chain(&list(&pod["spec"]["containers"])) {
        for mount in list(&container["volumeMounts"]) {
            let Some(volume) = volumes.iter().find(|volume| volume["name"] == mount["name"]) else { continue };
            for source in list(&volume["projected"]["sources"]) {
                if !source["serviceAccountToken"].is_null() {
                    holders.push(format!("{}: {}", container["name"], pod["spec"]["serviceAccountName"]));
                } else if source["secret"]["name"].as_str().is_some_and(|name| name.starts_with("sidecarset-token-")) {
                    holders.push(format!("{}: {}", container["name"], source["secret"]["name"]));
                }
            }
        }
    }
    holders.iter().map(|text| text.replace('"', "")).collect()
}

#[test]
fn e3_only_the_sidecar_holds_its_account() {
    let answer = admit(&pod(), &[set("a", "agent")]);
    let after = answer.mutated_object.unwrap();
    assert_eq!(holders(&after), ["a: agent"]);
    assert_eq!(after["spec"]["automountServiceAccountToken"], json!(false));
    assert_eq!(after["spec"]["serviceAccount"], json!("agent"), "the alias follows (A1-3)");
    assert_eq!(
        holders(&injected(&pod(), &[isolated("a", "agent")])),
        ["app: default", "a: sidecarset-token-d4f0bc5a29de06b5"]
    );
}

// --- merged accounts (E6)

#[rstest]
#[case::of_nobody(running_as("sidecarset-merged-0123456789abcdef"), vec![], "403 spec.serviceAccountName: ServiceAccount \"sidecarset-merged-0123456789abcdef\" is merged for other SidecarSets than this Pod's; name another ServiceAccount; merged ones are set by the policy alone")]
#[case::of_other_sets(running_as("sidecarset-merged-0123456789abcdef"), vec![set("a", "a"), set("b", "b")], "403 spec.serviceAccountName: ServiceAccount \"sidecarset-merged-0123456789abcdef\" is merged for other SidecarSets than this Pod's; name another ServiceAccount; merged ones are set by the policy alone")]
#[case::of_one_set(running_as(&merged_name()), vec![set("a", "a")], "403 spec.serviceAccountName: ServiceAccount \"sidecarset-merged-7e18f737311b2dc3\" is merged for other SidecarSets than this Pod's; name another ServiceAccount; merged ones are set by the policy alone")]
#[case::of_sets_that_do_not_merge(running_as(&merged_name()), vec![set("a", "a"), edited(set("b", "b"), |set| {
    set["spec"]["behaviorWhenServiceAccountInjection"] = json!("Refuse");
    set["spec"]["serviceAccountPermissions"] = json!([]);
})], "403 spec.serviceAccountName: ServiceAccount \"sidecarset-merged-7e18f737311b2dc3\" is merged for other SidecarSets than this Pod's; name another ServiceAccount; merged ones are set by the policy alone")]
#[case::in_the_alias_alone(edited(running_as(&merged_name()), |pod| drop(pod["spec"].as_object_mut().unwrap().remove("serviceAccountName"))), vec![], "403 spec.serviceAccountName: ServiceAccount \"sidecarset-merged-7e18f737311b2dc3\" is merged for other SidecarSets than this Pod's; name another ServiceAccount; merged ones are set by the policy alone")]
#[case::with_forged_annotations(edited(running_as(&merged_name()), |pod| {
    pod["metadata"]["annotations"] = json!({
        INJECTED: json!({"original": "default", "injected": merged_name(), "sidecarSets": ["a", "b"]}).to_string(),
    });
}), vec![], "403 spec.serviceAccountName: ServiceAccount \"sidecarset-merged-7e18f737311b2dc3\" is merged for other SidecarSets than this Pod's; name another ServiceAccount; merged ones are set by the policy alone")]
#[case::that_says_it_has_finished(edited(running_as(&merged_name()), |pod| pod["status"] = json!({"phase": "Succeeded"})), vec![set("a", "a"), set("b", "b")], "403 spec.serviceAccountName: ServiceAccount \"sidecarset-merged-7e18f737311b2dc3\" is merged for other SidecarSets than this Pod's; name another ServiceAccount; merged ones are set by the policy alone")]
#[case::that_says_it_is_being_deleted(edited(running_as(&merged_name()), |pod| pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z")), vec![set("a", "a"), set("b", "b")], "403 spec.serviceAccountName: ServiceAccount \"sidecarset-merged-7e18f737311b2dc3\" is merged for other SidecarSets than this Pod's; name another ServiceAccount; merged ones are set by the policy alone")]
fn e6_pods_do_not_choose_a_merged_account(#[case] pod: Value, #[case] sets: Vec<Value>, #[case] message: &str) {
    assert_eq!(told(&pod, &sets), message);
    assert_eq!(told(&running_as("default"), &[set("a", "a"), set("b", "b")]), "accepted");
}

/// The account is the right one for the sets, so that the Pod might be one that is admitted again: then nobody but the
/// sidecars holds its token.
#[test]
fn e6_naming_the_right_merged_account_gives_the_app_nothing() {
    let sets = [set("a", "a"), set("b", "b")];
    let merged = merged_name();
    let after = injected(&pod(), &sets);
    assert_eq!(holders(&after), [format!("a: {merged}"), format!("b: {merged}")]);
    assert!(admit(&after, &sets).mutated_object.is_none(), "M6");

    let after = injected(&running_as(&merged), &sets);
    assert_eq!(holders(&after), [format!("a: {merged}"), format!("b: {merged}")]);
    // With a token that nobody automounted.
    let greedy = edited(running_as(&merged), |pod| {
        pod["spec"]["automountServiceAccountToken"] = json!(false);
        pod["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "mine", "mountPath": "/mine"}]);
        pod["spec"]["volumes"] =
            json!([{"name": "mine", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}]);
    });
    assert_eq!(
        told(&greedy, &sets),
        "403 spec.serviceAccountName: container \"app\" mounts a token of the merged ServiceAccount \"sidecarset-merged-7e18f737311b2dc3\", which is for sidecars alone; name another ServiceAccount; merged ones are set by the policy alone"
    );
}

#[rstest]
#[case::an_account_for_other_sets(0, |object: &mut Value| object["metadata"]["annotations"]["pillion.dev/sidecarsets"] = json!("a,b,c"), "403 spec.serviceAccountName: ServiceAccount \"sidecarset-merged-7e18f737311b2dc3\" in namespace \"web\", merged for the SidecarSets a,b, has the annotation pillion.dev/sidecarsets \"a,b,c\" where \"a,b\" belongs; delete it if nobody needs it; Pillion does not adopt what it did not make")]
#[case::an_account_without_the_annotation(0, |object: &mut Value| drop(object["metadata"].as_object_mut().unwrap().remove("annotations")), "403 spec.serviceAccountName: ServiceAccount \"sidecarset-merged-7e18f737311b2dc3\" in namespace \"web\", merged for the SidecarSets a,b, has the annotation pillion.dev/sidecarsets \"\" where \"a,b\" belongs; delete it if nobody needs it; Pillion does not adopt what it did not make")]
#[case::a_wider_role(1, |object: &mut Value| object["rules"][0]["verbs"] = json!(["*"]), "503 spec.serviceAccountName: Role \"sidecarset-merged-7e18f737311b2dc3\" in namespace \"web\", merged for the SidecarSets a,b, does not say yet what the SidecarSets say; the controller prepares it; try again")]
#[case::another_role(2, |object: &mut Value| object["roleRef"] = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}), "503 spec.serviceAccountName: RoleBinding \"sidecarset-merged-7e18f737311b2dc3\" in namespace \"web\", merged for the SidecarSets a,b, does not say yet what the SidecarSets say; the controller prepares it; try again")]
#[case::a_cluster_role_of_the_name(2, |object: &mut Value| object["roleRef"]["kind"] = json!("ClusterRole"), "503 spec.serviceAccountName: RoleBinding \"sidecarset-merged-7e18f737311b2dc3\" in namespace \"web\", merged for the SidecarSets a,b, does not say yet what the SidecarSets say; the controller prepares it; try again")]
#[case::a_second_subject(2, |object: &mut Value| object["subjects"].as_array_mut().unwrap().push(json!({"kind": "User", "name": "dev"})), "503 spec.serviceAccountName: RoleBinding \"sidecarset-merged-7e18f737311b2dc3\" in namespace \"web\", merged for the SidecarSets a,b, does not say yet what the SidecarSets say; the controller prepares it; try again")]
#[case::another_namespace(2, |object: &mut Value| object["subjects"][0]["namespace"] = json!("bank"), "503 spec.serviceAccountName: RoleBinding \"sidecarset-merged-7e18f737311b2dc3\" in namespace \"web\", merged for the SidecarSets a,b, does not say yet what the SidecarSets say; the controller prepares it; try again")]
#[case::a_terminating_account(0, |object: &mut Value| object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"), "503 spec.serviceAccountName: ServiceAccount \"sidecarset-merged-7e18f737311b2dc3\" in namespace \"web\", merged for the SidecarSets a,b, is being deleted; the controller prepares it; try again")]
#[case::a_role_that_goes(1, |object: &mut Value| object["metadata"]["annotations"]["pillion.dev/gc-pending"] = json!("2026-01-01T00:00:00Z"), "503 spec.serviceAccountName: Role \"sidecarset-merged-7e18f737311b2dc3\" in namespace \"web\", merged for the SidecarSets a,b, is about to be collected; the controller prepares it; try again")]
#[case::an_annotation_with_line_breaks(0, |object: &mut Value| object["metadata"]["annotations"]["pillion.dev/sidecarsets"] = json!("x\n\nall is well; run \u{1b}[31mthis"), "403 spec.serviceAccountName: ServiceAccount \"sidecarset-merged-7e18f737311b2dc3\" in namespace \"web\", merged for the SidecarSets a,b, has the annotation pillion.dev/sidecarsets \"x\\n\\nall is well; run \\u{1b}[31mthis\" where \"a,b\" belongs; delete it if nobody needs it; Pillion does not adopt what it did not make")]
fn g2_g5_merged_objects_that_are_not_what_they_should_be(
    #[case] which: usize,
    #[case] edit: fn(&mut Value),
    #[case] message: &str,
) {
    let mut objects = merged_objects();
    edit(&mut objects[which]);
    let cluster = Court::with(["a", "b"].map(account).into_iter().chain(objects));
    assert_eq!(verdict(&admit_in(&pod(), json!({}), &[set("a", "a"), set("b", "b")], cluster)), message);
    assert_eq!(told(&pod(), &[set("a", "a"), set("b", "b")]), "accepted");
}

// --- tokens that are not the Pod's to hold (E3, E4, B0)

fn volume_of(account: &str) -> String {
    names::token_volume(account)
}

#[rstest]
#[case::the_sidecars_volume(json!([{"name": volume_of("agent"), "mountPath": "/stolen"}]), json!([]), "403 spec: container \"app\" mounts the volume \"sidecarset-sa-d4f0bc5a29de06b5\", which belongs to a sidecar; remove it; only the containers of the SidecarSet may hold its token")]
#[case::a_part_of_it(json!([{"name": volume_of("agent"), "mountPath": "/stolen", "subPath": "token"}]), json!([]), "403 spec: container \"app\" mounts the volume \"sidecarset-sa-d4f0bc5a29de06b5\", which belongs to a sidecar; remove it; only the containers of the SidecarSet may hold its token")]
#[case::a_volume_called_like_it(json!([{"name": "sidecarset-sa-mine", "mountPath": "/t"}]), json!([{"name": "sidecarset-sa-mine", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}]), "403 spec: container \"app\" mounts the volume \"sidecarset-sa-mine\", which belongs to a sidecar; remove it; only the containers of the SidecarSet may hold its token")]
#[case::its_secret(json!([{"name": "v", "mountPath": "/v"}]), json!([{"name": "v", "secret": {"secretName": "sidecarset-token-d4f0bc5a29de06b5"}}]), "403 spec: container \"app\" mounts the Secret \"sidecarset-token-d4f0bc5a29de06b5\", which belongs to a sidecar; remove it; only the containers of the SidecarSet may hold its token")]
#[case::its_secret_among_others(json!([{"name": "v", "mountPath": "/v"}]), json!([{"name": "v", "projected": {"sources": [
    {"secret": {"name": "mine"}}, {"secret": {"name": "sidecarset-token-d4f0bc5a29de06b5"}}]}}]), "403 spec: container \"app\" mounts the Secret \"sidecarset-token-d4f0bc5a29de06b5\", which belongs to a sidecar; remove it; only the containers of the SidecarSet may hold its token")]
fn e4_the_app_does_not_mount_a_sidecars_token(#[case] mounts: Value, #[case] volumes: Value, #[case] message: &str) {
    for list in ["containers", "initContainers"] {
        let attack = edited(pod(), |pod| {
            pod["spec"]["volumes"].as_array_mut().unwrap().append(volumes.clone().as_array_mut().unwrap());
            if list == "containers" {
                pod["spec"]["containers"][0]["volumeMounts"]
                    .as_array_mut()
                    .unwrap()
                    .append(mounts.clone().as_array_mut().unwrap());
            } else {
                pod["spec"]["initContainers"] = json!([{"name": "app-init", "image": "i", "volumeMounts": mounts}]);
            }
        });
        for sets in [vec![isolated("a", "agent")], vec![set("a", "agent")], vec![]] {
            assert_eq!(told(&attack, &sets).replace("app-init", "app"), message, "{list} {}", sets.len());
        }
    }
    let honest = edited(pod(), |pod| {
        pod["spec"]["containers"][0]["volumeMounts"]
            .as_array_mut()
            .unwrap()
            .push(json!({"name": "v", "mountPath": "/v"}));
        pod["spec"]["volumes"].as_array_mut().unwrap().push(json!({"name": "v", "secret": {"secretName": "mine"}}));
    });
    assert_eq!(holders(&injected(&honest, &[set("a", "agent")])), ["a: agent"]);
}

#[rstest]
#[case::a_variable(json!({"env": [{"name": "T", "valueFrom": {"secretKeyRef": {"name": "sidecarset-token-d4f0bc5a29de06b5", "key": "token"}}}]}), "403 spec: container \"app\" takes its environment from the Secret \"sidecarset-token-d4f0bc5a29de06b5\", which belongs to a sidecar; remove it; only the containers of the SidecarSet may hold its token")]
#[case::an_environment(json!({"envFrom": [{"configMapRef": {"name": "c"}}, {"prefix": "X_", "secretRef": {"name": "sidecarset-token-d4f0bc5a29de06b5"}}]}), "403 spec: container \"app\" takes its environment from the Secret \"sidecarset-token-d4f0bc5a29de06b5\", which belongs to a sidecar; remove it; only the containers of the SidecarSet may hold its token")]
fn e4_the_app_does_not_take_a_sidecars_token_from_the_environment(#[case] container: Value, #[case] message: &str) {
    let attack = edited(pod(), |pod| {
        for (key, value) in container.as_object().unwrap() {
            pod["spec"]["containers"][0][key] = value.clone();
        }
    });
    assert_eq!(told(&attack, &[isolated("a", "agent")]), message);
    let honest = edited(pod(), |pod| {
        pod["spec"]["containers"][0]["envFrom"] = json!([{"secretRef": {"name": "mine"}}]);
    });
    assert_eq!(told(&honest, &[isolated("a", "agent")]), "accepted");
}

/// A further token of the Pod's account would become the sidecar's: the Pod keeps its account, and the sidecar gets none.
#[rstest]
#[case::for_an_audience("mine", json!({"path": "t", "audience": "vault"}), "/t")]
#[case::for_the_api_server("mine", json!({"path": "t"}), "/t")]
#[case::called_like_the_api_servers("kube-api-access-mine0", json!({"path": "t"}), "/t")]
#[case::with_an_audience_at_the_path("kube-api-access-mine0", json!({"path": "t", "audience": "vault"}), TOKEN_PATH)]
#[case::at_the_path_behind_the_link("kube-api-access-mine0", json!({"path": "t"}), "/run/secrets/kubernetes.io/serviceaccount")]
#[case::with_nothing_said("mine", json!({}), "/t")]
fn b0_further_tokens_do_not_become_the_sidecars(#[case] name: &str, #[case] token: Value, #[case] path: &str) {
    let further = |list: &str| {
        edited(pod(), |pod| {
            pod["spec"]["volumes"]
                .as_array_mut()
                .unwrap()
                .push(json!({"name": name, "projected": {"sources": [{"serviceAccountToken": token}]}}));
            let container = json!({"name": "other", "image": "i", "volumeMounts": [{"name": name, "mountPath": path}]});
            if pod["spec"][list].is_null() {
                pod["spec"][list] = json!([]);
            }
            pod["spec"][list].as_array_mut().unwrap().push(container);
        })
    };
    for list in ["containers", "initContainers"] {
        let after = injected(&further(list), &[set("a", "agent")]);
        assert!(holders(&after).iter().all(|holder| !holder.ends_with("agent")), "{:?}", holders(&after));
        let answer = admit_in(&further(list), json!({"onAppServiceAccount": "Deny"}), &[set("a", "agent")], cluster());
        assert!(
            verdict(&answer).contains("container \"other\" mounts a token of the Pod's ServiceAccount"),
            "{answer:?}"
        );
        let isolated = injected(&further(list), &[isolated("a", "agent")]);
        assert!(holders(&isolated).contains(&"a: sidecarset-token-d4f0bc5a29de06b5".to_owned()));
    }
}

/// The automounted token stays with nobody, however its volume is mounted.
#[rstest]
#[case::twice_at_the_path(json!([
    {"name": "kube-api-access-x7k2p", "mountPath": TOKEN_PATH},
    {"name": "kube-api-access-x7k2p", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount/"},
]))]
#[case::a_part_of_it(json!([{"name": "kube-api-access-x7k2p", "mountPath": TOKEN_PATH, "subPath": "token"}]))]
#[case::at_the_path_with_dots(json!([{"name": "kube-api-access-x7k2p", "mountPath": "/var/run/secrets/x/../kubernetes.io/serviceaccount"}]))]
#[case::elsewhere(json!([{"name": "kube-api-access-x7k2p", "mountPath": "/t"}]))]
#[case::nowhere(json!([]))]
fn a1_c_the_app_never_ends_up_with_the_sidecars_token(#[case] mounts: Value) {
    let pod = edited(pod(), |pod| pod["spec"]["containers"][0]["volumeMounts"] = mounts);
    for holder in holders(&injected(&pod, &[set("a", "agent")])) {
        assert!(holder == "app: default" || holder == "a: agent", "{holder}");
    }
}

// --- containers and records that claim to be ours

fn injected_with_records(edit: impl FnOnce(&mut Value)) -> Value {
    // What the policy made of the Pod says what the records look like.
    edited(injected(&pod(), &[isolated("a", "agent")]), edit)
}

#[test]
fn e4_a_container_of_the_sidecars_name_is_not_the_sidecar() {
    let impostor = edited(pod(), |pod| {
        pod["spec"]["containers"].as_array_mut().unwrap().push(json!({"name": "a", "image": "evil:1"}));
    });
    assert_eq!(
        told(&impostor, &[isolated("a", "agent")]),
        "403 SidecarSet \"a\": spec.containers[0].name: sidecar \"a\" has the name of a container of the Pod; rename the Pod's \"a\" or the sidecar"
    );
    let init = edited(pod(), |pod| pod["spec"]["initContainers"] = json!([{"name": "a", "image": "evil:1"}]));
    assert_eq!(
        told(&init, &[isolated("a", "agent")]),
        "403 SidecarSet \"a\": spec.containers[0].name: sidecar \"a\" has the name of an init container of the Pod; rename the Pod's \"a\" or the sidecar"
    );
}

/// With the records of an injected Pod, whatever decides what runs is written anew.
#[rstest]
#[case::another_image("image", json!("evil:1"))]
#[case::a_command("command", json!(["sh", "-c", "cat /var/run/secrets/kubernetes.io/serviceaccount/token"]))]
#[case::arguments("args", json!(["--evil"]))]
#[case::a_hook("lifecycle", json!({"postStart": {"exec": {"command": ["evil"]}}}))]
#[case::a_probe("livenessProbe", json!({"exec": {"command": ["evil"]}}))]
#[case::a_variable("env", json!([{"name": "IS_INJECTED", "value": "true"}, {"name": "LD_PRELOAD", "value": "/evil.so"}]))]
#[case::an_environment("envFrom", json!([{"configMapRef": {"name": "evil"}}]))]
#[case::a_working_directory("workingDir", json!("/evil"))]
fn e4_forged_records_give_no_container_the_token(#[case] field: &str, #[case] value: Value) {
    let ours = injected_with_records(|_| ());
    let forged = injected_with_records(|pod| pod["spec"]["containers"][1][field] = value);
    assert_eq!(ours["spec"]["containers"][1]["name"], json!("a"));
    let after = injected(&forged, &[isolated("a", "agent")]);
    assert_eq!(after["spec"]["containers"][1], ours["spec"]["containers"][1]);
    assert!(admit(&ours, &[isolated("a", "agent")]).mutated_object.is_none(), "M6");
}

/// What others add to a sidecar, and what would put the token where somebody else reads it.
#[rstest]
#[case::a_shared_volume_over_the_token(json!([{"name": "mine", "mountPath": TOKEN_PATH}]), "403 spec.containers: sidecar \"a\" has the volume \"mine\" where its token belongs; remove the mount from the SidecarSet")]
#[case::beside_the_token(json!([
    {"name": "sidecarset-sa-d4f0bc5a29de06b5", "readOnly": true, "mountPath": TOKEN_PATH},
    {"name": "mine", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount/"},
]), "403 spec.containers: sidecar \"a\" has the volume \"mine\" where its token belongs; remove the mount from the SidecarSet")]
fn b2_forged_mounts_of_a_sidecar(#[case] mounts: Value, #[case] message: &str) {
    let forged = injected_with_records(|pod| {
        pod["spec"]["volumes"].as_array_mut().unwrap().push(json!({"name": "mine", "emptyDir": {}}));
        pod["spec"]["containers"][1]["volumeMounts"] = mounts;
    });
    assert_eq!(told(&forged, &[isolated("a", "agent")]), message);
}

#[test]
fn b1_a_volume_of_the_token_that_is_not_ours_is_refused() {
    let with = |volume: Value| edited(pod(), |pod| pod["spec"]["volumes"].as_array_mut().unwrap().push(volume));
    let forged = with(json!({"name": volume_of("agent"), "emptyDir": {}}));
    assert_eq!(
        told(&forged, &[isolated("a", "agent")]),
        "403 spec.volumes: the volume \"sidecarset-sa-d4f0bc5a29de06b5\" is not the one that holds the token of \"agent\"; remove it; the name is Pillion's"
    );
    let of_pod = with(edited(automounted(&volume_of("agent")), |_| ()));
    assert_eq!(
        told(&of_pod, &[isolated("a", "agent")]),
        "403 spec.volumes: the volume \"sidecarset-sa-d4f0bc5a29de06b5\" is not the one that holds the token of \"agent\"; remove it; the name is Pillion's"
    );
    let same = injected(&pod(), &[isolated("a", "agent")])["spec"]["volumes"][1].clone();
    assert_eq!(told(&with(same), &[isolated("a", "agent")]), "accepted");
}

// --- other sets

/// A set without an account reaches for the token of another.
#[test]
fn e4_a5_8_a_set_without_an_account_gets_no_token() {
    let plain = |mounts: Value, volumes: Value| {
        edited(set("b", "x"), |set| {
            for key in ["serviceAccountName", "behaviorWhenServiceAccountInjection", "serviceAccountPermissions"] {
                set["spec"].as_object_mut().unwrap().remove(key);
            }
            set["spec"]["containers"][0]["volumeMounts"] = mounts;
            set["spec"]["volumes"] = volumes;
        })
    };
    let thief = plain(json!([{"name": volume_of("agent"), "mountPath": "/t"}]), json!([]));
    assert_eq!(
        told(&pod(), &[set("a", "agent"), thief]),
        "403 spec: container \"b\" mounts the volume \"sidecarset-sa-d4f0bc5a29de06b5\", which belongs to a sidecar; remove it; only the containers of the SidecarSet may hold its token"
    );
    let projecting = plain(
        json!([{"name": "t", "mountPath": "/t"}]),
        json!([{"name": "t", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}]),
    );
    assert_eq!(holders(&injected(&pod(), &[set("a", "agent"), projecting])), ["app: default", "b: default"], "B0");
    let sharing = edited(plain(json!([]), json!([])), |set| {
        set["spec"]["containers"][0]["shareVolumePolicy"] = json!({"type": "enabled"});
    });
    let after = injected(&pod(), &[set("a", "agent"), sharing]);
    assert_eq!(holders(&after), ["a: agent"], "A5-8");
}

#[test]
fn e3_a_canary_has_the_identity_that_it_names_itself() {
    let canary = edited(set("a-canary", "other"), |set| {
        set["metadata"]["annotations"] = json!({
            "apps.kruise.io/sidecarset-canary": "true", "apps.kruise.io/sidecarset-base": "a",
        });
        set["spec"]["updateStrategy"] = json!({"type": "NotUpdate"});
        set["spec"]["containers"][0]["name"] = json!("a");
    });
    assert_eq!(holders(&injected(&pod(), &[set("a", "agent"), canary.clone()])), ["a: other"]);
    let without = edited(canary, |set| {
        for key in ["serviceAccountName", "behaviorWhenServiceAccountInjection", "serviceAccountPermissions"] {
            set["spec"].as_object_mut().unwrap().remove(key);
        }
    });
    assert_eq!(holders(&injected(&pod(), &[set("a", "agent"), without])), ["app: default"], "the base gives way whole");
}

/// Whoever can write revisions gets no identity that way.
#[test]
fn a5_9_a_revision_has_no_say_in_the_identity() {
    let revision = json!({
        "apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": 1,
        "metadata": {"name": "a-1", "namespace": "kruise-system", "labels": {"kruise.io/sidecarset-name": "a"}},
        "data": {"spec": {
            "containers": [{"name": "a", "image": "agent:0"}],
            "serviceAccountName": "admin", "serviceAccountMode": "Pod", "serviceAccountPermissions": [rule("*", "*", "*")],
        }},
    });
    let pinned =
        |set: Value| edited(set, |set| set["spec"]["injectionStrategy"] = json!({"revision": {"revisionName": "a-1"}}));
    let cluster = || Court::with([account("agent"), account("admin"), revision.clone()]);
    let after = admit_in(&pod(), json!({}), &[pinned(set("a", "agent"))], cluster()).mutated_object.unwrap();
    assert_eq!(holders(&after), ["a: agent"]);
    assert_eq!(after["spec"]["containers"][1]["image"], json!("agent:0"));
    let plain = edited(pinned(set("a", "agent")), |set| {
        for key in ["serviceAccountName", "behaviorWhenServiceAccountInjection", "serviceAccountPermissions"] {
            set["spec"].as_object_mut().unwrap().remove(key);
        }
    });
    let after = admit_in(&pod(), json!({}), &[plain], cluster()).mutated_object.unwrap();
    assert_eq!(holders(&after), ["app: default"]);
}

// --- places

#[test]
fn e1_pods_in_protected_namespaces() {
    let tell = |sets: &[Value]| {
        let request = edited(request(&pod()), |request| {
            request["namespace"] = json!("kube-system");
            request["object"]["metadata"]["namespace"] = json!("kube-system");
        });
        verdict(&ask(&request, &gated(&json!({}), sets), &Arc::new(cluster())))
    };
    assert_eq!(
        tell(&[set("a", "agent")]),
        "403 SidecarSet \"a\": spec.serviceAccountName: no sidecar gets a ServiceAccount in the protected namespace \"kube-system\"; exclude the namespace from the SidecarSet, or change serviceAccounts.protectedNamespaces"
    );
    let plain = edited(set("a", "agent"), |set| {
        for key in ["serviceAccountName", "behaviorWhenServiceAccountInjection", "serviceAccountPermissions"] {
            set["spec"].as_object_mut().unwrap().remove(key);
        }
    });
    assert_eq!(tell(&[plain]), "accepted");
}

/// The namespace of the request counts; older servers leave the object's out.
#[test]
fn a1_6_the_namespace_is_the_requests() {
    let nowhere = edited(pod(), |pod| {
        let metadata = pod["metadata"].as_object_mut().unwrap();
        metadata.remove("namespace");
        metadata.remove("name");
        metadata.insert("generateName".to_owned(), json!("p-"));
    });
    assert_eq!(holders(&injected(&nowhere, &[set("a", "agent")])), ["a: agent"]);
    let request =
        |namespace: &str, pod: &Value| edited(request(pod), |request| request["namespace"] = json!(namespace));
    let settings = gated(&json!({}), &[set("a", "agent")]);
    assert_eq!(
        verdict(&ask(&request("kube-system", &nowhere), &settings, &Arc::new(cluster()))),
        "403 SidecarSet \"a\": spec.serviceAccountName: no sidecar gets a ServiceAccount in the protected namespace \"kube-system\"; exclude the namespace from the SidecarSet, or change serviceAccounts.protectedNamespaces"
    );
    // No API server sends this: it would be a way around a protected namespace.
    assert_eq!(
        verdict(&ask(&request("kube-system", &pod()), &settings, &Arc::new(cluster()))),
        "403 SidecarSet \"a\": spec.serviceAccountName: no sidecar gets a ServiceAccount in the protected namespace \"kube-system\"; exclude the namespace from the SidecarSet, or change serviceAccounts.protectedNamespaces"
    );
}

#[test]
fn a1_9_e9_mirror_pods_stay_as_they_are() {
    let mirror = edited(running_as(""), |pod| {
        pod["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": ""});
    });
    let cluster = Arc::new(cluster());
    let answer = ask(&request(&mirror), &gated(&json!({}), &[set("a", "agent")]), &cluster);
    assert_eq!((verdict(&answer).as_str(), answer.mutated_object), ("accepted", None));
    assert_eq!(cluster.looked_up(), [""; 0]);
}

#[test]
fn v1_without_the_gate_pods_get_no_identity_and_nothing_is_looked_up() {
    let cluster = Arc::new(cluster());
    let off = |set: Value| json!({ "sidecarSets": [set] });
    let answer = ask(&request(&pod()), &off(set("a", "agent")), &cluster);
    assert_eq!(
        answer.warnings.unwrap(),
        [
            "SidecarSet \"a\" is injected without its ServiceAccount: the feature gate SidecarSetServiceAccountInjection is off"
        ]
    );
    assert_eq!(holders(&answer.mutated_object.unwrap()), ["app: default"]);
    assert_eq!(cluster.looked_up(), [""; 0]);
    let merged = ask(&request(&running_as(&merged_name())), &off(set("a", "agent")), &cluster);
    assert!(verdict(&merged).starts_with("403 "), "E6 holds all the same");
}

#[test]
fn e3_m1_m4_conflicts_name_everybody() {
    let refusing = edited(set("b", "b"), |set| {
        set["spec"].as_object_mut().unwrap().remove("behaviorWhenServiceAccountInjection");
    });
    assert_eq!(
        told(&pod(), &[set("a", "a"), refusing]),
        "403 SidecarSet \"a\": spec.serviceAccountName: wants ServiceAccount \"a\" (Merge) for a Pod of namespace \"web\", and other SidecarSets want another; give them one account, the behaviour Merge or the mode Isolate; SidecarSet \"b\": spec.serviceAccountName: wants ServiceAccount \"b\" (Refuse) for a Pod of namespace \"web\", and other SidecarSets want another; give them one account, the behaviour Merge or the mode Isolate"
    );
    assert_eq!(told(&pod(), &[set("a", "a"), isolated("b", "b")]), "accepted");
}

#[test]
fn v3_an_account_that_cannot_be_read_is_not_missing() {
    let failing = |text: &str| {
        let cluster = Court::default().answering(&account("agent"), Err(ClusterError::Failed(text.to_owned())));
        verdict(&admit_in(&pod(), json!({"onMissing": "Skip"}), &[set("a", "agent")], cluster))
    };
    assert_eq!(
        failing("ApiError: serviceaccounts \"agent\" is forbidden: User \"secret\": Forbidden"),
        "503 SidecarSet \"a\": spec.serviceAccountName: ServiceAccount \"agent\" could not be read in namespace \"web\": not allowed; allow the policy to read it: contextAwareResources must list v1 ServiceAccount, and the policy server's ServiceAccount needs \"get\" on it"
    );
    assert_eq!(
        failing("deadline has elapsed"),
        "503 SidecarSet \"a\": spec.serviceAccountName: ServiceAccount \"agent\" could not be read in namespace \"web\": no answer in time; try again"
    );
    assert_eq!(
        verdict(&admit_in(&pod(), json!({}), &[set("a", "agent")], Court::default())),
        "403 SidecarSet \"a\": spec.serviceAccountName: ServiceAccount \"agent\" does not exist in namespace \"web\"; create the ServiceAccount in the Pod's namespace, or set serviceAccounts.onMissing to Skip"
    );
    let going =
        edited(account("agent"), |account| account["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"));
    assert_eq!(
        verdict(&admit_in(&pod(), json!({}), &[set("a", "agent")], Court::with([going]))),
        "403 SidecarSet \"a\": spec.serviceAccountName: ServiceAccount \"agent\" is being deleted in namespace \"web\"; create the ServiceAccount in the Pod's namespace, or set serviceAccounts.onMissing to Skip"
    );
    let skipped = admit_in(&pod(), json!({"onMissing": "Skip"}), &[set("a", "agent")], Court::default());
    assert_eq!(
        skipped.warnings.unwrap(),
        [
            "SidecarSet \"a\" is injected without its ServiceAccount: ServiceAccount \"agent\" does not exist in namespace \"web\""
        ]
    );
    assert_eq!(holders(&skipped.mutated_object.unwrap()), ["app: default"]);
}

/// Sets of the settings are injected as they stand, but what they say about identity has to make sense.
#[test]
fn v2_v8_sets_that_were_never_validated() {
    let with = |field: &str, value: Value| told(&pod(), &[edited(set("a", "agent"), |set| set["spec"][field] = value)]);
    assert_eq!(
        with("serviceAccountName", json!("default")),
        "403 SidecarSet \"a\": spec.serviceAccountName: every Pod has \"default\"; name an account of the sidecar's own; correct the SidecarSet"
    );
    assert_eq!(
        with("serviceAccountName", json!(merged_name())),
        "403 SidecarSet \"a\": spec.serviceAccountName: names that start with \"sidecarset-merged-\" belong to merged ServiceAccounts; correct the SidecarSet"
    );
    assert_eq!(
        with("serviceAccountMode", json!("Podd")),
        "403 SidecarSet \"a\": spec.serviceAccountMode: Unsupported value: supported values: \"SidecarsOnly\", \"Isolate\", \"Pod\"; correct the SidecarSet"
    );
    assert_eq!(
        with("serviceAccountMode", json!("Pod")),
        "403 SidecarSet \"a\": spec.serviceAccountName: mode Pod would give the app the permissions of \"agent\"; use SidecarsOnly or Isolate, or set serviceAccounts.allowPodMode"
    );
}

// --- what is said and what is left alone

/// "Unset" and "explicitly default" are the same to the policy; the alias follows.
#[test]
fn a1_2_a1_3_unset_and_default_are_alike() {
    let unset = edited(pod(), |pod| {
        pod["spec"].as_object_mut().unwrap().remove("serviceAccountName");
        pod["spec"].as_object_mut().unwrap().remove("serviceAccount");
    });
    let after = injected(&unset, &[set("a", "agent")]);
    assert_eq!(after["spec"], injected(&pod(), &[set("a", "agent")])["spec"]);
    assert_eq!(after["spec"]["serviceAccount"], after["spec"]["serviceAccountName"]);
    let by_alias =
        edited(running_as("own"), |pod| drop(pod["spec"].as_object_mut().unwrap().remove("serviceAccountName")));
    assert_eq!(injected(&by_alias, &[set("a", "agent")])["spec"].get("serviceAccountName"), None, "M2");
}

/// Pull secrets are the API server's matter (A1-h), and a Pod's requester is a controller, of whom nobody asks.
#[test]
fn a1_5_a1_7_pull_secrets_stay_and_the_requester_is_not_asked_about() {
    let pod = edited(pod(), |pod| pod["spec"]["imagePullSecrets"] = json!([{"name": "of-default"}]));
    let cluster = Arc::new(cluster());
    let answer = ask(&request(&pod), &gated(&json!({}), &[set("a", "agent")]), &cluster);
    assert_eq!(answer.mutated_object.unwrap()["spec"]["imagePullSecrets"], json!([{"name": "of-default"}]));
    assert_eq!(cluster.questions(), [""; 0]);
    assert_eq!(cluster.looked_up(), ["v1/ServiceAccount web/agent"]);
}

/// What the API server validates afterwards: a token lives ten minutes at least and has a path, mounts are unique.
#[test]
fn a1_4_a1_13_the_volume_is_like_the_api_servers() {
    let after = injected(&pod(), &[set("a", "agent")]);
    assert_eq!(after["spec"]["volumes"], json!([automounted(&volume_of("agent"))]));
    let mount = json!([{"name": volume_of("agent"), "readOnly": true, "mountPath": TOKEN_PATH}]);
    assert_eq!(after["spec"]["containers"][1]["volumeMounts"], mount);
    assert_eq!(after["spec"]["containers"][0].get("volumeMounts"), None);
}

#[test]
fn m5_e14_the_pod_says_what_was_done() {
    let record = |pod: &Value| pod["metadata"]["annotations"][INJECTED].clone();
    assert_eq!(
        record(&injected(&pod(), &[set("a", "agent")])),
        json!(r#"{"injected":"agent","original":"default","sidecarSets":["a"]}"#)
    );
    // A forged record gives way.
    let forged = edited(pod(), |pod| pod["metadata"]["annotations"] = json!({INJECTED: "{\"injected\":\"agent\"}"}));
    let after = injected(&forged, &[set("a", "agent")]);
    assert_eq!(record(&after), record(&injected(&pod(), &[set("a", "agent")])));
    assert_eq!(record(&injected(&pod(), &[isolated("a", "agent")])), Value::Null, "nothing was swapped");
}

#[test]
fn m2_a5_3_pods_with_an_account_of_their_own() {
    let own = running_as("own");
    let with = |choice: &str| admit_in(&own, json!({"onAppServiceAccount": choice}), &[set("a", "agent")], cluster());
    let kept = with("Keep");
    assert_eq!(
        kept.warnings.unwrap(),
        ["SidecarSet \"a\" is injected without its ServiceAccount: the Pod has the ServiceAccount \"own\" of its own"]
    );
    assert_eq!(holders(&kept.mutated_object.unwrap()), ["app: own"]);
    assert_eq!(
        verdict(&with("Deny")),
        "403 SidecarSet \"a\": spec.serviceAccountName: the Pod has the ServiceAccount \"own\" of its own; run the Pod under \"default\", or give the SidecarSet the mode Isolate"
    );
    assert_eq!(holders(&with("Isolate").mutated_object.unwrap()), ["app: own", "a: sidecarset-token-d4f0bc5a29de06b5"]);
}

#[test]
fn a5_2_conflicts_may_cost_the_identity_instead_of_the_pod() {
    let refusing = edited(set("b", "b"), |set| {
        set["spec"].as_object_mut().unwrap().remove("behaviorWhenServiceAccountInjection");
    });
    let answer = admit_in(&pod(), json!({"onConflict": "Skip"}), &[set("a", "a"), refusing], cluster());
    assert_eq!(answer.warnings.unwrap().len(), 2);
    assert_eq!(holders(&answer.mutated_object.unwrap()), ["app: default"]);
}

/// A set gets what its account may do, no matter what it asks for: permissions are for merging alone.
#[test]
fn a5_4_one_set_is_granted_nothing() {
    let cluster = Arc::new(cluster());
    ask(&request(&pod()), &gated(&json!({}), &[set("a", "agent")]), &cluster);
    assert_eq!(cluster.looked_up(), ["v1/ServiceAccount web/agent"], "no Role, no RoleBinding");
}

#[test]
fn f1_f2_f3_annotations_stand_for_the_fields() {
    let annotated = |name: &str| {
        edited(set(name, name), |set| {
            let permissions = set["spec"]["serviceAccountPermissions"].to_string();
            for key in ["serviceAccountName", "behaviorWhenServiceAccountInjection", "serviceAccountPermissions"] {
                set["spec"].as_object_mut().unwrap().remove(key);
            }
            set["metadata"]["annotations"] = json!({
                "pillion.dev/service-account-name": name, "pillion.dev/service-account-conflict": "merge",
                "pillion.dev/service-account-permissions": permissions,
            });
        })
    };
    let after = injected(&pod(), &[annotated("a"), annotated("b")]);
    assert_eq!(after["spec"], injected(&pod(), &[set("a", "a"), set("b", "b")])["spec"]);
    assert_eq!(after["spec"]["serviceAccountName"], json!(merged_name()));
}

#[rstest]
#[case::processes("shareProcessNamespace", json!(true), "spec.shareProcessNamespace lets every container of the Pod read the tokens of its sidecars through /proc")]
#[case::the_hosts_processes("hostPID", json!(true), "spec.hostPID lets every container of the Pod read the tokens of its sidecars through /proc")]
fn b9_what_isolates_nothing_is_warned_of(#[case] field: &str, #[case] value: Value, #[case] message: &str) {
    let pod = edited(pod(), |pod| pod["spec"][field] = value);
    assert_eq!(admit(&pod, &[set("a", "agent")]).warnings.unwrap(), [message]);
}

#[test]
fn b9_privileged_apps_are_warned_of() {
    let pod = edited(pod(), |pod| pod["spec"]["containers"][0]["securityContext"] = json!({"privileged": true}));
    assert_eq!(
        admit(&pod, &[isolated("a", "agent")]).warnings.unwrap(),
        ["container \"app\" is privileged and can read the tokens of the Pod's sidecars"]
    );
    assert_eq!(admit(&self::pod(), &[isolated("a", "agent")]).warnings, None);
}

// --- the asserting twin (B10, E11)

fn assert_twin(pod: &Value, sets: &[Value]) -> String {
    let settings = edited(gated(&json!({}), sets), |settings| settings["role"] = json!("Assert"));
    let answer = ask(&request(pod), &settings, &Arc::new(cluster()));
    assert!(answer.mutated_object.is_none(), "it never patches");
    verdict(&answer)
}

#[test]
fn e11_a_later_webhook_undoes_or_copies() {
    let sets = [set("a", "agent")];
    let ours = injected(&pod(), &sets);
    assert_eq!(assert_twin(&ours, &sets), "accepted");
    let undone = edited(ours.clone(), |pod| pod["spec"]["containers"][1]["volumeMounts"] = json!([]));
    assert_eq!(
        assert_twin(&undone, &sets),
        "403 spec: sidecar \"a\" lacks the token of \"agent\"; find the webhook that took it away, or the injecting policy that did not run"
    );
    let copied = edited(ours.clone(), |pod| {
        pod["spec"]["containers"][0]["volumeMounts"] = pod["spec"]["containers"][1]["volumeMounts"].clone();
    });
    assert_eq!(
        assert_twin(&copied, &sets),
        "403 spec: container \"app\" mounts a token of \"agent\", which is for sidecars alone; find the webhook that changed the Pod after it was injected; spec: container \"app\" mounts the volume \"sidecarset-sa-d4f0bc5a29de06b5\", which belongs to a sidecar; remove it; only the containers of the SidecarSet may hold its token"
    );
    let regained = edited(ours, |pod| {
        pod["spec"]["volumes"].as_array_mut().unwrap().push(automounted("kube-api-access-later"));
        pod["spec"]["containers"][0]["volumeMounts"] =
            json!([{"name": "kube-api-access-later", "mountPath": TOKEN_PATH}]);
    });
    assert_eq!(
        assert_twin(&regained, &sets),
        "403 spec: container \"app\" mounts a token of \"agent\", which is for sidecars alone; find the webhook that changed the Pod after it was injected"
    );
    // A Pod that has never met the injecting policy has no sidecar that could lack anything.
    assert_eq!(assert_twin(&pod(), &sets), "accepted");
}

#[test]
fn e6_the_twin_sees_a_merged_account_in_the_apps_hands() {
    let sets = [set("a", "a"), set("b", "b")];
    assert_eq!(assert_twin(&injected(&pod(), &sets), &sets), "accepted");
    assert_eq!(
        assert_twin(&running_as(&merged_name()), &sets),
        "403 spec: container \"app\" mounts a token of \"sidecarset-merged-7e18f737311b2dc3\", which is for sidecars alone; find the webhook that changed the Pod after it was injected"
    );
}
