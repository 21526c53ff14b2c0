#![allow(clippy::needless_pass_by_value, reason = "json! makes values")]

use pillion_kubernetes::field::ERRORS_MAX;
use rstest::rstest;
use serde_json::json;

use super::*;

fn set(spec: Value, annotations: Value) -> SidecarSet {
    SidecarSet::from_decoded(json!({"metadata": {"name": "logs", "annotations": annotations}, "spec": spec}))
}

fn of_spec(spec: Value) -> Declared {
    Declared::from_sidecar_set(&set(spec, json!({}))).unwrap()
}

fn errors(spec: Value, annotations: Value) -> Vec<String> {
    let shown = |errors: Vec<FieldError>| errors.iter().map(ToString::to_string).collect();
    match Declared::from_sidecar_set(&set(spec, annotations)) {
        Err(errors) => shown(errors),
        Ok(declared) => shown(declared.check().0),
    }
}

fn warnings(spec: Value) -> Vec<String> {
    of_spec(spec).check().1
}

fn rule() -> Value {
    json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]})
}

#[test]
fn idf1_a_set_without_the_field_does_not_use_the_feature() {
    assert_eq!(of_spec(json!({})), Declared::default());
    assert_eq!(of_spec(json!({"serviceAccountName": ""})), Declared::default());
    assert_eq!(of_spec(json!({"serviceAccountName": null, "serviceAccountMode": null})), Declared::default());
}

#[rstest]
#[case::proposal("refuse", OnConflict::Refuse)]
#[case::canonical("Merge", OnConflict::Merge)]
#[case::shouted("MERGE", OnConflict::Merge)]
#[case::empty("", OnConflict::Refuse)]
fn idv8_behaviours_are_compared_without_case(#[case] text: &str, #[case] behaviour: OnConflict) {
    assert_eq!(of_spec(json!({"behaviorWhenServiceAccountInjection": text})).on_conflict, behaviour);
}

#[rstest]
#[case::default("", Mode::SidecarsOnly)]
#[case::isolate("isolate", Mode::Isolate)]
#[case::pod("POD", Mode::Pod)]
fn idv8_modes_are_compared_without_case(#[case] text: &str, #[case] mode: Mode) {
    assert_eq!(of_spec(json!({"serviceAccountMode": text})).mode, mode);
}

#[test]
fn idv8_unknown_values_are_refused() {
    assert_eq!(
        errors(json!({"behaviorWhenServiceAccountInjection": "Skip", "serviceAccountMode": "Node"}), json!({})),
        [
            "spec.behaviorWhenServiceAccountInjection: Unsupported value: \"Skip\": supported values: \"Refuse\", \"Merge\"",
            "spec.serviceAccountMode: Unsupported value: \"Node\": supported values: \"SidecarsOnly\", \"Isolate\", \"Pod\"",
        ]
    );
}

#[test]
fn idf4_annotations_stand_for_fields() {
    let annotations = json!({
        "pillion.dev/service-account-name": "log-agent",
        "pillion.dev/service-account-conflict": "Merge",
        "pillion.dev/service-account-permissions": json!([rule()]).to_string(),
        "pillion.dev/service-account-mode": "Isolate",
        "pillion.dev/service-account-tokens": json!([{"audience": "vault", "path": "vault"}]).to_string(),
        "pillion.dev/service-account-partners": "metrics, traces",
    });
    let fields = json!({
        "serviceAccountName": "log-agent",
        "behaviorWhenServiceAccountInjection": "Merge",
        "serviceAccountPermissions": [rule()],
        "serviceAccountMode": "Isolate",
        "serviceAccountTokens": [{"audience": "vault", "path": "vault"}],
        "serviceAccountPartners": ["metrics", "traces"],
    });
    let expected = Declared {
        service_account: Some("log-agent".to_owned()),
        on_conflict: OnConflict::Merge,
        permissions: vec![serde_json::from_value(rule()).unwrap()],
        mode: Mode::Isolate,
        tokens: vec![AudienceToken {
            audience: "vault".to_owned(),
            path: "vault".to_owned(),
            expiration_seconds: 3600,
        }],
        partners: vec!["metrics".to_owned(), "traces".to_owned()],
    };
    assert_eq!(Declared::from_sidecar_set(&set(json!({}), annotations.clone())).unwrap(), expected);
    assert_eq!(of_spec(fields.clone()), expected);
    assert_eq!(Declared::from_sidecar_set(&set(fields, annotations)).unwrap(), expected);
}

