//! JSON whose values are as short as possible: a megabyte of it has half a million values (E18).
//!
//! The cost of a value depends on its kind, not on its length. A request or settings below 1 MiB stay within
//! [`BOUNDS`], whatever their content.
#![allow(clippy::needless_pass_by_value, reason = "json! makes values")]

use std::fs;

use pillion_bench::engine::{Counter, PAGE};
use pillion_bench::objects::Objects;
use pillion_fuzz::cost::judge::BOUNDS;
use serde_json::{Value, json};

/// The length of a filling, in bytes.
const LENGTH: usize = 1_040_000;
/// Placeholders for a filling of that length, or of half of it.
const FILLINGS: [(&str, usize); 2] = [("the whole filling", LENGTH), ("half of the filling", LENGTH / 2)];

/// Items that are short for their cost.
const ITEMS: [&str; 11] = [
    "0",
    "{}",
    "\"\"",
    "\"a\"",
    "[[0]]",
    "{\"\":0}",
    "{\"\":{\"\":{\"\":0}}}",
    "{\"name\":\"a\",\"value\":\"b\"}",
    "{\"\":0},\"a\",\"abcdefgh\"",
    "{\"\":{\"\":\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"}},\"a\",\"b\",\"c\"",
    "{\"a\":\"bcdefghijklmnopqrst\"}",
];

/// Returns the text of a payload in which lists of `item` replace the placeholders of [`FILLINGS`].
fn filled(payload: &Value, item: &str) -> String {
    FILLINGS.into_iter().fold(payload.to_string(), |text, (stand_in, bytes)| {
        let list = format!("[{}]", vec![item; bytes / (item.len() + 1)].join(","));
        text.replace(&format!("\"{stand_in}\""), &list)
    })
}

fn sidecar_set(filling: Value) -> Value {
    json!({
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "SidecarSet", "metadata": {"name": "logs"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "containers": [{"name": "agent", "image": "agent:1", "unknown": filling}]
        }
    })
}

fn request(group: &str, kind: &str, operation: &str, object: Value, old_object: Value) -> Value {
    let version = if group == "apps.kruise.io" { "v1alpha1" } else { "v1" };
    json!({
        "uid": "u", "operation": operation, "namespace": "shop", "name": "a",
        "kind": {"group": group, "version": version, "kind": kind},
        "object": object, "oldObject": old_object, "userInfo": {"username": "a"}
    })
}

/// Returns payloads for every path through the policy, each with one filling of [`LENGTH`] or two of half of it.
fn payloads() -> Vec<(&'static str, &'static str, Value)> {
    let [whole, half] = FILLINGS.map(|(stand_in, _)| move || json!(stand_in));
    let object = |filling: Value| json!({"metadata": {"name": "a"}, "unknown": filling});
    let pod = |filling: Value| {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "labels": {"app": "web"}},
            "spec": {"containers": [{"name": "app", "image": "app:1"}], "unknown": filling}
        });
        request("", "Pod", "CREATE", pod, Value::Null)
    };
    let settings = |sidecar_set: Value| json!({"sidecarSets": [sidecar_set]});
    let mut with_account = settings(sidecar_set(Value::Null));
    with_account["featureGates"] = json!({"SidecarSetServiceAccountInjection": true});
    with_account["sidecarSets"][0]["spec"]["serviceAccountName"] = json!("logs");
    with_account["sidecarSets"][0]["spec"]["serviceAccountMode"] = json!("Isolate");
    let validate = |request: Value, settings: Value| json!({"request": request, "settings": settings});
    let write = |operation, object, old| request("apps.kruise.io", "SidecarSet", operation, object, old);
    let update = |group, kind| request(group, kind, "UPDATE", object(half()), object(half()));
    let shoot = request("core.gardener.cloud", "Shoot", "UPDATE", object(half()), object(half()));
    vec![
        ("a Pod without sidecars", "validate", validate(pod(whole()), json!({}))),
        ("a Pod with a sidecar", "validate", validate(pod(whole()), settings(sidecar_set(Value::Null)))),
        ("a Pod with an identity", "validate", validate(pod(whole()), with_account.clone())),
        ("a Pod with a filled sidecar", "validate", validate(pod(json!(0)), settings(sidecar_set(whole())))),
        ("settings", "validate_settings", settings(sidecar_set(whole()))),
        ("a new SidecarSet", "validate", validate(write("CREATE", sidecar_set(whole()), Value::Null), json!({}))),
        (
            "an edited SidecarSet",
            "validate",
            validate(write("UPDATE", sidecar_set(half()), sidecar_set(half())), with_account),
        ),
        ("a Deployment", "validate", validate(update("apps", "Deployment"), json!({}))),
        ("a ServiceAccount", "validate", validate(update("", "ServiceAccount"), json!({}))),
        ("a Shoot", "validate", validate(shoot, json!({"shoots": {"enabled": true}}))),
    ]
}

#[test]
fn e18_dense_json_costs_no_more_than_its_length_allows() {
    let module = fs::read(pillion_testkit::module::path()).unwrap();
    let counter = Counter::compile(&module).unwrap();
    let accounts =
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "logs", "namespace": "shop"}});
    let objects = Objects::new([accounts]);
    let mut problems = Vec::new();
    for (what, operation, payload) in payloads() {
        for item in ITEMS {
            let counts = counter.count(operation, filled(&payload, item).as_bytes(), &objects).unwrap();
            let (instructions, memory) = (counts.start + counts.call, counts.pages * PAGE);
            if instructions > BOUNDS.instructions || memory > BOUNDS.memory as u64 {
                problems.push(format!("{what} full of {item}: {instructions} instructions, {memory} bytes"));
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}
