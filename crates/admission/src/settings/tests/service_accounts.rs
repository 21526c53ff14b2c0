//! The setting `serviceAccounts`.

use pillion_identity::glob::Glob;
use pillion_identity::rules::{Allowed, Exposure, Judgement, OnAppAccount, Otherwise};
use pillion_identity::running::Guards;
use pillion_identity::token_container_rules::TokenContainerRules;
use pillion_identity::workload_identity::CloudWebhook;
use pillion_kubernetes::rbac::Atom;

use super::*;

fn glob(text: &str) -> Glob {
    text.parse().unwrap()
}

#[test]
fn every_rule_for_service_accounts_is_decoded() {
    let decoded = Settings::decode(json!({"serviceAccounts": {
        "allowed": [{"namespaces": ["team-*"], "names": ["log-agent"]}],
        "allowedAudiences": ["vault*"], "apiServerAudiences": ["https://issuer"], "maxTokenExpirationSeconds": 7200,
        "protectedNamespaces": ["kube-system"],
        "onMissing": "Skip", "onConflict": "Skip", "mergeClusterSets": true, "onAppServiceAccount": "Isolate",
        "allowPodMode": true, "strictExistence": true, "protectDefault": true, "protectInUse": true,
        "requireCreatePods": true,
        "denyPermissions": [
            {"apiGroups": [""], "resources": ["nodes"], "verbs": ["*"], "resourceNames": null, "nonResourceURLs": ["/x"]}
        ],
        "legacyTokenSecrets": "Deny", "legacyTokenExempt": ["ci/*"],
        "ephemeralContainers": "Warn", "exposure": "Deny", "controllerUser": "me",
        "rootCaPublishers": ["system:node", "trust-manager"], "trustedCsiDrivers": ["b.example", "a.example"],
        "skipContainers": ["EKS", "AKS"],
        "tokenContainers": {"namespaces": true, "otherwise": ["app*"]},
        "guards": {
            "exec": true, "execUsers": ["ann"],
            "tokenRequests": true, "tokenRequestAccounts": [{"namespaces": ["*"], "names": ["vault"]}],
            "images": true, "imageUsers": ["argo"], "breakGlassGroups": ["oncall"]
        }
    }}))
    .unwrap();
    assert_eq!(
        decoded.service_accounts,
        Rules {
            allowed: vec![Allowed { namespaces: vec![glob("team-*")], names: vec![glob("log-agent")] }],
            allowed_audiences: vec![glob("vault*")],
            api_server_audiences: vec![glob("https://issuer")],
            max_token_expiration_seconds: Some(7200),
            protected_namespaces: vec!["kube-system".to_owned()],
            on_missing: Otherwise::Skip,
            on_conflict: Otherwise::Skip,
            merge_cluster_sets: true,
            on_app_account: OnAppAccount::Isolate,
            allow_pod_mode: true,
            strict_existence: true,
            protect_default: true,
            protect_in_use: true,
            require_create_pods: true,
            deny_permissions: Some(vec![Atom::new("", "nodes", None, "*")]),
            legacy_token_secrets: Judgement::Deny,
            legacy_token_exempt: vec![glob("ci/*")],
            ephemeral_containers: Judgement::Warn,
            exposure: Exposure::Deny,
            controller_user: "me".to_owned(),
            root_ca_publishers: vec!["system:node".to_owned(), "trust-manager".to_owned()],
            trusted_csi_drivers: ["a.example", "b.example"].map(str::to_owned).into(),
            skip_containers: vec![CloudWebhook::Eks, CloudWebhook::Aks],
            token_containers: TokenContainerRules { namespaces: true, otherwise: Some(vec![glob("app*")]) },
            guards: Guards {
                exec: true,
                exec_users: vec!["ann".to_owned()],
                token_requests: true,
                token_request_accounts: vec![Allowed { namespaces: vec![glob("*")], names: vec![glob("vault")] }],
                images: true,
                image_users: vec!["argo".to_owned()],
                break_glass_groups: vec!["oncall".to_owned()],
            },
        }
    );
}

