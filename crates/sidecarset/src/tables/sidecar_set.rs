//! Tables of a `SidecarSet` in its two versions (API-6, API-8, API-9).

use super::Kind::{Any, Bool, Int32, Int64, IntOrString, Object, Objects, Text, TextMap};
use super::container::SIDECAR_CONTAINER;
use super::meta::{LABEL_SELECTOR, OBJECT_META};
use super::reference::LOCAL_OBJECT_REFERENCE;
use super::volume::VOLUME;
use super::{Table, always, optional, pointer};

/// A `SidecarSet` of apps.kruise.io/v1beta1 (API-2, the storage version).
pub static SIDECAR_SET_V1BETA1: Table = Table::new(
    "SidecarSet",
    &[
        optional("kind", Text),
        optional("apiVersion", Text),
        always("metadata", Object(&OBJECT_META)),
        always("spec", Object(&SPEC_V1BETA1)),
        always("status", Object(&STATUS)),
    ],
);

static SPEC_V1BETA1: Table = Table::new(
    "SidecarSetSpec",
    &[
        pointer("selector", Object(&LABEL_SELECTOR)),
        pointer("namespaceSelector", Object(&LABEL_SELECTOR)),
        optional("initContainers", Objects(&SIDECAR_CONTAINER)),
        optional("containers", Objects(&SIDECAR_CONTAINER)),
        optional("volumes", Objects(&VOLUME)),
        always("updateStrategy", Object(&UPDATE_STRATEGY)),
        always("injectionStrategy", Object(&INJECTION_STRATEGY)),
        optional("imagePullSecrets", Objects(&LOCAL_OBJECT_REFERENCE)),
        pointer("revisionHistoryLimit", Int32),
        optional("patchPodMetadata", Objects(&PATCH_POD_METADATA)),
        optional("customVersion", Text),
    ],
);

static UPDATE_STRATEGY: Table = Table::new(
    "SidecarSetUpdateStrategy",
    &[
        optional("type", Text),
        optional("paused", Bool),
        pointer("selector", Object(&LABEL_SELECTOR)),
        pointer("partition", IntOrString),
        pointer("maxUnavailable", IntOrString),
        pointer("priorityStrategy", Object(&UPDATE_PRIORITY_STRATEGY)),
        optional("scatterStrategy", Objects(&UPDATE_SCATTER_TERM)),
    ],
);

static UPDATE_PRIORITY_STRATEGY: Table = Table::new(
    "UpdatePriorityStrategy",
    &[
        optional("orderPriority", Objects(&UPDATE_PRIORITY_ORDER_TERM)),
        optional("weightPriority", Objects(&UPDATE_PRIORITY_WEIGHT_TERM)),
    ],
);

static UPDATE_PRIORITY_ORDER_TERM: Table = Table::new("UpdatePriorityOrderTerm", &[always("orderedKey", Text)]);

static UPDATE_PRIORITY_WEIGHT_TERM: Table = Table::new(
    "UpdatePriorityWeightTerm",
    &[always("weight", Int32), always("matchSelector", Object(&LABEL_SELECTOR))],
);

static UPDATE_SCATTER_TERM: Table = Table::new("UpdateScatterTerm", &[always("key", Text), always("value", Text)]);

static INJECTION_STRATEGY: Table = Table::new(
    "SidecarSetInjectionStrategy",
    &[optional("paused", Bool), pointer("revision", Object(&INJECT_REVISION))],
);

static INJECT_REVISION: Table = Table::new(
    "SidecarSetInjectRevision",
    &[pointer("customVersion", Text), pointer("revisionName", Text), optional("policy", Text)],
);

static PATCH_POD_METADATA: Table =
    Table::new("SidecarSetPatchPodMetadata", &[optional("annotations", TextMap), optional("patchPolicy", Text)]);

static STATUS: Table = Table::new(
    "SidecarSetStatus",
    &[
        optional("observedGeneration", Int64),
        always("matchedPods", Int32),
        always("updatedPods", Int32),
        always("readyPods", Int32),
        optional("updatedReadyPods", Int32),
        optional("latestRevision", Text),
        pointer("collisionCount", Int32),
        // Written by the controller; the reference has no such field.
        pointer("conditions", Any),
    ],
);

/// A `SidecarSet` of apps.kruise.io/v1alpha1: `spec.namespace` instead of `spec.customVersion`.
pub static SIDECAR_SET_V1ALPHA1: Table = Table::new(
    "SidecarSet",
    &[
        optional("kind", Text),
        optional("apiVersion", Text),
        always("metadata", Object(&OBJECT_META)),
        always("spec", Object(&SPEC_V1ALPHA1)),
        always("status", Object(&STATUS)),
    ],
);

static SPEC_V1ALPHA1: Table = Table::new(
    "SidecarSetSpec",
    &[
        pointer("selector", Object(&LABEL_SELECTOR)),
        optional("namespace", Text),
        pointer("namespaceSelector", Object(&LABEL_SELECTOR)),
        optional("initContainers", Objects(&SIDECAR_CONTAINER)),
        optional("containers", Objects(&SIDECAR_CONTAINER)),
        optional("volumes", Objects(&VOLUME)),
        always("updateStrategy", Object(&UPDATE_STRATEGY)),
        always("injectionStrategy", Object(&INJECTION_STRATEGY)),
        optional("imagePullSecrets", Objects(&LOCAL_OBJECT_REFERENCE)),
        pointer("revisionHistoryLimit", Int32),
        optional("patchPodMetadata", Objects(&PATCH_POD_METADATA)),
    ],
);

/// The fields of `spec` that a revision of a `SidecarSet` stores (REV-2). The other fields come from the current object
/// (INJ-6).
pub(crate) static REVISION_SPEC: Table = Table::new(
    "SidecarSetSpec",
    &[
        optional("containers", Objects(&SIDECAR_CONTAINER)),
        optional("imagePullSecrets", Objects(&LOCAL_OBJECT_REFERENCE)),
        optional("initContainers", Objects(&SIDECAR_CONTAINER)),
        optional("patchPodMetadata", Objects(&PATCH_POD_METADATA)),
        optional("volumes", Objects(&VOLUME)),
    ],
);
