//! Descriptions of the fields of a `SidecarSet`. Fields of core/v1 that a `SidecarSet` treats as any Pod does are
//! described if that helps to write one; Kubernetes documents the rest.

/// The documentation of a field, besides its type.
pub(crate) struct Field {
    owner: &'static str,
    name: &'static str,
    /// The description.
    pub(crate) text: &'static str,
    /// The default, as JSON.
    pub(crate) default: Option<&'static str>,
    /// The allowed values.
    pub(crate) values: Values,
}

/// The texts that a field accepts.
#[derive(Clone, Copy)]
pub(crate) enum Values {
    /// Any text.
    Any,
    /// These texts. Any other text is an error.
    Only(&'static [&'static str]),
    /// These texts have a meaning. Any other text is passed on or ignored.
    Known(&'static [&'static str]),
    /// These texts, in upper or lower case. Any other text is an error.
    AnyCase(&'static [&'static str]),
}

/// The values of `podInjectPolicy`, which are checked in plain containers only.
pub(crate) const PLACES: [&str; 2] = ["BeforeAppContainer", "AfterAppContainer"];
/// The values of `shareVolumePolicy.type`, which are checked in plain containers only.
pub(crate) const SHARE: [&str; 2] = ["enabled", "disabled"];
const UPGRADES: [&str; 2] = ["ColdUpgrade", "HotUpgrade"];
const MODES: [&str; 3] = ["SidecarsOnly", "Isolate", "Pod"];
const BEHAVIORS: [&str; 2] = ["Refuse", "Merge"];
const PATCHES: [&str; 3] = ["Retain", "Overwrite", "MergePatchJson"];

/// Returns the description of a type; empty if its name is enough.
pub(crate) fn of_type(name: &str) -> &'static str {
    TYPES.iter().find(|(known, _)| *known == name).map_or("", |(_, text)| text)
}

/// Returns the documentation of a field.
pub(crate) fn of_field(owner: &str, name: &str) -> Option<&'static Field> {
    FIELDS.iter().find(|field| field.owner == owner && field.name == name)
}

/// Returns the documented fields of a type, in the order of the table.
pub(crate) fn described(owner: &str) -> impl Iterator<Item = &'static Field> {
    FIELDS.iter().filter(move |field| field.owner == owner)
}

impl Field {
    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the values that have a meaning.
    pub(crate) fn known(&self) -> &'static [&'static str] {
        match self.values {
            Values::Any => &[],
            Values::Only(values) | Values::Known(values) | Values::AnyCase(values) => values,
        }
    }

    const fn default(mut self, json: &'static str) -> Self {
        self.default = Some(json);
        self
    }

    const fn values(mut self, values: Values) -> Self {
        self.values = values;
        self
    }
}

const fn field(owner: &'static str, name: &'static str, text: &'static str) -> Field {
    Field { owner, name, text, default: None, values: Values::Any }
}

/// The types that a `SidecarSet` adds to those of Kubernetes, in the order of the reference.
pub(crate) const TYPES: [(&str, &str); 17] = [
    ("SidecarSet", "Which Pods get which sidecars."),
    ("SidecarSetSpec", "What is injected, and into which Pods."),
    ("SidecarContainer", "A core/v1 Container, and how it is put into a Pod."),
    ("SidecarContainerUpgradeStrategy", "How a container is replaced by its next version."),
    ("ShareVolumePolicy", "Whether a sidecar gets the volumes of the Pod's own containers."),
    ("TransferEnvVar", "Variables that are copied from a container of the Pod."),
    ("SourceContainerNameSource", "The field of the Pod that contains the name of the source container."),
    ("ResourcesPolicy", "Resources that are computed from those of the Pod's own containers."),
    ("ResourcesExpr", "The expressions of limits and of requests."),
    ("ResourceExpr", "Expressions of one kind of resources."),
    ("SidecarSetInjectionStrategy", "Whether, and in which revision, it is injected."),
    ("SidecarSetInjectRevision", "A stored revision that is injected instead of the latest version."),
    ("SidecarSetPatchPodMetadata", "Annotations that Pods get."),
    (
        "SidecarSetUpdateStrategy",
        "How running Pods are updated. The policy only checks it; the controller `sidecarset-rollout` updates them.",
    ),
    ("LabelSelector", "Labels that an object has to have: all of the requirements."),
    (POLICY_RULE, "Permissions: every combination of the groups, resources, names and verbs, as in a Role."),
    (TOKEN, "A token of the ServiceAccount for one service other than the API server."),
];

