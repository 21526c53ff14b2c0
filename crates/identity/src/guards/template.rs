//! Guards against Pod templates that name a merged ServiceAccount (E6).

use std::collections::BTreeMap;

use pillion_kubernetes::field::FieldPath;
use pillion_kubernetes::json;
use pillion_kubernetes::outcome::Reason;
use serde_json::Value;

use super::Objections;
use crate::names;

/// Paths of the `spec` of Pod templates, in workloads and in a `PodTemplate`.
const TEMPLATES: [&[&str]; 3] =
    [&["spec", "template", "spec"], &["spec", "jobTemplate", "spec", "template", "spec"], &["template", "spec"]];
/// Fields below `spec.template` in which OpenKruise's `AdvancedCronJob` and `UnitedDeployment` hold whole workloads.
const WORKLOADS: [&str; 6] = [
    "jobTemplate",
    "broadcastJobTemplate",
    "statefulSetTemplate",
    "advancedStatefulSetTemplate",
    "cloneSetTemplate",
    "deploymentTemplate",
];
/// The field of a Pod's `spec` that names the account, and its alias (SAP-3).
const FIELDS: [&str; 2] = ["serviceAccountName", "serviceAccount"];

/// Refuses a workload whose template names a merged ServiceAccount: only the policy sets these, in Pods.
///
/// An update that does not change the name is allowed, so that such a workload can still be scaled down.
pub fn judge(object: &Value, old_object: &Value) -> Objections {
    let mut findings = Objections::default();
    let before: BTreeMap<_, _> =
        pod_specs(old_object).into_iter().map(|template| (template.identity, template.spec)).collect();
    for template in pod_specs(object) {
        let before = before.get(&template.identity);
        for field in FIELDS {
            let account = json::text(template.spec, &[field]);
            if names::is_merged(account) && before.is_none_or(|before| json::text(before, &[field]) != account) {
                findings.reasons.push(Reason::forbidden(
                    FieldPath::new(&template.path).child(field),
                    format!("\"{account}\" is a merged ServiceAccount"),
                    "name another one; the policy sets merged ServiceAccounts where SidecarSets ask for them",
                ));
            }
        }
    }
    findings
}

/// The `spec` of a Pod template, or a patch of one.
struct Template<'a> {
    /// The path of the `spec`.
    path: String,
    /// Identifies the template before and after an update, even if entries of lists change their positions.
    identity: String,
    spec: &'a Value,
}

/// Returns every Pod template of a workload, and the patches of the subsets of a `UnitedDeployment`.
fn pod_specs(object: &Value) -> Vec<Template<'_>> {
    let at = |path: &[&str]| {
        json::at(object, path).map(|spec| Template { path: path.join("."), identity: path.join("."), spec })
    };
    let mut found: Vec<Template<'_>> = TEMPLATES.into_iter().filter_map(at).collect();
    found.extend(WORKLOADS.iter().filter_map(|key| at(&["spec", "template", key, "spec", "template", "spec"])));
    let subsets = FieldPath::new("spec.topology.subsets");
    for (index, subset) in json::items(object, &["spec", "topology", "subsets"]).iter().enumerate() {
        if let Some(spec) = json::at(subset, &["patch", "spec"]) {
            let below = |subset: &FieldPath<'_>| subset.child("patch").child("spec").to_string();
            let path = below(&subsets.index(index));
            let identity = below(&subsets.key(json::text(subset, &["name"])));
            found.push(Template { path, identity, spec });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    const MERGED: &str = "sidecarset-merged-0123456789abcdef";

    fn fields(object: &Value, old: &Value) -> Vec<String> {
        judge(object, old).reasons.iter().map(|reason| reason.field.clone()).collect()
    }

    #[test]
    fn e6_templates_may_not_name_merged_accounts() {
        let deployment = |name: &str| json!({"spec": {"template": {"spec": {"serviceAccountName": name}}}});
        let cron_job = json!({"spec": {"jobTemplate": {"spec": {"template": {"spec": {"serviceAccount": MERGED}}}}}});
        assert_eq!(fields(&deployment(MERGED), &Value::Null), ["spec.template.spec.serviceAccountName"]);
        assert_eq!(fields(&cron_job, &Value::Null), ["spec.jobTemplate.spec.template.spec.serviceAccount"]);
        assert_eq!(fields(&deployment(MERGED), &deployment("web")), ["spec.template.spec.serviceAccountName"]);
        assert_eq!(fields(&deployment(MERGED), &deployment(MERGED)), [""; 0]);
        assert_eq!(fields(&deployment("web"), &deployment(MERGED)), [""; 0]);
        assert_eq!(fields(&json!({}), &Value::Null), [""; 0]);
    }

    #[rstest]
    #[case::of_most_workloads("spec.template.spec")]
    #[case::of_a_cron_job("spec.jobTemplate.spec.template.spec")]
    #[case::of_a_pod_template("template.spec")]
    #[case::of_an_advanced_cron_job("spec.template.jobTemplate.spec.template.spec")]
    #[case::of_broadcast_jobs("spec.template.broadcastJobTemplate.spec.template.spec")]
    #[case::of_united_stateful_sets("spec.template.statefulSetTemplate.spec.template.spec")]
    #[case::of_united_advanced_stateful_sets("spec.template.advancedStatefulSetTemplate.spec.template.spec")]
    #[case::of_united_clone_sets("spec.template.cloneSetTemplate.spec.template.spec")]
    #[case::of_united_deployments("spec.template.deploymentTemplate.spec.template.spec")]
    fn e6_every_place_of_a_template_is_looked_at(#[case] place: &str) {
        let workload = |spec: Value| place.rsplit('.').fold(spec, |value, key| json!({ key: value }));
        for field in FIELDS {
            let bad = workload(json!({ field: MERGED }));
            assert_eq!(fields(&bad, &Value::Null), [format!("{place}.{field}")]);
            assert_eq!(fields(&bad, &workload(json!({ field: "web" }))), [format!("{place}.{field}")]);
            assert_eq!(fields(&bad, &bad), [""; 0]);
            assert_eq!(fields(&workload(json!({ field: "web" })), &bad), [""; 0]);
        }
    }

    #[test]
    fn e6_subsets_do_not_patch_a_merged_account_into_their_template() {
        let with = |subsets: Value| json!({"spec": {"topology": {"subsets": subsets}}});
        let subset =
            |name: &str, account: &str| json!({"name": name, "patch": {"spec": {"serviceAccountName": account}}});
        let bad = with(json!([{"name": "a"}, subset("b", MERGED)]));
        assert_eq!(fields(&bad, &Value::Null), ["spec.topology.subsets[1].patch.spec.serviceAccountName"]);
        // An existing template may stay when another is removed, but a merged account must not move to another subset.
        assert_eq!(fields(&with(json!([subset("b", MERGED)])), &bad), [""; 0]);
        let moved = with(json!([subset("a", MERGED), subset("b", "web")]));
        assert_eq!(fields(&moved, &bad), ["spec.topology.subsets[0].patch.spec.serviceAccountName"]);
    }

    #[test]
    fn e6_the_message_says_what_to_do() {
        let object = json!({"spec": {"template": {"spec": {"serviceAccountName": MERGED}}}});
        assert_eq!(
            judge(&object, &Value::Null).reasons[0].to_string(),
            "spec.template.spec.serviceAccountName: \"sidecarset-merged-0123456789abcdef\" is a merged ServiceAccount; \
             name another one; the policy sets merged ServiceAccounts where SidecarSets ask for them"
        );
    }
}
