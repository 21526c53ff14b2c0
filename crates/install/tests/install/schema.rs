//! The schema of the settings agrees with the decoder, and the documentation agrees with the schema.

use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use jsonschema::Validator;
use pillion_admission::settings::Settings;
use pillion_install::schema::{self, markdown, members};
use pillion_kubernetes::field::{Cause, FieldError};
use pillion_kubernetes::rbac::Atom;
use pillion_samples::repository::root as workspace;
use pillion_samples::strategies::{damaged, naming_sidecar_sets};
use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

static OF_SETTINGS: LazyLock<Validator> = LazyLock::new(|| validator(&schema::of_settings()));

fn validator(schema: &Value) -> Validator {
    jsonschema::draft202012::new(schema).unwrap_or_else(|error| panic!("{error}"))
}

/// Returns the schema's errors.
fn problems(settings: &Value) -> Vec<String> {
    OF_SETTINGS.iter_errors(settings).map(|error| format!("{}: {error}", error.instance_path())).collect()
}

fn set(spec: &Value) -> Value {
    json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": "a"}, "spec": spec})
}

fn settings_with(spec: &Value) -> Value {
    json!({ "sidecarSets": [set(spec)] })
}

/// Returns the spec of a SidecarSet with this entry of `serviceAccountTokens`.
fn with_token(token: &Value) -> Value {
    json!({"serviceAccountName": "a", "serviceAccountTokens": [token]})
}

fn many_tokens(count: usize) -> Vec<Value> {
    let token = |index| json!({"audience": format!("vault-{index}"), "path": format!("t{index}")});
    (0..count).map(token).collect()
}

#[test]
fn both_schemas_are_schemas() {
    for schema in [schema::of_settings(), schema::of_sidecar_set()] {
        assert!(jsonschema::meta::is_valid(&schema));
    }
}

#[test]
fn settings_of_the_test_data_are_valid_where_they_can_be_decoded() {
    let mut seen = 0;
    for entry in fs::read_dir(workspace().join("test_data")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if !name.starts_with("settings-") {
            continue;
        }
        let settings: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        assert_eq!(problems(&settings).is_empty(), Settings::decode(settings).is_ok(), "{name}");
        seen += 1;
    }
    assert!(seen >= 5, "{seen}");
}

