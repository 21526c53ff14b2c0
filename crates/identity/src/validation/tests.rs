#![allow(clippy::needless_pass_by_value, reason = "json! makes values")]

use rstest::rstest;
use serde_json::{Value, json};

use super::super::rules::Allowed;
use super::*;
use crate::testing::set;

/// Returns all findings about a set: errors, refusals, warnings.
fn said(set: &SidecarSet, rules: &Rules) -> Vec<String> {
    let (_, findings) = check(set, rules);
    let mut said: Vec<String> = findings.invalid.iter().map(ToString::to_string).collect();
    said.extend(findings.refused.iter().map(|reason| format!("{} {reason}", reason.code.as_u16())));
    said.extend(findings.warnings.iter().map(|warning| format!("warning: {warning}")));
    said
}

fn with_field(field: &str, value: Value) -> Vec<String> {
    said(&set(|set| set["spec"][field] = value), &Rules::default())
}

const NOTHING: [&str; 0] = [];

#[test]
fn a_set_with_an_account_is_fine() {
    assert_eq!(said(&set(|_| {}), &Rules::default()), NOTHING);
    let (declared, findings) = check(&set(|_| {}), &Rules::default());
    assert_eq!(declared.service_account.as_deref(), Some("log-agent"));
    assert!(findings.is_fine());
}

#[rstest]
#[case::idv2_default("default", "every Pod has \"default\"; name an account of the sidecar's own")]
#[case::idv2_merged(
    "sidecarset-merged-0123456789abcdef",
    "names that start with \"sidecarset-merged-\" belong to merged ServiceAccounts"
)]
#[case::e16_namespace(
    "web/log-agent",
    "an account is one of the Pod's own namespace; give its name without a namespace"
)]
fn idv2_names_that_are_taken_or_elsewhere(#[case] name: &str, #[case] detail: &str) {
    assert_eq!(
        with_field("serviceAccountName", json!(name)),
        [format!("spec.serviceAccountName: Invalid value: \"{name}\": {detail}")]
    );
}

#[rstest]
#[case::upper("Log")]
#[case::space("log agent")]
#[case::dash("-log")]
fn idv2_names_are_subdomains(#[case] name: &str) {
    let said = with_field("serviceAccountName", json!(name));
    assert!(said.len() == 1 && said[0].starts_with("spec.serviceAccountName: Invalid value: "), "{said:?}");
}

#[test]
fn idv2_names_have_253_characters_at_most() {
    assert_eq!(with_field("serviceAccountName", json!("a".repeat(253))), NOTHING);
    assert_eq!(with_field("serviceAccountName", json!("a".repeat(254))).len(), 1);
}

/// IDV-5: the allow-list restricts each namespace of a closed list. Without a closed list, the account must be allowed
/// in some namespace.
#[rstest]
#[case::closed_allowed(json!({"matchLabels": {"kubernetes.io/metadata.name": "team-a"}}), "log-agent", &[])]
#[case::closed_other_namespace(
    json!({"matchLabels": {"kubernetes.io/metadata.name": "web"}}), "log-agent",
    &["403 SidecarSet \"logs\": spec.serviceAccountName: ServiceAccount \"log-agent\" is not allowed in namespace \"web\"; add it to serviceAccounts.allowed"]
)]
#[case::closed_each_is_named(
    json!({"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["web", "team-a", "ci"]}]}), "log-agent",
    &[
        "403 SidecarSet \"logs\": spec.serviceAccountName: ServiceAccount \"log-agent\" is not allowed in namespace \"web\"; add it to serviceAccounts.allowed",
        "403 SidecarSet \"logs\": spec.serviceAccountName: ServiceAccount \"log-agent\" is not allowed in namespace \"ci\"; add it to serviceAccounts.allowed",
    ]
)]
#[case::open_allowed_somewhere(json!({"matchLabels": {"env": "prod"}}), "log-agent", &[])]
#[case::open_allowed_nowhere(
    json!({"matchLabels": {"env": "prod"}}), "admin",
    &["403 SidecarSet \"logs\": spec.serviceAccountName: ServiceAccount \"admin\" is not allowed in any namespace; add it to serviceAccounts.allowed"]
)]
fn idv5_only_allowed_accounts(#[case] selector: Value, #[case] account: &str, #[case] expected: &[&str]) {
    let list = |text: &str| vec![text.parse().unwrap()];
    let rules = Rules {
        allowed: vec![Allowed { namespaces: list("team-*"), names: list("log-*") }],
        protected_namespaces: Vec::new(),
        ..Rules::default()
    };
    let set = set(|set| {
        set["spec"]["namespaceSelector"] = selector;
        set["spec"]["serviceAccountName"] = json!(account);
    });
    assert_eq!(said(&set, &rules), expected);
}

