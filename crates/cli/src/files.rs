//! Atomic writing of files.

use std::path::Path;

use anyhow::Context as _;

/// Writes a file atomically: it ends up with all of `content` or, after an error or if the process is stopped,
/// unchanged ([`pillion_host::file::replace`]).
///
/// # Errors
/// If the file cannot be written; the message names the file.
pub fn write(path: &Path, content: &[u8]) -> anyhow::Result<()> {
    pillion_host::file::replace(path, content).with_context(|| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let error = write(&folder.path().join("none/page.1"), b"").unwrap_err();
        assert!(format!("{error:#}").contains("none/page.1: "), "{error:#}");
    }
}
