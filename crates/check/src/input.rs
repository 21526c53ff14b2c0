//! Reads the documents to check, including those before and after an unreadable one.

use std::ops::Range;
use std::sync::Arc;

use pillion_documents::manifest::{self, Manifest, Source};
use pillion_documents::place::FilePlace;
use pillion_install::rendering::process;
use pillion_kubernetes::json;

use super::documents::{Document, Role, is_settings, role};
use crate::report::{Finding, Severity};

/// The documents of all files, and the errors of reading them.
#[derive(Default)]
pub struct Input {
    /// The documents, in the order of the files.
    pub documents: Vec<Document>,
    /// Errors of texts that are not documents.
    pub findings: Vec<Finding>,
    /// The names of the files, in order.
    pub files: Vec<String>,
    /// Errors of files and folders that cannot be read.
    pub unreadable: Vec<Finding>,
}

impl Input {
    /// Reads the documents of a file. With `is_settings`, treats each as settings unless it is a policy.
    pub fn read(&mut self, source: &Arc<Source>, is_settings: bool) {
        // Read a file that is given twice only once.
        if self.files.contains(&source.name) {
            return;
        }
        self.files.push(source.name.clone());
        for parsed in manifest::parse_each(source) {
            match parsed {
                Ok(manifest) => self.add(manifest, is_settings),
                Err(error) => self.findings.extend(broken(source, error, is_settings)),
            }
        }
    }

    fn add(&mut self, manifest: Manifest, is_settings: bool) {
        let Some((source, settings)) = mounted(&manifest) else {
            let role = if is_settings { settings_role(&manifest) } else { role(&manifest.value) };
            self.documents.push(Document { manifest, role });
            return;
        };
        for parsed in settings {
            match parsed {
                Ok(settings) => self.documents.push(Document { manifest: settings, role: Role::Settings }),
                Err(error) => self.findings.extend(broken(&source, error, true)),
            }
        }
    }

    /// Records that a file or a folder cannot be read.
    pub fn miss(&mut self, error: &anyhow::Error) {
        let text = format!("{error:#}");
        let (name, message) = text.split_once(": ").unwrap_or(("", &text));
        let source = Arc::new(Source::new(name, ""));
        self.unreadable.push(finding(FilePlace::at(&source, 1, 1), message.to_owned()));
    }

    /// Returns the number of documents with a role.
    pub fn count(&self, role: Role) -> usize {
        self.documents.iter().filter(|document| document.role == role).count()
    }

    /// Whether there is a document to judge.
    pub fn has_work(&self) -> bool {
        let is_beside = |role| matches!(role, Role::Other | Role::Namespace | Role::Whitelist | Role::Rbac);
        self.documents.iter().any(|document| !is_beside(document.role))
    }
}

/// Returns the role of a document given with `--settings`, which also accepts policies that contain the settings.
fn settings_role(manifest: &Manifest) -> Role {
    match role(&manifest.value) {
        role @ (Role::Policy | Role::PolicyGroup) => role,
        _ => Role::Settings,
    }
}

/// Returns a part of a text with everything before it blanked, so that positions stay the same.
fn alone(source: &Source, range: Range<usize>) -> Arc<Source> {
    let before = source.text.get(..range.start).unwrap_or_default();
    let mut text: String = before.bytes().map(|byte| if byte == b'\n' { '\n' } else { ' ' }).collect();
    text.push_str(source.text.get(range).unwrap_or_default());
    Arc::new(Source::new(source.name.as_str(), text))
}

type Parsed = Vec<Result<Manifest, manifest::Error>>;

/// Returns the settings in a ConfigMap for `pillion serve` or `pillion controller`, and their source. Their positions
/// are those in the file if the ConfigMap contains the settings line by line. Returns `None` for any other document.
fn mounted(manifest: &Manifest) -> Option<(Arc<Source>, Parsed)> {
    let text = json::text(&manifest.value, &["data", process::SETTINGS_FILE]);
    let is_config_map = json::text(&manifest.value, &["apiVersion"]) == "v1"
        && json::text(&manifest.value, &["kind"]) == "ConfigMap"
        && !text.is_empty();
    if !is_config_map {
        return None;
    }
    let name = format!("{} ({})", manifest.source.name, process::SETTINGS_FILE);
    let source = Arc::new(Source::new(name, text));
    let apart = manifest::parse_each(&source);
    let looks_so = apart.iter().flatten().any(|settings| is_settings(&settings.value));
    if !looks_so && process::settings_in(&manifest.value).is_none() {
        return None;
    }
    let values = |parsed: &Parsed| parsed.iter().flatten().map(|found| found.value.clone()).collect::<Vec<_>>();
    let in_place = in_place(manifest).map(|source| (manifest::parse_each(&source), source));
    let is_the_same = |found: &Parsed| found.len() == apart.len() && values(found) == values(&apart);
    match in_place.filter(|(found, _)| is_the_same(found)) {
        Some((found, source)) => Some((source, found)),
        None => Some((source, apart)),
    }
}

