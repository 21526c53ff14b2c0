//! Samples: inputs of every kind, each with an entry in every list and map that the policy reads.

mod clusters;
mod guarded;
mod pods;
mod sets;
mod tables;

use pillion_bench::corpus::requests::{Resource, create, update};
use pillion_bench::engine::Counter;
use serde_json::{Map, Value, json};

use super::Input;

/// The parts of a bundle that do not grow alone: bodies of SidecarSets decode to the same values as those of
/// `settings.sidecarSets`, which grow in other samples. The list itself grows, and the data that a bundle stores
/// besides the bodies.
const BODIES: &[&str] = &[
    "/bundle/0/spec/containers",
    "/bundle/0/spec/initContainers",
    "/bundle/0/spec/volumes",
    "/bundle/0/spec/imagePullSecrets",
    "/bundle/0/spec/patchPodMetadata",
    "/bundle/0/spec/updateStrategy",
    "/bundle/0/spec/serviceAccountPermissions",
    "/bundle/1/",
];
/// The second SidecarSet of the settings, which equals the first in structure.
const SECOND: &[&str] = &["/settings/sidecarSets/1/"];

/// Returns the feature gate of identities, switched on.
fn gate() -> Value {
    json!({"SidecarSetServiceAccountInjection": true})
}

/// Returns all samples. Some are built from answers of the policy, for which `counter` evaluates it.
///
/// # Errors
/// If the policy refuses a sample from which another one is built.
pub fn all(counter: &Counter) -> anyhow::Result<Vec<Input>> {
    let mut all = pods::inputs(counter)?;
    all.extend(guarded::inputs());
    all.extend(sidecar_sets());
    all.extend(tables::inputs());
    Ok(all)
}

/// Returns the samples of SidecarSets in requests, and of settings that contain them.
fn sidecar_sets() -> Vec<Input> {
    let (set, other) = (sets::rich("agent"), sets::rich("other"));
    let mut before = set.clone();
    merge(&mut before, &json!({"spec": {"serviceAccountPermissions": [], "paused": true}}));
    let settings = |sets: Value| {
        json!({
            "sidecarSets": sets, "featureGates": gate(), "serviceAccounts": sets::rules(),
            "patchPodMetadataWhitelist": sets::whitelist(),
        })
    };
    let mut whole = settings(json!([set, other]));
    merge(
        &mut whole,
        &json!({
            "controllerRevisions": [sets::revision("agent")],
            "shoots": {"enabled": true, "pathPrefixes": ["spec.kubernetes.kubeAPIServer"]},
            "bundleRef": {"namespace": "pillion-system", "name": "sidecarsets"}, "bundleMaxAge": "1h30m",
            "systemNamespace": "kruise-system", "onBundleUnavailable": "UseSettings", "role": "Inject",
        }),
    );
    let looks_up = |mut settings: Value| {
        if let Some(settings) = settings.as_object_mut() {
            settings.remove("patchPodMetadataWhitelist");
        }
        settings
    };
    vec![
        Input::validate("sidecarset/create", create(Resource::SIDECAR_SET, &set))
            .with("settings", settings(json!([other])))
            .with("objects", clusters::objects()),
        Input::validate("sidecarset/update", update(Resource::SIDECAR_SET, "", &before, &set))
            .with("settings", looks_up(settings(json!([other]))))
            .with("objects", clusters::objects())
            .about(&["/request/oldObject", "/request/object/spec", "/objects"]),
        Input::validate("sidecarset/v1alpha1", create(Resource::SIDECAR_SET_V1ALPHA1, &sets::v1alpha1("agent")))
            .with("settings", settings(json!([other])))
            .with("objects", clusters::objects())
            .about(&["/request/object/metadata"]),
        Input::validate("sidecarset/bundle", create(Resource::SIDECAR_SET, &set))
            .with("settings", json!({"featureGates": gate(), "patchPodMetadataWhitelist": sets::whitelist()}))
            .with("objects", clusters::objects())
            .with("bundle", json!([other]))
            .about(&["/bundle"])
            .apart_from(BODIES),
        Input::settings("settings/whole", whole).apart_from(SECOND),
        Input::settings("settings/bundle", json!({"featureGates": gate()}))
            .with("bundle", json!([set, other]))
            .about(&["/bundle"])
            .apart_from(BODIES),
    ]
}

/// Writes the members of `patch` into `value`, recursively for objects.
fn merge(value: &mut Value, patch: &Value) {
    match (value, patch) {
        (Value::Object(object), Value::Object(patch)) => {
            for (key, patch) in patch {
                merge(object.entry(key.clone()).or_insert(Value::Null), patch);
            }
        }
        (value, patch) => *value = patch.clone(),
    }
}

/// Returns the object with these fields merged into it.
fn with(mut value: Value, patch: &Value) -> Value {
    merge(&mut value, patch);
    value
}

/// Returns an object with these members.
fn object(members: impl IntoIterator<Item = (String, Value)>) -> Value {
    Value::Object(members.into_iter().collect::<Map<_, _>>())
}
