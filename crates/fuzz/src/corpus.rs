//! The inputs that a target begins with: `crates/fuzz/corpus/<target>/*.json`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde_json::Value;

/// An input under the name that a failure tells.
#[derive(Clone, Debug)]
pub struct Named {
    /// The file, or the name of a sample.
    pub name: String,
    /// The input.
    pub input: Value,
}

/// The folder of a target's files.
pub fn folder(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target)
}

/// The inputs of all files of a target, in the order of the files' names.
///
/// # Errors
/// A file cannot be read, or is not JSON; or the folder has no file.
pub fn read(target: &str) -> anyhow::Result<Vec<Named>> {
    let folder = folder(target);
    let entries = fs::read_dir(&folder).with_context(|| folder.display().to_string())?;
    let mut paths: Vec<PathBuf> = entries.map(|entry| Ok(entry?.path())).collect::<anyhow::Result<_>>()?;
    paths.sort();
    let files: Vec<Vec<Named>> = paths.iter().map(|path| read_file(path)).collect::<anyhow::Result<_>>()?;
    anyhow::ensure!(!files.is_empty(), "{} has no files", folder.display());
    Ok(files.into_iter().flatten().collect())
}

/// The inputs of a file: the entries if it holds a list, else the file is one input.
///
/// # Errors
/// The file cannot be read, or is not JSON.
pub fn read_file(path: &Path) -> anyhow::Result<Vec<Named>> {
    let read = || anyhow::Ok(serde_json::from_slice::<Value>(&fs::read(path)?)?);
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    Ok(match read().with_context(|| path.display().to_string())? {
        Value::Array(entries) => entries.into_iter().map(|input| Named { name: name.clone(), input }).collect(),
        input => vec![Named { name, input }],
    })
}