/// IDV-6, IDV-7: permissions, alone and with a behaviour that does not use them.
#[rstest]
#[case::idv6_no_verb(
    json!({"behaviorWhenServiceAccountInjection": "Merge", "serviceAccountPermissions": [{"apiGroups": [""], "resources": ["pods"], "verbs": []}]}),
    &["spec.serviceAccountPermissions[0].verbs: Required value: give at least one verb"]
)]
#[case::idv6_nothing(
    json!({"behaviorWhenServiceAccountInjection": "Merge", "serviceAccountPermissions": [{}]}),
    &[
        "spec.serviceAccountPermissions[0].verbs: Required value: give at least one verb",
        "spec.serviceAccountPermissions[0].apiGroups: Required value: give at least one group; \"\" is the core group",
        "spec.serviceAccountPermissions[0].resources: Required value: give at least one resource",
    ]
)]
#[case::idv6_urls(
    json!({"behaviorWhenServiceAccountInjection": "Merge", "serviceAccountPermissions": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"], "nonResourceURLs": ["/healthz"]}]}),
    &["spec.serviceAccountPermissions[0].nonResourceURLs: Forbidden: a Role belongs to a namespace and cannot grant URLs; remove it"]
)]
#[case::idv7_without_account(
    json!({"serviceAccountName": null, "behaviorWhenServiceAccountInjection": "Merge", "serviceAccountPermissions": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}),
    &["spec.serviceAccountPermissions: Forbidden: permissions belong to a ServiceAccount; set spec.serviceAccountName"]
)]
#[case::idv7_unused(
    json!({"serviceAccountPermissions": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}),
    &["warning: spec.serviceAccountPermissions is only used where spec.behaviorWhenServiceAccountInjection is Merge"]
)]
#[case::idv7_merge_of_nothing(
    json!({"behaviorWhenServiceAccountInjection": "Merge"}),
    &["warning: spec.behaviorWhenServiceAccountInjection is Merge, but spec.serviceAccountPermissions is empty: nothing of \"log-agent\" reaches a merged ServiceAccount"]
)]
#[case::idv8_unknown_behaviour(
    json!({"behaviorWhenServiceAccountInjection": "Replace"}),
    &["spec.behaviorWhenServiceAccountInjection: Unsupported value: \"Replace\": supported values: \"Refuse\", \"Merge\""]
)]
#[case::idv8_without_case(json!({"behaviorWhenServiceAccountInjection": "rEFUSE", "serviceAccountMode": "isolate"}), &[])]
#[case::idv8_unknown_mode(
    json!({"serviceAccountMode": "Container"}),
    &["spec.serviceAccountMode: Unsupported value: \"Container\": supported values: \"SidecarsOnly\", \"Isolate\", \"Pod\""]
)]
#[case::esc4_denied(
    json!({"behaviorWhenServiceAccountInjection": "Merge", "serviceAccountPermissions": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]}),
    &["403 SidecarSet \"logs\": spec.serviceAccountPermissions[0]: grants get secrets, which reaches * secrets; no sidecar may get that; grant less, or change serviceAccounts.denyPermissions"]
)]
#[case::e3_mode_pod(
    json!({"serviceAccountMode": "Pod"}),
    &["403 SidecarSet \"logs\": spec.serviceAccountMode: mode Pod would give the app the permissions of \"log-agent\"; use SidecarsOnly or Isolate, or set serviceAccounts.allowPodMode"]
)]
fn idv6_idv7_idv8_esc4_e3_fields(#[case] fields: Value, #[case] expected: &[&str]) {
    let set = set(|set| set["spec"].as_object_mut().unwrap().extend(fields.as_object().unwrap().clone()));
    assert_eq!(said(&set, &Rules::default()), expected);
}

