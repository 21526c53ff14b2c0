//! The features of Kubernetes that not every supported version has.

use pillion_kubernetes::version::KubernetesVersion;

/// A feature of Kubernetes.
#[derive(Debug, PartialEq, Eq)]
pub struct Feature {
    /// The name in messages, a plural.
    pub name: &'static str,
    /// The first version that has it, behind the feature gate.
    pub since: KubernetesVersion,
    /// The first version that has it without more ado; `None` if there is none yet.
    pub by_default: Option<KubernetesVersion>,
    /// The feature gate of the API server and the kubelet.
    pub gate: &'static str,
    /// The fields of core/v1 that came with it.
    pub fields: &'static [NewField],
    /// What happens in a cluster without it.
    pub without: &'static str,
}

/// A field of a type of core/v1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewField {
    /// The type.
    pub owner: &'static str,
    /// The key.
    pub key: &'static str,
}

impl Feature {
    /// Returns the feature that a field of a SidecarSet belongs to. `owner` is the name of the field's table.
    pub fn of(owner: &str, key: &str) -> Option<&'static Self> {
        // A container of a SidecarSet has the fields of a Container.
        let owner = if owner == "SidecarContainer" { "Container" } else { owner };
        let has = |field: &NewField| field.owner == owner && field.key == key;
        FEATURES.into_iter().find(|feature| feature.fields.iter().any(has))
    }

    /// Returns the versions that have the feature, for messages.
    pub(super) fn needed(&self) -> String {
        let Self { since, gate, .. } = self;
        match self.by_default {
            Some(version) => format!("{version}, or {since} with the feature gate {gate}"),
            None => format!("{since} with the feature gate {gate}"),
        }
    }
}

/// All features.
pub const FEATURES: [&Feature; 10] = [
    &NATIVE_SIDECARS,
    &RESIZE,
    &RESTART_RULES,
    &ENV_FILES,
    &POD_CERTIFICATES,
    &FILE_OWNERS,
    &EMPTY_DIR_MODES,
    &HTTP2_PROBES,
    &GRPC_TLS_PROBES,
    &BIND_MOUNT_OPTIONS,
];

/// What happens to a field that the API server does not know, or whose feature gate is off.
const DROPPED: &str = "the API server drops the field, or refuses the Pods";

pub(super) static NATIVE_SIDECARS: Feature = Feature {
    name: "native sidecars",
    since: KubernetesVersion(28),
    by_default: Some(KubernetesVersion(29)),
    gate: "SidecarContainers",
    fields: &[],
    without: "Pods never start, since they wait for the end of each init container",
};

pub(super) static RESIZE: Feature = Feature {
    name: "resizes of running Pods",
    since: KubernetesVersion(32),
    by_default: Some(KubernetesVersion(33)),
    gate: "InPlacePodVerticalScaling",
    fields: &[],
    without: "rollouts resize nothing",
};

pub(super) static RESTART_RULES: Feature = Feature {
    name: "restart policies of containers",
    since: KubernetesVersion(34),
    by_default: Some(KubernetesVersion(35)),
    gate: "ContainerRestartRules",
    fields: &[field("Container", "restartPolicyRules")],
    without: DROPPED,
};

static ENV_FILES: Feature = Feature {
    name: "variables from files",
    since: KubernetesVersion(34),
    by_default: Some(KubernetesVersion(35)),
    gate: "EnvFiles",
    fields: &[field("EnvVarSource", "fileKeyRef")],
    without: DROPPED,
};

static POD_CERTIFICATES: Feature = Feature {
    name: "certificates of Pods",
    since: KubernetesVersion(34),
    by_default: Some(KubernetesVersion(37)),
    gate: "PodCertificateRequest",
    fields: &[field("VolumeProjection", "podCertificate")],
    without: DROPPED,
};

static FILE_OWNERS: Feature = Feature {
    name: "owners of files in volumes",
    since: KubernetesVersion(37),
    by_default: None,
    gate: "AtomicWriteVolumeUserFields",
    fields: &[
        field("ServiceAccountTokenProjection", "user"),
        field("ClusterTrustBundleProjection", "user"),
        field("KeyToPath", "user"),
        field("DownwardAPIVolumeFile", "user"),
        field("ProjectedVolumeSource", "defaultUser"),
        field("SecretVolumeSource", "defaultUser"),
        field("ConfigMapVolumeSource", "defaultUser"),
        field("DownwardAPIVolumeSource", "defaultUser"),
    ],
    without: DROPPED,
};

static EMPTY_DIR_MODES: Feature = Feature {
    name: "modes of emptyDir volumes",
    since: KubernetesVersion(37),
    by_default: None,
    gate: "EmptyDirVolumeMode",
    fields: &[field("EmptyDirVolumeSource", "mode")],
    without: DROPPED,
};

static HTTP2_PROBES: Feature = Feature {
    name: "probes with HTTP/2",
    since: KubernetesVersion(37),
    by_default: None,
    gate: "H2CContainerProbe",
    fields: &[field("HTTPGetAction", "protocol")],
    without: DROPPED,
};

static GRPC_TLS_PROBES: Feature = Feature {
    name: "gRPC probes with TLS",
    since: KubernetesVersion(37),
    by_default: None,
    gate: "GRPCContainerProbeTLS",
    fields: &[field("GRPCAction", "mode")],
    without: DROPPED,
};

static BIND_MOUNT_OPTIONS: Feature = Feature {
    name: "options of bind mounts",
    since: KubernetesVersion(37),
    by_default: None,
    gate: "VolumeBindMountOptions",
    fields: &[field("VolumeMount", "bindMountOptions")],
    without: DROPPED,
};

const fn field(owner: &'static str, key: &'static str) -> NewField {
    NewField { owner, key }
}
