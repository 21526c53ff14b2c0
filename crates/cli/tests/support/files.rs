//! Files of the repository, the objects in them, and what their rules list.
#![allow(dead_code, clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)] // Each test file uses its part; a panic is how a test fails.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pillion::manifest::{Source, parse};
use serde_json::Value;

/// What the rules of webhooks say.
pub const RULE: [&str; 4] = ["apiGroups", "apiVersions", "resources", "operations"];

/// The root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// A file of the repository.
pub fn text(name: &str) -> String {
    let path = root().join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The objects of a YAML text, which messages call `name`.
pub fn objects(name: &str, text: &str) -> Vec<Value> {
    let source = Arc::new(Source::new(name, text));
    parse(&source).unwrap().into_iter().map(|manifest| manifest.value).collect()
}

/// Every combination of what some rules of webhooks or roles list under these keys.
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