#[rstest]
#[case::nothing(json!({}))]
#[case::null(json!(null))]
#[case::nulls(json!({"sidecarSets": null, "featureGates": null, "systemNamespace": null, "shoots": null}))]
#[case::bundle_ref(json!({"bundleRef": {"namespace": "a", "name": "b.c"}, "onBundleUnavailable": "UseSettings", "bundleMaxAge": "1h30m"}))]
#[case::bundle_ref_of_an_empty_form(json!({"bundleRef": {"namespace": "", "name": ""}, "onBundleUnavailable": "Deny", "bundleMaxAge": "1.5h"}))]
#[case::bundle_ref_of_nothing(json!({"bundleRef": null, "onBundleUnavailable": null, "bundleMaxAge": null}))]
#[case::gates(json!({"featureGates": {"EnableSortSidecarContainerByName": true, "SidecarSetServiceAccountInjection": false}}))]
#[case::unknown_fields_of_manifests(settings_with(&json!({"containers": [{"name": "a", "fieldOfTomorrow": [1]}], "x": null})))]
#[case::nulls_in_manifests(settings_with(&json!({"containers": [null, {"env": null}], "volumes": null, "selector": null})))]
#[case::defaults_stand_in_for_empty_texts(settings_with(&json!({"containers": [{"podInjectPolicy": "", "imagePullPolicy": null}]})))]
#[case::quantities(settings_with(&json!({"containers": [{"resources": {"limits": {"cpu": 1, "memory": "1.5Gi", "x": ".5e3"}}}]})))]
#[case::int_or_string(settings_with(&json!({"updateStrategy": {"partition": "10%", "maxUnavailable": 1}})))]
#[case::v1alpha1(json!({"sidecarSets": [{"apiVersion": "apps.kruise.io/v1alpha1", "kind": "SidecarSet", "spec": {"namespace": "a", "customVersion": 5}}]}))]
#[case::revision(json!({"controllerRevisions": [{"apiVersion": "apps/v1", "kind": "ControllerRevision", "data": 5, "revision": 1}]}))]
#[case::whitelist(json!({"patchPodMetadataWhitelist": {"rules": [{"selector": {"matchLabels": {"a": "b"}}, "allowedAnnotationKeyExprs": ["^a"]}]}}))]
#[case::roles(json!({"role": "Assert"}))]
#[case::service_accounts_of_nothing(json!({"serviceAccounts": {"allowed": null, "onMissing": null, "allowPodMode": null, "denyPermissions": []}}))]
#[case::service_accounts(json!({"serviceAccounts": {
    "allowed": [{"namespaces": ["team-*"], "names": ["a", "b?"]}], "protectedNamespaces": [], "onAppServiceAccount": "Isolate",
    "denyPermissions": [{"apiGroups": ["*"], "resources": ["nodes"], "verbs": ["*"], "nonResourceURLs": ["/metrics"], "resourceNames": null}], "legacyTokenExempt": ["ci/*"], "controllerUser": "me",
    "trustedCsiDrivers": ["a.example"]
}}))]
#[case::identities(json!({"featureGates": {"SidecarSetServiceAccountInjection": true}, "sidecarSets": [set(&json!({
    "serviceAccountName": "a", "serviceAccountMode": "isolate", "behaviorWhenServiceAccountInjection": "MERGE",
    "serviceAccountPermissions": [{"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"], "resourceNames": null}],
    "serviceAccountTokens": [
        {"audience": "sts.amazonaws.com", "path": "aws-token", "expirationSeconds": 86_400},
        {"audience": "//iam.googleapis.com/projects/1/x", "path": ".vault_token.1", "expirationSeconds": null}
    ]
}))]}))]
#[case::identities_of_nothing(json!({"sidecarSets": [set(&json!({
    "serviceAccountName": null, "serviceAccountMode": "", "behaviorWhenServiceAccountInjection": null, "serviceAccountPermissions": null,
    "serviceAccountTokens": null
}))]}))]
#[case::audiences(json!({"serviceAccounts": {
    "allowedAudiences": ["vault", "//iam.googleapis.com/*"], "apiServerAudiences": [], "maxTokenExpirationSeconds": 7200
}}))]
#[case::audiences_of_nothing(json!({"serviceAccounts": {"allowedAudiences": null, "maxTokenExpirationSeconds": null}}))]
#[case::shoots(json!({"shoots": {"enabled": true, "migration": "Deny", "managedIssuer": null, "pathPrefixes": ["spec.kubernetes.kubeAPIServer", "a"]}}))]
fn what_can_be_decoded_is_valid(#[case] settings: Value) {
    Settings::decode(settings.clone()).unwrap();
    assert_eq!(problems(&settings), Vec::<String>::new());
}

