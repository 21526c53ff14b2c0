//! Tables of apimachinery types (metadata, selectors), and of the ControllerRevision.

use super::Kind::{Any, Bool, Int64, Object, Objects, Text, TextMap, Texts, Time};
use super::{Table, always, nullable, optional, pointer};

/// The `metadata` of every object.
pub static OBJECT_META: Table = Table::new(
    "ObjectMeta",
    &[
        optional("name", Text),
        optional("generateName", Text),
        optional("namespace", Text),
        optional("selfLink", Text),
        optional("uid", Text),
        optional("resourceVersion", Text),
        optional("generation", Int64),
        nullable("creationTimestamp", Time),
        pointer("deletionTimestamp", Time),
        pointer("deletionGracePeriodSeconds", Int64),
        optional("labels", TextMap),
        optional("annotations", TextMap),
        optional("ownerReferences", Objects(&OWNER_REFERENCE)),
        optional("finalizers", Texts),
        optional("managedFields", Objects(&MANAGED_FIELDS_ENTRY)),
    ],
);

static OWNER_REFERENCE: Table = Table::new(
    "OwnerReference",
    &[
        always("apiVersion", Text),
        always("kind", Text),
        always("name", Text),
        always("uid", Text),
        pointer("controller", Bool),
        pointer("blockOwnerDeletion", Bool),
    ],
);

static MANAGED_FIELDS_ENTRY: Table = Table::new(
    "ManagedFieldsEntry",
    &[
        optional("manager", Text),
        optional("operation", Text),
        optional("apiVersion", Text),
        pointer("time", Time),
        optional("fieldsType", Text),
        pointer("fieldsV1", Any),
        optional("subresource", Text),
    ],
);

/// A `metav1.LabelSelector`.
pub(crate) static LABEL_SELECTOR: Table = Table::new(
    "LabelSelector",
    &[optional("matchLabels", TextMap), optional("matchExpressions", Objects(&LABEL_SELECTOR_REQUIREMENT))],
);

static LABEL_SELECTOR_REQUIREMENT: Table =
    Table::new("LabelSelectorRequirement", &[always("key", Text), always("operator", Text), optional("values", Texts)]);

/// An apps/v1 ControllerRevision. Its `data` may be any JSON.
pub static CONTROLLER_REVISION: Table = Table::new(
    "ControllerRevision",
    &[
        optional("kind", Text),
        optional("apiVersion", Text),
        always("metadata", Object(&OBJECT_META)),
        always("data", Any),
        always("revision", Int64),
    ],
);
