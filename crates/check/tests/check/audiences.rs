//! The tokens of sidecars for other audiences.

use rstest::rstest;
use serde_json::{Value, json};

use super::support::{check, folder, found, json_set, lines};

/// Returns a SidecarSet for the namespace `shop` with these fields besides its account.
fn asking(fields: &Value) -> Value {
    let mut set = json_set("logs", fields);
    set["spec"]["serviceAccountName"] = "log-agent".into();
    set["spec"]["namespaceSelector"] = json!({"matchLabels": {"kubernetes.io/metadata.name": "shop"}});
    set
}

fn with_token(token: &Value) -> Value {
    asking(&json!({"serviceAccountTokens": [token]}))
}

fn settings(accounts: &Value, set: &Value) -> Value {
    json!({
        "sidecarSets": [set], "serviceAccounts": accounts,
        "featureGates": {"SidecarSetServiceAccountInjection": true},
    })
}

/// Returns the findings without their lines and columns.
fn said(document: &Value) -> Vec<String> {
    let without_place = |line: String| {
        let (severity, rest) = line.split_once(' ').unwrap();
        format!("{severity} {}", rest.split_once(' ').unwrap().1)
    };
    found(&document.to_string()).into_iter().map(without_place).collect()
}

#[rstest]
#[case::not_allowed(&json!({}), json!({"audience": "vault", "path": "vault-token"}), &[
    "error sidecarSets[0].spec.serviceAccountTokens[0]: Forbidden: the audience \"vault\" is not allowed -> add it to \
     serviceAccounts.allowedAudiences"
])]
#[case::allowed(&json!({"allowedAudiences": ["vault"]}), json!({"audience": "vault", "path": "vault-token"}), &[])]
#[case::of_the_api_server(
    &json!({"allowedAudiences": ["https://*"]}),
    json!({"audience": "https://kubernetes.default.svc", "path": "again"}),
    &["error sidecarSets[0].spec.serviceAccountTokens[0]: Forbidden: the audience \"https://kubernetes.default.svc\" is \
       one of the API server -> remove the entry and use the file \"token\", or correct \
       serviceAccounts.apiServerAudiences"]
)]
#[case::too_long(
    &json!({"allowedAudiences": ["vault"], "maxTokenExpirationSeconds": 3600}),
    json!({"audience": "vault", "path": "vault-token", "expirationSeconds": 7200}),
    &["error sidecarSets[0].spec.serviceAccountTokens[0]: Forbidden: the token for \"vault\" would live 7200 seconds, and \
       3600 are allowed -> lower expirationSeconds, or raise serviceAccounts.maxTokenExpirationSeconds"]
)]
#[case::misspelt_lifetime(
    &json!({"allowedAudiences": ["vault"]}), json!({"audience": "vault", "path": "vault-token", "expirationSecond": 600}),
    &["error sidecarSets[0].spec.serviceAccountTokens[0].expirationSecond: Unknown field \"expirationSecond\" -> did you \
       mean \"expirationSeconds\"?"]
)]
#[case::misspelt_audience(
    &json!({"allowedAudiences": ["vault"]}), json!({"audiences": "vault", "path": "vault-token"}),
    &["error sidecarSets[0].spec.serviceAccountTokens[0].audiences: Unknown field \"audiences\" -> did you mean \
       \"audience\"?"]
)]
fn aud5_settings_say_which_tokens_a_set_may_have(
    #[case] accounts: &Value,
    #[case] token: Value,
    #[case] expected: &[&str],
) {
    assert_eq!(said(&settings(accounts, &with_token(&token))), expected);
}

#[test]
fn aud5_a_set_alone_is_held_against_the_default_settings() {
    let set = with_token(&json!({"audience": "vault", "path": "vault-token"}));
    assert_eq!(
        said(&set),
        ["warning spec.serviceAccountTokens[0]: with the default settings: Forbidden: the audience \"vault\" is not \
          allowed -> add it to serviceAccounts.allowedAudiences"]
    );
}

