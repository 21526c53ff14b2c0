use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::settings::{ManagedIssuer, Migration};

mod issuers;
mod managed;
mod migration;
mod tokens;

const A: &str = "https://a.example.com";
const B: &str = "https://b.example.com";
const C: &str = "https://c.example.com";
const UID: &str = "3f9b9d3c-5b0e-4a54-9d6e-0a4c8f0f7d11";

/// Returns a Shoot with this `serviceAccountConfig`, as a user would write it.
#[allow(clippy::needless_pass_by_value)] // Callers pass `json!(...)`.
fn shoot(config: Value) -> Value {
    json!({
        "apiVersion": "core.gardener.cloud/v1beta1",
        "kind": "Shoot",
        "metadata": {"name": "crazy-botany", "namespace": "garden-dev", "uid": UID},
        "spec": {
            "cloudProfile": {"name": "local"},
            "region": "local",
            "networking": {"type": "calico"},
            "provider": {"type": "local", "workers": [{"name": "pool", "minimum": 1, "maximum": 2}]},
            "kubernetes": {
                "version": "1.34.2",
                "kubeAPIServer": {"requests": {"maxNonMutatingInflight": 400}, "serviceAccountConfig": config}
            }
        }
    })
}

/// Adds an annotation to a Shoot.
fn annotated(mut shoot: Value, key: &str, value: &str) -> Value {
    shoot["metadata"]["annotations"][key] = json!(value);
    shoot
}

fn managed(config: Value) -> Value {
    annotated(shoot(config), "authentication.gardener.cloud/issuer", "managed")
}

fn created(new: &Value) -> Judgement {
    judge(new, None, true, &ShootSettings::default())
}

fn updated(new: &Value, old: &Value) -> Judgement {
    judge(new, Some(old), true, &ShootSettings::default())
}

/// Judges the update of one config to another.
fn changed(old: Value, new: Value) -> Judgement {
    updated(&shoot(new), &shoot(old))
}

fn denying() -> ShootSettings {
    ShootSettings { migration: Migration::Deny, ..ShootSettings::default() }
}

fn unsupported() -> ShootSettings {
    ShootSettings { managed_issuer: ManagedIssuer::Unsupported, ..ShootSettings::default() }
}

/// Returns the errors, each as `<code> <field below the config, or all of it>: <rest>`.
fn errors(judgement: &Judgement) -> Vec<String> {
    let lists = [("400 ", &judgement.undecodable), ("422 ", &judgement.invalid), ("403 ", &judgement.forbidden)];
    let below = |error: &FieldError| {
        let text = error.to_string();
        text.strip_prefix("spec.kubernetes.kubeAPIServer.serviceAccountConfig.").unwrap_or(&text).to_owned()
    };
    lists.iter().flat_map(|(code, errors)| errors.iter().map(move |error| format!("{code}{}", below(error)))).collect()
}

/// Returns the paths of values that break rules.
fn paths(judgement: &Judgement) -> Vec<&str> {
    judgement.invalid.iter().map(|error| error.path.as_str()).collect()
}

fn nothing() -> Vec<String> {
    Vec::new()
}

#[test]
fn a_shoot_that_says_nothing_of_tokens_is_fine() {
    for config in [Value::Null, json!({}), json!({"issuer": null, "acceptedIssuers": null, "maxTokenExpiration": null})]
    {
        assert_eq!(created(&shoot(config.clone())), Judgement::default(), "{config}");
        assert_eq!(changed(config.clone(), config), Judgement::default());
    }
    assert_eq!(created(&json!({})), Judgement::default());
    assert_eq!(created(&json!({"spec": null, "metadata": {"annotations": null}})), Judgement::default());
}

#[test]
fn everything_that_is_wrong_is_said_at_once_in_the_order_of_the_rules() {
    let new = managed(json!({
        "issuer": "http://u@a?q#f",
        "acceptedIssuers": ["http://u@a?q#f", B, B, "foo"],
        "maxTokenExpiration": "1h"
    }));
    assert_eq!(
        errors(&created(&new)),
        [
            "422 maxTokenExpiration: Forbidden: \"1h0m0s\": must be at least 720h (30d)",
            "422 issuer: Invalid value: \"http://u@a?q#f\": must not contain a fragment",
            "422 issuer: Invalid value: \"http://u@a?q#f\": must not contain a username or password",
            "422 issuer: Invalid value: \"http://u@a?q#f\": must not contain a query",
            "422 issuer: Invalid value: \"http://u@a?q#f\": must have https scheme",
            "422 acceptedIssuers[0]: Invalid value: \"http://u@a?q#f\": must not contain a fragment",
            "422 acceptedIssuers[0]: Invalid value: \"http://u@a?q#f\": must not contain a username or password",
            "422 acceptedIssuers[0]: Invalid value: \"http://u@a?q#f\": must not contain a query",
            "422 acceptedIssuers[0]: Invalid value: \"http://u@a?q#f\": must have https scheme",
            "422 acceptedIssuers[0]: Invalid value: \"http://u@a?q#f\": acceptedIssuers cannot contains the issuer field value: http://u@a?q#f",
            "422 acceptedIssuers[2]: Duplicate value: \"https://b.example.com\"",
            "422 acceptedIssuers[3]: Invalid value: \"foo\": must be a valid URL and have https scheme",
            "422 acceptedIssuers[3]: Invalid value: \"foo\": must have https scheme",
            "403 metadata.annotations[authentication.gardener.cloud/issuer]: Forbidden: managed service account issuer cannot be enabled when .kubernetes.kubeAPIServer.serviceAccountConfig.issuer is set",
        ]
    );
}

