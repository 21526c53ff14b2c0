//! Fields that the tables do not know.

use serde_json::Value;

use super::{Kind, Schema};
use crate::field::FieldPath;
use crate::json;

/// The paths of all fields of `value`, below `path`, that `schema` does not know, sorted by key in each object.
///
/// They are carried and injected, but the reference drops them, and no hash sees them.
pub fn unknown(value: &Value, schema: &Schema, path: &FieldPath) -> Vec<FieldPath> {
    let mut found = Vec::new();
    search(value, schema, path, &mut found);
    found
}

/// Recurses no deeper than the tables do.
fn search(value: &Value, schema: &Schema, path: &FieldPath, found: &mut Vec<FieldPath>) {
    let Some(object) = value.as_object() else { return };
    for (name, value) in object {
        let path = path.child(name);
        match schema.field(name).map(|field| field.kind) {
            None => found.push(path),
            Some(Kind::Object(schema)) => search(value, schema, &path, found),
            Some(Kind::Objects(schema)) => {
                for (index, item) in json::items(value, &[]).iter().enumerate() {
                    search(item, schema, &path.index(index), found);
                }
            }
            Some(_) => {}
        }
    }
}