#[rstest]
#[case::not_an_object(json!([]))]
#[case::unknown_key(json!({"sidecarsets": []}))]
#[case::no_bundle(json!({"bundle": "x"}))]
#[case::bundle_ref_without_a_name(json!({"bundleRef": {"namespace": "a"}}))]
#[case::bundle_ref_of_nowhere(json!({"bundleRef": {"namespace": "", "name": "b"}}))]
#[case::bundle_ref_with_another_key(json!({"bundleRef": {"namespace": "a", "name": "b", "key": "c"}}))]
#[case::another_answer_to_no_bundle(json!({"onBundleUnavailable": "Ignore"}))]
#[case::an_age_in_days(json!({"bundleMaxAge": "1d"}))]
#[case::an_age_as_a_number(json!({"bundleMaxAge": 600}))]
#[case::service_accounts_as_a_list(json!({"serviceAccounts": []}))]
#[case::unknown_key_of_service_accounts(json!({"serviceAccounts": {"onmissing": "Skip"}}))]
#[case::another_choice(json!({"serviceAccounts": {"onMissing": "skip"}}))]
#[case::a_flag_in_quotes(json!({"serviceAccounts": {"allowPodMode": "true"}}))]
#[case::allowed_everywhere_by_mistake(json!({"serviceAccounts": {"allowed": [{"names": ["a"]}]}}))]
#[case::allowed_nothing(json!({"serviceAccounts": {"allowed": [{"names": ["a"], "namespaces": []}]}}))]
#[case::allowed_by_name_only(json!({"serviceAccounts": {"allowed": ["a"]}}))]
#[case::audiences_as_a_text(json!({"serviceAccounts": {"allowedAudiences": "vault"}}))]
#[case::a_lifetime_as_a_text(json!({"serviceAccounts": {"maxTokenExpirationSeconds": "2h"}}))]
#[case::a_lifetime_below_nothing(json!({"serviceAccounts": {"maxTokenExpirationSeconds": -1}}))]
#[case::an_empty_namespace(json!({"serviceAccounts": {"protectedNamespaces": [""]}}))]
#[case::a_driver_without_a_name(json!({"serviceAccounts": {"trustedCsiDrivers": [""]}}))]
#[case::no_user(json!({"serviceAccounts": {"controllerUser": ""}}))]
#[case::verbs_as_a_text(json!({"serviceAccounts": {"denyPermissions": [{"verbs": "get"}]}}))]
#[case::a_rule_that_denies_nothing(json!({"serviceAccounts": {"denyPermissions": [{"apiGroups": [""], "resources": [], "verbs": ["*"]}]}}))]
#[case::an_empty_rule(json!({"serviceAccounts": {"denyPermissions": [{}]}}))]
#[case::no_field_of_a_rule(json!({"serviceAccounts": {"denyPermissions": [{"resource": ["pods"]}]}}))]
#[case::shoots_in_quotes(json!({"shoots": {"enabled": "true"}}))]
#[case::another_migration(json!({"shoots": {"migration": "deny"}}))]
#[case::unknown_key_of_shoots(json!({"shoots": {"managed": true}}))]
#[case::no_path(json!({"shoots": {"pathPrefixes": ["Shoot.spec"]}}))]
#[case::an_empty_step(json!({"shoots": {"pathPrefixes": ["spec..kubernetes"]}}))]
#[case::another_role(json!({"role": "assert"}))]
#[case::not_a_list(json!({"sidecarSets": {}}))]
#[case::an_item_that_is_null(json!({"sidecarSets": [null]}))]
#[case::another_kind(json!({"sidecarSets": [{"apiVersion": "apps.kruise.io/v1beta1", "kind": "Pod"}]}))]
#[case::another_version(json!({"sidecarSets": [{"apiVersion": "apps.kruise.io/v1", "kind": "SidecarSet"}]}))]
#[case::no_version(json!({"sidecarSets": [{"kind": "SidecarSet"}]}))]
#[case::a_number_for_a_text(settings_with(&json!({"containers": [{"name": "a", "env": [{"name": "A", "value": 5}]}]})))]
#[case::a_text_for_a_number(settings_with(&json!({"revisionHistoryLimit": "10"})))]
#[case::too_large(settings_with(&json!({"revisionHistoryLimit": 2_147_483_648_u64})))]
#[case::no_quantity(settings_with(&json!({"containers": [{"resources": {"limits": {"cpu": "1 core"}}}]})))]
#[case::v1alpha1_field(json!({"sidecarSets": [{"apiVersion": "apps.kruise.io/v1alpha1", "kind": "SidecarSet", "spec": {"namespace": 5}}]}))]
#[case::unknown_gate(json!({"featureGates": {"PodWebhook": true}}))]
#[case::gate_in_quotes(json!({"featureGates": {"EnableSortSidecarContainerByName": "true"}}))]
#[case::no_label(json!({"systemNamespace": "Kruise_System"}))]
#[case::unknown_key_of_the_whitelist(json!({"patchPodMetadataWhitelist": {"rule": []}}))]
#[case::revision_of_another_kind(json!({"controllerRevisions": [{"apiVersion": "v1", "kind": "ControllerRevision"}]}))]
fn what_cannot_be_decoded_is_not_valid(#[case] settings: Value) {
    Settings::decode(settings.clone()).unwrap_err();
    assert_ne!(problems(&settings), Vec::<String>::new());
}

