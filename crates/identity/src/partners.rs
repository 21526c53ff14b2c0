//! SidecarSets that trust each other: partners (IDF-7, IDF-8).

use pillion_kubernetes::field::{Cause, ERRORS_MAX, FieldError, FieldPath};
use pillion_kubernetes::json;
use pillion_kubernetes::name_validation;
use pillion_kubernetes::unique;
pub use pillion_sidecarset::sidecar_set::origin::Origin;
use serde_json::Value;

use super::declared::{Declared, PARTNERS};

/// The most partners of one SidecarSet (IDF-7).
pub const PARTNERS_MAX: usize = 100;

/// A SidecarSet as seen by another one that may be in the same Pod.
#[derive(Clone, Copy, Debug)]
pub struct Side<'a> {
    /// The name of the SidecarSet.
    pub name: &'a str,
    /// Its identity fields.
    pub declared: &'a Declared,
    /// Where it comes from.
    pub origin: Origin,
}

impl Side<'_> {
    /// Whether the two SidecarSets trust each other: they name each other, or both are of the settings (IDF-8).
    pub fn trusts(&self, other: &Side<'_>) -> bool {
        self.is_of_settings_with(other) || are_partners(self.name, self.declared, other.name, other.declared)
    }

    /// Whether both SidecarSets are of the settings (IDF-8).
    pub fn is_of_settings_with(&self, other: &Side<'_>) -> bool {
        self.origin == Origin::Settings && other.origin == Origin::Settings
    }
}

/// Whether two SidecarSets name each other as partners (IDF-8). A set is no partner of itself.
pub fn are_partners(name: &str, declared: &Declared, other_name: &str, other: &Declared) -> bool {
    let names = |declared: &Declared, wanted: &str| declared.partners.iter().any(|partner| partner == wanted);
    name != other_name && names(declared, other_name) && names(other, name)
}

/// Returns what to write, and where, so that two SidecarSets trust each other. They do not yet.
pub fn remedy(one: &Side<'_>, other: &Side<'_>) -> String {
    let line = |of: &Side<'_>, partner: &Side<'_>| {
        let is_there = of.declared.partners.iter().any(|name| name == partner.name);
        let place = if of.origin == Origin::Settings { " in the policy's settings" } else { "" };
        (!is_there)
            .then(|| format!("\"{}\" to spec.{} of SidecarSet \"{}\"{place}", partner.name, PARTNERS.name, of.name))
    };
    let lines: Vec<String> = [line(one, other), line(other, one)].into_iter().flatten().collect();
    format!("add {}", lines.join(" and "))
}

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

    fn naming(partners: &[&str]) -> Declared {
        Declared { partners: partners.iter().map(|name| (*name).to_owned()).collect(), ..Declared::default() }
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

    #[rstest]
    #[case::each_other(&["b"], &["a"], true)]
    #[case::among_others(&["x", "b"], &["a", "y"], true)]
    #[case::one_alone(&["b"], &[], false)]
    #[case::the_other_alone(&[], &["a"], false)]
    #[case::somebody_else(&["c"], &["c"], false)]
    fn idf8_partners_name_each_other(#[case] a: &[&str], #[case] b: &[&str], #[case] are: bool) {
        let (a, b) = (naming(a), naming(b));
        assert_eq!((are_partners("a", &a, "b", &b), are_partners("b", &b, "a", &a)), (are, are));
    }

    #[rstest]
    #[case::neither(&[], &[], r#"add "b" to spec.serviceAccountPartners of SidecarSet "a" in the policy's settings and "a" to spec.serviceAccountPartners of SidecarSet "b""#)]
    #[case::one(&["b"], &[], r#"add "a" to spec.serviceAccountPartners of SidecarSet "b""#)]
    fn trust2_the_remedy_names_the_missing_lines(#[case] a: &[&str], #[case] b: &[&str], #[case] text: &str) {
        let (a, b) = (naming(a), naming(b));
        let one = Side { name: "a", declared: &a, origin: Origin::Settings };
        let other = Side { name: "b", declared: &b, origin: Origin::Cluster };
        assert_eq!(remedy(&one, &other), text);
    }

    #[rstest]
    #[case::of_the_settings(Origin::Settings, Origin::Settings, true)]
    #[case::of_the_cluster(Origin::Cluster, Origin::Cluster, false)]
    #[case::of_either(Origin::Settings, Origin::Cluster, false)]
    fn idf8_sets_of_the_settings_trust_each_other(#[case] one: Origin, #[case] other: Origin, #[case] trust: bool) {
        let declared = Declared::default();
        let side = |name, origin| Side { name, declared: &declared, origin };
        assert_eq!(side("a", one).trusts(&side("b", other)), trust);
        assert_eq!(side("b", other).trusts(&side("a", one)), trust);
    }
}
