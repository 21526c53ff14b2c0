//! Writing files.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// Writes a file in whole or not at all: into a file beside it, which then takes its name. What is no regular file,
/// such as `/dev/stdout`, is written to as it stands; a link stays a link.
///
/// # Errors
/// Where the file cannot be written; what was there before is still there then.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let target = match fs::metadata(path) {
        Ok(found) if found.is_dir() => return Err(io::Error::from(io::ErrorKind::IsADirectory)),
        Ok(found) if !found.is_file() => return fs::write(path, bytes),
        Ok(_) => fs::canonicalize(path)?,
        Err(_) => path.to_owned(),
    };
    let beside = beside(&target)?;
    let written = write_new(&beside, bytes)
        .and_then(|()| keep_permissions(&target, &beside))
        .and_then(|()| fs::rename(&beside, &target));
    if written.is_err() {
        // Nothing to be done where this fails too.
        let _ = fs::remove_file(&beside);
    }
    written
}

/// A name in the same folder that nobody else uses.
fn beside(path: &Path) -> io::Result<PathBuf> {
    let name = path.file_name().ok_or_else(|| io::Error::from(io::ErrorKind::InvalidFilename))?;
    let mut hidden = OsString::from(".");
    hidden.push(name);
    hidden.push(format!(".{}.tmp", std::process::id()));
    Ok(path.with_file_name(hidden))
}

fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create_new(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

fn keep_permissions(old: &Path, new: &Path) -> io::Result<()> {
    match fs::metadata(old) {
        Ok(found) => fs::set_permissions(new, found.permissions()),
        Err(_) => Ok(()),
    }
}