#[rstest]
#[case::list(json!([]), ": Invalid value: must be an object, found a list")]
#[case::key(json!({"allowedNames": []}), ".allowedNames: Unknown field: known here: allowed, allowedAudiences, apiServerAudiences, maxTokenExpirationSeconds")]
#[case::misspelt(json!({"onmissing": "Skip"}), ".onmissing: Unknown field: did you mean \"onMissing\"?")]
#[case::choice(
    json!({"onMissing": "skip"}), ".onMissing: Unsupported value: \"skip\": supported values: \"Deny\", \"Skip\""
)]
#[case::silence(
    json!({"ephemeralContainers": "Allow"}),
    ".ephemeralContainers: Unsupported value: \"Allow\": supported values: \"Deny\", \"Warn\""
)]
#[case::flag(json!({"protectDefault": "yes"}), ".protectDefault: Invalid value: must be true or false, found a string")]
#[case::user(json!({"controllerUser": ""}), ".controllerUser: Invalid value: must not be empty; write a name, or leave it out")]
#[case::e25_user_without_a_name(
    json!({"rootCaPublishers": ["a", ""]}),
    ".rootCaPublishers[1]: Invalid value: must not be empty; write a name, or leave it out"
)]
#[case::aft1_a_guard_as_a_text(
    json!({"guards": {"exec": "on"}}), ".guards.exec: Invalid value: must be true or false, found a string"
)]
#[case::aft1_an_unknown_guard(json!({"guards": {"Images": true}}), ".guards.Images: Unknown field: did you mean \"images\"?")]
#[case::aft6_accounts_without_namespaces(
    json!({"guards": {"tokenRequestAccounts": [{"names": ["a"]}]}}),
    ".guards.tokenRequestAccounts[0].namespaces: Required value: must be set"
)]
#[case::aft8_a_group_without_a_name(
    json!({"guards": {"breakGlassGroups": [""]}}),
    ".guards.breakGlassGroups[0]: Invalid value: must not be empty; write a name, or leave it out"
)]
#[case::tcn2_one_name(
    json!({"tokenContainers": "app"}), ".tokenContainers: Invalid value: must be an object, found a string"
)]
#[case::tcn2_a_name_as_the_list(
    json!({"tokenContainers": {"otherwise": "app"}}), ".tokenContainers.otherwise: Invalid value: must be a list, found a string"
)]
#[case::tcn2_an_empty_name(
    json!({"tokenContainers": {"otherwise": [""]}}),
    ".tokenContainers.otherwise[0]: Invalid value: must not be empty; write a name, or leave it out"
)]
#[case::aud5_seconds_as_a_text(
    json!({"maxTokenExpirationSeconds": "7200"}),
    ".maxTokenExpirationSeconds: Invalid value: must be a whole number that is not negative, found a string"
)]
#[case::aud5_a_fraction(
    json!({"maxTokenExpirationSeconds": 7200.5}),
    ".maxTokenExpirationSeconds: Invalid value: must be a whole number that is not negative, found a number"
)]
#[case::aud5_below_zero(
    json!({"maxTokenExpirationSeconds": -1}),
    ".maxTokenExpirationSeconds: Invalid value: must be a whole number that is not negative, found a number"
)]
#[case::aud5_an_empty_audience(
    json!({"allowedAudiences": [""]}),
    ".allowedAudiences[0]: Invalid value: must not be empty; write a name, or leave it out"
)]
#[case::glob_of_namespaces(
    json!({"protectedNamespaces": ["a", "kube-*"]}),
    ".protectedNamespaces[1]: Invalid value: \"kube-*\": is a glob; write each name in full"
)]
#[case::glob_of_drivers(
    json!({"trustedCsiDrivers": ["*.example"]}),
    ".trustedCsiDrivers[0]: Invalid value: \"*.example\": is a glob; write each name in full"
)]
#[case::number_among_drivers(
    json!({"trustedCsiDrivers": ["a", 1]}), ".trustedCsiDrivers[1]: Invalid value: must be a string, found a number"
)]
#[case::empty_name(
    json!({"allowed": [{"namespaces": ["*"], "names": [""]}]}),
    ".allowed[0].names[0]: Invalid value: must not be empty; write a name, or leave it out"
)]
#[case::allowed_everywhere_by_mistake(
    json!({"allowed": [{"names": ["a"]}]}), ".allowed[0].namespaces: Required value: must be set"
)]
#[case::allowed_everywhere_by_a_null(
    json!({"allowed": [{"names": ["a"], "namespaces": null}]}), ".allowed[0].namespaces: Required value: must be set"
)]
#[case::allowed_nothing(
    json!({"allowed": [{"names": [], "namespaces": ["a"]}]}),
    ".allowed[0].names: Invalid value: must not be empty; \"*\" is all of them"
)]
#[case::allowed_another_key(
    json!({"allowed": [{"name": ["a"], "namespaces": ["a"]}]}), ".allowed[0].name: Unknown field: did you mean \"names\"?"
)]
#[case::allowed_by_name_only(
    json!({"allowed": ["a"]}), ".allowed[0]: Invalid value: must be an object with namespaces and names, found a string"
)]
#[case::tok15_another_cloud(
    json!({"skipContainers": ["eks"]}),
    ".skipContainers[0]: Unsupported value: \"eks\": supported values: \"EKS\", \"AKS\""
)]
#[case::verbs_as_a_text(
    json!({"denyPermissions": [{"apiGroups": [""], "resources": ["pods"], "verbs": "get"}]}),
    ".denyPermissions[0].verbs: Invalid value: must be a list, found a string"
)]
#[case::a_rule_that_denies_nothing(
    json!({"denyPermissions": [{"apiGroups": [], "resources": ["pods"], "verbs": ["get"]}]}),
    ".denyPermissions[0].apiGroups: Invalid value: must not be empty; \"*\" is all of them"
)]
#[case::a_rule_without_verbs(
    json!({"denyPermissions": [{"apiGroups": ["*"], "resources": ["pods"]}]}),
    ".denyPermissions[0].verbs: Required value: must be set"
)]
#[case::e18_too_many_permissions(
    json!({"denyPermissions": [
        {"apiGroups": vec!["a"; 17], "resources": vec!["b"; 16], "verbs": vec!["c"; 16]}
    ]}),
    ".denyPermissions: Invalid value: stands for more than 4096 permissions; name fewer groups, resources, verbs or objects"
)]
fn rules_for_service_accounts_that_cannot_be_decoded_are_refused(#[case] rules: Value, #[case] error: &str) {
    let errors = refused(json!({ "serviceAccounts": rules }));
    assert!(errors.len() == 1 && errors[0].starts_with(&format!("serviceAccounts{error}")), "{errors:#?}");
}
