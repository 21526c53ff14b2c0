//! The namespaces that rendered objects need.

use std::collections::BTreeSet;

use pillion_kubernetes::json;

use super::document::Document;
use super::needs::Needs;

/// The namespace that every cluster has.
const KUBE_SYSTEM: &str = "kube-system";

/// Returns a note for each namespace that has rendered objects, and is neither rendered nor among those that exist
/// according to the options. Its objects cannot be created before it exists.
pub fn notes(documents: &[Document], existing: &[&str], needs: &Needs) -> Vec<String> {
    let bundle = needs.bundle.as_ref().map(|bundle| bundle.namespace.as_str());
    let missing = missing(documents, existing).into_iter();
    missing
        .map(|namespace| {
            let remedy = if namespace == needs.system_namespace {
                "; where it does not, set systemNamespace in the settings"
            } else if Some(namespace) == bundle {
                "; where it does not, name another one in bundleRef of the settings"
            } else {
                ""
            };
            format!("the Role in namespace \"{namespace}\" needs this namespace to exist{remedy}")
        })
        .collect()
}

/// Returns the namespaces of objects that nothing creates.
fn missing<'a>(documents: &'a [Document], existing: &[&str]) -> BTreeSet<&'a str> {
    let created: BTreeSet<&str> = documents
        .iter()
        .filter(|document| json::text(&document.object, &["kind"]) == "Namespace")
        .map(|document| json::text(&document.object, &["metadata", "name"]))
        .collect();
    let used = documents.iter().map(|document| json::text(&document.object, &["metadata", "namespace"]));
    let is_known = |namespace: &str| {
        namespace.is_empty() || namespace == KUBE_SYSTEM || existing.contains(&namespace) || created.contains(namespace)
    };
    used.filter(|namespace| !is_known(namespace)).collect()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::one_that_is_rendered_and_one_that_is_not(&["new", "old", "kube-system"], &[], &["old"])]
    #[case::one_that_exists(&["new", "old"], &["old"], &[])]
    fn namespaces_of_objects_are_missing_if_nothing_creates_them(
        #[case] used: &[&str],
        #[case] existing: &[&str],
        #[case] expected: &[&str],
    ) {
        let namespace = json!({"kind": "Namespace", "metadata": {"name": "new"}});
        let roles = used.iter().map(|used| json!({"kind": "Role", "metadata": {"name": "a", "namespace": used}}));
        let documents: Vec<Document> =
            std::iter::once(namespace).chain(roles).map(|object| Document::new("f", "", object)).collect();
        assert_eq!(missing(&documents, existing).into_iter().collect::<Vec<_>>(), expected);
    }
}
