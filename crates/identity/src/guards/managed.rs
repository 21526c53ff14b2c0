//! Guards merged ServiceAccounts, Roles and RoleBindings, and ServiceAccounts that are in use or called `default`
//! (MRG-8, RUN-1).

use std::collections::BTreeSet;

use pillion_kubernetes::json;
use pillion_kubernetes::lookup::Lookup;
use pillion_kubernetes::operation::Operation;
use pillion_kubernetes::outcome::Reason;

use super::{Change, Objections, goes_with_its_namespace, is_exempt, name, reserved};
use crate::names;
use crate::rules::Rules;

/// Judges a change of a ServiceAccount, a Role or a RoleBinding. `users` returns the SidecarSets that name this
/// ServiceAccount for this namespace. It is called only if the result depends on it.
pub fn judge(
    change: Change<'_>,
    rules: &Rules,
    lookup: &dyn Lookup,
    users: impl Fn(&str) -> Vec<String>,
) -> Objections {
    let mut findings = Objections::default();
    if change.operation == Operation::Create {
        findings.reasons.extend(creation(change, rules));
        return findings;
    }
    if is_exempt(change.author, rules) {
        return findings;
    }
    let name = name(change.old_object);
    let is_account = change.kind == "ServiceAccount";
    let problem = if names::is_merged(name) {
        Some((
            format!("{} \"{name}\" belongs to Pillion's controller, which alone changes and deletes it", change.kind),
            "change or delete the SidecarSets that it is merged for".to_owned(),
        ))
    } else if is_account && change.operation == Operation::Delete {
        deletion(change, name, rules, users)
    } else {
        None
    };
    if let Some((problem, remedy)) = problem {
        let refused = Reason::forbidden("metadata.name", problem, &remedy);
        // In a namespace that is being deleted, only deletions are allowed.
        findings.reasons.extend(match change.operation {
            Operation::Delete => goes_with_its_namespace(change.namespace, lookup, refused),
            _ => Some(refused),
        });
    } else if is_account && change.operation == Operation::Update {
        added_references(change, &mut findings);
    }
    findings
}

/// E22: returns why the user must not create an object. Only the controller creates merged objects; the control plane
/// deletes and updates them, but never creates them. Pods would run under a forged account once a Role of that name
/// exists.
fn creation(change: Change<'_>, rules: &Rules) -> Option<Reason> {
    let (field, name) = reserved(change.object, names::MERGED_PREFIX)?;
    let problem = format!(
        "{} \"{name}\": names that start with \"{}\" are for objects that Pillion's controller makes",
        change.kind,
        names::MERGED_PREFIX
    );
    (change.author.user != rules.controller_user).then(|| Reason::forbidden(field, problem, "choose another name"))
}

/// Returns why a ServiceAccount must not be deleted, with the remedy.
fn deletion(
    change: Change<'_>,
    name: &str,
    rules: &Rules,
    users: impl Fn(&str) -> Vec<String>,
) -> Option<(String, String)> {
    if name == "default" && rules.protect_default {
        let problem = format!("every Pod of namespace \"{}\" needs the ServiceAccount \"default\"", change.namespace);
        return Some((problem, "delete the namespace instead, or unset serviceAccounts.protectDefault".to_owned()));
    }
    if !rules.protect_in_use {
        return None;
    }
    let users = users(name);
    if users.is_empty() {
        return None;
    }
    let names = users.join("\", \"");
    let problem = format!("ServiceAccount \"{name}\" is in use by the SidecarSets \"{names}\"");
    Some((problem, "name another account there first".to_owned()))
}

