use pillion_identity::rules::Rules;
use pillion_kubernetes::time::Timestamp;
use pillion_sidecarset::pod::Pod;
use pillion_sidecarset::sidecar_set::SidecarSet;
use rstest::rstest;
use serde_json::{Value, json};

use crate::tests::set;
use crate::{Context, plan};

use super::*;

const MIRRORED: &str = "mirror.example/hub/team/agent:1";

fn kept() -> OtherWebhooks {
    serde_json::from_value(json!({"imageRegistries": ["mirror.example/hub"], "variables": ["HTTP_PROXY", "NO_PROXY"]}))
        .unwrap()
}

/// Injects a sidecar of the image `ghcr.io/team/agent:1` into a Pod that is already injected and then changed by `edit`.
/// Returns the sidecar and the warnings.
fn readmitted(settings: Option<&OtherWebhooks>, edit: impl FnOnce(&mut Value)) -> (Value, Vec<String>) {
    let sets = [agents()];
    let how = Context { now: Timestamp(0), sort_by_name: false, hides_tokens: None, other_webhooks: settings };
    let pod = json!({
        "metadata": {"name": "p", "labels": {"app": "x"}}, "spec": {"containers": [{"name": "app", "image": "app:1"}]}
    });
    let mut pod = injected(&pod, &sets, how).0;
    edit(&mut pod["spec"]["containers"][1]);
    let (pod, warnings) = injected(&pod, &sets, how);
    let (again, more) = injected(&pod, &sets, how);
    assert_eq!((&again, more), (&pod, vec![]), "a third admission changes nothing");
    (pod["spec"]["containers"][1].clone(), warnings)
}

fn agents() -> SidecarSet {
    let env = json!([{"name": "NO_PROXY", "value": "svc"}, {"name": "LEVEL", "value": "info"}]);
    let agent = json!({
        "name": "agent", "image": "ghcr.io/team/agent:1", "podInjectPolicy": "AfterAppContainer", "env": env
    });
    set("agents", json!({ "containers": [agent] }))
}

fn injected(pod: &Value, sets: &[SidecarSet], how: Context<'_>) -> (Value, Vec<String>) {
    let changes = plan(Pod::decode(pod).unwrap(), sets, how).unwrap();
    let mut pod = pod.clone();
    let warnings = changes.apply(&mut pod).warnings;
    (pod, warnings)
}

fn variable(container: &Value, name: &str) -> Option<Value> {
    json::items(container, &["env"]).iter().find(|variable| pod::name(variable) == name).cloned()
}

fn add(container: &mut Value, index: usize, variable: Value) {
    container["env"].as_array_mut().unwrap().insert(index, variable);
}

#[test]
fn order9_without_the_setting_nothing_stays() {
    for settings in [None, Some(&OtherWebhooks::default())] {
        let (agent, warnings) = readmitted(settings, |agent| {
            agent["image"] = json!(MIRRORED);
            add(agent, 0, json!({"name": "HTTP_PROXY", "value": "p"}));
        });
        assert_eq!((&agent["image"], variable(&agent, "HTTP_PROXY")), (&json!("ghcr.io/team/agent:1"), None));
        assert!(warnings.iter().any(|warning| warning.contains("set back image, env[HTTP_PROXY];")), "{warnings:?}");
    }
}

#[rstest]
#[case::in_front(0)]
#[case::between(1)]
#[case::at_the_end(3)]
fn order9_a_mirrored_image_and_a_named_variable_stay_where_they_are(#[case] index: usize) {
    let mut sent = Value::Null;
    let (agent, warnings) = readmitted(Some(&kept()), |agent| {
        agent["image"] = json!(MIRRORED);
        add(agent, index, json!({"name": "HTTP_PROXY", "value": "http://proxy.example"}));
        sent = agent.clone();
    });
    assert_eq!((agent, warnings), (sent, vec![]));
}

#[test]
fn order9_what_stays_stays_beside_what_is_set_back() {
    let (agent, warnings) = readmitted(Some(&kept()), |agent| {
        agent["image"] = json!(MIRRORED);
        agent["command"] = json!(["steal"]);
        add(agent, 0, json!({"name": "HTTP_PROXY", "value": "p"}));
        add(agent, 0, json!({"name": "OTHER", "value": "o"}));
    });
    assert_eq!(agent["image"], MIRRORED);
    assert_eq!((agent.get("command"), variable(&agent, "OTHER")), (None, None));
    assert_eq!(variable(&agent, "HTTP_PROXY"), Some(json!({"name": "HTTP_PROXY", "value": "p"})));
    assert!(warnings.iter().any(|warning| warning.contains("set back command, env[OTHER];")), "{warnings:?}");
}

