//! Whether the merged objects that a Pod needs are ready (MRG-5, G Ready).

use pillion_kubernetes::field::shortened;
use pillion_kubernetes::json;
use pillion_kubernetes::lookup::{Failure, Lookup, ObjectRef};
use pillion_kubernetes::outcome::{Code, Reason};
use pillion_kubernetes::rbac::{self, PolicyRule};
use serde_json::{Value, json};

use super::decision::Asking;
use super::names;

const RBAC: &str = "rbac.authorization.k8s.io/v1";
const ROLE: &str = "Role";

/// Returns the rules of the merged Role of these sets (MRG-3).
pub fn rules(sets: &[&Asking]) -> Vec<PolicyRule> {
    rbac::normalised(sets.iter().flat_map(|set| &set.declared.permissions))
}

/// Checks the ServiceAccount, Role and RoleBinding called `name` in `namespace`, in this order. Stops at the first that
/// is not as expected.
///
/// # Errors
/// 403 if an object belongs to other sets (a collision or a forgery, MRG-2) or the Role would be too large. Otherwise
/// 503: the object is not ready yet or could not be read.
pub fn ready(name: &str, sets: &[&Asking], namespace: &str, lookup: &dyn Lookup) -> Result<(), Reason> {
    let set_names: Vec<&str> = sets.iter().map(|set| set.sidecar_set.as_str()).collect();
    let annotation = names::merged_annotation(&set_names);
    // IDP-4: name the object, its namespace and its sets.
    let refusal = |kind: &str, problem: &str, remedy: &str, code| {
        let object = format!("{kind} \"{name}\" in namespace \"{namespace}\"");
        let problem = format!("{object}, merged for the SidecarSets {annotation}, {problem}");
        Reason::new(code, "spec.serviceAccountName", problem, remedy)
    };
    if rbac::check_size(sets.iter().flat_map(|set| &set.declared.permissions)).is_err() {
        let problem = format!("would hold more than {} permissions", rbac::COMBINATIONS_MAX);
        let remedy = "grant less in the SidecarSets, or let fewer of them match the same Pod";
        return Err(refusal(ROLE, &problem, remedy, Code::Forbidden));
    }
    for (api_version, kind) in [("v1", "ServiceAccount"), (RBAC, ROLE), (RBAC, "RoleBinding")] {
        let object = ObjectRef { api_version, kind, namespace: Some(namespace.to_owned()), name: name.to_owned() };
        let wait = |problem: &str| refusal(kind, problem, "the controller prepares it; try again", Code::Unavailable);
        let unreadable = |failure: Failure| {
            let problem = format!("could not be read: {failure}");
            refusal(kind, &problem, &failure.remedy(api_version, kind), Code::Unavailable)
        };
        let found = lookup.get(&object).map_err(unreadable)?.ok_or_else(|| wait("is not there yet"))?;
        let annotations = |key| json::text(&found, &["metadata", "annotations", key]);
        if annotations(names::SIDECAR_SETS) != annotation {
            // Any user may have written the annotation: it may be long and contain control characters for terminals.
            let theirs = shortened(annotations(names::SIDECAR_SETS));
            let problem =
                format!("has the annotation {} {theirs:?} where \"{annotation}\" belongs", names::SIDECAR_SETS);
            let remedy = "Pillion does not adopt what it did not make; delete it as serviceAccounts.controllerUser";
            return Err(refusal(kind, &problem, remedy, Code::Forbidden));
        }
        if json::is_terminating(&found) {
            return Err(wait("is being deleted"));
        }
        if !annotations(names::GC_PENDING).is_empty() {
            return Err(wait("is about to be collected"));
        }
        let as_expected = match kind {
            ROLE => rbac::of_role(&found).is_ok_and(|found| found == rules(sets)),
            "RoleBinding" => binds(&found, name, namespace),
            _ => true,
        };
        if !as_expected {
            return Err(wait("does not say yet what the SidecarSets say"));
        }
    }
    Ok(())
}

/// Whether a binding grants the Role of this name to the ServiceAccount of this name, and has no other subjects.
fn binds(binding: &Value, name: &str, namespace: &str) -> bool {
    let [subject] = json::items(binding, &["subjects"]) else { return false };
    json::text(binding, &["roleRef", "kind"]) == ROLE
        && json::text(binding, &["roleRef", "name"]) == name
        && json::text(subject, &["kind"]) == "ServiceAccount"
        && json::text(subject, &["name"]) == name
        && json::text(subject, &["namespace"]) == namespace
}

