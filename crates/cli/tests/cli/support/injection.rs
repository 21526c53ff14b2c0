//! A Pod, a SidecarSet that matches it, and `pillion inject` with them.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::{Run, pillion};

/// A SidecarSet for Pods with the label `logs: collect`.
pub const SET: &str = "apiVersion: apps.kruise.io/v1beta1
kind: SidecarSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {logs: collect}}
  containers:
  - {name: agent, image: 'agent:1', podInjectPolicy: AfterAppContainer}
";
/// A Pod with that label.
pub const POD: &str = "apiVersion: v1
kind: Pod
metadata:
  name: p
  namespace: shop
  labels: {logs: collect}   # this is what the set selects
spec:
  containers:
  - name: app
    image: app:1
";
/// An object without Pods.
pub const SERVICE: &str = "# a comment
apiVersion: v1
kind:   Service
metadata: {name: s}
";

/// Runs `pillion inject` in a folder with these files, with a fixed time of injection.
pub fn run(files: &[(&str, &str)], args: &[&str], stdin: &str) -> Run {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    run_in(folder.path(), args, stdin)
}

/// The same in an existing folder.
pub fn run_in(folder: &Path, args: &[&str], stdin: &str) -> Run {
    pillion(folder, &[&["inject", "--now", "2026-01-02T03:04:05Z"], args].concat(), stdin)
}

/// Returns the names of the containers in the Pod spec at a pointer.
pub fn containers(object: &Value, pointer: &str) -> Vec<String> {
    let containers = object.pointer(&format!("{pointer}/spec/containers")).and_then(Value::as_array).unwrap();
    containers.iter().map(|container| container["name"].as_str().unwrap().to_owned()).collect()
}