#[rstest]
#[case::another_registry("evil.example/team/agent:1")]
#[case::a_longer_path("mirror.example/hub/other/team/agent:1")]
#[case::a_shorter_path("mirror.example/team/agent:1")]
#[case::the_beginning_of_a_registry("mirror.example/hub2/team/agent:1")]
#[case::another_tag("mirror.example/hub/team/agent:2")]
#[case::another_repository("mirror.example/hub/team/other:1")]
#[case::no_tag("mirror.example/hub/team/agent")]
fn order9_another_image_is_set_back(#[case] image: &str) {
    let (agent, warnings) = readmitted(Some(&kept()), |agent| agent["image"] = json!(image));
    assert_eq!(agent["image"], "ghcr.io/team/agent:1");
    assert!(warnings.iter().any(|warning| warning.contains("set back image;")), "{warnings:?}");
}

#[rstest]
#[case::not_named(json!({"name": "HTTPS_PROXY", "value": "p"}))]
#[case::in_another_case(json!({"name": "http_proxy", "value": "p"}))]
#[case::of_a_secret(json!({"name": "HTTP_PROXY", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}))]
#[case::with_another_variable(json!({"name": "HTTP_PROXY", "value": "http://evil.example/$(LEVEL)"}))]
#[case::of_two_sources(json!({"name": "HTTP_PROXY", "value": "p", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}))]
#[case::that_the_set_has(json!({"name": "NO_PROXY", "value": "*"}))]
fn order9_another_variable_is_set_back(#[case] added: Value) {
    let (before, _) = readmitted(None, |_| {});
    let (agent, warnings) = readmitted(Some(&kept()), |agent| add(agent, 3, added));
    assert_eq!(agent["env"], before["env"]);
    assert!(warnings.iter().any(|warning| warning.contains("set back env[")), "{warnings:?}");
}

#[test]
fn order9_a_container_without_our_mark_keeps_nothing() {
    let (agent, _) = readmitted(Some(&kept()), |agent| {
        *agent = json!({"name": "agent", "image": MIRRORED, "env": [{"name": "IS_INJECTED", "value": "no"}]});
    });
    assert_eq!(agent["image"], "ghcr.io/team/agent:1");
}

#[test]
fn order9_a_sidecar_with_an_identity_keeps_its_mirror_and_no_variable() {
    let rules = Rules::default();
    let asking = [crate::tests::asking("agents")];
    let hidden = crate::Hidden { asking: &asking, trusted: &rules.trusted_csi_drivers };
    let settings = kept();
    let how =
        Context { now: Timestamp(0), sort_by_name: false, hides_tokens: Some(hidden), other_webhooks: Some(&settings) };
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "app", "image": "app:1"}]}});
    let mut pod = injected(&pod, &[agents()], how).0;
    pod["spec"]["containers"][1]["image"] = json!(MIRRORED);
    add(&mut pod["spec"]["containers"][1], 0, json!({"name": "HTTP_PROXY", "value": "p"}));
    let pod = injected(&pod, &[agents()], how).0;
    let agent = &pod["spec"]["containers"][1];
    assert_eq!((&agent["image"], variable(agent, "HTTP_PROXY")), (&json!(MIRRORED), None));
}

#[test]
fn order9_both_containers_of_a_hot_upgrade_pair_stay_mirrored() {
    let agent = json!({
        "name": "agent", "image": "quay.io/team/agent:1", "podInjectPolicy": "AfterAppContainer",
        "upgradeStrategy": {"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": "quay.io/team/empty:1"},
    });
    let sets = [set("agents", json!({ "containers": [agent] }))];
    let settings = kept();
    let how = Context { now: Timestamp(0), sort_by_name: false, hides_tokens: None, other_webhooks: Some(&settings) };
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "app", "image": "app:1"}]}});
    let mut pod = injected(&pod, &sets, how).0;
    for container in pod["spec"]["containers"].as_array_mut().unwrap().iter_mut().skip(1) {
        let image = container["image"].as_str().unwrap().replace("quay.io", "mirror.example/hub");
        container["image"] = image.into();
    }
    assert_eq!(injected(&pod, &sets, how), (pod, vec![]));
}
