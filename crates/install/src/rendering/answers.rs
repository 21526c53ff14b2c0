//! The parts of the module's work: the requests of each part, which of them the API server sends, and the part's
//! purpose.
//!
//! The metadata of each published artifact (`metadata.yml`, `artifacts/*/metadata.yml`) has the rules of its parts; tests
//! compare them.

pub mod running;

use pillion_identity::guards::trust_anchor::{API_SERVER, HOME, PUBLISHER};
use pillion_identity::names::{MERGED_PREFIX, ROOT_CA};
use pillion_kubernetes::paths;
use serde_json::{Value, json};

use self::running::Listed;

/// A group of requests that one Kubewarden policy or one webhook answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Part {
    /// Injects SidecarSets into Pods.
    Pods,
    /// The asserting twin: checks which container holds which token, after all mutating webhooks.
    Assert,
    /// Defaults, hashes and validates SidecarSets.
    Sidecarsets,
    /// Refuses requests that would steal or undo an identity.
    Guards,
    /// Refuses connections to running containers that hold an identity.
    Exec,
    /// Refuses other images for running containers that hold an identity.
    Images,
    /// Refuses requests for tokens of ServiceAccounts that only sidecars may have.
    TokenRequests,
    /// Checks Secrets that hold tokens.
    TokenSecrets,
    /// Checks the ServiceAccount settings of Gardener Shoots.
    Shoots,
}

/// The condition that leaves out mirror Pods.
const NO_MIRROR_POD: &str =
    "!has(object.metadata.annotations) || !('kubernetes.io/config.mirror' in object.metadata.annotations)";

/// Whether an expression of a match condition is the one that leaves out mirror Pods.
pub fn leaves_out_mirror_pods(expression: &str) -> bool {
    expression == NO_MIRROR_POD
}

/// A rule of a webhook or policy: the requests that it covers.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    group: &'static str,
    versions: &'static [&'static str],
    resources: &'static [&'static str],
    operations: &'static [&'static str],
}

/// A match condition, which the API server evaluates before it sends a request.
#[derive(Clone, Debug)]
pub struct Condition {
    /// The name: what the request has to be.
    pub name: &'static str,
    /// The expression, in CEL.
    pub expression: String,
    /// The reason for the condition.
    pub why: &'static str,
}

const fn rule(
    group: &'static str,
    versions: &'static [&'static str],
    resources: &'static [&'static str],
    operations: &'static [&'static str],
) -> Rule {
    Rule { group, versions, resources, operations }
}

const V1: &[&str] = &["v1"];
const KRUISE: &[&str] = &["v1alpha1", "v1beta1"];
const CREATE: &[&str] = &["CREATE"];
const UPDATE: &[&str] = &["UPDATE"];
const WRITE: &[&str] = &["CREATE", "UPDATE"];
const ALL: &[&str] = &["CREATE", "UPDATE", "DELETE"];

const PODS: &[Rule] = &[rule("", V1, &["pods"], CREATE)];
const SIDECAR_SETS: &[Rule] = &[rule("apps.kruise.io", KRUISE, &["sidecarsets"], WRITE)];
const GUARDED: &[Rule] = &[
    rule("", V1, &["pods/ephemeralcontainers"], UPDATE),
    rule("", V1, &["replicationcontrollers", "podtemplates"], WRITE),
    rule("apps", V1, &["deployments", "statefulsets", "daemonsets", "replicasets"], WRITE),
    rule("batch", V1, &["jobs", "cronjobs"], WRITE),
    // A rule may name resources that the cluster does not have.
    rule(
        "apps.kruise.io",
        KRUISE,
        &["clonesets", "statefulsets", "daemonsets", "broadcastjobs", "advancedcronjobs", "uniteddeployments"],
        WRITE,
    ),
    rule("", V1, &["serviceaccounts"], ALL),
    rule("rbac.authorization.k8s.io", V1, &["roles", "rolebindings"], ALL),
    rule("", V1, &["configmaps"], ALL),
    rule("", V1, &["services"], WRITE),
];
const CONNECT: &[&str] = &["CONNECT"];
const CONNECTIONS: &[Rule] = &[rule("", V1, &["pods/exec", "pods/attach", "pods/portforward"], CONNECT)];
const RUNNING: &[Rule] = &[rule("", V1, &["pods"], UPDATE)];
const REQUESTED_TOKENS: &[Rule] = &[rule("", V1, &["serviceaccounts/token"], CREATE)];
const SECRETS: &[Rule] = &[rule("", V1, &["secrets"], WRITE)];
const SHOOTS: &[Rule] = &[rule("core.gardener.cloud", &["v1beta1"], &["shoots"], WRITE)];

impl Rule {
    /// Returns the rule as an entry of `rules`.
    pub fn to_value(self) -> Value {
        json!({
            "apiGroups": [self.group],
            "apiVersions": self.versions,
            "resources": self.resources,
            "operations": self.operations,
        })
    }
}

