//! Tables of a container.

use super::Kind::{Bool, Int32, Int64, IntOrString, Object, Objects, QuantityMap, Text, Texts};
use super::reference::{OBJECT_FIELD_SELECTOR, RESOURCE_FIELD_SELECTOR};
use super::security::SECURITY_CONTEXT;
use super::{Table, always, nullable, optional, pointer};

/// A `SidecarContainer`: a core/v1 Container and the fields that `SidecarSet`s add to it (API-7, API-16).
pub static SIDECAR_CONTAINER: Table = Table::new(
    "SidecarContainer",
    &[
        always("name", Text),
        optional("image", Text),
        optional("command", Texts),
        optional("args", Texts),
        optional("workingDir", Text),
        optional("ports", Objects(&CONTAINER_PORT)),
        optional("envFrom", Objects(&ENV_FROM_SOURCE)),
        optional("env", Objects(&ENV_VAR)),
        always("resources", Object(&RESOURCE_REQUIREMENTS)),
        optional("resizePolicy", Objects(&CONTAINER_RESIZE_POLICY)),
        pointer("restartPolicy", Text),
        optional("volumeMounts", Objects(&VOLUME_MOUNT)),
        optional("volumeDevices", Objects(&VOLUME_DEVICE)),
        pointer("livenessProbe", Object(&PROBE)),
        pointer("readinessProbe", Object(&PROBE)),
        pointer("startupProbe", Object(&PROBE)),
        pointer("lifecycle", Object(&LIFECYCLE)),
        optional("terminationMessagePath", Text),
        optional("terminationMessagePolicy", Text),
        optional("imagePullPolicy", Text),
        pointer("securityContext", Object(&SECURITY_CONTEXT)),
        optional("stdin", Bool),
        optional("stdinOnce", Bool),
        optional("tty", Bool),
        optional("podInjectPolicy", Text),
        always("upgradeStrategy", Object(&UPGRADE_STRATEGY)),
        always("shareVolumePolicy", Object(&SHARE_VOLUME_POLICY)),
        pointer("shareVolumeDevicePolicy", Object(&SHARE_VOLUME_POLICY)),
        optional("transferEnv", Objects(&TRANSFER_ENV_VAR)),
        pointer("resourcesPolicy", Object(&RESOURCES_POLICY)),
    ],
);

static CONTAINER_PORT: Table = Table::new(
    "ContainerPort",
    &[
        optional("name", Text),
        optional("hostPort", Int32),
        always("containerPort", Int32),
        optional("protocol", Text),
        optional("hostIP", Text),
    ],
);

static ENV_FROM_SOURCE: Table = Table::new(
    "EnvFromSource",
    &[
        optional("prefix", Text),
        pointer("configMapRef", Object(&ENV_SOURCE)),
        pointer("secretRef", Object(&ENV_SOURCE)),
    ],
);

static ENV_SOURCE: Table = Table::new("EnvSource", &[optional("name", Text), pointer("optional", Bool)]);

static ENV_VAR: Table = Table::new(
    "EnvVar",
    &[always("name", Text), optional("value", Text), pointer("valueFrom", Object(&ENV_VAR_SOURCE))],
);

static ENV_VAR_SOURCE: Table = Table::new(
    "EnvVarSource",
    &[
        pointer("fieldRef", Object(&OBJECT_FIELD_SELECTOR)),
        pointer("resourceFieldRef", Object(&RESOURCE_FIELD_SELECTOR)),
        pointer("configMapKeyRef", Object(&KEY_SELECTOR)),
        pointer("secretKeyRef", Object(&KEY_SELECTOR)),
    ],
);

static KEY_SELECTOR: Table =
    Table::new("KeySelector", &[optional("name", Text), always("key", Text), pointer("optional", Bool)]);

static RESOURCE_REQUIREMENTS: Table = Table::new(
    "ResourceRequirements",
    &[optional("limits", QuantityMap), optional("requests", QuantityMap), optional("claims", Objects(&RESOURCE_CLAIM))],
);

static RESOURCE_CLAIM: Table = Table::new("ResourceClaim", &[always("name", Text), optional("request", Text)]);

static CONTAINER_RESIZE_POLICY: Table =
    Table::new("ContainerResizePolicy", &[always("resourceName", Text), always("restartPolicy", Text)]);

