//! Resources of sidecars, beside those of the Pod (`spec.resources`, Kubernetes 1.34).

use pillion_kubernetes::json;
use pillion_kubernetes::outcome::Reason;
use pillion_kubernetes::quantity::Quantity;
use pillion_sidecarset::pod::Pod;
use pillion_sidecarset::sidecar::{self, List};
use serde_json::Value;

use super::{Added, Additions};

/// The resources that a Pod can have.
const OF_PODS: [&str; 4] = ["cpu", "memory", "hugepages-1Gi", "hugepages-2Mi"];

/// Checks requests against limits, and both against those of the Pod.
pub(super) fn check(pod: Pod<'_>, additions: Additions<'_>, reasons: &mut Vec<Reason>) {
    for added in additions.all() {
        check_own(added, reasons);
    }
    let Some(of_pod) = json::at(pod.as_value(), &["spec", "resources"]).filter(|resources| resources.is_object())
    else {
        return;
    };
    for resource in OF_PODS {
        let limit = amount(of_pod, "limits", resource);
        if let Some(limit) = &limit {
            check_limits(additions, resource, limit, reasons);
        }
        // Without a request, the API server takes the sum of the containers, which may not exceed the limit.
        let (bound, what) = match amount(of_pod, "requests", resource) {
            Some(request) => (request, "request"),
            None => match limit {
                Some(limit) => (limit, "limit"),
                None => continue,
            },
        };
        check_requests(pod, additions, (resource, &bound, what), reasons);
    }
}

/// Returns an amount in `resources`, if it is one.
fn amount(resources: &Value, section: &str, resource: &str) -> Option<Quantity> {
    Quantity::from_json(json::at(resources, &[section, resource]).filter(|value| !value.is_null())?).ok()
}

/// A computed request may exceed a computed limit. VAL-12 judges the resources that a SidecarSet states.
fn check_own(added: Added<'_>, reasons: &mut Vec<Reason>) {
    let Some(resources) = added.container().get("resources").filter(|_| added.sidecar.is_computed) else { return };
    for (resource, _) in json::object(resources, &["requests"]).into_iter().flatten() {
        let (request, limit) = (amount(resources, "requests", resource), amount(resources, "limits", resource));
        let Some((request, limit)) = request.zip(limit).filter(|(request, limit)| request > limit) else { continue };
        let problem = format!(
            "container \"{}\" would request {request} of {resource}, more than its limit of {limit}; the API server refuses that",
            added.name(),
        );
        let remedy =
            "change the expressions, for example with min(), or the resources of the containers that they read";
        reasons.push(added.reason(added.field(), problem, remedy));
    }
}

/// The API server compares the limit of each container with that of the Pod.
fn check_limits(additions: Additions<'_>, resource: &str, limit: &Quantity, reasons: &mut Vec<Reason>) {
    for sidecar in additions.containers {
        let added = Added { list: List::Containers, sidecar };
        let own = sidecar.container.get("resources").and_then(|own| amount(own, "limits", resource));
        if let Some(own) = own.filter(|own| own > limit) {
            let problem = format!(
                "container \"{}\" has a limit of {own} of {resource}, more than the Pod's own limit of {limit} \
                 (spec.resources); the API server refuses that",
                added.name(),
            );
            reasons.push(added.reason(
                added.field(),
                problem,
                "raise spec.resources of the Pod, or lower the limit of the sidecar",
            ));
        }
    }
}

/// The API server compares the sum of the containers' requests with the request of the Pod.
fn check_requests(
    pod: Pod<'_>,
    additions: Additions<'_>,
    (resource, bound, what): (&str, &Quantity, &str),
    reasons: &mut Vec<Reason>,
) {
    let of = |container: &Value| request(container, resource);
    let (init, plain) = (additions.sidecars(List::Init), additions.sidecars(List::Containers));
    let before = || additions.others(pod, List::Init);
    let Some(without) = total(before(), additions.others(pod, List::Containers), of) else { return };
    let first = init.iter().filter(|sidecar| sidecar.before).map(|sidecar| &sidecar.container);
    let last = init.iter().filter(|sidecar| !sidecar.before).map(|sidecar| &sidecar.container);
    let all = additions.others(pod, List::Containers).chain(plain.iter().map(|sidecar| &sidecar.container));
    let Some(with) = total(first.chain(before()).chain(last), all, of) else { return };
    if with <= *bound || without > *bound {
        return;
    }
    for added in additions.all() {
        let Some(own) = request(added.container(), resource).filter(|own| !own.is_zero()) else { continue };
        let problem = format!(
            "container \"{}\" requests {own} of {resource}, with which the Pod's containers request {with}, more than the Pod's \
             own {what} of {bound} (spec.resources); the API server refuses that",
            added.name(),
        );
        reasons.push(added.reason(
            added.field(),
            problem,
            "raise spec.resources of the Pod, or lower the request of the sidecar",
        ));
    }
}

/// Returns the request of a container: 0 if it has none and no limit, which the API server takes in its place. `None` if
/// it is no quantity.
fn request(container: &Value, resource: &str) -> Option<Quantity> {
    let sections = ["requests", "limits"].into_iter();
    let mut values = sections.filter_map(|section| json::at(container, &["resources", section, resource]));
    values
        .find(|value| !value.is_null())
        .map_or_else(|| Some(Quantity::default()), |value| Quantity::from_json(value).ok())
}

/// Returns what a Pod requests, as the scheduler and the API server compute it: all containers and native sidecars
/// together, or more while its init containers run, one after another beside the native sidecars before them. `None` if
/// an amount is none, or the sum is too large.
fn total<'v>(
    init: impl Iterator<Item = &'v Value>,
    containers: impl Iterator<Item = &'v Value>,
    request: impl Fn(&Value) -> Option<Quantity>,
) -> Option<Quantity> {
    let (mut native, mut starting) = (Quantity::default(), Quantity::default());
    for container in init {
        let own = native.checked_add(&request(container)?)?;
        if sidecar::is_native(container) {
            native = own.clone();
        }
        starting = starting.max(own);
    }
    let mut running = native;
    for container in containers {
        running = running.checked_add(&request(container)?)?;
    }
    Some(running.max(starting))
}

impl Added<'_> {
    /// Returns the field of the SidecarSet that says which resources the container gets.
    fn field(self) -> &'static str {
        if self.sidecar.is_computed { "resourcesPolicy" } else { "resources" }
    }
}
