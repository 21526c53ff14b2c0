//! Permissions that no author, or not this author, may grant.

use std::time::{Duration, Instant};

use pillion_testkit::module;
use rstest::rstest;
use serde_json::{Value, json};

use super::account;
use super::admit;
use super::cluster;
use super::in_namespaces;
use super::message_of;
use super::request;
use super::set;
use super::with_rules;
use crate::support::identity::{Court, edited, gated, rule, verdict};

#[test]
fn esc1_whoever_holds_what_the_set_hands_out_may_create_it() {
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
#[case::every_group(json!([rule("*", "pods", "get")]), json!([rule("", "pods", "get")]), "403 SidecarSet \"agent\": spec.serviceAccountPermissions: \"ann\" may not grant get pods.* in namespace \"web\"; write permissions that you hold, or ask a holder to write it")]
#[case::every_resource_of_a_group(json!([rule("apps", "*", "get")]), json!([rule("apps", "deployments", "get")]), "403 SidecarSet \"agent\": spec.serviceAccountPermissions: \"ann\" may not grant get *.apps in namespace \"web\"; write permissions that you hold, or ask a holder to write it")]
#[case::every_log(json!([rule("", "*/log", "get")]), json!([rule("", "pods/log", "get")]), "403 SidecarSet \"agent\": spec.serviceAccountPermissions: \"ann\" may not grant get */log in namespace \"web\"; write permissions that you hold, or ask a holder to write it")]
#[case::a_subresource_that_only_its_resource_is_held_of(json!([rule("", "pods/status", "get")]), json!([rule("", "pods", "get")]), "403 SidecarSet \"agent\": spec.serviceAccountPermissions: \"ann\" may not grant get pods/status in namespace \"web\"; write permissions that you hold, or ask a holder to write it")]
#[case::a_resource_that_only_its_subresource_is_held_of(json!([rule("", "pods/log", "get"), rule("", "pods/binding", "get")]), json!([rule("", "pods/log", "get")]), "403 SidecarSet \"agent\": spec.serviceAccountPermissions: \"ann\" may not grant get pods/binding in namespace \"web\"; write permissions that you hold, or ask a holder to write it")]
#[case::every_name(json!([rule("", "configmaps", "get")]), json!([{"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["a"], "verbs": ["get"]}]), "403 SidecarSet \"agent\": spec.serviceAccountPermissions: \"ann\" may not grant get configmaps in namespace \"web\"; write permissions that you hold, or ask a holder to write it")]
#[case::another_name(
    json!([{"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["a", "b"], "verbs": ["get"]}]),
    json!([{"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["a"], "verbs": ["get"]}]),
    "403 SidecarSet \"agent\": spec.serviceAccountPermissions: \"ann\" may not grant get configmaps \"b\" in namespace \"web\"; write permissions that you hold, or ask a holder to write it"
)]
#[case::another_verb(json!([rule("", "pods", "delete")]), json!([rule("", "pods", "list")]), "403 SidecarSet \"agent\": spec.serviceAccountPermissions: \"ann\" may not grant delete pods in namespace \"web\"; write permissions that you hold, or ask a holder to write it")]
#[case::a_verb_in_capitals(json!([rule("", "pods", "GET")]), json!([rule("", "pods", "get")]), "403 SidecarSet \"agent\": spec.serviceAccountPermissions: \"ann\" may not grant GET pods in namespace \"web\"; write permissions that you hold, or ask a holder to write it")]
#[case::one_of_many(
    json!([{"apiGroups": ["", "apps"], "resources": ["deployments", "pods"], "verbs": ["get"]}]),
    json!([rule("apps", "deployments", "get"), rule("", "pods", "get")]),
    "403 SidecarSet \"agent\": spec.serviceAccountPermissions: \"ann\" may not grant get deployments in namespace \"web\"; write permissions that you hold, or ask a holder to write it; SidecarSet \"agent\": spec.serviceAccountPermissions: \"ann\" may not grant get pods.apps in namespace \"web\"; write permissions that you hold, or ask a holder to write it"
)]
fn esc1_what_the_author_does_not_hold(#[case] attack: Value, #[case] honest: Value, #[case] message: &str) {
    assert_eq!(message_of(&with_rules(attack)), message);
    assert_eq!(message_of(&with_rules(honest)), "accepted");
}

/// Permissions that no author may grant, not even with all rights.
#[rstest]
#[case::every_verb(json!([rule("", "pods", "*")]), "403 SidecarSet \"agent\": spec.serviceAccountPermissions[0]: grants * pods, which reaches escalate *.*; no sidecar may get that; grant less, or change serviceAccounts.denyPermissions")]
#[case::every_resource(json!([rule("", "*", "get")]), "403 SidecarSet \"agent\": spec.serviceAccountPermissions[0]: grants get *, which reaches * secrets; no sidecar may get that; grant less, or change serviceAccounts.denyPermissions")]
#[case::everything(json!([rule("*", "*", "*")]), "403 SidecarSet \"agent\": spec.serviceAccountPermissions[0]: grants * *.*, which reaches escalate *.*; no sidecar may get that; grant less, or change serviceAccounts.denyPermissions")]
#[case::every_group_of_secrets(json!([rule("*", "secrets", "get")]), "403 SidecarSet \"agent\": spec.serviceAccountPermissions[0]: grants get secrets.*, which reaches * secrets; no sidecar may get that; grant less, or change serviceAccounts.denyPermissions")]
#[case::every_exec(json!([rule("", "*/exec", "create")]), "403 SidecarSet \"agent\": spec.serviceAccountPermissions[0]: grants create */exec, which reaches * pods/exec; no sidecar may get that; grant less, or change serviceAccounts.denyPermissions")]
#[case::every_token(json!([rule("*", "*/token", "create")]), "403 SidecarSet \"agent\": spec.serviceAccountPermissions[0]: grants create */token.*, which reaches create *.rbac.authorization.k8s.io; no sidecar may get that; grant less, or change serviceAccounts.denyPermissions")]
#[case::exec(json!([rule("", "pods/exec", "create")]), "403 SidecarSet \"agent\": spec.serviceAccountPermissions[0]: grants create pods/exec, which reaches * pods/exec; no sidecar may get that; grant less, or change serviceAccounts.denyPermissions")]
#[case::attach(json!([rule("", "pods/attach", "get")]), "403 SidecarSet \"agent\": spec.serviceAccountPermissions[0]: grants get pods/attach, which reaches * pods/attach; no sidecar may get that; grant less, or change serviceAccounts.denyPermissions")]
#[case::ephemeral_containers(json!([rule("", "pods/ephemeralcontainers", "patch")]), "403 SidecarSet \"agent\": spec.serviceAccountPermissions[0]: grants patch pods/ephemeralcontainers, which reaches * pods/ephemeralcontainers; no sidecar may get that; grant less, or change serviceAccounts.denyPermissions")]
#[case::proxy(json!([rule("", "nodes/proxy", "get")]), "403 SidecarSet \"agent\": spec.serviceAccountPermissions[0]: grants get nodes/proxy, which reaches * nodes/proxy; no sidecar may get that; grant less, or change serviceAccounts.denyPermissions")]
#[case::ports(json!([rule("", "pods/portforward", "create")]), "403 SidecarSet \"agent\": spec.serviceAccountPermissions[0]: grants create pods/portforward, which reaches * pods/portforward; no sidecar may get that; grant less, or change serviceAccounts.denyPermissions")]
#[case::a_pods_proxy(json!([rule("", "pods/proxy", "get")]), "403 SidecarSet \"agent\": spec.serviceAccountPermissions[0]: grants get pods/proxy, which reaches * pods/proxy; no sidecar may get that; grant less, or change serviceAccounts.denyPermissions")]
#[case::a_services_proxy(json!([rule("", "services/proxy", "create")]), "403 SidecarSet \"agent\": spec.serviceAccountPermissions[0]: grants create services/proxy, which reaches * services/proxy; no sidecar may get that; grant less, or change serviceAccounts.denyPermissions")]
#[case::policies(json!([rule("policies.kubewarden.io", "clusteradmissionpolicies", "delete")]), "403 SidecarSet \"agent\": spec.serviceAccountPermissions[0]: grants delete clusteradmissionpolicies.policies.kubewarden.io, which reaches delete *.policies.kubewarden.io; no sidecar may get that; grant less, or change serviceAccounts.denyPermissions")]
#[case::sidecar_sets(json!([rule("apps.kruise.io", "sidecarsets", "patch")]), "403 SidecarSet \"agent\": spec.serviceAccountPermissions[0]: grants patch sidecarsets.apps.kruise.io, which reaches patch sidecarsets.apps.kruise.io; no sidecar may get that; grant less, or change serviceAccounts.denyPermissions")]
#[case::tokens(json!([rule("", "serviceaccounts/token", "create")]), "403 SidecarSet \"agent\": spec.serviceAccountPermissions[0]: grants create serviceaccounts/token, which reaches * serviceaccounts/token; no sidecar may get that; grant less, or change serviceAccounts.denyPermissions")]
#[case::one_secret(json!([{"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["mine"], "verbs": ["get"]}]), "403 SidecarSet \"agent\": spec.serviceAccountPermissions[0]: grants get secrets \"mine\", which reaches * secrets; no sidecar may get that; grant less, or change serviceAccounts.denyPermissions")]
#[case::escalate(json!([rule("rbac.authorization.k8s.io", "roles", "escalate")]), "403 SidecarSet \"agent\": spec.serviceAccountPermissions[0]: grants escalate roles.rbac.authorization.k8s.io, which reaches escalate *.*; no sidecar may get that; grant less, or change serviceAccounts.denyPermissions")]
#[case::bind(json!([rule("*", "clusterroles", "bind")]), "403 SidecarSet \"agent\": spec.serviceAccountPermissions[0]: grants bind clusterroles.*, which reaches bind *.*; no sidecar may get that; grant less, or change serviceAccounts.denyPermissions")]
#[case::impersonate(json!([rule("", "users", "impersonate")]), "403 SidecarSet \"agent\": spec.serviceAccountPermissions[0]: grants impersonate users, which reaches impersonate *.*; no sidecar may get that; grant less, or change serviceAccounts.denyPermissions")]
#[case::bindings(json!([rule("rbac.authorization.k8s.io", "rolebindings", "create")]), "403 SidecarSet \"agent\": spec.serviceAccountPermissions[0]: grants create rolebindings.rbac.authorization.k8s.io, which reaches create *.rbac.authorization.k8s.io; no sidecar may get that; grant less, or change serviceAccounts.denyPermissions")]
#[case::webhooks(json!([rule("admissionregistration.k8s.io", "mutatingwebhookconfigurations", "patch")]), "403 SidecarSet \"agent\": spec.serviceAccountPermissions[0]: grants patch mutatingwebhookconfigurations.admissionregistration.k8s.io, which reaches patch *.admissionregistration.k8s.io; no sidecar may get that; grant less, or change serviceAccounts.denyPermissions")]
#[case::behind_a_harmless_one(json!([rule("", "pods", "get"), {"apiGroups": ["apps", ""], "resources": ["deployments", "secrets"], "verbs": ["get", "list"]}]), "403 SidecarSet \"agent\": spec.serviceAccountPermissions[1]: grants get secrets, which reaches * secrets; no sidecar may get that; grant less, or change serviceAccounts.denyPermissions")]
fn esc4_what_nobody_may_hand_out(#[case] rules: Value, #[case] message: &str) {
    let set = with_rules(rules);
    let (answer, cluster) = admit(&request("root", &set), &json!({}), cluster());
    assert_eq!(verdict(&answer), message);
    assert_eq!(cluster.questions(), [""; 0], "nobody has to be asked");
    // The setting replaces the list; then only the author's rights matter.
    let (answer, _) = admit(&request("root", &set), &json!({"denyPermissions": []}), super::cluster());
    assert_eq!(verdict(&answer), "accepted");
}

/// Invalid fields, and honest ones for comparison.
#[rstest]
#[case::an_empty_name(json!([{"apiGroups": [""], "resources": ["configmaps"], "resourceNames": [""], "verbs": ["get"]}]), "422 SidecarSet \"agent\": spec.serviceAccountPermissions[0].resourceNames[0]: Invalid value: \"\": \"\" is no name; leave resourceNames out for every object")]
#[case::urls(json!([{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]), "422 SidecarSet \"agent\": spec.serviceAccountPermissions[0].apiGroups: Required value: give at least one group; \"\" is the core group; SidecarSet \"agent\": spec.serviceAccountPermissions[0].nonResourceURLs: Forbidden: a Role belongs to a namespace and cannot grant URLs; remove it; SidecarSet \"agent\": spec.serviceAccountPermissions[0].resources: Required value: give at least one resource")]
#[case::no_verbs(json!([{"apiGroups": [""], "resources": ["pods"], "verbs": []}]), "422 SidecarSet \"agent\": spec.serviceAccountPermissions[0].verbs: Required value: give at least one verb")]
#[case::null_lists(json!([{"apiGroups": null, "resources": ["pods"], "verbs": null}]), "422 SidecarSet \"agent\": spec.serviceAccountPermissions[0].apiGroups: Required value: give at least one group; \"\" is the core group; SidecarSet \"agent\": spec.serviceAccountPermissions[0].verbs: Required value: give at least one verb")]
#[case::a_null_rule(json!([null]), "422 SidecarSet \"agent\": spec.serviceAccountPermissions[0]: Invalid value: must be a PolicyRule, found null")]
#[case::not_a_list(json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}), "422 SidecarSet \"agent\": spec.serviceAccountPermissions: Invalid value: must be a list of PolicyRules, found an object")]
#[case::a_text_for_a_list(json!([{"apiGroups": "", "resources": "pods", "verbs": "*"}]), "422 SidecarSet \"agent\": spec.serviceAccountPermissions[0].apiGroups: Invalid value: must be a list of strings, found a string; SidecarSet \"agent\": spec.serviceAccountPermissions[0].resources: Invalid value: must be a list of strings, found a string; SidecarSet \"agent\": spec.serviceAccountPermissions[0].verbs: Invalid value: must be a list of strings, found a string")]
#[case::an_unknown_field(json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"], "clusterScope": true}]), "422 SidecarSet \"agent\": spec.serviceAccountPermissions[0].clusterScope: Unknown field: a PolicyRule has no such field")]
fn idv6_rules_that_are_none(#[case] rules: Value, #[case] message: &str) {
    assert_eq!(message_of(&with_rules(rules)), message);
}

#[test]
fn esc3_more_questions_than_can_be_asked() {
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
    // Repeated permissions are checked once.
    let twice = edited(many(200), |set| {
        let rules = set["spec"]["serviceAccountPermissions"].as_array_mut().unwrap();
        rules.push(rules[0].clone());
    });
    assert_eq!(tell(&twice).0, "accepted");
}

/// Comparing so many permissions with each other would exceed the timeout of a policy server.
#[test]
fn esc3_rules_with_thousands_of_permissions_are_refused_at_once() {
    let texts = |count: usize, prefix: &str| (0..count).map(|index| format!("{prefix}{index}")).collect::<Vec<_>>();
    let product = |count: usize| json!([{"apiGroups": texts(count, "g"), "resources": texts(count, "r"), "verbs": texts(count, "v")}]);
    for (count, message) in [
        (
            26,
            "422 SidecarSet \"agent\": spec.serviceAccountPermissions: Too many: stands for more than 4096 permissions; name fewer groups, resources, verbs or objects",
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
        assert_eq!(message_of(&with_rules(product(count))), message);
        assert!(started.elapsed() < Duration::from_secs(1), "{count}: {:?}", started.elapsed());
    }
    // The settings have no author, but ESC-4 applies to them.
    let hidden = edited(product(26), |rules| rules[0]["resources"][25] = json!("secrets"));
    let verdict = module().validate_settings(&gated(&json!({}), &[with_rules(hidden)])).unwrap();
    assert_eq!(
        verdict.message.unwrap(),
        "sidecarSets[0].spec.serviceAccountPermissions: Too many: stands for more than 4096 permissions; name fewer groups, resources, verbs or objects (SidecarSet \"agent\")"
    );
}

/// Sets of the settings have no author to check, but permissions that no author may grant stay forbidden.
#[test]
fn esc7_settings_are_trusted_but_for_p4() {
    let message_of = |rules: Value| {
        let verdict = module().validate_settings(&gated(&json!({}), &[with_rules(rules)])).unwrap();
        verdict.message.unwrap_or_default()
    };
    assert_eq!(
        message_of(json!([rule("", "secrets", "get")])),
        "sidecarSets[0].spec.serviceAccountPermissions[0]: Forbidden: grants get secrets, which reaches * secrets; no sidecar may get that; grant less, or change serviceAccounts.denyPermissions (SidecarSet \"agent\")"
    );
    assert!(message_of(json!([rule("", "pods", "get")])).is_empty());
}
