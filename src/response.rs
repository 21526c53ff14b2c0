//! Encodes the policy's answers for the host.

use kubewarden_policy_sdk::response::ValidationResponse;
use kubewarden_policy_sdk::settings::SettingsValidationResponse;
use pillion_kubernetes::field::FieldError;
use pillion_kubernetes::outcome::{Outcome, Refusal, Verdict};
use serde::ser::{Serialize, SerializeMap as _, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;
use wapc_guest::CallResult;

use crate::payload::MANAGED_FIELDS;

/// The maximum length of a warning that the API server passes on, in characters.
const WARNING_MAX: usize = 256;
/// The maximum length of all warnings together that the API server passes on. It counts characters; bytes are never
/// fewer.
const WARNINGS_MAX: usize = 4096;

/// Encodes the answer of `validate`. A refusal has no `mutated_object`: the host would send a patch for it even so. A
/// changed object gets the [`MANAGED_FIELDS`] that it lacks.
pub fn validation(outcome: Outcome, managed_fields: Option<&RawValue>) -> CallResult {
    let Outcome { verdict, warnings, audit } = outcome;
    let accepted = !matches!(verdict, Verdict::Refused(_));
    let (mutated_object, refusal) = match verdict {
        Verdict::Unchanged => (None, None),
        Verdict::Mutated(object) => (Some(object), None),
        Verdict::Refused(refusal) => (None, Some(refusal)),
    };
    let response = ValidationResponse {
        accepted,
        message: refusal.as_ref().map(Refusal::message),
        code: refusal.as_ref().map(|refusal| refusal.code().as_u16()),
        mutated_object: None,
        audit_annotations: (!audit.is_empty())
            .then(|| audit.into_iter().map(|(name, text)| (name.to_owned(), text)).collect()),
        warnings: (!warnings.is_empty()).then(|| within_limits(warnings)),
    };
    // The SDK keeps the annotations in an unordered map. As a JSON object they are sorted, so the same input gives the
    // same bytes.
    let response = serde_json::to_value(response)?;
    let Some(object) = mutated_object else { return Ok(serde_json::to_vec(&response)?) };
    let whole = With { object: &object, path: &["metadata", MANAGED_FIELDS], value: managed_fields };
    Ok(serde_json::to_vec(&With { object: &response, path: &["mutated_object"], value: Some(&whole) })?)
}

/// An object that is written with one more member, at this path of keys.
struct With<'a, T: ?Sized> {
    object: &'a Value,
    path: &'a [&'a str],
    value: Option<&'a T>,
}

