//! Authors of SidecarSets who try to hand out more than they hold, through the built module. Beside each attack stands
//! the nearest honest request.
#![allow(missing_docs, clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)] // A panic is how a test fails.
#![allow(clippy::needless_pass_by_value, reason = "json! makes values")]

mod support;

use std::sync::Arc;
use std::time::{Duration, Instant};

use pillion_host::{ClusterError, ValidationResponse};
use pillion_testkit::module;
use rstest::rstest;
use serde_json::{Value, json};
use support::identity::{Court, ask, edited, gated, rule, verdict};

/// An agent that runs beside the Pods of the namespace `web`.
fn set() -> Value {
    json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": "agent"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "web"}},
            "containers": [{"name": "agent", "image": "agent:1"}],
            "serviceAccountName": "agent", "behaviorWhenServiceAccountInjection": "Merge",
            "serviceAccountPermissions": [rule("", "pods", "get")],
        },
    })
}

/// The same for every namespace.
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

/// What Ann may do in the namespace `web`.
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

/// What the policy stored of a set.
fn stored(set: &Value) -> Value {
    let answer = ask(&request("root", set), &gated(&json!({}), &[]), &Arc::new(cluster()));
    answer.mutated_object.unwrap_or_else(|| panic!("{:?}", answer.message))
}

fn admit(request: &Value, rules: &Value, cluster: Court) -> (ValidationResponse, Arc<Court>) {
    let cluster = Arc::new(cluster);
    (ask(request, &gated(rules, &[]), &cluster), cluster)
}

/// What Ann is told about a set that she creates.
fn told(set: &Value) -> String {
    verdict(&admit(&request("ann", set), &json!({}), cluster()).0)
}

#[test]
fn p1_whoever_holds_what_the_set_hands_out_may_create_it() {
    let (answer, cluster) = admit(&request("ann", &set()), &json!({}), cluster());
    assert_eq!(verdict(&answer), "accepted");
    let questions = cluster.questions();
    assert_eq!(
        questions[..3],
        [
            "ann: * */* \"\" in \"\"",
            "ann: get /pods \"\" in \"web\"",
            "ann: create /serviceaccounts/token \"agent\" in \"web\"",
        ]
    );
    assert_eq!(cluster.looked_up(), ["v1/ServiceAccount web/agent"]);
}

