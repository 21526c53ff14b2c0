//! Disks and shares of cloud providers.

use super::{check_secret_ref, require_all};
use crate::field::{Cause, FieldError, FieldErrors};
use crate::node::Node;

/// Checks `gcePersistentDisk`.
pub(super) fn check_gce_disk(source: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
    source.require("pdName", errors);
    source.in_range("partition", 0, 255, errors);
}

/// Checks `awsElasticBlockStore`.
pub(super) fn check_aws_disk(source: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
    source.require("volumeID", errors);
    source.in_range("partition", 0, 255, errors);
}

/// Checks `cinder`.
pub(super) fn check_cinder(source: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
    source.require("volumeID", errors);
    check_secret_ref(source, errors);
}

/// Checks `azureFile`.
pub(super) fn check_azure_file(source: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
    require_all(source, &["secretName", "shareName"], errors);
}

/// Checks `azureDisk`. The kind determines the prefix of the URI.
pub(super) fn check_azure_disk(source: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
    require_all(source, &["diskName", "diskURI"], errors);
    source.known("cachingMode", &["None", "ReadOnly", "ReadWrite"], errors);
    source.known("kind", &["Dedicated", "Managed", "Shared"], errors);
    let prefix = match source.optional_text("kind") {
        None => return,
        Some("Managed") => "/subscriptions/",
        Some(_) => "https://",
    };
    let uri = source.text("diskURI");
    if !uri.starts_with(prefix) {
        let detail = format!("a disk of this kind has a URI that begins with {prefix}");
        errors.add(|| FieldError::new(source.at("diskURI"), Cause::NotSupported, detail).showing(uri));
    }
}

/// Checks `vsphereVolume`.
pub(super) fn check_vsphere(source: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
    source.require("volumePath", errors);
}

/// Checks `photonPersistentDisk`.
pub(super) fn check_photon(source: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
    source.require("pdID", errors);
}
