//! The files of the repository, and the combinations that rules in them list.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// The keys of a webhook's rule.
pub const RULE: [&str; 4] = ["apiGroups", "apiVersions", "resources", "operations"];

/// Returns the root of the repository.
pub fn root() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).expect("this crate is two folders below the root")
}

/// Returns the text of a file in the repository.
pub fn text(name: &str) -> String {
    let path = root().join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns all files below a folder that have this extension.
pub fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let path = entry.path();
        if entry.file_type().unwrap().is_dir() {
            found.extend(files(&path, extension));
        } else if path.extension().is_some_and(|found| found == extension) {
            found.push(path);
        }
    }
    found
}

/// Returns all combinations of the values that rules of webhooks or roles list under these keys.
pub fn combinations(rules: &Value, keys: &[&str]) -> BTreeSet<Vec<String>> {
    let mut all = BTreeSet::new();
    for rule in rules.as_array().unwrap() {
        let mut heads = vec![Vec::new()];
        for key in keys {
            let tails: Vec<String> =
                rule[key].as_array().unwrap().iter().map(|tail| tail.as_str().unwrap().to_owned()).collect();
            heads = heads
                .iter()
                .flat_map(|head| tails.iter().map(|tail| [&head[..], std::slice::from_ref(tail)].concat()))
                .collect();
        }
        all.extend(heads);
    }
    all
}
