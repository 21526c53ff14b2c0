//! What the documents of files are.

use pillion_core::bundle;
use pillion_core::json;
use pillion_core::names;
use serde_json::Value;

use super::words::nearest;
use crate::manifest::Manifest;
use crate::schema::settings;

/// What a document is to the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The policy's settings.
    Settings,
    /// A Kubewarden policy that runs this module.
    Policy,
    /// A group of Kubewarden policies of which one runs this module.
    PolicyGroup,
    /// A `SidecarSet`.
    SidecarSet,
    /// A stored version of a `SidecarSet`.
    ControllerRevision,
    /// The ConfigMap with OpenKruise's whitelist.
    Whitelist,
    /// A Namespace.
    Namespace,
    /// A Role, a ClusterRole, or a binding of one.
    Rbac,
    /// Nothing that the policy knows.
    Other,
}

/// The kinds of Kubewarden policies with one module.
const POLICIES: [&str; 2] = ["ClusterAdmissionPolicy", "AdmissionPolicy"];
/// The kinds of those with several.
const GROUPS: [&str; 2] = ["ClusterAdmissionPolicyGroup", "AdmissionPolicyGroup"];

/// The kinds that say what a ServiceAccount may do.
const RBAC: [&str; 4] = ["Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"];

/// Tells what a document is.
pub fn role(document: &Value) -> Role {
    let api_version = json::text(document, &["apiVersion"]);
    let kind = json::text(document, &["kind"]);
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    match (group, kind) {
        (_, "SidecarSet") => Role::SidecarSet,
        ("apps.kruise.io", kind) if kind.eq_ignore_ascii_case("SidecarSet") => Role::SidecarSet,
        ("policies.kubewarden.io", kind)
            if POLICIES.contains(&kind) && json::at(document, &["spec"]).is_some_and(is_ours) =>
        {
            Role::Policy
        }
        ("policies.kubewarden.io", kind) if GROUPS.contains(&kind) && members(document).next().is_some() => {
            Role::PolicyGroup
        }
        ("apps", "ControllerRevision")
            if json::at(document, &["metadata", "labels", names::SIDECAR_SET_NAME_LABEL]).is_some() =>
        {
            Role::ControllerRevision
        }
        ("", "ConfigMap") if json::text(document, &["metadata", "name"]) == names::WHITELIST_CONFIG_MAP => {
            Role::Whitelist
        }
        ("", "Namespace") => Role::Namespace,
        ("rbac.authorization.k8s.io", kind) if RBAC.contains(&kind) => Role::Rbac,
        ("", "") if api_version.is_empty() && is_settings(document) => Role::Settings,
        _ => Role::Other,
    }
}

/// Whether what is below this `spec` runs this module, or has settings that only this module has.
fn is_ours(spec: &Value) -> bool {
    json::text(spec, &["module"]).contains("pillion") || json::at(spec, &["settings"]).is_some_and(is_settings)
}

/// The members of a group that run this module, by name.
pub fn members(group: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let members = json::object(group, &["spec", "policies"]).into_iter().flatten();
    members.map(|(name, member)| (name.as_str(), member)).filter(|(_, member)| is_ours(member))
}

/// Whether an object has a key that only the settings of this policy have, or one that looks like it.
fn is_settings(object: &Value) -> bool {
    json::text(object, &["bundle"]).starts_with(bundle::PREFIX)
        || object.as_object().is_some_and(|object| object.keys().any(|key| nearest(key, settings::telling()).is_some()))
}

/// A document and what it is.
#[derive(Clone, Debug)]
pub struct Document {
    /// The document.
    pub manifest: Manifest,
    /// What it is.
    pub role: Role,
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::settings(json!({"sidecarSets": []}), Role::Settings)]
    #[case::settings_with_a_bundle(json!({"bundle": "pillion-bundle-2:a:b"}), Role::Settings)]
    #[case::another_bundle(json!({"bundle": "trust.pem"}), Role::Other)]
    #[case::misspelt_settings(json!({"sidecarsets": []}), Role::Settings)]
    #[case::values_of_a_chart(json!({"image": "a", "serviceAccounts": {}, "featureGates": {}}), Role::Other)]
    #[case::nothing(json!({}), Role::Other)]
    #[case::v1beta1(json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet"}), Role::SidecarSet)]
    #[case::another_version(json!({"apiVersion": "apps.kruise.io/v2", "kind": "SidecarSet"}), Role::SidecarSet)]
    #[case::no_version(json!({"kind": "SidecarSet"}), Role::SidecarSet)]
    #[case::misspelt_kind(json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "Sidecarset"}), Role::SidecarSet)]
    #[case::cloneset(json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet"}), Role::Other)]
    #[case::policy_by_module(
        json!({"apiVersion": "policies.kubewarden.io/v1", "kind": "ClusterAdmissionPolicy",
               "spec": {"module": "registry://registry.example.com/pillion:v1"}}),
        Role::Policy
    )]
    #[case::policy_by_settings(
        json!({"apiVersion": "policies.kubewarden.io/v1", "kind": "AdmissionPolicy",
               "spec": {"module": "file:///policy.wasm", "settings": {"sidecarSets": null}}}),
        Role::Policy
    )]
    #[case::another_policy(
        json!({"apiVersion": "policies.kubewarden.io/v1", "kind": "ClusterAdmissionPolicy",
               "spec": {"module": "ghcr.io/kubewarden/policies/psa:v1", "settings": {"bundle": 1, "role": "x"}}}),
        Role::Other
    )]
    #[case::group(
        json!({"apiVersion": "policies.kubewarden.io/v1", "kind": "ClusterAdmissionPolicyGroup",
               "spec": {"policies": {"a": {"module": "ghcr.io/kubewarden/policies/psa:v1"},
                                     "b": {"module": "registry://registry.example.com/pillion:v1"}}}}),
        Role::PolicyGroup
    )]
    #[case::revision_of_a_sidecar_set(
        json!({"apiVersion": "apps/v1", "kind": "ControllerRevision",
               "metadata": {"labels": {"kruise.io/sidecarset-name": "a"}}}),
        Role::ControllerRevision
    )]
    #[case::revision_of_a_daemon_set(json!({"apiVersion": "apps/v1", "kind": "ControllerRevision"}), Role::Other)]
    #[case::whitelist(
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kruise-configuration"}}),
        Role::Whitelist
    )]
    #[case::config_map(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}), Role::Other)]
    #[case::namespace(json!({"apiVersion": "v1", "kind": "Namespace"}), Role::Namespace)]
    #[case::rbac(json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding"}), Role::Rbac)]
    fn documents_are_told_apart(#[case] document: Value, #[case] expected: Role) {
        assert_eq!(role(&document), expected);
    }
}
