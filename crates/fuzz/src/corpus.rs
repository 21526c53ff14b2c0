//! The initial inputs of a target: `crates/fuzz/corpus/<target>/*.json`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde_json::Value;

/// An input with the name that a failure reports.
#[derive(Clone, Debug)]
pub struct Named {
    /// The name of the file or of the sample.
    pub name: String,
    /// The input.
    pub input: Value,
}

/// Returns the folder of a target's files.
pub fn folder(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target)
}

/// Returns the inputs of all files of a target, in the order of the files' names.
///
/// # Errors
/// If a file cannot be read or is not JSON, or the folder has no file.
pub fn read(target: &str) -> anyhow::Result<Vec<Named>> {
    let folder = folder(target);
    let entries = fs::read_dir(&folder).with_context(|| folder.display().to_string())?;
    let mut paths: Vec<PathBuf> = entries.map(|entry| Ok(entry?.path())).collect::<anyhow::Result<_>>()?;
    paths.sort();
    let files: Vec<Vec<Named>> = paths.iter().map(|path| read_file(path)).collect::<anyhow::Result<_>>()?;
    anyhow::ensure!(!files.is_empty(), "{} has no files", folder.display());
    Ok(files.into_iter().flatten().collect())
}

/// Returns the inputs of a file: the entries of a list, or the file's only value.
///
/// # Errors
/// If the file cannot be read or is not JSON.
pub fn read_file(path: &Path) -> anyhow::Result<Vec<Named>> {
    let read = || anyhow::Ok(serde_json::from_slice::<Value>(&fs::read(path)?)?);
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    Ok(match read().with_context(|| path.display().to_string())? {
        Value::Array(entries) => entries.into_iter().map(|input| Named { name: name.clone(), input }).collect(),
        input => vec![Named { name, input }],
    })
}
