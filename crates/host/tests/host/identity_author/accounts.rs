//! Accounts that the author could not use, and failures of the access reviews.

use std::time::Duration;

use pillion_host::ClusterError;
use rstest::rstest;
use serde_json::{Value, json};

use super::account;
use super::admit;
use super::cluster;
use super::hers;
use super::in_namespaces;
use super::message_of;
use super::request;
use super::set;
use super::set_for_all;
use super::with_rules;
use crate::support::identity::{Court, edited, rule, verdict};

#[rstest]
#[case::broken(ClusterError::Failed("boom, says secret-host".to_owned()), "403 SidecarSet \"agent\": spec.serviceAccountPermissions: the author's permissions could not be verified; try again")]
#[case::not_granted(
    ClusterError::NotGranted,
    "403 SidecarSet \"agent\": spec.serviceAccountPermissions: the author's permissions could not be verified; grant the policy server `create` on subjectaccessreviews, and under Kubewarden list kubernetes/can_i in the policy's hostCapabilities"
)]
#[case::forbidden(ClusterError::Failed("ApiError: subjectaccessreviews is forbidden: User \"secret\": Forbidden".to_owned()), "403 SidecarSet \"agent\": spec.serviceAccountPermissions: the author's permissions could not be verified; grant the policy server `create` on subjectaccessreviews, and under Kubewarden list kubernetes/can_i in the policy's hostCapabilities")]
fn esc3_who_cannot_be_asked_has_not_agreed(#[case] failure: ClusterError, #[case] message: &str) {
    let failing = cluster().failing(failure);
    assert_eq!(verdict(&admit(&request("ann", &set()), &json!({}), failing).0), message);
    // A set without an identity needs no access review.
    let plain = edited(set(), |set| {
        for key in ["serviceAccountName", "behaviorWhenServiceAccountInjection", "serviceAccountPermissions"] {
            set["spec"].as_object_mut().unwrap().remove(key);
        }
    });
    let silent = cluster().failing(ClusterError::NotGranted);
    assert_eq!(verdict(&admit(&request("ann", &plain), &json!({}), silent).0), "accepted");
}

#[test]
fn esc3_an_authorizer_that_dawdles_is_not_waited_for() {
    let slow = cluster().slow(Duration::from_millis(1400));
    let (answer, cluster) = admit(&request("ann", &set()), &json!({}), slow);
    assert_eq!(
        verdict(&answer),
        "503 SidecarSet \"agent\": spec.serviceAccountPermissions: the author's permissions could not be verified: the API server did not answer all questions in 4 s; try again; if it stays like this, split them over several SidecarSets"
    );
    assert_eq!(cluster.questions().len(), 3, "what is under way after 4 s is the last");
    // An admin needs only one question about herself; the account's own rights are checked afterwards.
    let slow = super::cluster().slow(Duration::from_millis(10));
    assert_eq!(verdict(&admit(&request("root", &set()), &json!({}), slow).0), "accepted");
}

#[test]
fn esc5_an_account_that_the_author_could_not_use() {
    let in_web = |rules: Value| {
        let cluster = Court::with([account("web")]).granting("ann", "web", &rules);
        let set = with_rules(json!([]));
        verdict(&admit(&request("ann", &set), &json!({}), cluster).0)
    };
    assert_eq!(
        in_web(json!([])),
        "403 SidecarSet \"agent\": spec.serviceAccountName: \"ann\" may not use the ServiceAccount \"agent\" in namespace \"web\"; the author needs \"create\" on pods, or on serviceaccounts/token of this name"
    );
    assert_eq!(
        in_web(
            json!([{"apiGroups": [""], "resources": ["serviceaccounts/token"], "resourceNames": ["other"], "verbs": ["create"]}])
        ),
        in_web(json!([]))
    );
    assert_eq!(in_web(json!([rule("", "pods", "create")])), "accepted");
    assert_eq!(in_web(json!([rule("", "serviceaccounts/token", "create")])), "accepted");
    assert_eq!(
        in_web(
            json!([{"apiGroups": [""], "resources": ["serviceaccounts/token"], "resourceNames": ["agent"], "verbs": ["create"]}])
        ),
        "accepted"
    );
}