#[test]
fn idf4_the_annotation_stands_for_the_field() {
    let mut set = asking(&json!({}));
    set["metadata"]["annotations"] =
        json!({"pillion.dev/service-account-tokens": r#"[{"audience": "vault", "path": "token"}]"#});
    let found = said(&settings(&json!({"allowedAudiences": ["vault"]}), &set));
    assert_eq!(
        found,
        [
            "error sidecarSets[0].metadata.annotations[pillion.dev/service-account-tokens][0].path: Invalid value: \"token\": is the \
          name of a file that the token directory has already -> choose another name"
        ]
    );
    set["metadata"]["annotations"] = json!({"pillion.dev/service-account-token": "[]"});
    let found = said(&set);
    assert!(found[0].ends_with("-> did you mean \"pillion.dev/service-account-tokens\"?"), "{found:?}");
}

#[test]
fn a_misspelt_field_is_told_what_it_could_be() {
    let found = said(&asking(&json!({"serviceAccountToken": []})));
    assert_eq!(
        found,
        ["warning spec.serviceAccountToken: unknown field; nothing reads it -> did you mean \"serviceAccountTokens\"?"]
    );
}

#[test]
fn aud6_tokens_of_a_set_that_merges_are_told_to_get_lost() {
    let fields = |mode: &str| {
        json!({
            "serviceAccountMode": mode, "behaviorWhenServiceAccountInjection": "Merge",
            "serviceAccountPermissions": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}],
            "serviceAccountTokens": [{"audience": "vault", "path": "vault-token"}],
        })
    };
    let accounts = json!({"allowedAudiences": ["vault"]});
    assert_eq!(
        said(&settings(&accounts, &asking(&fields("SidecarsOnly")))),
        [
            "warning sidecarSets[0].spec.serviceAccountTokens: a Pod that runs under a merged ServiceAccount gets none of \
          these tokens -> mode Isolate gives them in any case"
        ]
    );
    assert_eq!(said(&settings(&accounts, &asking(&fields("Isolate")))), [""; 0]);
}

#[rstest]
#[case::everything(json!({"allowedAudiences": ["vault", "*"]}), &[
    "warning serviceAccounts.allowedAudiences[1]: every audience is allowed: a SidecarSet may get tokens for any service \
     that trusts this cluster -> name the audiences of the services that sidecars need"
])]
#[case::some(json!({"allowedAudiences": ["vault*", "//iam.googleapis.com/*"]}), &[])]
#[case::none_of_the_api_server(json!({"apiServerAudiences": []}), &[
    "warning serviceAccounts.apiServerAudiences: no audience counts as one of the API server, so a SidecarSet could get a \
     second token for it -> leave it out for the default list, or name those of your API server"
])]
fn aud5_lists_that_allow_more_than_meant_are_found(#[case] accounts: Value, #[case] expected: &[&str]) {
    assert_eq!(said(&settings(&accounts, &json_set("plain", &json!({})))), expected);
}

/// Returns a Deployment of Pillion's controllers.
fn controllers(names: &str) -> Value {
    let container =
        json!({"name": "pillion", "image": "p:1", "args": ["controller", format!("--controllers={names}")]});
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "pillion-controller"},
        "spec": {"template": {"spec": {"containers": [container]}}},
    })
}

#[rstest]
#[case::nothing_is_known_of_controllers(None, "Isolate", 0)]
#[case::the_controller_runs(Some("bundle,sidecar-tokens"), "Isolate", 0)]
#[case::another_controller_runs(Some("bundle"), "Isolate", 1)]
#[case::the_kubelet_requests_them(Some("bundle"), "SidecarsOnly", 0)]
fn aud7_mode_isolate_needs_a_controller(#[case] controller: Option<&str>, #[case] mode: &str, #[case] warnings: usize) {
    let set = asking(&json!({
        "serviceAccountMode": mode, "serviceAccountTokens": [{"audience": "vault", "path": "vault-token"}],
    }));
    let settings = settings(&json!({"allowedAudiences": ["vault"]}), &set);
    let here = folder(&[
        ("settings.json", &settings.to_string()),
        ("controller.json", &controller.map_or_else(|| json!({"kind": "List"}), controllers).to_string()),
    ]);
    let found = lines(&check(here.path(), &["settings.json", "controller.json", "-o", "json"], "").out);
    assert_eq!(found.len(), warnings, "{found:?}");
    assert!(found.iter().all(|line| line.contains("spec.serviceAccountMode: no controller here is sidecar-tokens")));
}