#[rstest]
#[case::issuer(json!({"issuer": 1}), "400 issuer: Invalid value: must be a string, found a number")]
#[case::accepted(json!({"acceptedIssuers": A}), "400 acceptedIssuers: Invalid value: must be a list, found a string")]
#[case::accepted_item(
    json!({"acceptedIssuers": [A, {}]}), "400 acceptedIssuers[1]: Invalid value: must be a string, found an object"
)]
#[case::extend(
    json!({"extendTokenExpiration": "false"}),
    "400 extendTokenExpiration: Invalid value: must be true or false, found a string"
)]
#[case::d12_a_number_of_seconds(
    json!({"maxTokenExpiration": 2_592_000}), "400 maxTokenExpiration: Invalid value: must be a string, found a number"
)]
#[case::config(
    json!([]),
    "400 spec.kubernetes.kubeAPIServer.serviceAccountConfig: Invalid value: must be an object, found a list"
)]
fn fields_of_another_type_cannot_be_decoded(#[case] config: Value, #[case] error: &str) {
    assert_eq!(errors(&created(&shoot(config.clone()))), [error]);
    let stored = errors(&updated(&shoot(json!({})), &shoot(config)));
    assert!(stored[0].starts_with("400 oldObject.spec.kubernetes.kubeAPIServer.serviceAccountConfig"), "{stored:?}");
}

#[rstest]
#[case::object(json!([]), "400 Invalid value: must be an object, found a list")]
#[case::spec(json!({"spec": "x"}), "400 spec: Invalid value: must be an object, found a string")]
#[case::api_server(
    json!({"spec": {"kubernetes": {"kubeAPIServer": true}}}),
    "400 spec.kubernetes.kubeAPIServer: Invalid value: must be an object, found a boolean"
)]
#[case::annotations(
    json!({"metadata": {"annotations": "managed"}}),
    "400 metadata.annotations: Invalid value: must be an object, found a string"
)]
fn so_cannot_what_is_above_them(#[case] object: Value, #[case] error: &str) {
    assert!(errors(&created(&object)).contains(&error.to_owned()), "{:?}", errors(&created(&object)));
}

#[rstest]
#[case::garden("spec.virtualCluster.kubernetes.kubeAPIServer", "/spec/virtualCluster/kubernetes/kubeAPIServer")]
#[case::managed_seed_set(
    "spec.shootTemplate.spec.kubernetes.kubeAPIServer",
    "/spec/shootTemplate/spec/kubernetes/kubeAPIServer"
)]
fn the_other_kinds_hold_the_same_config_elsewhere(#[case] prefix: &str, #[case] pointer: &str) {
    let mut object = json!({"serviceAccountConfig": {"issuer": "http://a", "maxTokenExpiration": "0"}});
    for key in pointer.rsplit('/').filter(|key| !key.is_empty()) {
        object = json!({ key: object });
    }
    let judgement = judge(&object, None, false, &ShootSettings::default());
    let config = format!("{prefix}.serviceAccountConfig");
    assert_eq!(paths(&judgement), [format!("{config}.maxTokenExpiration"), format!("{config}.issuer")]);
}

#[test]
fn the_annotation_means_nothing_but_on_a_shoot() {
    let mut garden =
        json!({"spec": {"virtualCluster": {"kubernetes": {"kubeAPIServer": {"serviceAccountConfig": {"issuer": A}}}}}});
    garden["metadata"] = json!({"annotations": {"authentication.gardener.cloud/issuer": "managed"}});
    assert_eq!(judge(&garden, None, false, &unsupported()), Judgement::default());
}

#[test]
fn other_prefixes_replace_the_known_ones() {
    let settings = ShootSettings { paths: vec!["a.b.serviceAccountConfig".to_owned()], ..ShootSettings::default() };
    let mut object = shoot(json!({"issuer": "foo"}));
    assert_eq!(judge(&object, None, true, &settings), Judgement::default());
    object["a"] = json!({"b": {"serviceAccountConfig": {"issuer": ""}}});
    assert_eq!(paths(&judge(&object, None, true, &settings)), ["a.b.serviceAccountConfig.issuer"; 2]);
}

