//! The SidecarSet definition.

use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use jsonschema::Validator;
use pillion_identity::declared;
use pillion_install::rendering::crd::{Conversion, NAME, document};
use pillion_samples::{recorded, strategies};
use pillion_sidecarset::tables::{Kind, SIDECAR_SET_V1ALPHA1, SIDECAR_SET_V1BETA1, Table};
use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Map, Value, json};

use super::{set, standalone};

fn union() -> Value {
    document("pillion", &Conversion::None, &Value::Null).object
}

fn converted() -> Value {
    let rendered = standalone(&json!({}), &[]);
    super::object(&rendered, &format!("CustomResourceDefinition {NAME}")).clone()
}

fn schema<'a>(definition: &'a Value, version: &str) -> &'a Value {
    let versions = definition["spec"]["versions"].as_array().unwrap();
    let found = versions.iter().find(|it| it["name"] == version).unwrap();
    &found["schema"]["openAPIV3Schema"]
}

/// Turns a structural schema into JSON Schema.
fn plain(schema: &Value) -> Value {
    match schema {
        Value::Object(map) => {
            let mut plain: Map<String, Value> =
                map.iter().map(|(key, value)| (key.clone(), self::plain(value))).collect();
            if map.get("nullable") == Some(&json!(true)) {
                plain.insert("type".to_owned(), json!([map["type"], "null"]));
            }
            plain.into()
        }
        Value::Array(items) => items.iter().map(self::plain).collect(),
        other => other.clone(),
    }
}

static BETA: LazyLock<Validator> = LazyLock::new(|| validator("v1beta1"));

fn validator(version: &str) -> Validator {
    jsonschema::draft202012::new(&plain(schema(&converted(), version))).unwrap()
}

fn problems(object: &Value) -> Vec<String> {
    BETA.iter_errors(object).map(|error| format!("{}: {error}", error.instance_path())).collect()
}

/// Returns a value as the API server stores it: fields without a schema are removed, unless the schema keeps unknown
/// fields. Everything below an unknown field that is kept is kept as well.
fn pruned(value: &Value, schema: &Value) -> Value {
    let keeps = schema["x-kubernetes-preserve-unknown-fields"] == true;
    match value {
        Value::Object(map) => {
            let below = |key: &str| schema["properties"].get(key).or(schema.get("additionalProperties"));
            let entry = |(key, value): (&String, &Value)| match below(key) {
                Some(schema) => Some((key.clone(), pruned(value, schema))),
                None if keeps => Some((key.clone(), value.clone())),
                None => None,
            };
            map.iter().filter_map(entry).collect::<Map<_, _>>().into()
        }
        Value::Array(items) => match schema.get("items") {
            Some(schema) => items.iter().map(|item| pruned(item, schema)).collect(),
            None => value.clone(),
        },
        other => other.clone(),
    }
}

fn stored(object: &Value, version: &str) -> Value {
    let mut stored = pruned(object, schema(&converted(), version));
    // The API server has its own schema of metadata.
    stored["metadata"] = object["metadata"].clone();
    stored
}

