//! The files in `schemas/`, which editors load, and the examples that name them.

use std::fs;
use std::path::{Path, PathBuf};

use jsonschema::Validator;
use pillion_install::schema;
use pillion_samples::repository::{files, root};
use rstest::rstest;
use serde_json::{Value, json};

use crate::support::objects;

/// The beginning of the line that names a schema to a YAML language server.
const LINE: &str = "# yaml-language-server: $schema=https://raw.githubusercontent.com/pillion/pillion/main/schemas/";

/// A kind of file with a schema, named as `pillion schema` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Subject {
    Settings,
    Policy,
    Sidecarset,
}

impl Subject {
    const fn name(self) -> &'static str {
        match self {
            Self::Settings => "settings",
            Self::Policy => "policy",
            Self::Sidecarset => "sidecarset",
        }
    }

    fn schema(self) -> Value {
        match self {
            Self::Settings => schema::of_settings(),
            Self::Policy => schema::of_policy(),
            Self::Sidecarset => schema::of_sidecar_set(),
        }
    }

    fn validator(self) -> Validator {
        jsonschema::draft202012::new(&self.schema()).unwrap()
    }

    /// Returns the subject of a file if it has one for all of its documents.
    fn read(path: &Path, documents: &[Value]) -> Option<Self> {
        let of_document = |document: &Value| match document["kind"].as_str() {
            Some("SidecarSet") => Some(Self::Sidecarset),
            Some("ClusterAdmissionPolicy" | "AdmissionPolicy") => Some(Self::Policy),
            None if path.file_stem().is_some_and(|stem| stem == "settings") => Some(Self::Settings),
            _ => None,
        };
        let first = of_document(documents.first()?)?;
        documents.iter().all(|document| of_document(document) == Some(first)).then_some(first)
    }
}

/// Returns the errors of a document.
fn problems(validator: &Validator, document: &Value) -> Vec<String> {
    validator.iter_errors(document).map(|error| format!("{}: {error}", error.instance_path())).collect()
}

#[test]
fn there_is_no_other_file() {
    let files = fs::read_dir(root().join("schemas")).unwrap().map(|entry| entry.unwrap().file_name());
    let mut files: Vec<_> = files.map(|name| name.into_string().unwrap()).collect();
    files.sort();
    assert_eq!(files, ["policy.json", "settings.json", "sidecarset.json"]);
}

/// An editor takes one schema for all documents of a file.
#[rstest]
fn an_example_names_its_schema_and_is_valid(#[files("../../examples/*/*.yaml")] file: PathBuf) {
    let text = fs::read_to_string(&file).unwrap();
    let documents = objects(&file.display().to_string(), &text);
    let named = text.lines().next().and_then(|line| line.strip_prefix(LINE)?.strip_suffix(".json"));
    let subject = Subject::read(&file, &documents);
    assert_eq!(named, subject.map(Subject::name), "{}: the first line", file.display());
    let Some(subject) = subject else { return };
    let validator = subject.validator();
    for document in &documents {
        assert_eq!(problems(&validator, document), [""; 0], "{}", file.display());
    }
}

/// Policies are rendered and not written in an editor.
#[test]
fn there_are_examples_of_what_people_write() {
    let found = files(&root().join("examples"), "yaml");
    let texts: Vec<String> = found.iter().map(|file| fs::read_to_string(file).unwrap()).collect();
    for subject in [Subject::Settings, Subject::Sidecarset] {
        let line = format!("{LINE}{}.json\n", subject.name());
        assert!(texts.iter().any(|text| text.starts_with(&line)), "{subject:?}");
    }
}

fn policy(kind: &str, spec: &Value) -> Value {
    json!({"apiVersion": "policies.kubewarden.io/v1", "kind": kind, "metadata": {"name": "a"}, "spec": spec})
}

#[rstest]
#[case::complete("ClusterAdmissionPolicy", json!({
    "module": "registry://ghcr.io/pillion/policies/pillion:v1", "mutating": true, "policyServer": "default",
    "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}],
    "settings": {"sidecarSets": []}, "contextAwareResources": [{"apiVersion": "v1", "kind": "Namespace"}],
    "matchConditions": [{"name": "a", "expression": "true"}], "timeoutSeconds": 10,
}), true)]
#[case::of_a_namespace("AdmissionPolicy", json!({"module": "a", "rules": [], "settings": {}}), true)]
#[case::an_unknown_setting("ClusterAdmissionPolicy", json!({"module": "a", "settings": {"sidecarsets": []}}), false)]
#[case::an_unknown_field("ClusterAdmissionPolicy", json!({"module": "a", "sidecarSets": []}), false)]
#[case::a_field_of_cluster_wide_policies("AdmissionPolicy", json!({"module": "a", "contextAwareResources": []}), false)]
#[case::no_module("ClusterAdmissionPolicy", json!({"settings": {}}), false)]
#[case::a_long_timeout("ClusterAdmissionPolicy", json!({"module": "a", "timeoutSeconds": 60}), false)]
#[case::another_mode("ClusterAdmissionPolicy", json!({"module": "a", "mode": "audit"}), false)]
fn a_policy_is_checked_with_its_settings(#[case] kind: &str, #[case] spec: Value, #[case] is_valid: bool) {
    let found = problems(&Subject::Policy.validator(), &policy(kind, &spec));
    assert_eq!(found.is_empty(), is_valid, "{found:?}");
}

/// The policies that `pillion manifest` renders are valid.
#[rstest]
fn policies_of_the_repository_are_valid(
    #[files("../../deploy/policy-*.yaml")]
    #[files("../../examples/kubewarden/policies/policy-*.yaml")]
    file: PathBuf,
) {
    let validator = Subject::Policy.validator();
    let text = fs::read_to_string(&file).unwrap();
    for document in objects(&file.display().to_string(), &text) {
        assert_eq!(problems(&validator, &document), [""; 0], "{}", file.display());
    }
}
