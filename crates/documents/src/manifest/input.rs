//! Sources of manifests.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use anyhow::{Context as _, anyhow};
use pillion_yaml::text;

/// The extensions of files that are read in folders.
const EXTENSIONS: [&str; 3] = ["yaml", "yml", "json"];

/// Editors on Windows may start a file with this mark. In the middle of an output it is an error.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// A text and its name for messages.
#[derive(Debug)]
pub struct Source {
    /// The file's path as it was given, or `<stdin>`.
    pub name: String,
    /// The content, without a byte order mark.
    pub text: String,
    /// The byte offset of each line, computed on first use.
    line_starts: OnceLock<Vec<usize>>,
}

impl Source {
    /// Creates a source; drops a byte order mark at the start of the text.
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Self {
        let mut text = text.into();
        if text.starts_with(BYTE_ORDER_MARK) {
            text.drain(..BYTE_ORDER_MARK.len_utf8());
        }
        Self { name: name.into(), text, line_starts: OnceLock::new() }
    }

    /// Reads a file.
    ///
    /// # Errors
    /// If it cannot be read, or is no text.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let name = path.display().to_string();
        let bytes = fs::read(path).with_context(|| name.clone())?;
        Self::decoded(name, &bytes)
    }

    /// Creates a source from the bytes of a file.
    ///
    /// # Errors
    /// If they are no text.
    pub fn decoded(name: impl Into<String>, bytes: &[u8]) -> anyhow::Result<Self> {
        let name = name.into();
        match text::decode(bytes) {
            Ok(text) => Ok(Self::new(name, text)),
            Err(error) => Err(anyhow!("{name}: {error}")),
        }
    }

    /// Returns the line, from 1, of a byte offset.
    pub fn line(&self, offset: usize) -> usize {
        self.line_starts().partition_point(|start| *start <= offset)
    }

    /// Returns the byte offset at which a line, counted from 1, starts; the end of the text if it has fewer lines.
    pub fn line_start(&self, line: usize) -> usize {
        self.line_starts().get(line.saturating_sub(1)).copied().unwrap_or(self.text.len())
    }

    /// Scans the text only once: a file may contain thousands of documents.
    fn line_starts(&self) -> &[usize] {
        self.line_starts.get_or_init(|| {
            let ends = self.text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
            std::iter::once(0).chain(ends.map(|(end, _)| end + 1)).collect()
        })
    }
}

impl PartialEq for Source {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && self.text == other.text
    }
}

impl Eq for Source {}

/// Reads files, the files of folders, and `stdin` for the path `-`.
///
/// # Errors
/// If something cannot be read, is not UTF-8, or a folder contains no manifest.
pub fn sources(paths: &[PathBuf], recursive: bool) -> anyhow::Result<Vec<Arc<Source>>> {
    sources_each(paths, recursive).into_iter().collect()
}

/// Like [`sources`], but continues after a file that cannot be read.
pub fn sources_each(paths: &[PathBuf], recursive: bool) -> Vec<anyhow::Result<Arc<Source>>> {
    let mut sources = Vec::new();
    for path in paths {
        if path.as_os_str() == "-" {
            sources.push(stdin().map(Arc::new));
        } else if path.is_dir() {
            let mut files = Vec::new();
            match list(path, recursive, &mut files) {
                Ok(()) if files.is_empty() => sources.push(Err(nothing_in(path, recursive))),
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

/// The error for a folder without manifests. It names `-R` if the folders inside have some.
fn nothing_in(folder: &Path, recursive: bool) -> anyhow::Error {
    let what = format!("{}: no .yaml, .yml or .json file in this folder", folder.display());
    let mut inside = Vec::new();
    // A folder inside that cannot be read has no files to tell of.
    match list(folder, true, &mut inside) {
        Ok(()) if !recursive && !inside.is_empty() => {
            let them = if inside.len() == 1 { "it" } else { "them" };
            anyhow!("{what}; the folders inside have {}: read {them} with -R", inside.len())
        }
        _ => anyhow!(what),
    }
}

fn read(file: &Path) -> anyhow::Result<Arc<Source>> {
    Source::read(file).map(Arc::new)
}

fn stdin() -> anyhow::Result<Source> {
    let mut bytes = Vec::new();
    std::io::stdin().read_to_end(&mut bytes).context("<stdin>")?;
    Source::decoded("<stdin>", &bytes)
}

fn list(folder: &Path, recursive: bool, files: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    let entries: Result<Vec<_>, _> = fs::read_dir(folder).and_then(Iterator::collect);
    let mut entries: Vec<PathBuf> = entries
        .map(|entries: Vec<fs::DirEntry>| entries.into_iter().map(|entry| entry.path()).collect())
        .with_context(|| folder.display().to_string())?;
    entries.sort();
    for path in entries {
        if path.is_dir() {
            // A link to a parent folder would recurse forever.
            if recursive && !path.is_symlink() {
                list(&path, recursive, files)?;
            }
        } else if path.extension().is_some_and(|extension| EXTENSIONS.iter().any(|known| extension == *known)) {
            files.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::nothing("", &[1])]
    #[case::one_line("ab", &[1, 1, 1])]
    #[case::lines("a\n\nb", &[1, 1, 2, 3, 3])]
    #[case::last_line_feed("a\n", &[1, 1, 2])]
    #[case::mark("\u{feff}a\n", &[1, 1, 2])]
    fn lines_are_counted_from_1(#[case] text: &str, #[case] lines: &[usize]) {
        let source = Source::new("t", text);
        let found: Vec<usize> = (0..=source.text.len()).map(|offset| source.line(offset)).collect();
        assert_eq!(found, lines);
        for line in lines {
            assert_eq!(source.line(source.line_start(*line)), *line);
        }
    }

    #[test]
    fn lines_are_indexed_once() {
        let source = Source::new("t", "a\nb\n");
        assert!(source.line_starts.get().is_none());
        assert_eq!(source.line(2), 2);
        let index = source.line_starts().as_ptr();
        assert_eq!(source.line(3), 2);
        assert_eq!(source.line_starts().as_ptr(), index, "the text was read through again");
    }

    #[test]
    fn texts_are_the_same_whether_their_lines_were_asked_for_or_not() {
        let (one, other) = (Source::new("t", "a\n"), Source::new("t", "a\n"));
        one.line(0);
        assert_eq!(one, other);
    }
}