/// Wildcards in each position, subresources, names.
#[rstest]
#[case::every_group(json!([rule("*", "pods", "get")]), json!([rule("", "pods", "get")]), "403 SidecarSet \"agent\": spec.serviceAccountPermissions: \"ann\" may not grant get pods.* in namespace \"web\"; write what you hold yourself, or ask somebody who does")]
#[case::every_resource_of_a_group(json!([rule("apps", "*", "get")]), json!([rule("apps", "deployments", "get")]), "403 SidecarSet \"agent\": spec.serviceAccountPermissions: \"ann\" may not grant get *.apps in namespace \"web\"; write what you hold yourself, or ask somebody who does")]
#[case::every_log(json!([rule("", "*/log", "get")]), json!([rule("", "pods/log", "get")]), "403 SidecarSet \"agent\": spec.serviceAccountPermissions: \"ann\" may not grant get */log in namespace \"web\"; write what you hold yourself, or ask somebody who does")]
#[case::a_subresource_that_only_its_resource_is_held_of(json!([rule("", "pods/status", "get")]), json!([rule("", "pods", "get")]), "403 SidecarSet \"agent\": spec.serviceAccountPermissions: \"ann\" may not grant get pods/status in namespace \"web\"; write what you hold yourself, or ask somebody who does")]
#[case::a_resource_that_only_its_subresource_is_held_of(json!([rule("", "pods/log", "get"), rule("", "pods/portforward", "get")]), json!([rule("", "pods/log", "get")]), "403 SidecarSet \"agent\": spec.serviceAccountPermissions: \"ann\" may not grant get pods/portforward in namespace \"web\"; write what you hold yourself, or ask somebody who does")]
#[case::every_name(json!([rule("", "configmaps", "get")]), json!([{"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["a"], "verbs": ["get"]}]), "403 SidecarSet \"agent\": spec.serviceAccountPermissions: \"ann\" may not grant get configmaps in namespace \"web\"; write what you hold yourself, or ask somebody who does")]
#[case::another_name(
    json!([{"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["a", "b"], "verbs": ["get"]}]),
    json!([{"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["a"], "verbs": ["get"]}]),
    "403 SidecarSet \"agent\": spec.serviceAccountPermissions: \"ann\" may not grant get configmaps \"b\" in namespace \"web\"; write what you hold yourself, or ask somebody who does"
)]
#[case::another_verb(json!([rule("", "pods", "delete")]), json!([rule("", "pods", "list")]), "403 SidecarSet \"agent\": spec.serviceAccountPermissions: \"ann\" may not grant delete pods in namespace \"web\"; write what you hold yourself, or ask somebody who does")]
#[case::a_verb_in_capitals(json!([rule("", "pods", "GET")]), json!([rule("", "pods", "get")]), "403 SidecarSet \"agent\": spec.serviceAccountPermissions: \"ann\" may not grant GET pods in namespace \"web\"; write what you hold yourself, or ask somebody who does")]
#[case::one_of_many(
    json!([{"apiGroups": ["", "apps"], "resources": ["deployments", "pods"], "verbs": ["get"]}]),
    json!([rule("apps", "deployments", "get"), rule("", "pods", "get")]),
    "403 SidecarSet \"agent\": spec.serviceAccountPermissions: \"ann\" may not grant get deployments in namespace \"web\"; write what you hold yourself, or ask somebody who does; SidecarSet \"agent\": spec.serviceAccountPermissions: \"ann\" may not grant get pods.apps in namespace \"web\"; write what you hold yourself, or ask somebody who does"
)]
fn p1_what_the_author_does_not_hold(#[case] attack: Value, #[case] honest: Value, #[case] message: &str) {
    assert_eq!(told(&with_rules(attack)), message);
    assert_eq!(told(&with_rules(honest)), "accepted");
}

/// What nobody may hand out, not even who holds everything.
#[rstest]
#[case::every_verb(json!([rule("", "pods", "*")]), "403 SidecarSet \"agent\": spec.serviceAccountPermissions[0]: grants * pods, which reaches escalate *.*; nobody may give that to a sidecar; grant less, or change serviceAccounts.denyPermissions")]
#[case::every_resource(json!([rule("", "*", "get")]), "403 SidecarSet \"agent\": spec.serviceAccountPermissions[0]: grants get *, which reaches * secrets; nobody may give that to a sidecar; grant less, or change serviceAccounts.denyPermissions")]
#[case::everything(json!([rule("*", "*", "*")]), "403 SidecarSet \"agent\": spec.serviceAccountPermissions[0]: grants * *.*, which reaches escalate *.*; nobody may give that to a sidecar; grant less, or change serviceAccounts.denyPermissions")]
#[case::every_group_of_secrets(json!([rule("*", "secrets", "get")]), "403 SidecarSet \"agent\": spec.serviceAccountPermissions[0]: grants get secrets.*, which reaches * secrets; nobody may give that to a sidecar; grant less, or change serviceAccounts.denyPermissions")]
#[case::every_exec(json!([rule("", "*/exec", "create")]), "403 SidecarSet \"agent\": spec.serviceAccountPermissions[0]: grants create */exec, which reaches * pods/exec; nobody may give that to a sidecar; grant less, or change serviceAccounts.denyPermissions")]
#[case::every_token(json!([rule("*", "*/token", "create")]), "403 SidecarSet \"agent\": spec.serviceAccountPermissions[0]: grants create */token.*, which reaches create *.rbac.authorization.k8s.io; nobody may give that to a sidecar; grant less, or change serviceAccounts.denyPermissions")]
#[case::exec(json!([rule("", "pods/exec", "create")]), "403 SidecarSet \"agent\": spec.serviceAccountPermissions[0]: grants create pods/exec, which reaches * pods/exec; nobody may give that to a sidecar; grant less, or change serviceAccounts.denyPermissions")]
#[case::attach(json!([rule("", "pods/attach", "get")]), "403 SidecarSet \"agent\": spec.serviceAccountPermissions[0]: grants get pods/attach, which reaches * pods/attach; nobody may give that to a sidecar; grant less, or change serviceAccounts.denyPermissions")]
#[case::ephemeral_containers(json!([rule("", "pods/ephemeralcontainers", "patch")]), "403 SidecarSet \"agent\": spec.serviceAccountPermissions[0]: grants patch pods/ephemeralcontainers, which reaches * pods/ephemeralcontainers; nobody may give that to a sidecar; grant less, or change serviceAccounts.denyPermissions")]
#[case::proxy(json!([rule("", "nodes/proxy", "get")]), "403 SidecarSet \"agent\": spec.serviceAccountPermissions[0]: grants get nodes/proxy, which reaches * nodes/proxy; nobody may give that to a sidecar; grant less, or change serviceAccounts.denyPermissions")]
#[case::tokens(json!([rule("", "serviceaccounts/token", "create")]), "403 SidecarSet \"agent\": spec.serviceAccountPermissions[0]: grants create serviceaccounts/token, which reaches * serviceaccounts/token; nobody may give that to a sidecar; grant less, or change serviceAccounts.denyPermissions")]
#[case::one_secret(json!([{"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["mine"], "verbs": ["get"]}]), "403 SidecarSet \"agent\": spec.serviceAccountPermissions[0]: grants get secrets \"mine\", which reaches * secrets; nobody may give that to a sidecar; grant less, or change serviceAccounts.denyPermissions")]
#[case::escalate(json!([rule("rbac.authorization.k8s.io", "roles", "escalate")]), "403 SidecarSet \"agent\": spec.serviceAccountPermissions[0]: grants escalate roles.rbac.authorization.k8s.io, which reaches escalate *.*; nobody may give that to a sidecar; grant less, or change serviceAccounts.denyPermissions")]
#[case::bind(json!([rule("*", "clusterroles", "bind")]), "403 SidecarSet \"agent\": spec.serviceAccountPermissions[0]: grants bind clusterroles.*, which reaches bind *.*; nobody may give that to a sidecar; grant less, or change serviceAccounts.denyPermissions")]
#[case::impersonate(json!([rule("", "users", "impersonate")]), "403 SidecarSet \"agent\": spec.serviceAccountPermissions[0]: grants impersonate users, which reaches impersonate *.*; nobody may give that to a sidecar; grant less, or change serviceAccounts.denyPermissions")]
#[case::bindings(json!([rule("rbac.authorization.k8s.io", "rolebindings", "create")]), "403 SidecarSet \"agent\": spec.serviceAccountPermissions[0]: grants create rolebindings.rbac.authorization.k8s.io, which reaches create *.rbac.authorization.k8s.io; nobody may give that to a sidecar; grant less, or change serviceAccounts.denyPermissions")]
#[case::webhooks(json!([rule("admissionregistration.k8s.io", "mutatingwebhookconfigurations", "patch")]), "403 SidecarSet \"agent\": spec.serviceAccountPermissions[0]: grants patch mutatingwebhookconfigurations.admissionregistration.k8s.io, which reaches patch *.admissionregistration.k8s.io; nobody may give that to a sidecar; grant less, or change serviceAccounts.denyPermissions")]
#[case::behind_a_harmless_one(json!([rule("", "pods", "get"), {"apiGroups": ["apps", ""], "resources": ["deployments", "secrets"], "verbs": ["get", "list"]}]), "403 SidecarSet \"agent\": spec.serviceAccountPermissions[1]: grants get secrets, which reaches * secrets; nobody may give that to a sidecar; grant less, or change serviceAccounts.denyPermissions")]
fn p4_what_nobody_may_hand_out(#[case] rules: Value, #[case] message: &str) {
    let set = with_rules(rules);
    let (answer, cluster) = admit(&request("root", &set), &json!({}), cluster());
    assert_eq!(verdict(&answer), message);
    assert_eq!(cluster.questions(), [""; 0], "nobody has to be asked");
    // The setting replaces the list; then it is a matter of what the author holds.
    let (answer, _) = admit(&request("root", &set), &json!({"denyPermissions": []}), self::cluster());
    assert_eq!(verdict(&answer), "accepted");
}

/// Fields that are not what they should be, honest beside them.
#[rstest]
#[case::an_empty_name(json!([{"apiGroups": [""], "resources": ["configmaps"], "resourceNames": [""], "verbs": ["get"]}]), "422 SidecarSet \"agent\": spec.serviceAccountPermissions[0].resourceNames[0]: Invalid value: \"\": \"\" is no name; leave resourceNames out for every object")]
#[case::urls(json!([{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]), "422 SidecarSet \"agent\": spec.serviceAccountPermissions[0].apiGroups: Required value: give at least one group; \"\" is the core group; SidecarSet \"agent\": spec.serviceAccountPermissions[0].nonResourceURLs: Forbidden: a Role belongs to a namespace and cannot grant URLs; remove it; SidecarSet \"agent\": spec.serviceAccountPermissions[0].resources: Required value: give at least one resource")]
#[case::no_verbs(json!([{"apiGroups": [""], "resources": ["pods"], "verbs": []}]), "422 SidecarSet \"agent\": spec.serviceAccountPermissions[0].verbs: Required value: give at least one verb")]
#[case::null_lists(json!([{"apiGroups": null, "resources": ["pods"], "verbs": null}]), "422 SidecarSet \"agent\": spec.serviceAccountPermissions[0].apiGroups: Required value: give at least one group; \"\" is the core group; SidecarSet \"agent\": spec.serviceAccountPermissions[0].verbs: Required value: give at least one verb")]
#[case::a_null_rule(json!([null]), "422 SidecarSet \"agent\": spec.serviceAccountPermissions[0]: Invalid value: must be a PolicyRule, not null")]
#[case::not_a_list(json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}), "422 SidecarSet \"agent\": spec.serviceAccountPermissions: Invalid value: must be a list of PolicyRules, not an object")]
#[case::a_text_for_a_list(json!([{"apiGroups": "", "resources": "pods", "verbs": "*"}]), "422 SidecarSet \"agent\": spec.serviceAccountPermissions[0].apiGroups: Invalid value: must be a list of strings, not a string; SidecarSet \"agent\": spec.serviceAccountPermissions[0].resources: Invalid value: must be a list of strings, not a string; SidecarSet \"agent\": spec.serviceAccountPermissions[0].verbs: Invalid value: must be a list of strings, not a string")]
#[case::an_unknown_field(json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"], "clusterScope": true}]), "422 SidecarSet \"agent\": spec.serviceAccountPermissions[0].clusterScope: Unknown field: a PolicyRule has no such field")]
fn v6_rules_that_are_none(#[case] rules: Value, #[case] message: &str) {
    assert_eq!(told(&with_rules(rules)), message);
}

#[rstest]
#[case::the_default(
    "default",
    "422 SidecarSet \"agent\": spec.serviceAccountName: Invalid value: \"default\": every Pod has \"default\"; name an account of the sidecar's own"
)]
#[case::a_merged_one(
    "sidecarset-merged-0123456789abcdef",
    "422 SidecarSet \"agent\": spec.serviceAccountName: Invalid value: \"sidecarset-merged-0123456789abcdef\": names that start with \"sidecarset-merged-\" belong to merged ServiceAccounts"
)]
#[case::another_namespace(
    "kube-system/admin",
    "422 SidecarSet \"agent\": spec.serviceAccountName: Invalid value: \"kube-system/admin\": an account is one of the Pod's own namespace; give its name without a namespace"
)]
#[case::capitals(
    "Agent",
    "422 SidecarSet \"agent\": spec.serviceAccountName: Invalid value: \"Agent\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character"
)]
#[case::a_look_alike(
    "аgent",
    "422 SidecarSet \"agent\": spec.serviceAccountName: Invalid value: \"аgent\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character"
)]
#[case::a_space(
    " agent",
    "422 SidecarSet \"agent\": spec.serviceAccountName: Invalid value: \" agent\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character"
)]
#[case::a_user(
    "system:serviceaccount:kube-system:admin",
    "422 SidecarSet \"agent\": spec.serviceAccountName: Invalid value: \"system:serviceaccount:kube-system:admin\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character"
)]
#[case::a_line_break(
    "agent\nadmin",
    "422 SidecarSet \"agent\": spec.serviceAccountName: Invalid value: \"agent\\nadmin\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character"
)]
#[case::too_long(&"a".repeat(254), "422 SidecarSet \"agent\": spec.serviceAccountName: Invalid value: \"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa...\": must be no more than 253 bytes")]
fn v2_e16_names_that_are_none(#[case] name: &str, #[case] message: &str) {
    let named = |name: &str| edited(set(), |set| set["spec"]["serviceAccountName"] = json!(name));
    assert_eq!(told(&named(name)), message);
    // The same in the annotation that stands for the field.
    let annotated = edited(set(), |set| {
        set["spec"].as_object_mut().unwrap().remove("serviceAccountName");
        set["metadata"]["annotations"] = json!({"pillion.dev/service-account-name": name});
    });
    assert_ne!(told(&annotated), "accepted");
    assert_eq!(told(&named("agent")), "accepted");
}

