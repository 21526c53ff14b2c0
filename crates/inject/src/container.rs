//! Builds the containers that a `SidecarSet` adds to a Pod (INJ-14 to INJ-21).

use std::collections::BTreeSet;

use pillion_kubernetes::json;
use pillion_kubernetes::unique;
use pillion_sidecarset::names;
use pillion_sidecarset::pod;
use pillion_sidecarset::sidecar::{List, is_pair, names_in_pod};
use serde_json::{Value, json};

use super::sources::Taken;

/// Fields of a sidecar that a container does not have (API-7).
pub const SIDECAR_FIELDS: [&str; 6] = [
    "podInjectPolicy",
    "upgradeStrategy",
    "shareVolumePolicy",
    "shareVolumeDevicePolicy",
    "transferEnv",
    "resourcesPolicy",
];

/// A container to add to a Pod.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sidecar {
    /// The `SidecarSet`'s name.
    pub set: String,
    /// The list of the `SidecarSet` in which the sidecar is written, and its position there.
    pub written: (List, usize),
    /// The container.
    pub container: Value,
    /// Whether the container goes before the Pod's own containers.
    pub before: bool,
    /// Whether a resourcesPolicy computed its resources.
    pub is_computed: bool,
}

impl Sidecar {
    /// Returns the container's name.
    pub fn name(&self) -> &str {
        pod::name(&self.container)
    }

    /// Whether it is written as a container; in the list of init containers, those have become native sidecars (NAT-2).
    pub fn is_written_as_container(&self) -> bool {
        self.written.0 == List::Containers
    }
}

/// Builds the containers of one sidecar: one, or a hot-upgrade pair. `resources`, the result of a resourcesPolicy,
/// replaces those of the sidecar (EXPR-3).
pub fn build(
    set: &str,
    (list, written, sidecar): (List, (List, usize), &Value),
    resources: Option<Value>,
    taken: &Taken<'_, '_>,
) -> Vec<Sidecar> {
    let mut container = json::Object::new();
    let is_computed = resources.is_some();
    let env = merged_env(json::items(sidecar, &["env"]), taken.variables());
    container.insert("env".to_owned(), Value::Array(env));
    if let Some(resources) = resources {
        container.insert("resources".to_owned(), resources);
    }
    for (key, value) in sidecar.as_object().into_iter().flatten() {
        if !SIDECAR_FIELDS.contains(&key.as_str()) && !container.contains_key(key) {
            container.insert(key.clone(), value.clone());
        }
    }
    share(&mut container, sidecar, taken.mounts, taken.devices);

    let before = goes_before(sidecar);
    let mut built = Vec::new();
    let mut add = |container| built.push(Sidecar { set: set.to_owned(), written, container, before, is_computed });
    if is_pair(sidecar, list) {
        let empty = json::text(sidecar, &["upgradeStrategy", "hotUpgradeEmptyImage"]);
        let images = [None, Some(empty)];
        for (name, image) in names_in_pod(sidecar, list).into_iter().zip(images) {
            add(half(container.clone(), name, image));
        }
    } else {
        add(Value::Object(container));
    }
    built
}

/// Whether a sidecar goes before the Pod's own containers (INJ-25).
pub(crate) fn goes_before(sidecar: &Value) -> bool {
    json::text(sidecar, &["podInjectPolicy"]) == "BeforeAppContainer"
}

/// Returns the sidecar's variables, `IS_INJECTED`, and those of `more` whose names are new (INJ-17).
fn merged_env<'a>(env: &'a [Value], more: impl Iterator<Item = &'a Value>) -> Vec<Value> {
    let own: BTreeSet<&str> = env.iter().map(pod::name).chain([names::ENV_IS_INJECTED]).collect();
    let more: Vec<&Value> = more.filter(|variable| !own.contains(pod::name(variable))).collect();
    let first = unique::are_first(more.iter().map(|variable| pod::name(variable)));
    let mut merged = env.to_vec();
    merged.push(json!({"name": names::ENV_IS_INJECTED, "value": "true"}));
    merged.extend(more.into_iter().zip(first).filter(|(_, is_first)| *is_first).map(|(variable, _)| variable.clone()));
    merged
}

/// Adds shared mounts and devices whose paths the sidecar itself does not use (INJ-18, INJ-19). They do not conflict
/// with each other: [`Taken`] has one for each path.
fn share(container: &mut json::Object, sidecar: &Value, mounts: &[&Value], devices: &[&Value]) {
    let lists = [("volumeMounts", "mountPath", mounts), ("volumeDevices", "devicePath", devices)];
    let used = lists
        .into_iter()
        .flat_map(|(key, path, _)| json::items(sidecar, &[key]).iter().map(move |item| json::text(item, &[path])));
    let used: BTreeSet<&str> = used.collect();
    for (key, path, shared) in lists {
        let mut free = shared.iter().copied().filter(|item| !used.contains(json::text(item, &[path]))).peekable();
        if free.peek().is_some()
            && let Some(list) = json::list_mut(container, key)
        {
            list.extend(free.cloned());
        }
    }
}

/// Returns one container of a hot-upgrade pair (INJ-21).
fn half(mut half: json::Object, name: String, image: Option<&str>) -> Value {
    if let Some(image) = image {
        half.insert("image".to_owned(), image.into());
    }
    if let Some(env) = json::list_mut(&mut half, "env") {
        for (key, prefix) in
            [(names::ENV_VERSION, names::VERSION_PREFIX), (names::ENV_VERSION_ALT, names::VERSION_ALT_PREFIX)]
        {
            let field = format!("metadata.annotations['{prefix}{name}']");
            env.push(json!({"name": key, "valueFrom": {"fieldRef": {"fieldPath": field}}}));
        }
    }
    half.insert("name".to_owned(), name.into());
    Value::Object(half)
}
