//! The texts in the sources of the rules that refuse.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use regex_lite::Regex;
use serde::Deserialize;

use crate::support::files::{root, text};

/// The crates with rules.
const CRATES: [&str; 5] = ["admission", "identity", "inject", "gardener", "sidecarset"];

/// The sources whose texts go into refusals: those that make reasons, and the modules that write texts for them.
const WRITERS: [&str; 16] = [
    "crates/gardener/src",
    "crates/identity/src/audience.rs",
    "crates/identity/src/conflicts.rs",
    "crates/identity/src/content.rs",
    "crates/identity/src/declared.rs",
    "crates/identity/src/existence.rs",
    "crates/identity/src/partners.rs",
    "crates/identity/src/rules.rs",
    "crates/identity/src/tokens/held.rs",
    "crates/inject/src/merge_patch.rs",
    "crates/sidecarset/src/requested_revision.rs",
    "crates/sidecarset/src/controller_revision.rs",
    "crates/sidecarset/src/validation",
    "crates/bundle/src/config_map.rs",
    "crates/bundle/src/lib.rs",
    "src/payload.rs",
];

/// The fewest words of a text that can be a part of a message.
const WORDS: usize = 3;

/// Returns the texts, each with its file.
pub fn of_refusals() -> Vec<(String, String)> {
    let crates = CRATES.iter().map(|name| root().join("crates").join(name).join("src"));
    let makers = crates.flat_map(|folder| sources(&folder)).filter(|file| code(file).contains("Reason::"));
    let writers = WRITERS.iter().flat_map(|path| sources(&root().join(path)));
    let files: BTreeSet<PathBuf> = makers.chain(writers).collect();
    let mut texts = Vec::new();
    for file in files {
        let name = file.strip_prefix(root()).unwrap().display().to_string();
        texts.extend(literals(&code(&file)).into_iter().map(|literal| (name.clone(), literal)));
    }
    texts
}

/// Returns the Rust files at a path, except for tests.
fn sources(path: &Path) -> Vec<PathBuf> {
    if path.file_stem().is_some_and(|stem| stem == "tests" || stem == "properties") {
        return Vec::new();
    }
    if path.is_dir() {
        return fs::read_dir(path).unwrap().flat_map(|entry| sources(&entry.unwrap().path())).collect();
    }
    if path.extension().is_some_and(|extension| extension == "rs") { vec![path.to_owned()] } else { Vec::new() }
}

/// Returns a source without tests, comments and attributes for lints.
fn code(file: &Path) -> String {
    let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let code = text.split("\n#[cfg(test)]\nmod tests {").next().unwrap();
    let is_code = |line: &&str| {
        let line = line.trim_start();
        !(line.starts_with("//") || line.starts_with("#[allow") || line.starts_with("#[expect"))
    };
    code.lines().filter(is_code).collect::<Vec<_>>().join("\n")
}

/// Returns the string literals of some words.
fn literals(code: &str) -> Vec<String> {
    // A quotation mark in single quotes is a character.
    let code = code.replace("'\"'", "' '");
    let literal = Regex::new(r#"(?s)"((?:[^"\\]|\\.)*)""#).unwrap();
    let joined = Regex::new(r"\\\n\s*").unwrap();
    let found = literal.captures_iter(&code).map(|found| {
        let text = joined.replace_all(&found[1], "").into_owned();
        text.replace("\\\"", "\"").replace("\\n", "\n").replace("\\\\", "\\")
    });
    found.filter(|text| text.split_whitespace().filter(|word| has_letter(word)).count() >= WORDS).collect()
}

/// Whether a word of a format string is a word of the message.
fn has_letter(word: &str) -> bool {
    !word.contains('{') && word.chars().any(char::is_alphabetic)
}

/// Returns a format string with `…` for its arguments.
pub fn with_gaps(literal: &str) -> String {
    let argument = Regex::new(r"\{[^{}]*\}").unwrap();
    argument.replace_all(literal, "…").replace("{{", "{").replace("}}", "}")
}

/// A list of texts, and why they are in no example.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Exempt {
    #[serde(rename = "because")]
    _because: String,
    texts: Vec<String>,
}

/// Returns the texts that are no part of a refusal, or of one that no example can show.
pub fn exempt(file: &str) -> BTreeSet<String> {
    let lists: Vec<Exempt> = serde_saphyr::from_str(&text(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
    lists.into_iter().flat_map(|list| list.texts).collect()
}