#[test]
fn warnings_are_short_single_lines_however_long_the_values_are() {
    let long = |letter: &str| format!("https://{}.example.com", letter.repeat(4000));
    let old = shoot(json!({"issuer": long("a"), "acceptedIssuers": [long("b")]}));
    let new = annotated(
        managed(json!({"maxTokenExpiration": "720h"})),
        "authentication.gardener.cloud/unrelated",
        &long("c"),
    );
    let ignored = annotated(shoot(json!({})), "authentication.gardener.cloud/issuer", &long("d"));
    let twice = shoot(json!({"issuer": long("a"), "acceptedIssuers": [long("a")], "maxTokenExpiration": "0"}));
    let mut warnings = updated(&new, &old).warnings;
    warnings.extend(created(&ignored).warnings);
    warnings.extend(updated(&twice, &twice).warnings);
    assert_eq!(warnings.len(), 9, "{warnings:#?}");
    for warning in warnings {
        assert!(warning.chars().count() <= 256 && !warning.contains(char::is_control), "{warning}");
    }
}

/// Draws any value, also of the wrong type.
fn anything() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "\\PC{0,9}".prop_map(Value::from),
        prop_oneof![Just(A), Just(B), Just("managed"), Just("720h"), Just("")].prop_map(Value::from),
    ];
    let key = prop_oneof![
        Just("spec"),
        Just("kubernetes"),
        Just("kubeAPIServer"),
        Just("serviceAccountConfig"),
        Just("issuer"),
        Just("acceptedIssuers"),
        Just("maxTokenExpiration"),
        Just("extendTokenExpiration"),
        Just("metadata"),
        Just("annotations"),
        Just("authentication.gardener.cloud/issuer"),
    ];
    leaf.prop_recursive(6, 48, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((key.clone(), inner), 0..4)
                .prop_map(|entries| entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()),
        ]
    })
}

/// Draws a config whose fields have the right type and often a valid value.
fn config() -> impl Strategy<Value = Value> {
    let url = || prop_oneof![Just(A), Just(B), Just(C), Just("foo"), Just("https://a?"), Just("")];
    let max = prop_oneof![Just("720h"), Just("0"), Just("1h"), Just("45d"), Just("-1s"), Just("9000h")];
    let fields = (
        prop::option::of(url()),
        prop::option::of(prop::collection::vec(url(), 0..4)),
        prop::option::of(any::<bool>()),
        prop::option::of(max),
    );
    fields.prop_map(|(issuer, accepted, extend, max)| {
        json!({
            "issuer": issuer, "acceptedIssuers": accepted, "extendTokenExpiration": extend, "maxTokenExpiration": max
        })
    })
}

fn some_shoot() -> impl Strategy<Value = Value> {
    (config(), any::<bool>()).prop_map(|(config, is_managed)| if is_managed { managed(config) } else { shoot(config) })
}

/// Returns the same JSON with the keys of every object in reverse order.
fn reversed(value: &Value) -> Value {
    match value {
        Value::Object(object) => object.iter().rev().map(|(key, value)| (key.clone(), reversed(value))).collect(),
        Value::Array(items) => items.iter().map(reversed).collect(),
        other => other.clone(),
    }
}

proptest! {
    #[test]
    fn any_json_is_judged_without_panic(new in anything(), old in prop::option::of(anything()), is_shoot: bool) {
        let judgement = judge(&new, old.as_ref(), is_shoot, &denying());
        prop_assert!(judgement.undecodable.is_empty() || judgement.invalid.is_empty() && judgement.forbidden.is_empty());
    }

    #[test]
    fn the_order_of_keys_decides_nothing(new in some_shoot(), old in prop::option::of(some_shoot())) {
        let judgement = judge(&new, old.as_ref(), true, &denying());
        let old = old.as_ref().map(reversed);
        prop_assert_eq!(judge(&reversed(&new), old.as_ref(), true, &denying()), judgement);
    }

    #[test]
    fn null_and_absent_are_the_same(new in some_shoot(), old in prop::option::of(some_shoot())) {
        let without = |mut object: Value| {
            let config = object.pointer_mut("/spec/kubernetes/kubeAPIServer/serviceAccountConfig").unwrap();
            config.as_object_mut().unwrap().retain(|_, value| !value.is_null());
            object
        };
        let judgement = judge(&new, old.as_ref(), true, &denying());
        prop_assert_eq!(judge(&without(new), old.map(without).as_ref(), true, &denying()), judgement);
    }

    /// Rules that only Pillion has never refuse an update that changes nothing.
    #[test]
    fn what_stays_as_it_is_meets_only_gardeners_rules(shoot in some_shoot()) {
        let judgement = judge(&shoot, Some(&shoot), true, &denying());
        for text in errors(&judgement) {
            prop_assert!(!text.contains("no maximum") && !text.contains("is the issuer, too"), "{}", text);
            prop_assert!(!text.contains("no longer the issuer") && !text.contains("is removed"), "{}", text);
        }
    }
}