#[test]
fn e3_mode_pod_is_a_setting() {
    let set = set(|set| set["spec"]["serviceAccountMode"] = json!("Pod"));
    assert_eq!(said(&set, &Rules { allow_pod_mode: true, ..Rules::default() }), NOTHING);
}

fn named(operator: &str, values: &[&str]) -> Value {
    json!({"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": operator, "values": values}]})
}

const ALL_PROTECTED: &str = "kube-system, kube-public, kube-node-lease, kruise-system, pillion-system, \
                             kubewarden, cattle-kubewarden-system, suse-sec-adm-controller";

/// E1: a closed list that names a protected namespace is refused; any other selector that may match one causes a
/// warning.
#[rstest]
#[case::closed(
    Some(named("In", &["web", "kube-system"])),
    "403 SidecarSet \"logs\": spec.namespaceSelector: no sidecar gets a ServiceAccount in the protected namespace \"kube-system\"; leave the namespace out, or change serviceAccounts.protectedNamespaces"
)]
#[case::open(
    Some(json!({"matchLabels": {"env": "prod"}})),
    "warning: Pods in the protected namespaces @ALL@ are refused where this SidecarSet matches them; exclude them in spec.namespaceSelector"
)]
#[case::none(
    None,
    "warning: Pods in the protected namespaces @ALL@ are refused where this SidecarSet matches them; exclude them in spec.namespaceSelector"
)]
#[case::some_excluded(
    Some(named("NotIn", &[
        "kube-system", "kube-public", "kruise-system", "pillion-system", "kubewarden", "suse-sec-adm-controller",
    ])),
    "warning: Pods in the protected namespaces kube-node-lease, cattle-kubewarden-system are refused where this SidecarSet matches them; exclude them in spec.namespaceSelector"
)]
#[case::all_excluded(
    Some(named("NotIn", &[
        "kube-system", "kube-public", "kube-node-lease", "kruise-system", "pillion-system", "kubewarden", "cattle-kubewarden-system",
        "suse-sec-adm-controller",
    ])),
    ""
)]
#[case::closed_elsewhere(Some(named("In", &["web", "ci"])), "")]
#[case::closed_by_exclusion(Some(json!({"matchExpressions": [
    {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["web"]},
    {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system"]},
]})), "")]
fn e1_protected_namespaces(#[case] selector: Option<Value>, #[case] expected: &str) {
    let set = set(|set| match selector {
        Some(selector) => set["spec"]["namespaceSelector"] = selector,
        None => drop(set["spec"].as_object_mut().unwrap().remove("namespaceSelector")),
    });
    let expected: Vec<String> =
        if expected.is_empty() { vec![] } else { vec![expected.replace("@ALL@", ALL_PROTECTED)] };
    assert_eq!(said(&set, &Rules::default()), expected);
}

