use pillion_bundle::source::{ConfigMapName, OnUnavailable};
use pillion_gardener::settings::{ManagedIssuer, Migration};
use pillion_sidecarset::names;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;

mod service_accounts;

fn set(name: &str) -> Value {
    json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "containers": [{"name": format!("{name}-agent"), "image": "agent:1"}]
        }
    })
}

fn with(mut value: Value, pointer: &str, new: Value) -> Value {
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    value.pointer_mut(parent).unwrap()[key] = new;
    value
}

fn printed(errors: &[FieldError]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

fn refused(settings: Value) -> Vec<String> {
    printed(&Settings::decode(settings).unwrap_err())
}

fn invalid(settings: Value) -> Vec<String> {
    printed(&Settings::decode(settings).unwrap().validate())
}

#[test]
fn e18_a_list_of_more_than_ten_thousand_entries_is_refused() {
    let with = |entries: usize| {
        let namespaces: Vec<String> = (0..entries).map(|index| format!("n{index}")).collect();
        json!({"serviceAccounts": {"allowed": [{"namespaces": namespaces, "names": ["a"]}]}})
    };
    assert_eq!(invalid(with(10_000)), Vec::<String>::new());
    assert_eq!(
        refused(with(10_001)),
        ["serviceAccounts.allowed[0].namespaces: Too many: may have at most 10000 entries; remove some"]
    );
}

#[rstest]
#[case::nothing(json!({}))]
#[case::null(Value::Null)]
#[case::every_key_null(json!({
    "sidecarSets": null, "controllerRevisions": null, "featureGates": null, "systemNamespace": null,
    "patchPodMetadataWhitelist": null, "bundle": null, "bundleRef": null, "serviceAccounts": null, "shoots": null,
    "role": null, "onBundleUnavailable": null, "bundleMaxAge": null
}))]
#[case::empty_form(json!({"bundle": "", "bundleRef": {"namespace": "", "name": ""}, "bundleMaxAge": "10m"}))]
#[case::defaults_spelt_out(json!({
    "sidecarSets": [], "controllerRevisions": [], "systemNamespace": "kruise-system", "role": "Inject",
    "onBundleUnavailable": "Deny", "featureGates": {"SidecarSetServiceAccountInjection": false}
}))]
#[case::nulls_inside(json!({
    "featureGates": {"EnableSortSidecarContainerByName": null},
    "serviceAccounts": {
        "allowed": null, "protectedNamespaces": null, "onMissing": null, "onConflict": null,
        "onAppServiceAccount": null, "allowPodMode": null, "strictExistence": null, "protectDefault": null,
        "protectInUse": null, "requireCreatePods": null, "denyPermissions": null, "legacyTokenSecrets": null,
        "legacyTokenExempt": null, "ephemeralContainers": null, "controllerUser": null, "rootCaPublishers": null,
        "trustedCsiDrivers": null
    },
    "shoots": {"enabled": null, "pathPrefixes": null, "migration": null, "managedIssuer": null}
}))]
fn set3_api14_what_says_nothing_decodes_to_the_defaults(#[case] settings: Value) {
    let decoded = Settings::decode(settings).unwrap();
    assert_eq!(decoded, Settings::default());
    assert_eq!(decoded.system_namespace, "kruise-system");
    assert!(decoded.validate().is_empty());
}

#[test]
fn every_field_is_decoded() {
    let whitelist = json!({"rules": [{"selector": {"matchLabels": {"a": "b"}}, "allowedAnnotationKeyExprs": ["^k$"]}]});
    let mut alpha = set("two");
    alpha["apiVersion"] = json!("apps.kruise.io/v1alpha1");
    alpha["spec"]["namespace"] = json!("prod");
    let decoded = Settings::decode(json!({
        "sidecarSets": [set("one"), alpha],
        "controllerRevisions": [{
            "apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": {"name": "one-1"}, "revision": 1
        }],
        "featureGates": {"EnableSortSidecarContainerByName": true},
        "systemNamespace": "elsewhere",
        "patchPodMetadataWhitelist": whitelist
    }))
    .unwrap();
    let names: Vec<&str> = decoded.sidecar_sets.iter().map(SidecarSet::name).collect();
    assert_eq!(names, ["one", "two"]);
    let converted = decoded.sidecar_sets[1].spec(&["namespaceSelector", "matchLabels", names::NAMESPACE_NAME_LABEL]);
    assert_eq!(converted, Some(&json!("prod")), "API-10");
    assert_eq!(decoded.controller_revisions[0].name(), "one-1");
    assert!(decoded.gates.sort_sidecar_containers_by_name);
    assert_eq!(decoded.system_namespace, "elsewhere");
    assert_eq!(decoded.patch_pod_metadata_whitelist, Some(whitelist));
    assert_eq!(decoded.validate(), []);
}

