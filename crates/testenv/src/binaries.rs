//! Locates the servers' programs.

use std::env;
use std::path::{Path, PathBuf};

use crate::Error;

/// The output folders of `testenv/build`, below cargo's target folder: of everything, and of other versions of Kubernetes.
const BUILT: &str = "testenv/bin";
const VERSIONS: &str = "../versions";
/// The maximum depth of a test's program: `target/<triple>/debug/deps/<name>`.
const DEPTH: usize = 5;
/// The variable that names the folder of envtest's servers.
const ASSETS: &str = "KUBEBUILDER_ASSETS";
/// The variable that names another version of Kubernetes than the usual one: `1.36`.
const VERSION: &str = "PILLION_KUBERNETES";
/// The usual version, that of testenv/go.mod.
const USUAL: &str = "1.34";
/// The servers that have the version of Kubernetes.
const OF_VERSION: [&str; 3] = ["kube-apiserver", "kube-controller-manager", "kube-scheduler"];

/// The folders of the programs.
#[derive(Clone, Debug)]
pub(crate) struct Binaries {
    /// The output folder of `testenv/build`.
    built: PathBuf,
    /// The folder of another version of Kubernetes, which replaces some servers of `built`, and kubelet.
    version: Option<PathBuf>,
    /// The folder of `KUBEBUILDER_ASSETS`, which replaces all servers.
    assets: Option<PathBuf>,
}

impl Binaries {
    /// Takes the servers from `KUBEBUILDER_ASSETS` if that is set, otherwise from the output folders of `testenv/build`: those
    /// of the version that `PILLION_KUBERNETES` names, if it does.
    pub(crate) fn from_environment() -> Self {
        // Cargo puts a test's program below the target folder, wherever that is.
        let running = env::current_exe().ok();
        let mut folders = running.iter().flat_map(|program| program.ancestors().take(DEPTH)).map(|up| up.join(BUILT));
        let built = folders.find(|folder| folder.is_dir());
        let usual = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target").join(BUILT);
        let set = |name| env::var_os(name).filter(|value| !value.is_empty());
        let built = built.unwrap_or_else(usual);
        let version = set(VERSION).filter(|version| version != USUAL);
        let version = version.map(|version| built.join(VERSIONS).join(version));
        Self { built, version, assets: set(ASSETS).map(PathBuf::from) }
    }

    /// Returns the path of the keeper, which always comes from `testenv/build`.
    pub(crate) fn keeper(&self) -> Result<PathBuf, Error> {
        find(&self.built, "keeper", BUILD)
    }

    /// Returns the path of a tool, such as `helm`, which always comes from `testenv/build`.
    pub(crate) fn tool(&self, name: &'static str) -> Result<PathBuf, Error> {
        find(&self.built, name, BUILD)
    }

    /// Returns the path of kubelet.
    pub(crate) fn kubelet(&self) -> Result<PathBuf, Error> {
        self.of_version("kubelet")
    }

    /// Returns the path of a server. Never combines servers of several sources, because their releases may differ.
    pub(crate) fn server(&self, name: &'static str) -> Result<PathBuf, Error> {
        match &self.assets {
            Some(assets) => find(assets, name, UNSET),
            None if OF_VERSION.contains(&name) => self.of_version(name),
            None => find(&self.built, name, BUILD),
        }
    }

    fn of_version(&self, name: &'static str) -> Result<PathBuf, Error> {
        match &self.version {
            Some(version) => find(version, name, BUILD_VERSION),
            None => find(&self.built, name, BUILD),
        }
    }
}

/// Returns the path of a tool that `testenv/build` builds: `helm`, `kubectl`, `kustomize`, `actionlint`, `glua`,
/// `promtool`.
///
/// # Errors
/// If it is not built. The message says how to build it.
pub fn tool(name: &'static str) -> Result<PathBuf, Error> {
    Binaries::from_environment().tool(name)
}

/// Returns the version of Kubernetes that clusters have: `1.34`, or what `PILLION_KUBERNETES` says.
pub fn kubernetes() -> String {
    env::var(VERSION).ok().filter(|version| !version.is_empty()).unwrap_or_else(|| USUAL.to_owned())
}

/// Returns the path of a program of this machine, from the folders of `PATH`.
pub fn installed(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|folder| folder.join(name)).find(|path| path.is_file())
}

const BUILD: &str = "run \"make test-cluster\", or \"testenv/build\" to build the servers alone";
const BUILD_VERSION: &str = "PILLION_KUBERNETES names this version; \"make test-versions VERSIONS=1.X\" builds its servers, and unset it takes others";
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
    fn tools_never_come_from_the_assets() {
        let (built, assets) = (folder(&["helm"]), folder(&["helm"]));
        let binaries =
            Binaries { built: built.path().to_owned(), version: None, assets: Some(assets.path().to_owned()) };
        assert_eq!(binaries.tool("helm").unwrap(), built.path().join("helm"));
        assert!(binaries.tool("kubectl").unwrap_err().to_string().contains("testenv/build"));
    }

    #[test]
    fn servers_come_from_the_assets_where_there_are_any_and_the_keeper_does_not() {
        let (built, assets) = (folder(&["keeper", "etcd"]), folder(&["keeper", "etcd"]));

        let ours = Binaries { built: built.path().to_owned(), version: None, assets: None };
        let theirs = Binaries { assets: Some(assets.path().to_owned()), ..ours.clone() };

        assert_eq!(ours.server("etcd").unwrap(), built.path().join("etcd"));
        assert_eq!(theirs.server("etcd").unwrap(), assets.path().join("etcd"));
        assert_eq!(theirs.keeper().unwrap(), built.path().join("keeper"));
    }

    #[test]
    fn servers_of_another_version_come_with_its_kubelet_and_nothing_else() {
        let (built, version) =
            (folder(&["etcd", "kube-apiserver", "kubelet"]), folder(&["etcd", "kube-apiserver", "kubelet"]));
        let usual = Binaries { built: built.path().to_owned(), version: None, assets: None };
        let other = Binaries { version: Some(version.path().to_owned()), ..usual.clone() };

        assert_eq!(usual.kubelet().unwrap(), built.path().join("kubelet"));
        assert_eq!(other.kubelet().unwrap(), version.path().join("kubelet"));
        assert_eq!(other.server("kube-apiserver").unwrap(), version.path().join("kube-apiserver"));
        assert_eq!(other.server("etcd").unwrap(), built.path().join("etcd"));
        let missing = other.server("kube-scheduler").unwrap_err().to_string();
        assert!(missing.contains("make test-versions"), "{missing}");
    }

    #[test]
    fn a_missing_server_says_what_to_do() {
        let (built, assets) = (folder(&["kwok"]), folder(&[]));

        let ours = Binaries { built: built.path().to_owned(), version: None, assets: None };
        let theirs = Binaries { assets: Some(assets.path().to_owned()), ..ours.clone() };

        let missing = ours.server("etcd").unwrap_err().to_string();
        assert!(missing.contains("\"etcd\" is not in") && missing.contains("run \"make test-cluster\""), "{missing}");
        // Not taken from `testenv/build`: its release may differ from that of the other servers.
        let missing = theirs.server("kwok").unwrap_err().to_string();
        assert!(missing.contains("\"kwok\" is not in") && missing.contains("unset it"), "{missing}");
    }
}
