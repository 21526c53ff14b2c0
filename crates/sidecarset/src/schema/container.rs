//! Tables of a container.

use super::Kind::{Bool, Int32, Int64, IntOrString, Object, Objects, QuantityMap, Text, Texts};
use super::reference::{OBJECT_FIELD_SELECTOR, RESOURCE_FIELD_SELECTOR};
use super::security::SECURITY_CONTEXT;
use super::{Schema, always, nullable, optional, pointer};

/// A `SidecarContainer`: a core/v1 Container and the fields that `SidecarSet`s add to it (section 1.3, Appendix B).
pub static SIDECAR_CONTAINER: Schema = Schema::new(
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

static CONTAINER_PORT: Schema = Schema::new(
    "ContainerPort",
    &[
        optional("name", Text),
        optional("hostPort", Int32),
        always("containerPort", Int32),
        optional("protocol", Text),
        optional("hostIP", Text),
    ],
);

static ENV_FROM_SOURCE: Schema = Schema::new(
    "EnvFromSource",
    &[
        optional("prefix", Text),
        pointer("configMapRef", Object(&ENV_SOURCE)),
        pointer("secretRef", Object(&ENV_SOURCE)),
    ],
);

static ENV_SOURCE: Schema = Schema::new("EnvSource", &[optional("name", Text), pointer("optional", Bool)]);

static ENV_VAR: Schema = Schema::new(
    "EnvVar",
    &[always("name", Text), optional("value", Text), pointer("valueFrom", Object(&ENV_VAR_SOURCE))],
);

static ENV_VAR_SOURCE: Schema = Schema::new(
    "EnvVarSource",
    &[
        pointer("fieldRef", Object(&OBJECT_FIELD_SELECTOR)),
        pointer("resourceFieldRef", Object(&RESOURCE_FIELD_SELECTOR)),
        pointer("configMapKeyRef", Object(&KEY_SELECTOR)),
        pointer("secretKeyRef", Object(&KEY_SELECTOR)),
    ],
);

static KEY_SELECTOR: Schema =
    Schema::new("KeySelector", &[optional("name", Text), always("key", Text), pointer("optional", Bool)]);

static RESOURCE_REQUIREMENTS: Schema = Schema::new(
    "ResourceRequirements",
    &[optional("limits", QuantityMap), optional("requests", QuantityMap), optional("claims", Objects(&RESOURCE_CLAIM))],
);

static RESOURCE_CLAIM: Schema = Schema::new("ResourceClaim", &[always("name", Text), optional("request", Text)]);

static CONTAINER_RESIZE_POLICY: Schema =
    Schema::new("ContainerResizePolicy", &[always("resourceName", Text), always("restartPolicy", Text)]);

/// A core/v1 `VolumeMount`.
pub static VOLUME_MOUNT: Schema = Schema::new(
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

static VOLUME_DEVICE: Schema = Schema::new("VolumeDevice", &[always("name", Text), always("devicePath", Text)]);

static PROBE: Schema = Schema::new(
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

static EXEC_ACTION: Schema = Schema::new("ExecAction", &[optional("command", Texts)]);

static HTTP_GET_ACTION: Schema = Schema::new(
    "HTTPGetAction",
    &[
        optional("path", Text),
        always("port", IntOrString),
        optional("host", Text),
        optional("scheme", Text),
        optional("httpHeaders", Objects(&HTTP_HEADER)),
    ],
);

static HTTP_HEADER: Schema = Schema::new("HTTPHeader", &[always("name", Text), always("value", Text)]);

static TCP_SOCKET_ACTION: Schema =
    Schema::new("TCPSocketAction", &[always("port", IntOrString), optional("host", Text)]);

static GRPC_ACTION: Schema = Schema::new("GRPCAction", &[always("port", Int32), nullable("service", Text)]);

static LIFECYCLE: Schema = Schema::new(
    "Lifecycle",
    &[pointer("postStart", Object(&LIFECYCLE_HANDLER)), pointer("preStop", Object(&LIFECYCLE_HANDLER))],
);

static LIFECYCLE_HANDLER: Schema = Schema::new(
    "LifecycleHandler",
    &[
        pointer("exec", Object(&EXEC_ACTION)),
        pointer("httpGet", Object(&HTTP_GET_ACTION)),
        pointer("tcpSocket", Object(&TCP_SOCKET_ACTION)),
        pointer("sleep", Object(&SLEEP_ACTION)),
    ],
);

static SLEEP_ACTION: Schema = Schema::new("SleepAction", &[always("seconds", Int64)]);

static UPGRADE_STRATEGY: Schema = Schema::new(
    "SidecarContainerUpgradeStrategy",
    &[optional("upgradeType", Text), optional("hotUpgradeEmptyImage", Text)],
);

static SHARE_VOLUME_POLICY: Schema = Schema::new("ShareVolumePolicy", &[optional("type", Text)]);

static TRANSFER_ENV_VAR: Schema = Schema::new(
    "TransferEnvVar",
    &[
        optional("sourceContainerName", Text),
        pointer("sourceContainerNameFrom", Object(&SOURCE_CONTAINER_NAME_SOURCE)),
        optional("envName", Text),
        optional("envNames", Texts),
    ],
);

static SOURCE_CONTAINER_NAME_SOURCE: Schema =
    Schema::new("SourceContainerNameSource", &[pointer("fieldRef", Object(&OBJECT_FIELD_SELECTOR))]);

static RESOURCES_POLICY: Schema = Schema::new(
    "ResourcesPolicy",
    &[
        always("targetContainersMode", Text),
        optional("targetContainersNameRegex", Text),
        always("resourcesExpr", Object(&RESOURCES_EXPR)),
    ],
);

static RESOURCES_EXPR: Schema = Schema::new(
    "ResourcesExpr",
    &[pointer("limits", Object(&RESOURCE_EXPR)), pointer("requests", Object(&RESOURCE_EXPR))],
);

static RESOURCE_EXPR: Schema = Schema::new("ResourceExpr", &[optional("cpu", Text), optional("memory", Text)]);