#[rstest]
#[case::place(json!({"containers": [{"name": "a", "image": "a", "podInjectPolicy": "Before"}]}))]
#[case::share(json!({"containers": [{"name": "a", "image": "a", "shareVolumePolicy": {"type": "yes"}}]}))]
#[case::pull(json!({"containers": [{"name": "a", "image": "a", "imagePullPolicy": "Sometimes"}]}))]
#[case::update(json!({"updateStrategy": {"type": "OnDelete"}}))]
#[case::mode(json!({"containers": [{"name": "a", "image": "a", "resourcesPolicy": {"targetContainersMode": "min"}}]}))]
#[case::policy(json!({"injectionStrategy": {"revision": {"revisionName": "r", "policy": "Never"}}}))]
#[case::idv8_another_mode(json!({"serviceAccountName": "a", "serviceAccountMode": "SidecarOnly"}))]
#[case::idv8_another_behavior(json!({"serviceAccountName": "a", "behaviorWhenServiceAccountInjection": "Replace"}))]
#[case::idf1_no_text(json!({"serviceAccountName": 5}))]
#[case::idv6_no_verbs(json!({"serviceAccountName": "a", "serviceAccountPermissions": [{"apiGroups": [""], "resources": ["pods"], "verbs": []}]}))]
#[case::idv6_urls(json!({"serviceAccountName": "a", "serviceAccountPermissions": [
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"], "nonResourceURLs": ["/metrics"]}
]}))]
#[case::idv6_an_empty_name(json!({"serviceAccountName": "a", "serviceAccountPermissions": [
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"], "resourceNames": [""]}
]}))]
#[case::aud2_no_audience(with_token(&json!({"path": "t"})))]
#[case::aud2_an_empty_audience(with_token(&json!({"audience": "", "path": "t"})))]
#[case::aud2_a_space_in_an_audience(with_token(&json!({"audience": "a vault", "path": "t"})))]
#[case::aud2_a_long_audience(with_token(&json!({"audience": "v".repeat(513), "path": "t"})))]
#[case::aud2_no_path(with_token(&json!({"audience": "vault"})))]
#[case::aud2_a_folder(with_token(&json!({"audience": "vault", "path": "a/t"})))]
#[case::aud2_out_of_the_folder(with_token(&json!({"audience": "vault", "path": ".."})))]
#[case::aud2_two_dots(with_token(&json!({"audience": "vault", "path": "..data"})))]
#[case::aud2_one_dot(with_token(&json!({"audience": "vault", "path": "."})))]
#[case::aud2_the_token(with_token(&json!({"audience": "vault", "path": "token"})))]
#[case::aud2_the_authority(with_token(&json!({"audience": "vault", "path": "ca.crt"})))]
#[case::aud2_the_namespace(with_token(&json!({"audience": "vault", "path": "namespace"})))]
#[case::aud2_a_long_path(with_token(&json!({"audience": "vault", "path": "t".repeat(254)})))]
#[case::aud2_nine_minutes(with_token(&json!({"audience": "vault", "path": "t", "expirationSeconds": 599})))]
#[case::aud2_longer_than_the_api_server_accepts(
    with_token(&json!({"audience": "vault", "path": "t", "expirationSeconds": (1_u64 << 32) + 1}))
)]
#[case::aud2_unknown_field(with_token(&json!({"audience": "vault", "path": "t", "expirationSecond": 600})))]
#[case::aud2_no_list(json!({"serviceAccountName": "a", "serviceAccountTokens": {"audience": "vault", "path": "t"}}))]
#[case::aud2_seventeen_tokens(json!({"serviceAccountName": "a", "serviceAccountTokens": many_tokens(17)}))]
fn values_that_validation_refuses_are_not_valid(#[case] spec: Value) {
    let mut settings = settings_with(&spec);
    settings["featureGates"] = json!({"SidecarSetServiceAccountInjection": true});
    assert!(!Settings::decode(settings.clone()).unwrap().validate().is_empty());
    assert_ne!(problems(&settings), Vec::<String>::new());
}

/// Whether a schema can express this error. It cannot express that a number has no fraction, that a day exists, that
/// names are unique, or that nesting is too deep.
fn is_shape(error: &FieldError) -> bool {
    let path = error.path.as_str();
    let is_of_manifest = ["kind", "apiVersion"].iter().any(|key| path.ends_with(&format!("].{key}")));
    let is_of_settings = path == "role" || path.starts_with("serviceAccounts.");
    match error.cause {
        Cause::Unknown | Cause::Forbidden => true,
        Cause::Type => error.value.is_none(),
        Cause::Required | Cause::NotSupported => is_of_manifest || is_of_settings,
        _ => false,
    }
}