#[rstest]
#[case::no_object(json!([]), "Invalid value: must be an object, found a list")]
#[case::unknown_key(
    json!({"sidecarsets": []}),
    "sidecarsets: Unknown field: did you mean \"sidecarSets\"?"
)]
#[case::sets_no_list(json!({"sidecarSets": {}}), "sidecarSets: Invalid value: must be a list, found an object")]
#[case::set_without_kind(
    json!({"sidecarSets": [with(set("x"), "/kind", Value::Null)]}),
    "sidecarSets[0].kind: Required value: must be SidecarSet (SidecarSet \"x\")"
)]
#[case::set_of_another_version(
    json!({"sidecarSets": [with(set("x"), "/apiVersion", json!("v1"))]}),
    "sidecarSets[0].apiVersion: Unsupported value: \"v1\": supported values: \"apps.kruise.io/v1alpha1\", \
     \"apps.kruise.io/v1beta1\" (SidecarSet \"x\")"
)]
#[case::set_of_a_wrong_type(
    json!({"sidecarSets": [set("w"), with(set("x"), "/spec/containers/0/image", json!(["a"]))]}),
    "sidecarSets[1].spec.containers[0].image: Invalid value: must be a string, found a list (SidecarSet \"x\")"
)]
#[case::set_twice(
    json!({"sidecarSets": [set("x"), set("y"), set("x")]}),
    "sidecarSets[2].metadata.name: Duplicate value: \"x\": names are unique; remove one"
)]
#[case::revision_twice(
    json!({"controllerRevisions": [
        {"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": {"name": "r"}, "revision": 1},
        {"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": {"name": "r"}, "revision": 2}
    ]}),
    "controllerRevisions[1].metadata.name: Duplicate value: \"r\": names are unique; remove one"
)]
#[case::revision_of_another_kind(
    json!({"controllerRevisions": [{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "r"}}]}),
    "controllerRevisions[0].kind: Unsupported value: \"Deployment\": supported values: \"ControllerRevision\" \
     (ControllerRevision \"r\")"
)]
#[case::gates_no_object(
    json!({"featureGates": "A=true"}),
    "featureGates: Invalid value: must be an object of names and booleans, found a string"
)]
#[case::gate_unknown(
    json!({"featureGates": {"PodWebhook": true}}),
    "featureGates.PodWebhook: Unknown field: known here: SidecarSetServiceAccountInjection, \
     SidecarSetPatchPodMetadataDefaultsAllowed, EnableSortSidecarContainerByName"
)]
#[case::gate_text(
    json!({"featureGates": {"EnableSortSidecarContainerByName": "true"}}),
    "featureGates.EnableSortSidecarContainerByName: Invalid value: must be true or false, found a string"
)]
#[case::namespace_number(
    json!({"systemNamespace": 1}), "systemNamespace: Invalid value: must be a string, found a number"
)]
#[case::namespace_empty(
    json!({"systemNamespace": ""}),
    "systemNamespace: Invalid value: \"\": a lowercase RFC 1123 label must consist of lower case alphanumeric \
     characters or '-', and must start and end with an alphanumeric character"
)]
#[case::whitelist_list(
    json!({"patchPodMetadataWhitelist": []}),
    "patchPodMetadataWhitelist: Invalid value: must be an object, found a list"
)]
#[case::whitelist_text(
    json!({"patchPodMetadataWhitelist": "{\"rules\": []}"}),
    "patchPodMetadataWhitelist: Invalid value: must be an object, found a string"
)]
#[case::whitelist_unknown_key(
    json!({"patchPodMetadataWhitelist": {"rule": []}}),
    "patchPodMetadataWhitelist.rule: Unknown field: did you mean \"rules\"?"
)]
#[case::whitelist_rules(
    json!({"patchPodMetadataWhitelist": {"rules": {}}}),
    "patchPodMetadataWhitelist.rules: Invalid value: must be a list, found an object"
)]
#[case::whitelist_rule(
    json!({"patchPodMetadataWhitelist": {"rules": [{}, "^k$"]}}),
    "patchPodMetadataWhitelist.rules[1]: Invalid value: must be an object, found a string"
)]
#[case::whitelist_rule_key(
    json!({"patchPodMetadataWhitelist": {"rules": [{"allowedAnnotationKeys": []}]}}),
    "patchPodMetadataWhitelist.rules[0].allowedAnnotationKeys: Unknown field: known here: selector, allowedAnnotationKeyExprs"
)]
#[case::whitelist_expression(
    json!({"patchPodMetadataWhitelist": {"rules": [{"allowedAnnotationKeyExprs": ["a", 1]}]}}),
    "patchPodMetadataWhitelist.rules[0].allowedAnnotationKeyExprs[1]: Invalid value: must be a string, found a number"
)]
#[case::whitelist_selector(
    json!({"patchPodMetadataWhitelist": {"rules": [{"selector": "a=b"}]}}),
    "patchPodMetadataWhitelist.rules[0].selector: Invalid value: must be an object, found a string"
)]
#[case::role_unknown(
    json!({"role": "assert"}), "role: Unsupported value: \"assert\": supported values: \"Inject\", \"Assert\""
)]
#[case::service_accounts_inside(
    json!({"serviceAccounts": {"onMissing": "Ignore"}}),
    "serviceAccounts.onMissing: Unsupported value: \"Ignore\": supported values: \"Deny\", \"Skip\""
)]
#[case::bundle(
    json!({"bundle": "x"}),
    "bundle: Invalid value: is no bundle: it does not start with \"pillion-bundle-3:\"; make one with `pillion bundle`"
)]
#[case::bundle_list(
    json!({"bundle": []}), "bundle: Invalid value: must be a string, found a list"
)]
#[case::bundle_ref_text(
    json!({"bundleRef": "pillion/sets"}),
    "bundleRef: Invalid value: must be an object of namespace and name, found a string"
)]
#[case::bundle_ref_without_name(
    json!({"bundleRef": {"namespace": "pillion"}}), "bundleRef.name: Required value: must be set"
)]
#[case::bundle_ref_without_namespace(
    json!({"bundleRef": {"namespace": null, "name": "sets"}}),
    "bundleRef.namespace: Required value: must be set"
)]
#[case::bundle_ref_namespace(
    json!({"bundleRef": {"namespace": "a.b", "name": "sets"}}),
    "bundleRef.namespace: Invalid value: \"a.b\": a lowercase RFC 1123 label must consist of lower case alphanumeric \
     characters or '-', and must start and end with an alphanumeric character"
)]
#[case::bundle_ref_name(
    json!({"bundleRef": {"namespace": "a", "name": "Sets"}}),
    "bundleRef.name: Invalid value: \"Sets\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric \
     characters, '-' or '.', and must start and end with an alphanumeric character"
)]
#[case::bundle_ref_name_number(
    json!({"bundleRef": {"namespace": "a", "name": 1}}), "bundleRef.name: Invalid value: must be a string, found a number"
)]
#[case::bundle_ref_key(
    json!({"bundleRef": {"namespace": "a", "name": "b", "key": "c"}}),
    "bundleRef.key: Unknown field: known here: namespace, name"
)]
#[case::bundle_policy(
    json!({"onBundleUnavailable": "Ignore"}),
    "onBundleUnavailable: Unsupported value: \"Ignore\": supported values: \"Deny\", \"UseSettings\""
)]
#[case::bundle_age_number(
    json!({"bundleMaxAge": 600}), "bundleMaxAge: Invalid value: must be a string, found a number"
)]
#[case::bundle_age_unit(
    json!({"bundleMaxAge": "1d"}),
    "bundleMaxAge: Invalid value: time: unknown unit \"d\" in duration \"1d\"; write it as in \"10m\""
)]
#[case::bundle_age_nothing(
    json!({"bundleMaxAge": "0s"}), "bundleMaxAge: Invalid value: \"0s\": must be longer than nothing, as in \"10m\""
)]
#[case::bundle_age_negative(
    json!({"bundleMaxAge": "-10m"}), "bundleMaxAge: Invalid value: \"-10m\": must be longer than nothing, as in \"10m\""
)]
fn what_cannot_be_decoded_is_refused_with_its_path(#[case] settings: Value, #[case] error: &str) {
    assert_eq!(refused(settings), [error]);
}

