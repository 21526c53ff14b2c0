//! Runs the command, and provides manifests for it.

use std::fs;
use std::path::Path;

use assert_cmd::Command;
use serde_json::{Value, json};
use tempfile::TempDir;

pub struct Answer {
    pub code: i32,
    pub out: String,
    pub err: String,
}

pub fn check(folder: &Path, args: &[&str], stdin: &str) -> Answer {
    let output = Command::cargo_bin("pillion")
        .unwrap()
        .current_dir(folder)
        .arg("check")
        .args(args)
        .write_stdin(stdin)
        .output()
        .unwrap();
    Answer {
        code: output.status.code().unwrap(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

pub fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

/// Returns the findings for a text on stdin: severity, line, column, path and message, then the remedy.
pub fn found(text: &str) -> Vec<String> {
    let here = folder(&[]);
    lines(&check(here.path(), &["-", "-o", "json"], text).out)
}

pub fn lines(json: &str) -> Vec<String> {
    let findings: Vec<Value> = serde_json::from_str(json).unwrap();
    let text = |finding: &Value, key: &str| finding[key].as_str().unwrap_or_default().to_owned();
    findings
        .iter()
        .map(|finding| {
            let remedy = text(finding, "remedy");
            format!(
                "{} {}:{} {}: {}{}",
                text(finding, "severity"),
                finding["line"],
                finding["column"],
                text(finding, "path"),
                text(finding, "message"),
                if remedy.is_empty() { String::new() } else { format!(" -> {remedy}") },
            )
        })
        .collect()
}

/// Returns a SidecarSet in YAML. `spec` follows its selector.
pub fn set(name: &str, spec: &str) -> String {
    format!(
        "apiVersion: apps.kruise.io/v1beta1\nkind: SidecarSet\nmetadata:\n  name: {name}\nspec:\n  selector:\n    \
         matchLabels: {{logs: collect}}\n{spec}"
    )
}

pub fn agent(name: &str) -> String {
    format!("  containers:\n  - name: {name}\n    image: agent:1\n")
}

pub fn json_set(name: &str, spec: &Value) -> Value {
    let mut set = json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"logs": "collect"}}, "containers": [{"name": name, "image": "agent:1"}],
        },
    });
    for (key, value) in spec.as_object().unwrap() {
        let part = if key == "annotations" { "metadata" } else { "spec" };
        set[part][key] = value.clone();
    }
    set
}
