//! Validation of `transferEnv[].sourceContainerNameFrom` (VAL-9, DIFF-16, DIFF-17).

use pillion_kubernetes::downward_api;
use pillion_kubernetes::field::{FieldError, FieldErrors};
use pillion_kubernetes::name_validation;
use pillion_kubernetes::node::Node;

/// Checks the sources of transferred variables.
///
/// The reference checks the paths for plain containers only, but refuses a missing `fieldRef` in both lists.
pub(super) fn check(spec: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
    for list in super::LISTS {
        for container in spec.items(list) {
            for transfer in container.items("transferEnv") {
                let Some(source) = &transfer.get("sourceContainerNameFrom") else { continue };
                match &source.get("fieldRef") {
                    None => errors.required(&source.at("fieldRef"), "say which field of the Pod names the container"),
                    Some(reference) if list == "containers" => check_reference(reference, errors),
                    Some(_) => {}
                }
            }
        }
    }
}

fn check_reference(reference: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
    let (version, field) = (reference.text("apiVersion"), reference.text("fieldPath"));
    if version.is_empty() {
        errors.required(&reference.at("apiVersion"), "must be v1");
    } else if field.is_empty() {
        errors.required(&reference.at("fieldPath"), "name a label or an annotation of the Pod");
    } else if version != "v1" {
        let detail = format!("apiVersion must be v1, not \"{version}\"");
        reference.invalid("fieldPath", &detail, errors);
    } else if field != "metadata.name" {
        let wrong = match downward_api::subscript(field) {
            Some(("metadata.labels", key)) => name_validation::qualified_name(key),
            Some(("metadata.annotations", key)) => name_validation::qualified_name(&key.to_ascii_lowercase()),
            _ => Some("use metadata.name, metadata.labels['<key>'] or metadata.annotations['<key>']"),
        };
        errors.wrong(&reference.at("fieldPath"), field, wrong);
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::sidecar_set::SidecarSet;

    fn errors_of(set: &SidecarSet) -> Vec<FieldError> {
        let mut errors = Vec::new();
        check(&Node::root(set.as_value()).part("spec"), &mut errors);
        errors
    }

    #[rstest]
    #[case::diff17_name("v1", "metadata.name", true)]
    #[case::label("v1", "metadata.labels['app']", true)]
    #[case::label_with_prefix("v1", "metadata.labels['example.com/app']", true)]
    #[case::annotation("v1", "metadata.annotations['app']", true)]
    #[case::annotation_keys_have_no_case("v1", "metadata.annotations['Example.COM/App']", true)]
    #[case::label_keys_do("v1", "metadata.labels['Example.COM/app']", false)]
    #[case::no_key("v1", "metadata.labels['']", false)]
    #[case::all_labels("v1", "metadata.labels", false)]
    #[case::uid("v1", "metadata.uid", false)]
    #[case::pod_ip("v1", "status.podIP", false)]
    #[case::another_map("v1", "spec.nodeSelector['a']", false)]
    #[case::no_map("v1", "['a']", false)]
    #[case::no_field("v1", "", false)]
    #[case::another_version("v2", "metadata.labels['app']", false)]
    #[case::no_version("", "metadata.labels['app']", false)]
    fn val9_field_references(#[case] version: &str, #[case] field: &str, #[case] fine: bool) {
        let container = json!([{"transferEnv": [{}, {"sourceContainerNameFrom": {"fieldRef": {"apiVersion": version, "fieldPath": field}}}]}]);
        let set = SidecarSet::from_decoded(json!({"spec": {"containers": container}}));
        let errors = errors_of(&set);
        assert_eq!(errors.is_empty(), fine, "{errors:?}");
        for error in errors {
            let path = "spec.containers[0].transferEnv[1].sourceContainerNameFrom.fieldRef.";
            assert!(error.path.as_str().starts_with(path), "{error}");
        }
        let init = SidecarSet::from_decoded(json!({"spec": {"initContainers": container}}));
        assert_eq!(errors_of(&init), [], "the reference checks plain containers only");
    }

    #[rstest]
    #[case("containers")]
    #[case("initContainers")]
    fn diff16_a_source_without_field_is_an_error(#[case] list: &str) {
        let containers = json!([{"transferEnv": [{"sourceContainerNameFrom": {}}]}]);
        let set = SidecarSet::from_decoded(json!({"spec": {list: containers}}));
        let paths: Vec<_> = errors_of(&set).into_iter().map(|error| error.path.clone()).collect();
        assert_eq!(paths, [format!("spec.{list}[0].transferEnv[0].sourceContainerNameFrom.fieldRef")]);
    }
}
