//! Volumes and their sources.

mod claims;
mod cloud;
mod files;
mod legacy;
mod network;
mod projected;
mod selector;

use super::images::PULL_POLICIES;
use super::node::{Node, lower_case, push_wrong};
use super::paths::check_no_backsteps;
use crate::field::{Cause, FieldError, FieldPath};
use crate::format;
use crate::ordered::{Map, Set};
use crate::quantity::Quantity;

/// The name of the synthetic Pod; the claim of an ephemeral volume is called `<Pod>-<volume>`.
const POD: &str = "test";
/// The longest name of a CSI driver, in bytes.
const DRIVER_MAX: usize = 63;
const HOST_PATH_TYPES: [&str; 8] =
    ["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];

/// The volumes without an error of their own, by name.
#[derive(Default)]
pub(super) struct Volumes<'a>(Map<&'a str, Node<'a>>);

impl<'a> Volumes<'a> {
    /// The volume called `name`.
    pub(super) fn get(&self, name: &str) -> Option<&Node<'a>> {
        self.0.get(name)
    }
}

/// Checks the content of a source.
type Check = fn(&Node<'_>, &mut Vec<FieldError>);

/// One type of volume: its key, the name under which its content is checked and the one under which it is reported
/// when it is one source too many (which Kubernetes writes differently for a few), and its check.
struct Source {
    key: &'static str,
    checked_as: &'static str,
    extra_as: &'static str,
    check: Check,
}

const fn source(key: &'static str, check: Check) -> Source {
    Source { key, checked_as: key, extra_as: key, check }
}

/// Every type of volume, in the order in which Kubernetes looks for them: the first one is checked, any other one is
/// too many.
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

/// Checks all volumes; answers those that containers can use.
pub(super) fn check<'a>(volumes: impl Iterator<Item = Node<'a>>, errors: &mut Vec<FieldError>) -> Volumes<'a> {
    let volumes: Vec<Node<'a>> = volumes.collect();
    let made: Set<String> =
        volumes.iter().filter(|volume| volume.has("ephemeral")).map(|volume| claim_name(volume)).collect();
    let mut usable = Volumes::default();
    for volume in volumes {
        let before = errors.len();
        check_source(&volume, errors);
        let name = volume.text("name");
        if volume.require("name", errors) {
            push_wrong(&volume.at("name"), name, format::dns_label(name), errors);
        }
        if usable.0.contains_key(name) {
            errors.push(FieldError::duplicate(&volume.at("name"), name));
        }
        let fine = errors.len() == before;
        if let Some(claim) = volume.get("persistentVolumeClaim")
            && made.contains(claim.text("claimName"))
        {
            let detail = "must not be the claim that is made for an ephemeral volume";
            errors.push(FieldError::invalid(&claim.at("claimName"), claim.text("claimName"), detail));
        }
        if fine {
            usable.0.insert(name, volume);
        }
    }
    usable
}

/// The name of the claim that is made for an ephemeral volume.
fn claim_name(volume: &Node<'_>) -> String {
    format!("{POD}-{}", volume.text("name"))
}

fn check_source(volume: &Node<'_>, errors: &mut Vec<FieldError>) {
    let mut given = SOURCES.iter().filter_map(|source| Some((source, volume.raw(source.key)?)));
    match given.next() {
        None => errors.push(FieldError::required(&volume.path, "must specify a volume type, such as emptyDir")),
        Some((source, value)) => {
            (source.check)(&Node { value, path: volume.at(source.checked_as) }, errors);
            if source.key == "ephemeral" && !volume.text("name").is_empty() {
                let name = claim_name(volume);
                push_wrong(&volume.at("name"), &name, format::dns_subdomain(&name), errors);
            }
        }
    }
    for (source, _) in given {
        let detail = format!("may not specify more than 1 volume type; remove {} or the other one", source.key);
        errors.push(FieldError::forbidden(&volume.at(source.extra_as), detail));
    }
    network::check_iscsi_name(volume, errors);
}

fn check_empty_dir(source: &Node<'_>, errors: &mut Vec<FieldError>) {
    let Some(limit) = source.raw("sizeLimit") else { return };
    match Quantity::from_json(limit) {
        Ok(limit) if !limit.is_negative() => {}
        Ok(_) => errors.push(FieldError::forbidden(&source.at("sizeLimit"), "must not be negative")),
        Err(error) => errors.push(FieldError::forbidden(&source.at("sizeLimit"), error.to_string())),
    }
}

fn check_host_path(source: &Node<'_>, errors: &mut Vec<FieldError>) {
    if !source.require("path", errors) {
        return;
    }
    check_no_backsteps(source.text("path"), &source.at("path"), errors);
    let kind = source.text("type");
    if !HOST_PATH_TYPES.contains(&kind) {
        errors.push(FieldError::not_supported(&source.at("type"), kind, &HOST_PATH_TYPES));
    }
}

fn check_csi(source: &Node<'_>, errors: &mut Vec<FieldError>) {
    if source.require("driver", errors) {
        let driver = source.text("driver");
        let at = source.at("driver");
        if driver.len() > DRIVER_MAX {
            let detail = format!("must be no more than {DRIVER_MAX} bytes");
            errors.push(FieldError::new(&at, Cause::TooLong, detail));
        }
        push_wrong(&at, driver, format::dns_subdomain(&lower_case(driver)), errors);
    }
    if let Some(secret) = source.get("nodePublishSecretRef")
        && secret.require("name", errors)
    {
        // Kubernetes reports this one at the source, not at the reference.
        let name = secret.text("name");
        push_wrong(&source.at("name"), name, format::dns_subdomain(name), errors);
    }
}

fn check_image(source: &Node<'_>, errors: &mut Vec<FieldError>) {
    source.one_of("pullPolicy", &PULL_POLICIES, errors);
}

/// Requires that each of `keys` holds something.
fn require_all(source: &Node<'_>, keys: &[&str], errors: &mut Vec<FieldError>) {
    for key in keys {
        source.require(key, errors);
    }
}

/// Requires that a reference to a Secret, where there is one, names it.
fn check_secret_ref(source: &Node<'_>, errors: &mut Vec<FieldError>) {
    if let Some(secret) = source.get("secretRef") {
        secret.require("name", errors);
    }
}

/// Requires that a value, where there is one, is among those known.
fn check_known(source: &Node<'_>, key: &str, known: &[&str], errors: &mut Vec<FieldError>) {
    if let Some(value) = source.optional_text(key)
        && !known.contains(&value)
    {
        errors.push(FieldError::not_supported(&source.at(key), value, known));
    }
}

/// The permission bits of a file: 0 to 0777.
fn check_mode(source: &Node<'_>, key: &str, errors: &mut Vec<FieldError>) {
    if source.integer(key).is_some_and(|mode| !(0..=0o777).contains(&mode)) {
        let mode = source.integer(key).unwrap_or_default();
        let detail = "must be between 0 and 0777 (octal; 511 as a decimal number), inclusive";
        errors.push(FieldError::invalid(&source.at(key), mode, detail));
    }
}

/// A path that must be the only one of its kind.
fn check_new<'a>(path: &'a str, taken: &mut Set<&'a str>, at: &FieldPath, errors: &mut Vec<FieldError>) {
    if !taken.insert(path) {
        errors.push(FieldError::invalid(at, path, "two files must not have the same path"));
    }
}
