//! Roles of documents.

use pillion_bundle as bundle;
use pillion_documents::manifest::Manifest;
use pillion_install::rendering::document::{PART_OF, PILLION};
use pillion_install::schema;
use pillion_install::settings;
use pillion_kubernetes::json;
use pillion_kubernetes::words::nearest;
use pillion_sidecarset::names;
use serde_json::Value;

/// The role of a document for the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Settings of the policy.
    Settings,
    /// A Kubewarden policy that runs this module.
    Policy,
    /// A group of Kubewarden policies with a member that runs this module.
    PolicyGroup,
    /// A `SidecarSet`.
    SidecarSet,
    /// A stored revision of a `SidecarSet`.
    ControllerRevision,
    /// The ConfigMap with OpenKruise's whitelist.
    Whitelist,
    /// A Namespace.
    Namespace,
    /// A Role, a ClusterRole, or a binding of one.
    Rbac,
    /// A Shoot, or another object of Gardener that holds a `serviceAccountConfig`.
    Shoot,
    /// Irrelevant to the policy.
    Other,
}

/// The kinds of Kubewarden policies with one module.
pub const POLICIES: [&str; 2] = ["ClusterAdmissionPolicy", "AdmissionPolicy"];
/// The kinds of Kubewarden policy groups.
pub const GROUPS: [&str; 2] = ["ClusterAdmissionPolicyGroup", "AdmissionPolicyGroup"];

/// The API group of Kubewarden's policies.
pub const KUBEWARDEN: &str = "policies.kubewarden.io";

/// The kinds of Gardener that hold a `serviceAccountConfig`, with their groups.
pub const GARDENER: [(&str, &str); 3] = [
    ("core.gardener.cloud", "Shoot"),
    ("operator.gardener.cloud", "Garden"),
    ("seedmanagement.gardener.cloud", "ManagedSeedSet"),
];

/// The kinds that grant permissions to ServiceAccounts.
const RBAC: [&str; 4] = ["Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"];

/// Settings that identify a document on their own. Other programs also have keys named `bundle`, `role` and
/// `serviceAccount`.
const TELLING: [&str; 10] = [
    "sidecarSets",
    "controllerRevisions",
    "patchPodMetadataWhitelist",
    "shoots",
    "bundleRef",
    "bundleCache",
    "nativeSidecars",
    "otherWebhooks",
    "onBundleUnavailable",
    "bundleMaxAge",
];

/// Returns the role of a document.
pub fn role(document: &Value) -> Role {
    let api_version = json::text(document, &["apiVersion"]);
    let kind = json::text(document, &["kind"]);
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    match (group, kind) {
        (_, "SidecarSet") => Role::SidecarSet,
        ("apps.kruise.io", kind) if nearest(kind, ["SidecarSet"]).is_some() => Role::SidecarSet,
        (group, kind) if is_policy(group, kind, &POLICIES) && json::at(document, &["spec"]).is_some_and(is_ours) => {
            Role::Policy
        }
        (group, kind) if is_policy(group, kind, &GROUPS) && members(document).next().is_some() => Role::PolicyGroup,
        (group, kind) if GARDENER.contains(&(group, kind)) => Role::Shoot,
        ("apps", "ControllerRevision")
            if json::at(document, &["metadata", "labels", names::SIDECAR_SET_NAME_LABEL]).is_some() =>
        {
            Role::ControllerRevision
        }
        ("", "ConfigMap") if json::text(document, &["metadata", "name"]) == names::WHITELIST_CONFIG_MAP => {
            Role::Whitelist
        }
        // Pillion's own namespace: nothing is injected there.
        ("", "Namespace") if json::text(document, &["metadata", "labels", PART_OF]) == PILLION => Role::Other,
        ("", "Namespace") => Role::Namespace,
        ("rbac.authorization.k8s.io", kind) if RBAC.contains(&kind) => Role::Rbac,
        ("", "") if api_version.is_empty() && is_settings(document) => Role::Settings,
        _ => Role::Other,
    }
}

/// Whether these are the group and kind of a policy; one of the two may be misspelt.
fn is_policy(group: &str, kind: &str, kinds: &[&str]) -> bool {
    kinds.contains(&kind) || (group == KUBEWARDEN && nearest(kind, kinds.iter().copied()).is_some())
}

/// Whether this `spec` of a policy or a member names this module, or has settings that only this module has.
fn is_ours(spec: &Value) -> bool {
    settings::names_module(spec) || json::at(spec, &[settings_key(spec)]).is_some_and(is_settings) || is_settings(spec)
}

/// Returns the key of the settings in a policy or a member of a group: `settings`, or a misspelling of it.
pub fn settings_key(spec: &Value) -> &str {
    const SETTINGS: &str = "settings";
    if json::at(spec, &[SETTINGS]).is_some() {
        return SETTINGS;
    }
    let mut keys = spec.as_object().into_iter().flat_map(|spec| spec.keys());
    keys.find(|key| nearest(key, [SETTINGS]).is_some()).map_or(SETTINGS, String::as_str)
}

