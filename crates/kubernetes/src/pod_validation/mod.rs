//! Whether Kubernetes would create a Pod with these containers and volumes (V-12).
//!
//! The rules are those of Kubernetes v1.32 for creating a Pod, as `OpenKruise` applies them to the synthetic Pod
//! `default/test`: DNS policy `ClusterFirst`, restart policy `Always`, `ServiceAccount` `default`, 30 s of grace, no
//! host network, host users, no resource claims, privileged containers allowed. What newer servers relax is not
//! relaxed there: names of environment variables follow the strict rule, `sleep` needs at least one second, a resize
//! policy is refused on every init container; an image volume needs no `reference`. Hugepages need not be a multiple
//! of the page size.
//!
//! Decisions and paths are Kubernetes' own, also where a path names less than the offending item
//! (`volumeMounts.subPath`, `envFrom`, `resources.requests`, `downwardAPI.path`) or another field than the one it
//! means (`gcePersistentDisk` is checked as `persistentDisk`, a second `cephfs` is reported as `cephFS`). The JSON is
//! decoded: types are right, quantities parse, nulls are gone; `null` still reads as absent.
//!
//! Not covered:
//! * a second error for one value at one path (Kubernetes lists each broken rule of a name; one is enough here);
//! * amounts of extended resources above 9.2e15: the reference's arithmetic overflows there and takes some of these
//!   whole numbers for fractions;
//! * empty lists in the `metadata` of a volume claim template count as unset: the reference's defaulting drops them
//!   before they are validated;
//! * annotations: the synthetic Pod has none, so nothing is compared with them.

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

/// Checks containers and volumes as the parts of one Pod.
///
/// Each item is a core/v1 `Container` or `Volume` as JSON, decoded and defaulted. `containers` must not be empty: a
/// caller without any passes a valid stand-in, as Kubernetes wants at least one. Paths start at the Pod:
/// `spec.initContainers[0].volumeMounts[1].mountPath`.
pub fn validate(init_containers: &[Value], containers: &[Value], volumes: &[Value]) -> Vec<FieldError> {
    let mut errors = Vec::new();
    check(init_containers, containers, volumes, &mut errors);
    errors
}

/// [`validate`] with a list to add to.
pub fn check(init_containers: &[Value], containers: &[Value], volumes: &[Value], errors: &mut Vec<FieldError>) {
    let spec = FieldPath::new("spec");
    let volumes = volumes::check(volumes, &spec, errors);
    if containers.is_empty() {
        errors.required(&spec.child("containers"), "a Pod needs at least one container");
    }
    let mut names = BTreeSet::new();
    for container in Items::of(containers, &spec, "containers") {
        check_container(&container, &mut names, &volumes, errors);
        probes::check(&container, errors);
        init_containers::check_plain(&container, errors);
    }
    ports::check_host_ports(Items::of(containers, &spec, "containers"), errors);
    for container in Items::of(init_containers, &spec, "initContainers") {
        check_container(&container, &mut names, &volumes, errors);
        init_containers::check(&container, &spec, errors);
    }
    security_context::check_host_process(&spec, containers, init_containers, errors);
}

/// The rules that hold for containers of every kind. `names` are those of the containers before it, whatever their
/// kind.
fn check_container<'v>(
    container: &Node<'v, '_>,
    names: &mut BTreeSet<&'v str>,
    volumes: &Volumes<'v>,
    errors: &mut Vec<FieldError>,
) {
    container.require_formatted("name", crate::format::dns_label, errors);
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