fn any_settings() -> impl Strategy<Value = Value> {
    let sound = naming_sidecar_sets().prop_map(|sets| {
        json!({
            "sidecarSets": sets, "role": "Inject",
            "featureGates": {"EnableSortSidecarContainerByName": true, "SidecarSetServiceAccountInjection": true},
            "serviceAccounts": {
                "allowed": [{"namespaces": ["*"], "names": ["*"]}], "onMissing": "Skip", "strictExistence": true,
                "denyPermissions": [{"verbs": ["escalate"]}], "controllerUser": "me",
            },
            "patchPodMetadataWhitelist": {"rules": [{"allowedAnnotationKeyExprs": ["a"]}]},
        })
    });
    prop_oneof![sound.clone(), damaged(sound)]
}

/// Removes members of objects that are `null`.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(object) => {
            let members = object.iter().filter(|(_, value)| !value.is_null());
            members.map(|(key, value)| (key.clone(), without_nulls(value))).collect()
        }
        Value::Array(items) => items.iter().map(without_nulls).collect(),
        scalar => scalar.clone(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn valid_settings_are_those_that_the_policy_takes(settings in any_settings()) {
        match Settings::decode(settings.clone()) {
            // Without the gate, the policy ignores the ServiceAccount fields of SidecarSets. The schema always checks
            // them.
            Ok(decoded) if decoded.gates.service_account_injection && decoded.validate().is_empty() => {
                prop_assert_eq!(problems(&without_nulls(&settings)), Vec::<String>::new());
                // The policy treats `null` as absent. An editor still reports an unknown key.
                let more: Vec<String> = problems(&settings);
                prop_assert!(more.iter().all(|problem| problem.contains("Additional properties")), "{:?}", more);
            }
            Ok(_) => {}
            Err(errors) => {
                let shapes: Vec<String> = errors.iter().filter(|error| is_shape(error)).map(ToString::to_string).collect();
                prop_assert!(shapes.is_empty() || !OF_SETTINGS.is_valid(&settings), "{:?}", shapes);
            }
        }
    }
}

/// Each default in the schema decodes to the policy's own default.
#[test]
fn defaults_of_the_schema_are_those_of_the_policy() {
    // ESC-4 as rules yields the same permissions in another order.
    let sorted = |mut settings: Settings| {
        let mut denied = settings.service_accounts.denied().into_owned();
        denied.sort();
        settings.service_accounts.deny_permissions = Some(denied);
        settings
    };
    let mut seen = 0;
    for setting in ["", "featureGates", "serviceAccounts", "shoots"] {
        for (name, schema) in members(setting).filter(|(_, schema)| schema.get("default").is_some()) {
            let member = json!({name: schema["default"]});
            let settings = if setting.is_empty() { member } else { json!({ setting: member }) };
            let decoded = Settings::decode(settings.clone()).unwrap_or_else(|errors| panic!("{errors:?}: {settings}"));
            assert_eq!(sorted(decoded), sorted(Settings::default()), "{settings}");
            seen += 1;
        }
    }
    assert_eq!(seen, 13 + 3 + 24 + 4);
}

/// The policy accepts every choice that the schema names, and no other spelling.
#[test]
fn choices_of_the_schema_are_those_of_the_policy() {
    let mut seen = 0;
    for setting in ["", "serviceAccounts", "shoots"] {
        for (name, schema) in members(setting) {
            let with = |choice: &str| {
                let member = json!({name: choice});
                Settings::decode(if setting.is_empty() { member } else { json!({ setting: member }) })
            };
            for choice in markdown::choices(schema) {
                assert!(with(choice).is_ok(), "{setting} {name} {choice}");
                assert!(with(&choice.to_lowercase()).is_err(), "{setting} {name} {choice}");
                seen += 1;
            }
        }
    }
    assert_eq!(seen, 7 + 14 + 4);
}

#[test]
fn examples_of_settings_are_valid() {
    let examples: Vec<(&str, &Value)> =
        members("").filter_map(|(name, schema)| Some((name, schema.get("examples")?.get(0)?))).collect();
    assert!(examples.len() >= 9, "{examples:?}");
    for (name, example) in examples {
        let settings = json!({name: example});
        assert_eq!(Settings::decode(settings.clone()).unwrap().validate(), [], "{name}");
        assert_eq!(problems(&settings), Vec::<String>::new(), "{name}");
    }
}