impl Part {
    /// All parts, in rendering order.
    pub const ALL: [Self; 9] = [
        Self::Pods,
        Self::Assert,
        Self::Sidecarsets,
        Self::Guards,
        Self::Exec,
        Self::Images,
        Self::TokenRequests,
        Self::TokenSecrets,
        Self::Shoots,
    ];

    /// Returns the name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pods => "pods",
            Self::Assert => "assert",
            Self::Sidecarsets => "sidecarsets",
            Self::Guards => "guards",
            Self::Exec => "exec",
            Self::Images => "images",
            Self::TokenRequests => "token-requests",
            Self::TokenSecrets => "token-secrets",
            Self::Shoots => "shoots",
        }
    }

    /// Returns the rules of the requests.
    pub fn rules(self) -> &'static [Rule] {
        match self {
            Self::Pods | Self::Assert => PODS,
            Self::Sidecarsets => SIDECAR_SETS,
            Self::Guards => GUARDED,
            Self::Exec => CONNECTIONS,
            Self::Images => RUNNING,
            Self::TokenRequests => REQUESTED_TOKENS,
            Self::TokenSecrets => SECRETS,
            Self::Shoots => SHOOTS,
        }
    }

    /// Whether the part can change an object. The API server calls the other parts after all mutating webhooks.
    pub fn mutates(self) -> bool {
        matches!(self, Self::Pods | Self::Sidecarsets | Self::TokenSecrets)
    }

    /// Returns the path of the server for the requests.
    pub fn path(self) -> &'static str {
        match self {
            Self::Assert => paths::ASSERT,
            part if part.mutates() => paths::MUTATE,
            _ => paths::VALIDATE,
        }
    }

    /// Whether the part covers new Pods, outside the excluded namespaces.
    pub fn is_about_pods(self) -> bool {
        matches!(self, Self::Pods | Self::Assert)
    }

    /// Whether the part leaves the excluded namespaces alone.
    pub fn has_excluded_namespaces(self) -> bool {
        self.is_about_pods() || self.is_after_admission()
    }

    /// Whether the part is about the identities of Pods that run already.
    pub fn is_after_admission(self) -> bool {
        matches!(self, Self::Exec | Self::Images | Self::TokenRequests)
    }

    /// Returns the purpose, for a comment.
    pub fn about(self) -> &'static str {
        match self {
            Self::Pods => "Injects the SidecarSets of the settings into Pods, and gives them their ServiceAccounts.",
            Self::Assert => {
                "The asserting twin. Webhooks that run after the injecting policy can give the tokens of sidecars to \
                 other containers. This policy sees the Pod as it will be stored. It refuses the Pod if a container \
                 other than an owner has such a token, or if an owner lacks its token. It needs the same settings."
            }
            Self::Sidecarsets => {
                "Defaults, hashes and validates SidecarSets that people write into the cluster, and asks whether their \
                 authors hold the permissions that they grant. It looks for conflicts with the SidecarSets of the \
                 settings."
            }
            Self::Guards => {
                "Refuses requests that would steal or undo an identity: debug containers that could get a sidecar's \
                 token, templates that name a merged ServiceAccount, merged objects that the controller did not create, \
                 the deletion of ServiceAccounts in use, another authority or another Service in the place of the API \
                 server's. It changes nothing, so it can be a validating policy, which sees an object after all \
                 changes. It is a policy of its own, so that no Pod waits for it."
            }
            Self::Exec => {
                "Refuses exec, attach and port-forward to containers that hold the identity of a sidecar, unless the user \
                 may request tokens of its ServiceAccount. It reads the Pod of each such request. It is a policy of its own, \
                 since while no server answers, nobody opens a container; --without exec, or a group in \
                 serviceAccounts.guards.breakGlassGroups, is the way out."
            }
            Self::Images => {
                "Refuses other images for running containers that hold the identity of a sidecar. Other changes of Pods do \
                 not leave the API server."
            }
            Self::TokenRequests => {
                "Refuses requests for tokens of merged ServiceAccounts, and of those that the settings list, except those of \
                 nodes and of Pillion's controller, which do not leave the API server."
            }
            Self::TokenSecrets => {
                "Checks Secrets with tokens that do not expire. It refuses them if the ServiceAccount is merged or does \
                 not exist. It writes the ServiceAccount's UID into the others, so that they do not become tokens of a \
                 later ServiceAccount of the same name."
            }
            Self::Shoots => {
                "Rules for the ServiceAccount tokens of the clusters that Gardener runs. It changes nothing."
            }
        }
    }

    /// Returns the match conditions, with what the settings list. They need Kubernetes 1.28. Without them the API server
    /// sends more requests, and the answers are the same.
    pub fn conditions(self, listed: &Listed) -> Vec<Condition> {
        match self {
            Self::Pods | Self::Assert => vec![Condition {
                name: "is-no-mirror-pod",
                expression: NO_MIRROR_POD.to_owned(),
                why: "Mirror Pods show what a kubelet runs already. They are never changed, and need not wait.",
            }],
            Self::Guards => {
                vec![not_the_control_plane(), merged_object(), merged_template(), trust_anchor(), not_its_publisher()]
            }
            Self::Exec => running::of_connections(listed),
            Self::Images => running::of_images(listed),
            Self::TokenRequests => running::of_token_requests(listed),
            Self::TokenSecrets => vec![Condition {
                name: "is-a-token-secret",
                expression: "has(object.type) && object.type == 'kubernetes.io/service-account-token'".to_owned(),
                why: "No other Secret leaves the API server.",
            }],
            Self::Sidecarsets | Self::Shoots => Vec::new(),
        }
    }
}

