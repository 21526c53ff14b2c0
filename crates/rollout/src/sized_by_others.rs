//! Which containers of a Pod somebody else sizes: a vertical autoscaler of Pods (VPA), or whoever resized them (ROLL-70).
//!
//! The Pod itself tells, so no right to read autoscalers is needed, and none has to be installed.

use std::collections::BTreeSet;

use pillion_kubernetes::json;
use pillion_sidecarset::sidecar::List;
use serde_json::Value;

use crate::pod::Texts;

/// The annotation with the containers that the autoscaler's webhook has seen, in the order of the Pod.
const OBSERVED: &str = "vpaObservedContainers";
/// The annotation with the amounts that the webhook has set:
/// `Pod resources updated by web: container 0: cpu request, memory request; container 2: cpu limit`.
const UPDATES: &str = "vpaUpdates";

/// Returns the containers whose cpu or memory the webhook of a vertical autoscaler set when the Pod was created. The
/// webhook counts containers as it saw them, so the numbers are positions in the list of those.
pub fn by_autoscaler(annotations: &Texts) -> BTreeSet<&str> {
    let (Some(observed), Some(updates)) = (annotations.get(OBSERVED), annotations.get(UPDATES)) else {
        return BTreeSet::new();
    };
    let observed: Vec<&str> = observed.split(',').map(str::trim).collect();
    // The name of the autoscaler ends at the first colon.
    let updates = updates.split_once(": ").map(|(_, updates)| updates).unwrap_or_default();
    let sized = updates.split(';').filter_map(|update| {
        let (number, amounts) = update.trim().strip_prefix("container ")?.split_once(':')?;
        // A container that the autoscaler leaves alone may be listed without an amount.
        let is_sized = amounts.split(',').any(|amount| amount.ends_with(" request") || amount.ends_with(" limit"));
        let number: usize = number.parse().ok().filter(|_| is_sized)?;
        observed.get(number).copied()
    });
    sized.collect()
}

/// Returns the containers whose cpu or memory another manager than `own` set through the subresource `resize`, and owns
/// now. `object` is the whole Pod with its `managedFields`.
pub fn by_resize<'a>(object: &'a Value, own: &str) -> BTreeSet<&'a str> {
    let entries = json::items(object, &["metadata", "managedFields"]).iter();
    let of_others = entries
        .filter(|entry| json::text(entry, &["subresource"]) == "resize" && json::text(entry, &["manager"]) != own);
    let owns = |entry: &Value, list: List, name: &str| {
        let key = format!("k:{}", serde_json::json!({"name": name}));
        let list = format!("f:{}", list.key());
        let of = |amounts: &str, resource: &str| {
            json::at(entry, &["fieldsV1", "f:spec", &list, &key, "f:resources", amounts, resource]).is_some()
        };
        ["f:limits", "f:requests"].into_iter().any(|list| ["f:cpu", "f:memory"].into_iter().any(|it| of(list, it)))
    };
    let entries: Vec<&Value> = of_others.collect();
    let containers = List::ALL.into_iter().flat_map(|list| {
        json::items(object, &["spec", list.key()]).iter().map(move |it| (list, json::text(it, &["name"])))
    });
    containers.filter(|(list, name)| entries.iter().any(|it| owns(it, *list, name))).map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    const BY_WEB: &str = "Pod resources updated by web-vpa: ";

    #[rstest]
    #[case::none(&[], &[])]
    #[case::seen_alone(&[(OBSERVED, "web, agent")], &[])]
    #[case::the_app_alone(&[(OBSERVED, "web, agent"), (UPDATES, "container 0: cpu request, memory request")], &["web"])]
    #[case::both(&[(OBSERVED, "web, agent"), (UPDATES, "container 0: cpu request; container 1: memory limit")], &["web", "agent"])]
    #[case::left_alone_without_resources(&[(OBSERVED, "web, agent"), (UPDATES, "container 0: cpu request; container 1: ")], &["web"])]
    #[case::capped(&[(OBSERVED, "agent,web"), (UPDATES, "container 0: cpu capped to node, cpu request")], &["agent"])]
    #[case::a_number_beyond_the_list(&[(OBSERVED, "web"), (UPDATES, "container 7: cpu request")], &[])]
    #[case::an_init_container(&[(OBSERVED, "web"), (UPDATES, "init container 0: cpu request")], &[])]
    #[case::without_the_list(&[(UPDATES, "container 0: cpu request")], &[])]
    #[case::unreadable(&[(OBSERVED, "web"), (UPDATES, "container x: cpu request")], &[])]
    fn roll70_an_autoscaler_sizes_the_containers_that_its_webhook_has_set(
        #[case] annotations: &[(&str, &str)],
        #[case] expected: &[&str],
    ) {
        let text = |key: &str, value: &str| if key == UPDATES { format!("{BY_WEB}{value}") } else { value.to_owned() };
        let annotations = annotations.iter().map(|(key, value)| ((*key).to_owned(), text(key, value))).collect();
        assert_eq!(by_autoscaler(&annotations), expected.iter().copied().collect());
    }

    fn entry(manager: &str, subresource: &str, list: &str, name: &str, resources: &Value) -> Value {
        json!({
            "manager": manager, "operation": "Update", "apiVersion": "v1", "subresource": subresource,
            "fieldsV1": {"f:spec": {list: {format!("k:{{\"name\":\"{name}\"}}"): {"f:resources": resources}}}},
        })
    }

    #[rstest]
    #[case::the_app(entry("updater", "resize", "f:containers", "web", &json!({"f:limits": {"f:cpu": {}}})), &["web"])]
    #[case::the_sidecar(entry("updater", "resize", "f:containers", "agent", &json!({"f:requests": {"f:memory": {}}})), &["agent"])]
    #[case::a_native_sidecar(entry("kubectl", "resize", "f:initContainers", "proxy", &json!({"f:requests": {"f:cpu": {}}})), &["proxy"])]
    #[case::pillion_itself(entry("pillion-controller", "resize", "f:containers", "agent", &json!({"f:limits": {"f:cpu": {}}})), &[])]
    #[case::at_creation(entry("kube-controller-manager", "", "f:containers", "agent", &json!({"f:limits": {"f:cpu": {}}})), &[])]
    #[case::no_amount(entry("updater", "resize", "f:containers", "agent", &json!({".": {}, "f:limits": {}})), &[])]
    #[case::a_container_that_is_gone(entry("updater", "resize", "f:containers", "old", &json!({"f:limits": {"f:cpu": {}}})), &[])]
    #[case::unreadable(json!({"manager": "updater", "subresource": "resize", "fieldsV1": []}), &[])]
    fn roll70_whoever_resized_a_container_sizes_it(#[case] entry: Value, #[case] expected: &[&str]) {
        let pod = json!({
            "metadata": {"managedFields": [entry]},
            "spec": {"initContainers": [{"name": "proxy"}], "containers": [{"name": "web"}, {"name": "agent"}]},
        });
        assert_eq!(by_resize(&pod, "pillion-controller"), expected.iter().copied().collect());
    }
}
