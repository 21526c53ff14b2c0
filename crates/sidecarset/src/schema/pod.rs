//! The table of a Pod: what injection reads of it or edits, and no more.

use super::Kind::{Object, Objects, Text, TextMap};
use super::{Schema, optional};

/// A core/v1 Pod.
pub static POD: Schema = Schema::new(
    "Pod",
    &[
        optional("metadata", Object(&METADATA)),
        optional("spec", Object(&SPEC)),
        optional("status", Object(&Schema::new("PodStatus", &[optional("phase", Text)]))),
    ],
);

static METADATA: Schema = Schema::new(
    "ObjectMeta",
    &[
        optional("name", Text),
        optional("generateName", Text),
        optional("namespace", Text),
        optional("labels", TextMap),
        optional("annotations", TextMap),
    ],
);

static SPEC: Schema = Schema::new(
    "PodSpec",
    &[
        optional("containers", Objects(&CONTAINER)),
        optional("initContainers", Objects(&CONTAINER)),
        optional("volumes", Objects(&NAMED)),
        optional("imagePullSecrets", Objects(&NAMED)),
    ],
);

static NAMED: Schema = Schema::new("LocalObjectReference", &[optional("name", Text)]);

static CONTAINER: Schema = Schema::new(
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

static VARIABLE: Schema = Schema::new("EnvVar", &[optional("name", Text), optional("value", Text)]);

static MOUNT: Schema =
    Schema::new("VolumeMount", &[optional("name", Text), optional("mountPath", Text), optional("subPathExpr", Text)]);

static DEVICE: Schema = Schema::new("VolumeDevice", &[optional("name", Text), optional("devicePath", Text)]);

static RESOURCES: Schema = Schema::new(
    "ResourceRequirements",
    &[optional("limits", Object(&AMOUNTS)), optional("requests", Object(&AMOUNTS))],
);

/// Amounts are read where they are needed.
static AMOUNTS: Schema = Schema::new("ResourceList", &[]);
