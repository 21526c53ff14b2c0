//! The files of the repository, the objects in them, and the combinations that their rules list.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use pillion_documents::manifest::{Source, parse};
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

/// Writes a program. Another process writes it: of this process, children that other tests start meanwhile would inherit
/// the open file, and Linux runs no program that is open for writing.
pub fn write_program(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let written =
        Command::new("sh").args(["-c", "cat > \"$0\" && chmod +x \"$0\""]).arg(path).stdin(Stdio::piped()).spawn();
    let mut written = written.unwrap();
    written.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    assert!(written.wait().unwrap().success(), "{}", path.display());
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