#[test]
fn esc5_rights_in_one_namespace_are_none_elsewhere() {
    let tell = |set: &Value, cluster: Court| verdict(&admit(&request("ann", set), &json!({}), cluster).0);
    let plain = |set: Value| edited(set, |set| set["spec"]["serviceAccountPermissions"] = json!([]));
    assert_eq!(
        tell(&plain(set_for_all()), cluster()),
        "403 SidecarSet \"agent\": spec.serviceAccountName: \"ann\" may not use the ServiceAccount \"agent\" in every namespace; the author needs \"create\" on pods, or on serviceaccounts/token of this name"
    );
    assert_eq!(
        tell(&plain(in_namespaces(set(), &["web", "bank"])), cluster()),
        "403 SidecarSet \"agent\": spec.serviceAccountName: \"ann\" may not use the ServiceAccount \"agent\" in namespace \"bank\"; the author needs \"create\" on pods, or on serviceaccounts/token of this name"
    );
    let everywhere = Court::default().granting("ann", "", &json!([rule("", "pods", "create")]));
    assert_eq!(tell(&plain(set_for_all()), everywhere), "accepted");
    assert_eq!(tell(&plain(in_namespaces(set(), &["web"])), cluster()), "accepted");
}

/// A list that another requirement or operator widens is not a closed list.
#[test]
fn esc5_selectors_that_only_look_like_a_closed_list() {
    let selecting = |selector: Value| edited(set(), |set| set["spec"]["namespaceSelector"] = selector);
    let name = "kubernetes.io/metadata.name";
    for open in [
        json!({"matchExpressions": [{"key": name, "operator": "NotIn", "values": ["web"]}]}),
        json!({"matchExpressions": [{"key": name, "operator": "Exists"}]}),
        json!({"matchLabels": {"metadata.name": "web"}}),
    ] {
        let answered = message_of(&selecting(open.clone()));
        assert!(answered.contains("in every namespace"), "{open}: {answered}");
    }
    // Both requirements must hold, so neither can widen the other.
    for closed in [
        json!({"matchLabels": {name: "web"}, "matchExpressions": [{"key": name, "operator": "In", "values": ["web", "bank"]}]}),
        json!({"matchLabels": {name: "web", "team": "a"}}),
    ] {
        assert_eq!(message_of(&selecting(closed)), "accepted");
    }
}

#[test]
fn esc5_v1alpha1_names_its_namespace_in_another_field() {
    let old = |namespace: &str| {
        edited(set(), |set| {
            set["apiVersion"] = json!("apps.kruise.io/v1alpha1");
            set["spec"].as_object_mut().unwrap().remove("namespaceSelector");
            if !namespace.is_empty() {
                set["spec"]["namespace"] = json!(namespace);
            }
        })
    };
    let tell = |set: &Value| {
        let request = edited(request("ann", set), |request| {
            request["kind"]["version"] = json!("v1alpha1");
            request["resource"]["version"] = json!("v1alpha1");
        });
        verdict(&admit(&request, &json!({}), cluster()).0)
    };
    assert_eq!(
        tell(&old("bank")),
        "403 SidecarSet \"agent\": spec.serviceAccountName: \"ann\" may not use the ServiceAccount \"agent\" in namespace \"bank\"; the author needs \"create\" on pods, or on serviceaccounts/token of this name; SidecarSet \"agent\": spec.serviceAccountPermissions: \"ann\" may not grant get pods in namespace \"bank\"; write permissions that you hold, or ask a holder to write it"
    );
    assert!(tell(&old("")).contains("in every namespace"));
    assert_eq!(
        tell(&old("kube-system")),
        "403 SidecarSet \"agent\": spec.namespaceSelector: no sidecar gets a ServiceAccount in the protected namespace \"kube-system\"; leave the namespace out, or change serviceAccounts.protectedNamespaces"
    );
    assert_eq!(tell(&old("web")), "accepted");
}