/// Returns the file's text up to the end of the ConfigMap's settings, with everything before them blanked.
fn in_place(manifest: &Manifest) -> Option<Arc<Source>> {
    let span = manifest.value_at(&format!("/data/{}", pillion_yaml::token(process::SETTINGS_FILE)))?;
    let before = manifest.source.text.get(..span.start)?;
    let line = before.rfind('\n').map_or(0, |at| at + 1);
    let is_indented = before.get(line..)?.trim().is_empty();
    Some(alone(&manifest.source, if is_indented { line } else { span.start }..span.end))
}

/// Returns the finding for an unreadable document. A document that is not an object is a finding only in settings.
fn broken(source: &Arc<Source>, error: manifest::Error, is_settings: bool) -> Option<Finding> {
    match error {
        manifest::Error::Syntax { summary, at, .. } => {
            let (line, column) = at.unwrap_or((1, 1));
            Some(finding(FilePlace::at(source, line, column), summary))
        }
        manifest::Error::NotAnObject { line, found, .. } if is_settings => {
            Some(finding(FilePlace::at(source, line, 1), format!("settings are an object, this is {found}")))
        }
        manifest::Error::NotAnObject { .. } => None,
    }
}

fn finding(place: FilePlace, message: String) -> Finding {
    Finding {
        severity: Severity::Error,
        place,
        path: String::new(),
        message,
        remedy: String::new(),
        sidecar_set: String::new(),
        rule: None,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn read(text: &str) -> Input {
        let mut input = Input::default();
        input.read(&Arc::new(Source::new("a.yaml", text)), false);
        input
    }

    #[rstest]
    #[case::first("a: [1\n---\nkind: B\n---\nkind: C\n", &[(3, "B"), (5, "C")], 1)]
    #[case::in_between("kind: A\n---\na: [1\n---\nkind: C\n", &[(1, "A"), (5, "C")], 3)]
    #[case::last("kind: A\n--- # two\nkind: B\n---\na: [1\n", &[(1, "A"), (3, "B")], 5)]
    #[case::not_a_separator("kind: A\ntext: |\n  ---\n  x\n---\nkind: 'ä\n---\nkind: C\n", &[(1, "A"), (8, "C")], 6)]
    fn documents_around_a_broken_one_are_read(
        #[case] text: &str,
        #[case] kinds: &[(usize, &str)],
        #[case] broken: usize,
    ) {
        let input = read(text);
        let found: Vec<(usize, &str)> = input
            .documents
            .iter()
            .map(|document| (document.manifest.line(), document.manifest.value["kind"].as_str().unwrap()))
            .collect();
        assert_eq!(found, kinds);
        let lines: Vec<usize> = input.findings.iter().map(|finding| finding.place.start().line).collect();
        assert_eq!(lines, [broken]);
    }

    #[rstest]
    #[case::block(
        "apiVersion: v1\nkind: ConfigMap\ndata:\n  settings.yaml: |\n    sidecarSets: []\n    role: 5\n",
        "a.yaml",
        6
    )]
    #[case::kept(
        "apiVersion: v1\nkind: ConfigMap\ndata:\n  settings.yaml: |+\n\n    sidecarSets: []\n    role: 5\n\n",
        "a.yaml",
        7
    )]
    #[case::quoted(
        "{\"apiVersion\": \"v1\", \"kind\": \"ConfigMap\", \"data\": {\"settings.yaml\": \"sidecarSets: []\\nrole: 5\\n\"}}",
        "a.yaml (settings.yaml)",
        2
    )]
    fn settings_of_a_config_map_keep_their_place(#[case] text: &str, #[case] name: &str, #[case] line: usize) {
        let input = read(text);
        let [document] = input.documents.as_slice() else { panic!("{:?}", input.documents) };
        assert_eq!((document.role, &document.manifest.value), (Role::Settings, &json!({"sidecarSets": [], "role": 5})));
        let span = document.manifest.value_at("/role").unwrap();
        assert_eq!((document.manifest.source.name.as_str(), document.manifest.source.line(span.start)), (name, line));
    }

    #[test]
    fn other_config_maps_are_left_alone() {
        let input = read("apiVersion: v1\nkind: ConfigMap\ndata: {settings.yaml: 'theme: dark'}\n");
        assert_eq!(input.count(Role::Other), 1);
    }

    #[test]
    fn a_file_that_is_not_there_is_named() {
        let mut input = Input::default();
        input.miss(&anyhow::anyhow!("No such file").context("gone.yaml"));
        let found = &input.unreadable[0];
        assert_eq!((found.place.source.name.as_str(), found.message.as_str()), ("gone.yaml", "No such file"));
    }
}
