//! Writing files, whole or not at all.

use std::path::Path;

use anyhow::Context as _;

/// Writes a file. It is there with all of `content` or, where anything goes wrong or the process is stopped, as it was
/// before ([`pillion_host::file::replace`]).
///
/// # Errors
/// Where the file cannot be written; the message names it.
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