#[test]
fn where_bundles_are_kept_is_decoded() {
    let source = |settings| Settings::decode(settings).unwrap().bundle_source;
    let decoded = source(json!({
        "bundleRef": {"namespace": "pillion-system", "name": "sets.v1"}, "onBundleUnavailable": "UseSettings",
        "bundleMaxAge": "90s"
    }));
    let config_map = ConfigMapName { namespace: "pillion-system".to_owned(), name: "sets.v1".to_owned() };
    assert_eq!(decoded.config_map, Some(config_map));
    assert_eq!((decoded.on_unavailable, decoded.max_age.text().as_str()), (OnUnavailable::UseSettings, "1m30s"));
    let alone = source(json!({"bundleMaxAge": "1h", "onBundleUnavailable": "Deny"}));
    assert_eq!((alone.config_map, alone.max_age.text().as_str()), (None, "1h0m0s"));
}

#[test]
fn shoots_are_decoded() {
    let decoded = |shoots| Settings::decode(json!({ "shoots": shoots })).unwrap().shoots;
    let default = ShootSettings::default();
    assert_eq!(decoded(json!({})), default);
    assert!(!default.enabled);
    assert_eq!(
        default.paths,
        [
            "spec.kubernetes.kubeAPIServer.serviceAccountConfig",
            "spec.virtualCluster.kubernetes.kubeAPIServer.serviceAccountConfig",
            "spec.shootTemplate.spec.kubernetes.kubeAPIServer.serviceAccountConfig",
        ]
    );
    let spelt_out = json!({"enabled": false, "pathPrefixes": [], "migration": "Warn", "managedIssuer": "Supported"});
    assert_eq!(decoded(spelt_out), default);
    let nulls = json!({"enabled": null, "pathPrefixes": null, "migration": null, "managedIssuer": null});
    assert_eq!(decoded(nulls), default);
    let all = json!({
        "enabled": true, "pathPrefixes": ["a.b", "c.serviceAccountConfig", "d"], "migration": "Deny",
        "managedIssuer": "Unsupported"
    });
    let expected = ShootSettings {
        enabled: true,
        paths: ["a.b.serviceAccountConfig", "c.serviceAccountConfig", "d.serviceAccountConfig"]
            .map(str::to_owned)
            .into(),
        migration: Migration::Deny,
        managed_issuer: ManagedIssuer::Unsupported,
    };
    assert_eq!(decoded(all), expected);
}

