//! Whether the merged objects that a Pod needs are there (`serviceaccounts.md` G5, G Ready).

use serde_json::Value;

use super::decide::Asking;
use super::{names, permissions};
use crate::field::{self, FieldPath};
use crate::json;
use crate::lookup::{Answer, Lookup, ObjectRef};
use crate::outcome::{Code, Reason};

const RBAC: &str = "rbac.authorization.k8s.io/v1";
const ROLE: &str = "Role";

/// The rules that the merged Role of these sets has to hold (G3).
pub fn rules(sets: &[&Asking]) -> Vec<Value> {
    let rules: Vec<Value> = sets.iter().flat_map(|set| set.declared.permissions.iter().cloned()).collect();
    permissions::normalised(&rules)
}

/// Checks ServiceAccount, Role and RoleBinding called `name` in `namespace`, in this order, up to the first that is
/// not as it should be.
///
/// # Errors
/// 403 where an object stands for other sets (a collision or a forgery, G2), else 503: the controller is at it.
pub fn ready(name: &str, sets: &[&Asking], namespace: &str, lookup: &dyn Lookup) -> Result<(), Reason> {
    let set_names: Vec<&str> = sets.iter().map(|set| set.sidecar_set.as_str()).collect();
    let annotation = names::merged_annotation(&set_names);
    let refusal =
        |kind, problem: &str, remedy: &str, code| refusal((kind, name, namespace), &annotation, problem, remedy, code);
    for (api_version, kind) in [("v1", "ServiceAccount"), (RBAC, ROLE), (RBAC, "RoleBinding")] {
        let object = ObjectRef { api_version, kind, namespace: Some(namespace.to_owned()), name: name.to_owned() };
        let wait = |problem: &str| refusal(kind, problem, "the controller prepares it; try again", Code::Unavailable);
        let found = match lookup.get(&object) {
            Answer::Found(found) => found,
            Answer::NotFound => return Err(wait("is not there yet")),
            Answer::Failed(failure) => {
                let remedy = failure.remedy(api_version, kind);
                let problem = format!("could not be read: {failure}");
                return Err(refusal(kind, &problem, &remedy, Code::Unavailable));
            }
        };
        let annotations = |key| json::text(&found, &["metadata", "annotations", key]);
        if annotations(names::SIDECAR_SETS) != annotation {
            // Somebody else wrote it: it may be long, and hold what a terminal takes for commands.
            let theirs = field::quoted(&field::shortened(annotations(names::SIDECAR_SETS)));
            let problem = format!("has the annotation {} {theirs} where \"{annotation}\" belongs", names::SIDECAR_SETS);
            let remedy = "delete it if nobody needs it; Pillion does not adopt what it did not make";
            return Err(refusal(kind, &problem, remedy, Code::Forbidden));
        }
        if json::is_terminating(&found) {
            return Err(wait("is being deleted"));
        }
        if !annotations(names::GC_PENDING).is_empty() {
            return Err(wait("is about to be collected"));
        }
        let as_expected = match kind {
            ROLE => json::items(&found, &["rules"]) == rules(sets),
            "RoleBinding" => binds(&found, name, namespace),
            _ => true,
        };
        if !as_expected {
            return Err(wait("does not say yet what the SidecarSets say"));
        }
    }
    Ok(())
}

/// Whether a binding gives the Role of this name to the ServiceAccount of this name, and to nobody else.
fn binds(binding: &Value, name: &str, namespace: &str) -> bool {
    let text = |object: &Value, key: &str| json::text(object, &[key]).to_owned();
    let role = json::at(binding, &["roleRef"]).cloned().unwrap_or_default();
    let [subject] = json::items(binding, &["subjects"]) else {
        return false;
    };
    text(&role, "kind") == ROLE
        && text(&role, "name") == name
        && text(subject, "kind") == "ServiceAccount"
        && text(subject, "name") == name
        && text(subject, "namespace") == namespace
}

/// M4: the object, its namespace and the sets that it is for.
fn refusal((kind, name, namespace): (&str, &str, &str), sets: &str, problem: &str, remedy: &str, code: Code) -> Reason {
    Reason {
        sidecar_set: None,
        field: FieldPath::new("spec.serviceAccountName"),
        problem: format!(
            "{kind} \"{name}\" in namespace \"{namespace}\", merged for the SidecarSets {sets}, {problem}"
        ),
        remedy: remedy.to_owned(),
        code,
    }
}
