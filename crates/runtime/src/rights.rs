//! The rights that controllers need at the API server. `pillion manifest` renders roles from them.

/// The place in which a right holds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// Every namespace, and cluster-scoped objects.
    Cluster,
    /// Every namespace, in a role of its own: reading every Secret gives every identity of the cluster.
    EverySecret,
    /// The namespace of the bundle (`settings.bundleRef`).
    Bundle,
    /// The namespace of OpenKruise's objects (`settings.systemNamespace`).
    System,
    /// Each namespace in which isolated sidecars have tokens.
    Tokens,
    /// `kube-system`.
    KubeSystem,
}

/// A right of a controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Right {
    /// The place in which it holds.
    pub scope: Scope,
    /// The API group; empty for the core group.
    pub group: &'static str,
    /// The resources, with subresources as `pods/status`.
    pub resources: &'static [&'static str],
    /// The verbs, as in RBAC.
    pub verbs: &'static [&'static str],
    /// The names of the objects; empty for all.
    pub names: &'static [&'static str],
    /// Why the controller needs it: a sentence for people, or empty if the right before it says so.
    pub why: &'static str,
}

impl Right {
    /// Returns a right to all objects of these resources.
    pub const fn new(
        scope: Scope,
        group: &'static str,
        resources: &'static [&'static str],
        verbs: &'static [&'static str],
        why: &'static str,
    ) -> Self {
        Self { scope, group, resources, verbs, names: &[], why }
    }

    /// Restricts the right to objects with these names.
    #[must_use]
    pub const fn named(self, names: &'static [&'static str]) -> Self {
        Self { names, ..self }
    }
}

/// What the rights of a controller depend on.
#[derive(Clone, Copy, Debug)]
pub struct Situation {
    /// Whether the whitelist of `patchPodMetadata` is a ConfigMap, and not in the settings.
    pub reads_whitelist: bool,
}

/// The verbs to observe objects.
pub const WATCH: &[&str] = &["list", "watch"];
/// The verbs to observe objects and to read single ones.
pub const READ: &[&str] = &["get", "list", "watch"];
/// The verbs for objects that a controller creates, changes and deletes.
pub const KEEP: &[&str] = &["get", "list", "watch", "create", "patch", "delete"];
/// The API group of Roles and RoleBindings.
pub const RBAC: &str = "rbac.authorization.k8s.io";

/// Returns the right to observe Namespaces.
pub fn namespaces() -> Right {
    let why =
        "Which namespaces there are, which of them are being deleted, and the labels that namespaceSelectors select.";
    Right::new(Scope::Cluster, "", &["namespaces"], WATCH, why)
}

/// Returns the rights to observe SidecarSets and to write conditions into their status.
pub fn sidecar_sets() -> Vec<Right> {
    let why = "What to know about a SidecarSet, as a condition: a permission that cannot be granted, a bundle that it \
               is not in.";
    vec![
        Right::new(Scope::Cluster, "apps.kruise.io", &["sidecarsets"], WATCH, "The SidecarSets."),
        Right::new(Scope::Cluster, "apps.kruise.io", &["sidecarsets/status"], &["patch"], why),
    ]
}

/// Returns the rights to observe Pods and the workloads that create them.
pub fn subjects() -> Vec<Right> {
    let pods = "Which identities Pods need; of each only labels, account, volumes with Secrets and state are kept.";
    let workloads = "Which identities Pods will need: merged accounts have to be there before the first one.";
    let apps = &["daemonsets", "deployments", "replicasets", "statefulsets"];
    vec![
        Right::new(Scope::Cluster, "", &["pods"], WATCH, pods),
        Right::new(Scope::Cluster, "apps", apps, WATCH, workloads),
        Right::new(Scope::Cluster, "batch", &["cronjobs", "jobs"], WATCH, ""),
        Right::new(Scope::Cluster, "apps.kruise.io", &["clonesets"], WATCH, ""),
    ]
}

/// Returns the right to observe ServiceAccounts.
pub fn accounts() -> Right {
    let why = "Whether accounts are there, and their UIDs. A ServiceAccount holds no token.";
    Right::new(Scope::Cluster, "", &["serviceaccounts"], READ, why)
}
