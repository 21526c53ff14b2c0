//! What a write changes, in people's words.

use std::collections::BTreeMap;

use pillion_bundle::Bundle;
use pillion_bundle::config_map::BUNDLE;
use pillion_kubernetes::json;
use pillion_rollout::pod::UPGRADABLE;
use pillion_sidecarset::sidecar_set::SidecarSet;
use serde_json::{Map, Value};

/// The maximum length of a value that is shown, in characters.
const SHOWN: usize = 40;
/// The maximum number of SidecarSets that are named.
const NAMED: usize = 5;
/// The number of characters of a digest that are shown, as in the output of container runtimes.
const DIGEST: usize = 12;

/// Says what differs between an object before and after a write whose purpose is `why`. Returns the purpose alone if
/// there is nothing else to say.
pub(super) fn words(kind: &str, why: &str, before: &Value, after: &Value) -> String {
    match kind {
        "Pod" => pod(before, after).unwrap_or_else(|| why.to_owned()),
        "SidecarSet" => sidecar_set(why, before, after),
        "ConfigMap" => bundle(before, after).unwrap_or_else(|| why.to_owned()),
        // Values of Secrets are not shown.
        "Secret" => why.to_owned(),
        _ => with_details(why, &fields(before, after)),
    }
}

fn with_details(why: &str, details: &[String]) -> String {
    if details.is_empty() { why.to_owned() } else { format!("{why} ({})", details.join("; ")) }
}

/// The containers, else the condition about upgrades.
fn pod(before: &Value, after: &Value) -> Option<String> {
    let spec = |pod: &Value| pod.get("spec").cloned().unwrap_or_default();
    let containers = containers(&spec(before), &spec(after));
    let parts = if containers.is_empty() { upgradable(before, after) } else { containers };
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// Returns what differs between the containers of two specs: images, and resources.
fn containers(before: &Value, after: &Value) -> Vec<String> {
    let all = |spec: &'_ Value| {
        let lists = ["containers", "initContainers"].into_iter();
        lists.flat_map(|list| json::items(spec, &[list]).to_vec()).collect::<Vec<Value>>()
    };
    let before = all(before);
    let mut parts = Vec::new();
    for container in all(after) {
        let name = json::text(&container, &["name"]);
        let Some(former) = before.iter().find(|former| json::text(former, &["name"]) == name) else { continue };
        let [old, new] = [former, &container].map(|it| json::text(it, &["image"]));
        let mut changes = Vec::new();
        if old != new {
            changes.push(image(old, new));
        }
        changes.extend(resources(former, &container));
        if !changes.is_empty() {
            parts.push(format!("{name} {}", changes.join(", ")));
        }
    }
    parts
}

/// Returns the difference of two images: their tags, if these are all that differs.
fn image(old: &str, new: &str) -> String {
    let ((old_name, old_version), (new_name, new_version)) = (split(old), split(new));
    if old_name == new_name && !old_version.is_empty() && !new_version.is_empty() {
        format!("{} → {}", version(old_version), version(new_version))
    } else {
        format!("{old_name}{} → {new_name}{}", shortened(old_version), shortened(new_version))
    }
}

/// Splits an image into its name, and its tag and digest with their separators.
fn split(image: &str) -> (&str, &str) {
    let name = image.rfind('/').map_or(0, |slash| slash.saturating_add(1));
    let end = image.get(name..).and_then(|rest| rest.find([':', '@']));
    end.and_then(|end| image.split_at_checked(name.saturating_add(end))).unwrap_or((image, ""))
}

/// Returns a tag, or the start of a digest, without the first separator.
fn version(text: &str) -> String {
    let shown = shortened(text);
    shown.strip_prefix([':', '@']).map(str::to_owned).unwrap_or(shown)
}

fn shortened(text: &str) -> String {
    let Some((before, digest)) = text.split_once('@') else { return text.to_owned() };
    let (algorithm, sum) = digest.split_once(':').unwrap_or(("", digest));
    let start: String = sum.chars().take(DIGEST).collect();
    if algorithm.is_empty() { format!("{before}@{start}") } else { format!("{before}@{algorithm}:{start}") }
}

