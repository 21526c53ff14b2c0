//! What only init containers may have, and what they may not.

use super::node::Node;
use super::{ports, probes};
use crate::field::{FieldError, FieldPath};

/// The only restart policy that a container can have of its own; it makes an init container a native sidecar.
const ALWAYS: &str = "Always";
const FOR_NATIVE_ONLY: [&str; 4] = ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"];

/// The rules for one init container of the list at `list`, beyond those for every container.
pub(super) fn check(container: &Node<'_>, list: &FieldPath, errors: &mut Vec<FieldError>) {
    let policy = container.optional_text("restartPolicy");
    if let Some(policy) = policy
        && policy != ALWAYS
    {
        errors.push(FieldError::not_supported(&container.at("restartPolicy"), policy, &[ALWAYS]));
    }
    // Init containers run one by one, so each has the host's ports to itself. Kubernetes reports a conflict as if the
    // container were the first of the list.
    let first = Node { value: container.value, path: list.index(0) };
    ports::check_host_ports(&[first], errors);

    if policy == Some(ALWAYS) {
        probes::check(container, errors);
    } else {
        for key in FOR_NATIVE_ONLY.into_iter().filter(|key| container.has(key)) {
            let detail = "may only be set on a container or on an init container with restartPolicy Always";
            errors.push(FieldError::forbidden(&container.at(key), detail));
        }
    }
    if container.items("resizePolicy").next().is_some() {
        let detail = "must not be set for an init container";
        errors.push(FieldError::invalid(&container.at("resizePolicy"), "", detail));
    }
}

/// The rule for plain containers: their restart policy is the Pod's.
pub(super) fn check_plain(container: &Node<'_>, errors: &mut Vec<FieldError>) {
    if container.has("restartPolicy") {
        let detail = "may not be set on a plain container; move it to initContainers or remove the field";
        errors.push(FieldError::forbidden(&container.at("restartPolicy"), detail));
    }
}
