//! The module, and the checks of its answers.

use std::collections::BTreeMap;
use std::fs;
use std::time::Instant;

use anyhow::Context as _;
use pillion_bench::engine::Counter;
use pillion_testkit::module;
use serde::Deserialize;
use serde_json::Value;

use crate::corpus::Named;
use crate::cost::judge::{BOUNDS, LENGTH};
use crate::cost::samples;
use crate::cost::survey::TIME;
use crate::document::Call;

/// The codes of refusals: undecodable, refused by a rule, wrong fields, try again.
const CODES: [u16; 4] = [400, 403, 422, 503];
/// The longest warning that the API server passes on, in characters.
const WARNING_MAX: usize = 256;

/// The module. Its evaluations trap beyond the bounds of a mebibyte of input.
pub struct Policy {
    counter: Counter,
}

/// The answer of `validate`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Response {
    /// Whether the request is admitted.
    pub accepted: bool,
    /// The reason for a refusal.
    pub message: Option<String>,
    /// The HTTP status of a refusal.
    pub code: Option<u16>,
    /// The object as changed by the policy.
    pub mutated_object: Option<Value>,
    audit_annotations: Option<BTreeMap<String, String>>,
    warnings: Option<Vec<String>>,
}

/// The answer of `validate_settings`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Validity {
    /// Whether the settings are valid.
    pub valid: bool,
    /// The error in the settings; absent if they are valid.
    pub message: Option<String>,
}

/// An answer.
#[derive(Debug)]
pub enum Answer {
    /// The answer of `validate`.
    Validate(Response),
    /// The answer of `validate_settings`.
    Settings(Validity),
    /// No answer: the input is too long for the bounds.
    TooLong,
}

impl Policy {
    /// Compiles the module that `PILLION_MODULE` names, otherwise one built from these sources.
    ///
    /// # Errors
    /// If the module cannot be read, or is not a module of the waPC protocol.
    pub fn load() -> anyhow::Result<Self> {
        let path = module::path();
        let bytes = fs::read(&path).with_context(|| path.display().to_string())?;
        Ok(Self { counter: Counter::bounded(&bytes, BOUNDS)? })
    }

    /// Returns the samples of the cost survey that call `function`. They have every list and map that the policy reads.
    ///
    /// # Errors
    /// If the policy refuses a sample from which another one is built.
    pub fn samples(&self, function: &str) -> anyhow::Result<Vec<Named>> {
        let samples = samples::all(&self.counter)?.into_iter().filter(|sample| sample.function() == function);
        Ok(samples.map(|sample| Named { name: sample.name().to_owned(), input: sample.document().clone() }).collect())
    }

    /// Evaluates a document and checks the answer.
    ///
    /// # Errors
    /// If the module traps, reports an error, exceeds the bounds, or gives an answer that a host cannot use.
    pub fn answer(&self, document: &Value) -> anyhow::Result<Answer> {
        let call = Call::from_document(document)?;
        if call.length > LENGTH {
            return Ok(Answer::TooLong);
        }
        let start = Instant::now();
        let counts = self
            .counter
            .count(&call.function, &call.payload, &call.objects)
            .with_context(|| format!("{} bytes of input", call.length))?;
        let time = start.elapsed();
        anyhow::ensure!(time < TIME, "{} bytes of input take {time:?}", call.length);
        let wrong = || format!("the answer {}", String::from_utf8_lossy(&counts.answer));
        if call.function == "validate_settings" {
            let validity: Validity = serde_json::from_slice(&counts.answer).with_context(wrong)?;
            validity.check().with_context(wrong)?;
            return Ok(Answer::Settings(validity));
        }
        let response: Response = serde_json::from_slice(&counts.answer).with_context(wrong)?;
        response.check().with_context(wrong)?;
        Ok(Answer::Validate(response))
    }
}

impl Response {
    fn check(&self) -> anyhow::Result<()> {
        let says_why = self.message.as_ref().is_some_and(|message| !message.is_empty());
        if self.accepted {
            anyhow::ensure!(self.code.is_none() && self.message.is_none(), "accepts, and says why not");
        } else {
            anyhow::ensure!(self.code.is_some_and(|code| CODES.contains(&code)), "refuses with another code");
            anyhow::ensure!(says_why, "refuses and does not say why");
            anyhow::ensure!(self.mutated_object.is_none(), "refuses, and changes the object");
        }
        let lines = self.warnings.iter().flatten();
        let is_line = |line: &String| line.chars().count() <= WARNING_MAX && !line.contains(char::is_control);
        anyhow::ensure!(lines.clone().all(is_line), "a warning is not a short line");
        anyhow::ensure!(
            self.audit_annotations.iter().flatten().all(|(key, _)| !key.is_empty()),
            "an annotation has no key"
        );
        Ok(())
    }
}

impl Validity {
    fn check(&self) -> anyhow::Result<()> {
        let says_why = self.message.as_ref().is_some_and(|message| !message.is_empty());
        anyhow::ensure!(says_why != self.valid, "settings are either valid, or the message says what is wrong");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{from_value, json};

    use super::*;

    #[rstest]
    #[case::accepted(json!({"accepted": true}), true)]
    #[case::changed(json!({"accepted": true, "mutated_object": {}, "warnings": ["look"]}), true)]
    #[case::refused(json!({"accepted": false, "code": 422, "message": "no"}), true)]
    #[case::internal_error(json!({"accepted": false, "code": 500, "message": "no"}), false)]
    #[case::silent(json!({"accepted": false, "code": 422}), false)]
    #[case::refused_and_changed(json!({"accepted": false, "code": 422, "message": "no", "mutated_object": {}}), false)]
    #[case::two_lines(json!({"accepted": true, "warnings": ["one\ntwo"]}), false)]
    fn an_answer_says_what_a_host_can_use(#[case] answer: Value, #[case] is_good: bool) {
        let response: Response = from_value(answer).unwrap();
        assert_eq!(response.check().is_ok(), is_good);
    }

    #[rstest]
    #[case(json!({"valid": true}), true)]
    #[case(json!({"valid": false, "message": "wrong"}), true)]
    #[case(json!({"valid": false, "message": ""}), false)]
    #[case(json!({"valid": true, "message": "wrong"}), false)]
    fn invalid_settings_come_with_a_message(#[case] answer: Value, #[case] is_good: bool) {
        let validity: Validity = from_value(answer).unwrap();
        assert_eq!(validity.check().is_ok(), is_good);
    }
}