#[test]
fn p1_annotations_are_asked_about_like_fields() {
    let annotated = |permissions: &str| {
        edited(set(), |set| {
            for key in ["serviceAccountName", "behaviorWhenServiceAccountInjection", "serviceAccountPermissions"] {
                set["spec"].as_object_mut().unwrap().remove(key);
            }
            set["metadata"]["annotations"] = json!({
                "pillion.dev/service-account-name": "agent", "pillion.dev/service-account-conflict": "Merge",
                "pillion.dev/service-account-permissions": permissions,
            });
        })
    };
    let wanted = r#"[{"apiGroups": [""], "resources": ["pods"], "verbs": ["delete"]}]"#;
    assert_eq!(
        told(&annotated(wanted)),
        "403 SidecarSet \"agent\": spec.serviceAccountPermissions: \"ann\" may not grant delete pods in namespace \"web\"; write what you hold yourself, or ask somebody who does"
    );
    // The last of two equal keys counts, here and for everybody who reads it later.
    let twice = r#"[{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"], "verbs": ["delete"]}]"#;
    assert_eq!(
        told(&annotated(twice)),
        "403 SidecarSet \"agent\": spec.serviceAccountPermissions: \"ann\" may not grant delete pods in namespace \"web\"; write what you hold yourself, or ask somebody who does"
    );
    assert_eq!(
        told(&annotated("[{]")),
        "422 SidecarSet \"agent\": metadata.annotations[pillion.dev/service-account-permissions]: Invalid value: must be a JSON list of PolicyRules"
    );
    let held = r#"[{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]"#;
    assert_eq!(told(&annotated(held)), "accepted");
}