#[rstest]
#[case::name(ACCOUNT, json!("one"), "two")]
#[case::conflict(CONFLICT, json!("Merge"), "Refuse")]
#[case::permissions(PERMISSIONS, json!([]), "[{}]")]
#[case::mode(MODE, json!("Pod"), "Isolate")]
#[case::tokens(TOKENS, json!([]), "[{}]")]
#[case::partners(PARTNERS, json!(["metrics"]), "metrics,traces")]
fn idf4_a_field_and_an_annotation_that_disagree_are_refused(
    #[case] field: Field,
    #[case] value: Value,
    #[case] annotation: &str,
) {
    let spec = Value::Object([(field.name.to_owned(), value)].into_iter().collect());
    let annotations = Value::Object([(field.annotation.to_owned(), json!(annotation))].into_iter().collect());
    let expected = format!(
        "metadata.annotations[{}]: Invalid value: says something else than spec.{}; keep one of the two",
        field.annotation, field.name
    );
    assert_eq!(errors(spec, annotations), [expected]);
}

#[rstest]
#[case::number(json!({"serviceAccountName": 1}), "spec.serviceAccountName: Invalid value: must be a string, found a number")]
#[case::object(
    json!({"serviceAccountPermissions": {}}),
    "spec.serviceAccountPermissions: Invalid value: must be a list of PolicyRules, found an object"
)]
#[case::rule(
    json!({"serviceAccountPermissions": ["get pods"]}),
    "spec.serviceAccountPermissions[0]: Invalid value: must be a PolicyRule, found a string"
)]
#[case::verbs(
    json!({"serviceAccountPermissions": [{"verbs": "get"}]}),
    "spec.serviceAccountPermissions[0].verbs: Invalid value: must be a list of strings, found a string"
)]
#[case::typo(
    json!({"serviceAccountPermissions": [{"verb": ["get"]}]}),
    "spec.serviceAccountPermissions[0].verb: Unknown field: a PolicyRule has no such field"
)]
fn fields_of_another_shape_are_refused(#[case] spec: Value, #[case] error: &str) {
    assert_eq!(errors(spec, json!({})), [error]);
}

#[test]
fn e18_what_is_wrong_with_many_rules_or_fields_has_a_limit() {
    let many = vec![Value::Null; rbac::COMBINATIONS_MAX + 1];
    let many = errors(json!({"serviceAccountPermissions": many}), json!({}));
    assert!(many.len() == 1 && many[0].starts_with("spec.serviceAccountPermissions: Too many: "), "{many:?}");
    let rule: Value = (0..2 * ERRORS_MAX).map(|index| (index.to_string(), Value::Null)).collect();
    assert_eq!(errors(json!({"serviceAccountPermissions": [rule]}), json!({})).len(), ERRORS_MAX);
}

#[test]
fn an_annotation_that_is_no_json_is_refused() {
    assert_eq!(
        errors(json!({}), json!({"pillion.dev/service-account-permissions": "- verbs: [get]"})),
        [
            "metadata.annotations[pillion.dev/service-account-permissions]: Invalid value: must be a JSON list, as in spec.serviceAccountPermissions"
        ]
    );
}

#[rstest]
#[case::default("default", "every Pod has")]
#[case::merged("sidecarset-merged-0123456789abcdef", "merged ServiceAccounts")]
#[case::e16_other_namespace("kube-system/admin", "without a namespace")]
#[case::no_subdomain("Log_Agent", "")]
#[case::long(
    "a.bc.de.fg.hi.jk.lm.no.pq.rs.tu.vw.xy.za.bc.de.fg.hi.jk.lm.no.pq.rs.tu.vw.xy.za.bc.de.fg.hi.jk.lm.no.pq.rs.tu.vw.xy.za.bc.de.fg.hi.jk.lm.no.pq.rs.tu.vw.xy.za.bc.de.fg.hi.jk.lm.no.pq.rs.tu.vw.xy.za.bc.de.fg.hi.jk.lm.no.pq.rs.tu.vw.xy.za.bc.de.fg.hi.jk.lm.no.pq",
    ""
)]
fn idv2_names_that_no_sidecar_may_have(#[case] name: &str, #[case] says: &str) {
    let errors = errors(json!({"serviceAccountName": name}), json!({}));
    assert!(errors.len() == 1 && errors[0].starts_with("spec.serviceAccountName: Invalid value: "), "{errors:?}");
    assert!(errors[0].contains(says), "{errors:?}");
}

#[test]
fn idv2_names_that_a_sidecar_may_have() {
    for name in ["log-agent", "a", "team.log-agent", "0"] {
        assert_eq!(errors(json!({"serviceAccountName": name}), json!({})), [""; 0], "{name}");
    }
}

