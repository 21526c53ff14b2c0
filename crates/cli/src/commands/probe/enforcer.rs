//! What the admissions enforcer of AKS adds to webhook configurations.

use pillion_kubernetes::json::{self, Object};
use pillion_kubernetes::selector::Selector;
use serde_json::{Value, json};

/// Whether a label is one of those by which the enforcer leaves namespaces out. No rendering of Pillion names them.
fn is_of_enforcer(key: &str) -> bool {
    key == "control-plane" || key.starts_with("kubernetes.azure.com/")
}

/// Returns why a webhook is not for a namespace with these labels, if the enforcer has seen to that.
pub fn reason(webhook: &str, selector: &Value, labels: Option<&Object>) -> Option<String> {
    let requirements = json::items(selector, &["matchExpressions"]).iter();
    let added: Vec<&Value> = requirements.filter(|one| is_of_enforcer(json::text(one, &["key"]))).collect();
    if Selector::parse_known(&json!({"matchExpressions": added})).matches_labels(labels) {
        return None;
    }
    let keys: Vec<&str> = added.iter().map(|one| json::text(one, &["key"])).collect();
    Some(format!(
        "the admissions enforcer of AKS has added {} to the namespaceSelector of {webhook}; annotate the webhook \
         configurations with admissions.enforcer/disabled=true, by \
         `pillion manifest standalone --webhook-annotations` or server.webhookAnnotations, and remove what it has added: \
         docs/guides/managed-control-planes.md#aks",
        keys.join(" and ")
    ))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const OURS: &str = "kubernetes.io/metadata.name";

    #[rstest]
    #[case::in_old_clusters(json!({"key": "control-plane", "operator": "DoesNotExist"}), json!({"control-plane": "true"}), true)]
    #[case::today(
        json!({"key": "kubernetes.azure.com/managedby", "operator": "NotIn", "values": ["aks"]}),
        json!({"kubernetes.azure.com/managedby": "aks"}),
        true
    )]
    #[case::of_another_namespace(json!({"key": "control-plane", "operator": "DoesNotExist"}), json!({"team": "a"}), false)]
    #[case::our_own(json!({"key": OURS, "operator": "NotIn", "values": ["shop"]}), json!({(OURS): "shop"}), false)]
    fn requirements_of_the_enforcer_are_told_where_they_leave_the_namespace_out(
        #[case] requirement: Value,
        #[case] labels: Value,
        #[case] is_told: bool,
    ) {
        let key = json::text(&requirement, &["key"]).to_owned();
        let selector = json!({"matchExpressions": [
            {"key": OURS, "operator": "NotIn", "values": ["kube-system"]}, requirement,
        ]});
        let reason = reason("webhook pods.pillion.dev", &selector, labels.as_object());
        assert_eq!(reason.is_some(), is_told, "{reason:?}");
        if let Some(reason) = reason {
            let says = format!("has added {key} to the namespaceSelector of webhook pods.pillion.dev;");
            assert!(reason.contains(&says), "{reason}");
        }
    }
}
