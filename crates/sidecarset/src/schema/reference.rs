//! Tables of core/v1 that containers and volumes share.

use super::Kind::{Int32, Quantity, Text};
use super::{Schema, always, optional, pointer};

pub(super) static OBJECT_FIELD_SELECTOR: Schema =
    Schema::new("ObjectFieldSelector", &[optional("apiVersion", Text), always("fieldPath", Text)]);

pub(super) static RESOURCE_FIELD_SELECTOR: Schema = Schema::new(
    "ResourceFieldSelector",
    &[optional("containerName", Text), always("resource", Text), always("divisor", Quantity)],
);

pub(super) static KEY_TO_PATH: Schema =
    Schema::new("KeyToPath", &[always("key", Text), always("path", Text), pointer("mode", Int32)]);

pub(super) static LOCAL_OBJECT_REFERENCE: Schema = Schema::new("LocalObjectReference", &[optional("name", Text)]);
