//! The containers and volumes that can authenticate as the account of a Pod (TOK-0, E19, E20).

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

/// Returns the init containers and the containers of a Pod.
pub fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    LISTS.into_iter().flat_map(|list| json::items(pod, &["spec", list]))
}

/// Returns all containers of a running Pod. Ephemeral ones come last: they may share the processes of others.
pub fn running_containers(pod: &Value) -> impl Iterator<Item = &Value> {
    containers(pod).chain(json::items(pod, &["spec", "ephemeralContainers"]))
}

/// A volume that lets its holder authenticate as the Pod's account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder<'a> {
    /// The container that mounts the volume; `None` if no container does. A container that is added later could mount
    /// it.
    pub container: Option<&'a str>,
    /// The name of the volume.
    pub volume: &'a str,
    /// The kind of credential in the volume.
    pub given: Given<'a>,
}

impl Holder<'_> {
    /// Returns the words "container or volume ... has a token of `account`".
    pub fn describe(&self, account: impl fmt::Display) -> String {
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

/// Quotes and shortens a name for a message. The Pod's author chose the name, and it may be long.
pub fn shown(name: &str) -> String {
    format!("{:?}", shortened(name))
}

/// Whether a mount is at the path where clients look for a token.
pub(super) fn is_at_path(mount: &Value) -> bool {
    let path = json::text(mount, &["mountPath"]);
    // Most paths are elsewhere. [`paths::relation`] comes first because it is the quicker check for them (E18).
    paths::relation(path).is_some() && names::is_mount_path(path)
}

/// Whether the API server added this mount to give a container the token of the Pod's account.
pub(super) fn is_automount(mount: &Value, volumes: &Volumes<'_>) -> bool {
    volumes.is_automounted(pod::name(mount)) && is_at_path(mount)
}

/// Whether the API server has mounted the token into any container of the Pod.
pub(super) fn is_automounted(pod: &Value, volumes: &Volumes<'_>) -> bool {
    containers(pod).flat_map(volumes::mounts).any(|mount| is_automount(mount, volumes))
}

/// TOK-0: returns the first holder of a token of the Pod's account, other than through the automounted volume: a
/// container outside `owners`, or a volume that no container mounts. If the Pod's account changed, this token would
/// become one of the new account. Volumes of Pillion do not count.
pub fn further_token<'a>(pod: &'a Value, volumes: &Volumes<'a>, owners: &BTreeSet<&str>) -> Option<Holder<'a>> {
    let holder = |container: Option<&'a str>, volume: &'a str| {
        let given = volumes.given(volume).filter(|_| !volumes::is_called_like_ours(volume))?;
        Some(Holder { container, volume, given })
    };
    // The API server adopts the first volume with a name like that of its own, whatever it contains (SAP-8k). A mount
    // of it at the token path does not count as a use, so that the volume is judged the same before and after the API
    // server adds it.
    let is_adopted = |mount: &Value| pod::name(mount).starts_with(names::AUTOMOUNT_VOLUME_PREFIX) && is_at_path(mount);
    let mut used = BTreeSet::new();
    for container in containers(pod) {
        used.extend(used_without(container, is_adopted).filter(|name| volumes.has(name)));
        let name = pod::name(container);
        if owners.contains(name) {
            continue;
        }
        let found =
            used_without(container, |mount| is_automount(mount, volumes)).find_map(|volume| holder(Some(name), volume));
        if found.is_some() {
            return found;
        }
    }
    let mut unused = volumes.iter().map(pod::name).filter(|name| !used.contains(name));
    unused.find_map(|volume| holder(None, volume).filter(|_| !volumes.is_automounted(volume)))
}

/// Returns the volumes that a container uses, without the mounts for which `is_left_out` holds.
fn used_without(container: &Value, is_left_out: impl Fn(&Value) -> bool) -> impl Iterator<Item = &str> {
    let mounts = volumes::mounts(container).iter().filter(move |mount| !is_left_out(mount));
    mounts.map(pod::name).chain(pod::volumes_used_without_mount(container))
}
