//! Fields that the tables do not know.

use pillion_kubernetes::field::{ERRORS_MAX, FieldPath};
use pillion_kubernetes::json;
use serde_json::Value;

use super::{Kind, Schema};

/// The paths of the fields of `value`, below `path`, that `schema` does not know, sorted by key in each object: the first
/// thousand, as of errors (E18).
///
/// They are carried and injected, but the reference drops them, and no hash sees them.
pub fn unknown(value: &Value, schema: &Schema, path: &FieldPath<'_>) -> Vec<String> {
    let mut found = Vec::new();
    search(value, schema, path, &mut found);
    found
}

/// Recurses no deeper than the tables do. Builds the text of a path for unknown fields only: an object may have a hundred
/// thousand known ones (E18).
fn search(value: &Value, schema: &Schema, place: &FieldPath<'_>, found: &mut Vec<String>) {
    let Some(object) = value.as_object() else { return };
    for (name, value) in object {
        if found.len() >= ERRORS_MAX {
            return;
        }
        let place = place.child(name);
        match schema.field(name).map(|field| field.kind) {
            None => found.push(place.to_string()),
            Some(Kind::Object(schema)) => search(value, schema, &place, found),
            Some(Kind::Objects(schema)) => {
                for (index, item) in json::items(value, &[]).iter().enumerate() {
                    search(item, schema, &place.index(index), found);
                }
            }
            Some(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::schema::SIDECAR_SET_V1BETA1;

    #[test]
    fn e18_a_thousand_unknown_fields_are_told() {
        let volume: json::Object = (0..20_000).map(|index| (format!("new-{index}"), json!(1))).collect();
        let object = json!({"spec": {"volumes": [volume, {"name": "a", "newer": 1}]}});
        let found = unknown(&object, &SIDECAR_SET_V1BETA1, &FieldPath::default());
        assert_eq!(found.len(), ERRORS_MAX);
        assert!(found.iter().all(|path| path.as_str().starts_with("spec.volumes[0].new-")));
    }
}
