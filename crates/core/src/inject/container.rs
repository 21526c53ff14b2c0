//! Making the containers that a `SidecarSet` adds to a Pod (M-14 to M-21).

use serde_json::Value;

use super::sources::{self, Missing, Own};
use crate::json;
use crate::names;
use crate::ordered::Set;
use crate::pod;
use crate::sidecar_set;

/// Fields of a sidecar that are no fields of a container (section 1.3).
pub const SIDECAR_FIELDS: [&str; 6] = [
    "podInjectPolicy",
    "upgradeStrategy",
    "shareVolumePolicy",
    "shareVolumeDevicePolicy",
    "transferEnv",
    "resourcesPolicy",
];

/// Which of the Pod's lists a container belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum List {
    /// `spec.initContainers`.
    Init,
    /// `spec.containers`.
    Containers,
}

impl List {
    /// The key in `spec`, of a Pod as of a `SidecarSet`.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Init => "initContainers",
            Self::Containers => "containers",
        }
    }
}

/// A container to be put into a Pod.
#[derive(Clone, Debug, PartialEq)]
pub struct Sidecar {
    /// The `SidecarSet`'s name.
    pub set: String,
    /// The container.
    pub container: Value,
    /// Whether it goes before the Pod's own containers.
    pub before: bool,
}

impl Sidecar {
    /// The container's name.
    pub fn name(&self) -> &str {
        pod::name(&self.container)
    }
}

/// Whether a sidecar becomes a hot-upgrade pair: only containers and native init containers do (M-21).
pub fn is_pair(sidecar: &Value, list: List) -> bool {
    sidecar_set::is_hot_upgrade(sidecar) && (list == List::Containers || sidecar_set::is_native(sidecar))
}

/// The names of the containers that a sidecar becomes in a Pod: its own, or those of its halves.
pub fn names_in_pod(sidecar: &Value, list: List) -> Vec<String> {
    let name = pod::name(sidecar);
    if is_pair(sidecar, list) { vec![format!("{name}-1"), format!("{name}-2")] } else { vec![name.to_owned()] }
}

/// Makes the containers of one sidecar: one, or a hot-upgrade pair. `resources` replaces the container's, where a
/// resourcesPolicy computed them (E-3).
pub fn build(
    set: &str,
    sidecar: &Value,
    list: List,
    resources: Option<Value>,
    own: &Own<'_>,
    missing: &mut Vec<Missing>,
) -> Vec<Sidecar> {
    let mut container = json::Object::new();
    // Not `collect`, which compiles a sort of its own.
    for (key, value) in sidecar.as_object().into_iter().flatten() {
        if !SIDECAR_FIELDS.contains(&key.as_str()) {
            container.insert(key.clone(), value.clone());
        }
    }
    if let Some(resources) = resources {
        container.insert("resources".to_owned(), resources);
    }
    let (mounts, expanded) = sources::shared_mounts(sidecar, own);
    let transferred = sources::transferred(sidecar, own, missing);
    let env = merged_env(json::items(sidecar, &["env"]), transferred.into_iter().chain(expanded));
    container.insert("env".to_owned(), Value::Array(env));
    share(&mut container, sidecar, &mounts, &sources::shared_devices(sidecar, own));

    let base = pod::name(sidecar);
    let before = json::text(sidecar, &["podInjectPolicy"]) == "BeforeAppContainer";
    let sidecar_of = |container| Sidecar { set: set.to_owned(), container, before };
    if is_pair(sidecar, list) {
        let empty = json::text(sidecar, &["upgradeStrategy", "hotUpgradeEmptyImage"]);
        let working = half(&container, &format!("{base}-1"), None);
        let waiting = half(&container, &format!("{base}-2"), Some(empty));
        vec![sidecar_of(working), sidecar_of(waiting)]
    } else {
        vec![sidecar_of(Value::Object(container))]
    }
}

/// The sidecar's variables, `IS_INJECTED`, then `more` without names that are there already (M-17).
fn merged_env<'a>(env: &[Value], more: impl Iterator<Item = &'a Value>) -> Vec<Value> {
    let mut merged = env.to_vec();
    merged.push(json::object_of([("name", names::ENV_IS_INJECTED.into()), ("value", "true".into())]));
    let mut taken: Set<String> = merged.iter().map(|variable| pod::name(variable).to_owned()).collect();
    for variable in more {
        if taken.insert(pod::name(variable).to_owned()) {
            merged.push(variable.clone());
        }
    }
    merged
}

/// Adds shared mounts and devices whose paths are free (M-18, M-19). Devices come second: they must not collide with
/// the mounts just added.
fn share(container: &mut json::Object, sidecar: &Value, mounts: &[&Value], devices: &[&Value]) {
    let mut paths: Set<&str> = Set::new();
    paths.extend(json::items(sidecar, &["volumeMounts"]).iter().map(mount_path));
    paths.extend(json::items(sidecar, &["volumeDevices"]).iter().map(device_path));
    for (key, shared, path_of) in
        [("volumeMounts", mounts, mount_path as fn(&Value) -> &str), ("volumeDevices", devices, device_path)]
    {
        let added: Vec<Value> =
            shared.iter().filter(|item| paths.insert(path_of(item))).map(|item| (*item).clone()).collect();
        if !added.is_empty()
            && let Some(list) = json::list_mut(container, key)
        {
            list.extend(added);
        }
    }
}

fn mount_path(mount: &Value) -> &str {
    json::text(mount, &["mountPath"])
}

fn device_path(device: &Value) -> &str {
    json::text(device, &["devicePath"])
}

/// One half of a hot-upgrade pair (M-21).
fn half(container: &json::Object, name: &str, image: Option<&str>) -> Value {
    let mut half = container.clone();
    half.insert("name".to_owned(), Value::String(name.to_owned()));
    if let Some(image) = image {
        half.insert("image".to_owned(), Value::String(image.to_owned()));
    }
    if let Some(env) = json::list_mut(&mut half, "env") {
        for (variable, prefix) in
            [(names::ENV_VERSION, names::VERSION_PREFIX), (names::ENV_VERSION_ALT, names::VERSION_ALT_PREFIX)]
        {
            let field = format!("metadata.annotations['{prefix}{name}']");
            let source = json::object_of([("fieldRef", json::object_of([("fieldPath", field.into())]))]);
            env.push(json::object_of([("name", variable.into()), ("valueFrom", source)]));
        }
    }
    Value::Object(half)
}
