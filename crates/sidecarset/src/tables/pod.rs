//! The table of a Pod. It contains only the fields that injection reads or edits.

use super::Kind::{Object, Objects, Text, TextMap};
use super::{Table, optional};

/// A core/v1 Pod.
pub static POD: Table = Table::new(
    "Pod",
    &[
        optional("metadata", Object(&METADATA)),
        optional("spec", Object(&SPEC)),
        optional("status", Object(&Table::new("PodStatus", &[optional("phase", Text)]))),
    ],
);

static METADATA: Table = Table::new(
    "ObjectMeta",
    &[
        optional("name", Text),
        optional("generateName", Text),
        optional("namespace", Text),
        optional("labels", TextMap),
        optional("annotations", TextMap),
    ],
);

static SPEC: Table = Table::new(
    "PodSpec",
    &[
        optional("containers", Objects(&CONTAINER)),
        optional("initContainers", Objects(&CONTAINER)),
        optional("volumes", Objects(&NAMED)),
        optional("imagePullSecrets", Objects(&NAMED)),
    ],
);

static NAMED: Table = Table::new("LocalObjectReference", &[optional("name", Text)]);

static CONTAINER: Table = Table::new(
    "Container",
    &[
        optional("name", Text),
        optional("restartPolicy", Text),
        optional("env", Objects(&VARIABLE)),
        optional("volumeMounts", Objects(&MOUNT)),
        optional("volumeDevices", Objects(&DEVICE)),
        optional("resources", Object(&RESOURCES)),
    ],
);

static VARIABLE: Table = Table::new("EnvVar", &[optional("name", Text), optional("value", Text)]);

static MOUNT: Table =
    Table::new("VolumeMount", &[optional("name", Text), optional("mountPath", Text), optional("subPathExpr", Text)]);

static DEVICE: Table = Table::new("VolumeDevice", &[optional("name", Text), optional("devicePath", Text)]);

static RESOURCES: Table =
    Table::new("ResourceRequirements", &[optional("limits", Object(&AMOUNTS)), optional("requests", Object(&AMOUNTS))]);

/// Empty, because amounts are parsed where they are used.
static AMOUNTS: Table = Table::new("ResourceList", &[]);
