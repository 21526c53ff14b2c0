//! The names of fields as their author wrote them.

use std::collections::BTreeSet;

use pillion_explain::finding::Kind;
use pillion_explain::{Decision, Explained};
use pillion_kubernetes::json;
use serde_json::Value;

/// The SidecarSets of v1alpha1 with `spec.namespace`, which becomes a selector when they are read.
pub struct Short<'a>(BTreeSet<&'a str>);

impl<'a> Short<'a> {
    /// Reads the SidecarSets of settings.
    pub fn of(settings: &'a Value) -> Self {
        let is_short = |manifest: &&Value| {
            json::text(manifest, &["apiVersion"]) == "apps.kruise.io/v1alpha1"
                && !json::text(manifest, &["spec", "namespace"]).is_empty()
        };
        let sets = json::items(settings, &["sidecarSets"]).iter().filter(is_short);
        Self(sets.map(|manifest| json::text(manifest, &["metadata", "name"])).collect())
    }

    /// Names the field that the author wrote.
    pub fn rename(&self, set: &mut Explained) {
        let Decision::NotInjected(findings) = &mut set.decision else { return };
        if self.0.contains(set.name.as_str()) {
            for finding in findings.iter_mut().filter(|finding| finding.kind == Kind::OtherNamespace) {
                "spec.namespace".clone_into(&mut finding.path);
            }
        }
    }
}
