//! Rules that differ between init containers and plain containers. Those for restarts and resizes are of Kubernetes 1.37,
//! which OpenKruise does not know (DIFF-38).

use super::{ports, probes};
use crate::field::{FieldError, FieldErrors as _, FieldPath};
use crate::node::{Items, Node};

/// The restart policy that makes an init container a native sidecar.
const ALWAYS: &str = "Always";
const NEVER: &str = "Never";
const ON_FAILURE: &str = "OnFailure";
const POLICIES: [&str; 3] = [ALWAYS, NEVER, ON_FAILURE];
/// The most rules for restarts.
const RULES_MAX: usize = 20;
const FOR_NATIVE_ONLY: [&str; 4] = ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"];

/// Checks the rules for one init container of the Pod's `spec`, in addition to those for every container.
pub(super) fn check(container: &Node<'_, '_>, spec: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    if container.list("restartPolicyRules").is_empty() {
        container.known("restartPolicy", &[ALWAYS], errors);
    } else {
        check_rules(container, errors);
    }
    // Init containers run one at a time, so their host ports do not conflict with each other. Kubernetes reports a
    // conflict within one container as if it were the first of the list.
    ports::check_host_ports(Items::new(std::slice::from_ref(container.value), spec, "initContainers"), errors);

    if container.is_one_of("restartPolicy", &[ALWAYS]) {
        probes::check(container, errors);
    } else {
        for key in FOR_NATIVE_ONLY {
            if container.has(key) {
                let detail = "may only be set on a container or on an init container with restartPolicy Always";
                errors.forbidden(&container.at(key), detail);
            }
        }
        if !container.list("resizePolicy").is_empty() {
            let detail = "must not be set for an init container without restartPolicy Always";
            container.invalid("resizePolicy", detail, errors);
        }
    }
}

/// Checks that a plain container without rules for restarts has no restart policy: the Pod's policy applies. Kubernetes
/// 1.35 takes one, but an older API server refuses the Pods, and it is often meant for a native sidecar.
pub(super) fn check_plain(container: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
    if container.has("restartPolicy") && container.list("restartPolicyRules").is_empty() {
        let detail = "may not be set on a plain container without restartPolicyRules; move it to initContainers or remove \
                      the field";
        errors.forbidden(&container.at("restartPolicy"), detail);
    } else {
        check_rules(container, errors);
    }
}

/// Checks the rules for restarts of a container, which Kubernetes has since 1.34 (by default since 1.35), and the policy
/// beside them.
fn check_rules(container: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
    let rules = container.list("restartPolicyRules");
    if rules.is_empty() {
        return;
    }
    container.known("restartPolicy", &POLICIES, errors);
    if !container.has("restartPolicy") {
        errors.required(&container.at("restartPolicy"), "must be set beside restartPolicyRules");
    }
    if rules.len() > RULES_MAX {
        container.invalid("restartPolicyRules", "must have at most 20 rules", errors);
    }
}
