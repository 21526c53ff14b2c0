//! The policy's answers, as the host reads them.

use std::collections::BTreeMap;

use pillion_core::field::FieldError;
use pillion_core::outcome::{Outcome, Verdict};
use serde::Serialize;
use serde_json::Value;

/// The longest warning that the API server passes on, in characters.
const WARNING_MAX: usize = 256;
/// The longest sum of all warnings that it passes on; it counts characters, bytes are never fewer.
const WARNINGS_MAX: usize = 4096;

#[derive(Default, Serialize)]
struct Validation {
    accepted: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<u16>,
    // The host sends a patch for this even beside a refusal, so it is there for mutations only.
    #[serde(skip_serializing_if = "Option::is_none")]
    mutated_object: Option<Value>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    audit_annotations: BTreeMap<&'static str, String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
}

#[derive(Serialize)]
struct Settings {
    valid: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
}

/// The answer of `validate`.
pub fn validation(outcome: Outcome) -> Vec<u8> {
    let Outcome { verdict, warnings, audit } = outcome;
    let answer = Validation { audit_annotations: audit, warnings: within_limits(warnings), ..Validation::default() };
    serialise(&match verdict {
        Verdict::Unchanged => Validation { accepted: true, ..answer },
        Verdict::Mutated(object) => Validation { accepted: true, mutated_object: Some(object), ..answer },
        Verdict::Refused(refusal) => {
            Validation { message: Some(refusal.message()), code: Some(refusal.code().as_u16()), ..answer }
        }
    })
}

/// The answer of `validate_settings`.
pub fn settings(errors: &[FieldError]) -> Vec<u8> {
    let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
    serialise(&Settings { valid: lines.is_empty(), message: (!lines.is_empty()).then(|| lines.join("; ")) })
}

/// None of these types can fail to serialise; if one did, an empty answer is what the host reports as such.
fn serialise(answer: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(answer).unwrap_or_default()
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
            audit: BTreeMap::from([("refused-by", "logs".to_owned())]),
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
