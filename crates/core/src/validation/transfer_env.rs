//! `transferEnv[].sourceContainerNameFrom` (V-9, Q-16, Q-17).

use serde_json::Value;

use crate::field::{FieldError, FieldPath};
use crate::format;
use crate::json;
use crate::sidecar_set::SidecarSet;

/// Checks where transferred variables come from.
///
/// The reference looks at the paths of plain containers only, but fails on a missing `fieldRef` in both lists.
pub fn validate(set: &SidecarSet) -> Vec<FieldError> {
    let spec = FieldPath::new("spec");
    let mut errors = Vec::new();
    for (list, containers) in [("initContainers", set.init_containers()), ("containers", set.containers())] {
        for (index, container) in containers.iter().enumerate() {
            for (number, transfer) in json::items(container, &["transferEnv"]).iter().enumerate() {
                let Some(source) = json::at(transfer, &["sourceContainerNameFrom"]) else {
                    continue;
                };
                let at = || {
                    let at = spec.child(list).index(index).child("transferEnv").index(number);
                    at.child("sourceContainerNameFrom").child("fieldRef")
                };
                match json::at(source, &["fieldRef"]) {
                    None => errors.push(FieldError::required(&at(), "say which field of the Pod names the container")),
                    Some(reference) if list == "containers" => errors.extend(validate_reference(reference, &at())),
                    Some(_) => {}
                }
            }
        }
    }
    errors
}

fn validate_reference(reference: &Value, path: &FieldPath) -> Option<FieldError> {
    let (version, field) = (json::text(reference, &["apiVersion"]), json::text(reference, &["fieldPath"]));
    if version.is_empty() {
        return Some(FieldError::required(&path.child("apiVersion"), "must be v1"));
    }
    let path = path.child("fieldPath");
    if field.is_empty() {
        return Some(FieldError::required(&path, "name a label or an annotation of the Pod"));
    }
    if version != "v1" {
        return Some(FieldError::invalid(&path, field, format!("apiVersion must be v1, not \"{version}\"")));
    }
    if field == "metadata.name" {
        return None;
    }
    let subscript = field.strip_suffix("']").and_then(|field| field.split_once("['"));
    let wrong = match subscript {
        Some(("metadata.labels", key)) => format::qualified_name(key),
        Some(("metadata.annotations", key)) => format::qualified_name(&key.to_ascii_lowercase()),
        _ => Some("use metadata.name, metadata.labels['<key>'] or metadata.annotations['<key>']".to_owned()),
    };
    wrong.map(|wrong| FieldError::invalid(&path, field, wrong))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::q17_name("v1", "metadata.name", true)]
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
    fn v9_field_references(#[case] version: &str, #[case] field: &str, #[case] fine: bool) {
        let container = json!([{"transferEnv": [{}, {"sourceContainerNameFrom": {"fieldRef": {"apiVersion": version, "fieldPath": field}}}]}]);
        let set = SidecarSet::from_decoded(json!({"spec": {"containers": container}}));
        let errors = validate(&set);
        assert_eq!(errors.is_empty(), fine, "{errors:?}");
        for error in errors {
            let path = "spec.containers[0].transferEnv[1].sourceContainerNameFrom.fieldRef.";
            assert!(error.path.as_str().starts_with(path), "{error}");
        }
        let init = SidecarSet::from_decoded(json!({"spec": {"initContainers": container}}));
        assert_eq!(validate(&init), [], "the reference checks plain containers only");
    }

    #[rstest]
    #[case("containers")]
    #[case("initContainers")]
    fn q16_a_source_without_field_is_an_error(#[case] list: &str) {
        let containers = json!([{"transferEnv": [{"sourceContainerNameFrom": {}}]}]);
        let set = SidecarSet::from_decoded(json!({"spec": {list: containers}}));
        let paths: Vec<_> = validate(&set).into_iter().map(|error| error.path.to_string()).collect();
        assert_eq!(paths, [format!("spec.{list}[0].transferEnv[0].sourceContainerNameFrom.fieldRef")]);
    }
}
