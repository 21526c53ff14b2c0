//! A bundle is equivalent to its SidecarSets, through the built module.

use pillion_bundle as bundle;
use pillion_sidecarset::sidecar_set::decode::decode;
use pillion_testkit::module;
use pillion_testkit::strategies::{pod, sidecar_sets};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::{admit, create_pod, create_set, unstamped};

fn bundled(manifests: &[Value]) -> String {
    let sets: Vec<_> = manifests.iter().map(|set| decode(set.clone()).unwrap().into_sidecar_set()).collect();
    bundle::write(&sets)
}

fn set(name: &str) -> Value {
    json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "containers": [{"name": name, "image": "registry.example.com/agent:1"}]
        }
    })
}

fn verdict(settings: &Value) -> (bool, Option<String>) {
    let verdict = module().validate_settings(settings).unwrap();
    (verdict.valid, verdict.message)
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 400, ..ProptestConfig::default() })]

    #[test]
    fn pods_get_the_same_answer_from_manifests_and_from_a_bundle(pod in pod(), sets in sidecar_sets(), split in 0_usize..3) {
        let request = create_pod(&pod, "11111111-0000-4000-8000-000000000001");
        let manifests = admit(&request, &json!({ "sidecarSets": sets }));
        let split = split.min(sets.len());
        let (some, others) = sets.split_at(split);
        // First all sets from a bundle, then some from a bundle and the others from the settings.
        for settings in [json!({"bundle": bundled(&sets)}), json!({"bundle": bundled(some), "sidecarSets": others})] {
            let answer = admit(&request, &settings);
            prop_assert_eq!(&manifests.message, &answer.message);
            prop_assert_eq!(&manifests.warnings, &answer.warnings);
            prop_assert_eq!(unstamped(manifests.mutated_object.clone()), unstamped(answer.mutated_object));
        }
    }
}

#[test]
fn settings_with_a_bundle_are_verified_to_the_last_byte() {
    let text = bundled(&[set("logs"), set("mesh")]);
    assert_eq!(verdict(&json!({ "bundle": text })), (true, None));
    let mut damaged = text.clone();
    let last = damaged.pop();
    damaged.push(if last == Some('A') { 'B' } else { 'A' });
    assert_eq!(
        verdict(&json!({ "bundle": damaged })),
        (
            false,
            Some(
                "bundle: Invalid value: is damaged (the checksum is another); make it anew with `pillion bundle`"
                    .to_owned()
            )
        )
    );
    let newer = text.replacen("pillion-bundle-3", "pillion-bundle-4", 1);
    let (valid, message) = verdict(&json!({ "bundle": newer }));
    assert!(!valid && message.unwrap().contains("has the format 4"));
}

#[test]
fn set1_a_name_stands_once_in_the_bundle_and_beside_it() {
    let settings = json!({"bundle": bundled(&[set("logs")]), "sidecarSets": [set("logs")]});
    let (valid, message) = verdict(&settings);
    assert!(!valid);
    assert!(message.unwrap().contains("bundle[logs]: Duplicate value: \"logs\""));
}

#[test]
fn what_is_wrong_with_a_set_of_a_bundle_is_said_with_its_name() {
    let mut bad = set("logs");
    bad["spec"]["containers"][0]["image"] = json!("");
    let (valid, message) = verdict(&json!({"bundle": bundled(&[bad])}));
    assert!(!valid);
    assert!(message.as_deref().unwrap().starts_with("bundle[logs].spec.containers[0].image: "), "{message:?}");
}

#[test]
fn a_set_that_is_admitted_meets_those_of_the_bundle() {
    let mut twin = set("new");
    twin["spec"]["selector"] = set("logs")["spec"]["selector"].clone();
    twin["spec"]["containers"][0]["name"] = json!("logs");
    let answer = admit(&create_set(&twin), &json!({"bundle": bundled(&[set("logs"), set("other")])}));
    assert!(!answer.accepted);
    assert!(answer.message.unwrap().contains("SidecarSet \"logs\" has a container of this name for the same Pods"));
}

/// Simulates a host that skips `validate_settings`.
#[test]
fn a_damaged_set_is_never_injected() {
    let text = bundled(&[set("logs")]);
    let pod = json!({"metadata": {"name": "p", "labels": {"app": "logs"}}, "spec": {"containers": [{"name": "app"}]}});
    let mut refused = 0;
    for position in (text.len() - 200..text.len()).step_by(7) {
        let mut bytes = text.clone().into_bytes();
        bytes[position] = if bytes[position] == b'A' { b'B' } else { b'A' };
        let settings = json!({"bundle": String::from_utf8(bytes).unwrap()});
        let answer = admit(&create_pod(&pod, "u"), &settings);
        if !answer.accepted {
            refused += 1;
            assert_eq!(answer.code, Some(400));
            assert!(answer.message.unwrap().contains("settings.bundle: is damaged"));
        } else if let Some(after) = answer.mutated_object {
            // The last base64 digit of a part may have unused bits.
            assert_eq!(after["spec"]["containers"][0]["image"], "registry.example.com/agent:1");
        }
    }
    assert!(refused > 20, "{refused}");
}
