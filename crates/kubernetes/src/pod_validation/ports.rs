//! Ports of containers.

use std::collections::BTreeSet;

use crate::field::{FieldError, FieldErrors};
use crate::json;
use crate::node::{Items, Node};
use crate::unique;

const PORT_MAX: i64 = 65535;
const PORT_NAME_MAX: usize = 15;

/// Checks the ports of one container: names are well formed and unique, numbers are in range, protocols are known. A
/// number may appear twice.
pub(super) fn check(container: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
    let first = unique::are_first(container.list("ports").iter().map(|port| json::text(port, &["name"])));
    for (port, is_first) in container.items("ports").zip(first) {
        let name = port.text("name");
        if !name.is_empty() {
            if let Some(wrong) = port_name(name) {
                port.invalid("name", wrong, errors);
            } else if !is_first {
                errors.duplicate(&port.at("name"), port.text("name"));
            }
        }
        if port.number("containerPort") == 0 {
            errors.required(&port.at("containerPort"), "name the port that the container listens on");
        } else {
            port.in_range("containerPort", 1, PORT_MAX, errors);
        }
        if port.integer("hostPort") != Some(0) {
            port.in_range("hostPort", 1, PORT_MAX, errors);
        }
        port.one_of("protocol", &["TCP", "UDP", "SCTP"], errors);
    }
}

/// Checks that no two ports of containers that run concurrently claim the same host port.
pub(super) fn check_host_ports(containers: Items<'_, '_>, errors: &mut Vec<FieldError>) {
    let mut taken = BTreeSet::new();
    for container in containers {
        for port in container.items("ports") {
            let number = port.number("hostPort");
            let (protocol, address) = (port.text("protocol"), port.text("hostIP"));
            if number != 0 && !taken.insert((number, protocol, address)) {
                errors.duplicate(&port.at("hostPort"), &format!("{protocol}/{address}/{number}"));
            }
        }
    }
}

/// Checks a port given by number or by name: the field `port` of a probe or a hook.
pub(super) fn check_port_reference(action: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
    if action.optional_text("port").is_some() {
        action.formatted("port", port_name, errors);
    } else {
        check_port_number(action, errors);
    }
}

/// Checks a port given by number: the field `port`. An absent field reads as 0, which is invalid.
pub(super) fn check_port_number(action: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
    if !(1..=PORT_MAX).contains(&action.number("port")) {
        action.invalid_number("port", "must be between 1 and 65535, inclusive", errors);
    }
}

/// Returns the problem of a port name (RFC 6335, lower case), if there is one.
fn port_name(name: &str) -> Option<&'static str> {
    let bytes = name.as_bytes();
    if bytes.len() > PORT_NAME_MAX {
        Some("must be no more than 15 characters")
    } else if !bytes.iter().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-')) {
        Some("must contain only lower case letters, digits and hyphens")
    } else if !bytes.iter().any(u8::is_ascii_lowercase) {
        Some("must contain at least one letter (a-z)")
    } else if name.contains("--") {
        Some("must not contain consecutive hyphens")
    } else if name.starts_with('-') || name.ends_with('-') {
        Some("must not begin or end with a hyphen")
    } else {
        None
    }
}
