//! Runs the command, and provides manifests for it.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use crate::support::{Run, pillion};

pub fn check(folder: &Path, args: &[&str], stdin: &str) -> Run {
    pillion(folder, &[&["check"], args].concat(), stdin)
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
