//! Warnings about a Pod with which a sidecar hardly works as meant, although the API server accepts it (INJ-31). Most
//! Pods have none of the fields that are read here.

use std::collections::{BTreeMap, BTreeSet};

use pillion_identity::tokens::sight;
use pillion_kubernetes::json;
use pillion_sidecarset::expression::ResourcesPolicy;
use pillion_sidecarset::made;
use pillion_sidecarset::native::NATIVE;
use pillion_sidecarset::pod::{self, Pod};
use pillion_sidecarset::sidecar::{List, is_long_running, names_in_pod};
use pillion_sidecarset::sidecar_set::SidecarSet;
use serde_json::{Value, json};

use crate::additions::{Added, Additions};
use crate::container::Sidecar;
use crate::records::Records;
use crate::resources;

/// The most characters of a warning that the API server passes on.
const WARNING_MAX: usize = 256;
/// How a SidecarSet leaves Pods out.
const LEAVE_OUT: &str = "exclude such Pods by a label in the selector, or by the namespaceSelector";

/// Warns of what the Pod's spec makes of the containers that are added to it.
pub(crate) fn unsuited(pod: Pod<'_>, sets: &[SidecarSet], records: &Records, additions: Additions<'_>) -> Vec<String> {
    let mut warnings = ending(pod, additions.containers);
    warnings.extend(on_the_nodes_network(pod, additions));
    warnings.extend(for_windows(pod, additions));
    warnings.extend(uncounted_resources(pod, sets, records, additions));
    warnings
}

/// Warns of plain sidecars in a Pod that ends: it does not end before they do. The Pod of a Job is known by its owner,
/// too, since the template in a file may lack `restartPolicy`.
fn ending(pod: Pod<'_>, sidecars: &[Sidecar]) -> Vec<String> {
    if !pod.ends() {
        return Vec::new();
    }
    let what = if pod.belongs_to_job() {
        "the Job from finishing".to_owned()
    } else {
        format!("the Pod (restartPolicy {}) from completing", json::text(pod.as_value(), &["spec", "restartPolicy"]))
    };
    let warning = |sidecar: &Sidecar| {
        format!(
            "SidecarSet {}: container \"{}\" may keep {what}; set annotation {NATIVE} to EndingPods, or make it an init \
             container with restartPolicy Always",
            sidecar.set,
            sidecar.name()
        )
    };
    sidecars.iter().map(warning).collect()
}

/// Warns of containers that change the node in a Pod that uses the network of the node.
fn on_the_nodes_network(pod: Pod<'_>, additions: Additions<'_>) -> Vec<String> {
    if !json::flag(pod.as_value(), &["spec", "hostNetwork"]) {
        return Vec::new();
    }
    let mut warnings = Vec::new();
    for Added { list, sidecar } in additions.all() {
        let mut warn = |problem: String| {
            warnings.push(format!("SidecarSet {}: the Pod has hostNetwork, so {problem}; {LEAVE_OUT}", sidecar.set));
        };
        if takes_ports(list, &sidecar.container) {
            warn(format!(
                "the ports of container \"{}\" become ports of the node, which has room for one such Pod",
                sidecar.name()
            ));
        }
        if let Some(power) = sight::power_among(&sidecar.container, &["NET_ADMIN"]) {
            warn(format!("container \"{}\", which {power}, can change the network of the node", sidecar.name()));
        }
    }
    warnings
}

/// Whether the API server makes a port of the container one of the node that keeps a second Pod away. A port with a
/// `hostPort` is one of the node in every Pod. The scheduler ignores ports of init containers that end.
fn takes_ports(list: List, container: &Value) -> bool {
    let is_set = |port: &Value, key| port.get(key).and_then(Value::as_i64).is_some_and(|number| number != 0);
    is_long_running(container, list)
        && json::items(container, &["ports"])
            .iter()
            .any(|port| is_set(port, "containerPort") && !is_set(port, "hostPort"))
}

