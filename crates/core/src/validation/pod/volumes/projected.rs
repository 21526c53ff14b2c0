//! Projected volumes: several sources in one directory.

use super::super::node::{Node, push_wrong};
use super::super::paths::check_not_reserved;
use super::files::{check_downward_api_file, check_key_to_path};
use super::{check_mode, check_new, selector};
use crate::field::{FieldError, FieldPath};
use crate::format;
use crate::ordered::Set;

/// The shortest and the longest life of a token, in seconds.
const TOKEN_LIFE: std::ops::RangeInclusive<i64> = 600..=1 << 32;
const KINDS: [&str; 5] = ["secret", "configMap", "downwardAPI", "serviceAccountToken", "clusterTrustBundle"];

/// `projected`.
pub(super) fn check(volume: &Node<'_>, errors: &mut Vec<FieldError>) {
    check_mode(volume, "defaultMode", errors);
    let mut taken = Set::new();
    for source in volume.items("sources") {
        check_source(&source, &volume.path, &mut taken, errors);
    }
}

/// One source. Kubernetes reports paths that are taken, and the path of a token, at the volume.
fn check_source<'a>(source: &Node<'a>, volume: &FieldPath, taken: &mut Set<&'a str>, errors: &mut Vec<FieldError>) {
    for object in ["secret", "configMap"].iter().filter_map(|kind| source.get(kind)) {
        object.require("name", errors);
        for item in object.items("items") {
            check_key_to_path(&item, errors);
            if !item.text("path").is_empty() {
                check_new(item.text("path"), taken, volume, errors);
            }
        }
    }
    if let Some(downward_api) = source.get("downwardAPI") {
        for file in downward_api.items("items") {
            check_downward_api_file(&file, &downward_api.path, errors);
            if !file.text("path").is_empty() {
                check_new(file.text("path"), taken, volume, errors);
            }
        }
    }
    if let Some(token) = source.get("serviceAccountToken") {
        let life = token.integer("expirationSeconds").unwrap_or_default();
        if !TOKEN_LIFE.contains(&life) {
            let detail = "must be at least 600 (10 minutes) and at most 2^32 seconds";
            errors.push(FieldError::invalid(&token.at("expirationSeconds"), life, detail));
        }
        let at = volume.child("path");
        match token.text("path") {
            "" => errors.push(FieldError::required(&at, "a serviceAccountToken needs a path")),
            path => check_not_reserved(path, &at, errors),
        }
    }
    if let Some(bundle) = source.get("clusterTrustBundle") {
        check_trust_bundle(&bundle, errors);
        check_new(bundle.text("path"), taken, volume, errors);
    }
    if KINDS.iter().filter(|kind| source.has(kind)).count() > 1 {
        let detail = "may not specify more than 1 type per source; make an item of each";
        errors.push(FieldError::forbidden(&source.path, detail));
    }
}

fn check_trust_bundle(bundle: &Node<'_>, errors: &mut Vec<FieldError>) {
    match (bundle.optional_text("name"), bundle.optional_text("signerName")) {
        (None, None) => errors.push(FieldError::required(&bundle.path, "needs a name or a signerName")),
        (Some(name), Some(_)) => {
            errors.push(FieldError::invalid(&bundle.path, name, "name and signerName exclude each other; remove one"));
        }
        (Some(name), None) => {
            push_wrong(&bundle.at("name"), name, wrong_bundle_name(name), errors);
            if bundle.has("labelSelector") {
                let detail = "only goes with signerName; remove it";
                errors.push(FieldError::invalid(&bundle.at("labelSelector"), "", detail));
            }
        }
        (None, Some(signer)) => {
            if let Some(wrong) = wrong_signer_name(signer) {
                errors.push(FieldError::invalid(&bundle.at("signerName"), signer, wrong));
            }
            if let Some(labels) = bundle.get("labelSelector") {
                selector::check(&labels, errors);
            }
        }
    }
    bundle.require("path", errors);
    check_not_reserved(bundle.text("path"), &bundle.at("path"), errors);
}

/// What is wrong with the name of a `ClusterTrustBundle`. What stands before the last colon says who signs.
fn wrong_bundle_name(name: &str) -> Option<String> {
    match name.rsplit_once(':') {
        // Kubernetes reads slashes in the signer's part as colons and then misses the prefix.
        Some(("", _)) => Some("must not begin with ':'".to_owned()),
        Some((signer, _)) if signer.contains('/') => Some("must not contain '/'; write ':' for it".to_owned()),
        Some((_, own)) => format::dns_subdomain(own),
        None => format::dns_subdomain(name),
    }
}

/// What is wrong with the name of a signer, `example.com/name`.
fn wrong_signer_name(name: &str) -> Option<String> {
    const NAME_MAX: usize = format::DNS_SUBDOMAIN_MAX + 1 + format::DNS_SUBDOMAIN_MAX + 1 + format::DNS_LABEL_MAX;
    let well_formed = name.len() <= NAME_MAX
        && name.split_once('/').is_some_and(|(domain, path)| {
            domain.contains('.')
                && domain.len() <= format::DNS_SUBDOMAIN_MAX
                && domain.split('.').all(|label| format::dns_label(label).is_none())
                && path.split('.').all(|label| format::dns_subdomain(label).is_none())
        });
    (!well_formed).then(|| "must be a domain and a path of the form 'example.com/signer-name'".to_owned())
}