/// RUN-2, dangling references: warns of new entries in `secrets` of a ServiceAccount. A token Secret in this list is a
/// token that does not expire.
fn added_references(change: Change<'_>, findings: &mut Objections) {
    let list = |object| json::items(object, &["secrets"]).iter().map(|entry| json::text(entry, &["name"]));
    let before: BTreeSet<_> = list(change.old_object).collect();
    for secret in list(change.object).filter(|secret| !before.contains(secret)) {
        findings.warnings.push(format!(
            "ServiceAccount \"{}\" now refers to the Secret \"{secret}\"; tokens are requested by need, references are \
             not needed",
            name(change.old_object)
        ));
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::in_phase;
    use pillion_kubernetes::authorizer::Author;
    use pillion_samples::lookups::FakeObjects;

    /// The merged name of the SidecarSets `a` and `b`.
    const MERGED: &str = "sidecarset-merged-7e18f737311b2dc3";
    const ANN: &str = "ann";

    fn rules() -> Rules {
        Rules { protect_default: true, protect_in_use: true, ..Rules::default() }
    }

    fn judged(kind: &str, operation: Operation, name: &str, user: &str, phase: &'static str) -> Vec<String> {
        let old = json!({"metadata": {"name": name, "annotations": {names::SIDECAR_SETS: "a,b"}}});
        let object = if operation == Operation::Delete { Value::Null } else { old.clone() };
        let author = Author { user: user.to_owned(), groups: Vec::new() };
        let change = Change { kind, operation, namespace: "web", object: &object, old_object: &old, author: &author };
        let users = |name: &str| if name == "log-agent" { vec!["logs".to_owned()] } else { Vec::new() };
        let findings = judge(change, &rules(), &in_phase(phase), users);
        findings.reasons.iter().map(|reason| format!("{} {reason}", reason.code.as_u16())).collect()
    }

    #[rstest]
    #[case::account("ServiceAccount", Operation::Delete)]
    #[case::account_update("ServiceAccount", Operation::Update)]
    #[case::role("Role", Operation::Delete)]
    #[case::role_update("Role", Operation::Update)]
    #[case::binding("RoleBinding", Operation::Update)]
    fn mrg8_merged_objects_are_the_controllers(#[case] kind: &str, #[case] operation: Operation) {
        assert_eq!(
            judged(kind, operation, MERGED, ANN, "Active"),
            [format!(
                "403 metadata.name: {kind} \"{MERGED}\" belongs to Pillion's controller, which alone changes and deletes \
                 it; change or delete the SidecarSets that it is merged for"
            )]
        );
        for user in [
            "system:serviceaccount:pillion-system:pillion-controller",
            "system:serviceaccount:kube-system:namespace-controller",
            "system:serviceaccount:kube-system:generic-garbage-collector",
            "system:kube-controller-manager",
        ] {
            assert_eq!(judged(kind, operation, MERGED, user, "Active"), [""; 0], "{user}");
        }
    }

    fn made(kind: &str, metadata: &Value, user: &str) -> Vec<String> {
        let object = json!({ "metadata": metadata });
        let author = Author { user: user.to_owned(), groups: vec![Rules::default().controller_user] };
        let operation = Operation::Create;
        let change =
            Change { kind, operation, namespace: "web", object: &object, old_object: &Value::Null, author: &author };
        let findings = judge(change, &rules(), &FakeObjects::new(), |_| panic!("nobody's users are asked for"));
        assert_eq!(findings.warnings, [""; 0]);
        findings.reasons.iter().map(|reason| format!("{} {reason}", reason.code.as_u16())).collect()
    }

    #[rstest]
    #[case::a_merged_one(json!({"name": MERGED}), "metadata.name", MERGED)]
    #[case::with_its_annotation(json!({"name": MERGED, "annotations": {names::SIDECAR_SETS: "a,b"}}), "metadata.name", MERGED)]
    #[case::any_of_the_prefix(json!({"name": "sidecarset-merged-x"}), "metadata.name", "sidecarset-merged-x")]
    #[case::a_generated_name(json!({"generateName": "sidecarset-merged-7e18f737311"}), "metadata.generateName", "sidecarset-merged-7e18f737311")]
    #[case::the_prefix_alone(json!({"generateName": "sidecarset-merged-"}), "metadata.generateName", "sidecarset-merged-")]
    #[case::generated_by_now(json!({"generateName": "sidecarset-merged-7", "name": "sidecarset-merged-7xz4kp"}), "metadata.name", "sidecarset-merged-7xz4kp")]
    fn e22_only_the_controller_makes_merged_objects(#[case] metadata: Value, #[case] field: &str, #[case] name: &str) {
        for kind in ["ServiceAccount", "Role", "RoleBinding"] {
            for user in [
                ANN,
                "",
                "system:serviceaccount:kube-system:namespace-controller",
                "system:serviceaccount:kube-system:generic-garbage-collector",
                "system:kube-controller-manager",
            ] {
                assert_eq!(
                    made(kind, &metadata, user),
                    [format!(
                        "403 {field}: {kind} \"{name}\": names that start with \"sidecarset-merged-\" are for objects that \
                         Pillion's controller makes; choose another name"
                    )]
                );
            }
            assert_eq!(made(kind, &metadata, &Rules::default().controller_user), [""; 0]);
        }
    }

    #[rstest]
    #[case::another_name(json!({"name": "sidecarset-mergers"}))]
    #[case::a_prefix_that_cannot_become_one(json!({"generateName": "sidecarset-merged"}))]
    #[case::the_name_counts(json!({"generateName": "sidecarset-merged-", "name": "web"}))]
    #[case::none(json!({}))]
    fn e22_other_objects_are_made_as_ever(#[case] metadata: Value) {
        assert_eq!(made("ServiceAccount", &metadata, ANN), [""; 0]);
    }

    #[test]
    fn mrg8_deletions_in_a_terminating_namespace_go_through_and_updates_do_not() {
        assert_eq!(judged("Role", Operation::Delete, MERGED, ANN, "Terminating"), [""; 0]);
        assert_eq!(judged("Role", Operation::Update, MERGED, ANN, "Terminating").len(), 1);
        assert_eq!(judged("Role", Operation::Update, MERGED, ANN, "").len(), 1);
    }

    #[test]
    fn mrg8_whether_a_namespace_goes_has_to_be_known() {
        assert_eq!(
            judged("Role", Operation::Delete, MERGED, ANN, ""),
            ["503 metadata.namespace: Namespace \"web\" could not be read: no answer in time; try again"]
        );
    }

    #[test]
    fn run1_default_and_accounts_in_use_stay() {
        assert_eq!(
            judged("ServiceAccount", Operation::Delete, "default", ANN, "Active"),
            ["403 metadata.name: every Pod of namespace \"web\" needs the ServiceAccount \"default\"; delete the \
              namespace instead, or unset serviceAccounts.protectDefault"]
        );
        assert_eq!(
            judged("ServiceAccount", Operation::Delete, "log-agent", ANN, "Active"),
            [
                "403 metadata.name: ServiceAccount \"log-agent\" is in use by the SidecarSets \"logs\"; name another account \
              there first"
            ]
        );
        assert_eq!(judged("ServiceAccount", Operation::Delete, "default", ANN, "Terminating"), [""; 0]);
        assert_eq!(judged("ServiceAccount", Operation::Delete, "other", ANN, "Active"), [""; 0]);
        assert_eq!(judged("ServiceAccount", Operation::Update, "default", ANN, "Active"), [""; 0]);
    }

    #[test]
    fn run1_both_are_settings() {
        let author = Author { user: ANN.to_owned(), groups: Vec::new() };
        for name in ["default", "log-agent"] {
            let old = json!({"metadata": {"name": name}});
            let change = Change {
                kind: "ServiceAccount",
                operation: Operation::Delete,
                namespace: "web",
                object: &Value::Null,
                old_object: &old,
                author: &author,
            };
            let users = |_: &str| vec!["logs".to_owned()];
            assert_eq!(judge(change, &Rules::default(), &in_phase("Active"), users), Objections::default());
        }
    }

    #[test]
    fn run2_new_references_to_secrets_warn() {
        let old = json!({"metadata": {"name": "a"}, "secrets": [{"name": "old"}]});
        let new = json!({"metadata": {"name": "a"}, "secrets": [{"name": "old"}, {"name": "new"}]});
        let author = Author { user: ANN.to_owned(), groups: Vec::new() };
        let change = Change {
            kind: "ServiceAccount",
            operation: Operation::Update,
            namespace: "web",
            object: &new,
            old_object: &old,
            author: &author,
        };
        let findings = judge(change, &rules(), &in_phase("Active"), |_| Vec::new());
        assert_eq!(findings.reasons, []);
        assert_eq!(
            findings.warnings,
            [
                "ServiceAccount \"a\" now refers to the Secret \"new\"; tokens are requested by need, references are not needed"
            ]
        );
    }
}