/// The account itself holds permissions that no sidecar may have.
#[test]
fn e5_a_privileged_account() {
    let cluster = |namespace: &str, rules: Value| {
        let accounts = (0..9).map(|index| account(&format!("n{index}")));
        Court::with(accounts.chain([account("web")]))
            .granting(&format!("system:serviceaccount:{namespace}:agent"), namespace, &rules)
            .granting("system:masters", "", &json!([rule("*", "*", "*")]))
    };
    let tell = |set: &Value, cluster: Court| verdict(&admit(&request("root", set), &json!({}), cluster).0);
    assert_eq!(
        tell(&set(), cluster("web", json!([rule("", "secrets", "*")]))),
        "403 SidecarSet \"agent\": spec.serviceAccountName: ServiceAccount \"agent\" may get secrets in namespace \"web\"; name an account with fewer permissions, or change serviceAccounts.denyPermissions"
    );
    assert_eq!(tell(&set(), cluster("web", json!([rule("", "configmaps", "*")]))), "accepted");
    // RBAC denies the verb "*" to a user who was granted only some verbs.
    assert_eq!(
        tell(&set(), cluster("web", json!([rule("", "secrets", "get")]))),
        "403 SidecarSet \"agent\": spec.serviceAccountName: ServiceAccount \"agent\" may get secrets in namespace \"web\"; name an account with fewer permissions, or change serviceAccounts.denyPermissions"
    );
    assert_eq!(
        tell(&set(), cluster("web", json!([rule("", "pods/exec", "create")]))),
        "403 SidecarSet \"agent\": spec.serviceAccountName: ServiceAccount \"agent\" may create pods/exec in namespace \"web\"; name an account with fewer permissions, or change serviceAccounts.denyPermissions"
    );
    // Rights through a group of accounts.
    let grouped = Court::with([account("web")])
        .granting("system:serviceaccounts:web", "web", &json!([rule("*", "*", "*")]))
        .granting("system:masters", "", &json!([rule("*", "*", "*")]));
    assert_eq!(
        tell(&set(), grouped),
        "403 SidecarSet \"agent\": spec.serviceAccountName: ServiceAccount \"agent\" may escalate *.* in namespace \"web\"; name an account with fewer permissions, or change serviceAccounts.denyPermissions"
    );
    // Rights in the last namespace of a long list.
    let many = in_namespaces(set(), &["n0", "n1", "n2", "n3", "n4", "n5", "n6", "n7", "n8"]);
    assert_eq!(
        tell(&many, cluster("n8", json!([rule("", "pods/exec", "*")]))),
        "403 SidecarSet \"agent\": spec.serviceAccountName: ServiceAccount \"agent\" may get pods/exec in namespace \"n8\"; name an account with fewer permissions, or change serviceAccounts.denyPermissions"
    );
    assert_eq!(tell(&many, cluster("n8", json!([rule("", "pods/log", "*")]))), "accepted");
}

#[test]
fn e1_protected_namespaces() {
    let tell = |set: &Value, rules: &Value| verdict(&admit(&request("root", set), rules, cluster()).0);
    assert_eq!(
        tell(&in_namespaces(set(), &["web", "kube-system"]), &json!({})),
        "403 SidecarSet \"agent\": spec.namespaceSelector: no sidecar gets a ServiceAccount in the protected namespace \"kube-system\"; leave the namespace out, or change serviceAccounts.protectedNamespaces"
    );
    assert_eq!(tell(&in_namespaces(set(), &["web"]), &json!({})), "accepted");
    let (answer, _) = admit(&request("root", &set_for_all()), &json!({}), cluster());
    assert_eq!(
        answer.warnings.unwrap()[..1],
        [
            "Pods in the protected namespaces kube-system, kube-public, kube-node-lease, kruise-system, pillion-system, kubewarden, cattle-kubewarden-system, suse-sec-adm-controller are refused where this SidecarSet matches them; exclude them in spec.namespaceSelector"
        ]
    );
}

