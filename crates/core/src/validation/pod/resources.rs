//! Resource requests, limits, claims and resize policies.

use serde_json::Value;

use super::node::Node;
use crate::field::{FieldError, FieldPath};
use crate::format;
use crate::json;
use crate::ordered::{Map, Set};
use crate::quantity::Quantity;

const HUGEPAGES: &str = "hugepages-";
const REQUESTS: &str = "requests.";

/// `resources` and `resizePolicy` of a container.
pub(super) fn check(container: &Node<'_>, errors: &mut Vec<FieldError>) {
    if let Some(resources) = container.get("resources") {
        let limits = check_amounts(&resources, "limits", errors);
        let requests = check_amounts(&resources, "requests", errors);
        for (name, request) in requests.iter() {
            check_request(&resources, name, request, limits.get(name), errors);
        }
        let has = |known: &dyn Fn(&str) -> bool| limits.keys().chain(requests.keys()).any(|name| known(name));
        if has(&is_hugepages) && !has(&|name| matches!(name, "cpu" | "memory")) {
            errors.push(FieldError::forbidden(&resources.path, "hugepages need a request or a limit of cpu or memory"));
        }
        check_claims(&resources, errors);
    }
    check_resize(container, errors);
}

/// The amounts below `key`, by name, where they parse.
fn check_amounts<'a>(resources: &Node<'a>, key: &str, errors: &mut Vec<FieldError>) -> Map<&'a str, Quantity> {
    let list = resources.at(key);
    let given: Map<&str, &Value> = resources
        .raw(key)
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .map(|(name, value)| (name.as_str(), value))
        .collect();
    let mut amounts = Map::new();
    for (name, value) in given {
        let path = list.key(name);
        errors.extend(wrong_name(name).map(|detail| FieldError::invalid(&path, name, detail)));
        match Quantity::from_json(value) {
            Ok(amount) => {
                check_amount(name, &amount, &path, errors);
                amounts.insert(name, amount);
            }
            Err(error) => errors.push(FieldError::invalid(&path, json::shown(value), error.to_string())),
        }
    }
    amounts
}

/// An amount is not negative, and whole where the resource is counted in pieces.
fn check_amount(name: &str, amount: &Quantity, path: &FieldPath, errors: &mut Vec<FieldError>) {
    if amount.is_negative() {
        errors.push(FieldError::invalid(path, amount, "must be greater than or equal to 0"));
    }
    // Kubernetes rounds up to milli-units first, so 1.9999 counts as 2.
    if is_counted(name) && !amount.round_up_to_milli().is_whole() {
        errors.push(FieldError::invalid(path, amount, "must be an integer"));
    }
}

/// What is wrong with a name of a container resource, if anything.
fn wrong_name(name: &str) -> Option<String> {
    if let Some(wrong) = format::qualified_name(name) {
        return Some(wrong);
    }
    if !name.contains('/') {
        let standard = matches!(name, "cpu" | "memory" | "ephemeral-storage") || is_hugepages(name);
        return (!standard).then(|| {
            "must be cpu, memory, ephemeral-storage, hugepages-<size>, or a fully qualified name such as example.com/name"
                .to_owned()
        });
    }
    (!is_native(name) && !is_extended(name))
        .then(|| format!("must be a name that is still valid with \"{REQUESTS}\" before it, and not begin with that"))
}

fn is_hugepages(name: &str) -> bool {
    name.starts_with(HUGEPAGES)
}

/// A resource that Kubernetes itself defines.
fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// A resource that somebody else defines.
fn is_extended(name: &str) -> bool {
    !is_native(name) && !name.starts_with(REQUESTS) && format::qualified_name(&format!("{REQUESTS}{name}")).is_none()
}

/// A resource of which there is no half.
fn is_counted(name: &str) -> bool {
    const COUNTED: [&str; 9] = [
        "pods",
        "resourcequotas",
        "services",
        "replicationcontrollers",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
        "services.nodeports",
        "services.loadbalancers",
    ];
    COUNTED.contains(&name) || is_extended(name)
}

/// A resource of which more may be promised than there is.
fn may_overcommit(name: &str) -> bool {
    is_native(name) && !is_hugepages(name)
}

fn check_request(
    resources: &Node<'_>,
    name: &str,
    request: &Quantity,
    limit: Option<&Quantity>,
    errors: &mut Vec<FieldError>,
) {
    match limit {
        None if may_overcommit(name) => {}
        None => {
            let detail = format!("{name} cannot be overcommitted; set a limit that equals the request");
            errors.push(FieldError::required(&resources.at("limits"), detail));
        }
        Some(limit) if request != limit && !may_overcommit(name) => {
            let detail = format!("must be equal to the {name} limit of {limit}");
            errors.push(FieldError::invalid(&resources.at("requests"), request, detail));
        }
        Some(limit) if request > limit => {
            let detail = format!("must be less than or equal to the {name} limit of {limit}");
            errors.push(FieldError::invalid(&resources.at("requests"), request, detail));
        }
        Some(_) => {}
    }
}

/// Claims refer to `resourceClaims` of the Pod, of which there are none.
fn check_claims(resources: &Node<'_>, errors: &mut Vec<FieldError>) {
    let mut seen: Set<(&str, &str)> = Set::new();
    for claim in resources.items("claims") {
        let (name, request) = (claim.text("name"), claim.text("request"));
        if name.is_empty() {
            errors.push(FieldError::required(&claim.path, "a claim needs a name"));
            continue;
        }
        let overlaps = seen
            .iter()
            .any(|(other, part)| *other == name && (part.is_empty() || request.is_empty() || *part == request));
        if overlaps {
            errors.push(FieldError::duplicate(&claim.path, name));
        }
        if !request.is_empty() && !seen.contains(&(name, "")) {
            claim.formatted("request", format::dns_label, errors);
        }
        seen.insert((name, request));
        let detail = "a SidecarSet brings no resource claims; remove it";
        errors.push(FieldError::not_found(&claim.path, name, detail));
    }
}

fn check_resize(container: &Node<'_>, errors: &mut Vec<FieldError>) {
    let list = container.at("resizePolicy");
    let mut seen = Set::new();
    for policy in container.items("resizePolicy") {
        let name = policy.text("resourceName");
        if !seen.insert(name) {
            errors.push(FieldError::duplicate(&policy.path, name));
        }
        // Kubernetes reports these at the list, not at the item.
        policy.one_of_at("resourceName", &list, &["cpu", "memory"], errors);
        policy.one_of_at("restartPolicy", &list, &["NotRequired", "RestartContainer"], errors);
    }
}