fn resources(before: &Value, after: &Value) -> Vec<String> {
    let mut parts = Vec::new();
    for (list, word) in [("requests", "request"), ("limits", "limit")] {
        let amounts = |container: &Value| json::object(container, &["resources", list]).cloned().unwrap_or_default();
        let (before, after) = (amounts(before), amounts(after));
        parts.extend(entries(&before, &after).map(|(name, old, new)| format!("{name} {word} {}", arrow(old, new))));
    }
    parts
}

/// Returns the entries that differ, each with the values before and after.
fn entries<'a>(
    before: &'a Map<String, Value>,
    after: &'a Map<String, Value>,
) -> impl Iterator<Item = (&'a String, Option<&'a Value>, Option<&'a Value>)> {
    let keys: std::collections::BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let both = keys.into_iter().map(|key| (key, before.get(key), after.get(key)));
    both.filter(|(_, old, new)| old != new)
}

fn arrow(old: Option<&Value>, new: Option<&Value>) -> String {
    let text = |value: Option<&Value>| match value {
        None => "none".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
    };
    format!("{} → {}", text(old), text(new))
}

/// Says what the condition of a Pod now says about each SidecarSet that it said something else about.
fn upgradable(before: &Value, after: &Value) -> Vec<String> {
    let entries = |pod: &Value| -> BTreeMap<String, bool> {
        let mut conditions = json::items(pod, &["status", "conditions"]).iter();
        let it = conditions.find(|condition| json::text(condition, &["type"]) == UPGRADABLE);
        let message = it.map(|condition| json::text(condition, &["message"])).unwrap_or_default();
        serde_json::from_str(message).unwrap_or_default()
    };
    let (before, after) = (entries(before), entries(after));
    let news = after.iter().filter(|(name, value)| before.get(*name) != Some(value));
    let news = news.map(|(name, value)| {
        let can = if *value { "can" } else { "cannot" };
        format!("its condition says that SidecarSet {name} {can} be upgraded while it runs")
    });
    let gone = before.keys().filter(|name| !after.contains_key(*name));
    news.chain(gone.map(|name| format!("its condition no longer names SidecarSet {name}"))).collect()
}

/// The messages of the conditions that change, each once, with the conditions whose status changes. A condition that
/// was not there was false.
fn sidecar_set(why: &str, before: &Value, after: &Value) -> String {
    let text = |condition: &Value, key: &str| json::text(condition, &[key]).to_owned();
    let said = |condition: &Value| ["status", "reason", "message"].map(|key| text(condition, key));
    let known = json::items(before, &["status", "conditions"]).iter();
    let known: BTreeMap<String, [String; 3]> = known.map(|known| (text(known, "type"), said(known))).collect();
    let mut messages: Vec<(String, Vec<String>)> = Vec::new();
    for condition in json::items(after, &["status", "conditions"]) {
        let (type_, now) = (text(condition, "type"), said(condition));
        let former = known.get(&type_);
        if former == Some(&now) {
            continue;
        }
        let [status, _, message] = now;
        let is_new = former.map_or("False", |[status, ..]| status.as_str()) != status;
        let news = is_new.then(|| format!("{type_} is {status}"));
        match messages.iter_mut().find(|(known, _)| *known == message) {
            Some((_, conditions)) => conditions.extend(news),
            None => messages.push((message, news.into_iter().collect())),
        }
    }
    if messages.is_empty() {
        let fields = fields(before, after);
        return if fields.is_empty() { format!("its status says: {why}") } else { with_details(why, &fields) };
    }
    let messages: Vec<String> =
        messages.into_iter().map(|(message, conditions)| with_details(&message, &conditions)).collect();
    format!("its status says: {}", messages.join("; "))
}

