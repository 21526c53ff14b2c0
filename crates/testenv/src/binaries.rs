//! Where the servers' programs are.

use std::env;
use std::path::{Path, PathBuf};

use crate::Error;

/// Where `testenv/build` puts its programs, below cargo's target folder.
const BUILT: &str = "testenv/bin";
/// A test's program is `target/<triple>/debug/deps/<name>` at most.
const DEPTH: usize = 5;
/// Where envtest's users keep their servers.
const ASSETS: &str = "KUBEBUILDER_ASSETS";

/// The programs that can be started.
#[derive(Clone, Debug)]
pub(crate) struct Binaries {
    /// What `testenv/build` makes.
    built: PathBuf,
    /// What stands in for the servers among them.
    assets: Option<PathBuf>,
}

impl Binaries {
    /// In `KUBEBUILDER_ASSETS`, where that is set, and else where `testenv/build` puts them.
    pub(crate) fn from_environment() -> Self {
        // Cargo puts a test's program below the target folder, wherever that is.
        let running = env::current_exe().ok();
        let mut folders = running.iter().flat_map(|program| program.ancestors().take(DEPTH)).map(|up| up.join(BUILT));
        let built = folders.find(|folder| folder.is_dir());
        let usual = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target").join(BUILT);
        let assets = env::var_os(ASSETS).filter(|value| !value.is_empty()).map(PathBuf::from);
        Self { built: built.unwrap_or_else(usual), assets }
    }

    /// The program that holds the servers. It is always ours.
    pub(crate) fn keeper(&self) -> Result<PathBuf, Error> {
        find(&self.built, "keeper", BUILD)
    }

    /// A server. Never one of ours beside one of another release.
    pub(crate) fn server(&self, name: &'static str) -> Result<PathBuf, Error> {
        match &self.assets {
            Some(assets) => find(assets, name, UNSET),
            None => find(&self.built, name, BUILD),
        }
    }
}

const BUILD: &str = "run \"make test-cluster\", or \"testenv/build\" to build the servers alone";
const UNSET: &str =
    "KUBEBUILDER_ASSETS names this folder; unset it to take the servers that \"make test-cluster\" builds";

fn find(folder: &Path, program: &'static str, remedy: &'static str) -> Result<PathBuf, Error> {
    let path = folder.join(program);
    if path.is_file() { Ok(path) } else { Err(Error::Missing { program, folder: folder.to_owned(), remedy }) }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn folder(programs: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for program in programs {
            fs::write(folder.path().join(program), "").unwrap();
        }
        folder
    }

    #[test]
    fn servers_come_from_the_assets_where_there_are_any_and_the_keeper_does_not() {
        let (built, assets) = (folder(&["keeper", "etcd"]), folder(&["keeper", "etcd"]));

        let ours = Binaries { built: built.path().to_owned(), assets: None };
        let theirs = Binaries { assets: Some(assets.path().to_owned()), ..ours.clone() };

        assert_eq!(ours.server("etcd").unwrap(), built.path().join("etcd"));
        assert_eq!(theirs.server("etcd").unwrap(), assets.path().join("etcd"));
        assert_eq!(theirs.keeper().unwrap(), built.path().join("keeper"));
    }

    #[test]
    fn a_missing_server_says_what_to_do() {
        let (built, assets) = (folder(&["kwok"]), folder(&[]));

        let ours = Binaries { built: built.path().to_owned(), assets: None };
        let theirs = Binaries { assets: Some(assets.path().to_owned()), ..ours.clone() };

        let missing = ours.server("etcd").unwrap_err().to_string();
        assert!(missing.contains("\"etcd\" is not in") && missing.contains("run \"make test-cluster\""), "{missing}");
        // Not ours: it may be of another release than the servers it would work with.
        let missing = theirs.server("kwok").unwrap_err().to_string();
        assert!(missing.contains("\"kwok\" is not in") && missing.contains("unset it"), "{missing}");
    }
}
