//! The list of partners in a SidecarSet (IDF-7), as a field or as an annotation.

use pillion_kubernetes::field::{Cause, ERRORS_MAX, FieldError, FieldPath};
use pillion_kubernetes::json;
use pillion_kubernetes::name_validation;
use pillion_kubernetes::unique;
use serde_json::Value;

/// The most partners of one SidecarSet (IDF-7).
pub const PARTNERS_MAX: usize = 100;

/// Returns the list in the annotation that stands for the field: a JSON list, or names separated by commas. `None` if
/// it begins as a JSON list and is none.
pub(crate) fn of_annotation(text: &str) -> Option<Value> {
    let text = text.trim();
    if text.starts_with('[') {
        return json::parse(text.as_bytes()).ok();
    }
    // One name too many is enough for the error, however long the annotation is (E18).
    Some(text.split(',').take(PARTNERS_MAX + 1).map(str::trim).collect())
}

/// Reads the list of partners at `at` of the SidecarSet `set`.
///
/// # Errors
/// IDF-7: a value that is no list of names, too many names, a name that no SidecarSet can have, a name that is there
/// twice, and the set's own name.
pub(crate) fn read(partners: &Value, at: &FieldPath<'_>, set: &str) -> Result<Vec<String>, Vec<FieldError>> {
    let Some(list) = partners.as_array() else {
        return Err(vec![FieldError::wrong_type(at, "a list of names of SidecarSets", partners)]);
    };
    if list.len() > PARTNERS_MAX {
        let detail = format!("a SidecarSet may name at most {PARTNERS_MAX} partners; remove some");
        return Err(vec![FieldError::new(at, Cause::TooMany, detail)]);
    }
    let is_first = unique::are_first(list.iter().map(|name| name.as_str().unwrap_or_default()));
    let (mut names, mut errors) = (Vec::new(), Vec::new());
    for (index, (value, is_first)) in list.iter().zip(is_first).enumerate() {
        let at = at.index(index);
        let Some(name) = value.as_str() else {
            errors.push(FieldError::wrong_type(at, "the name of a SidecarSet", value));
            continue;
        };
        if let Some(detail) = name_validation::dns_subdomain(name) {
            errors.push(FieldError::invalid(at, name, detail));
        } else if !is_first {
            errors.push(FieldError::duplicate(at, name));
        } else if name == set {
            errors.push(FieldError::invalid(at, name, "this is the SidecarSet itself; name other SidecarSets"));
        } else {
            names.push(name.to_owned());
        }
    }
    errors.truncate(ERRORS_MAX);
    if errors.is_empty() { Ok(names) } else { Err(errors) }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn parsed(list: &Value) -> Result<Vec<String>, Vec<String>> {
        let shown = |errors: Vec<FieldError>| errors.iter().map(ToString::to_string).collect();
        read(list, &FieldPath::new("p"), "own").map_err(shown)
    }

    #[test]
    fn idf7_names_are_read_in_their_order() {
        assert_eq!(parsed(&json!(["logs", "a.b"])).unwrap(), ["logs", "a.b"]);
    }

    #[rstest]
    #[case::no_list(json!("logs"), "p: ")]
    #[case::no_text(json!(["logs", 1]), "p[1]: ")]
    #[case::no_name(json!(["Logs"]), "p[0]: Invalid value: \"Logs\"")]
    #[case::empty_name(json!([""]), "p[0]: Invalid value: \"\"")]
    #[case::twice(json!(["a", "b", "a"]), "p[2]: Duplicate value: \"a\"")]
    #[case::itself(json!(["own"]), "p[0]: Invalid value: \"own\"")]
    fn idf7_other_lists_are_refused(#[case] list: Value, #[case] begins: &str) {
        let errors = parsed(&list).unwrap_err();
        assert!(errors.len() == 1 && errors[0].starts_with(begins), "{errors:?}");
    }

    #[rstest]
    #[case::as_many(PARTNERS_MAX, true)]
    #[case::one_more(PARTNERS_MAX + 1, false)]
    fn idf7_the_list_is_short(#[case] count: usize, #[case] is_fine: bool) {
        let names: Vec<String> = (0..count).map(|index| format!("s{index}")).collect();
        assert_eq!(parsed(&json!(names)).is_ok(), is_fine);
        let list = of_annotation(&names.join(", ")).unwrap();
        assert_eq!(parsed(&list).is_ok(), is_fine);
    }

    #[rstest]
    #[case::json(r#" ["a", "b"] "#, Some(json!(["a", "b"])))]
    #[case::commas("a, b", Some(json!(["a", "b"])))]
    #[case::one("a", Some(json!(["a"])))]
    #[case::broken(r#"["a""#, None)]
    fn idf7_an_annotation_is_a_list_of_either_form(#[case] text: &str, #[case] list: Option<Value>) {
        assert_eq!(of_annotation(text), list);
    }
}
