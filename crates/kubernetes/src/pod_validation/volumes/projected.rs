//! Projected volumes: several sources in one directory.

use std::collections::BTreeSet;

use super::super::paths;
use super::files::{check_downward_api_file, check_key_to_path};
use super::{check_mode, check_new};
use crate::field::{FieldError, FieldErrors, FieldPath};
use crate::name_validation;
use crate::node::Node;
use crate::selector;

/// The minimum and maximum lifetime of a token, in seconds.
const TOKEN_LIFE: std::ops::RangeInclusive<i64> = 600..=1 << 32;
const DOWNWARD_API: &str = "downwardAPI";
const KINDS: [&str; 5] = ["secret", "configMap", DOWNWARD_API, "serviceAccountToken", "clusterTrustBundle"];

/// Checks `projected`.
pub(super) fn check(volume: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
    check_mode(volume, "defaultMode", errors);
    let mut taken = BTreeSet::new();
    for source in volume.items("sources") {
        check_source(&source, &volume.place, &mut taken, errors);
    }
}

/// Checks one source. Kubernetes reports duplicate paths, and errors in the path of a token, at the volume.
fn check_source<'v>(
    source: &Node<'v, '_>,
    volume: &FieldPath<'_>,
    taken: &mut BTreeSet<&'v str>,
    errors: &mut Vec<FieldError>,
) {
    for kind in ["secret", "configMap", DOWNWARD_API] {
        let Some(object) = &source.get(kind) else { continue };
        if kind != DOWNWARD_API {
            object.require("name", errors);
        }
        for item in object.items("items") {
            if kind == DOWNWARD_API {
                check_downward_api_file(&item, object.place, errors);
            } else {
                check_key_to_path(&item, errors);
            }
            if !item.is_empty("path") {
                check_new(item.text("path"), taken, volume, errors);
            }
        }
    }
    if let Some(token) = &source.get("serviceAccountToken") {
        if !TOKEN_LIFE.contains(&token.number("expirationSeconds")) {
            let detail = "must be at least 600 (10 minutes) and at most 2^32 seconds";
            token.invalid_number("expirationSeconds", detail, errors);
        }
        let at = volume.child("path");
        match token.text("path") {
            "" => errors.required(&at, "a serviceAccountToken needs a path"),
            path => errors.wrong(&at, path, paths::not_reserved(path)),
        }
    }
    if let Some(bundle) = &source.get("clusterTrustBundle") {
        check_trust_bundle(bundle, errors);
        check_new(bundle.text("path"), taken, volume, errors);
    }
    if KINDS.iter().filter(|kind| source.has(kind)).count() > 1 {
        errors.forbidden(&source.place, "may not specify more than 1 type per source; make an item of each");
    }
}

fn check_trust_bundle(bundle: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
    match (bundle.optional_text("name"), bundle.optional_text("signerName")) {
        (None, None) => errors.required(&bundle.place, "needs a name or a signerName"),
        (Some(name), Some(_)) => {
            errors.invalid(&bundle.place, name, "name and signerName exclude each other; remove one");
        }
        (Some(_), None) => {
            bundle.formatted("name", wrong_bundle_name, errors);
            if bundle.has("labelSelector") {
                bundle.invalid("labelSelector", "only goes with signerName; remove it", errors);
            }
        }
        (None, Some(_)) => {
            bundle.formatted("signerName", wrong_signer_name, errors);
            if let Some(labels) = &bundle.get("labelSelector") {
                selector::check(labels, errors);
            }
        }
    }
    bundle.require("path", errors);
    bundle.always_formatted("path", paths::not_reserved, errors);
}

/// Returns the problem of a `ClusterTrustBundle`'s name, if there is one. The part before the last colon names the
/// signer.
fn wrong_bundle_name(name: &str) -> Option<&'static str> {
    match name.rsplit_once(':') {
        // Kubernetes replaces slashes in the signer's part by colons and then does not find the prefix.
        Some(("", _)) => Some("must not begin with ':'"),
        Some((signer, _)) if signer.contains('/') => Some("must not contain '/'; write ':' for it"),
        Some((_, own)) => name_validation::dns_subdomain(own),
        None => name_validation::dns_subdomain(name),
    }
}

/// Returns the problem of a signer's name, `example.com/name`, if there is one.
fn wrong_signer_name(name: &str) -> Option<&'static str> {
    const NAME_MAX: usize = name_validation::DNS_SUBDOMAIN_MAX
        + 1
        + name_validation::DNS_SUBDOMAIN_MAX
        + 1
        + name_validation::DNS_LABEL_MAX;
    let well_formed = name.len() <= NAME_MAX
        && name.split_once('/').is_some_and(|(domain, path)| {
            domain.contains('.')
                && domain.len() <= name_validation::DNS_SUBDOMAIN_MAX
                && domain.split('.').all(|label| name_validation::dns_label(label).is_none())
                && path.split('.').all(|label| name_validation::dns_subdomain(label).is_none())
        });
    (!well_formed).then_some("must be a domain and a path of the form 'example.com/signer-name'")
}
