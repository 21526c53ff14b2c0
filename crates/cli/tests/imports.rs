//! The modules of a crate import each other in one direction only. Cargo ensures the same for crates.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)] // A panic is how a test fails.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use rstest::rstest;

/// Returns every module next to lib.rs, with the modules next to it that its code names. Tests may import everything.
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

/// Returns the files of a module, except for tests.
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

/// Returns the names after `crate::` in a file, and those after `super::` if the file is next to lib.rs.
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
        "bench",
        "bundle",
        "certificates",
        "cli",
        "controller",
        "explain",
        "fuzz",
        "gardener",
        "host",
        "identity",
        "inject",
        "json",
        "kubernetes",
        "pattern",
        "plan",
        "sidecarset",
        "site",
        "testenv",
        "testkit"
    )]
    name: &str,
) {
    let mut left = imports(&Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name).join("src"));
    assert!(!left.is_empty());
    // Removes modules that import none of the remaining ones. If modules remain in the end, they form a cycle.
    while let Some(module) = left.iter().find_map(|(module, named)| named.is_empty().then(|| module.clone())) {
        left.remove(&module);
        for named in left.values_mut() {
            named.remove(&module);
        }
    }
    assert_eq!(left, BTreeMap::new(), "the circles of {name}, and what imports them");
}

/// Returns the crates of this workspace that a crate depends on, by the names of their folders, from the section
/// `[dependencies]` of its Cargo.toml.
fn dependencies(manifest: &Path) -> BTreeSet<String> {
    let text = fs::read_to_string(manifest).unwrap();
    let section = text.split("\n[").find_map(|section| section.strip_prefix("dependencies]\n"));
    let lines = section.unwrap_or_default().lines();
    lines.filter_map(|line| Some(line.strip_prefix("pillion-")?.split(['.', ' ', '=']).next()?.to_owned())).collect()
}

/// An edit in a crate that is missing here would leave an old module in the command line, or in policy.wasm.
#[test]
fn the_module_is_built_anew_after_an_edit_in_any_of_its_crates() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut crates = dependencies(&root.join("Cargo.toml"));
    loop {
        let more: BTreeSet<String> =
            crates.iter().flat_map(|name| dependencies(&root.join("crates").join(name).join("Cargo.toml"))).collect();
        if more.is_subset(&crates) {
            break;
        }
        crates.extend(more);
    }
    assert!(crates.contains("admission") && crates.contains("json"), "{crates:?}");
    let list = |file: &str, start: &str, separators: &[char]| -> BTreeSet<String> {
        let text = fs::read_to_string(root.join(file)).unwrap();
        let (_, rest) = text.split_once(start).unwrap();
        let line = rest.split(['\n', ']']).find(|line| !line.trim().is_empty()).unwrap();
        line.split(separators).filter(|name| !name.is_empty()).map(str::to_owned).collect()
    };
    assert_eq!(list("Makefile", "\nRULES :=", &[' ']), crates, "Makefile");
    assert_eq!(list("crates/cli/build.rs", "const RULES: [&str; 9] =\n    [", &['"', ',', ' ']), crates, "build.rs");
}