/// Checks the rules of apiextensions.k8s.io/v1 for structural schemas, and that each field has a description.
fn check(schema: &Value, path: &str, is_field: bool, found: &mut Vec<String>) {
    const KEYS: [&str; 15] = [
        "type",
        "format",
        "properties",
        "items",
        "additionalProperties",
        "required",
        "enum",
        "default",
        "nullable",
        "description",
        "anyOf",
        "x-kubernetes-int-or-string",
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-list-type",
        "x-kubernetes-list-map-keys",
    ];
    let Some(map) = schema.as_object() else { return found.push(format!("{path}: no schema")) };
    let mut say = |text: &str| found.push(format!("{path}: {text}"));
    for key in map.keys().filter(|key| !KEYS.contains(&key.as_str()) && *key != "x-kubernetes-map-type") {
        say(&format!("the key {key}"));
    }
    let is_free =
        map.contains_key("x-kubernetes-int-or-string") || map.contains_key("x-kubernetes-preserve-unknown-fields");
    match map.get("type").and_then(Value::as_str) {
        None if !is_free => say("no type"),
        Some("array") if !map.contains_key("items") => say("a list of what?"),
        _ => {}
    }
    if map.contains_key("properties") && map.contains_key("additionalProperties") {
        say("properties and additionalProperties");
    }
    if map.contains_key("default") && map.contains_key("nullable") {
        say("null would stand in the way of the default");
    }
    let description = map.get("description").and_then(Value::as_str).unwrap_or_default();
    if is_field && !description.ends_with('.') && !path.ends_with("/metadata") {
        say("no description");
    }
    for required in map.get("required").into_iter().flat_map(|it| it.as_array().unwrap()) {
        if map["properties"].get(required.as_str().unwrap()).is_none() {
            say(&format!("requires {required}, which it does not have"));
        }
    }
    for (name, property) in map.get("properties").into_iter().flat_map(|it| it.as_object().unwrap()) {
        check(property, &format!("{path}/{name}"), true, found);
    }
    for key in ["items", "additionalProperties"] {
        if let Some(below) = map.get(key) {
            check(below, &format!("{path}/{key}"), false, found);
        }
    }
}

#[rstest]
#[case::union(union())]
#[case::converted(converted())]
fn schemas_are_structural_and_every_field_is_described(#[case] definition: Value) {
    for version in ["v1alpha1", "v1beta1"] {
        let mut found = Vec::new();
        check(schema(&definition, version), version, true, &mut found);
        assert_eq!(found, [""; 0]);
    }
    assert!(definition.to_string().len() < 200_000, "it has to fit into an annotation of kubectl apply");
}

/// API-1 to API-3.
#[test]
fn api1_api3_it_is_openkruises_definition_from_outside() {
    let definition = union();
    let spec = &definition["spec"];
    assert_eq!((&spec["scope"], &spec["group"]), (&json!("Cluster"), &json!("apps.kruise.io")));
    assert_eq!(
        spec["names"],
        json!({"kind": "SidecarSet", "listKind": "SidecarSetList", "plural": "sidecarsets", "singular": "sidecarset"})
    );
    let of = |version: &Value| {
        let columns: Vec<String> = version["additionalPrinterColumns"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| format!("{} {}", it["name"].as_str().unwrap(), it["jsonPath"].as_str().unwrap()))
            .collect();
        assert_eq!(
            columns,
            [
                "MATCHED .status.matchedPods",
                "UPDATED .status.updatedPods",
                "READY .status.readyPods",
                "AGE .metadata.creationTimestamp"
            ]
        );
        assert_eq!(version["subresources"], json!({"status": {}}));
        format!("{} {} {}", version["name"].as_str().unwrap(), version["served"], version["storage"])
    };
    let versions: Vec<String> = spec["versions"].as_array().unwrap().iter().map(of).collect();
    assert_eq!(versions, ["v1alpha1 true false", "v1beta1 true true"]);
}

#[test]
fn conversion_needs_a_server_or_fields_of_both_versions() {
    let has = |definition: &Value, version: &str, field: &str| {
        schema(definition, version)["properties"]["spec"]["properties"].get(field).is_some()
    };
    let converted = converted();
    let webhook = &converted["spec"]["conversion"]["webhook"];
    assert_eq!(webhook["conversionReviewVersions"], json!(["v1"]));
    assert_eq!(webhook["clientConfig"]["service"]["path"], "/convert");
    let union = union();
    assert_eq!(union["spec"]["conversion"], json!({"strategy": "None"}));
    for (version, own, other) in [("v1alpha1", "namespace", "customVersion"), ("v1beta1", "customVersion", "namespace")]
    {
        assert!(has(&converted, version, own) && !has(&converted, version, other));
        assert!(has(&union, version, own) && has(&union, version, other));
    }
}

