//! Tables of an ephemeral volume's claim.

use super::Kind::{Object, QuantityMap, Text, Texts};
use super::meta::{LABEL_SELECTOR, OBJECT_META};
use super::{Table, always, nullable, optional, pointer};

pub(super) static EPHEMERAL_VOLUME_SOURCE: Table =
    Table::new("EphemeralVolumeSource", &[pointer("volumeClaimTemplate", Object(&PERSISTENT_VOLUME_CLAIM_TEMPLATE))]);

static PERSISTENT_VOLUME_CLAIM_TEMPLATE: Table = Table::new(
    "PersistentVolumeClaimTemplate",
    &[always("metadata", Object(&OBJECT_META)), always("spec", Object(&PERSISTENT_VOLUME_CLAIM_SPEC))],
);

static PERSISTENT_VOLUME_CLAIM_SPEC: Table = Table::new(
    "PersistentVolumeClaimSpec",
    &[
        optional("accessModes", Texts),
        pointer("selector", Object(&LABEL_SELECTOR)),
        always("resources", Object(&VOLUME_RESOURCE_REQUIREMENTS)),
        optional("volumeName", Text),
        pointer("storageClassName", Text),
        pointer("volumeMode", Text),
        pointer("dataSource", Object(&TYPED_LOCAL_OBJECT_REFERENCE)),
        pointer("dataSourceRef", Object(&TYPED_OBJECT_REFERENCE)),
        pointer("volumeAttributesClassName", Text),
    ],
);

static VOLUME_RESOURCE_REQUIREMENTS: Table =
    Table::new("VolumeResourceRequirements", &[optional("limits", QuantityMap), optional("requests", QuantityMap)]);

static TYPED_LOCAL_OBJECT_REFERENCE: Table =
    Table::new("TypedLocalObjectReference", &[nullable("apiGroup", Text), always("kind", Text), always("name", Text)]);

static TYPED_OBJECT_REFERENCE: Table = Table::new(
    "TypedObjectReference",
    &[nullable("apiGroup", Text), always("kind", Text), always("name", Text), pointer("namespace", Text)],
);
