//! Kubernetes lists, in which `kubectl get` and the API server return several objects.

use pillion_kubernetes::json;
use serde_json::Value;

use crate::kinds;

/// A list object, to be replaced with its items.
#[derive(Debug)]
pub(super) struct List<'a> {
    pub(super) items: &'a [Value],
    /// The apiVersion and kind of the items, if the list has one kind. The API server leaves both out of the items.
    of: Option<(&'a str, &'a str)>,
}

impl<'a> List<'a> {
    /// Returns an object as a list, or `None` if it is an ordinary object. An ordinary object may have a kind such as
    /// `AllowList` and a field `items`, too, and must not be split.
    ///
    /// Lists are: the `List` of v1; the list of a kind that creates Pods, such as `PodList`; and any other `<Kind>List`
    /// without a name and without further fields that has at least one item and only items of that kind.
    pub(super) fn parse(object: &'a Value) -> Option<Self> {
        let entries = object.as_object()?;
        let items = entries.get("items")?.as_array()?.as_slice();
        let api_version = json::text(object, &["apiVersion"]);
        let kind = json::text(object, &["kind"]).strip_suffix("List")?;
        if kind.is_empty() {
            return matches!(api_version, "" | "v1").then_some(Self { items, of: None });
        }
        let has_name = ["name", "generateName"].iter().any(|key| !json::text(object, &["metadata", key]).is_empty());
        if has_name {
            return None;
        }
        let list = Self { items, of: Some((api_version, kind)) };
        let has_more = entries.keys().any(|key| !matches!(key.as_str(), "apiVersion" | "kind" | "metadata" | "items"));
        let is_known = kinds::makes_pods(api_version, kind);
        let is_list = is_known || (!has_more && !items.is_empty() && items.iter().all(|item| list.is_of_kind(item)));
        is_list.then_some(list)
    }

    /// Returns an item with its apiVersion and kind, taken from the list if the item has neither.
    pub(super) fn completed(&self, item: &Value) -> Value {
        let mut item = item.clone();
        if let (Some((api_version, kind)), Some(entries)) = (self.of, item.as_object_mut())
            && !entries.contains_key("apiVersion")
            && !entries.contains_key("kind")
        {
            entries.insert("apiVersion".to_owned(), api_version.into());
            entries.insert("kind".to_owned(), kind.into());
        }
        item
    }

    fn is_of_kind(&self, item: &Value) -> bool {
        let Some((api_version, kind)) = self.of else { return false };
        let says = |key: &str, wanted: &str| item.get(key).is_none_or(|value| value == wanted);
        item.is_object() && item.get("metadata").is_some() && says("apiVersion", api_version) && says("kind", kind)
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::list(json!({"apiVersion": "v1", "kind": "List", "items": [{"kind": "A"}]}))]
    #[case::list_with_a_name(json!({"apiVersion": "v1", "kind": "List", "metadata": {"name": "x"}, "items": []}))]
    #[case::pods_of_an_api_server(json!({"apiVersion": "v1", "kind": "PodList", "metadata": {"resourceVersion": "1"}, "items": [{"metadata": {"name": "p"}}]}))]
    #[case::deployments(json!({"apiVersion": "apps/v1", "kind": "DeploymentList", "items": [{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {}}]}))]
    #[case::services(json!({"apiVersion": "v1", "kind": "ServiceList", "items": [{"apiVersion": "v1", "kind": "Service", "metadata": {}}]}))]
    #[case::custom_resources(json!({"apiVersion": "example.com/v1", "kind": "ThingList", "items": [{"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}}]}))]
    fn lists_stand_for_their_items(#[case] object: Value) {
        assert!(List::parse(&object).is_some());
    }

    #[rstest]
    #[case::custom_resource(json!({"apiVersion": "example.com/v1", "kind": "AllowList", "metadata": {"name": "a"}, "items": ["10.0.0.1"]}))]
    #[case::custom_resource_to_be_named(json!({"apiVersion": "example.com/v1", "kind": "AllowList", "metadata": {"generateName": "a-"}, "items": []}))]
    #[case::custom_resource_with_objects(json!({"apiVersion": "example.com/v1", "kind": "AllowList", "metadata": {"name": "a"}, "items": [{"metadata": {}}]}))]
    #[case::nothing_says_what_is_in_it(json!({"apiVersion": "example.com/v1", "kind": "AllowList", "items": []}))]
    #[case::texts(json!({"apiVersion": "example.com/v1", "kind": "AllowList", "items": ["a"]}))]
    #[case::other_kinds(json!({"apiVersion": "config.kubernetes.io/v1", "kind": "ResourceList", "items": [{"apiVersion": "v1", "kind": "Pod", "metadata": {}}]}))]
    #[case::more_than_items(json!({"apiVersion": "example.com/v1", "kind": "ThingList", "spec": {}, "items": [{"kind": "Thing", "metadata": {}}]}))]
    #[case::list_of_another_group(json!({"apiVersion": "example.com/v1", "kind": "List", "items": []}))]
    #[case::no_items(json!({"apiVersion": "v1", "kind": "List"}))]
    #[case::items_that_are_no_list(json!({"apiVersion": "v1", "kind": "List", "items": {}}))]
    #[case::another_kind(json!({"apiVersion": "v1", "kind": "ConfigMap", "items": []}))]
    #[case::no_object(json!([]))]
    fn other_objects_are_themselves(#[case] object: Value) {
        assert!(List::parse(&object).is_none());
    }

    #[test]
    fn items_without_a_kind_have_that_of_the_list() {
        let object =
            json!({"apiVersion": "v1", "kind": "PodList", "items": [{"metadata": {"name": "p"}}, {"kind": "X"}]});
        let list = List::parse(&object).unwrap();
        let completed: Vec<Value> = list.items.iter().map(|item| list.completed(item)).collect();
        assert_eq!(completed[0], json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}));
        assert_eq!(completed[1], json!({"kind": "X"}), "what it says counts");
    }
}
