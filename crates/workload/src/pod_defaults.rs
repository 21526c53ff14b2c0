//! What the API server fills into the spec of a Pod besides its containers and volumes: defaults, the priority, and
//! tolerations of nodes that are away.

use pillion_kubernetes::json::{self, Object};
use serde_json::{Value, json};

/// The taints that every Pod tolerates for a while (`DefaultTolerationSeconds`).
const TAINTS: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];
const SECONDS: u32 = 300;

/// The classes of priority that every cluster has, with their values. An empty name stands for none.
const PRIORITIES: [(&str, i32); 3] =
    [("", 0), ("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)];

/// Fills in the spec of a Pod. What depends on other objects of the cluster is left out: the value of another
/// `PriorityClass`, or of one that is the default; the limits of a `LimitRange`; the overhead of a `RuntimeClass`.
pub fn apply(spec: &mut Object) {
    let defaults = [
        ("restartPolicy", json!("Always")),
        ("terminationGracePeriodSeconds", json!(30)),
        ("dnsPolicy", json!("ClusterFirst")),
        ("securityContext", json!({})),
        ("schedulerName", json!("default-scheduler")),
        ("enableServiceLinks", json!(true)),
    ];
    for (key, value) in defaults {
        fill(spec, key, value);
    }
    priority(spec);
    tolerations(spec);
    if spec.get("hostNetwork").and_then(Value::as_bool).unwrap_or_default() {
        ports_of_the_node(spec);
    }
}

/// Fills in a container.
pub fn apply_to_container(container: &mut Object) {
    fill(container, "resources", json!({}));
    if let Some(probe) = container.get_mut("startupProbe").and_then(Value::as_object_mut) {
        for (key, value) in
            [("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)]
        {
            fill(probe, key, value.into());
        }
    }
}

fn fill(object: &mut Object, key: &str, value: Value) {
    let slot = object.entry(key).or_insert(Value::Null);
    if slot.is_null() {
        *slot = value;
    }
}

fn priority(spec: &mut Object) {
    let class = spec.get("priorityClassName").and_then(Value::as_str).unwrap_or_default();
    let Some((_, value)) = PRIORITIES.into_iter().find(|(name, _)| *name == class) else { return };
    fill(spec, "priority", value.into());
    fill(spec, "preemptionPolicy", json!("PreemptLowerPriority"));
}

fn tolerations(spec: &mut Object) {
    let Some(tolerations) = json::list_mut(spec, "tolerations") else { return };
    let tolerates = |taint: &str, toleration: &Value| {
        let is =
            |key: &str, value: &str| matches!(json::text(toleration, &[key]), text if text.is_empty() || text == value);
        is("key", taint) && is("effect", "NoExecute")
    };
    let open = TAINTS.into_iter().filter(|taint| !tolerations.iter().any(|toleration| tolerates(taint, toleration)));
    let added: Vec<Value> = open
        .map(|key| json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": SECONDS}))
        .collect();
    tolerations.extend(added);
}

/// In the network of its node, a port of a container is one of the node.
fn ports_of_the_node(spec: &mut Object) {
    for list in ["initContainers", "containers"] {
        let containers = spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
        let ports = containers.filter_map(|it| it.get_mut("ports")?.as_array_mut()).flatten();
        for port in ports.filter_map(Value::as_object_mut) {
            let is_unset = port.get("hostPort").is_none_or(|port| port.is_null() || port == &json!(0));
            if let Some(number) = port.get("containerPort").filter(|_| is_unset).cloned() {
                port.insert("hostPort".to_owned(), number);
            }
        }
    }
}