#[rstest]
#[case::name(
    "service-account-name",
    "admin",
    "agent",
    "422 SidecarSet \"agent\": metadata.annotations[pillion.dev/service-account-name]: Invalid value: says something else than spec.serviceAccountName; keep one of the two"
)]
#[case::behaviour(
    "service-account-conflict",
    "Refuse",
    "merge",
    "422 SidecarSet \"agent\": metadata.annotations[pillion.dev/service-account-conflict]: Invalid value: says something else than spec.behaviorWhenServiceAccountInjection; keep one of the two"
)]
#[case::mode(
    "service-account-mode",
    "Pod",
    "sidecarsonly",
    "422 SidecarSet \"agent\": metadata.annotations[pillion.dev/service-account-mode]: Invalid value: says something else than spec.serviceAccountMode; keep one of the two"
)]
#[case::permissions(
    "service-account-permissions",
    r#"[{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]"#,
    r#"[{"verbs": ["get"], "resources": ["pods"], "apiGroups": [""]}]"#,
    "422 SidecarSet \"agent\": metadata.annotations[pillion.dev/service-account-permissions]: Invalid value: says something else than spec.serviceAccountPermissions; keep one of the two"
)]
fn p1_annotations_may_not_contradict_fields(
    #[case] key: &str,
    #[case] attack: &str,
    #[case] honest: &str,
    #[case] message: &str,
) {
    let annotated = |text: &str| {
        edited(set(), |set| {
            set["spec"]["serviceAccountMode"] = json!("SidecarsOnly");
            set["metadata"]["annotations"] = json!({format!("pillion.dev/{key}"): text});
        })
    };
    assert_eq!(told(&annotated(attack)), message);
    assert_eq!(told(&annotated(honest)), "accepted");
}

#[test]
fn p3_more_questions_than_can_be_asked() {
    let names = |count: usize| (0..count).map(|index| format!("n{index}")).collect::<Vec<_>>();
    let many = |count: usize| {
        with_rules(
            json!([{"apiGroups": [""], "resources": ["configmaps"], "resourceNames": names(count), "verbs": ["get"]}]),
        )
    };
    let held = || {
        let rules = json!([rule("", "configmaps", "get"), rule("", "pods", "create")]);
        Court::with([account("web")]).granting("ann", "", &rules)
    };
    let tell = |set: &Value| {
        let (answer, cluster) = admit(&request("ann", set), &json!({"denyPermissions": []}), held());
        (verdict(&answer), cluster.questions().len())
    };
    assert_eq!(tell(&many(256)).0, "accepted");
    assert_eq!(tell(&many(257)), ("403 SidecarSet \"agent\": spec.serviceAccountPermissions: more than 256 permissions and namespaces to verify in one request; split the SidecarSet, or name fewer permissions or namespaces".to_owned(), 0));
    assert_eq!(tell(&in_namespaces(many(128), &["web", "b"])).0, "accepted");
    assert_eq!(tell(&in_namespaces(many(129), &["web", "b"])), ("403 SidecarSet \"agent\": spec.serviceAccountPermissions: more than 256 permissions and namespaces to verify in one request; split the SidecarSet, or name fewer permissions or namespaces".to_owned(), 0));
    // What is said twice is asked once.
    let twice = edited(many(200), |set| {
        let rules = set["spec"]["serviceAccountPermissions"].as_array_mut().unwrap();
        rules.push(rules[0].clone());
    });
    assert_eq!(tell(&twice).0, "accepted");
}

