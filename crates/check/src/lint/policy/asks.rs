//! The requests that the API server sends to a policy.

use pillion_kubernetes::json;
use serde_json::Value;

use super::Policy;
use crate::report::Finding;

/// A resource: its group, and its plural with an optional subresource after a slash.
pub(super) type Resource = (&'static str, &'static str);

pub(super) const EPHEMERAL: Resource = ("", "pods/ephemeralcontainers");
pub(super) const CONNECTIONS: [Resource; 3] = [("", "pods/exec"), ("", "pods/attach"), ("", "pods/portforward")];
pub(super) const RUNNING: [Resource; 1] = [("", "pods")];
pub(super) const TOKENS: [Resource; 1] = [("", "serviceaccounts/token")];
pub(super) const SECRETS: Resource = ("", "secrets");
pub(super) const ACCOUNTS: [Resource; 3] =
    [("", "serviceaccounts"), ("rbac.authorization.k8s.io", "roles"), ("rbac.authorization.k8s.io", "rolebindings")];
pub(super) const AUTHORITIES: [Resource; 1] = [("", "configmaps")];
pub(super) const SERVICES: [Resource; 1] = [("", "services")];
pub(super) const WORKLOADS: [Resource; 14] = [
    ("apps", "deployments"),
    ("apps", "statefulsets"),
    ("apps", "daemonsets"),
    ("apps", "replicasets"),
    ("", "replicationcontrollers"),
    ("", "podtemplates"),
    ("batch", "jobs"),
    ("batch", "cronjobs"),
    ("apps.kruise.io", "clonesets"),
    ("apps.kruise.io", "statefulsets"),
    ("apps.kruise.io", "daemonsets"),
    ("apps.kruise.io", "broadcastjobs"),
    ("apps.kruise.io", "advancedcronjobs"),
    ("apps.kruise.io", "uniteddeployments"),
];
const SETS: Resource = ("apps.kruise.io", "sidecarsets");
const SHOOTS: [Resource; 3] = [
    ("core.gardener.cloud", "shoots"),
    ("operator.gardener.cloud", "gardens"),
    ("seedmanagement.gardener.cloud", "managedseedsets"),
];
pub(super) const WRITES: [&str; 2] = ["CREATE", "UPDATE"];
pub(super) const CHANGES: [&str; 3] = ["CREATE", "UPDATE", "DELETE"];

/// The rules of a policy.
#[derive(Clone, Copy)]
pub(super) struct Asks<'a> {
    rules: &'a [Value],
    is_cluster_wide: bool,
}

impl<'a> Asks<'a> {
    pub(super) fn new(policy: &'a Value, spec: &'a Value) -> Self {
        Self { rules: json::items(spec, &["rules"]), is_cluster_wide: is_cluster_wide(policy) }
    }

    /// Whether a rule covers this operation on this resource. Matches like the API server.
    pub(super) fn about(self, (group, resource): Resource, operation: &str) -> bool {
        let has = |rule: &Value, field: &str, is_it: &dyn Fn(&str) -> bool| {
            json::items(rule, &[field]).iter().filter_map(Value::as_str).any(is_it)
        };
        let split = |resource: &'static str| resource.split_once('/').unwrap_or((resource, ""));
        let (wanted, wanted_part) = split(resource);
        let names = |named: &str| {
            let (named, part) = named.split_once('/').unwrap_or((named, ""));
            (named == "*" || named == wanted) && (part == "*" || part == wanted_part)
        };
        self.rules.iter().any(|rule| {
            has(rule, "apiGroups", &|named| named == "*" || named == group)
                && has(rule, "resources", &names)
                && has(rule, "operations", &|named| named == "*" || named == operation)
        })
    }

    pub(super) fn about_any(self, resources: &[Resource], operations: &[&str]) -> bool {
        resources.iter().any(|resource| operations.iter().any(|operation| self.about(*resource, operation)))
    }

    /// Whether the rules cover the creation of Pods.
    pub(super) fn pods(self) -> bool {
        self.about(("", "pods"), "CREATE")
    }

    /// Whether the rules cover writes of `SidecarSet`s, which are cluster-scoped.
    pub(super) fn sets(self) -> bool {
        self.is_cluster_wide && self.about_any(&[SETS], &WRITES)
    }

    /// Whether the rules cover a request that a guard checks.
    pub(super) fn guarded(self) -> bool {
        self.about(EPHEMERAL, "UPDATE")
            || self.about_any(&[SECRETS], &WRITES)
            || self.about_any(&WORKLOADS, &WRITES)
            || self.about_any(&ACCOUNTS, &CHANGES)
            || self.about_any(&AUTHORITIES, &CHANGES)
            || self.about_any(&SERVICES, &WRITES)
            || self.about_any(&CONNECTIONS, &["CONNECT"])
            || self.about_any(&RUNNING, &["UPDATE"])
            || self.about_any(&TOKENS, &["CREATE"])
    }

    /// Whether the rules cover writes of Shoots and the related kinds.
    pub(super) fn shoots(self) -> bool {
        self.about_any(&SHOOTS, &WRITES)
    }
}

/// Whether a policy is cluster-wide.
pub(super) fn is_cluster_wide(policy: &Value) -> bool {
    json::text(policy, &["kind"]) == "ClusterAdmissionPolicy"
}

/// Returns a warning about rules that omit what the policy is for. The twin's rules are checked with the twin.
pub(super) fn check(policy: &Policy<'_>) -> Option<Finding> {
    let asks = policy.asks;
    if !policy.acts() {
        return None;
    }
    let (message, remedy) = if !asks.is_cluster_wide && asks.about_any(&[SETS], &WRITES) {
        (
            "SidecarSets are in no namespace: an AdmissionPolicy is never asked about them",
            "use a ClusterAdmissionPolicy",
        )
    } else {
        match (asks.about(SETS, "CREATE"), asks.about(SETS, "UPDATE")) {
            (true, false) => (
                "SidecarSets are checked when they are created, but not when they are changed",
                "add UPDATE to the rule for sidecarsets",
            ),
            (false, true) => (
                "SidecarSets are checked when they are changed, but not when they are created",
                "add CREATE to the rule for sidecarsets",
            ),
            (false, false) if !asks.pods() && !asks.guarded() && !asks.shoots() => (
                "no rule asks this policy about the creation of Pods: nothing is injected",
                "add a rule with apiGroups [\"\"], apiVersions [v1], resources [pods], operations [CREATE]",
            ),
            _ => return None,
        }
    };
    Some(policy.document.warning("spec.rules", message, remedy))
}
