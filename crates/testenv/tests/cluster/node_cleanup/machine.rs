//! What nodes leave alone on the machine.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// The settings of the kernel that kubelet changes, and a value that it gives.
const SETTINGS: [&str; 6] = [
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
];
/// The folders to which kubelet and containerd write.
const PLACES: [&str; 4] = ["/var/lib/kubelet", "/var/log", "/run/containerd", "/var/lib/containerd"];

/// The machine's state at one moment.
#[derive(Debug, PartialEq, Eq)]
pub struct Machine {
    settings: BTreeMap<&'static str, Option<String>>,
    /// The names of the entries of each folder that exists.
    places: BTreeMap<&'static str, Option<BTreeSet<String>>>,
}

impl Machine {
    /// Returns the settings of the kernel.
    pub fn settings(&self) -> BTreeMap<&'static str, Option<String>> {
        self.settings.clone()
    }

    pub fn look() -> Self {
        Self {
            settings: settings(Path::new("/")),
            places: PLACES.into_iter().map(|place| (place, entries(Path::new(place)))).collect(),
        }
    }
}

/// Returns the settings of the kernel as the processes with this root see them.
pub fn settings(root: &Path) -> BTreeMap<&'static str, Option<String>> {
    let value = |setting| fs::read_to_string(root.join("proc/sys").join(setting)).ok();
    SETTINGS.into_iter().map(|setting| (setting, value(setting))).collect()
}

fn entries(place: &Path) -> Option<BTreeSet<String>> {
    let entries = fs::read_dir(place).ok()?;
    Some(entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect())
}