#[test]
fn idv6_rules_are_those_of_a_role() {
    assert_eq!(
        errors(
            json!({
                "serviceAccountName": "log-agent",
                "serviceAccountPermissions": [
                    {"nonResourceURLs": ["/healthz"], "verbs": ["get"]},
                    {"apiGroups": [""], "resources": ["pods"], "resourceNames": ["a", ""], "verbs": []},
                ],
            }),
            json!({})
        ),
        [
            "spec.serviceAccountPermissions[0].apiGroups: Required value: give at least one group; \"\" is the core group",
            "spec.serviceAccountPermissions[0].resources: Required value: give at least one resource",
            "spec.serviceAccountPermissions[0].nonResourceURLs: Forbidden: a Role belongs to a namespace and cannot grant URLs; remove it",
            "spec.serviceAccountPermissions[1].verbs: Required value: give at least one verb",
            "spec.serviceAccountPermissions[1].resourceNames[1]: Invalid value: \"\": \"\" is no name; leave resourceNames out for every object",
        ]
    );
}

#[test]
fn mrg3_verbs_that_name_no_object_warn_beside_names() {
    let rule = json!({"apiGroups": [""], "resources": ["pods"], "resourceNames": ["a"], "verbs": ["create", "get"]});
    let spec = json!({
        "serviceAccountName": "a", "behaviorWhenServiceAccountInjection": "Merge", "serviceAccountPermissions": [rule]
    });
    assert_eq!(
        warnings(spec),
        ["spec.serviceAccountPermissions[0]: \"create\" with resourceNames is never granted: it names no object"]
    );
}

#[test]
fn idv7_permissions_belong_to_an_account_that_merges() {
    assert_eq!(
        errors(json!({"serviceAccountPermissions": [rule()]}), json!({})),
        [
            "spec.serviceAccountPermissions: Forbidden: permissions belong to a ServiceAccount; set spec.serviceAccountName"
        ]
    );
    assert_eq!(
        warnings(json!({"serviceAccountName": "a", "serviceAccountPermissions": [rule()]})),
        ["spec.serviceAccountPermissions is only used where spec.behaviorWhenServiceAccountInjection is Merge"]
    );
    assert_eq!(
        warnings(json!({"serviceAccountName": "a", "behaviorWhenServiceAccountInjection": "Merge"})),
        ["spec.behaviorWhenServiceAccountInjection is Merge, but spec.serviceAccountPermissions is empty: nothing of \
          \"a\" reaches a merged ServiceAccount"]
    );
}

#[rstest]
#[case::unknown_verb(
    json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["Get"]}),
    "spec.serviceAccountPermissions[0]: no API of Kubernetes asks for the verb \"Get\""
)]
#[case::twice(
    json!({"apiGroups": [""], "resources": ["pods", "pods"], "verbs": ["get"]}),
    "spec.serviceAccountPermissions[0].resources: \"pods\" is there twice"
)]
#[case::idc10_cluster_scoped(
    json!({"apiGroups": [""], "resources": ["nodes/status"], "verbs": ["get"]}),
    "spec.serviceAccountPermissions[0]: \"nodes/status\" belongs to no namespace, and the merged Role is of one: it \
     grants nothing"
)]
fn idv6_rules_that_the_server_would_take_but_nobody_wants_warn(#[case] rule: Value, #[case] warning: &str) {
    let spec = json!({
        "serviceAccountName": "log-agent", "behaviorWhenServiceAccountInjection": "Merge",
        "serviceAccountPermissions": [rule]
    });
    assert_eq!(warnings(spec), [warning]);
}

#[test]
fn idv8_values_are_stored_canonical() {
    let mut object = json!({
        "metadata": {"annotations": {"pillion.dev/service-account-mode": "ISOLATE", "other": "isolate"}},
        "spec": {"behaviorWhenServiceAccountInjection": "merge", "serviceAccountMode": "isolate", "serviceAccountName": "merge"}
    });
    canonicalise(&mut object);
    assert_eq!(
        object,
        json!({
            "metadata": {"annotations": {"pillion.dev/service-account-mode": "Isolate", "other": "isolate"}},
            "spec": {
                "behaviorWhenServiceAccountInjection": "Merge", "serviceAccountMode": "Isolate", "serviceAccountName": "merge"
            }
        })
    );
    for untouched in [json!({}), json!({"spec": {"serviceAccountMode": "Node"}, "metadata": null}), json!(1)] {
        let mut object = untouched.clone();
        canonicalise(&mut object);
        assert_eq!(object, untouched);
    }
}