#[rstest]
#[case::list(json!([1]), "shoots: Invalid value: must be an object, found a list")]
#[case::key(json!({"Enabled": true}), "shoots.Enabled: Unknown field: did you mean \"enabled\"?")]
#[case::flag(json!({"enabled": "yes"}), "shoots.enabled: Invalid value: must be true or false, found a string")]
#[case::issuer(json!({"managedIssuer": true}), "shoots.managedIssuer: Invalid value: must be a string, found a boolean")]
#[case::migration(
    json!({"migration": "deny"}),
    "shoots.migration: Unsupported value: \"deny\": supported values: \"Deny\", \"Warn\""
)]
#[case::kind(json!({"pathPrefixes": ["a.b", "Shoot.spec"]}), "shoots.pathPrefixes[1]: Invalid value: \"Shoot.spec\": PATH")]
#[case::step(json!({"pathPrefixes": ["a..b"]}), "shoots.pathPrefixes[0]: Invalid value: \"a..b\": PATH")]
#[case::nothing(json!({"pathPrefixes": [""]}), "shoots.pathPrefixes[0]: Invalid value: \"\": PATH")]
#[case::root(json!({"pathPrefixes": ["$.spec"]}), "shoots.pathPrefixes[0]: Invalid value: \"$.spec\": PATH")]
#[case::number(json!({"pathPrefixes": [1]}), "shoots.pathPrefixes[0]: Invalid value: must be a string, found a number")]
#[case::twice(
    json!({"pathPrefixes": ["a.b", "a.b.serviceAccountConfig"]}),
    "shoots.pathPrefixes: Invalid value: \"a.b.serviceAccountConfig\": is in the list twice; remove one"
)]
fn rules_for_shoots_that_cannot_be_decoded_are_refused(#[case] shoots: Value, #[case] error: &str) {
    let path = "must be a dotted path from the object's root, as in spec.kubernetes.kubeAPIServer";
    assert_eq!(refused(json!({ "shoots": shoots })), [error.replace("PATH", path)]);
}

