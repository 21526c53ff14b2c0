//! The files of the repository, the objects in them, and the combinations that their rules list.
#![allow(dead_code, clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)] // Each test file uses its part; a panic is how a test fails.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pillion::manifest::{Source, parse};
use serde_json::Value;

/// The keys of a webhook's rule.
pub const RULE: [&str; 4] = ["apiGroups", "apiVersions", "resources", "operations"];

/// Returns the root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Returns the text of a file in the repository.
pub fn text(name: &str) -> String {
    let path = root().join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the objects of a YAML text. Messages call it `name`.
pub fn objects(name: &str, text: &str) -> Vec<Value> {
    let source = Arc::new(Source::new(name, text));
    parse(&source).unwrap().into_iter().map(|manifest| manifest.value).collect()
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