/// The type of an entry of `serviceAccountPermissions`, which Kubernetes defines in its RBAC group.
pub(crate) const POLICY_RULE: &str = "PolicyRule";
/// The type of an entry of `serviceAccountTokens`.
pub(crate) const TOKEN: &str = "ServiceAccountToken";

const FIELDS: [Field; 77] = [
    field("SidecarSet", "apiVersion", "`apps.kruise.io/v1beta1` or `apps.kruise.io/v1alpha1`."),
    field("SidecarSet", "kind", "`SidecarSet`."),
    field("SidecarSet", "metadata", "Its `name` is letters, digits and dashes, at most 63; it is in no namespace."),
    field("SidecarSet", "spec", "What is injected, and into which Pods."),
    field("SidecarSet", "status", "Written by a controller; `latestRevision` is recorded in Pods."),
    field("SidecarSetSpec", "selector", "The labels of the Pods that get it. Required, not empty."),
    field(
        "SidecarSetSpec",
        "namespaceSelector",
        "The labels of the namespaces whose Pods get it; absent: all namespaces. Not empty.",
    ),
    field(
        "SidecarSetSpec",
        "namespace",
        "The one namespace whose Pods get it; v1alpha1 only. It displaces `namespaceSelector`.",
    ),
    field(
        "SidecarSetSpec",
        "initContainers",
        "Init containers, and native sidecars where `restartPolicy` is `Always`.",
    ),
    field("SidecarSetSpec", "containers", "Containers. There must be one here or among the init containers."),
    field("SidecarSetSpec", "volumes", "Volumes that its containers may use; those that none uses are not injected."),
    field("SidecarSetSpec", "updateStrategy", "How the controller `sidecarset-rollout` updates running Pods."),
    field("SidecarSetSpec", "injectionStrategy", "Whether, and in which revision, it is injected."),
    field("SidecarSetSpec", "imagePullSecrets", "Secrets that are added to the Pod's own."),
    field("SidecarSetSpec", "revisionHistoryLimit", "How many old revisions a controller keeps.").default("10"),
    field("SidecarSetSpec", "patchPodMetadata", "Annotations that Pods get."),
    field(
        "SidecarSetSpec",
        "customVersion",
        "A version that revisions are found by; v1beta1 only, in v1alpha1 it is the label `apps.kruise.io/sidecarset-custom-version`.",
    ),
    field(
        "SidecarSetSpec",
        "serviceAccountName",
        "The ServiceAccount, in the namespace of each Pod, that its containers get a token of. Not `default`.",
    ),
    field(
        "SidecarSetSpec",
        "serviceAccountMode",
        "`SidecarsOnly`: the Pod runs under it, its other containers get no token. `Isolate`: the Pod keeps its own, \
         the token comes from a Secret. `Pod`: the Pod runs under it, all containers with it.",
    )
    .default("\"SidecarsOnly\"")
    .values(Values::AnyCase(&MODES)),
    field(
        "SidecarSetSpec",
        "behaviorWhenServiceAccountInjection",
        "Where SidecarSets want different accounts for one Pod: `Refuse` the Pod, or `Merge` their permissions into \
         one account if all of them say so.",
    )
    .default("\"Refuse\"")
    .values(Values::AnyCase(&BEHAVIORS)),
    field(
        "SidecarSetSpec",
        "serviceAccountPermissions",
        "What a merged account is granted for this SidecarSet: a list of PolicyRules. Only used with `Merge`.",
    ),
    field(
        "SidecarSetSpec",
        "serviceAccountTokens",
        "Tokens of the ServiceAccount for services other than the API server, such as a cloud or Vault: at most 16, each \
         in a file beside the token of the API server, in this SidecarSet's containers alone. A merged account has none.",
    ),
    field(
        "SidecarSetSpec",
        "serviceAccountPartners",
        "Names of the SidecarSets that this one trusts, at most 100. It takes effect if they name this one, too.",
    ),
    field("SidecarContainer", "name", "An RFC 1123 label that no other container of the Pod has."),
    field("SidecarContainer", "image", "The image. Required."),
    field(
        "SidecarContainer",
        "imagePullPolicy",
        "When the image is pulled. Absent: `Always` for the tag `latest`, else `IfNotPresent`.",
    )
    .values(Values::Only(&["Always", "IfNotPresent", "Never"])),
    field(
        "SidecarContainer",
        "restartPolicy",
        "`Always` makes an init container a native sidecar. Not for plain containers.",
    )
    .values(Values::Known(&["Always"])),
    field("SidecarContainer", "terminationMessagePath", "The file from which the termination message is read.")
        .default("\"/dev/termination-log\""),
    field("SidecarContainer", "terminationMessagePolicy", "Whether the log replaces a missing termination message.")
        .default("\"File\"")
        .values(Values::Only(&["File", "FallbackToLogsOnError"])),
    field("SidecarContainer", "env", "Variables. `IS_INJECTED` is added; `transferEnv` adds more."),
    field("SidecarContainer", "volumeMounts", "Mounts of volumes of this SidecarSet."),
    field("SidecarContainer", "volumeDevices", "Block devices of volumes of this SidecarSet."),
    field("SidecarContainer", "resources", "Requests and limits. Not together with `resourcesPolicy`."),
    field(
        "SidecarContainer",
        "podInjectPolicy",
        "Whether it is placed before or after the Pod's own containers. Absent: before; init containers after.",
    )
    .values(Values::Known(&PLACES)),
    field("SidecarContainer", "upgradeStrategy", "How it is replaced by its next version."),
    field("SidecarContainer", "shareVolumePolicy", "Whether it gets the volume mounts of the Pod's own containers."),
    field("SidecarContainer", "shareVolumeDevicePolicy", "The same for block devices."),
    field("SidecarContainer", "transferEnv", "Variables that are copied from containers of the Pod."),
    field("SidecarContainer", "resourcesPolicy", "Resources that are computed from those of the Pod's own containers."),
    field("SidecarContainerUpgradeStrategy", "upgradeType", "`HotUpgrade` injects a pair, of which one works.")
        .default("\"ColdUpgrade\"")
        .values(Values::Known(&UPGRADES)),
    field(
        "SidecarContainerUpgradeStrategy",
        "hotUpgradeEmptyImage",
        "The image of the container that waits; needed for `HotUpgrade`.",
    ),
    field("ShareVolumePolicy", "type", "`enabled` or `disabled`.").values(Values::Known(&SHARE)),
    field("TransferEnvVar", "sourceContainerName", "The container of the Pod."),
    field("TransferEnvVar", "sourceContainerNameFrom", "The field of the Pod that contains its name."),
    field("TransferEnvVar", "envName", "One variable."),
    field("TransferEnvVar", "envNames", "Several variables."),
    field(
        "SourceContainerNameSource",
        "fieldRef",
        "`metadata.name`, `metadata.labels['<key>']` or `metadata.annotations['<key>']`. Required.",
    ),
    field(
        "ResourcesPolicy",
        "targetContainersMode",
        "Whether amounts of the target containers are added up or the largest counts. Required.",
    )
    .values(Values::Only(&["sum", "max"])),
    field(
        "ResourcesPolicy",
        "targetContainersNameRegex",
        "The target containers: a regular expression (RE2), matched anywhere in the name.",
    )
    .default("\".*\""),
    field("ResourcesPolicy", "resourcesExpr", "The expressions; at least one."),
    field("ResourcesExpr", "limits", "Limits."),
    field("ResourcesExpr", "requests", "Requests."),
    field("ResourceExpr", "cpu", "An expression of the targets' `cpu`, like `max(cpu*50%, 100m)`."),
    field("ResourceExpr", "memory", "An expression of the targets' `memory`, like `memory*10% + 64Mi`."),
    field("SidecarSetInjectionStrategy", "paused", "New Pods do not get it.").default("false"),
    field(
        "SidecarSetInjectionStrategy",
        "revision",
        "A stored revision that is injected instead of the latest version.",
    ),
    field(
        "SidecarSetInjectRevision",
        "revisionName",
        "The name of a ControllerRevision; it wins over `customVersion`.",
    ),
    field(
        "SidecarSetInjectRevision",
        "customVersion",
        "The custom version of a revision in `controllerRevisions`; with `bundleRef`, of one that the controller finds.",
    ),
    field(
        "SidecarSetInjectRevision",
        "policy",
        "`Partial` draws between the revision and the latest version, by `partition`. Without a name and a version, the \
         revision is the one before the latest.",
    )
    .default("\"Always\"")
    .values(Values::Only(&["Always", "Partial"])),
    field("SidecarSetPatchPodMetadata", "annotations", "The annotations. Required, not empty."),
    field(
        "SidecarSetPatchPodMetadata",
        "patchPolicy",
        "What happens to one that the Pod has: kept, overwritten, or merged as JSON.",
    )
    .default("\"Retain\"")
    .values(Values::Known(&PATCHES)),
    field(
        "SidecarSetUpdateStrategy",
        "type",
        "`NotUpdate` leaves running Pods alone; needed for native sidecars and canaries.",
    )
    .default("\"RollingUpdate\"")
    .values(Values::Only(&["RollingUpdate", "NotUpdate"])),
    field("SidecarSetUpdateStrategy", "paused", "Running Pods are not updated.").default("false"),
    field("SidecarSetUpdateStrategy", "selector", "The Pods that are updated; not together with `partition`."),
    field("SidecarSetUpdateStrategy", "partition", "How many Pods, or what share of them, keep the old version.")
        .default("0"),
    field("SidecarSetUpdateStrategy", "maxUnavailable", "How many Pods, or what share of them, may be unavailable.")
        .default("1"),
    field("SidecarSetUpdateStrategy", "priorityStrategy", "Which Pods are updated first."),
    field("SidecarSetUpdateStrategy", "scatterStrategy", "Labels whose Pods are spread over the update."),
    field("LabelSelector", "matchLabels", "Labels with these values."),
    field(
        "LabelSelector",
        "matchExpressions",
        "Requirements with the operators `In`, `NotIn`, `Exists` and `DoesNotExist`.",
    ),
    field(POLICY_RULE, "apiGroups", "API groups; the core group is `\"\"`. Required."),
    field(POLICY_RULE, "resources", "Resources, and subresources as in `pods/log`. Required."),
    field(POLICY_RULE, "verbs", "Verbs. Required."),
    field(POLICY_RULE, "resourceNames", "The only objects that it is for; absent: all."),
    field(
        TOKEN,
        "audience",
        "The service that accepts the token, as the token's `aud` names it. `serviceAccounts.allowedAudiences` in the \
         settings must allow it. Required.",
    ),
    field(
        TOKEN,
        "path",
        "The name of the file in `/var/run/secrets/kubernetes.io/serviceaccount`: not `token`, `ca.crt` or `namespace`. \
         Required.",
    ),
    field(
        TOKEN,
        "expirationSeconds",
        "The lifetime that is asked for, at least 600. The API server may shorten it. The token is renewed in time.",
    )
    .default("3600"),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use pillion_identity::{audience, declared};
    use pillion_sidecarset::tables::{Kind, SIDECAR_SET_V1ALPHA1, SIDECAR_SET_V1BETA1, Table};

    use super::*;

    fn collect(schema: &Table, into: &mut BTreeSet<(&'static str, &'static str)>) {
        for field in schema.fields {
            into.insert((schema.name, field.name));
            if let Kind::Object(schema) | Kind::Objects(schema) = field.kind {
                collect(schema, into);
            }
        }
    }

    /// Returns all fields that the policy reads: those in the tables, and those that no hash contains.
    fn known() -> BTreeSet<(&'static str, &'static str)> {
        let mut known = BTreeSet::new();
        collect(&SIDECAR_SET_V1BETA1, &mut known);
        collect(&SIDECAR_SET_V1ALPHA1, &mut known);
        known.extend(declared::FIELDS.map(|field| ("SidecarSetSpec", field.name)));
        known.extend(["apiGroups", "resources", "verbs", "resourceNames"].map(|name| (POLICY_RULE, name)));
        known.extend(audience::FIELDS.map(|name| (TOKEN, name)));
        known
    }

    #[test]
    fn only_fields_that_there_are_are_described_and_each_once() {
        let known = known();
        let mut seen = BTreeSet::new();
        for field in &FIELDS {
            assert!(known.contains(&(field.owner, field.name)), "{}.{}", field.owner, field.name);
            assert!(seen.insert((field.owner, field.name)), "{}.{} twice", field.owner, field.name);
            assert!(field.text.ends_with('.'), "{}", field.text);
        }
    }

    #[test]
    fn every_field_of_a_sidecar_sets_own_types_is_described() {
        let known = known();
        let own = TYPES.iter().map(|(name, _)| *name).filter(|name| *name != "SidecarContainer");
        for owner in own {
            for (_, name) in known.iter().filter(|(known, _)| *known == owner) {
                assert!(of_field(owner, name).is_some(), "{owner}.{name}");
            }
        }
    }
}