#[test]
fn all_errors_come_at_once() {
    let errors = refused(json!({
        "colour": "red",
        "featureGates": {"Nope": true},
        "sidecarSets": [with(set("a"), "/spec/selector", json!(1)), with(set("a"), "/spec/volumes", json!("v"))],
        "systemNamespace": "Not A Label"
    }));
    let paths: Vec<&str> = errors.iter().filter_map(|error| error.split(": ").next()).collect();
    let expected = [
        "colour",
        "featureGates.Nope",
        "systemNamespace",
        "sidecarSets[0].spec.selector",
        "sidecarSets[1].spec.volumes",
        "sidecarSets[1].metadata.name",
    ];
    assert_eq!(paths, expected, "{errors:#?}");
}

#[test]
fn manifests_may_hold_fields_that_nobody_knows() {
    let manifest = with(set("x"), "/spec/containers/0/fieldOfTomorrow", json!({"a": [1]}));
    assert!(Settings::decode(json!({"sidecarSets": [manifest]})).is_ok());
}

#[test]
fn deeply_nested_settings_are_refused_or_read_but_never_overflow() {
    let mut deep = json!(1);
    for _ in 0..120 {
        deep = json!({ "a": deep });
    }
    for manifest in
        [with(set("x"), "/spec/selector", deep.clone()), with(set("x"), "/spec/containers/0/x", deep.clone())]
    {
        if let Ok(decoded) = Settings::decode(json!({"sidecarSets": [manifest]})) {
            let _ = decoded.validate();
        }
    }
    assert!(Settings::decode(json!({"patchPodMetadataWhitelist": {"rules": [deep]}})).is_err());
}

#[test]
fn val8_validation_names_the_set_and_the_path() {
    let errors = invalid(json!({"sidecarSets": [
        set("fine"),
        with(set("bad"), "/spec/containers/0/image", json!("")),
        with(set("worse"), "/spec/selector", json!({}))
    ]}));
    assert_eq!(errors.len(), 2, "{errors:#?}");
    assert!(errors[0].starts_with("sidecarSets[1].spec.containers[0].image: Required value"), "{}", errors[0]);
    assert!(errors[0].ends_with("(SidecarSet \"bad\")") || errors[0].ends_with("SidecarSet \"bad\""), "{}", errors[0]);
    assert!(errors[1].starts_with("sidecarSets[2].spec.selector: "), "{}", errors[1]);
}

#[test]
fn val52_conflicts_are_reported_once_at_the_later_set() {
    let rival = with(
        with(set("b"), "/spec/selector", json!({"matchLabels": {"app": "a"}})),
        "/spec/containers/0/name",
        json!("a-agent"),
    );
    let errors = invalid(json!({"sidecarSets": [set("a"), rival]}));
    assert_eq!(errors.len(), 1, "{errors:#?}");
    assert!(errors[0].starts_with("sidecarSets[1].spec.containers[0].name: "), "{}", errors[0]);
    assert!(errors[0].contains("SidecarSet \"a\""), "{}", errors[0]);
}

/// Pods of both would be refused (DIFF-4).
#[test]
fn val52_an_init_container_conflicts_with_a_container_of_another_set() {
    let rival = with(
        with(set("b"), "/spec/selector", json!({"matchLabels": {"app": "a"}})),
        "/spec/initContainers",
        json!([{"name": "a-agent", "image": "init:1"}]),
    );
    let both = [set("a"), rival].map(|set| with(set, "/metadata/uid", json!("stored")));
    let errors = invalid(json!({ "sidecarSets": both }));
    assert_eq!(errors.len(), 1, "{errors:#?}");
    assert!(errors[0].starts_with("sidecarSets[1].spec.initContainers[0].name: "), "{}", errors[0]);
    assert!(errors[0].contains("SidecarSet \"a\" has a container of this name for the same Pods"), "{}", errors[0]);
    // A preview carries those that a cluster has stored.
    let stored = both.map(|set| with(set, "/origin", json!("Cluster")));
    assert_eq!(invalid(json!({ "sidecarSets": stored })), [] as [&str; 0]);
}

