//! Who can authenticate as the account that a Pod runs under (`serviceaccounts.md` B0, E19, E20).

use std::collections::BTreeSet;
use std::fmt;

use pillion_kubernetes::field::shortened;
use pillion_kubernetes::json;
use pillion_sidecarset::pod;
use serde_json::Value;

use super::volumes::{self, Given, Volumes};
use crate::names;
use crate::paths;

/// The Pod's lists of containers.
pub(super) const LISTS: [&str; 2] = ["initContainers", "containers"];

/// The init containers and the containers of a Pod.
pub fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    LISTS.into_iter().flat_map(|list| json::items(pod, &["spec", list]))
}

/// A volume that lets its holder authenticate as the Pod's account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder<'a> {
    /// The container that mounts it; `None` where no container does. One that is added later may.
    pub container: Option<&'a str>,
    /// The volume.
    pub volume: &'a str,
    /// What it holds.
    pub given: Given<'a>,
}

impl Holder<'_> {
    /// The holder, and that it has a token of `account`.
    pub fn of(&self, account: impl fmt::Display) -> String {
        let holder = self.container.map_or_else(
            || format!("volume {} holds a token of {account}", shown(self.volume)),
            |container| format!("container {} mounts a token of {account}", shown(container)),
        );
        match self.given {
            Given::Token => holder,
            Given::Certificate => format!("{holder} (podCertificate of the volume {})", shown(self.volume)),
            Given::Driver(driver) => format!(
                "{holder} (CSI driver {}, which is not among serviceAccounts.trustedCsiDrivers, in the volume {})",
                shown(driver),
                shown(self.volume)
            ),
        }
    }
}

/// A name in a message: the Pod's author has chosen it, and it may be long.
pub fn shown(name: &str) -> String {
    format!("{:?}", shortened(name))
}

/// Whether a mount is where clients look for a token.
pub(super) fn is_at_path(mount: &Value) -> bool {
    let path = json::text(mount, &["mountPath"]);
    // Most paths are not even near, which shows at one look at their bytes (E18).
    paths::place(path).is_some() && names::is_mount_path(path)
}

/// B0: the first that holds a token of the Pod's account besides the automounted one: a container outside `owners`, or a
/// volume that no container mounts. It would become a token of another account. Volumes of ours are not meant.
pub fn further_token<'a>(pod: &'a Value, volumes: &Volumes<'a>, owners: &BTreeSet<&str>) -> Option<Holder<'a>> {
    let holder = |container: Option<&'a str>, volume: &'a str| {
        let given = volumes.given(volume).filter(|_| !volumes::is_called_like_ours(volume))?;
        Some(Holder { container, volume, given })
    };
    let is_automounted = |mount: &Value| volumes.is_automounted(pod::name(mount)) && is_at_path(mount);
    // The API server mounts the first volume that is called like its own, whatever it holds (A1-k). A volume counts the
    // same before that and after it.
    let is_adopted = |mount: &Value| pod::name(mount).starts_with(names::AUTOMOUNT_VOLUME_PREFIX) && is_at_path(mount);
    let mut used = BTreeSet::new();
    for container in containers(pod) {
        used.extend(used_without(container, is_adopted).filter(|name| volumes.has(name)));
        let name = pod::name(container);
        if owners.contains(name) {
            continue;
        }
        let found = used_without(container, is_automounted).find_map(|volume| holder(Some(name), volume));
        if found.is_some() {
            return found;
        }
    }
    let mut unused = volumes.iter().map(pod::name).filter(|name| !used.contains(name));
    unused.find_map(|volume| holder(None, volume).filter(|_| !volumes.is_automounted(volume)))
}

/// The volumes that a container uses, those left out that only mounts of this kind use.
fn used_without(container: &Value, is_left_out: impl Fn(&Value) -> bool) -> impl Iterator<Item = &str> {
    let mounts = volumes::mounts(container).iter().filter(move |mount| !is_left_out(mount));
    mounts.map(pod::name).chain(volumes::used_otherwise(container))
}