fn not_the_control_plane() -> Condition {
    Condition {
        name: "is-not-deleted-by-the-control-plane",
        expression: "request.operation != 'DELETE' || !(request.userInfo.username in [\n  \
                     'system:serviceaccount:kube-system:namespace-controller',\n  \
                     'system:serviceaccount:kube-system:generic-garbage-collector',\n  \
                     'system:kube-controller-manager'\n])"
            .to_owned(),
        why: "The guards let these deletions through anyway. Without this condition, they would fail while no server \
              answers.",
    }
}

/// Covers merged objects. A validating webhook sees the name that the API server generated.
fn merged_object() -> Condition {
    Condition {
        name: "is-a-merged-object",
        expression: format!(
            "!(request.kind.kind in ['Role', 'RoleBinding'] ||\n  \
             request.kind.kind == 'ServiceAccount' && request.operation == 'CREATE') ||\n\
             (oldObject == null ? object : oldObject).metadata.name.startsWith('{MERGED_PREFIX}')"
        ),
        why: "Of Roles and RoleBindings, and of new ServiceAccounts, only merged ones matter. Without this condition, \
              the API server could not even write its own Roles while no server answers.",
    }
}

/// Covers templates with a merged ServiceAccount. The expression collects the specs of all templates of a workload, and
/// the patches of subsets. Fields that a kind lacks are absent, so one expression fits all kinds.
fn merged_template() -> Condition {
    let named = |field: &str| format!("(has(pod.{field}) && pod.{field}.startsWith('{MERGED_PREFIX}'))");
    Condition {
        name: "is-a-template-with-a-merged-account",
        expression: format!(
            "request.kind.kind in ['Pod', 'ServiceAccount', 'Role', 'RoleBinding', 'ConfigMap', 'Service'] || (\n  \
             (\n    \
             [object] + (has(object.spec) ? [object.spec] : []) +\n    \
             (has(object.spec) && has(object.spec.jobTemplate) && has(object.spec.jobTemplate.spec) ?\n      \
             [object.spec.jobTemplate.spec] : []) +\n    \
             (has(object.spec) && has(object.spec.template) ?\n      \
             ['jobTemplate', 'broadcastJobTemplate', 'statefulSetTemplate', 'advancedStatefulSetTemplate',\n       \
             'cloneSetTemplate', 'deploymentTemplate'].filter(key,\n        \
             key in object.spec.template && 'spec' in object.spec.template[key]\n      \
             ).map(key, object.spec.template[key].spec) : [])\n  \
             ).filter(of, has(of.template) && has(of.template.spec)).map(of, of.template.spec) +\n  \
             (has(object.spec) && has(object.spec.topology) && has(object.spec.topology.subsets) ?\n    \
             object.spec.topology.subsets.filter(of, has(of.patch) && has(of.patch.spec)).map(of, of.patch.spec) : [])\n\
             ).exists(pod,\n  {} ||\n  {})",
            named("serviceAccountName"),
            named("serviceAccount"),
        ),
        why: "Of workloads, only those whose Pods would run under a merged ServiceAccount. The list has whatever holds a \
              Pod template: a PodTemplate itself, most workloads, CronJobs, and OpenKruise's kinds that hold whole \
              workloads or patch theirs.",
    }
}

/// Covers the API server's authority in each namespace, and Services of the API server's name. A rule cannot select by
/// name.
fn trust_anchor() -> Condition {
    Condition {
        name: "is-a-trust-anchor",
        expression: format!(
            "!(request.kind.kind in ['ConfigMap', 'Service']) ||\n\
             (oldObject == null ? object : oldObject).metadata.name ==\n  \
             (request.kind.kind == 'ConfigMap' ? '{ROOT_CA}' : '{API_SERVER}') &&\n\
             !(request.kind.kind == 'Service' && request.namespace == '{HOME}')"
        ),
        why: "No other ConfigMap and no other Service leaves the API server.",
    }
}

fn not_its_publisher() -> Condition {
    Condition {
        name: "is-not-published-by-the-control-plane",
        expression: format!(
            "request.kind.kind != 'ConfigMap' || !(request.userInfo.username in [\n  \
             '{PUBLISHER}',\n  \
             'system:kube-controller-manager'\n])"
        ),
        why: "The guards let the publisher through anyway. Without this condition, Pods of new namespaces would wait for \
              the API server's authority while no server answers.",
    }
}
