//! Conversion between v1alpha1 and v1beta1 (API-10 to API-12). The versions differ in two fields.

use pillion_kubernetes::json::{self, Object};
use serde_json::{Value, json};

use super::version::Version;
use crate::names;

/// Converts a decoded v1alpha1 object to v1beta1, in place (API-10).
///
/// `spec.namespace` becomes a selector and replaces `spec.namespaceSelector`. The custom-version label becomes
/// `spec.customVersion`. An existing `spec.customVersion` is dropped: v1alpha1 has no such field, and conversion must
/// not make it valid.
pub fn to_v1beta1(object: &mut Value) {
    let Value::Object(object) = object else { return };
    set_version(object, Version::V1Beta1);
    let label = take_label(object);
    let Some(spec) = json::object_mut(object, "spec") else { return };
    json::take(spec, "customVersion");
    if let Some(version) = label.filter(|version| !is_empty(version)) {
        spec.insert("customVersion".to_owned(), version);
    }
    if let Some(namespace) = json::take(spec, "namespace").filter(|namespace| !is_empty(namespace)) {
        let selector = json!({"matchLabels": {names::NAMESPACE_NAME_LABEL: namespace}});
        spec.insert("namespaceSelector".to_owned(), selector);
    }
}

/// Converts a decoded v1beta1 object to v1alpha1, in place (API-11).
///
/// Conversion never creates `spec.namespace` (API-12), and drops an existing one: v1beta1 has no such field.
pub fn to_v1alpha1(object: &mut Value) {
    let Value::Object(object) = object else { return };
    set_version(object, Version::V1Alpha1);
    let Some(Value::Object(spec)) = object.get_mut("spec") else { return };
    json::take(spec, "namespace");
    let Some(version) = json::take(spec, "customVersion").filter(|version| !is_empty(version)) else { return };
    let labels = json::object_mut(object, "metadata").and_then(|metadata| json::object_mut(metadata, "labels"));
    if let Some(labels) = labels {
        labels.insert(names::CUSTOM_VERSION_LABEL.to_owned(), version);
    }
}

fn set_version(object: &mut Object, version: Version) {
    object.insert("apiVersion".to_owned(), Value::from(version.api_version()));
}

/// Removes and returns the custom-version label. Also removes `labels` if it is empty then.
fn take_label(object: &mut Object) -> Option<Value> {
    let metadata = object.get_mut("metadata")?.as_object_mut()?;
    let labels = metadata.get_mut("labels")?.as_object_mut()?;
    let version = json::take(labels, names::CUSTOM_VERSION_LABEL)?;
    if labels.is_empty() {
        json::take(metadata, "labels");
    }
    Some(version)
}

fn is_empty(text: &Value) -> bool {
    text.as_str().is_none_or(str::is_empty)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn beta(mut object: Value) -> Value {
        to_v1beta1(&mut object);
        object
    }

    fn alpha(mut object: Value) -> Value {
        to_v1alpha1(&mut object);
        object
    }

    #[rstest]
    #[case::a_namespace_becomes_a_selector_and_displaces_one(
        json!({"spec": {"namespace": "ns", "namespaceSelector": {"matchLabels": {"a": "b"}}}}),
        json!({"spec": {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ns"}}}})
    )]
    #[case::an_empty_namespace_does_not(
        json!({"spec": {"namespace": "", "namespaceSelector": {"matchLabels": {"a": "b"}}}}),
        json!({"spec": {"namespaceSelector": {"matchLabels": {"a": "b"}}}})
    )]
    #[case::an_empty_selector_is_copied(
        json!({"spec": {"namespaceSelector": {}}}),
        json!({"spec": {"namespaceSelector": {}}})
    )]
    #[case::the_label_becomes_the_custom_version(
        json!({"metadata": {"labels": {"apps.kruise.io/sidecarset-custom-version": "v2", "a": "b"}}, "spec": {}}),
        json!({"metadata": {"labels": {"a": "b"}}, "spec": {"customVersion": "v2"}})
    )]
    #[case::an_empty_label_goes_away(
        json!({"metadata": {"labels": {"apps.kruise.io/sidecarset-custom-version": ""}}, "spec": {}}),
        json!({"metadata": {}, "spec": {}})
    )]
    #[case::a_custom_version_that_v1alpha1_does_not_have_stays_unknown(
        json!({"spec": {"customVersion": {"any": "thing"}}}),
        json!({"spec": {}})
    )]
    #[case::without_a_spec(
        json!({"metadata": {"labels": {"apps.kruise.io/sidecarset-custom-version": "v2"}}}),
        json!({"metadata": {}, "spec": {"customVersion": "v2"}})
    )]
    #[case::everything_else_stays(
        json!({"spec": {"containers": [{"name": "a", "new": null}], "volumes": [], "unknown": 1}, "extra": [1.0]}),
        json!({"spec": {"containers": [{"name": "a", "new": null}], "volumes": [], "unknown": 1}, "extra": [1.0]})
    )]
    fn api10_to_v1beta1(#[case] object: Value, #[case] mut expected: Value) {
        expected["apiVersion"] = json!("apps.kruise.io/v1beta1");
        assert_eq!(beta(object), expected);
    }

    #[rstest]
    #[case::the_selector_is_copied_and_no_namespace_is_made(
        json!({"spec": {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ns"}}}}),
        json!({"spec": {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ns"}}}})
    )]
    #[case::the_custom_version_becomes_the_label(
        json!({"metadata": {"name": "s"}, "spec": {"customVersion": "v2"}}),
        json!({"metadata": {"name": "s", "labels": {"apps.kruise.io/sidecarset-custom-version": "v2"}}, "spec": {}})
    )]
    #[case::an_empty_custom_version_does_not(
        json!({"metadata": {"name": "s"}, "spec": {"customVersion": ""}}),
        json!({"metadata": {"name": "s"}, "spec": {}})
    )]
    #[case::a_namespace_that_v1beta1_does_not_have_stays_unknown(
        json!({"spec": {"namespace": "ns", "unknown": [null]}}),
        json!({"spec": {"unknown": [null]}})
    )]
    #[case::without_metadata(
        json!({"spec": {"customVersion": "v2"}}),
        json!({"metadata": {"labels": {"apps.kruise.io/sidecarset-custom-version": "v2"}}, "spec": {}})
    )]
    fn api11_to_v1alpha1(#[case] object: Value, #[case] mut expected: Value) {
        expected["apiVersion"] = json!("apps.kruise.io/v1alpha1");
        assert_eq!(alpha(object), expected);
    }

    #[test]
    fn api12_the_custom_version_survives_and_a_namespace_reads_back_as_a_selector() {
        let object = json!({
            "apiVersion": "apps.kruise.io/v1alpha1", "kind": "SidecarSet",
            "metadata": {"name": "s", "labels": {"apps.kruise.io/sidecarset-custom-version": "v2"}},
            "spec": {"namespace": "ns", "containers": [{"name": "a"}]},
        });
        let back = alpha(beta(object.clone()));
        assert_eq!(back["metadata"], object["metadata"]);
        assert_eq!(
            back["spec"],
            json!({
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ns"}},
                "containers": [{"name": "a"}],
            })
        );
    }

    #[rstest]
    #[case(json!(null))]
    #[case(json!([]))]
    #[case(json!("text"))]
    fn what_is_no_object_stays(#[case] value: Value) {
        assert_eq!(beta(value.clone()), value);
        assert_eq!(alpha(value.clone()), value);
    }
}
