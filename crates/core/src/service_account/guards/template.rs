//! Pod templates that name a merged ServiceAccount (E6).

use serde_json::Value;

use super::{Findings, forbidden};
use crate::format;
use crate::json;
use crate::service_account::names;

/// Where workloads keep their Pod templates.
const TEMPLATES: [&[&str]; 2] = [&["spec", "template", "spec"], &["spec", "jobTemplate", "spec", "template", "spec"]];
/// The field and its alias (A1-3).
const FIELDS: [&str; 2] = ["serviceAccountName", "serviceAccount"];

/// Refuses a workload whose template names a merged ServiceAccount: those are set at the Pod, by the policy alone.
///
/// An update that leaves the name as it was is let through, so that such a workload can still be scaled down.
pub fn judge(object: &Value, old_object: &Value) -> Findings {
    let mut findings = Findings::default();
    for template in TEMPLATES {
        let (Some(new), old) = (json::at(object, template), json::at(old_object, template)) else { continue };
        for field in FIELDS {
            let account = json::text(new, &[field]);
            let before = old.map_or("", |old| json::text(old, &[field]));
            if names::is_merged(account) && account != before {
                findings.reasons.push(forbidden(
                    &format!("{}.{field}", format::joined(template, ".")),
                    format!("\"{account}\" is a merged ServiceAccount"),
                    "name another one; the policy sets merged ServiceAccounts where SidecarSets ask for them",
                ));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const MERGED: &str = "sidecarset-merged-0123456789abcdef";

    fn fields(object: &Value, old: &Value) -> Vec<String> {
        judge(object, old).reasons.iter().map(|reason| reason.field.to_string()).collect()
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