/// Warns of SidecarSets that add containers to a Pod for Windows. A container with `windowsOptions` is meant for it, and
/// INJ-30 refuses security contexts of Linux. The Pods of many name their system in the `nodeSelector` alone.
fn for_windows(pod: Pod<'_>, additions: Additions<'_>) -> Vec<String> {
    let systems = [["spec", "os", "name"], ["spec", "nodeSelector", "kubernetes.io/os"]];
    if systems.iter().all(|path| json::text(pod.as_value(), path) != "windows") {
        return Vec::new();
    }
    let is_for_windows = |sidecar: &Sidecar| {
        json::at(&sidecar.container, &["securityContext", "windowsOptions"]).is_some_and(|options| !options.is_null())
    };
    let sidecars = additions.all().map(|added| added.sidecar).filter(|sidecar| !is_for_windows(sidecar));
    let sets: BTreeSet<&str> = sidecars.map(|sidecar| sidecar.set.as_str()).collect();
    let warning = |set| {
        format!(
            "SidecarSet {set}: the Pod is for Windows, where images for Linux do not start; unless the sidecars have images \
             for Windows, {LEAVE_OUT}"
        )
    };
    sets.into_iter().map(warning).collect()
}

/// Warns of a `resourcesPolicy` that computes with amounts which only the Pod has, and none of its containers: EXPR-2
/// does not count them.
fn uncounted_resources(pod: Pod<'_>, sets: &[SidecarSet], records: &Records, additions: Additions<'_>) -> Vec<String> {
    let Some(of_pod) = json::at(pod.as_value(), &["spec", "resources"]).filter(|resources| resources.is_object())
    else {
        return Vec::new();
    };
    let computed = additions.all().map(|added| added.sidecar).filter(|sidecar| sidecar.is_computed);
    let computed: BTreeMap<&str, &Value> = computed.map(|sidecar| (sidecar.name(), &sidecar.container)).collect();
    if computed.is_empty() {
        return Vec::new();
    }
    let own = resources::containers(pod, sets, records);
    let is_in = |resources: &Value, path: &[&str]| json::at(resources, path).is_some_and(|amount| !amount.is_null());
    let mut of_pod_alone = BTreeMap::new();
    let mut warnings = Vec::new();
    for set in sets {
        for (list, _, sidecar) in made::sidecars(set) {
            let in_pod = names_in_pod(sidecar, list);
            let Some(container) = in_pod.first().and_then(|name| computed.get(name.as_str())) else { continue };
            let policy = json::at(sidecar, &["resourcesPolicy"]).map(ResourcesPolicy::from_json);
            let Some(Ok(policy)) = policy else { continue };
            // There may be dozens of sidecars and thousands of containers (E18).
            let is_of_pod_alone = |(section, resource): &(&'static str, &'static str)| {
                *of_pod_alone.entry((*section, *resource)).or_insert_with(|| {
                    let in_container = |container: &&Value| is_in(container, &["resources", section, resource]);
                    is_in(of_pod, &[section, resource]) && !own.iter().any(in_container)
                })
            };
            let uncounted: Vec<String> = policy
                .variables()
                .filter(is_of_pod_alone)
                .map(|(section, resource)| format!("{section}.{resource}"))
                .collect();
            let Some((first, more)) = uncounted.split_first() else { continue };
            let result = container.get("resources").filter(|result| **result != json!({}));
            let result = result.map_or_else(|| "nothing".to_owned(), Value::to_string);
            let about = format!("SidecarSet {}: {}: resourcesPolicy", set.name(), pod::name(sidecar));
            let remedy = "give its containers resources, or write constants";
            let whole = format!(
                "{about} does not count {} of the Pod, and its containers have none: it computed {result}; {remedy}",
                uncounted.join(", ")
            );
            let more = if more.is_empty() { String::new() } else { format!(" (and {} more)", more.len()) };
            let fits = whole.chars().count() <= WARNING_MAX;
            warnings.push(if fits { whole } else { format!("{about} ignores {first}{more} of the Pod; {remedy}") });
        }
    }
    warnings
}

#[cfg(test)]
mod tests;