#[rstest]
#[case::automounted(json!({"name": "kube-api-access-x", "emptyDir": {}}), "spec.volumes[0].name: Invalid value: \"kube-api-access-x\": volumes called \"kube-api-access-...\" hold tokens; choose another name")]
#[case::ours(json!({"name": "sidecarset-sa-x", "emptyDir": {}}), "spec.volumes[0].name: Invalid value: \"sidecarset-sa-x\": volumes called \"sidecarset-sa-...\" hold tokens; choose another name")]
#[case::token(
    json!({"name": "t", "projected": {"sources": [{"configMap": {"name": "c"}}, {"serviceAccountToken": {"path": "t", "audience": "vault"}}]}}),
    "spec.volumes[0].projected: Forbidden: the token would be that of the Pod's ServiceAccount; remove it, spec.serviceAccountName brings one"
)]
#[case::secret(
    json!({"name": "t", "secret": {"secretName": "sidecarset-token-0123456789abcdef"}}),
    "spec.volumes[0]: Forbidden: the Secret \"sidecarset-token-0123456789abcdef\" belongs to isolated sidecars; remove it"
)]
#[case::projected_secret(
    json!({"name": "t", "projected": {"sources": [{"secret": {"name": "sidecarset-token-0123456789abcdef"}}]}}),
    "spec.volumes[0]: Forbidden: the Secret \"sidecarset-token-0123456789abcdef\" belongs to isolated sidecars; remove it"
)]
#[case::e19_certificate(
    json!({"name": "t", "projected": {"sources": [{"podCertificate": {"signerName": "a/b"}}]}}),
    "spec.volumes[0].projected: Forbidden: the token would be that of the Pod's ServiceAccount; remove it, spec.serviceAccountName brings one"
)]
#[case::e19_driver(
    json!({"name": "t", "csi": {"driver": "vault.example"}}),
    "spec.volumes[0].csi.driver: Forbidden: \"vault.example\": the driver may get a token of the Pod's ServiceAccount; remove the volume, or name the driver in serviceAccounts.trustedCsiDrivers if it asks for none"
)]
#[case::e19_trusted_driver(json!({"name": "t", "csi": {"driver": "nfs.csi.k8s.io"}}), "")]
#[case::e20_secret_of_a_driver(
    json!({"name": "t", "csi": {"driver": "nfs.csi.k8s.io", "nodePublishSecretRef": {"name": "sidecarset-token-x"}}}),
    "spec.volumes[0]: Forbidden: the Secret \"sidecarset-token-x\" belongs to isolated sidecars; remove it"
)]
#[case::e20_secret_of_a_flex_volume(
    json!({"name": "t", "flexVolume": {"driver": "a/b", "secretRef": {"name": "sidecarset-token-x"}}}),
    "spec.volumes[0]: Forbidden: the Secret \"sidecarset-token-x\" belongs to isolated sidecars; remove it"
)]
#[case::other_secret(json!({"name": "t", "secret": {"secretName": "own"}}), "")]
#[case::projected_files(json!({"name": "t", "projected": {"sources": [{"secret": {"name": "own"}}, {"downwardAPI": {}}]}}), "")]
fn e4_volumes_through_which_tokens_would_come(#[case] volume: Value, #[case] expected: &str) {
    let object = set(|set| set["spec"]["volumes"] = json!([volume]));
    let expected: Vec<&str> = Some(expected).filter(|text| !text.is_empty()).into_iter().collect();
    assert_eq!(said(&object, &Rules::default()), expected);
    // If no account is named, all volumes are accepted as in the reference implementation.
    let mut without = object.into_value();
    without["spec"]["serviceAccountName"] = Value::Null;
    assert_eq!(said(&SidecarSet::from_decoded(without), &Rules::default()), NOTHING);
}

#[rstest]
#[case::env(
    json!({"env": [{"name": "A", "value": "b"}, {"name": "T", "valueFrom": {"secretKeyRef": {"name": "sidecarset-token-x", "key": "token"}}}]}),
    "env: Forbidden: the Secret \"sidecarset-token-x\" belongs to isolated sidecars; remove it"
)]
#[case::env_from(
    json!({"envFrom": [{"configMapRef": {"name": "c"}}, {"secretRef": {"name": "sidecarset-token-x"}}]}),
    "envFrom: Forbidden: the Secret \"sidecarset-token-x\" belongs to isolated sidecars; remove it"
)]
#[case::tok2_mount(
    json!({"volumeMounts": [{"name": "v", "mountPath": "/v"}, {"name": "v", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}]}),
    "volumeMounts[1].mountPath: Invalid value: \"/var/run/secrets/kubernetes.io/serviceaccount\": the sidecar's token is mounted here; remove the mount, or spec.serviceAccountName"
)]
#[case::tok2_sap8j_mount_with_slash(
    json!({"volumeMounts": [{"name": "v", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount/"}]}),
    "volumeMounts[0].mountPath: Invalid value: \"/var/run/secrets/kubernetes.io/serviceaccount/\": the sidecar's token is mounted here; remove the mount, or spec.serviceAccountName"
)]
#[case::e21_behind_the_link(
    json!({"volumeMounts": [{"name": "v", "mountPath": "/run/secrets/kubernetes.io/serviceaccount"}]}),
    "volumeMounts[0].mountPath: Invalid value: \"/run/secrets/kubernetes.io/serviceaccount\": the sidecar's token is mounted here; remove the mount, or spec.serviceAccountName"
)]
#[case::e21_above(
    json!({"volumeMounts": [{"name": "v", "mountPath": "/var/run"}]}),
    "volumeMounts[0].mountPath: Invalid value: \"/var/run\": this can hide the sidecar's token, which is mounted at /var/run/secrets/kubernetes.io/serviceaccount; choose another path, or remove spec.serviceAccountName"
)]
#[case::e21_device(
    json!({"volumeDevices": [{"name": "v", "devicePath": "/run/secrets/kubernetes.io/serviceaccount/x"}]}),
    "volumeDevices[0].devicePath: Invalid value: \"/run/secrets/kubernetes.io/serviceaccount/x\": this can hide the sidecar's token, which is mounted at /var/run/secrets/kubernetes.io/serviceaccount; choose another path, or remove spec.serviceAccountName"
)]
#[case::e21_termination_message(
    json!({"terminationMessagePath": "/run/secrets/kubernetes.io/serviceaccount/token"}),
    "terminationMessagePath: Invalid value: \"/run/secrets/kubernetes.io/serviceaccount/token\": this can hide the sidecar's token, which is mounted at /var/run/secrets/kubernetes.io/serviceaccount; choose another path, or remove spec.serviceAccountName"
)]
fn e4_tok2_containers_of_both_lists(
    #[case] container: Value,
    #[case] expected: &str,
    #[values("containers", "initContainers")] list: &str,
) {
    let object = set(|set| {
        set["spec"]["containers"] = json!([]);
        set["spec"][list] = json!([{"name": "first"}, container]);
    });
    assert_eq!(said(&object, &Rules::default()), [format!("spec.{list}[1].{expected}")]);
}

