//! Properties of every rendering.

use std::collections::BTreeSet;

use pillion_install::rendering::{Rendered, document};
use pillion_kubernetes::name_validation;
use pillion_samples::strategies;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{for_kubewarden, kubewarden, standalone};

/// Generates settings that vary in everything that affects the rendering.
fn settings() -> impl Strategy<Value = Value> {
    let rules = (any::<bool>(), any::<bool>(), any::<bool>());
    (strategies::naming_sidecar_sets(), any::<bool>(), any::<bool>(), any::<bool>(), rules)
        .prop_map(|(mut sets, has_identities, has_shoots, has_whitelist, (default, in_use, create))| {
            // YAML cannot represent their numbers.
            sets.iter_mut().for_each(without_fields_of_tomorrow);
            let mut settings = json!({
                "sidecarSets": sets,
                "featureGates": {"SidecarSetServiceAccountInjection": has_identities},
                "serviceAccounts": {"protectDefault": default, "protectInUse": in_use, "requireCreatePods": create},
                "shoots": {"enabled": has_shoots},
            });
            if has_whitelist {
                settings["patchPodMetadataWhitelist"] = json!({"rules": []});
            }
            settings
        })
        .prop_filter("settings that can be decoded", |settings| {
            pillion_admission::settings::Settings::decode(settings.clone()).is_ok()
        })
}

fn without_fields_of_tomorrow(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.remove("fieldOfTomorrow");
            map.values_mut().for_each(without_fields_of_tomorrow);
        }
        Value::Array(items) => items.iter_mut().for_each(without_fields_of_tomorrow),
        _ => {}
    }
}

fn flags() -> impl Strategy<Value = Vec<&'static str>> {
    let flags = vec![
        "--any-sidecar-sets",
        "--no-system-role",
        "--name=other",
        "--without=guards",
        "--failure-policy=Ignore",
        "--opt-out-label=a/b=c",
        "--exclude-namespaces=x,y",
        "--namespace=elsewhere",
    ];
    let count = flags.len();
    proptest::sample::subsequence(flags, 0..=count)
}

/// Renders for Kubewarden and for Pillion's own server.
fn both(settings: &Value, flags: &[&str]) -> [Rendered; 2] {
    // The definition is always the same, and long.
    [for_kubewarden(settings, flags), standalone(settings, &[flags, &["--no-crd"]].concat())]
}

/// Collects the paths of nulls and of empty lists and objects. Settings are exempt, since they are the user's own. Two
/// fields have a meaning if they are empty.
fn hollow(value: &Value, path: &str, found: &mut Vec<String>) {
    let means_something = ["/subresources/status", "/selfSigned"].iter().any(|end| path.ends_with(end));
    match value {
        Value::Null => found.push(path.to_owned()),
        Value::Array(list) => {
            if list.is_empty() {
                found.push(path.to_owned());
            }
            list.iter().enumerate().for_each(|(index, item)| hollow(item, &format!("{path}/{index}"), found));
        }
        Value::Object(map) => {
            if map.is_empty() && !means_something {
                found.push(path.to_owned());
            }
            for (key, value) in map.iter().filter(|(key, _)| (path, key.as_str()) != ("/spec", "settings")) {
                hollow(value, &format!("{path}/{key}"), found);
            }
        }
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn every_object_is_whole(settings in settings(), flags in flags()) {
        for rendered in both(&settings, &flags) {
            let mut seen = BTreeSet::new();
            for document in &rendered.documents {
                let object = &document.object;
                prop_assert!(object["apiVersion"].is_string() && object["kind"].is_string(), "{object}");
                let name = object["metadata"]["name"].as_str().unwrap();
                prop_assert_eq!(name_validation::dns_subdomain(name), None, "{}", name);
                prop_assert!(seen.insert(document.title()), "{} twice", document.title());
                let labels = object["metadata"]["labels"].as_object().unwrap();
                prop_assert!(labels.len() >= 6 && labels.values().all(|it| name_validation::label_value(it.as_str().unwrap()).is_none()));
                let mut found = Vec::new();
                hollow(object, "", &mut found);
                prop_assert_eq!(found, Vec::<String>::new(), "{}", document.title());
                prop_assert_eq!(kubewarden::problems(object), Vec::<String>::new());
            }
        }
    }

    #[test]
    fn what_is_printed_is_what_was_rendered(settings in settings(), flags in flags()) {
        for rendered in both(&settings, &flags) {
            let objects: Vec<Value> = rendered.documents.iter().map(|it| it.object.clone()).collect();
            let yaml = document::to_yaml(&rendered.documents).unwrap();
            prop_assert_eq!(&super::objects("yaml", &yaml), &objects);
            let json: Value = serde_json::from_str(&document::to_json(&rendered.documents).unwrap()).unwrap();
            prop_assert_eq!(&json["items"], &Value::from(objects));
            prop_assert!(yaml.lines().filter(|line| line.trim_start().starts_with("# ")).all(|line| line.len() <= 120));
        }
    }

    /// The same settings yield the same bytes. The order of SidecarSets affects the settings only.
    #[test]
    fn order_does_not_matter(settings in settings(), flags in flags()) {
        let mut turned = settings.clone();
        turned["sidecarSets"].as_array_mut().unwrap().reverse();
        let stripped = |rendered: &Rendered| -> Vec<Value> {
            let without = |object: &Value| {
                let mut object = object.clone();
                for (parent, key) in [("/spec", "settings"), ("", "data")] {
                    if let Some(parent) = object.pointer_mut(parent).and_then(Value::as_object_mut) {
                        parent.remove(key);
                    }
                }
                object
            };
            rendered.documents.iter().map(|it| without(&it.object)).collect()
        };
        for (one, other) in both(&settings, &flags).iter().zip(&both(&turned, &flags)) {
            prop_assert_eq!(stripped(one), stripped(other));
        }
        for (one, other) in both(&settings, &flags).iter().zip(&both(&settings, &flags)) {
            prop_assert_eq!(document::to_yaml(&one.documents).unwrap(), document::to_yaml(&other.documents).unwrap());
        }
    }

    /// Other SidecarSets than those of the settings never need more than `--any-sidecar-sets` grants.
    #[test]
    fn any_sidecar_sets_are_covered(settings in settings(), other in settings()) {
        let mut changed = settings.clone();
        changed["sidecarSets"] = other["sidecarSets"].clone();
        // Settings without SidecarSets get a bundle, and those with SidecarSets do not.
        let has_sets = |settings: &Value| !settings["sidecarSets"].as_array().unwrap().is_empty();
        prop_assume!(has_sets(&settings) == has_sets(&changed));
        let any = super::granted(&for_kubewarden(&settings, &["--any-sidecar-sets"]));
        prop_assert!(super::granted(&for_kubewarden(&changed, &[])).is_subset(&any));
    }
}
