//! Tests that findings equal the module's decisions and have existing places, and of rules that need a whole cluster.

mod identity_access;
mod warnings;

use std::sync::Arc;

use pillion_admission::settings::Settings;
use pillion_documents::locate::{Aim, place, resolve};
use pillion_documents::manifest::Source;
use pillion_samples::strategies::{damaged, naming_sidecar_sets, pointers};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn findings(settings: &Value) -> Option<Vec<Finding>> {
    let text = serde_json::to_string_pretty(settings).unwrap();
    let source = Arc::new(Source::new("settings.json", text));
    let manifest = manifest::parse(&source).ok()?.pop()?;
    // The judged value must be the one that YAML reads.
    assert_eq!(&manifest.value, settings);
    Some(check(&[Document { manifest, role: Role::Settings }], &[], None).findings)
}

fn paths_of_errors(findings: &[Finding]) -> Vec<String> {
    let errors = findings.iter().filter(|finding| finding.severity == Severity::Error);
    let mut paths: Vec<String> = errors.map(|finding| finding.path.clone()).collect();
    paths.sort();
    paths
}

fn settings() -> impl Strategy<Value = Value> {
    (naming_sidecar_sets(), any::<bool>()).prop_map(|(sets, gate)| {
        json!({
            "sidecarSets": sets, "featureGates": {"SidecarSetServiceAccountInjection": gate},
            "serviceAccounts": {"allowed": [{"namespaces": ["*"], "names": ["logs", "m*"]}]},
            "systemNamespace": "kruise-system",
        })
    })
}

/// Converts a JSON pointer into the path of a field.
fn path_of(value: &Value, pointer: &str) -> String {
    let mut at = value;
    let mut path = String::new();
    for token in pointer.split('/').skip(1).map(|token| token.replace("~1", "/").replace("~0", "~")) {
        path = match at {
            Value::Array(items) => {
                let index: usize = token.parse().unwrap();
                at = &items[index];
                FieldPath::new(&path).index(index).to_string()
            }
            other => {
                at = &other[&token];
                FieldPath::new(&path).key(&token).to_string()
            }
        };
    }
    path
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn errors_are_those_of_the_module_and_have_a_place(settings in prop_oneof![settings(), damaged(settings())]) {
        let Some(found) = findings(&settings).filter(|_| settings.is_object()) else { return Ok(()) };
        let errors = Settings::decode(settings.clone()).map_or_else(|errors| errors, |settings| settings.validate());
        let mut expected: Vec<String> = errors.iter().map(|error| error.path.as_str().to_owned()).collect();
        expected.sort();
        let reported = paths_of_errors(&found);
        if Settings::decode(settings.clone()).is_ok() {
            prop_assert_eq!(&reported, &expected);
        } else {
            // The module stops after decoding errors; `check` also reports the others.
            for path in &expected {
                prop_assert!(reported.contains(path), "{} is not among {:?}", path, reported);
            }
        }
        for finding in &found {
            prop_assert!(finding.place.source.text.get(finding.place.span.clone()).is_some_and(|text| !text.is_empty()));
            prop_assert!(!finding.message.is_empty());
        }
    }

    /// SidecarSets beside a settings file are judged like `inject` judges them: as part of the settings.
    #[test]
    fn errors_beside_settings_are_those_of_the_settings_with_them(settings in settings(), split in 0_usize..4) {
        let mut own = settings.clone();
        own["featureGates"] = json!({"SidecarSetServiceAccountInjection": true});
        let sets = own["sidecarSets"].as_array().unwrap().clone();
        let (inside, beside) = sets.split_at(split.min(sets.len()));
        own["sidecarSets"] = inside.into();
        let manifest = |name: &str, value: &Value| {
            let source = Arc::new(Source::new(name, value.to_string()));
            manifest::parse(&source).ok()?.pop()
        };
        let manifests: Option<Vec<Manifest>> =
            beside.iter().enumerate().map(|(index, set)| manifest(&format!("{index}.json"), set)).collect();
        // YAML does not take every JSON number.
        let (Some(manifests), Some(own_manifest)) = (manifests, manifest("settings.json", &own)) else { return Ok(()) };
        let assembled = pillion_install::settings::assemble(own.clone(), &manifests).value;
        let Ok(joined) = Settings::decode(assembled) else { return Ok(()) };
        let mut expected: Vec<String> = joined
            .validate()
            .iter()
            .map(|error| match item_of(&error.path) {
                Some((index, rest)) if index >= inside.len() => rest.as_str().to_owned(),
                _ => error.path.as_str().to_owned(),
            })
            .collect();
        expected.sort();
        let sets = manifests.into_iter().map(|manifest| Document { manifest, role: Role::SidecarSet });
        let settings = Document { manifest: own_manifest, role: Role::Settings };
        let documents: Vec<Document> = sets.chain([settings]).collect();
        prop_assert_eq!(paths_of_errors(&check(&documents, &[], None).findings), expected);
    }

    #[test]
    fn every_scalar_is_found_in_json_and_in_yaml(settings in prop_oneof![settings(), damaged(settings())]) {
        let json = serde_json::to_string_pretty(&settings).unwrap();
        let yaml = pillion_yaml::print(&pillion_yaml::Tree::conventional(&settings));
        for text in [json, yaml] {
            let source = Arc::new(Source::new("settings.yaml", text));
            let Some(manifest) = manifest::parse(&source).ok().and_then(|mut all| all.pop()) else { continue };
            for pointer in pointers(&settings) {
                let value = settings.pointer(&pointer).unwrap();
                let path = path_of(&settings, &pointer);
                let target = resolve(&settings, &path);
                prop_assert!(target.is_whole, "{path}");
                if target.pointer != pointer || value.is_object() || value.is_array() || value.is_null() {
                    continue;
                }
                let place = place(&manifest, &path, Aim::Value, None);
                let text = source.text.get(place.span).unwrap();
                // A YAML value over several lines cannot be read without its context.
                let is_on_one_line = |text: &str| !text.is_empty() && !text.contains('\n');
                let is_simple = is_on_one_line(text) && value.as_str().is_none_or(is_on_one_line);
                // Large numbers lose digits in YAML.
                let printed = value.to_string();
                if is_simple && text != printed {
                    let read = manifest::parse(&Arc::new(Source::new("", format!("v: {text}\n"))));
                    prop_assert_eq!(&read.unwrap()[0].value["v"], value, "{} in {}", path, text);
                }
            }
        }
    }
}
