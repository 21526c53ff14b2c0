//! Network storage that every cluster can mount: NFS, iSCSI, Fibre Channel, Gluster, Ceph.

use super::require_all;
use crate::field::{FieldError, FieldErrors};
use crate::format;
use crate::node::Node;

/// The longest `<volume>:<portal>` of an iSCSI volume with an initiator of its own, in bytes.
const ISCSI_INTERFACE_MAX: usize = 64;

/// `nfs`.
pub(super) fn check_nfs(source: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
    require_all(source, &["server", "path"], errors);
    if !source.text("path").starts_with('/') {
        source.invalid("path", "must be an absolute path", errors);
    }
}

/// `glusterfs`.
pub(super) fn check_glusterfs(source: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
    require_all(source, &["endpoints", "path"], errors);
}

/// `rbd`.
pub(super) fn check_rbd(source: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
    require_all(source, &["monitors", "image"], errors);
}

/// `cephfs`.
pub(super) fn check_cephfs(source: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
    source.require("monitors", errors);
}

/// `fc`: world-wide names of targets with a unit number, or identifiers of volumes.
pub(super) fn check_fc(source: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
    let targets = !source.list("targetWWNs").is_empty();
    match (targets, !source.list("wwids").is_empty()) {
        (false, false) => errors.required(&source.at("targetWWNs"), "needs targetWWNs or wwids"),
        (true, true) => {
            source.invalid("targetWWNs", "targetWWNs and wwids exclude each other; remove one", errors);
        }
        _ => {}
    }
    if targets {
        if !source.has("lun") {
            errors.required(&source.at("lun"), "targetWWNs need it");
        }
        source.in_range("lun", 0, 255, errors);
    }
}

/// `iscsi`.
pub(super) fn check_iscsi(source: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
    source.require("targetPortal", errors);
    source.require_formatted("iqn", wrong_name, errors);
    source.in_range("lun", 0, 255, errors);
    if (source.flag("chapAuthDiscovery") || source.flag("chapAuthSession")) && !source.has("secretRef") {
        errors.required(&source.at("secretRef"), "CHAP authentication needs it");
    }
    if let Some(name) = source.optional_text("initiatorName") {
        errors.wrong(&source.at("initiatorname"), name, wrong_name(name));
    }
}

/// The name of an iSCSI volume with an initiator of its own: together with the portal it names an interface.
pub(super) fn check_iscsi_name(volume: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
    let source = volume.part("iscsi");
    let length = volume.text("name").len() + 1 + source.text("targetPortal").len();
    if source.has("initiatorName") && length > ISCSI_INTERFACE_MAX {
        let detail = "<volume name>:<targetPortal> must be no more than 64 characters where initiatorName is set";
        volume.invalid("name", detail, errors);
    }
}

fn wrong_name(name: &str) -> Option<&'static str> {
    (!is_iscsi_name(name))
        .then_some("must be a name of the form iqn.yyyy-mm.domain:name, eui.<16 digits> or naa.<32 digits>")
}

/// An iSCSI name (RFC 3721) as Kubernetes takes it.
fn is_iscsi_name(name: &str) -> bool {
    if name.starts_with("iqn") {
        // The qualified name may have anything before it, as long as the text begins with "iqn".
        let mut left = name;
        while let Some((_, rest)) = format::cut(left, "iqn.") {
            if is_qualified(rest) {
                return true;
            }
            left = rest;
        }
        false
    } else if let Some(digits) = name.strip_prefix("eui") {
        has_digits(digits, 16)
    } else if let Some(digits) = name.strip_prefix("naa") {
        has_digits(digits, 32)
    } else {
        false
    }
}

/// `yyyy-mm.domain:name`.
fn is_qualified(text: &str) -> bool {
    let Some((dated, own)) = text.split_once(':') else { return false };
    let Some((date, domain)) = dated.split_once('.') else { return false };
    let date_is_fine = date.len() == 7
        && date.bytes().enumerate().all(|(at, byte)| if at == 4 { byte == b'-' } else { byte.is_ascii_digit() });
    date_is_fine
        && !domain.is_empty()
        && domain.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.'))
        && !own.is_empty()
        && !own.contains([',', ';', '*', '&', '$', '|', '\t', '\n', '\u{c}', '\r', ' '])
}

/// A separator, which may be any character but a line feed, and `count` letters or digits.
fn has_digits(text: &str, count: usize) -> bool {
    let mut characters = text.chars();
    let digits = match characters.next() {
        None | Some('\n') => return false,
        Some(_) => characters.as_str(),
    };
    digits.len() == count && digits.bytes().all(|byte| byte.is_ascii_alphanumeric())
}