/// Permissions would be compared with each other, which takes longer than a policy server waits.
#[test]
fn p3_rules_with_thousands_of_permissions_are_refused_at_once() {
    let texts = |count: usize, prefix: &str| (0..count).map(|index| format!("{prefix}{index}")).collect::<Vec<_>>();
    let product = |count: usize| json!([{"apiGroups": texts(count, "g"), "resources": texts(count, "r"), "verbs": texts(count, "v")}]);
    for (count, message) in [
        (
            26,
            "403 SidecarSet \"agent\": spec.serviceAccountPermissions[0]: stands for more than 4096 permissions; name fewer groups, resources, verbs or objects",
        ),
        (
            16,
            "403 SidecarSet \"agent\": spec.serviceAccountPermissions: more than 256 permissions and namespaces to verify in one request; split the SidecarSet, or name fewer permissions or namespaces",
        ),
        (
            7,
            "403 SidecarSet \"agent\": spec.serviceAccountPermissions: more than 256 permissions and namespaces to verify in one request; split the SidecarSet, or name fewer permissions or namespaces",
        ),
    ] {
        let started = Instant::now();
        assert_eq!(told(&with_rules(product(count))), message);
        assert!(started.elapsed() < Duration::from_secs(1), "{count}: {:?}", started.elapsed());
    }
    // The settings have no author, but P4 holds for them.
    let hidden = edited(product(26), |rules| rules[0]["resources"][25] = json!("secrets"));
    let verdict = module().validate_settings(&gated(&json!({}), &[with_rules(hidden)])).unwrap();
    assert_eq!(
        verdict.message.unwrap(),
        "sidecarSets[0].spec.serviceAccountPermissions[0]: Forbidden: stands for more than 4096 permissions; name fewer groups, resources, verbs or objects (SidecarSet \"agent\")"
    );
}

#[rstest]
#[case::broken(ClusterError::Failed("boom, says secret-host".to_owned()), "403 SidecarSet \"agent\": spec.serviceAccountPermissions: the author's permissions could not be verified; try again")]
#[case::not_granted(
    ClusterError::NotGranted,
    "403 SidecarSet \"agent\": spec.serviceAccountPermissions: the author's permissions could not be verified; grant the policy server `create` on subjectaccessreviews, and the policy `kubernetes/can_i`"
)]
#[case::forbidden(ClusterError::Failed("ApiError: subjectaccessreviews is forbidden: User \"secret\": Forbidden".to_owned()), "403 SidecarSet \"agent\": spec.serviceAccountPermissions: the author's permissions could not be verified; grant the policy server `create` on subjectaccessreviews, and the policy `kubernetes/can_i`")]
fn p3_who_cannot_be_asked_has_not_agreed(#[case] failure: ClusterError, #[case] message: &str) {
    let failing = cluster().failing(failure);
    assert_eq!(verdict(&admit(&request("ann", &set()), &json!({}), failing).0), message);
    // A set without an identity needs nobody's word.
    let plain = edited(set(), |set| {
        for key in ["serviceAccountName", "behaviorWhenServiceAccountInjection", "serviceAccountPermissions"] {
            set["spec"].as_object_mut().unwrap().remove(key);
        }
    });
    let silent = cluster().failing(ClusterError::NotGranted);
    assert_eq!(verdict(&admit(&request("ann", &plain), &json!({}), silent).0), "accepted");
}

#[test]
fn p3_an_authorizer_that_dawdles_is_not_waited_for() {
    let slow = cluster().slow(Duration::from_millis(210));
    let (answer, cluster) = admit(&request("ann", &set()), &json!({}), slow);
    assert_eq!(
        verdict(&answer),
        "403 SidecarSet \"agent\": spec.serviceAccountPermissions: too many permissions to verify in one request; split them over several SidecarSets"
    );
    assert_eq!(cluster.questions().len(), 3, "what is under way after 600 ms is the last");
    // An admin is done with one question about herself; then the account's own rights are asked for.
    let slow = self::cluster().slow(Duration::from_millis(10));
    assert_eq!(verdict(&admit(&request("root", &set()), &json!({}), slow).0), "accepted");
}

