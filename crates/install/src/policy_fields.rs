//! The fields of Kubewarden's policies, according to their definitions. `pillion check` and the schema of policy files
//! share them.

use std::ops::RangeInclusive;

/// The kinds of policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    is_group: bool,
    is_cluster_wide: bool,
}

impl Kind {
    /// Returns the kind with this name. A misspelt name is classified by the words in it.
    pub fn parse(kind: &str) -> Self {
        let kind = kind.to_lowercase();
        Self { is_group: kind.contains("group"), is_cluster_wide: kind.contains("cluster") }
    }
}

/// The kinds that have a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    All,
    /// Kinds with one module.
    Single,
    /// Kinds with several modules.
    Group,
    /// Cluster-wide kinds.
    Cluster,
    /// The cluster-wide kind with one module.
    SingleCluster,
}

/// The values that a field may have.
#[derive(Clone, Copy, Debug)]
pub enum Shape {
    /// Anything: settings are checked elsewhere.
    Any,
    /// A text.
    Text,
    /// `true` or `false`.
    Flag,
    /// A number of seconds within [`TIMEOUT`].
    Seconds,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// A map of texts.
    Map,
    /// An object with these fields.
    Object(&'static [Field]),
    /// A map of objects.
    Members(&'static [Field]),
    /// A list of such values.
    List(&'static Shape),
    /// A list of objects whose names are unique, at most [`CONDITIONS_MAX`].
    Conditions(&'static Shape),
}

/// A field of an object.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// The name.
    pub name: &'static str,
    /// The values.
    pub shape: Shape,
    owner: Owner,
}

/// The range of timeouts, in seconds.
pub const TIMEOUT: RangeInclusive<i64> = 2..=30;
/// The maximum number of `matchConditions`.
pub const CONDITIONS_MAX: usize = 64;

const TEXTS: Shape = Shape::List(&Shape::Text);

const fn all(name: &'static str, shape: Shape) -> Field {
    Field { name, shape, owner: Owner::All }
}

const fn only_in(owner: Owner, name: &'static str, shape: Shape) -> Field {
    Field { name, shape, owner }
}

impl Field {
    /// Whether a kind has the field.
    pub fn is_in(&self, kind: Kind) -> bool {
        match self.owner {
            Owner::All => true,
            Owner::Single => !kind.is_group,
            Owner::Group => kind.is_group,
            Owner::Cluster => kind.is_cluster_wide,
            Owner::SingleCluster => !kind.is_group && kind.is_cluster_wide,
        }
    }

    /// Returns the kinds that have the field, for messages.
    pub fn owners(&self) -> &'static str {
        match self.owner {
            Owner::All => "a policy or a policy group",
            Owner::Single => "a policy with one module, and a member of a policy group,",
            Owner::Group => "a policy group",
            Owner::Cluster => "a ClusterAdmissionPolicy or a ClusterAdmissionPolicyGroup",
            Owner::SingleCluster => "a ClusterAdmissionPolicy, and a member of a ClusterAdmissionPolicyGroup,",
        }
    }
}

/// The fields of `spec`.
pub const SPEC: &[Field] = &[
    all("policyServer", Shape::Text),
    all("mode", Shape::OneOf(&["protect", "monitor"])),
    only_in(Owner::Single, "module", Shape::Text),
    only_in(Owner::Single, "settings", Shape::Any),
    all("rules", Shape::List(&Shape::Object(RULE))),
    all("failurePolicy", Shape::OneOf(&["Fail", "Ignore"])),
    only_in(Owner::Single, "mutating", Shape::Flag),
    all("backgroundAudit", Shape::Flag),
    all("matchPolicy", Shape::OneOf(&["Exact", "Equivalent"])),
    all("matchConditions", Shape::Conditions(&Shape::List(&Shape::Object(CONDITION)))),
    all("objectSelector", Shape::Object(SELECTOR)),
    only_in(Owner::Cluster, "namespaceSelector", Shape::Object(SELECTOR)),
    all("sideEffects", Shape::OneOf(&["None", "NoneOnDryRun"])),
    all("timeoutSeconds", Shape::Seconds),
    only_in(Owner::Single, "timeoutEvalSeconds", Shape::Seconds),
    only_in(Owner::SingleCluster, "contextAwareResources", Shape::List(&Shape::Object(RESOURCE))),
    only_in(Owner::Cluster, "allowInsideAdmissionControllerNamespace", Shape::Flag),
    all("message", Shape::Text),
    only_in(Owner::Group, "expression", Shape::Text),
    only_in(Owner::Group, "policies", Shape::Members(MEMBER)),
];

/// The fields of a member of a group.
const MEMBER: &[Field] = &[
    all("module", Shape::Text),
    all("settings", Shape::Any),
    all("timeoutEvalSeconds", Shape::Seconds),
    only_in(Owner::Cluster, "contextAwareResources", Shape::List(&Shape::Object(RESOURCE))),
];

/// The fields of an item of `rules`.
const RULE: &[Field] = &[
    all("apiGroups", TEXTS),
    all("apiVersions", TEXTS),
    all("operations", Shape::List(&Shape::OneOf(&["CREATE", "UPDATE", "DELETE", "CONNECT", "*"]))),
    all("resources", TEXTS),
    all("scope", Shape::OneOf(&["Cluster", "Namespaced", "*"])),
];

const CONDITION: &[Field] = &[all("name", Shape::Text), all("expression", Shape::Text)];

const RESOURCE: &[Field] = &[all("apiVersion", Shape::Text), all("kind", Shape::Text)];

const SELECTOR: &[Field] =
    &[all("matchLabels", Shape::Map), all("matchExpressions", Shape::List(&Shape::Object(REQUIREMENT)))];

const REQUIREMENT: &[Field] = &[
    all("key", Shape::Text),
    all("operator", Shape::OneOf(&["In", "NotIn", "Exists", "DoesNotExist"])),
    all("values", TEXTS),
];