/// Says which SidecarSets of a bundle change; `None` if the ConfigMap holds no bundle.
fn bundle(before: &Value, after: &Value) -> Option<String> {
    let sets = |map: &Value| {
        let sets = Bundle::read(json::at(map, &["data", BUNDLE])?.as_str()?.as_bytes()).ok()?.verify().ok()?;
        Some(sets.into_iter().map(|set| (set.name().to_owned(), set)).collect::<BTreeMap<String, SidecarSet>>())
    };
    let (before, after) = (sets(before).unwrap_or_default(), sets(after)?);
    let mut parts: Vec<String> = Vec::new();
    for (name, set) in &after {
        match before.get(name) {
            None => parts.push(format!("SidecarSet {name} is new")),
            Some(former) if former.as_value() == set.as_value() => {}
            Some(former) => {
                let spec = |set: &SidecarSet| set.as_value().get("spec").cloned().unwrap_or_default();
                let containers = containers(&spec(former), &spec(set));
                let what = if containers.is_empty() { "has new content".to_owned() } else { containers.join(", ") };
                parts.push(format!("SidecarSet {name}: {what}"));
            }
        }
    }
    let gone = before.keys().filter(|name| !after.contains_key(*name));
    parts.extend(gone.map(|name| format!("SidecarSet {name} is removed")));
    if parts.is_empty() {
        return Some("its contents stay, and its time is renewed".to_owned());
    }
    let more = parts.len().saturating_sub(NAMED);
    parts.truncate(NAMED);
    if more > 0 {
        parts.push(format!("and {more} more"));
    }
    Some(parts.join("; "))
}

/// Names the fields of any object that differ, with their values if these are short texts.
fn fields(before: &Value, after: &Value) -> Vec<String> {
    let mut parts = Vec::new();
    for (field, word) in [("labels", "label"), ("annotations", "annotation")] {
        let all = |object: &Value| json::object(object, &["metadata", field]).cloned().unwrap_or_default();
        let (before, after) = (all(before), all(after));
        parts.extend(entries(&before, &after).map(|(key, old, new)| {
            let is_short = |value: Option<&Value>| {
                value.and_then(Value::as_str).is_none_or(|text| text.chars().count() <= SHOWN && !text.starts_with('{'))
            };
            let values = if is_short(old) && is_short(new) { arrow(old, new) } else { "changes".to_owned() };
            format!("{word} {key} {values}")
        }));
    }
    let all = |object: &Value| object.as_object().cloned().unwrap_or_default();
    let (before, after) = (all(before), all(after));
    for (key, old, new) in entries(&before, &after).filter(|(key, ..)| !["metadata", "status"].contains(&key.as_str()))
    {
        match key.as_str() {
            "rules" => parts.extend(rules(old, new)),
            _ => parts.push(format!("{key} changes")),
        }
    }
    parts
}

/// Says which rules of a Role are new, and which are gone.
fn rules(before: Option<&Value>, after: Option<&Value>) -> Vec<String> {
    let all = |rules: Option<&Value>| rules.and_then(Value::as_array).cloned().unwrap_or_default();
    let (before, after) = (all(before), all(after));
    let only = |rules: &[Value], others: &[Value]| {
        let rules = rules.iter().filter(|rule| !others.contains(rule)).map(rule);
        rules.collect::<Vec<_>>().join(" and ")
    };
    let (new, gone) = (only(&after, &before), only(&before, &after));
    let said =
        [("it also allows", new), ("it no longer allows", gone)].into_iter().filter(|(_, rules)| !rules.is_empty());
    said.map(|(words, rules)| format!("{words} {rules}")).collect()
}

