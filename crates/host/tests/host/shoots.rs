//! Gardener Shoots, through the built module. The core's tests cover the rules; these tests check that the policy
//! applies them.

use pillion_testkit::strategies::{damaged, junk};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::{admit, settings_verdict};

const PATH: &str = "/spec/kubernetes/kubeAPIServer/serviceAccountConfig";

fn shoot(config: &Value) -> Value {
    json!({
        "apiVersion": "core.gardener.cloud/v1beta1", "kind": "Shoot",
        "metadata": {"name": "s", "namespace": "garden-dev", "uid": "u", "annotations": {"a": "b"}},
        "spec": {"kubernetes": {"kubeAPIServer": {"serviceAccountConfig": config}}},
    })
}

fn sound() -> Value {
    shoot(&json!({
        "issuer": "https://a.example.com", "acceptedIssuers": ["https://b.example.com"],
        "extendTokenExpiration": false, "maxTokenExpiration": "1080h",
    }))
}

fn request(operation: &str, object: &Value, old_object: &Value) -> Value {
    json!({
        "uid": "u", "operation": operation, "namespace": "garden-dev", "name": "s", "dryRun": false,
        "kind": {"group": "core.gardener.cloud", "version": "v1beta1", "kind": "Shoot"},
        "resource": {"group": "core.gardener.cloud", "version": "v1beta1", "resource": "shoots"},
        "userInfo": {"username": "dev"}, "object": object, "oldObject": old_object,
    })
}

fn on() -> Value {
    json!({"shoots": {"enabled": true, "migration": "Deny"}})
}

#[test]
fn shoots_are_judged_where_the_rules_are_on() {
    assert!(settings_verdict(on().to_string().as_bytes()).unwrap().valid);
    let documented = shoot(&json!({"issuer": "foo", "maxTokenExpiration": "45d"}));
    assert!(admit(&request("CREATE", &documented, &Value::Null), &json!({})).accepted);
    let answer = admit(&request("CREATE", &documented, &Value::Null), &on());
    assert_eq!(answer.code, Some(422));
    let message = answer.message.unwrap();
    assert!(message.contains("time: unknown unit \"d\" in duration \"45d\"; use 1080h"), "{message}");
    let answer = admit(&request("CREATE", &sound(), &Value::Null), &on());
    assert!(answer.accepted && answer.mutated_object.is_none() && answer.warnings.is_none(), "{answer:?}");
}

#[test]
fn updates_are_judged_by_what_was_there_before() {
    let moved = shoot(&json!({"issuer": "https://c.example.com", "acceptedIssuers": ["https://b.example.com"]}));
    let answer = admit(&request("UPDATE", &moved, &sound()), &on());
    assert_eq!(answer.code, Some(403));
    assert!(answer.message.unwrap().contains("\"https://a.example.com\" is no longer the issuer"));
    assert_eq!(admit(&request("UPDATE", &moved, &Value::Null), &on()).code, Some(400));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_shoot_gets_a_sound_answer(object in junk(), old in junk()) {
        admit(&request("CREATE", &object, &Value::Null), &on());
        admit(&request("UPDATE", &object, &old), &on());
        let nested = shoot(&object);
        admit(&request("UPDATE", &nested, &sound()), &on());
    }

    #[test]
    fn damaged_shoots_get_a_sound_answer(object in damaged(Just(sound())), old in damaged(Just(sound()))) {
        admit(&request("CREATE", &object, &Value::Null), &on());
        let answer = admit(&request("UPDATE", &object, &old), &on());
        prop_assert!(answer.mutated_object.is_none());
    }

    #[test]
    fn any_text_in_any_field_gets_a_sound_answer(field in "issuer|maxTokenExpiration|extendTokenExpiration", text in "\\PC{0,40}") {
        let mut object = sound();
        object.pointer_mut(PATH).unwrap()[&field] = json!(text);
        admit(&request("CREATE", &object, &Value::Null), &on());
        admit(&request("UPDATE", &object, &sound()), &on());
    }
}
