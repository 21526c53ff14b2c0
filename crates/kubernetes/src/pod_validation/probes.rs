//! Probes and lifecycle hooks.

use super::ports;
use crate::field::{FieldError, FieldErrors};
use crate::node::Node;

/// The grace period of the synthetic Pod, in seconds.
const GRACE: i64 = 30;
const PROBE_ACTIONS: [&str; 4] = ["exec", "httpGet", "tcpSocket", "grpc"];
const HOOK_ACTIONS: [&str; 4] = ["exec", "httpGet", "tcpSocket", "sleep"];

/// Checks the probes and hooks of a container that may have them.
pub(super) fn check(container: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
    let lifecycle = container.part("lifecycle");
    for key in ["postStart", "preStop"] {
        if let Some(hook) = &lifecycle.get(key) {
            check_action(hook, &HOOK_ACTIONS, errors);
        }
    }
    for key in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = &container.get(key) {
            check_probe(probe, errors);
            if key != "readinessProbe" {
                if probe.number("successThreshold") != 1 {
                    probe.invalid_number("successThreshold", "must be 1", errors);
                }
            } else if probe.integer("terminationGracePeriodSeconds").is_some() {
                let detail = "must not be set for a readiness probe, which never ends a container";
                probe.invalid_number("terminationGracePeriodSeconds", detail, errors);
            }
        }
    }
}

fn check_probe(probe: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
    check_action(probe, &PROBE_ACTIONS, errors);
    for key in ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"] {
        if probe.number(key) < 0 {
            probe.invalid_number(key, "must not be negative", errors);
        }
    }
    if probe.integer("terminationGracePeriodSeconds").is_some_and(|grace| grace <= 0) {
        probe.invalid_number("terminationGracePeriodSeconds", "must be greater than 0", errors);
    }
}

/// Checks that exactly one of `actions` is set. Checks the content of the first; each further action is an error.
fn check_action(handler: &Node<'_, '_>, actions: &[&str], errors: &mut Vec<FieldError>) {
    let mut given = false;
    for kind in actions {
        let Some(action) = &handler.get(kind) else { continue };
        if given {
            errors.forbidden(&action.place, "must not have more than one action; remove this or the other one");
        } else {
            given = true;
            check_one(kind, action, errors);
        }
    }
    if !given {
        errors.required(&handler.place, &format!("must specify one of: {}", actions.join(", ")));
    }
}

fn check_one(kind: &str, action: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
    match kind {
        "exec" => {
            action.require("command", errors);
        }
        "httpGet" => check_http_get(action, errors),
        "tcpSocket" => ports::check_port_reference(action, errors),
        "grpc" => ports::check_port_number(action, errors),
        _ => {
            let seconds = action.number("seconds");
            if !(1..=GRACE).contains(&seconds) {
                let detail = "must be greater than 0 and at most the grace period of 30 seconds";
                errors.invalid(&action.place, seconds, detail);
            }
        }
    }
}

fn check_http_get(get: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
    get.require("path", errors);
    ports::check_port_reference(get, errors);
    get.one_of("scheme", &["HTTP", "HTTPS"], errors);
    for header in get.items("httpHeaders") {
        let name = header.text("name");
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
            let detail = "a header name must consist of letters, digits and '-'";
            errors.invalid(&get.at("httpHeaders"), name, detail);
        }
    }
}
