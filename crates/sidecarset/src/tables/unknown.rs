//! Search for fields that the tables do not know.

use pillion_kubernetes::field::{ERRORS_MAX, FieldPath};
use pillion_kubernetes::json;
use serde_json::Value;

use super::{Kind, Table};

/// Returns the paths of the fields of `value`, below `path`, that `table` does not know, sorted by key in each object.
/// Returns at most a thousand, like lists of errors (E18).
///
/// Unknown fields are kept and injected, but the reference drops them, and they do not affect hashes.
pub fn unknown(value: &Value, table: &Table, path: &FieldPath<'_>) -> Vec<String> {
    let mut found = Vec::new();
    search(value, table, path, &mut found);
    found
}

/// Recurses only as deep as the tables do. Builds the text of a path only for unknown fields: an object may have a
/// hundred thousand known ones (E18).
fn search(value: &Value, table: &Table, place: &FieldPath<'_>, found: &mut Vec<String>) {
    let Some(object) = value.as_object() else { return };
    for (name, value) in object {
        if found.len() >= ERRORS_MAX {
            return;
        }
        let place = place.child(name);
        match table.field(name).map(|field| field.kind) {
            None => found.push(place.to_string()),
            Some(Kind::Object(table)) => search(value, table, &place, found),
            Some(Kind::Objects(table)) => {
                for (index, item) in json::items(value, &[]).iter().enumerate() {
                    search(item, table, &place.index(index), found);
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
    use crate::tables::SIDECAR_SET_V1BETA1;

    #[test]
    fn e18_a_thousand_unknown_fields_are_told() {
        let volume: json::Object = (0..20_000).map(|index| (format!("new-{index}"), json!(1))).collect();
        let object = json!({"spec": {"volumes": [volume, {"name": "a", "newer": 1}]}});
        let found = unknown(&object, &SIDECAR_SET_V1BETA1, &FieldPath::default());
        assert_eq!(found.len(), ERRORS_MAX);
        assert!(found.iter().all(|path| path.as_str().starts_with("spec.volumes[0].new-")));
    }
}