/// Returns the content of the YAML blocks.
fn blocks(document: &str) -> impl Iterator<Item = &str> {
    document.split("```yaml\n").skip(1).filter_map(|rest| rest.split_once("```").map(|(block, _)| block))
}

#[test]
fn settings_that_the_documentation_shows_are_valid() {
    let document = fs::read_to_string(workspace().join("docs/settings.md")).unwrap();
    let mut seen = 0;
    for block in blocks(&document) {
        let settings: Value = serde_saphyr::from_str(block).unwrap_or_else(|error| panic!("{error}: {block}"));
        let decoded = Settings::decode(settings.clone()).unwrap_or_else(|errors| panic!("{errors:?}: {block}"));
        assert_eq!(decoded.validate(), [], "{block}");
        assert_eq!(problems(&settings), Vec::<String>::new(), "{block}");
        seen += 1;
    }
    assert!(seen >= 9, "{seen}");
}

/// The list in the documentation is the default.
#[test]
fn esc4_the_documentation_shows_what_nobody_may_grant() {
    let shown = markdown::deny_permissions();
    let settings: Value = serde_saphyr::from_str(blocks(&shown).next().unwrap()).unwrap();
    let sorted = |mut atoms: Vec<Atom>| {
        atoms.sort();
        atoms
    };
    let decoded = Settings::decode(settings).unwrap().service_accounts.denied().into_owned();
    assert_eq!(sorted(decoded), sorted(Settings::default().service_accounts.denied().into_owned()));
}

/// Each link in the table leads to a heading below it.
#[test]
fn the_reference_has_every_heading_that_it_links_to() {
    let reference = markdown::reference();
    let headings: Vec<String> = reference
        .lines()
        .filter(|line| line.starts_with('#'))
        .map(|line| line.trim_start_matches(['#', ' ']).to_lowercase().replace(' ', "-"))
        .collect();
    let links: Vec<&str> = reference.split("](#").skip(1).map(|rest| rest.split_once(')').unwrap().0).collect();
    assert!(links.len() > members("").count());
    for link in links {
        assert!(headings.iter().any(|heading| heading == link), "{link}");
    }
}

#[test]
fn a_sidecar_set_is_checked_in_its_own_version() {
    let validator = validator(&schema::of_sidecar_set());
    assert!(validator.is_valid(&set(&json!({"customVersion": "v1", "namespace": 5}))));
    assert!(!validator.is_valid(&set(&json!({"customVersion": 1}))));
    assert!(!validator.is_valid(&json!(null)));
}

/// The variable that makes the test rewrite the generated parts of docs/settings.md.
const RENEW: &str = "PILLION_RENEW";

#[test]
fn the_documentation_is_what_the_schema_says() {
    let path: PathBuf = workspace().join("docs/settings.md");
    let written = fs::read_to_string(&path).unwrap();
    let mut current = written.clone();
    let parts = [
        ("settings", markdown::settings()),
        ("gates", markdown::gates()),
        ("service-accounts", markdown::service_accounts()),
        ("deny-permissions", markdown::deny_permissions()),
        ("annotations", markdown::annotations()),
        ("sidecar-set", markdown::sidecar_set()),
    ];
    let examples = members("").filter_map(|(name, _)| Some((name, markdown::example(name)?)));
    for (name, text) in parts.into_iter().chain(examples) {
        let (start, end) = (format!("<!-- {name} -->\n"), format!("<!-- end of {name} -->"));
        let (before, rest) = current.split_once(&start).unwrap_or_else(|| panic!("docs/settings.md has no {start}"));
        let (_, after) = rest.split_once(&end).unwrap_or_else(|| panic!("docs/settings.md has no {end}"));
        current = format!("{before}{start}\n{text}\n{end}{after}");
    }
    if std::env::var_os(RENEW).is_some() {
        fs::write(&path, &current).unwrap();
    } else {
        assert!(
            current == written,
            "docs/settings.md is stale; renew it with: {RENEW}=1 cargo test --workspace --test install schema::"
        );
    }
}
