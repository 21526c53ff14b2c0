//! Search for fields that the tables do not know.

use pillion_kubernetes::field::{ERRORS_MAX, FieldPath};
use pillion_kubernetes::json;
use serde_json::Value;

use super::{Kind, Table};

/// A field that no table has.
#[derive(Clone, Debug)]
pub struct Unknown<'a> {
    /// Its path.
    pub path: String,
    /// Its key.
    pub key: &'a str,
    /// The fields that the object around it may have.
    pub owner: &'static Table,
}

/// Returns the fields of `value`, below `path`, that `table` does not know, sorted by key in each object. Returns at most
/// a thousand, like lists of errors (E18).
///
/// Unknown fields are kept and injected, but the reference drops them, and they do not affect hashes.
pub fn unknown<'a>(value: &'a Value, table: &'static Table, path: &FieldPath<'_>) -> Vec<Unknown<'a>> {
    let mut found = Vec::new();
    search(value, table, path, &mut found);
    found
}

/// Recurses only as deep as the tables do. Builds the text of a path only for unknown fields: an object may have a
/// hundred thousand known ones (E18).
fn search<'a>(value: &'a Value, owner: &'static Table, place: &FieldPath<'_>, found: &mut Vec<Unknown<'a>>) {
    let Some(object) = value.as_object() else { return };
    for (name, value) in object {
        if found.len() >= ERRORS_MAX {
            return;
        }
        let place = place.child(name);
        match owner.field(name).map(|field| field.kind) {
            None => found.push(Unknown { path: place.to_string(), key: name, owner }),
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
        assert!(found.iter().all(|field| field.path.starts_with("spec.volumes[0].new-")));
    }
}