#[test]
fn p5_an_account_that_the_author_could_not_use() {
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
fn p5_rights_in_one_namespace_are_none_elsewhere() {
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

/// A list that another requirement or operator opens is no closed list.
#[test]
fn p5_selectors_that_only_look_like_a_closed_list() {
    let selecting = |selector: Value| edited(set(), |set| set["spec"]["namespaceSelector"] = selector);
    let name = "kubernetes.io/metadata.name";
    for open in [
        json!({"matchExpressions": [{"key": name, "operator": "NotIn", "values": ["web"]}]}),
        json!({"matchExpressions": [{"key": name, "operator": "Exists"}]}),
        json!({"matchLabels": {"metadata.name": "web"}}),
    ] {
        let told = told(&selecting(open.clone()));
        assert!(told.contains("in every namespace"), "{open}: {told}");
    }
    // Both have to hold, so that the other one cannot widen it.
    for closed in [
        json!({"matchLabels": {name: "web"}, "matchExpressions": [{"key": name, "operator": "In", "values": ["web", "bank"]}]}),
        json!({"matchLabels": {name: "web", "team": "a"}}),
    ] {
        assert_eq!(told(&selecting(closed)), "accepted");
    }
}

#[test]
fn p5_v1alpha1_names_its_namespace_in_another_field() {
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
        "403 SidecarSet \"agent\": spec.serviceAccountName: \"ann\" may not use the ServiceAccount \"agent\" in namespace \"bank\"; the author needs \"create\" on pods, or on serviceaccounts/token of this name; SidecarSet \"agent\": spec.serviceAccountPermissions: \"ann\" may not grant get pods in namespace \"bank\"; write what you hold yourself, or ask somebody who does"
    );
    assert!(tell(&old("")).contains("in every namespace"));
    assert_eq!(
        tell(&old("kube-system")),
        "403 SidecarSet \"agent\": spec.namespaceSelector: no sidecar gets a ServiceAccount in the protected namespace \"kube-system\"; leave the namespace out, or change serviceAccounts.protectedNamespaces"
    );
    assert_eq!(tell(&old("web")), "accepted");
}

/// What the set does is the author's word, whoever wrote it first.
#[rstest]
#[case::a_wider_selector("/spec/selector", json!({"matchExpressions": [{"key": "app", "operator": "Exists"}]}))]
#[case::another_image("/spec/containers/0/image", json!("evil:1"))]
#[case::more_namespaces("/spec/namespaceSelector", json!({"matchLabels": {"team": "a"}}))]
#[case::another_mode("/spec/serviceAccountMode", json!("Isolate"))]
#[case::no_longer_paused("/spec/injectionStrategy", json!({"paused": false}))]
#[case::another_revision("/spec/injectionStrategy", json!({"revision": {"revisionName": "agent-1"}}))]
#[case::the_mode_as_an_annotation("/metadata/annotations/pillion.dev~1service-account-mode", json!("Isolate"))]
fn p1_an_update_that_hands_the_identity_to_others_is_asked_about(#[case] path: &str, #[case] value: Value) {
    let old = stored(&edited(set(), |set| set["spec"]["injectionStrategy"] = json!({"paused": true})));
    let new = edited(old.clone(), |set| {
        let (parent, key) = path.rsplit_once('/').unwrap();
        set.pointer_mut(parent).unwrap()[key.replace("~1", "/")] = value;
    });
    let revision = json!({
        "apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": 1,
        "metadata": {"name": "agent-1", "namespace": "kruise-system", "labels": {"kruise.io/sidecarset-name": "agent"}},
        "data": {"spec": {"containers": [{"name": "agent", "image": "agent:0"}]}},
    });
    let bob =
        || Court::with([account("web"), revision.clone()]).granting("bob", "web", &json!([rule("", "pods", "list")]));
    let (answer, cluster) = admit(&update("bob", &old, &new), &json!({}), bob());
    let told = verdict(&answer);
    assert!(told.starts_with("403 SidecarSet \"agent\": spec.serviceAccount"), "{told}");
    assert!(
        told.contains("\"bob\" may not grant get pods in ") && told.contains("\"bob\" may not use the ServiceAccount")
    );
    assert_eq!(cluster.questions()[0], "bob: * */* \"\" in \"\"");
    let (answer, _) = admit(
        &update("root", &old, &new),
        &json!({}),
        Court::with([revision.clone()]).granting("system:masters", "", &json!([rule("*", "*", "*")])),
    );
    assert_eq!(verdict(&answer), "accepted");
}

#[rstest]
#[case::how_it_is_rolled_out("/spec/updateStrategy", json!({"type": "RollingUpdate", "partition": "50%", "maxUnavailable": 1}))]
#[case::how_much_is_remembered("/spec/revisionHistoryLimit", json!(3))]
#[case::a_label("/metadata/labels", json!({"a": "b"}))]
#[case::an_annotation_of_others("/metadata/annotations/example.com~1note", json!("x"))]
#[case::a_finalizer("/metadata/finalizers", json!(["example.com/f"]))]
fn p1_an_update_that_changes_nothing_of_it_is_not_asked_about(#[case] path: &str, #[case] value: Value) {
    let old = stored(&set());
    let new = edited(old.clone(), |set| {
        let (parent, key) = path.rsplit_once('/').unwrap();
        set.pointer_mut(parent).unwrap()[key.replace("~1", "/")] = value;
    });
    let (answer, cluster) = admit(&update("bob", &old, &new), &json!({}), Court::default());
    assert_eq!(verdict(&answer), "accepted");
    assert_eq!((cluster.questions(), cluster.looked_up()), (vec![], vec![]));
}

#[test]
fn p1_giving_the_account_up_needs_no_rights_and_taking_it_back_does() {
    let with = stored(&set());
    let without = edited(with.clone(), |set| {
        for key in ["serviceAccountName", "behaviorWhenServiceAccountInjection", "serviceAccountPermissions"] {
            set["spec"].as_object_mut().unwrap().remove(key);
        }
    });
    assert_eq!(verdict(&admit(&update("bob", &with, &without), &json!({}), Court::default()).0), "accepted");
    let told = verdict(&admit(&update("bob", &without, &with), &json!({}), Court::default()).0);
    assert!(told.starts_with("403 "), "{told}");
}

/// An object that is being deleted must be able to lose its finalizers; that is no way around the rules, for it is
/// there, and in effect, for as long as somebody keeps a finalizer on it.
#[test]
fn p1_a_set_that_is_being_deleted_gains_nothing() {
    let old = edited(stored(&set()), |set| {
        set["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        set["metadata"]["finalizers"] = json!(["example.com/keep"]);
    });
    let tell = |new: &Value, rules: &Value| verdict(&admit(&update("bob", &old, new), rules, Court::default()).0);
    let released = edited(old.clone(), |set| set["metadata"]["finalizers"] = json!([]));
    assert_eq!(tell(&released, &json!({"protectedNamespaces": ["web"]})), "accepted");
    let widened = edited(old.clone(), |set| {
        set["spec"]["serviceAccountPermissions"] = json!([rule("*", "*", "*")]);
    });
    assert_eq!(
        tell(&widened, &json!({})),
        "403 SidecarSet \"agent\": spec.serviceAccountPermissions[0]: grants * *.*, which reaches escalate *.*; nobody may give that to a sidecar; grant less, or change serviceAccounts.denyPermissions"
    );
    let replaced = edited(old.clone(), |set| set["spec"]["containers"][0]["image"] = json!("evil:1"));
    assert_eq!(
        tell(&replaced, &json!({})),
        "403 SidecarSet \"agent\": spec.serviceAccountName: \"bob\" may not use the ServiceAccount \"agent\" in namespace \"web\"; the author needs \"create\" on pods, or on serviceaccounts/token of this name; SidecarSet \"agent\": spec.serviceAccountPermissions: \"bob\" may not grant get pods in namespace \"web\"; write what you hold yourself, or ask somebody who does"
    );
}

/// The account holds itself what no sidecar may have.
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
    // RBAC says no to the verb "*" for whoever was granted less than that.
    assert_eq!(
        tell(&set(), cluster("web", json!([rule("", "secrets", "get")]))),
        "403 SidecarSet \"agent\": spec.serviceAccountName: ServiceAccount \"agent\" may get secrets in namespace \"web\"; name an account with fewer permissions, or change serviceAccounts.denyPermissions"
    );
    assert_eq!(
        tell(&set(), cluster("web", json!([rule("", "pods/exec", "create")]))),
        "403 SidecarSet \"agent\": spec.serviceAccountName: ServiceAccount \"agent\" may create pods/exec in namespace \"web\"; name an account with fewer permissions, or change serviceAccounts.denyPermissions"
    );
    // Through a group of accounts.
    let grouped = Court::with([account("web")])
        .granting("system:serviceaccounts:web", "web", &json!([rule("*", "*", "*")]))
        .granting("system:masters", "", &json!([rule("*", "*", "*")]));
    assert_eq!(
        tell(&set(), grouped),
        "403 SidecarSet \"agent\": spec.serviceAccountName: ServiceAccount \"agent\" may escalate *.* in namespace \"web\"; name an account with fewer permissions, or change serviceAccounts.denyPermissions"
    );
    // Behind others in a long list.
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
            "Pods in the protected namespaces kube-system, kube-public, kube-node-lease, pillion-system, kubewarden are refused where this SidecarSet matches them; exclude them in spec.namespaceSelector"
        ]
    );
}

