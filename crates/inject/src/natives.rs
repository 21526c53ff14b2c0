//! Warnings about mounts and devices of the Pod's own native sidecars, which no policy shares (INJ-15, INJ-19).

use std::collections::BTreeSet;

use pillion_identity::paths;
use pillion_kubernetes::json;
use pillion_sidecarset::made;
use pillion_sidecarset::pod::{self, Pod};
use pillion_sidecarset::sidecar::{List, is_native, names_in_pod};
use pillion_sidecarset::sidecar_set::SidecarSet;
use serde_json::Value;

use super::sources::shares;

/// The most mounts and devices of native sidecars that are looked at (E18).
const ITEMS_MAX: usize = 100;

/// What a policy shares.
struct Shared {
    /// The field of a sidecar with the policy.
    policy: &'static str,
    /// The list of a container.
    list: &'static str,
    /// The key of an item's path.
    path: &'static str,
    /// The items in messages.
    items: &'static str,
}

const SHARED: [Shared; 2] = [
    Shared { policy: "shareVolumePolicy", list: "volumeMounts", path: "mountPath", items: "mounts" },
    Shared { policy: "shareVolumeDevicePolicy", list: "volumeDevices", path: "devicePath", items: "devices" },
];

/// A mount or a device that only native sidecars of the Pod have.
struct Left<'a> {
    container: &'a str,
    volume: &'a str,
    path: &'a str,
}

/// Warns of mounts and devices that a sidecar asks for by its policy, and that only native sidecars of the Pod have. The
/// reference shares those of containers only, without a word.
pub(crate) fn unshared(pod: Pod<'_>, sets: &[SidecarSet]) -> Vec<String> {
    let mut warnings = Vec::new();
    let natives = own_natives(pod, sets);
    if natives.is_empty() {
        return warnings;
    }
    for shared in &SHARED {
        let left = left(pod, &natives, shared);
        for set in sets.iter().filter(|_| !left.is_empty()) {
            for (_, _, sidecar) in made::sidecars(set).filter(|(_, _, sidecar)| shares(sidecar, shared.policy)) {
                warnings.extend(warning(set.name(), sidecar, shared, &left));
            }
        }
    }
    warnings
}

fn own_natives<'a>(pod: Pod<'a>, sets: &[SidecarSet]) -> Vec<&'a Value> {
    let is_candidate = |container: &&Value| is_native(container) && !pod::is_injected(container);
    let mut natives: Vec<&Value> = pod.init_containers().iter().filter(is_candidate).collect();
    if !natives.is_empty() {
        let sidecars: BTreeSet<String> =
            sets.iter().flat_map(SidecarSet::init_containers).flat_map(|it| names_in_pod(it, List::Init)).collect();
        natives.retain(|container| !sidecars.contains(pod::name(container)));
    }
    natives
}