/// API-5: the values, defaults and requirements that the API server enforces, by their paths below `spec`.
#[test]
fn api5_defaults_enums_and_requirements() {
    fn collect(schema: &Value, path: &str, found: &mut Vec<String>) {
        for key in ["enum", "default", "required"] {
            if let Some(value) = schema.get(key) {
                found.push(format!("{path} {key} {value}"));
            }
        }
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            collect(property, &format!("{path}.{name}"), found);
        }
        if let Some(items) = schema.get("items") {
            collect(items, path, found);
        }
    }
    let mut found = Vec::new();
    collect(schema(&converted(), "v1beta1"), "", &mut found);
    found.retain(|line| !line.starts_with(".spec.initContainers"));
    insta::assert_snapshot!(found.join("\n"), @r#"
    .spec.containers.resourcesPolicy required ["targetContainersMode","resourcesExpr"]
    .spec.containers.resourcesPolicy.targetContainersMode enum ["sum","max"]
    .spec.containers.resourcesPolicy.targetContainersNameRegex default ".*"
    .spec.containers.transferEnv.sourceContainerNameFrom.fieldRef required ["fieldPath"]
    .spec.imagePullSecrets.name default ""
    .spec.injectionStrategy.revision.policy enum ["Always","Partial"]
    .spec.injectionStrategy.revision.policy default "Always"
    .spec.namespaceSelector.matchExpressions required ["key","operator"]
    .spec.selector.matchExpressions required ["key","operator"]
    .spec.serviceAccountPermissions required ["verbs"]
    .spec.serviceAccountTokens required ["audience","path"]
    .spec.updateStrategy.priorityStrategy.orderPriority required ["orderedKey"]
    .spec.updateStrategy.priorityStrategy.weightPriority required ["matchSelector","weight"]
    .spec.updateStrategy.priorityStrategy.weightPriority.matchSelector.matchExpressions required ["key","operator"]
    .spec.updateStrategy.scatterStrategy required ["key","value"]
    .spec.updateStrategy.selector.matchExpressions required ["key","operator"]
    .status.conditions required ["type","status","lastTransitionTime","reason","message"]
    .status.conditions.status enum ["True","False","Unknown"]
    "#);
}

/// The definition has every field of the tables, except for those of core/v1 types.
#[test]
fn every_field_that_the_policy_knows_is_there() {
    fn missing(table: &Table, schema: &Value, path: &str, found: &mut Vec<String>) {
        for field in table.fields {
            let path = format!("{path}.{}", field.name);
            let Some(property) = schema["properties"].get(field.name) else {
                found.push(path);
                continue;
            };
            match field.kind {
                Kind::Object(of) if property["properties"].is_object() => missing(of, property, &path, found),
                Kind::Objects(of) if property["items"]["properties"].is_object() => {
                    missing(of, &property["items"], &path, found);
                }
                _ => {}
            }
        }
    }
    let definition = converted();
    for (table, version) in [(&SIDECAR_SET_V1ALPHA1, "v1alpha1"), (&SIDECAR_SET_V1BETA1, "v1beta1")] {
        let schema = schema(&definition, version);
        let mut found = Vec::new();
        missing(table, schema, "", &mut found);
        assert_eq!(found, [""; 0]);
        for field in declared::FIELDS {
            assert!(schema["properties"]["spec"]["properties"].get(field.name).is_some(), "{}", field.name);
        }
    }
}

#[rstest]
#[case::containers_of_tomorrow(json!({"containers": [{"name": "a", "fieldOfTomorrow": [1, {"x": null}]}]}))]
#[case::nulls_in_containers(json!({"containers": [{"name": "a", "command": null, "env": null, "resources": null}]}))]
#[case::amounts_of_any_type(json!({"containers": [{"resources": {"limits": {"cpu": 1, "memory": "1Gi"}}}]}))]
#[case::volumes_of_tomorrow(json!({"volumes": [{"name": "v", "newSource": {"a": 1}}]}))]
#[case::int_or_string(json!({"updateStrategy": {"partition": "10%", "maxUnavailable": 1}}))]
#[case::identities(json!({
    "serviceAccountName": "a", "serviceAccountMode": "isolate", "behaviorWhenServiceAccountInjection": "MERGE",
    "serviceAccountPermissions": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"], "nonResourceURLs": ["/x"]}]
}))]
#[case::tokens(json!({
    "serviceAccountName": "a", "serviceAccountTokens": [
        {"audience": "sts.amazonaws.com", "path": "aws-token", "expirationSeconds": 86_400}, {"audience": "vault", "path": "v"}
    ]
}))]
fn what_openkruise_accepts_is_accepted_and_stored(#[case] spec: Value) {
    let object = set("a", &spec);
    assert_eq!(problems(&object), [""; 0]);
    assert_eq!(stored(&object, "v1beta1"), object);
}

