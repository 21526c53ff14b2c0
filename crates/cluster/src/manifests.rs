//! SidecarSets and ControllerRevisions of a cluster as manifests, with the places that messages name.

use std::sync::Arc;

use pillion_documents::manifest::{self, Manifest, Source};
use pillion_kubernetes::json;
use pillion_sidecarset::names;
use pillion_sidecarset::sidecar_set::version::Version;
use pillion_yaml::{self as yaml, Tree};
use serde_json::Value;

use super::kind::Kind;
use super::reader::Reader;
use super::trouble::Trouble;

/// The versions of SidecarSets in the order in which they are asked for: v1beta1 lacks some fields of v1alpha1 if the
/// API server does not convert.
const VERSIONS: [Version; 2] = Version::ALL;

/// Returns the SidecarSets of the cluster as manifests, or `None` if the cluster does not serve the kind.
///
/// # Errors
/// [`Trouble`] if the cluster does not answer, or does not allow the request.
pub fn sidecar_sets(reader: &Reader) -> Result<Option<Vec<Manifest>>, Trouble> {
    for version in VERSIONS {
        if let Some(found) = reader.list(Kind(version.api_version(), "SidecarSet"), None, None)? {
            return Ok(Some(found.iter().filter_map(|object| manifest_of("cluster", object)).collect()));
        }
    }
    Ok(None)
}

/// Returns the stored revisions of SidecarSets, which are in the system namespace.
///
/// # Errors
/// [`Trouble`] if the cluster does not answer, or does not allow the request.
pub fn controller_revisions(reader: &Reader, system_namespace: &str) -> Result<Vec<Manifest>, Trouble> {
    let labels = Some(names::SIDECAR_SET_NAME_LABEL);
    let found = reader.list(Kind("apps/v1", "ControllerRevision"), Some(system_namespace), labels)?;
    Ok(found.unwrap_or_default().iter().filter_map(|object| manifest_of("cluster", object)).collect())
}

/// Returns an object that is in no file as a manifest. Its place in messages is `<whose>/<kind>/<name>`, with the lines
/// of the object as `kubectl get -o yaml` prints it.
pub fn manifest_of(whose: &str, object: &Value) -> Option<Manifest> {
    let text = |path: &[&str]| json::text(object, path);
    let namespace = match text(&["metadata", "namespace"]) {
        "" => String::new(),
        namespace => format!("{namespace}/"),
    };
    let name = format!("{whose}/{}/{namespace}{}", text(&["kind"]), text(&["metadata", "name"]));
    let text = yaml::print(&Tree::conventional(object));
    manifest::parse(&Arc::new(Source::new(name, text))).ok()?.pop()
}

/// Whether a SidecarSet injects a stored revision instead of its latest.
pub fn asks_for_a_revision(set: &Value) -> bool {
    json::at(set, &["spec", "injectionStrategy", "revision"]).is_some_and(|revision| !revision.is_null())
        || json::at(set, &["metadata", "labels", names::CUSTOM_VERSION_LABEL]).is_some()
}
