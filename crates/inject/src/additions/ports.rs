//! Ports of the node.

use std::collections::BTreeMap;

use pillion_kubernetes::json;
use pillion_kubernetes::outcome::Reason;
use pillion_sidecarset::pod::{self, Pod};
use pillion_sidecarset::sidecar::List;
use serde_json::Value;

use super::{Added, Additions};

/// A port of the node: its number, protocol and address. The API server compares addresses as texts.
type Claim<'a> = (i64, &'a str, &'a str);

/// Checks that the added containers claim no port of the node that another container of the Pod claims. The API server
/// compares the ports of init containers only within each of them, so the SidecarSet's own check (VAL-12) does.
pub(super) fn check(pod: Pod<'_>, additions: Additions<'_>, reasons: &mut Vec<Reason>) {
    let is_on_host = json::flag(pod.as_value(), &["spec", "hostNetwork"]);
    if additions.containers.iter().all(|sidecar| json::items(&sidecar.container, &["ports"]).is_empty()) {
        return;
    }
    let mut taken: BTreeMap<Claim<'_>, &str> = BTreeMap::new();
    for container in additions.others(pod, List::Containers) {
        let ports = json::items(container, &["ports"]).iter();
        taken.extend(ports.filter_map(|port| Some((claim(port, is_on_host)?, pod::name(container)))));
    }
    for sidecar in additions.containers {
        let added = Added { list: List::Containers, sidecar };
        for port in json::items(&sidecar.container, &["ports"]) {
            let Some(claim) = claim(port, is_on_host) else { continue };
            check_number(added, port, is_on_host, reasons);
            match taken.get(&claim) {
                Some(owner) => reasons.push(clash(added, claim, owner, is_on_host)),
                None => drop(taken.insert(claim, sidecar.name())),
            }
        }
    }
}

/// Returns what a port claims of the node. In a Pod on the node's network, the API server sets each `hostPort` to the
/// `containerPort`.
fn claim(port: &Value, is_on_host: bool) -> Option<Claim<'_>> {
    let number = |key: &str| port.get(key).and_then(Value::as_i64).filter(|number| *number != 0);
    let claimed = number("hostPort").or_else(|| number("containerPort").filter(|_| is_on_host))?;
    let protocol = match json::text(port, &["protocol"]) {
        "" => "TCP",
        protocol => protocol,
    };
    Some((claimed, protocol, json::text(port, &["hostIP"])))
}

fn clash(added: Added<'_>, (number, protocol, _): Claim<'_>, owner: &str, is_on_host: bool) -> Reason {
    let why = if is_on_host { " (the Pod is on the node's network)" } else { "" };
    let problem = format!(
        "container \"{}\" claims the port {number}/{protocol} of the node{why}, which container \"{owner}\" of the Pod claims, \
         too; the API server refuses that",
        added.name(),
    );
    added.reason("ports", problem, "change a port, or change the Pod's labels so that the SidecarSet does not match it")
}

/// On the node's network, both numbers of a port are the same.
fn check_number(added: Added<'_>, port: &Value, is_on_host: bool, reasons: &mut Vec<Reason>) {
    let number = |key: &str| port.get(key).and_then(Value::as_i64).unwrap_or_default();
    let (host, container) = (number("hostPort"), number("containerPort"));
    if is_on_host && host != 0 && host != container {
        let problem = format!(
            "container \"{}\" has the hostPort {host} for its port {container}, and the Pod is on the node's network, where the \
             API server wants both to be the same",
            added.name(),
        );
        reasons.push(added.reason("ports", problem, "remove hostPort from the sidecar"));
    }
}
