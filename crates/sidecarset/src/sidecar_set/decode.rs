//! Decoding of a manifest to a `SidecarSet`.

use pillion_kubernetes::field::{FieldError, FieldPath};
use pillion_kubernetes::json;
use serde_json::Value;

use super::version::Version;
use super::{SidecarSet, convert};
use crate::tables::{self, expect_text};

/// A type-checked manifest, in the version in which it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decoded {
    version: Version,
    object: Value,
}

impl Decoded {
    /// Wraps a `SidecarSet` that was decoded before, in its v1beta1 form.
    pub fn stored(set: &SidecarSet) -> Self {
        Self { version: Version::V1Beta1, object: set.as_value().clone() }
    }

    /// Returns the version in which the manifest was written.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Returns the object in that version, without nulls.
    pub fn object(&self) -> &Value {
        &self.object
    }

    /// Returns the object in that version, without nulls.
    pub fn into_object(self) -> Value {
        self.object
    }

    /// Converts the object to v1beta1. Removes the keys of the stored version and of the origin, which only the compiler
    /// of a bundle and the settings may set, and `metadata.namespace`, which the API server clears before admission.
    pub fn into_sidecar_set(self) -> SidecarSet {
        let mut object = self.object;
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("namespace");
        }
        if self.version == Version::V1Alpha1 {
            convert::to_v1beta1(&mut object);
        }
        SidecarSet::from_decoded(object).without_marks()
    }
}

/// The kind that [`decode`] accepts.
const KIND: &str = "SidecarSet";

/// Decodes a manifest of either version: checks `kind`, `apiVersion` and the type of every known field, and removes
/// nulls.
///
/// # Errors
/// Every error, with its path in the manifest. Validation checks the values, including a missing name
/// (docs/spec/validation.md).
pub fn decode(mut object: Value) -> Result<Decoded, Vec<FieldError>> {
    let root = FieldPath::default();
    let mut errors = Vec::new();
    expect_text(&object, "kind", &[KIND], &mut errors);
    expect_text(&object, "apiVersion", &Version::ALL.map(Version::api_version), &mut errors);
    let version = Version::parse(json::text(&object, &["apiVersion"]));
    let Some(version) = version.filter(|_| errors.is_empty()) else { return Err(errors) };
    tables::decode(&mut object, version.table(), &root, &mut errors);
    if errors.is_empty() { Ok(Decoded { version, object }) } else { Err(errors) }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn texts(errors: &[FieldError]) -> Vec<String> {
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_manifest_is_in_no_namespace_as_at_admission() {
        let manifest = json!({
            "apiVersion": "apps.kruise.io/v1alpha1", "kind": "SidecarSet",
            "metadata": {"name": "a", "namespace": "shop"}, "spec": {"namespace": "shop"}
        });
        let set = decode(manifest).unwrap().into_sidecar_set();
        assert_eq!(set.as_value()["metadata"], json!({"name": "a"}));
        assert_eq!(set.as_value()["spec"]["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"], "shop");
    }

    #[rstest]
    #[case::no_kind(
        json!({"apiVersion": "apps.kruise.io/v1beta1"}),
        &["kind: Required value: must be SidecarSet"]
    )]
    #[case::another_kind(
        json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "sidecarSet"}),
        &["kind: Unsupported value: \"sidecarSet\": supported values: \"SidecarSet\""]
    )]
    #[case::another_version(
        json!({"apiVersion": "apps.kruise.io/v1", "kind": "SidecarSet"}),
        &["apiVersion: Unsupported value: \"apps.kruise.io/v1\": supported values: \"apps.kruise.io/v1alpha1\", \"apps.kruise.io/v1beta1\""]
    )]
    #[case::nothing(
        json!(null),
        &[
            "kind: Required value: must be SidecarSet",
            "apiVersion: Required value: must be apps.kruise.io/v1alpha1 or apps.kruise.io/v1beta1",
        ]
    )]
    #[case::wrong_types(
        json!({"apiVersion": 1, "kind": null}),
        &[
            "kind: Required value: must be SidecarSet",
            "apiVersion: Unsupported value: \"1\": supported values: \"apps.kruise.io/v1alpha1\", \"apps.kruise.io/v1beta1\"",
        ]
    )]
    #[case::a_type_error(
        json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "spec": {"containers": {}}}),
        &["spec.containers: Invalid value: must be a list, found an object"]
    )]
    fn manifests_are_refused_with_the_field(#[case] object: Value, #[case] expected: &[&str]) {
        assert_eq!(texts(&decode(object).unwrap_err()), expected);
    }

    #[rstest]
    #[case::containers(
        "containers",
        1_000,
        Some("spec.containers: Too many: may have at most 1000 items; remove some")
    )]
    #[case::init_containers(
        "initContainers",
        1_000,
        Some("spec.initContainers: Too many: may have at most 1000 items; remove some")
    )]
    #[case::volumes("volumes", 4_000, Some("spec.volumes: Too many: may have at most 4000 items; remove some"))]
    #[case::unknown("unknown", 4_000, None)]
    fn e18_lists_of_a_sidecar_set_have_an_end(
        #[case] list: &str,
        #[case] most: usize,
        #[case] expected: Option<&str>,
        #[values("apps.kruise.io/v1alpha1", "apps.kruise.io/v1beta1")] version: &str,
    ) {
        let of = |count| {
            let set = json!({"apiVersion": version, "kind": "SidecarSet", "spec": {list: vec![json!({}); count]}});
            decode(set).map(drop).map_err(|errors| texts(&errors))
        };
        assert_eq!(of(most), Ok(()));
        assert_eq!(of(most + 1).err(), expected.map(|error| vec![error.to_owned()]));
    }

    #[test]
    fn each_version_has_its_own_field() {
        let object = |version: Version| {
            json!({
                "apiVersion": version.api_version(), "kind": "SidecarSet",
                "spec": {"namespace": 1, "customVersion": 2},
            })
        };
        let paths = |version| decode(object(version)).unwrap_err().into_iter().map(|error| error.path);
        assert!(paths(Version::V1Alpha1).eq(["spec.namespace"]));
        assert!(paths(Version::V1Beta1).eq(["spec.customVersion"]));
    }

    #[test]
    fn api10_a_manifest_keeps_its_version_beside_its_v1beta1_form() {
        let decoded = decode(json!({
            "apiVersion": "apps.kruise.io/v1alpha1", "kind": "SidecarSet", "metadata": {"name": "s"},
            "spec": {"namespace": "ns", "containers": null, "new": null},
        }))
        .unwrap();
        assert_eq!(decoded.version(), Version::V1Alpha1);
        let own = json!({
            "apiVersion": "apps.kruise.io/v1alpha1", "kind": "SidecarSet", "metadata": {"name": "s"},
            "spec": {"namespace": "ns", "new": null},
        });
        assert_eq!(decoded.object(), &own);
        assert_eq!(decoded.clone().into_object(), own);
        let set = decoded.into_sidecar_set();
        assert_eq!(
            set.into_value(),
            json!({
                "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": "s"},
                "spec": {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ns"}}, "new": null},
            })
        );
    }

    #[test]
    fn a_v1beta1_manifest_stays_and_needs_no_name() {
        let object = json!({
            "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet",
            "spec": {"namespace": ["unknown here"], "customVersion": "v2"},
        });
        assert_eq!(decode(object.clone()).unwrap().into_sidecar_set().into_value(), object);
    }
}
