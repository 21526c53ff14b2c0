//! Volumes and their sources.

mod claims;
mod cloud;
mod files;
mod legacy;
mod network;
mod projected;

use std::collections::BTreeSet;
use std::collections::btree_map::{BTreeMap, Entry};

use serde_json::Value;

use super::images::PULL_POLICIES;
use super::paths;
use crate::field::{FieldError, FieldErrors, FieldPath};
use crate::name_validation;
use crate::node::{Items, Node};
use crate::quantity::Quantity;

/// The name of the synthetic Pod. The claim of an ephemeral volume is named `<Pod>-<volume>`.
const POD: &str = "test";
/// The maximum length of the name of a CSI driver, in bytes.
const DRIVER_MAX: usize = 63;
const HOST_PATH_TYPES: [&str; 8] =
    ["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];

/// The volumes without errors of their own, by name.
#[derive(Default)]
pub(super) struct Volumes<'v>(BTreeMap<&'v str, &'v Value>);

impl Volumes<'_> {
    /// Whether there is a volume with this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Whether there is a volume with this name and one of these sources.
    pub(super) fn has_source(&self, name: &str, sources: &[&str]) -> bool {
        let volume = self.0.get(name);
        volume.is_some_and(|volume| sources.iter().any(|source| Node::root(volume).has(source)))
    }
}

/// A function that checks the content of a source.
type Check = fn(&Node<'_, '_>, &mut Vec<FieldError>);

/// One type of volume: its key, the field name for errors in its content, the field name for the error that it is one
/// source too many (Kubernetes uses other names for a few types), and its check.
struct Source {
    key: &'static str,
    checked_as: &'static str,
    extra_as: &'static str,
    check: Check,
}

const fn source(key: &'static str, check: Check) -> Source {
    Source { key, checked_as: key, extra_as: key, check }
}

/// Every type of volume, in the order in which Kubernetes looks for them. The first one that is set is checked; each
/// further one is too many.
static SOURCES: [Source; 30] = [
    source("emptyDir", check_empty_dir),
    source("hostPath", check_host_path),
    source("gitRepo", legacy::check_git_repo),
    Source { checked_as: "persistentDisk", ..source("gcePersistentDisk", cloud::check_gce_disk) },
    source("awsElasticBlockStore", cloud::check_aws_disk),
    source("secret", files::check_secret),
    source("nfs", network::check_nfs),
    source("iscsi", network::check_iscsi),
    source("glusterfs", network::check_glusterfs),
    source("flocker", legacy::check_flocker),
    source("persistentVolumeClaim", claims::check_reference),
    source("rbd", network::check_rbd),
    source("cinder", cloud::check_cinder),
    Source { extra_as: "cephFS", ..source("cephfs", network::check_cephfs) },
    source("quobyte", legacy::check_quobyte),
    Source { extra_as: "downwarAPI", ..source("downwardAPI", files::check_downward_api) },
    source("fc", network::check_fc),
    source("flexVolume", legacy::check_flex_volume),
    source("configMap", files::check_config_map),
    source("azureFile", cloud::check_azure_file),
    source("vsphereVolume", cloud::check_vsphere),
    source("photonPersistentDisk", cloud::check_photon),
    source("portworxVolume", legacy::check_portworx),
    source("azureDisk", cloud::check_azure_disk),
    source("storageos", legacy::check_storage_os),
    source("projected", projected::check),
    source("scaleIO", legacy::check_scale_io),
    source("csi", check_csi),
    source("ephemeral", claims::check_ephemeral),
    source("image", check_image),
];