#[test]
fn all_findings_come_at_once() {
    let set = set(|set| {
        set["spec"]["serviceAccountName"] = json!("web/x");
        set["spec"]["serviceAccountMode"] = json!("Pod");
        set["spec"]["namespaceSelector"] = named("In", &["kube-system", "kube-public"]);
        set["spec"]["volumes"] = json!([{"name": "kube-api-access-x"}, {"name": "sidecarset-sa-x"}]);
    });
    let (_, findings) = check(&set, &Rules::default());
    assert_eq!((findings.invalid.len(), findings.refused.len()), (3, 3), "{findings:?}");
    let errors = findings.into_errors();
    assert_eq!(errors.len(), 6);
    assert_eq!(
        errors[5].to_string(),
        "spec.serviceAccountMode: Forbidden: mode Pod would give the app the permissions of \"web/x\"; use SidecarsOnly \
         or Isolate, or set serviceAccounts.allowPodMode"
    );
}

/// AUD-2, AUD-5: the list with an account and with settings.
#[rstest]
#[case::without_an_account(
    json!({"serviceAccountName": null, "serviceAccountTokens": [{"audience": "vault", "path": "vault"}]}),
    &["spec.serviceAccountTokens: Forbidden: tokens belong to a ServiceAccount; set spec.serviceAccountName"]
)]
#[case::an_empty_one_without_an_account(json!({"serviceAccountName": null, "serviceAccountTokens": []}), &[])]
#[case::allowed(json!({"serviceAccountTokens": [{"audience": "vault", "path": "vault", "expirationSeconds": 7200}]}), &[])]
#[case::isolated(json!({"serviceAccountMode": "Isolate", "serviceAccountTokens": [{"audience": "vault", "path": "vault"}]}), &[])]
#[case::several_not_allowed(
    json!({"serviceAccountTokens": [
        {"audience": "vault", "path": "a"}, {"audience": "sts", "path": "b"}, {"audience": "kubernetes", "path": "c"},
    ]}),
    &[
        "403 SidecarSet \"logs\": spec.serviceAccountTokens[1]: the audience \"sts\" is not allowed; add it to serviceAccounts.allowedAudiences",
        "403 SidecarSet \"logs\": spec.serviceAccountTokens[2]: the audience \"kubernetes\" is one of the API server; remove the entry and use the file \"token\", or correct serviceAccounts.apiServerAudiences",
    ]
)]
#[case::too_long_a_life(
    json!({"serviceAccountTokens": [{"audience": "vault", "path": "vault", "expirationSeconds": 7201}]}),
    &["403 SidecarSet \"logs\": spec.serviceAccountTokens[0]: the token for \"vault\" would live 7201 seconds, and 7200 are allowed; lower expirationSeconds, or raise serviceAccounts.maxTokenExpirationSeconds"]
)]
#[case::invalid_ones_are_not_compared_with_settings(
    json!({"serviceAccountTokens": [{"audience": "sts", "path": "token"}]}),
    &["spec.serviceAccountTokens[0].path: Invalid value: \"token\": is the name of a file that the token directory has already; choose another name"]
)]
#[case::aud6_merging(
    json!({
        "behaviorWhenServiceAccountInjection": "Merge",
        "serviceAccountPermissions": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}],
        "serviceAccountTokens": [{"audience": "vault", "path": "vault"}],
    }),
    &["warning: spec.serviceAccountTokens: a Pod that runs under a merged ServiceAccount gets none of these tokens; mode Isolate gives them in any case"]
)]
fn aud2_aud5_the_list_of_a_set(#[case] fields: Value, #[case] expected: &[&str]) {
    let globs = ["vault", "k*"].iter().map(|glob| glob.parse().unwrap());
    let rules =
        Rules { allowed_audiences: globs.collect(), max_token_expiration_seconds: Some(7200), ..Rules::default() };
    let set = set(|set| set["spec"].as_object_mut().unwrap().extend(fields.as_object().unwrap().clone()));
    assert_eq!(said(&set, &rules), expected);
}

