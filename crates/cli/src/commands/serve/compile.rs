//! The module is compiled in a process of its own.
//!
//! A compiler frees most of its memory in pieces that no allocator gives back: a server that compiles its module keeps
//! twice the memory of one that finds it compiled. Therefore the server starts itself once more, with a hidden option.
//! That process compiles the module into a folder, which both use as wasmtime's cache, and ends. If anything fails, the
//! server compiles the module itself.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use pillion_host::CodeCache;
use tempfile::TempDir;

/// The option that names the folder.
pub(super) const OPTION: &str = "--compile-into";

/// A folder for compiled code.
#[derive(Debug)]
pub(super) enum Folder {
    /// The user's, which stays.
    Kept(PathBuf),
    /// One that is removed when this is dropped.
    Temporary(TempDir),
}

impl Folder {
    /// Returns the first folder in which files can be created: `kept`, or a new one in one of `others`.
    fn usable(kept: Option<PathBuf>, others: &[PathBuf]) -> Option<Self> {
        if let Some(kept) = kept.filter(|kept| tempfile::tempfile_in(kept).is_ok()) {
            return Some(Self::Kept(kept));
        }
        let create = |parent| tempfile::Builder::new().prefix("pillion-").tempdir_in(parent).ok();
        others.iter().find_map(create).map(Self::Temporary)
    }

    fn path(&self) -> &Path {
        match self {
            Self::Kept(path) => path,
            Self::Temporary(folder) => folder.path(),
        }
    }

    /// Returns the cache in this folder.
    pub(super) fn cache(&self) -> CodeCache {
        CodeCache::In(self.path().to_owned())
    }
}

/// Lets another process compile the module of these arguments, and returns the folder with the result. Returns `None` if
/// it cannot be done.
pub(super) fn elsewhere() -> Option<Folder> {
    // A container whose file system is read-only has this place in memory nevertheless.
    let others = [std::env::temp_dir(), PathBuf::from("/dev/shm")];
    let folder = Folder::usable(CodeCache::folder(), &others)?;
    let program = std::env::current_exe().ok()?;
    let is_done = compile(&program, std::env::args_os().skip(1).collect(), folder.path());
    is_done.then_some(folder)
}

/// Runs the program with these arguments until it has compiled the module into the folder. Returns whether it has.
fn compile(program: &Path, arguments: Vec<OsString>, folder: &Path) -> bool {
    let mut command = Command::new(program);
    // It says nothing: what is wrong with the module, the server finds out itself.
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.args(arguments).arg(OPTION).arg(folder).status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missing(folder: &TempDir) -> PathBuf {
        folder.path().join("missing")
    }

    #[test]
    fn the_folder_of_the_user_is_preferred_and_stays() {
        let (kept, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let found = Folder::usable(Some(kept.path().to_owned()), &[other.path().to_owned()]).unwrap();
        assert_eq!(found.cache(), CodeCache::In(kept.path().to_owned()));
        drop(found);
        assert!(kept.path().exists());
        assert_eq!(std::fs::read_dir(kept.path()).unwrap().count(), 0, "trying it leaves nothing");
    }

    #[test]
    fn without_a_folder_that_can_be_written_a_temporary_one_is_used() {
        let other = tempfile::tempdir().unwrap();
        let others = [missing(&other), other.path().to_owned()];
        for kept in [None, Some(missing(&other))] {
            let found = Folder::usable(kept, &others).unwrap();
            assert_eq!(found.path().parent(), Some(other.path()));
            drop(found);
            assert_eq!(std::fs::read_dir(other.path()).unwrap().count(), 0, "it is removed");
        }
        assert!(Folder::usable(Some(missing(&other)), &[missing(&other)]).is_none());
    }

    #[test]
    fn a_program_that_does_not_compile_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        assert!(!compile(&missing(&folder), Vec::new(), folder.path()), "it cannot be started");
        // The program of these tests refuses an option that it does not know.
        let program = std::env::current_exe().unwrap();
        assert!(!compile(&program, Vec::new(), folder.path()), "it fails");
        // Behind --, the option is the name of a test, and there is none of that name.
        assert!(compile(&program, vec!["--".into()], folder.path()), "it succeeds");
    }
}
