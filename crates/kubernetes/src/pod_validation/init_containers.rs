//! Rules that differ between init containers and plain containers.

use super::{ports, probes};
use crate::field::{FieldError, FieldErrors as _, FieldPath};
use crate::node::{Items, Node};

/// The only valid restart policy of a container. It makes an init container a native sidecar.
const ALWAYS: &str = "Always";
const FOR_NATIVE_ONLY: [&str; 4] = ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"];

/// Checks the rules for one init container of the Pod's `spec`, in addition to those for every container.
pub(super) fn check(container: &Node<'_, '_>, spec: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    container.known("restartPolicy", &[ALWAYS], errors);
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
    }
    if !container.list("resizePolicy").is_empty() {
        container.invalid("resizePolicy", "must not be set for an init container", errors);
    }
}

/// Checks that a plain container has no restart policy: the Pod's policy applies.
pub(super) fn check_plain(container: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
    if container.has("restartPolicy") {
        let detail = "may not be set on a plain container; move it to initContainers or remove the field";
        errors.forbidden(&container.at("restartPolicy"), detail);
    }
}
