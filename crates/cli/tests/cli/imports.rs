//! The modules of a crate import each other in one direction only. Cargo ensures the same for crates.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

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

/// The crates whose modules do import each other.
const CIRCULAR: [&str; 1] = ["rollout"];

/// Returns the modules of a crate that import each other, and those that import them.
fn circles(sources: &Path) -> BTreeMap<String, BTreeSet<String>> {
    let mut left = imports(sources);
    // Removes modules that import none of the remaining ones. If modules remain in the end, they form a cycle.
    while let Some(module) = left.iter().find_map(|(module, named)| named.is_empty().then(|| module.clone())) {
        left.remove(&module);
        for named in left.values_mut() {
            named.remove(&module);
        }
    }
    left
}

#[test]
fn no_two_modules_import_each_other() {
    let folders = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("..")).unwrap();
    let mut seen = Vec::new();
    for folder in folders.map(|entry| entry.unwrap().path()).filter(|folder| folder.join("src/lib.rs").exists()) {
        let (name, circles) = (folder.file_name().unwrap().to_str().unwrap().to_owned(), circles(&folder.join("src")));
        if CIRCULAR.contains(&name.as_str()) {
            assert!(!circles.is_empty(), "{name} has no circles any more, so it has to leave the list");
        } else {
            assert_eq!(circles, BTreeMap::new(), "the circles of {name}, and what imports them");
        }
        seen.push(name);
    }
    assert!(["admission", "cli", "rollout"].iter().all(|name| seen.iter().any(|other| other == name)), "{seen:?}");
}

/// Examples in comments are compiled for a crate only if its Cargo.toml does not turn that off, which saves time where
/// there are none.
#[test]
fn examples_in_comments_are_compiled() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut without = 0;
    for folder in fs::read_dir(crates).unwrap().map(|entry| entry.unwrap().path()) {
        let Ok(manifest) = fs::read_to_string(folder.join("Cargo.toml")) else { continue };
        if !manifest.contains("\ndoctest = false\n") {
            continue;
        }
        without += 1;
        for file in files(&folder.join("src")) {
            let text = fs::read_to_string(&file).unwrap();
            let is_example = |line: &str| line.trim_start().starts_with("//") && line.contains("```");
            assert!(
                !text.lines().any(is_example),
                "{} has an example in a comment: remove doctest = false from the Cargo.toml of its crate",
                file.display()
            );
        }
    }
    assert!(without > 10, "{without} crates");
}
