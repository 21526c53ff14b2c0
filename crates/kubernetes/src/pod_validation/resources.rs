//! Resource requests, limits, claims and resize policies.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::field::{FieldError, FieldErrors, FieldPath};
use crate::name_validation;
use crate::node::{Node, shown};
use crate::quantity::Quantity;

const HUGEPAGES: &str = "hugepages-";
const REQUESTS: &str = "requests.";

/// Checks `resources` and `resizePolicy` of a container.
pub(super) fn check(container: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
    if let Some(resources) = &container.get("resources") {
        let limits = check_amounts(resources, "limits", errors);
        let requests = check_amounts(resources, "requests", errors);
        let (mut hugepages, mut others) = (false, false);
        for name in limits.keys().chain(requests.keys()) {
            hugepages |= is_hugepages(name);
            others |= matches!(*name, "cpu" | "memory");
        }
        for (name, request) in &requests {
            check_request(resources, name, request, limits.get(name), errors);
        }
        if hugepages && !others {
            errors.forbidden(&resources.place, "hugepages need a request or a limit of cpu or memory");
        }
        check_claims(resources, errors);
    }
    check_resize(container, errors);
}

/// Checks the amounts in the map `key`, and returns those that parse, by name.
fn check_amounts<'v>(resources: &Node<'v, '_>, key: &str, errors: &mut Vec<FieldError>) -> BTreeMap<&'v str, Quantity> {
    let list = resources.at(key);
    let mut amounts = BTreeMap::new();
    for (name, value) in resources.raw(key).and_then(Value::as_object).into_iter().flatten() {
        let place = list.key(name);
        errors.wrong(&place, name, wrong_name(name));
        match Quantity::from_json(value) {
            Ok(amount) => {
                check_amount(name, &amount, &place, errors);
                amounts.insert(name.as_str(), amount);
            }
            Err(error) => errors.invalid(&place, shown(value), &error.to_string()),
        }
    }
    amounts
}

/// Checks that an amount is not negative, and that it is whole if the resource is counted in pieces.
fn check_amount(name: &str, amount: &Quantity, place: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    if amount.is_negative() {
        errors.invalid(place, amount.to_string(), "must be greater than or equal to 0");
    }
    // Kubernetes rounds up to milli-units first, so 1.9999 counts as 2.
    if is_counted(name) && !amount.round_up_to_milli().is_whole() {
        errors.invalid(place, amount.to_string(), "must be an integer");
    }
}

/// Returns the problem of a container resource's name, if there is one.
fn wrong_name(name: &str) -> Option<&'static str> {
    if let Some(wrong) = name_validation::qualified_name(name) {
        return Some(wrong);
    }
    if !name.contains('/') {
        let standard = matches!(name, "cpu" | "memory" | "ephemeral-storage") || is_hugepages(name);
        return (!standard).then_some(
            "must be cpu, memory, ephemeral-storage, hugepages-<size>, or a fully qualified name such as example.com/name",
        );
    }
    (!is_native(name) && !is_extended(name))
        .then_some("must be a name that is still valid with \"requests.\" before it, and not begin with that")
}

fn is_hugepages(name: &str) -> bool {
    name.starts_with(HUGEPAGES)
}

/// Whether Kubernetes itself defines the resource.
fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// Whether a third party defines the resource.
fn is_extended(name: &str) -> bool {
    !is_native(name)
        && !name.starts_with(REQUESTS)
        && name_validation::qualified_name(&format!("{REQUESTS}{name}")).is_none()
}

/// Whether amounts of the resource are whole numbers.
fn is_counted(name: &str) -> bool {
    const COUNTED: &[&str] = &[
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

/// Whether the sum of the limits for the resource may exceed the capacity of a node.
fn may_overcommit(name: &str) -> bool {
    is_native(name) && !is_hugepages(name)
}

fn check_request(
    resources: &Node<'_, '_>,
    name: &str,
    request: &Quantity,
    limit: Option<&Quantity>,
    errors: &mut Vec<FieldError>,
) {
    let Some(limit) = limit else {
        if !may_overcommit(name) {
            let detail = format!("{name} cannot be overcommitted; set a limit that equals the request");
            errors.required(&resources.at("limits"), &detail);
        }
        return;
    };
    let wrong = if request != limit && !may_overcommit(name) {
        "must be equal to the "
    } else if request > limit {
        "must be less than or equal to the "
    } else {
        return;
    };
    let detail = format!("{wrong}{name} limit of {limit}");
    errors.invalid(&resources.at("requests"), request.to_string(), &detail);
}

/// Refuses every claim: claims refer to `resourceClaims` of the Pod, and the synthetic Pod has none.
fn check_claims(resources: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
    // The requests of the preceding claims, by name. A SidecarSet may have thousands of claims (E18).
    let mut seen: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for claim in resources.items("claims") {
        let (name, request) = (claim.text("name"), claim.text("request"));
        if name.is_empty() {
            errors.required(&claim.place, "a claim needs a name");
            continue;
        }
        let requests = seen.entry(name).or_default();
        // A claim without a request covers all requests.
        let is_whole = requests.contains("");
        if is_whole || requests.contains(request) || (request.is_empty() && !requests.is_empty()) {
            errors.duplicate(&claim.place, name);
        }
        if !request.is_empty() && !is_whole {
            claim.formatted("request", name_validation::dns_label, errors);
        }
        requests.insert(request);
        errors.not_found(&claim.place, name, "a SidecarSet brings no resource claims; remove it");
    }
}

fn check_resize(container: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
    let list = container.at("resizePolicy");
    let mut seen = BTreeSet::new();
    for policy in container.items("resizePolicy") {
        let name = policy.text("resourceName");
        if !seen.insert(name) {
            errors.duplicate(&policy.place, name);
        }
        // Kubernetes reports these errors at the list, not at the item.
        policy.one_of_at("resourceName", &list, &["cpu", "memory"], errors);
        policy.one_of_at("restartPolicy", &list, &["NotRequired", "RestartContainer"], errors);
    }
}
