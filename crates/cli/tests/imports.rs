//! The imports between the modules of a crate run one way. Cargo sees to those between crates.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)] // A panic is how a test fails.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use rstest::rstest;

/// Every module beside lib.rs, with the modules beside it that its code names. Tests may look at everything.
fn imports(sources: &Path) -> BTreeMap<String, BTreeSet<String>> {
    let mut imports: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let entries = fs::read_dir(sources).unwrap().map(|entry| entry.unwrap().path());
    for path in entries.filter(|path| path.file_name().unwrap() != "lib.rs") {
        let module = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let named = imports.entry(module.clone()).or_default();
        for file in files(&path) {
            let is_beside = file.parent() == Some(sources) || file.ends_with(format!("{module}/mod.rs"));
            named.extend(names(&file, is_beside));
        }
    }
    let modules: BTreeSet<String> = imports.keys().cloned().collect();
    for (module, named) in &mut imports {
        named.retain(|name| name != module && modules.contains(name));
    }
    imports
}

/// The files of a module, tests apart.
fn files(path: &Path) -> Vec<PathBuf> {
    let is_test = |path: &Path| ["tests", "properties"].contains(&path.file_stem().unwrap().to_str().unwrap());
    if is_test(path) {
        return Vec::new();
    }
    if path.is_file() {
        return vec![path.to_owned()];
    }
    fs::read_dir(path).unwrap().flat_map(|entry| files(&entry.unwrap().path())).collect()
}

/// The names that follow `crate::` in a file, and `super::` if the file is beside lib.rs.
fn names(file: &Path, is_beside: bool) -> BTreeSet<String> {
    let text = fs::read_to_string(file).unwrap();
    let code = text.split("\n#[cfg(test)]\nmod tests {").next().unwrap();
    let code: String = code.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n");
    let roots = if is_beside { &["crate::", "super::"][..] } else { &["crate::"] };
    let word = |rest: &str| rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap().to_owned();
    roots.iter().flat_map(|root| code.split(root).skip(1).map(word).collect::<Vec<_>>()).collect()
}

#[rstest]
fn no_two_modules_import_each_other(
    #[values(
        "admission",
        "bundle",
        "explain",
        "gardener",
        "identity",
        "inject",
        "kubernetes",
        "pattern",
        "plan",
        "sidecarset"
    )]
    name: &str,
) {
    let mut left = imports(&Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name).join("src"));
    assert!(!left.is_empty());
    // A module that imports nothing of what is left can be read; in the end nothing is left, unless there is a circle.
    while let Some(module) = left.iter().find_map(|(module, named)| named.is_empty().then(|| module.clone())) {
        left.remove(&module);
        for named in left.values_mut() {
            named.remove(&module);
        }
    }
    assert_eq!(left, BTreeMap::new(), "the circles of {name}, and what imports them");
}
