//! Permissions that merging drops: bindings of a replaced account do not apply to the merged account, which gets only
//! `serviceAccountPermissions` (IDC-5).

use std::fmt;

use pillion_kubernetes::json;
use pillion_kubernetes::rbac::{self, Atom, PolicyRule, permissions, reduced, uncovered};
use serde_json::Value;

/// A ServiceAccount, by namespace and name.
#[derive(Clone, Copy, Debug)]
pub struct AccountRef<'a> {
    /// The namespace.
    pub namespace: &'a str,
    /// The name.
    pub name: &'a str,
}

/// A binding of a replaced account that gives permissions which `serviceAccountPermissions` does not cover.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    /// `RoleBinding` or `ClusterRoleBinding`, and the name of the binding.
    pub binding: (String, String),
    /// `Role` or `ClusterRole`, and the name of the role.
    pub role: (String, String),
    /// The permissions that are not covered, ascending; `None` if the rules of the role are unknown.
    pub atoms: Option<Vec<Atom>>,
}

/// The most permissions of one binding that a message lists.
const SHOWN_MAX: usize = 5;

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { binding: (binding, binding_name), role: (role, role_name), atoms } = self;
        let Some(atoms) = atoms else {
            return write!(f, "{binding} \"{binding_name}\" with {role} \"{role_name}\", whatever that allows");
        };
        for (index, atom) in atoms.iter().take(SHOWN_MAX).enumerate() {
            let comma = if index > 0 { ", " } else { "" };
            write!(f, "{comma}{}", in_words(atom))?;
        }
        if atoms.len() > SHOWN_MAX {
            write!(f, " and {} more", atoms.len() - SHOWN_MAX)?;
        }
        write!(f, " ({binding} \"{binding_name}\")")
    }
}

/// Returns the permissions that `bindings` give to a ServiceAccount in its namespace and that `listed` does not cover,
/// by binding. Bindings to groups do not count: the merged account is in the same groups. `rules_of` returns the rules
/// of a Role of the namespace or of a ClusterRole, given its kind and name, or `None` if they are unknown.
pub fn lost(
    account: AccountRef<'_>,
    listed: &[PolicyRule],
    bindings: &[Value],
    rules_of: impl Fn(&str, &str) -> Option<Vec<PolicyRule>>,
) -> Vec<Lost> {
    let listed = permissions(listed);
    let mut all = Vec::new();
    for binding in bindings.iter().filter(|binding| binds(binding, account)) {
        let text = |path: &[&str]| json::text(binding, path).to_owned();
        let role = (text(&["roleRef", "kind"]), text(&["roleRef", "name"]));
        let missing = rules_of(&role.0, &role.1).map(|rules| {
            let missing = uncovered(reduced(&permissions(&rules)), &listed);
            missing.into_iter().map(Atom::from).collect::<Vec<_>>()
        });
        if missing.as_ref().is_none_or(|missing| !missing.is_empty()) {
            all.push(Lost { binding: (text(&["kind"]), text(&["metadata", "name"])), role, atoms: missing });
        }
    }
    all
}

/// Whether a binding applies to a namespace and names this account of the namespace.
fn binds(binding: &Value, account: AccountRef<'_>) -> bool {
    let AccountRef { namespace, name } = account;
    let holds = match json::text(binding, &["kind"]) {
        "RoleBinding" => json::text(binding, &["metadata", "namespace"]) == namespace,
        kind => kind == "ClusterRoleBinding",
    };
    holds
        && json::items(binding, &["subjects"])
            .iter()
            .any(|subject| rbac::account_of(subject) == Some((namespace, name)))
}

