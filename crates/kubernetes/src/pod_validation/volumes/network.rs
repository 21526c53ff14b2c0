//! Network storage that does not depend on a cloud provider: NFS, iSCSI, Fibre Channel, Gluster, Ceph.

use super::require_all;
use crate::field::{FieldError, FieldErrors};
use crate::node::Node;

/// The maximum length of `<volume>:<portal>` for an iSCSI volume with its own initiator, in bytes.
const ISCSI_INTERFACE_MAX: usize = 64;

/// Checks `nfs`.
pub(super) fn check_nfs(source: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
    require_all(source, &["server", "path"], errors);
    if !source.text("path").starts_with('/') {
        source.invalid("path", "must be an absolute path", errors);
    }
}

/// Checks `glusterfs`.
pub(super) fn check_glusterfs(source: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
    require_all(source, &["endpoints", "path"], errors);
}

/// Checks `rbd`.
pub(super) fn check_rbd(source: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
    require_all(source, &["monitors", "image"], errors);
}

/// Checks `cephfs`.
pub(super) fn check_cephfs(source: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
    source.require("monitors", errors);
}

/// Checks `fc`: it has either world-wide names of targets with a unit number, or identifiers of volumes.
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

/// Checks `iscsi`.
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

/// Checks the name of an iSCSI volume with its own initiator: the name and the portal together name an interface.
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

/// Whether the text is an iSCSI name (RFC 3721), as Kubernetes checks it.
fn is_iscsi_name(name: &str) -> bool {
    if name.starts_with("iqn") {
        // Any text may precede the qualified name, as long as the whole begins with "iqn".
        let mut left = name;
        while let Some((_, rest)) = left.split_once("iqn.") {
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

/// Whether the text has the form `yyyy-mm.domain:name`.
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

/// Whether the text is a separator (any character but a line feed) followed by `count` letters or digits.
fn has_digits(text: &str, count: usize) -> bool {
    let mut characters = text.chars();
    let digits = match characters.next() {
        None | Some('\n') => return false,
        Some(_) => characters.as_str(),
    };
    digits.len() == count && digits.bytes().all(|byte| byte.is_ascii_alphanumeric())
}
