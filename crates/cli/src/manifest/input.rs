//! Where texts come from.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, anyhow};

/// The files of a folder that are read.
const EXTENSIONS: [&str; 3] = ["yaml", "yml", "json"];

/// A text and what people call it.
#[derive(Debug, PartialEq, Eq)]
pub struct Source {
    /// The file's path as it was given, or `<stdin>`.
    pub name: String,
    /// What it holds.
    pub text: String,
}

impl Source {
    /// The line, from 1, of a byte of the text.
    pub fn line(&self, offset: usize) -> usize {
        self.text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1
    }
}

/// Reads files, the files of folders, and `stdin` where the path is `-`.
///
/// # Errors
/// Where something cannot be read, is no UTF-8, or a folder holds no manifest.
pub fn sources(paths: &[PathBuf], recursive: bool) -> anyhow::Result<Vec<Arc<Source>>> {
    sources_each(paths, recursive).into_iter().collect()
}

/// [`sources`] for those who go on after a file that cannot be read.
pub fn sources_each(paths: &[PathBuf], recursive: bool) -> Vec<anyhow::Result<Arc<Source>>> {
    let mut sources = Vec::new();
    for path in paths {
        if path.as_os_str() == "-" {
            sources.push(stdin().map(Arc::new));
        } else if path.is_dir() {
            let mut files = Vec::new();
            match list(path, recursive, &mut files) {
                Ok(()) if files.is_empty() => {
                    sources.push(Err(anyhow!("{}: no .yaml, .yml or .json file in this folder", path.display())));
                }
                Ok(()) => {}
                Err(error) => sources.push(Err(error)),
            }
            sources.extend(files.iter().map(|file| read(file)));
        } else {
            sources.push(read(path));
        }
    }
    sources
}

fn read(file: &Path) -> anyhow::Result<Arc<Source>> {
    let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
    Ok(Arc::new(Source { name: file.display().to_string(), text }))
}

fn stdin() -> anyhow::Result<Source> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).context("<stdin>")?;
    Ok(Source { name: "<stdin>".to_owned(), text })
}

fn list(folder: &Path, recursive: bool, files: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    let entries: Result<Vec<_>, _> = fs::read_dir(folder).and_then(Iterator::collect);
    let mut entries: Vec<PathBuf> = entries
        .map(|entries: Vec<fs::DirEntry>| entries.into_iter().map(|entry| entry.path()).collect())
        .with_context(|| folder.display().to_string())?;
    entries.sort();
    for path in entries {
        if path.is_dir() {
            // A link that leads up would never end.
            if recursive && !path.is_symlink() {
                list(&path, recursive, files)?;
            }
        } else if path.extension().is_some_and(|extension| EXTENSIONS.iter().any(|known| extension == *known)) {
            files.push(path);
        }
    }
    Ok(())
}