#[test]
fn idv5_accounts_that_are_not_allowed() {
    let allowed =
        json!({"allowed": [{"namespaces": ["team-*"], "names": ["agent"]}, {"namespaces": ["*"], "names": ["log-*"]}]});
    let tell = |set: &Value| verdict(&admit(&request("root", set), &allowed, cluster()).0);
    assert_eq!(
        tell(&set()),
        "403 SidecarSet \"agent\": spec.serviceAccountName: ServiceAccount \"agent\" is not allowed in namespace \"web\"; add it to serviceAccounts.allowed"
    );
    assert_eq!(
        tell(&edited(set_for_all(), |set| set["spec"]["serviceAccountName"] = json!("admin"))),
        "403 SidecarSet \"agent\": spec.serviceAccountName: ServiceAccount \"admin\" is not allowed in any namespace; add it to serviceAccounts.allowed"
    );
    assert_eq!(tell(&in_namespaces(set(), &["team-a"])), "accepted");
    assert_eq!(tell(&edited(set(), |set| set["spec"]["serviceAccountName"] = json!("log-agent"))), "accepted");
}

#[test]
fn idv3_accounts_that_are_not_there() {
    let going =
        edited(account("web"), |account| account["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"));
    let held = |cluster: Court| cluster.granting("ann", "web", &hers());
    let strict = json!({"strictExistence": true});
    let tell = |cluster: Court| verdict(&admit(&request("ann", &set()), &strict, held(cluster)).0);
    assert_eq!(
        tell(Court::default()),
        "403 SidecarSet \"agent\": spec.serviceAccountName: ServiceAccount \"agent\" does not exist in namespace \"web\"; create it first"
    );
    assert_eq!(
        tell(Court::with([going])),
        "403 SidecarSet \"agent\": spec.serviceAccountName: ServiceAccount \"agent\" is being deleted in namespace \"web\"; create it first"
    );
    assert_eq!(
        tell(Court::default().answering(&account("web"), Err(ClusterError::NotGranted))),
        "503 SidecarSet \"agent\": spec.serviceAccountName: ServiceAccount \"agent\" could not be read in namespace \"web\": not allowed; allow the policy to read it: its server's ServiceAccount needs \"get\" on it, and under Kubewarden contextAwareResources must list v1 ServiceAccount and hostCapabilities kubernetes/get_resource"
    );
    assert_eq!(tell(Court::with([account("web")])), "accepted");
    let (answer, _) = admit(&request("ann", &set()), &json!({}), held(Court::default()));
    assert_eq!(answer.warnings.unwrap()[0], "ServiceAccount \"agent\" does not exist in namespace \"web\"");
}

#[test]
fn idc1_existence_is_checked_where_the_namespaces_are_named() {
    let names = ["n0", "n1", "n2", "n3", "n4", "n5", "n6", "n7", "n8"];
    let many = in_namespaces(set(), &names);
    let everywhere = json!([rule("*", "*", "*")]);
    let with_accounts = Court::with(names.map(account)).granting("system:masters", "", &everywhere);
    let (answer, cluster) = admit(&request("root", &many), &json!({}), with_accounts);
    assert_eq!(cluster.looked_up().len(), 8);
    assert_eq!(
        answer.warnings.unwrap()[0],
        "whether ServiceAccount \"agent\" exists was checked in the first 8 namespaces only"
    );
    let (answer, cluster) = admit(&request("root", &set_for_all()), &json!({}), super::cluster());
    assert_eq!(cluster.looked_up(), [""; 0]);
    assert_eq!(
        answer.warnings.unwrap()[1],
        "whether ServiceAccount \"agent\" exists is checked for each Pod, as the namespaces are not named"
    );
}