/// Checks all volumes of `spec` and returns those that containers can use.
pub(super) fn check<'v>(volumes: &'v [Value], spec: &FieldPath<'_>, errors: &mut Vec<FieldError>) -> Volumes<'v> {
    let mut made: BTreeSet<String> = BTreeSet::new();
    for volume in Items::new(volumes, spec, "volumes") {
        if volume.has("ephemeral") {
            made.insert(claim_name(&volume));
        }
    }
    let mut usable = Volumes::default();
    for volume in Items::new(volumes, spec, "volumes") {
        let before = errors.len();
        check_source(&volume, errors);
        let name = volume.text("name");
        volume.require_formatted("name", name_validation::dns_label, errors);
        match usable.0.entry(name) {
            Entry::Occupied(_) => errors.duplicate(&volume.at("name"), volume.text("name")),
            Entry::Vacant(free) if errors.len() == before => drop(free.insert(volume.value)),
            Entry::Vacant(_) => {}
        }
        let claim = volume.part("persistentVolumeClaim");
        if made.contains(claim.text("claimName")) {
            claim.invalid("claimName", "must not be the claim that is made for an ephemeral volume", errors);
        }
    }
    usable
}

/// Returns the name of the claim that Kubernetes creates for an ephemeral volume.
fn claim_name(volume: &Node<'_, '_>) -> String {
    format!("{POD}-{}", volume.text("name"))
}

fn check_source(volume: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
    let mut given = false;
    for source in &SOURCES {
        let Some(value) = volume.raw(source.key) else { continue };
        if given {
            let detail = "may not specify more than 1 volume type; remove this or the other one";
            errors.forbidden(&volume.at(source.extra_as), detail);
            continue;
        }
        given = true;
        (source.check)(&Node { value, place: volume.at(source.checked_as) }, errors);
        if source.key == "ephemeral" && !volume.is_empty("name") {
            let name = claim_name(volume);
            errors.wrong(&volume.at("name"), &name, name_validation::dns_subdomain(&name));
        }
    }
    if !given {
        errors.required(&volume.place, "must specify a volume type, such as emptyDir");
    }
    network::check_iscsi_name(volume, errors);
}

fn check_empty_dir(source: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
    let Some(limit) = source.raw("sizeLimit") else { return };
    match Quantity::from_json(limit) {
        Ok(limit) if !limit.is_negative() => {}
        Ok(_) => errors.forbidden(&source.at("sizeLimit"), "must not be negative"),
        Err(error) => errors.forbidden(&source.at("sizeLimit"), &error.to_string()),
    }
}

fn check_host_path(source: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
    if source.require("path", errors) {
        source.formatted("path", paths::without_backsteps, errors);
        source.known("type", &HOST_PATH_TYPES, errors);
    }
}

fn check_csi(source: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
    if source.require("driver", errors) {
        let driver = source.text("driver");
        let at = source.at("driver");
        if driver.len() > DRIVER_MAX {
            errors.too_long(&at, DRIVER_MAX);
        }
        errors.wrong(&at, driver, name_validation::dns_subdomain(&driver.to_ascii_lowercase()));
    }
    if let Some(secret) = &source.get("nodePublishSecretRef")
        && secret.require("name", errors)
    {
        // Kubernetes reports this error at the source, not at the reference.
        let name = secret.text("name");
        errors.wrong(&source.at("name"), name, name_validation::dns_subdomain(name));
    }
}

fn check_image(source: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
    source.one_of("pullPolicy", PULL_POLICIES, errors);
}

/// Requires that none of `keys` is empty.
fn require_all(source: &Node<'_, '_>, keys: &[&str], errors: &mut Vec<FieldError>) {
    for key in keys {
        source.require(key, errors);
    }
}

/// Requires that a reference to a Secret, if there is one, has a name.
fn check_secret_ref(source: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
    if let Some(secret) = &source.get("secretRef") {
        secret.require("name", errors);
    }
}

/// Checks the permission bits of a file: 0 to 0777.
fn check_mode(source: &Node<'_, '_>, key: &str, errors: &mut Vec<FieldError>) {
    if !(0..=0o777).contains(&source.number(key)) {
        source.invalid_number(key, "must be between 0 and 0777 (octal; 511 as a decimal number), inclusive", errors);
    }
}

/// Requires that `path` is not in `taken`, and adds it.
fn check_new<'v>(path: &'v str, taken: &mut BTreeSet<&'v str>, at: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    if !taken.insert(path) {
        errors.invalid(at, path, "two files must not have the same path");
    }
}
