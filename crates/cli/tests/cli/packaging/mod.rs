//! The published files agree: the metadata of the artifacts, artifacthub-pkg.yml, questions-ui.yml, deploy/, the versions
//! of the crates; and the scripts that make a release of them work.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use pillion_admission::settings::Settings;
use pillion_identity::rules::{Allowed, Rules};
use pillion_identity::running::Guards;
use pillion_install::schema::{markdown, members};
use pillion_sidecarset::gates::Gates;
use rstest::rstest;
use serde_json::{Map, Value, json};

use crate::support::files::{objects, text};

mod artifacts;
mod deploy;
mod hooks;
mod identity;
mod publishing;
mod release;
mod workflows;

fn yaml(name: &str) -> Value {
    of_yaml(name, &text(name))
}

/// Reads a workflow. GitHub reads YAML 1.2, in which `on` is a text.
fn workflow(name: &str) -> Value {
    serde_saphyr::from_str(&text(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn of_yaml(name: &str, text: &str) -> Value {
    let [document] = <[_; 1]>::try_from(objects(name, text)).expect("one document");
    document
}

fn annotation(metadata: &Value, name: &str) -> String {
    metadata["annotations"][name].as_str().unwrap_or_else(|| panic!("no annotation {name}")).to_owned()
}

#[test]
fn a_release_has_one_version() {
    let manifest = text("Cargo.toml");
    // The release workflow finds the version like this, and must find exactly one.
    let versions: Vec<_> = manifest.lines().filter_map(|line| line.strip_prefix("version = ")).collect();
    let version = annotation(&yaml("metadata.yml"), "io.kubewarden.policy.version");
    assert_eq!(versions, [format!("\"{version}\"")]);
}

/// Each crate writes its own version into the manifests and reports that it makes.
#[rstest]
fn every_crate_has_the_version_of_the_workspace(#[files("../../crates/*/Cargo.toml")] manifest: PathBuf) {
    let manifest = fs::read_to_string(manifest).unwrap();
    let versions: Vec<_> = manifest.lines().filter(|line| line.starts_with("version")).collect();
    assert_eq!(versions, ["version.workspace = true"]);
}

#[test]
fn the_changelog_speaks_of_the_version() {
    let version = annotation(&yaml("metadata.yml"), "io.kubewarden.policy.version");
    let changelog = text("CHANGELOG.md");
    assert!(
        changelog.lines().any(|line| line.starts_with("## [Unreleased]"))
            || changelog.lines().any(|line| line.starts_with(&format!("## [{version}]"))),
    );
}

fn sorted(list: &Value) -> BTreeSet<String> {
    list.as_array().unwrap().iter().map(Value::to_string).collect()
}

/// Returns all questions, including nested ones.
fn questions(of: &Value) -> Vec<Value> {
    let mut all = Vec::new();
    for key in ["questions", "subquestions", "sequence_questions"] {
        for question in of[key].as_array().into_iter().flatten() {
            all.push(question.clone());
            all.extend(questions(question));
        }
    }
    all
}

#[test]
fn every_question_can_be_shown() {
    let all = questions(&yaml("questions-ui.yml"));
    for question in &all {
        let kind = question["type"].as_str().unwrap();
        assert!(["sequence[", "map[", "array[", "string", "boolean", "int", "enum"].contains(&kind), "{question}");
        for key in ["variable", "label", "group"] {
            assert!(question[key].as_str().is_some_and(|text| !text.is_empty()), "{key} of {question}");
        }
        if kind == "enum" {
            assert!(question["options"].as_array().unwrap().contains(&question["default"]), "{question}");
        }
    }
}

/// The form stores fields of list items under their own name, so a dot would become a part of the key.
#[test]
fn fields_of_items_have_names_without_dots() {
    for question in questions(&yaml("questions-ui.yml")) {
        for field in question["sequence_questions"].as_array().into_iter().flatten() {
            assert!(!field["variable"].as_str().unwrap().contains('.'), "{field}");
        }
    }
}

/// Returns the settings that the form stores with its suggestions unchanged, with one item in every list.
fn suggested(questions: &Value) -> Value {
    let mut settings = json!({});
    for question in questions["questions"].as_array().unwrap() {
        store(&mut settings, question);
        for question in question["subquestions"].as_array().into_iter().flatten() {
            store(&mut settings, question);
        }
    }
    settings
}

fn store(settings: &mut Value, question: &Value) {
    // A list with a default is stored as it is.
    let is_empty = question["default"].as_array().is_some_and(Vec::is_empty);
    let value = match question["sequence_questions"].as_array().filter(|_| is_empty) {
        Some(fields) => {
            let item: Map<_, _> = fields
                .iter()
                .map(|field| (field["variable"].as_str().unwrap().to_owned(), field["default"].clone()))
                .collect();
            json!([item])
        }
        None => question["default"].clone(),
    };
    let mut place = settings;
    for key in question["variable"].as_str().unwrap().split('.') {
        place = &mut place[key];
    }
    *place = value;
}

#[test]
fn what_the_form_suggests_are_valid_settings() {
    let settings = Settings::decode(suggested(&yaml("questions-ui.yml"))).unwrap();
    assert_eq!(settings.validate(), []);
    assert_eq!(settings.sidecar_sets.len(), 1);
    assert_eq!(settings.controller_revisions.len(), 1);
    assert_eq!(settings.system_namespace, pillion_admission::settings::SYSTEM_NAMESPACE);
    assert_eq!(settings.gates, Gates::default());
    let everything = Allowed { namespaces: vec!["*".parse().unwrap()], names: vec!["*".parse().unwrap()] };
    let sorted = |rules: Rules| {
        let mut denied = rules.denied().into_owned();
        denied.sort();
        Rules { deny_permissions: Some(denied), ..rules }
    };
    let one = Allowed { namespaces: vec!["*".parse().unwrap()], names: vec!["log-agent".parse().unwrap()] };
    let guards = Guards { token_request_accounts: vec![one], ..Guards::default() };
    let expected = Rules { allowed: vec![everything], guards, ..Rules::default() };
    assert_eq!(sorted(settings.service_accounts), sorted(expected));
}

/// The setting that the policy has no use for. The form fills in a policy, so it does not ask for it.
const OF_CONTROLLERS: &str = "rollouts";

/// The settings of `serviceAccounts` that contain others.
const NESTED: [&str; 2] = ["guards", "tokenContainers"];

/// Returns the schemas of the settings in the form. Settings that contain others appear member by member.
fn wanted() -> BTreeMap<String, Value> {
    let of_settings =
        members("").filter(|(setting, _)| *setting != OF_CONTROLLERS).flat_map(|(setting, schema)| match setting {
            "bundleRef" | "featureGates" | "otherWebhooks" | "serviceAccounts" | "shoots" => members(setting)
                .flat_map(|(key, schema)| match schema["properties"].as_object().filter(|_| NESTED.contains(&key)) {
                    Some(members) => {
                        let members = members.iter();
                        members.map(|(of, schema)| (format!("{setting}.{key}.{of}"), schema.clone())).collect()
                    }
                    None => vec![(format!("{setting}.{key}"), schema.clone())],
                })
                .collect(),
            _ => vec![(setting.to_owned(), schema.clone())],
        });
    of_settings.collect()
}

/// The form asks for every setting, and for nothing else.
#[test]
fn the_form_asks_for_every_setting() {
    let form = yaml("questions-ui.yml");
    let asked = form["questions"].as_array().unwrap().iter().map(|question| question["variable"].as_str().unwrap());
    let asked: BTreeSet<&str> = asked.collect();
    let wanted = wanted();
    assert_eq!(asked, wanted.keys().map(String::as_str).collect());
}

/// The form offers the choices of the schema, and suggests the policy's defaults.
#[test]
fn the_form_offers_what_the_schema_says() {
    let wanted = wanted();
    for question in yaml("questions-ui.yml")["questions"].as_array().unwrap() {
        let schema = &wanted[question["variable"].as_str().unwrap()];
        let choices = markdown::choices(schema);
        if !choices.is_empty() {
            let choices: BTreeSet<String> = choices.into_iter().map(|choice| Value::from(choice).to_string()).collect();
            assert_eq!(sorted(&question["options"]), choices, "{question}");
        }
        if let Some(default) = schema.get("default") {
            assert_eq!(&question["default"], default, "{}", question["variable"]);
        }
    }
}
