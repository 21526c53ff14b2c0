//! Probes and lifecycle hooks.

use super::node::Node;
use super::ports;
use crate::field::FieldError;

/// The grace period of the synthetic Pod, in seconds.
const GRACE: i64 = 30;
const PROBE_ACTIONS: [&str; 4] = ["exec", "httpGet", "tcpSocket", "grpc"];
const HOOK_ACTIONS: [&str; 4] = ["exec", "httpGet", "tcpSocket", "sleep"];

/// The probes and hooks of a container that may have them.
pub(super) fn check(container: &Node<'_>, errors: &mut Vec<FieldError>) {
    if let Some(lifecycle) = container.get("lifecycle") {
        for hook in ["postStart", "preStop"].iter().filter_map(|key| lifecycle.get(key)) {
            check_action(&hook, &HOOK_ACTIONS, errors);
        }
    }
    if let Some(probe) = container.get("livenessProbe") {
        check_probe(&probe, errors);
        check_success_threshold(&probe, errors);
    }
    if let Some(probe) = container.get("readinessProbe") {
        check_probe(&probe, errors);
        if let Some(grace) = probe.integer("terminationGracePeriodSeconds") {
            let detail = "must not be set for a readiness probe, which never ends a container";
            errors.push(FieldError::invalid(&probe.at("terminationGracePeriodSeconds"), grace, detail));
        }
    }
    if let Some(probe) = container.get("startupProbe") {
        check_probe(&probe, errors);
        check_success_threshold(&probe, errors);
    }
}

fn check_success_threshold(probe: &Node<'_>, errors: &mut Vec<FieldError>) {
    let threshold = probe.integer("successThreshold").unwrap_or_default();
    if threshold != 1 {
        errors.push(FieldError::invalid(&probe.at("successThreshold"), threshold, "must be 1"));
    }
}

fn check_probe(probe: &Node<'_>, errors: &mut Vec<FieldError>) {
    check_action(probe, &PROBE_ACTIONS, errors);
    for key in ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"] {
        if let Some(value) = probe.integer(key)
            && value < 0
        {
            errors.push(FieldError::invalid(&probe.at(key), value, "must not be negative"));
        }
    }
    if let Some(grace) = probe.integer("terminationGracePeriodSeconds")
        && grace <= 0
    {
        errors.push(FieldError::invalid(&probe.at("terminationGracePeriodSeconds"), grace, "must be greater than 0"));
    }
}

/// Exactly one of `actions`; the first one is checked, any further one is too many.
fn check_action(handler: &Node<'_>, actions: &[&str], errors: &mut Vec<FieldError>) {
    let mut given = actions.iter().filter_map(|kind| Some((*kind, handler.get(kind)?)));
    match given.next() {
        None => {
            let detail = format!("must specify one of: {}", actions.join(", "));
            errors.push(FieldError::required(&handler.path, detail));
        }
        Some(("exec", exec)) => {
            exec.require("command", errors);
        }
        Some(("httpGet", get)) => check_http_get(&get, errors),
        Some(("tcpSocket", socket)) => ports::check_port_reference(&socket, errors),
        Some(("grpc", grpc)) => ports::check_port_number(&grpc, errors),
        Some((_, sleep)) => {
            let seconds = sleep.integer("seconds").unwrap_or_default();
            if !(1..=GRACE).contains(&seconds) {
                let detail = format!("must be greater than 0 and at most the grace period of {GRACE} seconds");
                errors.push(FieldError::invalid(&sleep.path, seconds, detail));
            }
        }
    }
    for (kind, extra) in given {
        let detail = format!("must not have more than one action; remove {kind} or the other one");
        errors.push(FieldError::forbidden(&extra.path, detail));
    }
}

fn check_http_get(get: &Node<'_>, errors: &mut Vec<FieldError>) {
    get.require("path", errors);
    ports::check_port_reference(get, errors);
    get.one_of("scheme", &["HTTP", "HTTPS"], errors);
    for header in get.items("httpHeaders") {
        let name = header.text("name");
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
            let detail = "a header name must consist of letters, digits and '-'";
            errors.push(FieldError::invalid(&get.at("httpHeaders"), name, detail));
        }
    }
}
