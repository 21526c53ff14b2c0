//! A Namespace.

use k8s_openapi::api::core::v1::Namespace as NamespaceObject;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use pillion_inject::matching::opt_out::OPT_OUT_OF;
use pillion_kubernetes::json;
use pillion_sidecarset::overrides;
use serde_json::{Value, json};

use super::change::{Facets, Projection};

/// A Namespace: name, UID, labels, which SidecarSets its Pods leave out and what they override in their sidecars, phase,
/// and whether it is being deleted. There may be tens of thousands: as a JSON value, each would take three kilobytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Namespace {
    name: String,
    uid: Option<String>,
    labels: Texts,
    annotations: Texts,
    phase: String,
    deleted_at: Option<Time>,
}

/// Keys and texts, ascending.
type Texts = Box<[(String, String)]>;

impl Namespace {
    /// Returns what is kept of a Namespace; `None` if it has no name.
    pub fn from_object(object: NamespaceObject) -> Option<Self> {
        let NamespaceObject { metadata, status, .. } = object;
        let mut annotations = metadata.annotations.unwrap_or_default();
        annotations.retain(|key, _| key == OPT_OUT_OF || overrides::container_of(key).is_some());
        Some(Self {
            name: metadata.name?,
            uid: metadata.uid,
            labels: metadata.labels.unwrap_or_default().into_iter().collect(),
            annotations: annotations.into_iter().collect(),
            phase: status.and_then(|status| status.phase).unwrap_or_default(),
            deleted_at: metadata.deletion_timestamp,
        })
    }

    /// Returns the Namespace as an object with these fields.
    pub fn object(&self) -> Value {
        let fields = |texts: &Texts| -> Value {
            texts.iter().map(|(key, text)| (key.clone(), Value::from(text.as_str()))).collect::<json::Object>().into()
        };
        let mut metadata = json!({
            "name": self.name, "uid": self.uid, "labels": fields(&self.labels), "annotations": fields(&self.annotations),
        });
        if let (Some(time), Some(metadata)) = (&self.deleted_at, metadata.as_object_mut()) {
            metadata.insert("deletionTimestamp".to_owned(), time.0.to_string().into());
        }
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata, "status": {"phase": self.phase}})
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns a label.
    pub fn label(&self, key: &str) -> Option<&str> {
        text(&self.labels, key)
    }

    /// Returns an annotation that is kept; `""` if it is absent.
    pub fn annotation(&self, key: &str) -> &str {
        text(&self.annotations, key).unwrap_or_default()
    }

    /// Returns the annotations that are kept, ascending by their keys.
    pub fn annotations(&self) -> impl Iterator<Item = (&str, &str)> {
        self.annotations.iter().map(|(key, text)| (key.as_str(), text.as_str()))
    }

    /// Returns the phase (`status.phase`), or `""` if there is none yet.
    pub fn phase(&self) -> &str {
        &self.phase
    }

    /// Whether the namespace is being deleted: it accepts no new objects, and its contents go with it.
    pub fn is_terminating(&self) -> bool {
        self.deleted_at.is_some() || self.phase == "Terminating"
    }
}

fn text<'a>(texts: &'a Texts, key: &str) -> Option<&'a str> {
    texts.iter().find(|(known, _)| known == key).map(|(_, text)| text.as_str())
}

impl Projection for Namespace {
    fn differences(&self, next: &Self) -> Facets {
        let mut facets = Facets::empty();
        // Both say which SidecarSets the Pods of the namespace get, and what of them.
        facets.set(Facets::LABELS, (&self.labels, &self.annotations) != (&next.labels, &next.annotations));
        facets.set(Facets::PHASE, (&self.phase, self.is_terminating()) != (&next.phase, next.is_terminating()));
        facets
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn namespace(object: Value) -> Namespace {
        Namespace::from_object(serde_json::from_value(object).expect("a Namespace")).expect("a name")
    }

    #[test]
    fn a_namespace_is_kept_without_what_decides_nothing() {
        let object = json!({
            "metadata": {
                "name": "shop", "uid": "u", "labels": {"team": "a", "env": "prod"}, "resourceVersion": "7",
                "annotations": {"note": "n", "pillion.dev/opt-out-of": "logs"},
                "deletionTimestamp": "2026-01-02T03:04:05Z", "managedFields": [{"manager": "kubectl"}]
            },
            "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Terminating"}
        });
        let kept = namespace(object);
        let expected = json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {
                "name": "shop", "uid": "u", "labels": {"team": "a", "env": "prod"},
                "annotations": {"pillion.dev/opt-out-of": "logs"}, "deletionTimestamp": "2026-01-02T03:04:05Z"
            },
            "status": {"phase": "Terminating"}
        });
        assert_eq!(kept.object(), expected);
        assert_eq!((kept.name(), kept.label("team"), kept.label("tier")), ("shop", Some("a"), None));
        assert_eq!((kept.annotation("pillion.dev/opt-out-of"), kept.annotation("note")), ("logs", ""));
        assert_eq!(kept.annotations().collect::<Vec<_>>(), [("pillion.dev/opt-out-of", "logs")]);
    }

    #[test]
    fn labels_and_phase_of_a_namespace_wake_others() {
        let of = |label: &str, note: &str, phase: &str| {
            let metadata = json!({"name": "shop", "labels": {"team": label}, "annotations": {"note": note}});
            namespace(json!({"metadata": metadata, "status": {"phase": phase}}))
        };
        let before = of("a", "1", "Active");
        assert_eq!(before.differences(&of("a", "2", "Active")), Facets::empty());
        assert_eq!(before.differences(&of("b", "1", "Active")), Facets::LABELS);
        assert_eq!(before.differences(&of("a", "1", "Terminating")), Facets::PHASE);
    }
}
