//! What running Pods override in their sidecars (OVR-10).

use std::collections::BTreeMap;

use pillion_kubernetes::json;
use pillion_sidecarset::overrides::OVERRIDES;
use pillion_sidecarset::sidecar_set::SidecarSet;
use rstest::rstest;
use serde_json::{Value, json};

use super::{NOW, after, pod, read, sidecar_set};
use crate::resize;
use crate::target::{RolloutTarget, Surroundings};
use crate::upgrade::upgrade;

const AGENT: &str = "overrides.pillion.dev/agent";

/// Returns the SidecarSet `logs` with these fields of its container `agent`, and these rules for it.
fn set(container: &Value, agent: &Value) -> SidecarSet {
    let mut set = sidecar_set(container, &json!({}));
    let rules = json!({"outOfBounds": "Refuse", "containers": {"agent": agent}});
    set.as_value_mut()["metadata"]["annotations"][OVERRIDES] = rules.to_string().into();
    set
}

/// Returns a Pod of the SidecarSet with an annotation that overrides the container.
fn overriding(set: &SidecarSet, asked: &Value, container: &Value) -> Value {
    let key = format!("/metadata/annotations/{}", AGENT.replace('/', "~1"));
    pod(set, &[(key.as_str(), asked.to_string().into()), ("/spec/containers/0", container.clone())])
}

fn image(pod: &Value) -> &str {
    pod["spec"]["containers"][0]["image"].as_str().unwrap()
}

#[rstest]
#[case::kept("v1", json!(["v1", "v2"]), "agent:v1")]
#[case::not_allowed_any_more("v1", json!(["v2"]), "agent:v3")]
fn ovr10_an_upgrade_keeps_the_tag_that_a_pod_may_choose(
    #[case] asked: &str,
    #[case] tags: Value,
    #[case] expected: &str,
) {
    let set = set(&json!({"image": "agent:v3"}), &json!({"imageTags": tags}));
    let before = overriding(&set, &json!({"imageTag": asked}), &json!({"name": "agent", "image": "agent:v1"}));
    let seen = read(&before);
    let edit = upgrade(&RolloutTarget::new(&set, &set), &seen, "logs-1", NOW).unwrap();
    let now = after(&before, &edit.step(&seen));
    assert_eq!(image(&now), expected);
    // The Pod has the version, whatever its image.
    let target = RolloutTarget::new(&set, &set);
    assert_eq!(target.recorded_hash(read(&now).records()), set.hash());
}

/// The memory of the sidecar after its resize, and that it is resized at all.
fn resized(set: &SidecarSet, before: &Value, namespace: Option<&Value>) -> Option<String> {
    let of_namespace = namespace.map(|asked| BTreeMap::from([(AGENT.to_owned(), asked.to_string())]));
    let name = before["metadata"]["namespace"].as_str().unwrap().to_owned();
    let overrides = of_namespace.into_iter().map(|all| (name.clone(), all)).collect();
    let target = RolloutTarget::new(set, set).within(Surroundings { now: NOW, overrides, ..Surroundings::default() });
    let step = resize::plan(&target, before).unwrap().resize?;
    let after = after(before, &step);
    Some(json::text(&after["spec"]["containers"][0], &["resources", "limits", "memory"]).to_owned())
}

fn memory(limit: &str) -> Value {
    json!({"resources": {"limits": {"memory": limit}}})
}

#[rstest]
#[case::of_the_pod(memory("512Mi"), None, "512Mi")]
#[case::above_the_bound(memory("8Gi"), None, "1Gi")]
#[case::of_the_namespace(json!({}), Some(memory("96Mi")), "96Mi")]
#[case::of_both(memory("512Mi"), Some(memory("96Mi")), "512Mi")]
#[case::unreadable(json!([]), None, "128Mi")]
fn ovr10_a_resize_keeps_the_amounts_that_a_pod_overrides(
    #[case] asked: Value,
    #[case] namespace: Option<Value>,
    #[case] expected: &str,
    #[values(false, true)] is_computed: bool,
) {
    let fields = if is_computed {
        let policy = json!({
            "targetContainersMode": "sum", "targetContainersNameRegex": ".*",
            "resourcesExpr": {"limits": {"memory": "128Mi"}},
        });
        json!({"image": "agent:v1", "resourcesPolicy": policy})
    } else {
        json!({"image": "agent:v1", "resources": {"limits": {"memory": "128Mi"}}})
    };
    let set = set(&fields, &json!({"memory": {"max": "1Gi"}}));
    let container = |limit: &str| {
        let resources = json!({"limits": {"memory": limit}, "requests": {"memory": limit}});
        json!({"name": "agent", "image": "agent:v1", "resources": resources, "env": [{"name": "IS_INJECTED", "value": "true"}]})
    };
    let before = overriding(&set, &asked, &container("32Mi"));
    assert_eq!(resized(&set, &before, namespace.as_ref()).as_deref(), Some(expected));
    // A Pod that has what it asks for is left alone.
    let before = overriding(&set, &asked, &container(expected));
    assert_eq!(resized(&set, &before, namespace.as_ref()), None);
}