/// Formats a permission: `get deployments/scale of apps`, `list nodes "a"`.
fn in_words(atom: &Atom) -> String {
    let group = if atom.group.is_empty() { String::new() } else { format!(" of {}", atom.group) };
    let name = atom.name.as_ref().map(|name| format!(" \"{name}\"")).unwrap_or_default();
    format!("{} {}{group}{name}", atom.verb, atom.resource)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn rule(resources: &[&str], verbs: &[&str]) -> PolicyRule {
        serde_json::from_value(json!({"apiGroups": [""], "resources": resources, "verbs": verbs})).unwrap()
    }

    fn binding(kind: &str, namespace: &str, subject: &Value) -> Value {
        json!({
            "kind": kind, "metadata": {"name": "b", "namespace": namespace}, "subjects": [subject],
            "roleRef": {"kind": "Role", "name": "r"}
        })
    }

    fn account(namespace: &str, name: &str) -> Value {
        json!({"kind": "ServiceAccount", "namespace": namespace, "name": name})
    }

    fn words(bindings: &[Value], permissions: &[PolicyRule], rules: Option<&[PolicyRule]>) -> Vec<Option<Vec<String>>> {
        let found = lost(AccountRef { namespace: "shop", name: "logs" }, permissions, bindings, |kind, name| {
            assert_eq!((kind, name), ("Role", "r"));
            rules.map(<[PolicyRule]>::to_vec)
        });
        let of = |lost: Lost| lost.atoms.map(|atoms| atoms.iter().map(in_words).collect());
        found.into_iter().map(of).collect()
    }

    #[rstest]
    #[case::none_of_it_listed(&[], &["get pods", "list pods"])]
    #[case::some_of_it(&[rule(&["pods"], &["get"])], &["list pods"])]
    #[case::all_of_it(&[rule(&["*"], &["get", "list"])], &[])]
    fn idc5_what_is_bound_and_not_listed_is_lost(#[case] permissions: &[PolicyRule], #[case] expected: &[&str]) {
        let bindings = [binding("RoleBinding", "shop", &account("shop", "logs"))];
        let expected: Vec<_> = (!expected.is_empty())
            .then(|| Some(expected.iter().map(|text| (*text).to_owned()).collect()))
            .into_iter()
            .collect();
        assert_eq!(words(&bindings, permissions, Some(&[rule(&["pods"], &["get", "list"])])), expected);
    }

    #[rstest]
    #[case::its_own("RoleBinding", "shop", account("shop", "logs"), true)]
    #[case::of_the_cluster("ClusterRoleBinding", "", account("shop", "logs"), true)]
    #[case::as_a_user("RoleBinding", "shop", json!({"kind": "User", "name": "system:serviceaccount:shop:logs"}), true)]
    #[case::in_another_namespace("RoleBinding", "else", account("shop", "logs"), false)]
    #[case::of_another_namespace("RoleBinding", "shop", account("else", "logs"), false)]
    #[case::another_account("RoleBinding", "shop", account("shop", "other"), false)]
    #[case::a_group("RoleBinding", "shop", json!({"kind": "Group", "name": "system:serviceaccounts:shop"}), false)]
    fn idc5_what_is_bound_to_the_account_counts(
        #[case] kind: &str,
        #[case] namespace: &str,
        #[case] subject: Value,
        #[case] counts: bool,
    ) {
        let rules = [rule(&["pods"], &["get"])];
        assert_eq!(words(&[binding(kind, namespace, &subject)], &[], Some(&rules)).len(), usize::from(counts));
    }

    #[test]
    fn idc5_of_a_role_that_nobody_knows_it_is_said_that_it_is_bound() {
        let bindings = [binding("RoleBinding", "shop", &account("shop", "logs"))];
        assert_eq!(words(&bindings, &[rule(&["*"], &["*"])], None), [None]);
    }

    #[rstest]
    #[case::one(Some(1), "get r0 of apps \"web\" (RoleBinding \"b\")")]
    #[case::too_many(
        Some(7),
        "get r0 of apps \"web\", get r1 of apps \"web\", get r2 of apps \"web\", get r3 of apps \"web\", \
                               get r4 of apps \"web\" and 2 more (RoleBinding \"b\")"
    )]
    #[case::unknown(None, "RoleBinding \"b\" with ClusterRole \"view\", whatever that allows")]
    fn what_is_lost_is_told_in_words(#[case] count: Option<usize>, #[case] expected: &str) {
        let pair = |kind: &str, name: &str| (kind.to_owned(), name.to_owned());
        let atom = |index: usize| Atom::new("apps", &format!("r{index}"), Some("web"), "get");
        let atoms = count.map(|count| (0..count).map(atom).collect());
        let lost = Lost { binding: pair("RoleBinding", "b"), role: pair("ClusterRole", "view"), atoms };
        assert_eq!(lost.to_string(), expected);
    }
}