/// Returns a rule as `get, list pods, deployments.apps`.
fn rule(rule: &Value) -> String {
    let list = |key: &str| json::items(rule, &[key]).iter().filter_map(Value::as_str).collect::<Vec<_>>();
    let groups = list("apiGroups");
    let of_group = |resource: &str| {
        let named = groups
            .iter()
            .map(|group| if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") });
        named.collect::<Vec<_>>()
    };
    let mut what: Vec<String> = list("resources").into_iter().flat_map(of_group).collect();
    what.extend(list("nonResourceURLs").into_iter().map(str::to_owned));
    let names = list("resourceNames");
    let names = if names.is_empty() { String::new() } else { format!(" named {}", names.join(", ")) };
    format!("{} {}{names}", list("verbs").join(", "), what.join(", "))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::another_tag("fluent/fluent-bit:3.1", "fluent/fluent-bit:3.2", "3.1 → 3.2")]
    #[case::a_registry_with_a_port("localhost:5000/a", "localhost:5000/a:2", "localhost:5000/a → localhost:5000/a:2")]
    #[case::another_name("a:1", "b:1", "a:1 → b:1")]
    #[case::digests(
        "a@sha256:0123456789abcdef",
        "a:2@sha256:fedcba9876543210",
        "sha256:0123456789ab → 2@sha256:fedcba987654"
    )]
    fn images_are_compared(#[case] old: &str, #[case] new: &str, #[case] expected: &str) {
        assert_eq!(image(old, new), expected);
    }

    fn pod(image: &str, cpu: &str, message: &str) -> Value {
        let container = json!({"name": "logs", "image": image, "resources": {"limits": {"cpu": cpu}}});
        let condition = json!({"type": "SidecarSetUpgradable", "message": message});
        json!({"spec": {"containers": [container]}, "status": {"conditions": [condition]}})
    }

    #[rstest]
    #[case::image(pod("l:2", "1", ""), "logs 1 → 2")]
    #[case::image_before_condition(pod("l:2", "1", r#"{"logs":true}"#), "logs 1 → 2")]
    #[case::resources(pod("l:1", "2", ""), "logs cpu limit 1 → 2")]
    #[case::both(pod("l:2", "2", ""), "logs 1 → 2, cpu limit 1 → 2")]
    #[case::condition(
        pod("l:1", "1", r#"{"logs":false}"#),
        "its condition says that SidecarSet logs cannot be upgraded while it runs"
    )]
    #[case::nothing_of_these(pod("l:1", "1", ""), "why")]
    fn pods_are_told_by_their_containers(#[case] after: Value, #[case] expected: &str) {
        assert_eq!(words("Pod", "why", &pod("l:1", "1", ""), &after), expected);
    }

    #[test]
    fn conditions_with_one_message_are_told_once() {
        let condition = |type_: &str, status: &str| json!({"type": type_, "status": status, "message": "0 of 5 Pods"});
        let with = |conditions: Value| json!({"status": {"conditions": conditions}});
        let before = with(json!([condition("Stalled", "False")]));
        let after = with(json!([
            condition("Stalled", "False"),
            condition("Ready", "False"),
            condition("Reconciling", "True"),
            {"type": "InBundle", "status": "True", "message": "current"},
        ]));
        assert_eq!(
            words("SidecarSet", "why", &before, &after),
            "its status says: 0 of 5 Pods (Reconciling is True); current (InBundle is True)"
        );
        assert_eq!(words("SidecarSet", "why", &after, &after), "its status says: why");
    }

    #[test]
    fn roles_are_told_by_their_rules_and_labels() {
        let role = |label: &str, rules: Value| json!({"metadata": {"labels": {"by": label}}, "rules": rules});
        let before = role("me", json!([{"apiGroups": [""], "resources": ["secrets"], "verbs": ["list"]}]));
        let after = role("us", json!([{"apiGroups": ["", "apps"], "resources": ["a"], "verbs": ["get", "list"]}]));
        assert_eq!(
            words("Role", "for logs", &before, &after),
            "for logs (label by me → us; it also allows get, list a, a.apps; it no longer allows list secrets)"
        );
    }

    #[test]
    fn secrets_are_told_by_the_purpose() {
        let secret = |token: &str| json!({"data": {"token": token}});
        assert_eq!(words("Secret", "a new token", &secret("a"), &secret("b")), "a new token");
    }

    #[test]
    fn bundles_are_told_by_their_sidecar_sets() {
        let set = |name: &str, image: &str| {
            SidecarSet::from_decoded(json!({
                "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": name},
                "spec": {"selector": {}, "containers": [{"name": "agent", "image": image}]},
            }))
        };
        let map = |sets: &[SidecarSet]| json!({"data": {BUNDLE: pillion_bundle::write(sets)}});
        let before = map(&[set("a", "i:1"), set("b", "i:1")]);
        let after = map(&[set("a", "i:2"), set("c", "i:1")]);
        assert_eq!(
            words("ConfigMap", "why", &before, &after),
            "SidecarSet a: agent 1 → 2; SidecarSet c is new; SidecarSet b is removed"
        );
        assert_eq!(words("ConfigMap", "why", &after, &after), "its contents stay, and its time is renewed");
        assert_eq!(words("ConfigMap", "why", &json!({}), &json!({"data": {"ca.crt": "x"}})), "why");
    }
}
