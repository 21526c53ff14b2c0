//! Restores field names to those that the author wrote.

use std::collections::BTreeSet;

use pillion_explain::finding::Kind;
use pillion_explain::{Decision, Explained};
use pillion_kubernetes::json;
use serde_json::Value;

/// Names of the v1alpha1 SidecarSets with `spec.namespace`, which decoding turns into a selector.
pub struct ShortNames<'a>(BTreeSet<&'a str>);

impl<'a> ShortNames<'a> {
    /// Finds them in settings.
    pub fn from_settings(settings: &'a Value) -> Self {
        let is_short = |manifest: &&Value| {
            json::text(manifest, &["apiVersion"]) == "apps.kruise.io/v1alpha1"
                && !json::text(manifest, &["spec", "namespace"]).is_empty()
        };
        let sets = json::items(settings, &["sidecarSets"]).iter().filter(is_short);
        Self(sets.map(|manifest| json::text(manifest, &["metadata", "name"])).collect())
    }

    /// Replaces the path of the selector with `spec.namespace` in findings about the namespace.
    pub fn rename(&self, set: &mut Explained) {
        let Decision::NotInjected(findings) = &mut set.decision else { return };
        if self.0.contains(set.name.as_str()) {
            for finding in findings.iter_mut().filter(|finding| finding.kind == Kind::OtherNamespace) {
                "spec.namespace".clone_into(&mut finding.path);
            }
        }
    }
}