/// Returns what native sidecars have at paths at which no container has anything. Tokens of the Pod are no matter of
/// sharing.
fn left<'a>(pod: Pod<'a>, natives: &[&'a Value], shared: &Shared) -> Vec<Left<'a>> {
    let path = |item: &'a Value| json::text(item, &[shared.path]);
    let items = |container: &'a Value| json::items(container, &[shared.list]).iter();
    let there: BTreeSet<&str> = pod.containers().iter().flat_map(items).map(path).collect();
    let all = natives.iter().flat_map(|container| items(container).map(|item| (pod::name(container), item)));
    let left = all.filter(|(_, item)| !there.contains(path(item)) && paths::relation(path(item)).is_none());
    let left = left.map(|(container, item)| Left { container, volume: pod::name(item), path: path(item) });
    left.take(ITEMS_MAX).collect()
}

/// Returns the warning about a sidecar, unless it has all of these itself.
fn warning(set: &str, sidecar: &Value, shared: &Shared, left: &[Left<'_>]) -> Option<String> {
    let own = json::items(sidecar, &[shared.list]);
    let is_missing = |left: &&Left<'_>| {
        !own.iter().any(|item| pod::name(item) == left.volume || json::text(item, &[shared.path]) == left.path)
    };
    let mut missing = left.iter().filter(is_missing);
    let first = missing.next()?;
    let more = match missing.count() {
        0 => String::new(),
        count => format!(" (and {count} more)"),
    };
    let Shared { policy, list, items, .. } = shared;
    Some(format!(
        "SidecarSet {set}: {}: {policy} shares the {items} of containers only, not \"{}\" of init container \"{}\"{more}; \
         name its volume in {list} to have it",
        pod::name(sidecar),
        first.path,
        first.container
    ))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    const SOCKET: &str = "SidecarSet tail: tail: shareVolumePolicy shares the mounts of containers only, not \"/socket\" of \
                          init container \"db-proxy\"; name its volume in volumeMounts to have it";

    fn native(fields: &Value) -> Value {
        let mut native = json!({
            "name": "db-proxy", "restartPolicy": "Always",
            "volumeMounts": [{"name": "socket", "mountPath": "/socket"}],
        });
        for (key, value) in fields.as_object().unwrap() {
            native[key] = value.clone();
        }
        native
    }

    fn told(init_container: &Value, app: &Value, sidecar: &Value) -> Vec<String> {
        let mut tail = sidecar.clone();
        tail["name"] = json!("tail");
        let set = json!({"metadata": {"name": "tail"}, "spec": {"containers": [tail]}});
        let pod = json!({"spec": {"initContainers": [init_container], "containers": [app]}});
        unshared(Pod::decode(&pod).unwrap(), &[SidecarSet::from_decoded(set)])
    }

    #[rstest]
    #[case::a_mount(native(&json!({})), json!({"name": "app"}), &[SOCKET])]
    #[case::an_init_container_that_ends(native(&json!({"restartPolicy": null})), json!({"name": "app"}), &[])]
    #[case::an_injected_one(
        native(&json!({"env": [{"name": "IS_INJECTED", "value": "true"}]})), json!({"name": "app"}), &[]
    )]
    #[case::a_container_has_it(
        native(&json!({})),
        json!({"name": "app", "volumeMounts": [{"name": "other", "mountPath": "/socket"}]}), &[]
    )]
    #[case::a_token(
        native(&json!({"volumeMounts": [{"name": "t", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}]})),
        json!({"name": "app"}), &[]
    )]
    #[case::several(
        native(&json!({"volumeMounts": [{"name": "a", "mountPath": "/a"}, {"name": "b", "mountPath": "/b"}]})),
        json!({"name": "app"}),
        &["SidecarSet tail: tail: shareVolumePolicy shares the mounts of containers only, not \"/a\" of init container \
           \"db-proxy\" (and 1 more); name its volume in volumeMounts to have it"]
    )]
    fn inj15_mounts_of_native_sidecars_are_told(
        #[case] init_container: Value,
        #[case] app: Value,
        #[case] expected: &[&str],
    ) {
        assert_eq!(told(&init_container, &app, &json!({"shareVolumePolicy": {"type": "enabled"}})), expected);
        assert_eq!(told(&init_container, &app, &json!({"shareVolumePolicy": {"type": "disabled"}})), [""; 0]);
    }

    #[rstest]
    #[case::by_its_volume(json!({"name": "socket", "mountPath": "/elsewhere"}))]
    #[case::by_its_path(json!({"name": "own", "mountPath": "/socket"}))]
    fn inj15_a_sidecar_that_has_the_mount_itself_lacks_nothing(#[case] mount: Value) {
        let sidecar = json!({"shareVolumePolicy": {"type": "enabled"}, "volumeMounts": [mount]});
        assert_eq!(told(&native(&json!({})), &json!({"name": "app"}), &sidecar), [""; 0]);
    }

    #[test]
    fn inj19_devices_of_native_sidecars_are_told() {
        let native = native(&json!({"volumeDevices": [{"name": "disk", "devicePath": "/dev/x"}]}));
        let sidecar = json!({"shareVolumeDevicePolicy": {"type": "enabled"}});
        assert_eq!(
            told(&native, &json!({"name": "app"}), &sidecar),
            [
                "SidecarSet tail: tail: shareVolumeDevicePolicy shares the devices of containers only, not \"/dev/x\" of init \
              container \"db-proxy\"; name its volume in volumeDevices to have it"
            ]
        );
    }
}
