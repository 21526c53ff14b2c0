//! Network storage that every cluster can mount: NFS, iSCSI, Fibre Channel, Gluster, Ceph.

use super::super::node::Node;
use super::require_all;
use crate::field::FieldError;

/// The longest `<volume>:<portal>` of an iSCSI volume with an initiator of its own, in bytes.
const ISCSI_INTERFACE_MAX: usize = 64;

/// `nfs`.
pub(super) fn check_nfs(source: &Node<'_>, errors: &mut Vec<FieldError>) {
    require_all(source, &["server", "path"], errors);
    if !source.text("path").starts_with('/') {
        errors.push(FieldError::invalid(&source.at("path"), source.text("path"), "must be an absolute path"));
    }
}

/// `glusterfs`.
pub(super) fn check_glusterfs(source: &Node<'_>, errors: &mut Vec<FieldError>) {
    require_all(source, &["endpoints", "path"], errors);
}

/// `rbd`.
pub(super) fn check_rbd(source: &Node<'_>, errors: &mut Vec<FieldError>) {
    require_all(source, &["monitors", "image"], errors);
}

/// `cephfs`.
pub(super) fn check_cephfs(source: &Node<'_>, errors: &mut Vec<FieldError>) {
    source.require("monitors", errors);
}

/// `fc`: world-wide names of targets with a unit number, or identifiers of volumes.
pub(super) fn check_fc(source: &Node<'_>, errors: &mut Vec<FieldError>) {
    let targets = source.texts("targetWWNs").next().is_some();
    let ids = source.texts("wwids").next().is_some();
    let at = source.at("targetWWNs");
    match (targets, ids) {
        (false, false) => errors.push(FieldError::required(&at, "needs targetWWNs or wwids")),
        (true, true) => {
            errors.push(FieldError::invalid(&at, "", "targetWWNs and wwids exclude each other; remove one"));
        }
        _ => {}
    }
    if targets {
        if !source.has("lun") {
            errors.push(FieldError::required(&source.at("lun"), "targetWWNs need it"));
        }
        source.in_range("lun", 0, 255, errors);
    }
}

/// `iscsi`.
pub(super) fn check_iscsi(source: &Node<'_>, errors: &mut Vec<FieldError>) {
    source.require("targetPortal", errors);
    if source.require("iqn", errors) && !is_iscsi_name(source.text("iqn")) {
        errors.push(wrong_name(source, "iqn", "iqn"));
    }
    source.in_range("lun", 0, 255, errors);
    if (source.flag("chapAuthDiscovery") || source.flag("chapAuthSession")) && !source.has("secretRef") {
        errors.push(FieldError::required(&source.at("secretRef"), "CHAP authentication needs it"));
    }
    if source.optional_text("initiatorName").is_some_and(|name| !is_iscsi_name(name)) {
        errors.push(wrong_name(source, "initiatorName", "initiatorname"));
    }
}

/// The name of an iSCSI volume with an initiator of its own: together with the portal it names an interface.
pub(super) fn check_iscsi_name(volume: &Node<'_>, errors: &mut Vec<FieldError>) {
    let Some(source) = volume.get("iscsi").filter(|source| source.has("initiatorName")) else { return };
    let name = volume.text("name");
    if name.len() + 1 + source.text("targetPortal").len() > ISCSI_INTERFACE_MAX {
        let detail = "<volume name>:<targetPortal> must be no more than 64 characters where initiatorName is set";
        errors.push(FieldError::invalid(&volume.at("name"), name, detail));
    }
}

fn wrong_name(source: &Node<'_>, key: &str, reported_as: &str) -> FieldError {
    let detail = "must be a name of the form iqn.yyyy-mm.domain:name, eui.<16 digits> or naa.<32 digits>";
    FieldError::invalid(&source.at(reported_as), source.text(key), detail)
}

/// An iSCSI name (RFC 3721) as Kubernetes takes it.
fn is_iscsi_name(name: &str) -> bool {
    if name.starts_with("iqn") {
        // The qualified name may have anything before it, as long as the text begins with "iqn".
        name.match_indices("iqn.").any(|(start, prefix)| name.get(start + prefix.len()..).is_some_and(is_qualified))
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
