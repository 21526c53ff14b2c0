//! The changes in an update of a SidecarSet that affect injected containers or their account (ESC-1, E23).

use std::collections::BTreeSet;

use pillion_kubernetes::field::{FieldError, FieldPath};
use pillion_kubernetes::json::{self, Object};
use pillion_sidecarset::names;
use pillion_sidecarset::sidecar_set::SidecarSet;
use pillion_sidecarset::sidecar_set::prepare::prepared;
use serde_json::Value;

use super::declared::{self, ACCOUNT, Declared, FIELDS};

/// The prefix of the annotations that Pillion reads.
const OWN_PREFIX: &str = "pillion.dev/";
/// Further annotations that decide into which Pods a SidecarSet is injected.
const CANARY_ANNOTATIONS: [&str; 2] = [names::CANARY, names::BASE];
/// The most changes that are reported. One error tells the author what to do, and a request of 1 MiB can change about
/// 50,000 annotations.
const NAMED_MAX: usize = 32;
/// The fields of `updateStrategy` that decide which Pods get the stored version if the revision policy is `Partial`
/// (INJ-3, INJ-4).
const DECIDES_REVISION: [&str; 3] = ["partition", "paused", "selector"];

/// Returns the changed fields that require a check of the author's permissions (ESC-1), ascending. Empty if no check is
/// needed.
///
/// Everything in `spec` counts, except `revisionHistoryLimit` and `updateStrategy`. If the old or the new set has the
/// revision policy `Partial`, three fields of `updateStrategy` count: they decide whether a Pod gets the latest version
/// or a stored one (E23). Of the metadata, the annotations of Pillion and of canaries count, and the label that names a
/// custom version. Both sets are compared in the form in which admission stores them.
pub fn changes(new: &SidecarSet, old: &SidecarSet) -> Vec<String> {
    let canonical = |mut set: SidecarSet| {
        declared::canonicalise(set.as_value_mut());
        set
    };
    let (new, old) = (canonical(prepared(new)), canonical(prepared(old)));
    let is_partial = [&new, &old]
        .into_iter()
        .any(|set| set.spec(&["injectionStrategy", "revision", "policy"]).and_then(Value::as_str) == Some("Partial"));
    let mut paths = Vec::new();
    let annotations = differing(&new, &old, &["metadata", "annotations"]);
    let counts = |key: &&str| key.starts_with(OWN_PREFIX) || CANARY_ANNOTATIONS.contains(key);
    let path = FieldPath::new("metadata.annotations");
    paths.extend(annotations.into_iter().filter(counts).map(|key| path.key(key).to_string()));
    let labels = differing(&new, &old, &["metadata", "labels"]);
    let path = FieldPath::new("metadata.labels");
    paths.extend(
        labels.into_iter().filter(|key| *key == names::CUSTOM_VERSION_LABEL).map(|key| path.key(key).to_string()),
    );
    let path = FieldPath::new("spec");
    for key in differing(&new, &old, &["spec"]) {
        match key {
            "revisionHistoryLimit" => {}
            "updateStrategy" => {
                let within = differing(&new, &old, &["spec", key]);
                let decides = within.into_iter().filter(|key| is_partial && DECIDES_REVISION.contains(key));
                paths.extend(decides.map(|field| path.child(key).child(field).to_string()));
            }
            _ => paths.push(path.child(key).to_string()),
        }
    }
    paths
}

/// Whether an update changes anything that requires a check of the author's permissions (ESC-1); see [`changes`].
pub fn concerns(new: &SidecarSet, old: &SidecarSet) -> bool {
    !changes(new, old).is_empty()
}

/// E23: returns the errors of an update while the feature gate is off. The author's permissions are not checked then,
/// but the change would take effect under the account once the gate is on. So the update may only remove the account.
/// At most [`NAMED_MAX`] changes are reported.
pub(crate) fn check_while_off(new: &SidecarSet, old: &SidecarSet) -> Vec<FieldError> {
    if !names_account(new) {
        return Vec::new();
    }
    let is_same_identity =
        Declared::from_sidecar_set(new).is_ok_and(|new| Declared::from_sidecar_set(old).is_ok_and(|old| new == old));
    let is_identity = |path: &String| {
        FIELDS.into_iter().any(|of| *path == declared::path(of) || *path == declared::annotation_path(of))
    };
    let paths = changes(new, old).into_iter().filter(|path| !(is_same_identity && is_identity(path)));
    let detail = "the SidecarSet names a ServiceAccount, and the feature gate SidecarSetServiceAccountInjection is off: \
                  this would take effect under the account, unasked, once the gate is on; turn it on in featureGates \
                  first, or remove spec.serviceAccountName";
    paths.take(NAMED_MAX).map(|path| FieldError::forbidden(&path, detail)).collect()
}

/// Whether a set names an account, in the field or in the annotation. A value of another type than a string counts:
/// otherwise it would pass for the removal of the account.
fn names_account(set: &SidecarSet) -> bool {
    let in_spec = set.spec(&[ACCOUNT.name]).is_some_and(|value| !value.is_null() && value != "");
    in_spec || !set.annotation(ACCOUNT.annotation).is_empty()
}

/// Returns the keys at `path` whose values differ between the sets, ascending. An absent key equals `null`.
fn differing<'a>(new: &'a SidecarSet, old: &'a SidecarSet, path: &[&str]) -> BTreeSet<&'a str> {
    fn at<'a>(set: &'a SidecarSet, path: &[&str]) -> Option<&'a Object> {
        json::at(set.as_value(), path)?.as_object()
    }
    let (new, old) = (at(new, path), at(old, path));
    let value = |object: Option<&'a Object>, key: &str| object?.get(key).filter(|value| !value.is_null());
    let keys = new.into_iter().chain(old).flat_map(Object::keys).map(String::as_str);
    keys.filter(|key| value(new, key) != value(old, key)).collect()
}

#[cfg(test)]
mod tests;
