//! Writing files, whole or not at all.

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::Path;

use anyhow::Context as _;

/// Writes a file. It is there with all of `content` or, where anything goes wrong or the process is stopped, as it was
/// before: the content goes to a file beside it that then takes its name.
///
/// A path that is no regular file (`/dev/stdout`, a named pipe) is written to as it is; a link is followed.
///
/// # Errors
/// Where the file cannot be written; the message names it.
pub fn write(path: &Path, content: &[u8]) -> anyhow::Result<()> {
    put(path, content).with_context(|| path.display().to_string())
}

fn put(path: &Path, content: &[u8]) -> std::io::Result<()> {
    let before = fs::metadata(path).ok();
    if before.as_ref().is_some_and(|there| !there.is_file()) {
        return fs::write(path, content);
    }
    let path = &fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let temporary = path.with_file_name(temporary_name(path));
    let written = OpenOptions::new().write(true).create_new(true).open(&temporary).and_then(|mut file| {
        file.write_all(content)?;
        if let Some(before) = before {
            file.set_permissions(before.permissions())?;
        }
        file.sync_all()
    });
    let renamed = written.and_then(|()| fs::rename(&temporary, path));
    if renamed.is_err() {
        // The first error is the one to tell.
        let _ = fs::remove_file(&temporary);
    }
    renamed
}

/// Hidden, and of this process alone.
fn temporary_name(path: &Path) -> OsString {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{}.tmp", std::process::id()));
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_as_a_whole_and_nothing_else_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("page.1");
        write(&path, b"one").unwrap();
        write(&path, b"two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn errors_name_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let error = write(&folder.path().join("none/page.1"), b"").unwrap_err();
        assert!(format!("{error:#}").contains("none/page.1: "), "{error:#}");
        fs::create_dir(folder.path().join("page.1")).unwrap();
        assert!(write(&folder.path().join("page.1"), b"").is_err());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[cfg(unix)]
    #[test]
    fn links_are_followed_and_permissions_kept() {
        use std::os::unix::fs::{PermissionsExt as _, symlink};
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        fs::write(&file, "one").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        symlink(&file, &link).unwrap();
        write(&link, b"two").unwrap();
        assert!(link.is_symlink());
        assert_eq!(fs::read(&file).unwrap(), b"two");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
    }
}