/// Returns the members of a group that run this module, with their names.
pub fn members(group: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let members = json::object(group, &["spec", "policies"]).into_iter().flatten();
    members.map(|(name, member)| (name.as_str(), member)).filter(|(_, member)| is_ours(member))
}

/// Whether an object can only be settings of this policy. Either one entry is telling, or all keys are settings and one
/// of them is `systemNamespace`. Misspelt keys count.
pub fn is_settings(object: &Value) -> bool {
    let Some(object) = object.as_object() else { return false };
    // Other charts have values called featureGates and serviceAccounts, too; is_telling looks into these.
    let is_own = |key: &str| nearest(key, ["systemNamespace"]).is_some();
    let names = || schema::members("").map(|(name, _)| name);
    object.iter().any(|(key, value)| is_telling(key, value))
        || (object.keys().all(|key| nearest(key, names()).is_some()) && object.keys().any(|key| is_own(key)))
}

/// Whether only settings of this policy have such an entry.
fn is_telling(key: &str, value: &Value) -> bool {
    let has_one_of = |setting: &str| {
        let mut keys = value.as_object().into_iter().flat_map(|object| object.keys());
        keys.any(|key| nearest(key, schema::members(setting).map(|(name, _)| name)).is_some())
    };
    let Some(setting) = nearest(key, schema::members("").map(|(name, _)| name)) else {
        // A file with a fragment of a policy.
        return key == "settings" && is_settings(value);
    };
    match setting {
        "bundle" => value.as_str().is_some_and(|text| text.starts_with(bundle::PREFIX)),
        "role" => value.as_str().is_some_and(|role| nearest(role, ["Inject", "Assert"]).is_some()),
        "featureGates" | "serviceAccounts" => has_one_of(setting),
        name => TELLING.contains(&name),
    }
}

/// A document and its role.
#[derive(Clone, Debug)]
pub struct Document {
    /// The document.
    pub manifest: Manifest,
    /// Its role.
    pub role: Role,
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::settings(json!({"sidecarSets": []}), Role::Settings)]
    #[case::settings_with_a_bundle(json!({"bundle": "pillion-bundle-3:a:b"}), Role::Settings)]
    #[case::another_bundle(json!({"bundle": "trust.pem"}), Role::Other)]
    #[case::misspelt_settings(json!({"sidecarsets": []}), Role::Settings)]
    #[case::values_of_a_chart(json!({"image": "a", "serviceAccounts": {}, "featureGates": {}}), Role::Other)]
    #[case::nothing(json!({}), Role::Other)]
    #[case::a_gate(json!({"featureGates": {"SidecarSetServiceAccountInjection": true}}), Role::Settings)]
    #[case::a_misspelt_gate(
        json!({"featuregates": {"SidecarSetServiceAcountInjection": true}, "x": 1}), Role::Settings
    )]
    #[case::nothing_but_settings(json!({"systemNamespace": "a", "serviceAccounts": {}}), Role::Settings)]
    #[case::misspelt_ones(json!({"systemNamspace": "a"}), Role::Settings)]
    #[case::rules_for_accounts(json!({"serviceAccounts": {"onMissing": "Skip"}}), Role::Settings)]
    #[case::the_twin(json!({"role": "assert"}), Role::Settings)]
    #[case::another_role(json!({"role": "admin"}), Role::Other)]
    #[case::an_account_of_a_chart(json!({"serviceAccount": {"create": true}}), Role::Other)]
    #[case::a_part_of_a_policy(json!({"settings": {"shoots": {"enabled": true}}}), Role::Settings)]
    #[case::shoot(json!({"apiVersion": "core.gardener.cloud/v1beta1", "kind": "Shoot"}), Role::Shoot)]
    #[case::another_shoot(json!({"apiVersion": "example.com/v1", "kind": "Shoot"}), Role::Other)]
    #[case::policy_with_misspelt_settings(
        json!({"apiVersion": "policies.kubewarden.io/v1", "kind": "AdmissionPolicy",
               "spec": {"module": "file:///policy.wasm", "setings": {"sidecarSets": null}}}),
        Role::Policy
    )]
    #[case::misspelt_policy(
        json!({"apiVersion": "policies.kubewarden.io/v1", "kind": "ClusterAdmisionPolicy",
               "spec": {"module": "registry://registry.example.com/pillion:v1"}}),
        Role::Policy
    )]
    #[case::v1beta1(json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet"}), Role::SidecarSet)]
    #[case::another_version(json!({"apiVersion": "apps.kruise.io/v2", "kind": "SidecarSet"}), Role::SidecarSet)]
    #[case::no_version(json!({"kind": "SidecarSet"}), Role::SidecarSet)]
    #[case::misspelt_kind(json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "Sidecarset"}), Role::SidecarSet)]
    #[case::a_letter_too_many(json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarsSet"}), Role::SidecarSet)]
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
    #[case::namespace_of_the_server(
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"labels": {"app.kubernetes.io/part-of": "pillion"}}}),
        Role::Other
    )]
    #[case::rbac(json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding"}), Role::Rbac)]
    fn documents_are_told_apart(#[case] document: Value, #[case] expected: Role) {
        assert_eq!(role(&document), expected);
    }
}
