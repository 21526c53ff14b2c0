//! Reads JSON into types and reports every error with its path.

use pillion_kubernetes::field::{Cause, FieldError, FieldPath};
use serde::Deserialize;
use serde_json::Value;
use serde_path_to_error::{Path, Segment};

use super::strict::Strict;

/// The most errors that are reported.
const ERRORS_MAX: usize = 16;

/// Reads a value. If that fails, adds errors and returns `T`'s default.
///
/// serde stops at the first error. To find further errors, the failing member is removed from `value`, together with
/// everything that was read before it, and the rest is read. Nothing is read twice (E18).
pub(super) fn read<T>(value: &mut Value, errors: &mut Vec<FieldError>) -> T
where
    T: for<'de> Deserialize<'de> + Default,
{
    let mut taken: Vec<Path> = Vec::new();
    for _ in 0..ERRORS_MAX {
        let error = match serde_path_to_error::deserialize::<_, T>(Strict(value)) {
            Ok(read) => return read,
            Err(error) => error,
        };
        let path = error.path().clone();
        let error = error.into_inner().at(&FieldPath::new(&field_path(&path)));
        let is_taken = error.cause == Cause::Required && taken.iter().any(|taken| is_in(taken, &path));
        if !is_taken {
            errors.push(error);
        }
        if !take_out(value, &path) {
            break;
        }
        taken.push(path);
    }
    T::default()
}

/// Whether `path` is below `object`. An object from which a member was removed must not be reported as lacking it.
fn is_in(path: &Path, object: &Path) -> bool {
    let [path, object] = [path, object].map(|path| path.iter().map(Segment::to_string).collect::<Vec<_>>());
    path.len() > object.len() && path.starts_with(&object)
}

/// Removes the member at a path, together with all members before it on every level. If the path leads into a list,
/// removes the whole list. Returns whether that was possible.
fn take_out(value: &mut Value, path: &Path) -> bool {
    let mut keys = path
        .iter()
        .map_while(|segment| match segment {
            Segment::Map { key } => Some(key.as_str()),
            _ => None,
        })
        .peekable();
    let mut next = Some(value);
    while let Some(key) = keys.next() {
        let Some(members) = next.and_then(Value::as_object_mut) else { return false };
        let is_last = keys.peek().is_none();
        members.retain(|member, _| member.as_str() > key || (member == key && !is_last));
        if is_last {
            return true;
        }
        next = members.get_mut(key);
    }
    false
}

fn field_path(path: &Path) -> String {
    path.iter().fold(String::new(), |path, segment| match segment {
        Segment::Seq { index } => FieldPath::new(&path).index(*index).to_string(),
        Segment::Map { key } => FieldPath::new(&path).child(key).to_string(),
        Segment::Enum { .. } | Segment::Unknown => path,
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[derive(Debug, Default, PartialEq, Eq, Deserialize)]
    #[serde(default, deny_unknown_fields, expecting = "an object")]
    struct Example {
        flag: bool,
        choice: Choice,
        inner: Option<Inner>,
        list: Vec<String>,
    }

    #[derive(Debug, Default, PartialEq, Eq, Deserialize)]
    enum Choice {
        #[default]
        One,
        Other,
    }

    #[derive(Debug, PartialEq, Eq, Deserialize)]
    #[serde(deny_unknown_fields, expecting = "an object")]
    struct Inner {
        name: String,
    }

    #[rstest]
    #[case::a_list_for_a_struct(json!([]), &["Invalid value: must be an object, found a list"])]
    #[case::misspelt(json!({"flags": true}), &["flags: Unknown field: did you mean \"flag\"?"])]
    #[case::unknown(json!({"colour": 1}), &["colour: Unknown field: known here: flag, choice, inner, list"])]
    #[case::unknown_below(json!({"inner": {"name": "a", "nme": 1}}), &["inner.nme: Unknown field: did you mean \"name\"?"])]
    #[case::missing(json!({"inner": {}}), &["inner.name: Required value: must be set"])]
    #[case::variant(
        json!({"choice": "one"}), &["choice: Unsupported value: \"one\": supported values: \"One\", \"Other\""]
    )]
    #[case::an_object_for_an_enumeration(
        json!({"choice": {"Other": null}}), &["choice: Invalid value: must be a string, found an object"]
    )]
    #[case::a_list_for_a_struct_below(json!({"inner": ["a"]}), &["inner: Invalid value: must be an object, found a list"])]
    #[case::a_wrong_member_is_not_a_missing_one(
        json!({"inner": {"name": 1}}), &["inner.name: Invalid value: must be a string, found a number"]
    )]
    #[case::what_was_read_before_an_error_is_not_missing(
        json!({"inner": {"name": "a", "size": 1}, "flag": true, "list": 1}),
        &["inner.size: Unknown field: known here: name", "list: Invalid value: must be a list, found a number"]
    )]
    #[case::variant_of_another_type(json!({"choice": 1}), &["choice: Invalid value: must be a string, found a number"])]
    #[case::boolean(json!({"flag": "true"}), &["flag: Invalid value: must be true or false, found a string"])]
    #[case::number(json!({"flag": 1.50}), &["flag: Invalid value: must be true or false, found a number"])]
    #[case::item(json!({"list": ["a", true]}), &["list[1]: Invalid value: must be a string, found a boolean"])]
    #[case::null_in_a_list(json!({"list": [null]}), &["list[0]: Invalid value: must be a string, found null"])]
    #[case::several(
        json!({"list": {}, "flag": "no", "choice": 1.5}),
        &[
            "choice: Invalid value: must be a string, found a number",
            "flag: Invalid value: must be true or false, found a string",
            "list: Invalid value: must be a list, found an object",
        ]
    )]
    fn errors_have_their_path_and_say_what_to_write(#[case] mut value: Value, #[case] expected: &[&str]) {
        let mut errors = Vec::new();
        read::<Example>(&mut value, &mut errors);
        assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn e18_errors_have_a_limit() {
        let mut value = (0..100).map(|index| (format!("key{index}"), json!(1))).collect();
        let mut errors = Vec::new();
        read::<Example>(&mut value, &mut errors);
        assert_eq!(errors.len(), ERRORS_MAX);
    }

    #[rstest]
    #[case::nothing(json!({}))]
    #[case::nulls(json!({"flag": null, "choice": null, "inner": null, "list": null}))]
    fn null_is_absent(#[case] mut value: Value) {
        let mut errors = Vec::new();
        assert_eq!((read::<Example>(&mut value, &mut errors), errors), (Example::default(), Vec::new()));
    }

    #[test]
    fn what_is_written_is_read() {
        let mut value = json!({"flag": true, "choice": "Other", "inner": {"name": "a"}, "list": ["b"]});
        let mut errors = Vec::new();
        let expected = Example {
            flag: true,
            choice: Choice::Other,
            inner: Some(Inner { name: "a".into() }),
            list: vec!["b".into()],
        };
        assert_eq!((read::<Example>(&mut value, &mut errors), errors), (expected, Vec::new()));
    }
}