/// The API server clears the field before admission.
#[test]
fn a_namespace_in_the_metadata_of_a_set_has_no_effect() {
    let settings = json!({"sidecarSets": [with(set("a"), "/metadata/namespace", json!("shop"))]});
    assert_eq!(invalid(settings.clone()), [] as [&str; 0]);
    let decoded = Settings::decode(settings).unwrap();
    assert_eq!(decoded.sidecar_sets[0].as_value()["metadata"].get("namespace"), None);
}

#[test]
fn val1_conflicts_wait_until_nothing_else_is_wrong() {
    let rival = with(
        with(set("b"), "/spec/selector", json!({"matchLabels": {"app": "a"}})),
        "/spec/containers/0/name",
        json!("a-agent"),
    );
    let errors = invalid(json!({"sidecarSets": [set("a"), with(rival, "/spec/containers/0/image", json!(""))]}));
    assert_eq!(errors.len(), 1, "{errors:#?}");
    assert!(errors[0].contains("containers[0].image"), "{}", errors[0]);
}

#[test]
fn diff29_val3_a_canary_without_its_base_is_refused() {
    let canary = with(
        with(set("c"), "/metadata/annotations", json!({names::CANARY: "true", names::BASE: "gone"})),
        "/spec/updateStrategy",
        json!({"type": "NotUpdate"}),
    );
    let errors = invalid(json!({"sidecarSets": [canary.clone()]}));
    assert_eq!(errors.len(), 1, "{errors:#?}");
    assert!(errors[0].contains("gone"), "{}", errors[0]);
    assert!(invalid(json!({"sidecarSets": [canary, set("gone")]})).is_empty());
}

#[test]
fn val20_the_whitelist_is_validated() {
    let errors = invalid(json!({"patchPodMetadataWhitelist": {"rules": [
        {"allowedAnnotationKeyExprs": ["^fine$", "("]},
        {"selector": {"matchExpressions": [{"key": "a", "operator": "Is"}]}}
    ]}}));
    let paths: Vec<&str> = errors.iter().filter_map(|error| error.split(": ").next()).collect();
    let expected = [
        "patchPodMetadataWhitelist.rules[0].allowedAnnotationKeyExprs[1]",
        "patchPodMetadataWhitelist.rules[1].selector.matchExpressions[0].operator",
    ];
    assert_eq!(paths, expected, "{errors:#?}");
}

/// Returns sets with the maximum number of containers each.
fn crowded(count: usize) -> Value {
    let sets: Vec<Value> = (0..count)
        .map(|index| with(set(&format!("s{index}")), "/spec/containers", vec![json!({}); 1_000].into()))
        .collect();
    json!({ "sidecarSets": sets })
}

#[test]
fn e18_short_containers_of_many_sets_are_refused() {
    assert!(Settings::decode(crowded(1)).is_ok());
    assert_eq!(
        refused(crowded(2)),
        [
            "sidecarSets: Too many: too many short containers and volumes: beyond a thousand containers, each needs 448 bytes of SidecarSets and each volume 80"
        ]
    );
}

#[rstest]
#[case::that_repeat(&["a{1000}", "[ab]{1000}", "(c|d){1000}"], 30)]
#[case::that_are_many(&["^example[.]com/name$"], 4_000)]
fn e18_expressions_of_a_whitelist_have_a_limit_together(#[case] expressions: &[&str], #[case] times: usize) {
    let of = |rules: usize| {
        let rule = json!({"allowedAnnotationKeyExprs": expressions});
        invalid(json!({"patchPodMetadataWhitelist": {"rules": vec![rule; rules]}}))
    };
    assert_eq!(of(times / 10), [""; 0]);
    let wrong = of(times).join("\n");
    let (_, wrong) = wrong.split_once("]: ").unwrap();
    assert!(
        wrong.ends_with(
            "Too many: too many or too long expressions: all of them together may have 65,536 steps; a character is a step, and {n} repeats"
        ),
        "{wrong}"
    );
}

#[test]
fn e18_errors_of_many_sets_are_counted_once_they_are_enough() {
    let none = |key: &str| refused(json!({key: vec![json!({}); 16_000]})).len();
    assert!((1_000..1_010).contains(&none("sidecarSets")));
    assert!((1_000..1_010).contains(&none("controllerRevisions")));
    assert_eq!(refused(json!({"serviceAccounts": {"allowed": vec![json!({}); 16_000]}})).len(), 1);
}
