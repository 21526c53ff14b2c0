//! SidecarSets as platform teams write them, and the worst possible ones.

use serde_json::{Map, Value, json};

use super::pods::labels;
use super::random::Random;
use super::sidecars;
use super::style::Style;

/// SidecarSets, some of which match.
#[derive(Clone, Debug, PartialEq)]
pub struct Corpus {
    /// Complete manifests, v1beta1, as users write them: without defaults and hashes.
    pub sets: Vec<Value>,
    /// The number of containers, init containers included, that a Pod gets from the matching SidecarSets.
    pub injected: usize,
}

/// Returns SidecarSets with distinct names, of which exactly `matching` match the [Pods](super::pods) of the corpus,
/// without a look-up. The same arguments yield the same SidecarSets.
///
/// They are valid together: no two that match the same Pod share a name of a container or volume.
pub fn sidecar_sets(seed: u64, style: Style, count: usize, matching: usize) -> Corpus {
    let mut choice = Random::new(seed);
    let mut chosen = vec![false; count];
    let mut left = matching.min(count);
    while left > 0 {
        if let Some(free @ false) = chosen.get_mut(choice.below(count)) {
            *free = true;
            left -= 1;
        }
    }
    let mut injected = 0;
    let sets = chosen.into_iter().enumerate().map(|(index, matches)| {
        // Each set has its own sequence, so a matching set and the same set without a match differ in the selector
        // only.
        let mut random = Random::new(seed ^ Random::new(index as u64).number());
        let set = sidecar_set(&mut random, style, index, matches);
        if matches {
            injected += containers(&set);
        }
        set
    });
    Corpus { sets: sets.collect(), injected }
}

fn containers(set: &Value) -> usize {
    let length = |pointer| set.pointer(pointer).and_then(Value::as_array).map_or(0, Vec::len);
    length("/spec/containers") + length("/spec/initContainers")
}

fn sidecar_set(random: &mut Random, style: Style, index: usize, matches: bool) -> Value {
    let mut parts = sidecars::parts(random, style, index);
    let mut metadata = json!({"name": parts.name});
    if random.percent(40)
        && let Some(metadata) = metadata.as_object_mut()
    {
        let labels = json!({"app.kubernetes.io/managed-by": "Helm", "team": random.pick(TEAMS)});
        metadata.insert("labels".to_owned(), labels);
    }
    match random.below(3) {
        0 => {}
        1 => drop(parts.spec.insert("updateStrategy".to_owned(), json!({"type": "NotUpdate"}))),
        _ => {
            let strategy =
                json!({"type": "RollingUpdate", "maxUnavailable": format!("{}%", 10 * random.between(1, 5))});
            parts.spec.insert("updateStrategy".to_owned(), strategy);
        }
    }
    if matches {
        parts.spec.insert("selector".to_owned(), matching(random));
    } else {
        parts.spec.insert("selector".to_owned(), other(random, index));
        // A tenth selects one namespace. To check the match, the policy would look up the Namespace.
        if random.percent(10) {
            let namespace = format!("team-{}", random.below(40));
            let selector = json!({"matchLabels": {"kubernetes.io/metadata.name": namespace}});
            parts.spec.insert("namespaceSelector".to_owned(), selector);
        }
    }
    json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": metadata, "spec": parts.spec,
    })
}

const TEAMS: &[&str] = &["payments", "search", "identity", "catalog", "logistics", "observability", "security", "data"];

/// Returns a selector that matches the Pods of the corpus.
fn matching(random: &mut Random) -> Value {
    let all = labels();
    let value = |key: &str| all.get(key).cloned().unwrap_or_default();
    let (app, tier, team) = (value("app"), value("tier"), value("team"));
    match random.below(5) {
        0 => json!({"matchLabels": {"app": app}}),
        1 => json!({"matchLabels": {"app": app, "tier": tier}}),
        2 => json!({"matchLabels": {"app": app, "team": team, "tier": tier}}),
        3 => json!({
            "matchLabels": {"tier": tier},
            "matchExpressions": [{"key": "app", "operator": "In", "values": ["cart", app, "returns"]}],
        }),
        _ => json!({
            "matchLabels": {"app": app},
            "matchExpressions": [{"key": "sidecars.example.com/disabled", "operator": "DoesNotExist"}],
        }),
    }
}

/// Returns a selector that does not match the Pods of the corpus. Most select another app; some agree in all labels but
/// one.
fn other(random: &mut Random, index: usize) -> Value {
    let all = labels();
    let value = |key: &str| all.get(key).cloned().unwrap_or_default();
    let app = format!("{}-{index}", random.pick(APPS));
    let mut labels = Map::new();
    labels.insert("app".to_owned(), app.as_str().into());
    match random.below(20) {
        0..=7 => {}
        8..=11 => {
            labels.insert("tier".to_owned(), random.pick(TIERS).into());
        }
        12..=14 => {
            labels.insert("team".to_owned(), random.pick(TEAMS).into());
            labels.insert("tier".to_owned(), random.pick(TIERS).into());
        }
        // The labels of the Pod, except for `app`.
        15 => {
            labels.insert("tier".to_owned(), value("tier"));
            labels.insert("team".to_owned(), value("team"));
        }
        16..=17 => {
            let expression = json!({"key": "app", "operator": "In", "values": [app, format!("{app}-canary")]});
            return json!({"matchExpressions": [expression]});
        }
        18 => {
            let expression = json!({"key": "tier", "operator": "NotIn", "values": ["batch"]});
            return json!({"matchLabels": labels, "matchExpressions": [expression]});
        }
        _ => {
            let labels = json!({format!("sidecars.example.com/{app}"): "enabled"});
            return json!({"matchLabels": labels});
        }
    }
    json!({"matchLabels": labels})
}

const APPS: &[&str] = &[
    "orders", "invoices", "ledger", "mailer", "search", "ranking", "profile", "sessions", "pricing", "stock",
    "shipping", "tracking", "reviews", "images", "reports", "exports",
];
const TIERS: &[&str] = &["frontend", "backend", "batch", "edge"];
