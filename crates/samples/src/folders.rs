//! Folders of a test.

use std::fs;

use tempfile::TempDir;

/// Returns a folder with these files, by their paths in it. Dropping it deletes it.
pub fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}
