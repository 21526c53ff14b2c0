//! The policy's answers, as the host reads them.

use pillion_core::field::FieldError;
use pillion_core::json;
use pillion_core::outcome::{Outcome, Verdict};
use serde_json::{Map, Value};

/// The longest warning that the API server passes on, in characters.
const WARNING_MAX: usize = 256;
/// The longest sum of all warnings that it passes on; it counts characters, bytes are never fewer.
const WARNINGS_MAX: usize = 4096;

/// The answer of `validate`. What says nothing is left out; `mutated_object` above all, for the host sends a patch
/// for it even beside a refusal.
pub fn validation(outcome: Outcome) -> Vec<u8> {
    let Outcome { verdict, warnings, audit } = outcome;
    let mut answer = Map::new();
    let mut put = |key: &str, value: Value| answer.insert(key.to_owned(), value);
    put("accepted", Value::Bool(!matches!(verdict, Verdict::Refused(_))));
    match verdict {
        Verdict::Unchanged => {}
        Verdict::Mutated(object) => {
            put("mutated_object", object);
        }
        Verdict::Refused(refusal) => {
            put("message", refusal.message().into());
            put("code", refusal.code().as_u16().into());
        }
    }
    if !audit.is_empty() {
        let mut annotations = Map::new();
        for (name, text) in audit {
            annotations.insert(name.to_owned(), text.into());
        }
        put("audit_annotations", Value::Object(annotations));
    }
    if !warnings.is_empty() {
        put("warnings", Value::Array(within_limits(warnings).into_iter().map(Value::String).collect()));
    }
    json::shown(&Value::Object(answer)).into_bytes()
}

/// The answer of `validate_settings`.
pub fn settings(errors: &[FieldError]) -> Vec<u8> {
    let mut answer = Map::new();
    answer.insert("valid".to_owned(), Value::Bool(errors.is_empty()));
    if !errors.is_empty() {
        let mut message = String::new();
        for error in errors {
            if !message.is_empty() {
                message.push_str("; ");
            }
            message.push_str(&error.to_string());
        }
        answer.insert("message".to_owned(), message.into());
    }
    json::shown(&Value::Object(answer)).into_bytes()
}

/// Cuts warnings to what fits: one line each, at most [`WARNING_MAX`] characters, and [`WARNINGS_MAX`] bytes in
/// all, the last line counting those that are left out.
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
    use pillion_core::field::FieldPath;
    use pillion_core::outcome::{Code, Reason, Refusal};
    use serde_json::json;

    use super::*;

    fn answer(outcome: Outcome) -> Value {
        serde_json::from_slice(&validation(outcome)).unwrap()
    }

    #[test]
    fn answers_carry_only_what_they_say() {
        assert_eq!(answer(Verdict::Unchanged.into()), json!({"accepted": true}));
        assert_eq!(
            answer(Verdict::Mutated(json!({"a": 1})).into()),
            json!({"accepted": true, "mutated_object": {"a": 1}})
        );
        let refusal = Refusal::from(Reason {
            sidecar_set: Some("logs".to_owned()),
            field: FieldPath::new("spec.selector"),
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
            json!({
                "accepted": false, "code": 422, "message": "SidecarSet \"logs\": spec.selector: is wrong; mend it",
                "audit_annotations": {"refused-by": "logs"}, "warnings": ["look"]
            })
        );
    }

    #[test]
    fn numbers_keep_their_literals() {
        let pod: Value = serde_json::from_str(r#"{"n": 1234567890123456789012345.50}"#).unwrap();
        let bytes = validation(Verdict::Mutated(pod).into());
        assert!(String::from_utf8(bytes).unwrap().contains(r#"{"n":1234567890123456789012345.50}"#));
    }

    #[test]
    fn settings_are_valid_or_say_everything_that_is_wrong() {
        let read = |errors: &[FieldError]| serde_json::from_slice::<Value>(&settings(errors)).unwrap();
        assert_eq!(read(&[]), json!({"valid": true}));
        let error = |path| FieldError::required(&FieldPath::new(path), "give one");
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