#[test]
fn v5_accounts_that_are_not_allowed() {
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

/// Volumes and mounts through which a sidecar would get a token that is not its account's.
#[rstest]
#[case::a_projected_token(json!([{"name": "t", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}]), json!({}), "422 SidecarSet \"agent\": spec.volumes[0].projected: Forbidden: the token would be that of the Pod's ServiceAccount; remove it, spec.serviceAccountName brings one")]
#[case::one_of_several_sources(json!([{"name": "t", "projected": {"sources": [{"secret": {"name": "a"}}, {"secret": {"name": "sidecarset-token-b077d031c6eaa197"}}]}}]), json!({}), "422 SidecarSet \"agent\": spec.volumes[0]: Forbidden: the Secret \"sidecarset-token-b077d031c6eaa197\" belongs to isolated sidecars; remove it")]
#[case::a_secret_of_isolated_sidecars(json!([{"name": "t", "secret": {"secretName": "sidecarset-token-b077d031c6eaa197"}}]), json!({}), "422 SidecarSet \"agent\": spec.volumes[0]: Forbidden: the Secret \"sidecarset-token-b077d031c6eaa197\" belongs to isolated sidecars; remove it")]
#[case::a_volume_that_the_api_server_adopts(json!([{"name": "kube-api-access-aaaaa", "emptyDir": {}}]), json!({}), "422 SidecarSet \"agent\": spec.volumes[0].name: Invalid value: \"kube-api-access-aaaaa\": volumes called \"kube-api-access-...\" hold tokens; choose another name")]
#[case::a_volume_of_ours(json!([{"name": "sidecarset-sa-b077d031c6eaa197", "emptyDir": {}}]), json!({}), "422 SidecarSet \"agent\": spec.volumes[0].name: Invalid value: \"sidecarset-sa-b077d031c6eaa197\": volumes called \"sidecarset-sa-...\" hold tokens; choose another name")]
#[case::a_mount_at_the_path(json!([{"name": "t", "emptyDir": {}}]), json!({"volumeMounts": [{"name": "t", "mountPath": "/var/run/secrets/kubernetes.io//serviceaccount/"}]}), "422 SidecarSet \"agent\": spec.containers[0].volumeMounts[0].mountPath: Invalid value: \"/var/run/secrets/kubernetes.io//serviceaccount/\": the sidecar's token is mounted here; remove the mount, or spec.serviceAccountName")]
#[case::a_mount_at_the_path_with_dots(json!([{"name": "t", "emptyDir": {}}]), json!({"volumeMounts": [{"name": "t", "mountPath": "/var/run/secrets/x/../kubernetes.io/serviceaccount"}]}), "422 SidecarSet \"agent\": spec.containers[0].volumeMounts[0].mountPath: Invalid value: \"/var/run/secrets/x/../kubernetes.io/serviceaccount\": the sidecar's token is mounted here; remove the mount, or spec.serviceAccountName")]
#[case::a_variable(json!([]), json!({"env": [{"name": "T", "valueFrom": {"secretKeyRef": {"name": "sidecarset-token-b077d031c6eaa197", "key": "token"}}}]}), "422 SidecarSet \"agent\": spec.containers[0].env: Forbidden: the Secret \"sidecarset-token-b077d031c6eaa197\" belongs to isolated sidecars; remove it")]
#[case::an_environment(json!([]), json!({"envFrom": [{"secretRef": {"name": "sidecarset-token-b077d031c6eaa197"}}]}), "422 SidecarSet \"agent\": spec.containers[0].envFrom: Forbidden: the Secret \"sidecarset-token-b077d031c6eaa197\" belongs to isolated sidecars; remove it")]
fn e4_b2_volumes_that_bring_a_token(#[case] volumes: Value, #[case] container: Value, #[case] message: &str) {
    let with = |volumes: Value, container: &Value| {
        edited(set(), |set| {
            set["spec"]["volumes"] = volumes;
            for (key, value) in container.as_object().unwrap() {
                set["spec"]["containers"][0][key] = value.clone();
            }
        })
    };
    assert_eq!(told(&with(volumes, &container)), message);
    let honest = with(
        json!([{"name": "t", "projected": {"sources": [{"secret": {"name": "mine"}}]}}]),
        &json!({"volumeMounts": [{"name": "t", "mountPath": "/var/run/secrets/mine"}], "envFrom": [{"secretRef": {"name": "mine"}}]}),
    );
    assert_eq!(told(&honest), "accepted");
}

#[test]
fn v1_without_the_gate_nothing_of_it_is_set() {
    let off = json!({});
    let tell = |request: &Value| {
        let cluster = Arc::new(Court::default());
        let verdict = verdict(&ask(request, &off, &cluster));
        assert_eq!((cluster.questions(), cluster.looked_up()), (vec![], vec![]), "nothing is looked up");
        verdict
    };
    assert_eq!(
        tell(&request("root", &set())),
        "422 SidecarSet \"agent\": spec.behaviorWhenServiceAccountInjection: Forbidden: the feature gate SidecarSetServiceAccountInjection is off; turn it on in featureGates, or remove this; SidecarSet \"agent\": spec.serviceAccountName: Forbidden: the feature gate SidecarSetServiceAccountInjection is off; turn it on in featureGates, or remove this; SidecarSet \"agent\": spec.serviceAccountPermissions: Forbidden: the feature gate SidecarSetServiceAccountInjection is off; turn it on in featureGates, or remove this"
    );
    let annotated = edited(set(), |set| {
        for key in ["serviceAccountName", "behaviorWhenServiceAccountInjection", "serviceAccountPermissions"] {
            set["spec"].as_object_mut().unwrap().remove(key);
        }
        set["metadata"]["annotations"] = json!({"pillion.dev/service-account-name": "agent"});
    });
    assert_eq!(
        tell(&request("root", &annotated)),
        "422 SidecarSet \"agent\": metadata.annotations[pillion.dev/service-account-name]: Forbidden: the feature gate SidecarSetServiceAccountInjection is off; turn it on in featureGates, or remove this"
    );
    let old = stored(&set());
    assert_eq!(
        tell(&update("bob", &old, &edited(old.clone(), |set| set["spec"]["serviceAccountName"] = json!("admin")))),
        "422 SidecarSet \"agent\": spec.serviceAccountName: Forbidden: the feature gate SidecarSetServiceAccountInjection is off; turn it on in featureGates, or remove this"
    );
    assert_eq!(
        tell(&update(
            "bob",
            &old,
            &edited(old.clone(), |set| set["spec"]["updateStrategy"] = json!({"type": "NotUpdate"}))
        )),
        "accepted"
    );
}

#[test]
fn v8_e3_modes_and_behaviours_that_there_are_not() {
    let with = |field: &str, value: Value| edited(set(), |set| set["spec"][field] = value);
    assert_eq!(
        told(&with("serviceAccountMode", json!("Pod"))),
        "403 SidecarSet \"agent\": spec.serviceAccountMode: mode Pod would give the app the permissions of \"agent\"; use SidecarsOnly or Isolate, or set serviceAccounts.allowPodMode"
    );
    assert_eq!(
        told(&with("serviceAccountMode", json!("pod "))),
        "422 SidecarSet \"agent\": spec.serviceAccountMode: Unsupported value: \"pod \": supported values: \"SidecarsOnly\", \"Isolate\", \"Pod\""
    );
    assert_eq!(
        told(&with("serviceAccountMode", json!(["Isolate"]))),
        "422 SidecarSet \"agent\": spec.serviceAccountMode: Invalid value: must be a string, not a list"
    );
    assert_eq!(
        told(&with("behaviorWhenServiceAccountInjection", json!("Ignore"))),
        "422 SidecarSet \"agent\": spec.behaviorWhenServiceAccountInjection: Unsupported value: \"Ignore\": supported values: \"Refuse\", \"Merge\""
    );
    assert_eq!(told(&with("serviceAccountMode", json!("isolate"))), "accepted");
    assert_eq!(told(&with("serviceAccountMode", Value::Null)), "accepted");
    let (answer, _) =
        admit(&request("ann", &with("serviceAccountMode", json!("POD"))), &json!({"allowPodMode": true}), cluster());
    assert_eq!(verdict(&answer), "accepted");
}

#[test]
fn v3_accounts_that_are_not_there() {
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
        "503 SidecarSet \"agent\": spec.serviceAccountName: ServiceAccount \"agent\" could not be read in namespace \"web\": not allowed; allow the policy to read it: contextAwareResources must list v1 ServiceAccount, and the policy server's ServiceAccount needs \"get\" on it"
    );
    assert_eq!(tell(Court::with([account("web")])), "accepted");
    let (answer, _) = admit(&request("ann", &set()), &json!({}), held(Court::default()));
    assert_eq!(answer.warnings.unwrap()[0], "ServiceAccount \"agent\" does not exist in namespace \"web\"");
}

#[test]
fn a5_1_existence_is_checked_where_the_namespaces_are_named() {
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
    let (answer, cluster) = admit(&request("root", &set_for_all()), &json!({}), self::cluster());
    assert_eq!(cluster.looked_up(), [""; 0]);
    assert_eq!(
        answer.warnings.unwrap()[1],
        "whether ServiceAccount \"agent\" exists is checked for each Pod, as the namespaces are not named"
    );
}

/// Sets of the settings have no author to ask about; what nobody may hand out stays so.
#[test]
fn p7_settings_are_trusted_but_for_p4() {
    let told = |rules: Value| {
        let verdict = module().validate_settings(&gated(&json!({}), &[with_rules(rules)])).unwrap();
        verdict.message.unwrap_or_default()
    };
    assert_eq!(
        told(json!([rule("", "secrets", "get")])),
        "sidecarSets[0].spec.serviceAccountPermissions[0]: Forbidden: grants get secrets, which reaches * secrets; nobody may give that to a sidecar; grant less, or change serviceAccounts.denyPermissions (SidecarSet \"agent\")"
    );
    assert!(told(json!([rule("", "pods", "get")])).is_empty());
}
