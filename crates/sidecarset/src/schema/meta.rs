//! Tables of apimachinery: metadata, selectors; and the ControllerRevision.

use super::Kind::{Any, Bool, Int64, Object, Objects, Text, TextMap, Texts, Time};
use super::{Schema, always, nullable, optional, pointer};

/// `metadata` of every object.
pub static OBJECT_META: Schema = Schema::new(
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

static OWNER_REFERENCE: Schema = Schema::new(
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

static MANAGED_FIELDS_ENTRY: Schema = Schema::new(
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
pub static LABEL_SELECTOR: Schema = Schema::new(
    "LabelSelector",
    &[optional("matchLabels", TextMap), optional("matchExpressions", Objects(&LABEL_SELECTOR_REQUIREMENT))],
);

static LABEL_SELECTOR_REQUIREMENT: Schema = Schema::new(
    "LabelSelectorRequirement",
    &[always("key", Text), always("operator", Text), optional("values", Texts)],
);

/// An apps/v1 ControllerRevision. Its `data` is whatever the owner put there.
pub static CONTROLLER_REVISION: Schema = Schema::new(
    "ControllerRevision",
    &[
        optional("kind", Text),
        optional("apiVersion", Text),
        always("metadata", Object(&OBJECT_META)),
        always("data", Any),
        always("revision", Int64),
    ],
);
