//! Invalid fields, annotations and volumes.

use rstest::rstest;
use serde_json::{Value, json};

use super::admit;
use super::cluster;
use super::message_of;
use super::request;
use super::set;
use crate::support::identity::{edited, verdict};

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
fn idv2_e16_names_that_are_none(#[case] name: &str, #[case] message: &str) {
    let named = |name: &str| edited(set(), |set| set["spec"]["serviceAccountName"] = json!(name));
    assert_eq!(message_of(&named(name)), message);
    // The same in the annotation that replaces the field.
    let annotated = edited(set(), |set| {
        set["spec"].as_object_mut().unwrap().remove("serviceAccountName");
        set["metadata"]["annotations"] = json!({"pillion.dev/service-account-name": name});
    });
    assert_ne!(message_of(&annotated), "accepted");
    assert_eq!(message_of(&named("agent")), "accepted");
}

#[test]
fn esc1_annotations_are_asked_about_like_fields() {
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
        message_of(&annotated(wanted)),
        "403 SidecarSet \"agent\": spec.serviceAccountPermissions: \"ann\" may not grant delete pods in namespace \"web\"; write permissions that you hold, or ask a holder to write it"
    );
    // The last of two equal keys counts, here and for all later readers.
    let twice = r#"[{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"], "verbs": ["delete"]}]"#;
    assert_eq!(
        message_of(&annotated(twice)),
        "403 SidecarSet \"agent\": spec.serviceAccountPermissions: \"ann\" may not grant delete pods in namespace \"web\"; write permissions that you hold, or ask a holder to write it"
    );
    assert_eq!(
        message_of(&annotated("[{]")),
        "422 SidecarSet \"agent\": metadata.annotations[pillion.dev/service-account-permissions]: Invalid value: must be a JSON list, as in spec.serviceAccountPermissions"
    );
    let held = r#"[{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]"#;
    assert_eq!(message_of(&annotated(held)), "accepted");
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
fn esc1_annotations_may_not_contradict_fields(
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
    assert_eq!(message_of(&annotated(attack)), message);
    assert_eq!(message_of(&annotated(honest)), "accepted");
}

/// Volumes and mounts that would give a sidecar a token of another account.
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
fn e4_tok2_volumes_that_bring_a_token(#[case] volumes: Value, #[case] container: Value, #[case] message: &str) {
    let with = |volumes: Value, container: &Value| {
        edited(set(), |set| {
            set["spec"]["volumes"] = volumes;
            for (key, value) in container.as_object().unwrap() {
                set["spec"]["containers"][0][key] = value.clone();
            }
        })
    };
    assert_eq!(message_of(&with(volumes, &container)), message);
    let honest = with(
        json!([{"name": "t", "projected": {"sources": [{"secret": {"name": "mine"}}]}}]),
        &json!({"volumeMounts": [{"name": "t", "mountPath": "/var/run/secrets/mine"}], "envFrom": [{"secretRef": {"name": "mine"}}]}),
    );
    assert_eq!(message_of(&honest), "accepted");
}

#[test]
fn idv8_e3_modes_and_behaviours_that_there_are_not() {
    let with = |field: &str, value: Value| edited(set(), |set| set["spec"][field] = value);
    assert_eq!(
        message_of(&with("serviceAccountMode", json!("Pod"))),
        "403 SidecarSet \"agent\": spec.serviceAccountMode: mode Pod would give the app the permissions of \"agent\"; use SidecarsOnly or Isolate, or set serviceAccounts.allowPodMode"
    );
    assert_eq!(
        message_of(&with("serviceAccountMode", json!("pod "))),
        "422 SidecarSet \"agent\": spec.serviceAccountMode: Unsupported value: \"pod \": supported values: \"SidecarsOnly\", \"Isolate\", \"Pod\""
    );
    assert_eq!(
        message_of(&with("serviceAccountMode", json!(["Isolate"]))),
        "422 SidecarSet \"agent\": spec.serviceAccountMode: Invalid value: must be a string, found a list"
    );
    assert_eq!(
        message_of(&with("behaviorWhenServiceAccountInjection", json!("Ignore"))),
        "422 SidecarSet \"agent\": spec.behaviorWhenServiceAccountInjection: Unsupported value: \"Ignore\": supported values: \"Refuse\", \"Merge\""
    );
    assert_eq!(message_of(&with("serviceAccountMode", json!("isolate"))), "accepted");
    assert_eq!(message_of(&with("serviceAccountMode", Value::Null)), "accepted");
    let (answer, _) =
        admit(&request("ann", &with("serviceAccountMode", json!("POD"))), &json!({"allowPodMode": true}), cluster());
    assert_eq!(verdict(&answer), "accepted");
}
