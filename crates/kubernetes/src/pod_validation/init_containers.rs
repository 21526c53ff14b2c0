//! What only init containers may have, and what they may not.

use super::{ports, probes};
use crate::field::{FieldError, FieldErrors as _, FieldPath};
use crate::node::{Items, Node};

/// The only restart policy that a container can have of its own; it makes an init container a native sidecar.
const ALWAYS: &str = "Always";
const FOR_NATIVE_ONLY: [&str; 4] = ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"];

/// The rules for one init container of the Pod's `spec`, beyond those for every container.
pub(super) fn check(container: &Node<'_, '_>, spec: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    container.known("restartPolicy", &[ALWAYS], errors);
    // Init containers run one by one, so each has the host's ports to itself. Kubernetes reports a conflict as if the
    // container were the first of the list.
    ports::check_host_ports(Items::of(std::slice::from_ref(container.value), spec, "initContainers"), errors);

    if container.is_one_of("restartPolicy", &[ALWAYS]) {
        probes::check(container, errors);
    } else {
        for key in FOR_NATIVE_ONLY {
            if container.has(key) {
                let detail = "may only be set on a container or on an init container with restartPolicy Always";
                errors.forbidden(&container.at(key), detail);
            }
        }
    }
    if !container.list("resizePolicy").is_empty() {
        container.invalid("resizePolicy", "must not be set for an init container", errors);
    }
}

/// The rule for plain containers: their restart policy is the Pod's.
pub(super) fn check_plain(container: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
    if container.has("restartPolicy") {
        let detail = "may not be set on a plain container; move it to initContainers or remove the field";
        errors.forbidden(&container.at("restartPolicy"), detail);
    }
}