#[rstest]
#[case::a_mode_of_its_own(json!({"containers": [{"resourcesPolicy": {"targetContainersMode": "avg", "resourcesExpr": {}}}]}), "avg")]
#[case::no_expressions(json!({"containers": [{"resourcesPolicy": {"targetContainersMode": "sum"}}]}), "resourcesExpr")]
#[case::a_policy_of_its_own(json!({"injectionStrategy": {"revision": {"policy": "Often"}}}), "Often")]
#[case::a_scatter_without_a_value(json!({"updateStrategy": {"scatterStrategy": [{"key": "a"}]}}), "value")]
#[case::a_number_for_a_name(json!({"serviceAccountName": 1}), "/spec/serviceAccountName")]
#[case::an_object_for_a_list(json!({"containers": {}}), "/spec/containers")]
#[case::a_token_for_nobody(json!({"serviceAccountTokens": [{"path": "t"}]}), "audience")]
#[case::a_token_without_a_file(json!({"serviceAccountTokens": [{"audience": "vault"}]}), "path")]
#[case::a_lifetime_as_a_text(
    json!({"serviceAccountTokens": [{"audience": "vault", "path": "t", "expirationSeconds": "1h"}]}), "expirationSeconds"
)]
fn what_openkruise_refuses_is_refused(#[case] spec: Value, #[case] says: &str) {
    let problems = problems(&set("a", &spec));
    assert!(problems.len() == 1 && problems[0].contains(says), "{problems:?}");
}

#[rstest]
fn the_sets_of_the_examples_are_accepted(#[files("../../examples/*/sidecarset.yaml")] path: PathBuf) {
    let text = fs::read_to_string(&path).unwrap();
    for object in super::objects("sidecarset.yaml", &text).iter().filter(|it| it["kind"] == "SidecarSet") {
        let version = object["apiVersion"].as_str().unwrap().split_once('/').unwrap().1;
        let errors: Vec<String> = validator(version).iter_errors(object).map(|error| error.to_string()).collect();
        assert_eq!(errors, [""; 0]);
        assert_eq!(&stored(object, version), object);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// The definition neither refuses nor prunes a field that the policy reads.
    #[test]
    fn sets_as_users_write_them_are_accepted_and_stored(set in strategies::sidecar_set("a"), named in strategies::naming_sidecar_sets()) {
        for set in named.iter().chain([&set]) {
            let mut set = set.clone();
            // In a cluster, every object has these fields.
            set["apiVersion"] = json!("apps.kruise.io/v1beta1");
            set["kind"] = json!("SidecarSet");
            // Unknown fields outside of containers and volumes are pruned, as by OpenKruise's definition.
            set["spec"].as_object_mut().unwrap().remove("fieldOfTomorrow");
            prop_assert_eq!(problems(&set), Vec::<String>::new());
            prop_assert_eq!(stored(&set, "v1beta1"), set);
        }
    }
}

/// OpenKruise's webhook accepted these sets after they passed its definition. They pass this one, too.
#[test]
fn recorded_sets_are_accepted() {
    let validators = ["v1alpha1", "v1beta1"].map(|version| (version, validator(version)));
    let (mut seen, mut wrong) = (0, Vec::new());
    for case in recorded::cases(&recorded::file()).iter().filter(|case| case.is_sidecar_set() && case.is_allowed()) {
        let object = case.object();
        let version = object["apiVersion"].as_str().and_then(|version| version.strip_prefix("apps.kruise.io/"));
        let Some((_, validator)) = validators.iter().find(|(name, _)| Some(*name) == version) else { continue };
        wrong.extend(
            validator.iter_errors(object).map(|error| format!("{}: {}: {error}", case.id(), error.instance_path())),
        );
        seen += 1;
    }
    assert_eq!(wrong, [""; 0]);
    assert!(seen > 10, "{seen}");
}