const OFF: &str =
    "Forbidden: the feature gate SidecarSetServiceAccountInjection is off; turn it on in featureGates, or remove this";

/// IDV-1: new values are refused; old ones may stay or be removed; fields and annotations alike.
#[rstest]
#[case::account("serviceAccountName", json!("x"), "pillion.dev/service-account-name", "x")]
#[case::behaviour("behaviorWhenServiceAccountInjection", json!("Merge"), "pillion.dev/service-account-conflict", "merge")]
#[case::permissions("serviceAccountPermissions", json!([]), "pillion.dev/service-account-permissions", "[]")]
#[case::mode("serviceAccountMode", json!("Isolate"), "pillion.dev/service-account-mode", "Isolate")]
#[case::aud1_tokens("serviceAccountTokens", json!([]), "pillion.dev/service-account-tokens", "[]")]
fn idv1_without_the_gate(#[case] field: &str, #[case] value: Value, #[case] annotation: &str, #[case] text: &str) {
    let bare = || SidecarSet::from_decoded(json!({"metadata": {"name": "logs"}, "spec": {}}));
    let errors = |new: &SidecarSet, old: Option<&SidecarSet>| -> Vec<String> {
        check_gate(new, old).iter().map(ToString::to_string).collect()
    };
    let by_field =
        |value: Value| SidecarSet::from_decoded(json!({"metadata": {"name": "logs"}, "spec": {field: value}}));
    let by_annotation = |text: &str| {
        SidecarSet::from_decoded(json!({"metadata": {"name": "logs", "annotations": {annotation: text}}, "spec": {}}))
    };
    let wrong = [format!("spec.{field}: {OFF}")];
    assert_eq!(errors(&by_field(value.clone()), None), wrong, "created");
    assert_eq!(errors(&by_field(value.clone()), Some(&bare())), wrong, "added");
    assert_eq!(errors(&by_field(value.clone()), Some(&by_field(json!("before")))), wrong, "changed");
    assert_eq!(errors(&by_field(value.clone()), Some(&by_field(value.clone()))), NOTHING, "unchanged");
    assert_eq!(errors(&bare(), Some(&by_field(value))), NOTHING, "removed");
    assert_eq!(errors(&by_field(Value::Null), None), NOTHING, "null is absent");

    let wrong = [format!("metadata.annotations[{annotation}]: {OFF}")];
    assert_eq!(errors(&by_annotation(text), None), wrong, "created");
    assert_eq!(errors(&by_annotation(text), Some(&bare())), wrong, "added");
    assert_eq!(errors(&by_annotation(text), Some(&by_annotation("before"))), wrong, "changed");
    assert_eq!(errors(&by_annotation(text), Some(&by_annotation(text))), NOTHING, "unchanged");
    assert_eq!(errors(&bare(), Some(&by_annotation(text))), NOTHING, "removed");
}