impl<T: Serialize + ?Sized> Serialize for With<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (Value::Object(members), [key, below @ ..], Some(value)) = (self.object, self.path, self.value) else {
            return self.object.serialize(serializer);
        };
        let mut map = serializer.serialize_map(None)?;
        for (own, member) in members {
            if own != key {
                map.serialize_entry(own, member)?;
            } else if !below.is_empty() {
                map.serialize_entry(own, &With { object: member, path: below, value: self.value })?;
            }
        }
        if below.is_empty() {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

/// Encodes the answer of `validate_settings`.
pub fn settings(errors: &[FieldError]) -> CallResult {
    let valid = errors.is_empty();
    let message = errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    Ok(serde_json::to_vec(&SettingsValidationResponse { valid, message: (!valid).then_some(message) })?)
}

/// Cuts warnings to the limits: one line each, at most [`WARNING_MAX`] characters, and [`WARNINGS_MAX`] bytes in all.
/// If some are left out, the last line tells how many.
fn within_limits(warnings: Vec<String>) -> Vec<String> {
    let all = warnings.len();
    let lines: Vec<String> = warnings.into_iter().map(|warning| one_line(&warning)).collect();
    let total: usize = lines.iter().map(String::len).sum();
    if total <= WARNINGS_MAX {
        return lines;
    }
    let room = WARNINGS_MAX - more(all).len();
    let mut used = 0;
    let mut kept: Vec<String> = lines
        .into_iter()
        .take_while(|line| {
            used += line.len();
            used <= room
        })
        .collect();
    kept.push(more(all - kept.len()));
    kept
}

fn more(count: usize) -> String {
    format!("and {count} more warnings")
}

fn one_line(warning: &str) -> String {
    let line = warning.split(char::is_control).filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ");
    if line.chars().count() <= WARNING_MAX {
        return line;
    }
    line.chars().take(WARNING_MAX - 3).chain("...".chars()).collect()
}

#[cfg(test)]
mod tests {
    use pillion_kubernetes::outcome::{Code, Reason, Refusal};
    use serde_json::json;

    use super::*;

    fn answer(outcome: Outcome) -> Value {
        serde_json::from_slice(&validation(outcome, None).unwrap()).unwrap()
    }

    /// Returns an answer in which only the members of `said` are not null.
    fn saying(said: &Value) -> Value {
        let mut answer = json!({
            "accepted": true, "message": null, "code": null, "mutated_object": null, "audit_annotations": null, "warnings": null
        });
        json_patch::merge(&mut answer, said);
        answer
    }

    #[test]
    fn answers_carry_only_what_they_say() {
        assert_eq!(answer(Verdict::Unchanged.into()), saying(&json!({})));
        assert_eq!(answer(Verdict::Mutated(json!({"a": 1})).into()), saying(&json!({"mutated_object": {"a": 1}})));
        let refusal = Refusal::from(Reason {
            sidecar_set: Some("logs".to_owned()),
            field: "spec.selector".to_owned(),
            problem: "is wrong".to_owned(),
            remedy: "mend it".to_owned(),
            code: Code::Invalid,
        });
        let outcome = Outcome {
            audit: [("refused-by", "logs".to_owned())].into(),
            warnings: vec!["look".to_owned()],
            ..refusal.into()
        };
        assert_eq!(
            answer(outcome),
            saying(&json!({
                "accepted": false, "code": 422, "message": "SidecarSet \"logs\": spec.selector: is wrong; mend it",
                "audit_annotations": {"refused-by": "logs"}, "warnings": ["look"]
            }))
        );
    }

    #[test]
    fn numbers_keep_their_literals() {
        let pod: Value = serde_json::from_str(r#"{"n": 1234567890123456789012345.50}"#).unwrap();
        let bytes = validation(Verdict::Mutated(pod).into(), None).unwrap();
        assert!(String::from_utf8(bytes).unwrap().contains(r#"{"n":1234567890123456789012345.50}"#));
    }

    #[test]
    fn a_changed_pod_gets_its_managed_fields_back() {
        let text: Box<RawValue> = serde_json::from_str(r#"[{"b": 1.50, "a": 2}]"#).unwrap();
        let answer = |verdict: Verdict| String::from_utf8(validation(verdict.into(), Some(&text)).unwrap()).unwrap();
        let pod = answer(Verdict::Mutated(json!({"metadata": {"name": "p"}, "spec": {"metadata": {}}})));
        let expected = r#"{"metadata":{"name":"p","managedFields":[{"b": 1.50, "a": 2}]},"spec":{"metadata":{}}}"#;
        assert!(pod.contains(expected), "{pod}");
        assert!(!answer(Verdict::Unchanged).contains("1.50"));
    }

    #[test]
    fn audit_annotations_have_an_order() {
        let audit = ["b", "d", "a", "c", "e"].map(|name| (name, String::new())).into();
        let bytes = validation(Outcome { audit, ..Verdict::Unchanged.into() }, None).unwrap();
        assert!(String::from_utf8(bytes).unwrap().contains(r#"{"a":"","b":"","c":"","d":"","e":""}"#));
    }

    #[test]
    fn settings_are_valid_or_say_everything_that_is_wrong() {
        let read = |errors: &[FieldError]| serde_json::from_slice::<Value>(&settings(errors).unwrap()).unwrap();
        assert_eq!(read(&[]), json!({"valid": true, "message": null}));
        let error = |path| FieldError::required(path, "give one");
        assert_eq!(
            read(&[error("a"), error("b")]),
            json!({"valid": false, "message": "a: Required value: give one; b: Required value: give one"})
        );
    }

    #[test]
    fn warnings_are_single_short_lines() {
        let limited = |text: &str| within_limits(vec![text.to_owned()]).remove(0);
        assert_eq!(limited("plain"), "plain");
        assert_eq!(limited("two\r\nlines\tand\u{7f}more\n"), "two lines and more");
        assert_eq!(limited(&"é".repeat(256)), "é".repeat(256));
        let cut = limited(&"é".repeat(257));
        assert_eq!(cut.chars().count(), 256);
        assert!(cut.ends_with("é..."));
    }

    #[test]
    fn warnings_stay_within_the_total_and_count_the_rest() {
        let fitting = within_limits(vec!["x".repeat(256); 16]);
        assert_eq!(fitting.len(), 16);
        let cut = within_limits(vec!["é".repeat(128); 40]);
        assert_eq!(cut.len(), 16);
        assert_eq!(cut.last().map(String::as_str), Some("and 25 more warnings"));
        assert!(cut.iter().map(String::len).sum::<usize>() <= 4096);
    }
}
