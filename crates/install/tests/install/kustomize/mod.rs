//! deploy/kustomize is what the renderings say. `cluster::kustomize` builds and applies it.

pub mod content;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use pillion_samples::repository::root as workspace;

use self::content::{FOLDER, Folder, builds, folders, identity};

/// The variable that makes the test write the files.
const RENEW: &str = "PILLION_RENEW";

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let below = |path: PathBuf| if path.is_dir() { files_below(&path) } else { vec![path] };
    entries.flat_map(|entry| below(entry.unwrap().path())).collect()
}

#[test]
fn the_files_are_what_is_rendered() {
    let folder = workspace().join(FOLDER);
    let of_folder = |it: Folder| it.files.into_iter().map(move |(name, text)| (it.path.clone(), name, text));
    let wanted: BTreeMap<PathBuf, String> = folders()
        .into_iter()
        .flat_map(of_folder)
        .map(|(path, name, text)| (folder.join(path).join(name), text))
        .collect();
    let mut generated = files_below(&folder);
    generated.retain(|path| *path != folder.join("README.md"));
    let renew = std::env::var_os(RENEW).is_some();
    let mut stale = BTreeSet::new();
    for path in generated.iter().filter(|path| !wanted.contains_key(*path)) {
        if renew {
            fs::remove_file(path).unwrap();
        } else {
            stale.insert(path.clone());
        }
    }
    for (path, text) in &wanted {
        if renew {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        } else if fs::read_to_string(path).ok().as_deref() != Some(text) {
            stale.insert(path.clone());
        }
    }
    assert!(
        stale.is_empty(),
        "stale: {stale:?}; renew them with: {RENEW}=1 cargo test --workspace --test install kustomize::"
    );
}

#[test]
fn no_object_is_rendered_twice() {
    for build in builds() {
        let identities: BTreeSet<_> = build.objects.iter().map(identity).collect();
        assert_eq!(identities.len(), build.objects.len(), "{}", build.name());
    }
}

#[test]
fn the_readme_names_every_folder() {
    let readme = fs::read_to_string(workspace().join(FOLDER).join("README.md")).unwrap();
    for folder in folders() {
        let row = format!("| [{0}]({0})", folder.path);
        assert!(readme.contains(&row), "{row}");
    }
}
