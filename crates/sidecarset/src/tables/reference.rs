//! Tables of core/v1 types that containers and volumes share.

use super::Kind::{Int32, Quantity, Text};
use super::{Table, always, optional, pointer};

pub(super) static OBJECT_FIELD_SELECTOR: Table =
    Table::new("ObjectFieldSelector", &[optional("apiVersion", Text), always("fieldPath", Text)]);

pub(super) static RESOURCE_FIELD_SELECTOR: Table = Table::new(
    "ResourceFieldSelector",
    &[optional("containerName", Text), always("resource", Text), always("divisor", Quantity)],
);

pub(super) static KEY_TO_PATH: Table =
    Table::new("KeyToPath", &[always("key", Text), always("path", Text), pointer("mode", Int32)]);

pub(super) static LOCAL_OBJECT_REFERENCE: Table = Table::new("LocalObjectReference", &[optional("name", Text)]);
