//! Whether the findings are the module's decisions, at places that exist.

use std::sync::Arc;

use pillion_core::settings::Settings;
use pillion_testkit::strategies::{damaged, sidecar_sets};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn findings(settings: &Value) -> Option<Vec<Finding>> {
    let text = serde_json::to_string_pretty(settings).unwrap();
    let source = Arc::new(Source { name: "settings.json".to_owned(), text });
    let manifest = manifest::parse(&source).ok()?.pop()?;
    // What YAML reads is what is judged.
    assert_eq!(&manifest.value, settings);
    Some(check(&[Document { manifest, role: Role::Settings }]))
}

fn paths_of_errors(findings: &[Finding]) -> Vec<String> {
    let errors = findings.iter().filter(|finding| finding.severity == Severity::Error);
    let mut paths: Vec<String> = errors.map(|finding| finding.path.clone()).collect();
    paths.sort();
    paths
}

fn settings() -> impl Strategy<Value = Value> {
    sidecar_sets().prop_map(|sets| json!({"sidecarSets": sets, "featureGates": {}, "systemNamespace": "kruise-system"}))
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
            // The module stops at what it cannot decode; the rest is looked at here all the same.
            for path in &expected {
                prop_assert!(reported.contains(path), "{} is not among {:?}", path, reported);
            }
        }
        for finding in &found {
            prop_assert!(finding.place.source.text.get(finding.place.span.clone()).is_some_and(|text| !text.is_empty()));
            prop_assert!(!finding.message.is_empty());
        }
    }
}