/// Returns the ServiceAccount, the Role and the RoleBinding that are merged for `sets` in `namespace`, in the order in
/// which the controller creates them (MRG-4). [`ready`] checks for these objects. The Wasm module never calls this
/// function.
///
/// Each object has a finalizer for each set (MRG-7), and no owner (MRG-12).
pub fn objects(sets: &[&Asking], namespace: &str) -> [Value; 3] {
    let mut set_names: Vec<&str> = sets.iter().map(|set| set.sidecar_set.as_str()).collect();
    set_names.sort_unstable();
    set_names.dedup();
    let name = names::merged(&set_names);
    let finalizers: Vec<String> = set_names.iter().copied().map(names::finalizer).collect();
    let metadata = json!({
        "name": name, "namespace": namespace, "finalizers": finalizers,
        "annotations": {names::SIDECAR_SETS: names::merged_annotation(&set_names)}
    });
    let role_ref = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": ROLE, "name": name});
    let subject = json!({"kind": "ServiceAccount", "name": name, "namespace": namespace});
    [
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}),
        json!({"apiVersion": RBAC, "kind": ROLE, "metadata": metadata, "rules": rules(sets)}),
        json!({
            "apiVersion": RBAC, "kind": "RoleBinding", "metadata": metadata,
            "roleRef": role_ref, "subjects": [subject]
        }),
    ]
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;
    use crate::declared::Declared;
    use crate::partners::Origin;
    use pillion_kubernetes::lookup::Answer;

    struct Made([Value; 3]);

    impl Lookup for Made {
        fn get(&self, object: &ObjectRef) -> Answer {
            let text = |made: &Value, path: &[&str]| json::text(made, path).to_owned();
            let is_it = |made: &&Value| {
                text(made, &["apiVersion"]) == object.api_version
                    && text(made, &["kind"]) == object.kind
                    && text(made, &["metadata", "name"]) == object.name
                    && Some(text(made, &["metadata", "namespace"])) == object.namespace
            };
            Ok(self.0.iter().find(is_it).cloned())
        }
    }

    fn asking(name: &str, permissions: Vec<Value>) -> Asking {
        let permissions = permissions.into_iter().map(|rule| serde_json::from_value(rule).unwrap()).collect();
        let declared = Declared { permissions, ..Declared::default() };
        Asking { sidecar_set: name.to_owned(), account: format!("{name}-account"), declared, origin: Origin::Settings }
    }

    fn rule() -> impl Strategy<Value = Value> {
        let some = |of: &'static [&'static str]| vec(select(of), 1..3);
        let parts =
            (some(&["", "apps", "*"]), some(&["pods", "pods/log", "*", "*/scale"]), some(&["get", "list", "*"]));
        parts
            .prop_map(|(groups, resources, verbs)| json!({"apiGroups": groups, "resources": resources, "verbs": verbs}))
    }

    #[test]
    fn mrg4_mrg7_mrg12_merged_objects_are_made_in_order_with_a_finalizer_for_each_set() {
        let rule = json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "get", "get"]});
        let (a, b) = (asking("a", vec![rule]), asking("b", Vec::new()));
        let metadata = json!({
            "name": "sidecarset-merged-7e18f737311b2dc3", "namespace": "shop",
            "annotations": {"pillion.dev/sidecarsets": "a,b"},
            "finalizers": ["sa.pillion.dev/a", "sa.pillion.dev/b"]
        });
        let made = objects(&[&b, &a], "shop");
        let kinds: Vec<_> = made.iter().map(|object| json::text(object, &["kind"])).collect();
        assert_eq!(kinds, ["ServiceAccount", "Role", "RoleBinding"]);
        assert!(made.iter().all(|object| object["metadata"] == metadata), "{made:?}");
        assert_eq!(made[1]["rules"], json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}]));
        let subject = json!({"kind": "ServiceAccount", "name": metadata["name"], "namespace": "shop"});
        assert_eq!(made[2]["subjects"], json!([subject]));
        assert_eq!(objects(&[&a, &b], "shop"), made);
    }

    proptest! {
        #[test]
        fn mrg5_what_is_made_is_ready_and_nothing_less_is(rules in vec(vec(rule(), 0..3), 2..4), gone in 0_usize..3) {
            let sets: Vec<Asking> =
                ["a", "b", "c"].iter().zip(rules).map(|(name, rules)| asking(name, rules)).collect();
            let sets: Vec<&Asking> = sets.iter().collect();
            let mut made = objects(&sets, "shop");
            let name = json::text(&made[0], &["metadata", "name"]).to_owned();
            prop_assert_eq!(ready(&name, &sets, "shop", &Made(made.clone())), Ok(()));
            made[gone]["metadata"]["deletionTimestamp"] = json!("2026-01-02T03:04:05Z");
            let refused = ready(&name, &sets, "shop", &Made(made));
            prop_assert_eq!(refused.map_err(|reason| reason.code), Err(Code::Unavailable));
        }
    }
}