/// A core/v1 `VolumeMount`.
pub static VOLUME_MOUNT: Table = Table::new(
    "VolumeMount",
    &[
        always("name", Text),
        optional("readOnly", Bool),
        pointer("recursiveReadOnly", Text),
        always("mountPath", Text),
        optional("subPath", Text),
        pointer("mountPropagation", Text),
        optional("subPathExpr", Text),
    ],
);

static VOLUME_DEVICE: Table = Table::new("VolumeDevice", &[always("name", Text), always("devicePath", Text)]);

static PROBE: Table = Table::new(
    "Probe",
    &[
        pointer("exec", Object(&EXEC_ACTION)),
        pointer("httpGet", Object(&HTTP_GET_ACTION)),
        pointer("tcpSocket", Object(&TCP_SOCKET_ACTION)),
        pointer("grpc", Object(&GRPC_ACTION)),
        optional("initialDelaySeconds", Int32),
        optional("timeoutSeconds", Int32),
        optional("periodSeconds", Int32),
        optional("successThreshold", Int32),
        optional("failureThreshold", Int32),
        pointer("terminationGracePeriodSeconds", Int64),
    ],
);

static EXEC_ACTION: Table = Table::new("ExecAction", &[optional("command", Texts)]);

static HTTP_GET_ACTION: Table = Table::new(
    "HTTPGetAction",
    &[
        optional("path", Text),
        always("port", IntOrString),
        optional("host", Text),
        optional("scheme", Text),
        optional("httpHeaders", Objects(&HTTP_HEADER)),
    ],
);

static HTTP_HEADER: Table = Table::new("HTTPHeader", &[always("name", Text), always("value", Text)]);

static TCP_SOCKET_ACTION: Table = Table::new("TCPSocketAction", &[always("port", IntOrString), optional("host", Text)]);

static GRPC_ACTION: Table = Table::new("GRPCAction", &[always("port", Int32), nullable("service", Text)]);

static LIFECYCLE: Table = Table::new(
    "Lifecycle",
    &[pointer("postStart", Object(&LIFECYCLE_HANDLER)), pointer("preStop", Object(&LIFECYCLE_HANDLER))],
);

static LIFECYCLE_HANDLER: Table = Table::new(
    "LifecycleHandler",
    &[
        pointer("exec", Object(&EXEC_ACTION)),
        pointer("httpGet", Object(&HTTP_GET_ACTION)),
        pointer("tcpSocket", Object(&TCP_SOCKET_ACTION)),
        pointer("sleep", Object(&SLEEP_ACTION)),
    ],
);

static SLEEP_ACTION: Table = Table::new("SleepAction", &[always("seconds", Int64)]);

static UPGRADE_STRATEGY: Table = Table::new(
    "SidecarContainerUpgradeStrategy",
    &[optional("upgradeType", Text), optional("hotUpgradeEmptyImage", Text)],
);

static SHARE_VOLUME_POLICY: Table = Table::new("ShareVolumePolicy", &[optional("type", Text)]);

static TRANSFER_ENV_VAR: Table = Table::new(
    "TransferEnvVar",
    &[
        optional("sourceContainerName", Text),
        pointer("sourceContainerNameFrom", Object(&SOURCE_CONTAINER_NAME_SOURCE)),
        optional("envName", Text),
        optional("envNames", Texts),
    ],
);

static SOURCE_CONTAINER_NAME_SOURCE: Table =
    Table::new("SourceContainerNameSource", &[pointer("fieldRef", Object(&OBJECT_FIELD_SELECTOR))]);

static RESOURCES_POLICY: Table = Table::new(
    "ResourcesPolicy",
    &[
        always("targetContainersMode", Text),
        optional("targetContainersNameRegex", Text),
        always("resourcesExpr", Object(&RESOURCES_EXPR)),
    ],
);

static RESOURCES_EXPR: Table = Table::new(
    "ResourcesExpr",
    &[pointer("limits", Object(&RESOURCE_EXPR)), pointer("requests", Object(&RESOURCE_EXPR))],
);

static RESOURCE_EXPR: Table = Table::new("ResourceExpr", &[optional("cpu", Text), optional("memory", Text)]);
