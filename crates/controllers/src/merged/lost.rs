//! Reports the permissions that sidecars lose when their ServiceAccounts are merged (IDC-5).
//!
//! The check runs when a merged Role is written, and nothing is watched for it: people should know when they choose to
//! merge. The controller does not know the rules of ClusterRoles, and sees no `ClusterRoleBindings`.

use std::collections::BTreeMap;

use k8s_openapi::api::rbac::v1::{PolicyRule, Role, RoleBinding};
use kube::api::ListParams;
use kube::{Api, Client};
use pillion_identity::declared::Declared;
use pillion_identity::lost::{AccountRef, Lost, lost};
use pillion_kubernetes::json;
use pillion_plan::Step;
use pillion_plan::merged::Group;
use pillion_runtime::problem::WriteProblem;
use pillion_runtime::read;
use pillion_runtime::sets::Sets;
use pillion_sidecarset::sidecar_set::SidecarSet;
use serde_json::Value;

/// The reason of the Events.
pub(super) const REASON: &str = "PermissionsNotMerged";

/// Whether a group writes the permissions of a merged account.
pub(super) fn is_about(group: &Group) -> bool {
    let is_role = |step: &Step| matches!(step, Step::Apply(object) if json::text(object, &["kind"]) == "Role");
    // If the account is missing, most steps run only if no Pod uses it (MRG-13), so all lists count.
    group.steps.iter().chain(&group.if_unused).chain(&group.if_used).any(is_role)
}

/// Returns, for each SidecarSet of a group that loses permissions, its name and the text for people.
///
/// # Errors
/// The RoleBindings or a Role could not be read.
pub(super) async fn permission_losses(
    client: &Client,
    namespace: &str,
    group: &Group,
    sets: &Sets,
) -> Result<Vec<(String, String)>, WriteProblem> {
    let mut bindings = Vec::new();
    let api: Api<RoleBinding> = Api::namespaced(client.clone(), namespace);
    read::pages(&api, ListParams::default(), |binding| bindings.extend(object(binding, "RoleBinding"))).await?;
    let of_group = sets.sets.iter().filter(|set| group.sets.iter().any(|name| name == set.name()));
    let declared: Vec<(&SidecarSet, String, Vec<PolicyRule>)> = of_group
        .filter_map(|set| {
            let declared = Declared::from_sidecar_set(set).ok()?;
            Some((set, declared.service_account?, declared.permissions))
        })
        .collect();
    let lost_of = |account: &str, listed: &[PolicyRule], roles: &BTreeMap<String, Vec<PolicyRule>>| {
        let rules_of = |kind: &str, name: &str| (kind == "Role").then(|| roles.get(name).cloned()).flatten();
        lost(AccountRef { namespace, name: account }, listed, &bindings, rules_of)
    };
    let mut roles = BTreeMap::new();
    let api: Api<Role> = Api::namespaced(client.clone(), namespace);
    for (_, account, permissions) in &declared {
        for Lost { role: (kind, name), .. } in lost_of(account, permissions, &BTreeMap::new()) {
            if kind == "Role" && !roles.contains_key(&name) {
                // A missing Role allows nothing.
                let allowed = read::one(&api, &name).await?.and_then(|role| role.rules).unwrap_or_default();
                roles.insert(name, allowed);
            }
        }
    }
    let mut losses = Vec::new();
    for (set, account, permissions) in &declared {
        let lost = lost_of(account, permissions, &roles);
        if !lost.is_empty() {
            let lost: Vec<String> = lost.iter().map(ToString::to_string).collect();
            let text = format!(
                "if ServiceAccount \"{account}\" is merged, sidecars get the permissions in serviceAccountPermissions, but not \
                 those that are bound to the account: {}",
                lost.join("; ")
            );
            losses.push((set.name().to_owned(), text));
        }
    }
    Ok(losses)
}

/// Sets `kind`, which the API server omits in lists.
fn object(object: impl serde::Serialize, kind: &str) -> Option<Value> {
    let mut object = serde_json::to_value(object).ok()?;
    object.as_object_mut()?.insert("kind".to_owned(), kind.into());
    Some(object)
}
