//! Validation of containers and volumes as Kubernetes validates them in a Pod (VAL-12).
//!
//! The rules are those of Kubernetes v1.32 for creating a Pod, as `OpenKruise` applies them to the synthetic Pod
//! `default/test`: DNS policy `ClusterFirst`, restart policy `Always`, `ServiceAccount` `default`, 30 s of grace, no
//! host network, host users, no resource claims, privileged containers allowed. The rules do not include relaxations of
//! newer servers: names of environment variables follow the strict rule, `sleep` needs at least one second, and every
//! init container refuses a resize policy. An image volume needs no `reference`. Hugepages need not be a multiple of
//! the page size.
//!
//! Decisions and error paths are exactly those of Kubernetes, even if a path omits the index or key of the invalid item
//! (`volumeMounts.subPath`, `envFrom`, `resources.requests`, `downwardAPI.path`) or names another field (errors of
//! `gcePersistentDisk` are reported at `persistentDisk`, a second source `cephfs` at `cephFS`). The JSON must be
//! decoded: types are right, quantities parse, and nulls are removed. A `null` still reads as absent.
//!
//! Not covered:
//! * A second error for one value at one path. Kubernetes lists each broken rule of a name; one is enough here.
//! * Amounts of extended resources above 9.2e15. The reference's arithmetic overflows there and treats some of these
//!   whole numbers as fractions.
//! * Empty lists in the `metadata` of a volume claim template. They count as unset because the reference's defaulting
//!   drops them before validation.
//! * Annotations. The synthetic Pod has none, so there is nothing to compare with.

mod env;
mod field_ref;
mod images;
mod init_containers;
mod mounts;
mod paths;
mod ports;
mod probes;
mod resources;
mod security_context;
#[cfg(test)]
mod tests;
mod volumes;

use std::collections::BTreeSet;

use serde_json::Value;
use volumes::Volumes;

use crate::field::{FieldError, FieldErrors, FieldPath};
use crate::node::{Items, Node};

/// Validates containers and volumes as parts of one Pod and returns the errors.
///
/// Each item is a core/v1 `Container` or `Volume` as JSON, decoded and defaulted. Kubernetes requires at least one item
/// in `containers`: a caller without containers passes a valid stand-in. Error paths start at the Pod:
/// `spec.initContainers[0].volumeMounts[1].mountPath`.
pub fn validate(init_containers: &[Value], containers: &[Value], volumes: &[Value]) -> Vec<FieldError> {
    let mut errors = Vec::new();
    check(init_containers, containers, volumes, &mut errors);
    errors
}

/// Does the same as [`validate`], but adds the errors to a list.
pub fn check(init_containers: &[Value], containers: &[Value], volumes: &[Value], errors: &mut Vec<FieldError>) {
    let spec = FieldPath::new("spec");
    let volumes = volumes::check(volumes, &spec, errors);
    if containers.is_empty() {
        errors.required(&spec.child("containers"), "a Pod needs at least one container");
    }
    let mut names = BTreeSet::new();
    for container in Items::new(containers, &spec, "containers") {
        check_container(&container, &mut names, &volumes, errors);
        probes::check(&container, errors);
        init_containers::check_plain(&container, errors);
    }
    ports::check_host_ports(Items::new(containers, &spec, "containers"), errors);
    for container in Items::new(init_containers, &spec, "initContainers") {
        check_container(&container, &mut names, &volumes, errors);
        init_containers::check(&container, &spec, errors);
    }
    security_context::check_host_process(&spec, containers, init_containers, errors);
}

/// Checks the rules for containers of every kind. `names` holds the names of the preceding containers of either kind.
fn check_container<'v>(
    container: &Node<'v, '_>,
    names: &mut BTreeSet<&'v str>,
    volumes: &Volumes<'v>,
    errors: &mut Vec<FieldError>,
) {
    container.require_formatted("name", crate::name_validation::dns_label, errors);
    images::check(container, errors);
    container.one_of("terminationMessagePolicy", &["File", "FallbackToLogsOnError"], errors);
    ports::check(container, errors);
    env::check(container, errors);
    mounts::check(container, volumes, errors);
    resources::check(container, errors);
    security_context::check(container, errors);
    let name = container.text("name");
    if !name.is_empty() && !names.insert(name) {
        errors.duplicate(&container.at("name"), container.text("name"));
    }
}
