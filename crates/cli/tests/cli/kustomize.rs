//! deploy/kustomize is what the renderings say. `cluster::kustomize` builds and applies it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use pillion_testkit::module::workspace;

use crate::support::kustomize::{FOLDER, all, identity};

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
    let mut wanted: BTreeMap<PathBuf, String> = BTreeMap::new();
    for kustomization in all() {
        let place = folder.join(&kustomization.folder);
        wanted.extend(kustomization.files.into_iter().map(|(name, text)| (place.join(name), text)));
    }
    let generated = ["base", "overlays"].map(|part| files_below(&folder.join(part))).concat();
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
        "stale: {stale:?}; renew them with: {RENEW}=1 cargo test --workspace --test cli kustomize::"
    );
}

#[test]
fn no_object_is_rendered_twice() {
    for kustomization in all() {
        let identities: BTreeSet<_> = kustomization.objects.iter().map(identity).collect();
        assert_eq!(identities.len(), kustomization.objects.len(), "{}", kustomization.folder);
    }
}

#[test]
fn the_readme_names_every_kustomization() {
    let readme = fs::read_to_string(workspace().join(FOLDER).join("README.md")).unwrap();
    for kustomization in all() {
        let row = format!("| [{0}]({0})", kustomization.folder);
        assert!(readme.contains(&row), "{row}");
    }
}
